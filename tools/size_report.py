#!/usr/bin/env python3
"""Measure the runtime alone: its bytes of code and data at -Os, verifiers included, and where they come from.

    tools/size_report.py                 # prints a table; status 1 when the budget is exceeded
    tools/size_report.py --messages      # the same with the texts of error messages
    tools/size_report.py --tracer        # the same with the event tracer

A program that uses the whole runtime is linked with link-time optimisation and without unused sections; the size of an
empty program is taken off. C library and C++ library are shared objects there and count nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 40_000  # bytes of text and data on x86-64
OPTIONS = ("COMPILER", "PYTHON", "TOOLS", "THREADS", "OPTIMIZED", "TESTS")


def build(tree: Path, messages: bool, tracer: bool) -> None:
    """Configures and builds the two programs."""
    options = [f"-DET_BUILD_{name}=OFF" for name in OPTIONS]
    options += ["-DET_BACKENDS=", "-DET_SIZE_BUILD=ON", f"-DET_STRIP_MESSAGES={'OFF' if messages else 'ON'}"]
    options += [f"-DET_EVENT_TRACER={'ON' if tracer else 'OFF'}"]
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


# part -> what the demangled names of its functions and tables have; the first that fits counts
PARTS = {
    "verifying and loading a program": r"Verif|verify_|^flatbuffers::|is_utf8|Program::|schema::|load_segment|external",
    "loading a method": r"MethodLoader|MethodBinder|bind_|signature_accepts",
    "running a method": r"Method::|Session|KernelContext|Method\b",
    "tensors, kernels, backends": r"et::",
}


def by_part(program: Path) -> Counter[str]:
    """Bytes of the parts of the runtime, from the symbols of the program."""
    table = subprocess.run(["nm", "-C", "-S", "-t", "d", program], capture_output=True, text=True, check=True).stdout
    sizes: Counter[str] = Counter()
    seen = set()
    for address, size, name in re.findall(r"^(\d+) (\d+) [tTrRdDwWvV] (.*)$", table, re.MULTILINE):
        part = next((part for part, pattern in PARTS.items() if re.search(pattern, name)), None)
        if part and address not in seen:  # constructors have two names
            sizes[part] += int(size)
        seen.add(address)
    return sizes


def measure(messages: bool = False, tracer: bool = False) -> tuple[int, Counter[str]]:
    """Builds and measures: bytes of text and data of the runtime, and its parts."""
    tree = ROOT / "build" / f"size{'-messages' if messages else ''}{'-tracer' if tracer else ''}"
    build(tree, messages, tracer)
    probe, empty = tree / "bin/size_probe", tree / "bin/size_empty"
    return text_and_data(probe) - text_and_data(empty), by_part(probe)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the runtime alone at -Os.")
    parser.add_argument("--messages", action="store_true", help="keep the texts of error messages")
    parser.add_argument("--tracer", action="store_true", help="with the event tracer")
    arguments = parser.parse_args()
    total, parts = measure(arguments.messages, arguments.tracer)
    print(f"{'part':<40}{'bytes':>8}")
    for name, size in parts.most_common():
        print(f"{name:<40}{size:>8,}")
    print(f"{'everything else':<40}{total - sum(parts.values()):>8,}")
    print(f"{'runtime, text + data':<40}{total:>8,}   budget {BUDGET:,}: {'ok' if total < BUDGET else 'EXCEEDED'}")
    return 0 if total < BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
