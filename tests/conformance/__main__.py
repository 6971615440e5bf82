"""Runs PyTorch's databases through the whole package: python -m tests.conformance.

    python -m tests.conformance                          # everything, on two workers
    python -m tests.conformance --only add --dtype float32 bool
    python -m tests.conformance -k fft -v                # entries whose name contains "fft"
    python -m tests.conformance --failed                 # what failed last time
    python -m tests.conformance --isa avx2               # as an older processor
    python -m tests.conformance --group architecture     # torchvision's and transformers' models, an hour or more

Writes ``table.md`` and ``results.json`` to build/conformance. Fails when a case fails that exceptions.py does not list,
when a case passes that it does list, and when fewer operators reach the runtime than they should.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path

from executorch_py.cli.instruction_sets import ISAS, check_isa

from .case import Outcome, Status
from .pool import run_items
from .report import REACH, RIGHT, Results, first_samples, is_failure, stale, summary, unexpected
from .samples import DATABASES, GROUPS, Item, all_items, architecture_items

OUT = Path(__file__).resolve().parents[2] / "build/conformance"


def main() -> int:
    options = _options()
    results = Results(options.out / "results.json")
    is_whole = not (options.only or options.k or options.dtype or options.group or options.failed)
    if not is_whole:
        results.load()
    items = _chosen(options, results)
    if not items:
        print("no case of this name")
        return 2
    for item in items:
        results.forget(item.key)
    options.out.mkdir(parents=True, exist_ok=True)
    progress = _Progress(len(items), options.v)
    now: dict[str, Outcome] = {}

    def report(outcome: Outcome) -> None:
        now[outcome.key] = outcome
        results.add(outcome)
        progress.show(outcome)

    try:
        run_items(items, options.jobs, options.limit, options.seed, options.out / "workers.log", report)
    finally:
        results.save()
    return _verdict(now, is_whole, progress, options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="entries of exactly these names")
    parser.add_argument("-k", nargs="+", metavar="PART", help="entries whose name contains one of these")
    parser.add_argument("--dtype", nargs="+", help="element types")
    parser.add_argument("--group", nargs="+", choices=GROUPS, help="databases; without it all of torch's")
    parser.add_argument("--failed", action="store_true", help="entries that failed in the last run")
    parser.add_argument("--samples", type=int, help="at most so many samples of an entry")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a case")
    parser.add_argument("--isa", choices=ISAS, help="the highest instruction set")
    parser.add_argument("--out", type=Path, help="folder for the table; default: build/conformance")
    parser.add_argument("-v", action="store_true", help="print every failure as it comes")
    options = parser.parse_args()
    if options.isa:
        check_isa(options.isa)
        os.environ["ET_MAX_ISA"] = options.isa  # before a worker loads a program; eager stays as it is
    options.out = options.out or (OUT / options.isa if options.isa else OUT)
    return options


def _chosen(options: argparse.Namespace, results: Results) -> list[Item]:
    failed = {key.rsplit("/", 1)[0] for key, outcome in results.cases.items() if is_failure(outcome)}
    chosen = []
    groups = options.group or DATABASES
    items = chain(all_items(), architecture_items() if "architecture" in groups else ())
    for item in items:
        if options.only and item.name not in options.only:
            continue
        if options.k and not any(part in item.name for part in options.k):
            continue
        if options.dtype and item.dtype not in options.dtype:
            continue
        if item.group not in groups:
            continue
        if options.failed and item.key not in failed:
            continue
        limit = min(item.limit, options.samples) if options.samples else item.limit
        chosen.append(Item(item.group, item.name, item.dtype, limit))
    return chosen


class _Progress:
    """A line every few seconds."""

    def __init__(self, items: int, verbose: bool) -> None:
        self._items, self._verbose = items, verbose
        self._seen: set[str] = set()
        self._counts: Counter = Counter()
        self._began = self._last = time.monotonic()

    def show(self, outcome: Outcome) -> None:
        self._seen.add(outcome.key.rsplit("/", 1)[0])
        self._counts[outcome.status] += 1
        if self._verbose and is_failure(outcome):
            print(f"{outcome.key}: {outcome.status.value}: {outcome.detail}", flush=True)
        now = time.monotonic()
        if now - self._last >= 20:
            self._last = now
            counts = ", ".join(f"{number} {status.value}" for status, number in self._counts.most_common())
            print(f"[{self.seconds:4.0f} s] {len(self._seen)} of {self._items} entries: {counts}", flush=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def _verdict(now: dict[str, Outcome], is_whole: bool, progress: _Progress, out: Path) -> int:
    problems = [f"{o.key}: {o.status.value}: {o.detail}" for o in unexpected(now.values())]
    problems += stale(now.values())
    print(summary(now))
    if is_whole:
        _, exported, _, right = first_samples(now)
        if exported < REACH:
            problems.append(f"torch exports {exported} of the first float32 samples, it was {REACH}")
        if right < RIGHT * exported:
            problems.append(f"{right} of {exported} first float32 samples are right, at least {RIGHT:.0%} should be")
    for problem in problems:
        print(problem)
    crashed = sum(o.status in (Status.CRASHED, Status.HANGS) for o in now.values())
    print(f"{len(now)} cases in {progress.seconds:.0f} s, {crashed} crashed or hung; the table is {out / 'table.md'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
