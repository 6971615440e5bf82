#!/usr/bin/env python3
"""Write the headers of the CMake package: ours under the prefix executorch_py/, and the published names beside them.

    tools/package_headers.py --sources src/cpp --published cmake/package/published_headers.txt --out
    build/dev/package/include

Every installed header names the others by the prefix, so that a user's own "base/log.h" is never taken for ours. A file
is touched only when its content changes, and a header that is gone from the sources goes from the output.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

PREFIX = "executorch_py"
FOLDERS = (
    "base",
    "numerics",
    "runtime",
    "devtools",
    "threads",
    "platform",
    "builtin",
    "extension",
    "c_api",
    "training",
    "kernels/portable",
)
#: Of these libraries, the function that registers them.
REGISTERED = ("prim", "optimized", "quantized", "cortex_m")
#: Headers that are nobody else's; so are those that include what the build generates from schemas.
INTERNAL = {"flatbuffer_views.h", "method_loader.h", "open_file.h", "native_pool.h", "tracing.h", "kernel_costs.h"}
INCLUDE = re.compile(r'^(\s*#\s*include\s*)"([^"]+)"', re.MULTILINE)


def sources(root: Path) -> Iterator[Path]:
    """The headers that are installed, relative to the root."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if (
                path.suffix in (".h", ".def")
                and path.name not in INTERNAL
                and '"schema/' not in path.read_text("utf-8")
            ):
                yield path.relative_to(root)
    yield Path("ops/signature.h")  # of a kernel with state
    yield from (Path(f"kernels/{library}/register.h") for library in REGISTERED)


def headers(root: Path, published: Path) -> dict[Path, str]:
    """The text of each installed header by its path below the prefix.

    Raises:
        ValueError: A line of the table names no header of ours, or one that is there already; a header includes one
            that is not installed.
    """
    ours = {path: (root / path).read_text(encoding="utf-8") for path in sources(root)}

    def with_prefix(match: re.Match[str]) -> str:
        if Path(match[2]) not in ours and not match[2].startswith("aten/"):
            raise ValueError(f"{match[2]} is included by an installed header and is not installed")
        return f'{match[1]}"{PREFIX}/{match[2]}"'

    written = {path: INCLUDE.sub(with_prefix, text) for path, text in ours.items()}
    for number, line in enumerate(published.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, behind = map(Path, line.split())
        if behind not in ours or name in written:
            raise ValueError(f"{published.name}:{number}: '{behind}' is no header, or '{name}' is there already")
        includes = sorted({Path("extension/published.h"), behind})
        lines = "".join(f'#include "{PREFIX}/{path.as_posix()}"\n' for path in includes)
        written[name] = f"// The published name of {behind.as_posix()}.\n#pragma once\n\n{lines}"
    return written


def main() -> None:
    """Writes them all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    wanted = headers(arguments.sources, arguments.published)
    out = arguments.out / PREFIX
    for path, text in wanted.items():
        place = out / path
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    for path in out.rglob("*"):
        if path.is_file() and path.relative_to(out) not in wanted:
            path.unlink()


if __name__ == "__main__":
    main()
