#!/usr/bin/env python3
"""Build the fuzz targets with libFuzzer and sanitizers, and run each for a while on its corpus.

    tests/fuzz/run.py [--seconds 60] [NAME ...]

The loader gets the kernels that its corpus calls (operators.txt) and no others, so that the build takes minutes; what
mutated files do to all the kernels is the business of tests/cpp/robustness.

New inputs go to build/fuzz/corpus/<name>; an input that crashes is left in build/fuzz/crashes and named. Put it, made
small, into tests/fuzz/corpus/<name> with the fix: plain tests replay that folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and run the fuzz targets.")
    parser.add_argument("names", nargs="*", help="targets; none: all")
    parser.add_argument("--seconds", type=int, default=60, help="time for each target")
    arguments = parser.parse_args()
    corpora = {path.name: path for path in sorted((ROOT / "tests/fuzz/corpus").iterdir()) if path.is_dir()}
    names = arguments.names or list(corpora)
    if unknown := set(names) - set(corpora):
        sys.exit(f"fuzz: no such target: {', '.join(sorted(unknown))}; there are {', '.join(corpora)}")

    options = ["-DET_BUILD_FUZZERS=ON", "-DET_BUILD_TESTS=ON", "-DET_BUILD_PYTHON=OFF", "-DET_BUILD_TOOLS=OFF"]
    options += [f"-DET_SELECT_OPS={ROOT / 'tests/fuzz/operators.txt'}", "-DET_BUILD_THREADS=OFF"]
    options += ["-DET_BACKENDS=", "-DET_BUILD_OPTIMIZED=OFF", "-DET_SANITIZE=address,undefined", "-DET_WERROR=OFF"]
    options += ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++", f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run(["cmake", "-S", ROOT, "-B", TREE, "-G", "Ninja", "--log-level=WARNING", *options], check=True)
    subprocess.run(["ninja", "-C", TREE, "--quiet", *(f"et_fuzz_{name}" for name in names)], check=True)

    crashes = TREE / "crashes"
    crashes.mkdir(exist_ok=True)
    failed = []
    for name in names:
        grown = TREE / "corpus" / name
        grown.mkdir(parents=True, exist_ok=True)
        print(f"[fuzz] {name}: {arguments.seconds} s", flush=True)
        command = [TREE / "bin" / f"et_fuzz_{name}", grown, corpora[name], f"-max_total_time={arguments.seconds}"]
        command += ["-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={crashes}/{name}-", "-print_final_stats=1"]
        if subprocess.run(command).returncode != 0:
            failed.append(name)
    print(
        f"[fuzz] {'found something in: ' + ', '.join(failed) if failed else 'nothing found'}; crashes lie in {crashes}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
