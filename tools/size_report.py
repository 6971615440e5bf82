#!/usr/bin/env python3
"""Measure the runtime alone: its bytes of code and data at -Os, verifiers included, where they come from, what changed.

    tools/size_report.py                          # tables of x86-64 and of each core whose compiler is there
    tools/size_report.py --target cortex-m55      # one of them
    tools/size_report.py --base main~5            # the change since then
    tools/size_report.py --messages --tracer      # with the texts of error messages, with the event tracer

Changes are those since the last commit, or since the one before where nothing was changed. Status 1: over the budget.
A program that uses the whole runtime is linked with link-time optimisation and without unused sections; the size of an
empty program is taken off. On x86-64 the C library and the C++ library are shared objects and count nothing; on a core,
their functions that the runtime calls count.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ("COMPILER", "PYTHON", "TOOLS", "THREADS", "OPTIMIZED", "TESTS")


@dataclass(frozen=True)
class Target:
    """A processor: its bytes of text and data, what its tools' names begin with, the file that tells CMake of them."""

    budget: int
    tools: str = ""
    toolchain: str = ""


TARGETS = {
    "x86-64": Target(40_000),
    "cortex-m55": Target(30_000, "arm-none-eabi-", "cmake/toolchains/cortex-m55.cmake"),
    "cortex-m4": Target(30_000, "arm-none-eabi-", "tests/targets/cortex_m/cortex-m4.cmake"),
    "cortex-m3": Target(30_000, "arm-none-eabi-", "tests/targets/cortex_m/cortex-m3.cmake"),
}


def build(sources: Path, tree: Path, target: Target, messages: bool, tracer: bool) -> None:
    """Configures and builds the two programs. RuntimeError: it does not work; the text is the tools'."""
    options = [f"-DET_BUILD_{name}=OFF" for name in OPTIONS]
    options += ["-DET_BACKENDS=", "-DET_SIZE_BUILD=ON", f"-DET_STRIP_MESSAGES={'OFF' if messages else 'ON'}"]
    options += [f"-DET_EVENT_TRACER={'ON' if tracer else 'OFF'}", f"-DPython_EXECUTABLE={sys.executable}"]
    if target.toolchain:
        options.append(f"-DCMAKE_TOOLCHAIN_FILE={sources / target.toolchain}")
    configure = ["cmake", "-S", str(sources), "-B", str(tree), "-G", "Ninja", *options]
    for command in (configure, ["ninja", "-C", str(tree), "size_probe", "size_empty"]):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"'{' '.join(command[:3])} ...' failed:\n{result.stdout[-4000:]}{result.stderr[-4000:]}")


def _said(*command: str | Path, cwd: Path = ROOT) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout


def text_and_data(program: Path, target: Target) -> int:
    """Bytes of code, constants and initialised data of a program."""
    text, data = _said(f"{target.tools}size", program).splitlines()[1].split()[:2]
    return int(text) + int(data)


# part -> what the demangled names of its functions and tables have; the first that fits counts
PARTS = {
    "verifying and loading a program": r"Verif|verify_|^flatbuffers::|is_utf8|Program::|schema::|load_segment|external",
    "loading a method": r"MethodLoader|MethodBinder|bind_|signature_accepts",
    "running a method": r"Method::|Session|KernelContext|Method\b",
    "tensors, kernels, backends": r"et::",
}


def by_part(program: Path, target: Target) -> Counter[str]:
    """Bytes of the parts of the runtime, from the symbols of the program."""
    table = _said(f"{target.tools}nm", "-C", "-S", "-t", "d", program)
    sizes: Counter[str] = Counter()
    seen = set()
    for address, size, name in re.findall(r"^(\d+) (\d+) [tTrRdDwWvV] (.*)$", table, re.MULTILINE):
        part = next((part for part, pattern in PARTS.items() if re.search(pattern, name)), None)
        if part and address not in seen:  # constructors have two names
            sizes[part] += int(size)
        seen.add(address)
    return sizes


def measure(
    messages: bool = False, tracer: bool = False, target: str = "x86-64", sources: Path = ROOT
) -> tuple[int, Counter[str]]:
    """Builds and measures: bytes of text and data of the runtime, and its parts. RuntimeError: it does not build."""
    variant = f"{'-messages' if messages else ''}{'-tracer' if tracer else ''}"
    tree = sources / "build" / f"size{'' if target == 'x86-64' else '-' + target}{variant}"
    build(sources, tree, TARGETS[target], messages, tracer)
    probe, empty = tree / "bin/size_probe", tree / "bin/size_empty"
    total = text_and_data(probe, TARGETS[target]) - text_and_data(empty, TARGETS[target])
    return total, by_part(probe, TARGETS[target])


def sources_of(revision: str) -> Path:
    """The sources of a commit, in a folder of its own, which is built once."""
    commit = _said("git", "rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    folder = ROOT / "build" / "size-base" / commit[:12]
    if not folder.is_dir():
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", commit], check=True, cwd=ROOT, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def table_of(target: str, now: tuple[int, Counter[str]], before: tuple[int, Counter[str]] | None) -> str:
    """Parts of the runtime, their bytes, and the change where there is something to compare with."""
    rows = dict(now[1].most_common())
    rows |= {"everything else": now[0] - sum(now[1].values()), "runtime, text + data": now[0]}
    old: dict[str, int] = {}
    if before is not None:
        old = dict(before[1]) | {
            "everything else": before[0] - sum(before[1].values()),
            "runtime, text + data": before[0],
        }
    lines = [f"{target:<40}{'bytes':>8}{'change':>9}"]
    for name, size in rows.items():
        change = f"{size - old[name]:>+9,}" if name in old else f"{'-':>9}"
        lines.append(f"{name:<40}{size:>8,}{change}")
    return "\n".join(lines)


def _base(given: str | None) -> str:
    is_changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src/cpp"], cwd=ROOT).returncode != 0
    return given or ("HEAD" if is_changed else "HEAD~1")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the runtime alone at -Os.")
    parser.add_argument("--target", choices=TARGETS, action="append", help="one of these, not all that can be built")
    parser.add_argument("--base", help="a revision: the change since then")
    parser.add_argument("--messages", action="store_true", help="keep the texts of error messages")
    parser.add_argument("--tracer", action="store_true", help="with the event tracer")
    arguments = parser.parse_args()
    there = [name for name, target in TARGETS.items() if shutil.which(f"{target.tools}g++")]
    revision = _base(arguments.base)
    status = 0
    for name in arguments.target or there:
        try:
            now = measure(arguments.messages, arguments.tracer, name)
        except RuntimeError as error:
            sys.exit(f"size: {error}")
        try:
            before = measure(arguments.messages, arguments.tracer, name, sources_of(revision))
        except RuntimeError as error:
            print(f"{revision} does not build for {name}, so there is no change to tell: {str(error).splitlines()[0]}")
            before = None
        print(table_of(name, now, before))
        exceeded = now[0] > TARGETS[name].budget
        status |= exceeded
        print(f"budget {TARGETS[name].budget:,}: {'EXCEEDED' if exceeded else 'ok'}\n")
    print(f"Changes are those since {revision}, {_said('git', 'log', '-1', '--format=%h %s', revision).strip()}.")
    return status


if __name__ == "__main__":
    sys.exit(main())
