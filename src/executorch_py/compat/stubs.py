"""Stubs of the modules that ``finder.py`` makes, for type checkers and editors. The build writes them beside the
package.

    python -m executorch_py.compat.stubs FOLDER     # FOLDER gets executorch_py-stubs

They are a partial stub package (PEP 561): a checker finds all other modules in the package itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from executorch_py.compat.published import MODULES


def stub_of(places: str) -> str:
    """The text of one stub."""
    lines = []
    for place in filter(None, places.split(";")):
        module, _, listed = place.strip().partition(": ")
        for one in listed.split(","):
            name, _, other = one.strip().partition("=")
            what = "*" if name == "*" else f"{other or name} as {name}"
            lines.append(f"from executorch_py.{module} import {what}")
    return "".join(f"{line}\n" for line in lines)


def write(folder: Path, package: Path) -> list[Path]:
    """Writes all stubs below ``folder``, except where ``package`` has the module as a file; returns their paths."""
    written = []
    packages = {"/".join(path.split(".")[:count]) for path in MODULES for count in range(1, path.count(".") + 1)}
    for path, places in MODULES.items():
        inner = path.replace(".", "/")
        if (package / f"{inner}.py").exists() or (package / inner / "__init__.py").exists():
            continue
        written.append(folder / (f"{inner}/__init__.pyi" if inner in packages else f"{inner}.pyi"))
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_text(stub_of(places))
    return written


def main(folder: str) -> None:
    """Writes the stub package."""
    stubs = Path(folder) / "executorch_py-stubs"
    write(stubs, Path(__file__).parents[1])
    (stubs / "py.typed").write_text("partial\n")


if __name__ == "__main__":
    main(sys.argv[1])
