#!/usr/bin/env python3
"""Measure the runtime alone: its bytes of code and data at -Os, verifiers included, and where they come from.

    tools/size_report.py                 # prints a table; status 1 when the budget is exceeded
    tools/size_report.py --messages      # the same with the texts of error messages

A program that uses the whole runtime is linked with unused sections left out; the size of an empty program is taken off.
C library and C++ library are shared objects there and count nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 45_000  # bytes of text and data on x86-64
OPTIONS = ("COMPILER", "PYTHON", "TOOLS", "THREADS", "OPTIMIZED", "TESTS")


def build(tree: Path, messages: bool) -> None:
    """Configures and builds the two programs."""
    options = [f"-DET_BUILD_{name}=OFF" for name in OPTIONS]
    options += ["-DET_BACKENDS=", "-DET_SIZE_BUILD=ON", f"-DET_STRIP_MESSAGES={'OFF' if messages else 'ON'}"]
    configure = [
        "cmake",
        "-S",
        str(ROOT),
        "-B",
        str(tree),
        "-G",
        "Ninja",
        f"-DPython_EXECUTABLE={sys.executable}",
        *options,
    ]
    for command in (configure, ["ninja", "-C", str(tree), "size_probe", "size_empty"]):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"size: '{' '.join(command[:3])} ...' failed:\n{result.stdout[-4000:]}{result.stderr[-4000:]}")


def text_and_data(program: Path) -> int:
    """Bytes of code, constants and initialised data of a program."""
    text, data = (
        subprocess.run(["size", program], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()[:2]
    )
    return int(text) + int(data)


def by_object(map_file: Path) -> Counter[str]:
    """Bytes of each of our object files that the linker kept, from its map."""
    kept = map_file.read_text().split("Linker script and memory map")[1]
    entry = re.compile(
        r"^ \.(?:text|rodata|data)[^\s]*\s+0x[0-9a-f]+\s+0x([0-9a-f]+) .*libet_(\w+)\.a\((\w+)\.", re.MULTILINE
    )
    sizes: Counter[str] = Counter()
    for size, library, name in entry.findall(kept.replace("\n                0x", "  0x")):
        sizes[f"{library}/{name}"] += int(size, 16)
    return sizes


def measure(messages: bool = False) -> tuple[int, Counter[str]]:
    """Builds and measures: bytes of text and data of the runtime, and its parts."""
    tree = ROOT / "build" / ("size-messages" if messages else "size")
    build(tree, messages)
    return text_and_data(tree / "bin/size_probe") - text_and_data(tree / "bin/size_empty"), by_object(
        tree / "size_probe.map"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the runtime alone at -Os.")
    parser.add_argument("--messages", action="store_true", help="keep the texts of error messages")
    arguments = parser.parse_args()
    total, parts = measure(arguments.messages)
    print(f"{'object':<40}{'bytes':>8}")
    for name, size in parts.most_common():
        print(f"{name:<40}{size:>8,}")
    print(f"{'everything else (probe, tables, unwinding)':<40}{total - sum(parts.values()):>6,}")
    print(f"{'runtime, text + data':<40}{total:>8,}   budget {BUDGET:,}: {'ok' if total < BUDGET else 'EXCEEDED'}")
    return 0 if total < BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
