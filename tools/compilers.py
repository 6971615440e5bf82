#!/usr/bin/env python3
"""Compile what a microcontroller gets with every C++ compiler that is here, with all warnings and no output.

    tools/compilers.py [build folder]        # build/dev: its generated headers; status 1 when a file does not compile

For: gcc 11 to 14 and clang 14 to 19, of which Debian bookworm has gcc 11 and 12 and clang 14, 15, 16 and 19, and GNU
Arm Embedded, whose int32_t is a long. What is not installed is named, and was not tried. Not for: programs; the other
checks link and run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from flatc import find

ROOT = Path(__file__).resolve().parent.parent
#: Compiler -> what it takes beside FLAGS. Formats of texts are written for int32_t that is an int.
COMPILERS: dict[str, tuple[str, ...]] = {
    **{f"g++-{n}": () for n in range(11, 15)},
    **{f"clang++-{n}": () for n in range(14, 20)},
    "arm-none-eabi-g++": ("-mcpu=cortex-m3", "-mthumb", "-D__int64_t_defined=1", "-Wno-format"),
}
FOLDERS = ("base", "numerics", "schema", "runtime", "platform", "kernels")
#: Ports of systems and processors that are not here, folders for hosts, and what a bare compiler has no headers for.
LEFT_OUT = {"freertos.cpp", "zephyr.cpp", "semihosting.cpp", "platform_bare.cpp"}
HOSTED_FOLDERS = {"host", "optimized"}
POSIX = {"platform_posix.cpp", "posix.cpp"}
FLAGS = (
    "-std=c++17", "-fsyntax-only", "-fno-exceptions", "-fno-rtti", "-O1",
    "-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-psabi",
)  # fmt: skip


def sources() -> list[Path]:
    """The files, in the order of their names."""
    found = [path for folder in FOLDERS for path in (ROOT / "src/cpp" / folder).glob("**/*.cpp")]
    return sorted(path for path in found if path.name not in LEFT_OUT and not HOSTED_FOLDERS & {*path.parts})


def refused(compiler: str, includes: list[str], file: Path) -> str:
    """What the compiler says against a file; nothing when it takes it."""
    command = [compiler, *COMPILERS[compiler], *FLAGS, *includes, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"{file.relative_to(ROOT)}\n{done.stderr.strip()[:1500]}"


def main() -> int:
    tree = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/dev"
    includes = [f"-I{ROOT}/src/cpp", f"-I{tree}/generated", "-isystem", str(find().include)]
    status = 0
    for compiler in COMPILERS:
        if shutil.which(compiler) is None:
            print(f"{compiler:<18}not installed, not tried")
            continue
        files = [path for path in sources() if compiler != "arm-none-eabi-g++" or path.name not in POSIX]
        with ThreadPoolExecutor() as pool:
            said = [text for text in pool.map(partial(refused, compiler, includes), files) if text]
        print(f"{compiler:<18}{len(files) - len(said)} of {len(files)} files without a warning", flush=True)
        print("\n".join(said), end="\n" if said else "")
        status |= bool(said)
    return status


if __name__ == "__main__":
    sys.exit(main())
