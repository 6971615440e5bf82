#!/usr/bin/env python3
"""Run a command and say how long it took, if it took long enough to be worth saying: timed.py "what" -- command ..."""

import resource
import subprocess
import sys
import time


def main() -> int:
    title, command = sys.argv[1], sys.argv[sys.argv.index("--") + 1 :]
    started = time.monotonic()
    status = subprocess.run(command).returncode
    elapsed = time.monotonic() - started
    if elapsed >= 2 or status != 0:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        outcome = "" if status == 0 else f", failed ({status})"
        print(
            f"[make] {title}: {elapsed:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor{outcome}", flush=True
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
