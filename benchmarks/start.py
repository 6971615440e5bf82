"""Load and first call in fresh processes: with weights packed by each, and mapped from a file that an earlier one kept.

    python -m benchmarks.start FILE... [--threads 1] [--rounds 5]

FILE: a .pte. Processes of executor_runner take turns; figures are medians, the least in brackets. Processor time is
that of the whole process; page faults are those that read no disk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import executorch_py

RUNNER = Path(executorch_py.__file__).parent / "bin" / "executor_runner"
COLUMNS = ("load ms", "first ms", "processor ms", "page faults", "resident MiB")


def start(command: list[str]) -> tuple[float, ...]:
    """What a process took, in the order of COLUMNS."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    words = process.stdout.read().split()  # "load 1.0 ms, first run 2.0 ms; …"
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    processor = (used.ru_utime + used.ru_stime) * 1e3
    return float(words[1]), float(words[5]), processor, used.ru_minflt, used.ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'':44}" + "".join(f"{column:>20}" for column in COLUMNS))
    for file in options.files:
        with tempfile.TemporaryDirectory() as store:
            plain = [str(RUNNER), "--model", str(file), "--threads", str(options.threads), "--runs", "1"]
            sides = {"packs": plain, "kept": [*plain, "--pack-cache", store]}
            start(sides["kept"])  # writes the file
            took: dict[str, list[tuple[float, ...]]] = {side: [] for side in sides}
            for _ in range(options.rounds):
                for side, command in sides.items():
                    took[side].append(start(command))
            for side, rows in took.items():
                columns = list(zip(*rows, strict=True))
                figures = "".join(f"{statistics.median(c):12.0f} ({min(c):5.0f})" for c in columns)
                print(f"{file.name[:36]:37}{side:7}{figures}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
