"""Builds and runs for the targets that are named, or for all, and writes docs/reference/targets.md.

python -m tests.targets.processors                          # all of it: an hour on two cores, minutes a second time
python -m tests.targets.processors armhf --suites int8      # a part; other cells of the page stay
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import page
from .run import ABSENT, FAIL, Failed, Outcome, build, networks, run_networks, run_tests
from .targets import SUITES, TARGETS, Target


def outcome(target: Target, suite: str, cases: dict, jobs: int) -> Outcome:
    """What one suite gives."""
    if reason := target.absent.get(suite):
        return Outcome(ABSENT, reason)
    if missing := target.build.missing():
        return Outcome(ABSENT, f"{', '.join(missing)} is not installed")
    try:
        if suite == "tests":
            folder: Path = build(target.build, cases, [f"et_test_{name}" for name in target.build.tests], jobs)
            return run_tests(target, folder)
        folder = build(target.build, cases, ["executor_runner"], jobs, delegates="xnnpack" in suite)
        return run_networks(target, folder, cases[suite], exactly="int8" in suite)
    except Failed as error:
        print(error, file=sys.stderr, flush=True)
        lines = [line for line in str(error).splitlines() if line.strip()]
        named = [line for line in lines if line.startswith("[  FAILED  ]")]  # by GoogleTest, above what it skipped
        return Outcome(FAIL, (named or lines)[-1][:200])


def main() -> int:
    parser = argparse.ArgumentParser(description="The runtime on other processors, in emulators.")
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help="none: all")
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    cases = networks()
    failed = False
    for name in arguments.targets or TARGETS:
        outcomes = {}
        for suite in arguments.suites:
            outcomes[suite] = result = outcome(TARGETS[name], suite, cases, arguments.jobs)
            failed |= result.word == FAIL
            print(f"{name:20} {SUITES[suite]:22} {result}", flush=True)
            page.write(name, outcomes)
    return failed


if __name__ == "__main__":
    sys.exit(main())
