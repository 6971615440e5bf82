#!/usr/bin/env python3
"""Check the arrows between the layers: which folder of C++ may include which, and which libraries from outside.

Those of the Python packages stand in python_layers.py, which this runs as well. The tables are the rule;
docs/ARCHITECTURE.md repeats them for people and tests/meta keeps them equal.

    tools/check_layers.py            # prints "file:line: reason" for each wrong include; status 1 if there is any
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP = ROOT / "src" / "cpp"

_RUNTIME_SIDE = ("base", "numerics", "ops", "schema", "runtime", "threads", "kernels")
_HOST_SIDE = ("platform", "devtools", "training", "builtin", "extension", "c_api")
_ALL = (*_RUNTIME_SIDE, *_HOST_SIDE, "ir", "passes", "delegation", "planning", "emit", "driver", "backends")

# folder of src/cpp -> folders it may include beside itself
MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    "base": (),
    "numerics": ("base",),
    "ops": ("base",),
    "schema": ("base",),
    "ir": ("base", "ops"),
    "passes": ("base", "numerics", "ops", "ir"),
    "delegation": ("base", "ops", "ir", "passes"),
    "planning": ("base", "ops", "ir"),
    "emit": ("base", "numerics", "ops", "schema", "ir"),
    "runtime": ("base", "numerics", "ops", "schema"),
    "devtools": ("base", "schema", "runtime"),
    "training": ("base", "schema", "runtime"),
    "threads": ("base",),
    "platform": ("base", "runtime", "threads"),
    "kernels": ("base", "numerics", "ops", "runtime", "threads"),
    "builtin": (*_RUNTIME_SIDE, "backends"),
    "extension": ("base", "runtime", "threads", "builtin"),
    "c_api": ("base", "runtime", "threads", "extension"),
    "driver": _ALL,
    "bindings": _ALL,
    "tools": _ALL,
    "aten": ("base", "ops", "schema", "runtime", "kernels"),
}

# family of kernels/optimized -> families it may include beside itself; its CMakeLists.txt links the same ones
KERNEL_FAMILIES: dict[str, tuple[str, ...]] = {
    "vec": (),
    "pointwise": ("vec",),
    "reduce": ("vec",),
    "norm": ("vec",),
    "move": ("vec",),
    "order": ("vec",),
    "random": ("vec",),
    "resize": ("vec",),
    "pool": ("vec",),
    "fft": ("vec",),
    "attention": ("vec",),
    "amx": ("vec",),
    "matmul": ("vec", "amx"),
    "conv": ("vec", "matmul", "amx", "move"),
    "quantized": ("vec", "attention", "pointwise", "conv", "amx", "move", "pool"),
    "recurrent": ("vec", "quantized"),
    "sparse": ("vec", "matmul", "conv"),
    "linalg": ("vec", "matmul"),
}

# part of a backend -> folders it may include beside its own backend's schema and costs, and its own part (runtime: also
# its kernels)
BACKEND_MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    "compiler": ("base", "numerics", "ops", "ir", "passes"),
    "runtime": ("base", "numerics", "ops", "runtime", "threads"),
    "kernels": ("base", "numerics", "ops", "runtime", "threads"),
    "costs": ("base", "ops"),
}

# single includes that the tables would refuse, with the reason
EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "runtime/kernel_types.h",
        "aten/kernel_types.h",
    ): "the alias header that kernels see: ATen mode swaps the tensor type here",
}

# first word of an outside include -> folders that may have it; backends may include what their vendor gives
OUTSIDE: dict[str, tuple[str, ...]] = {
    "flatbuffers": ("schema", "emit", "runtime", "devtools", "training", "driver", "bindings", "tools"),
    "pthreadpool": ("threads",),
    "hwy": ("kernels/optimized",),
    "pybind11": ("bindings",),
    "Python": ("bindings",),
    "numpy": (),
    "torch": ("aten", "extension/aten_util"),
    "ATen": ("aten", "extension/aten_util"),
    "c10": ("aten", "extension/aten_util"),
    "xnnpack": (),
    "cpuinfo": (),
}

# What must run on a microcontroller prints nothing and needs no streams, no threads of the standard library, no RTTI.
FREESTANDING = ("base", "numerics", "schema", "runtime", "devtools", "platform", "kernels/portable", "kernels/prim",
                "kernels/cortex_m")  # fmt: skip
NOT_FREESTANDING = ("iostream", "ostream", "istream", "fstream", "sstream", "iomanip", "regex", "thread", "mutex",
                    "future",
                    "condition_variable", "typeinfo", "filesystem", "exception", "stdexcept")  # fmt: skip
# Files that need an operating system, left out of a microcontroller's build.
HOSTED_FILES = re.compile(r"(runtime|devtools)/host/.*")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def sources(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.suffix in (".h", ".cpp", ".inc") and path.is_file())


def includes(path: Path) -> Iterator[tuple[int, bool, str]]:
    """Line number, whether in angle brackets, and name of each include."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] == "<", match[2]


def within(folder: str, places: tuple[str, ...]) -> bool:
    return any(folder == place or folder.startswith(f"{place}/") for place in places)


def check_core() -> Iterator[str]:
    for path in sources(CPP):
        relative = path.relative_to(CPP).as_posix()
        folder = relative.rpartition("/")[0]
        layer = relative.split("/")[0]
        if layer not in MAY_INCLUDE:
            yield f"src/cpp/{relative}:1: '{layer}' is no layer; add it to tools/check_layers.py with its reason"
            continue
        for number, outside, name in includes(path):
            where = f"src/cpp/{relative}:{number}"
            first = re.split(r"[/.]", name)[0]
            if (relative, name) in EXCEPTIONS:
                continue
            if not outside and first not in OUTSIDE:
                if "/" in name and first != layer and first not in MAY_INCLUDE[layer]:
                    yield f"{where}: {layer} may not include {first} ({name})"
            elif first in OUTSIDE and not within(folder, OUTSIDE[first]):
                yield f"{where}: <{name}> belongs to {', '.join(OUTSIDE[first]) or 'backends'} only"
            elif name in NOT_FREESTANDING and within(folder, FREESTANDING) and not HOSTED_FILES.match(relative):
                yield f"{where}: <{name}> in code that must run on a microcontroller"


def check_kernel_families() -> Iterator[str]:
    prefix = "kernels/optimized/"
    for path in sources(CPP / prefix):
        family, _, rest = path.relative_to(CPP / prefix).as_posix().partition("/")
        if rest and family not in KERNEL_FAMILIES:
            yield f"{path.relative_to(ROOT)}:1: '{family}' is no family; add it to tools/check_layers.py"
            continue
        for number, _, name in includes(path):
            other, _, header = name.removeprefix(prefix).partition("/")
            if name.startswith(prefix) and header and rest and other not in (family, *KERNEL_FAMILIES[family]):
                yield f"{path.relative_to(ROOT)}:{number}: {family} may not include {other} ({name})"


def check_backends() -> Iterator[str]:
    for path in sources(ROOT / "backends"):
        relative = path.relative_to(ROOT).as_posix()
        backend, _, rest = relative.removeprefix("backends/").partition("/")
        part = rest.split("/")[0]
        if part not in BACKEND_MAY_INCLUDE:
            yield f"{relative}:1: C++ of a backend lies in {', '.join(BACKEND_MAY_INCLUDE)}"
            continue
        for number, outside, name in includes(path):
            if outside or "/" not in name or name.split("/")[0] in OUTSIDE:
                continue
            if name.startswith("backends/"):
                # What the runtime and the kernels stand on, one device or one library, they may share.
                shared = ("runtime", "kernels") if part in ("runtime", "kernels") else (part,)
                own = [f"backends/{backend}/{folder}/" for folder in ("schema", "costs", *shared)]
                if not name.startswith((*own, f"backends/{backend}/kernels.h")):
                    yield f"{relative}:{number}: a backend's {part} may not include {name}"
            elif name.split("/")[0] not in BACKEND_MAY_INCLUDE[part]:
                yield f"{relative}:{number}: a backend's {part} may not include {name.split('/')[0]} ({name})"


def main() -> int:
    import python_layers

    wrong = [*check_core(), *check_kernel_families(), *check_backends(), *python_layers.check()]
    print("\n".join(wrong) if wrong else "layers: every include and import points down, and no imports go in a circle")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
