"""Every model of the zoo on our kernels and with the XNNPACK delegate, beside PyTorch eager in the same run.

    python -m benchmarks.models [--threads 1 2] [--models NAME ...] [--rounds N] [--json FILE]

All sides run in turn on the same inputs, in blocks that last about `--block` milliseconds each. A block's figure is its
mean, a model's the median over the rounds. The spread is the median distance of the rounds from it. The ratio is ours /
eager: at most 1 is the aim, and up to 1.03 counts as level; so it is for delegate / ours. All sides use the same number
of threads. With one thread times are processor time of that thread, which other work on the machine lengthens
little; otherwise they are wall time. Eager runs under `torch.inference_mode`.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import logging
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py.exir.backend.partitioner import Partitioner

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.models.zoo import ZOO, Method

LEVEL = 1.03

# transformers imports torchao, which warns of its own compiled kernels for other processors and of torch's newer calls.
for _logger in ("torchao", "torch.utils._pytree"):
    logging.getLogger(_logger).setLevel(logging.ERROR)


@dataclass(frozen=True)
class Row:
    """Figures of one method with one number of threads; times in milliseconds."""

    model: str
    threads: int
    ours: float
    eager: float
    ours_spread: float
    eager_spread: float
    delegated: float | None = None  # None: not measured
    delegated_spread: float = 0.0

    @property
    def ratio(self) -> float:
        return self.ours / self.eager


def _block(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Mean milliseconds of a call."""
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) * 1e3 / repeats


def _repeats(call: Callable[[], object], block_ms: float, clock: Callable[[], float]) -> int:
    """How many calls make a block, after a warm-up that is short where calls are long."""
    once = _block(call, 1, clock)
    if once < block_ms:
        _block(call, 3, clock)
        once = _block(call, 3, clock)
    return max(1, int(block_ms / max(once, 1e-4)))


def _spread(values: list[float]) -> float:
    """Median absolute deviation."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def measure(
    name: str,
    ours: Callable[[], object],
    eager: Callable[[], object],
    threads: int,
    rounds: int,
    block_ms: float,
    delegated: Callable[[], object] | None = None,
) -> Row:
    """Runs all sides in turn, the first place going round."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    calls = [ours, eager] if delegated is None else [ours, eager, delegated]
    sides: list[tuple[Callable[[], object], int, list[float]]] = [
        (call, _repeats(call, block_ms, clock), []) for call in calls
    ]
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(sides)
            for call, repeats, times in (*sides[first:], *sides[:first]):
                # A pool's workers wait actively for a moment after a call; they must not take a core from the other
                # side.
                time.sleep(0.02)
                call()
                times.append(_block(call, repeats, clock))
    finally:
        gc.enable()
    medians = [statistics.median(times) for _, _, times in sides]
    spreads = [_spread(times) for _, _, times in sides]
    row = Row(name, threads, medians[0], medians[1], spreads[0], spreads[1])
    return row if delegated is None else replace(row, delegated=medians[2], delegated_spread=spreads[2])


def compile_methods(methods: dict[str, Method], partitioner: list[Partitioner] | None = None) -> et.Program:
    exported = {name: method.export() for name, method in methods.items()}
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner)
    return et.Runtime.get().load_program(edge.to_executorch().buffer)


def calls(program: et.Program, method: Method, name: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """The call of our runtime and that of eager PyTorch."""
    loaded = program.load_method(name)
    inputs = tuple(pytree.tree_leaves(copy.deepcopy(method.inputs)))

    def eager() -> object:
        with torch.inference_mode():
            return method.module(*method.inputs)

    return lambda: loaded.execute(inputs), eager


def table(rows: list[Row], third: str = "delegate") -> str:
    """The rows as text; `third` names the third side where there is one."""
    with_delegate = any(row.delegated is not None for row in rows)
    head = f"{'model':40} {'threads':>7} {'ours ms':>10} {'eager ms':>10} {'ratio':>7}"
    lines = [head + (f" {third + ' ms':>12} {'/ ours':>7}" if with_delegate else "") + "   spread ours / eager"]
    for row in rows:
        mark = "" if row.ratio <= LEVEL else "  slower"
        delegate = ""
        if row.delegated is not None:
            delegate = f" {row.delegated:12.3f} {row.delegated / row.ours:7.3f}"
            mark += "" if row.delegated / row.ours <= LEVEL else f"  {third} slower"
        lines.append(
            f"{row.model:40} {row.threads:7d} {row.ours:10.3f} {row.eager:10.3f} {row.ratio:7.3f}{delegate}   "
            f"{row.ours_spread:.4f} / {row.eager_spread:.4f}{mark}"
        )
    for threads in sorted({row.threads for row in rows}):
        mine = [row for row in rows if row.threads == threads]
        lines.append(f"ours / eager, {_means([row.ratio for row in mine], threads)}")
        if with_delegate:
            ratios = [row.delegated / row.ours for row in mine if row.delegated is not None]
            lines.append(f"{third} / ours, {_means(ratios, threads)}")
    return "\n".join(lines)


def _means(ratios: list[float], threads: int) -> str:
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    slow = sum(ratio > 3 for ratio in ratios)
    worst = f"worst {max(ratios):.3f}; above 3: {slow}"
    return f"{threads} thread(s): {len(ratios)} measured, geometric mean {mean:.3f}; {worst}"


def add_options(parser: argparse.ArgumentParser, block_ms: float) -> None:
    """Adds the options that run() reads."""
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--block", type=float, default=block_ms, help="milliseconds of a block")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")


def run(
    cases: Iterable[tuple[Any, ...]],
    options: argparse.Namespace,
    third: str = "delegate",
    slowest_first: bool = False,
) -> int:
    """Measures each (name, our call, eager's call[, a third call]) with every number of threads and prints.

    The JSON is written after each, so that what was measured is kept whatever ends the run.
    """
    rows: list[Row] = []
    try:
        for name, ours, eager, *more in cases:
            for threads in options.threads:
                torch.set_num_threads(threads)
                et.set_num_threads(threads)
                print(f"\r{name}, {threads} thread(s) …".ljust(70), end="", file=sys.stderr, flush=True)
                rows.append(measure(name, ours, eager, threads, options.rounds, options.block, *more))
                if options.json:
                    figures = [{**asdict(row), "ratio": row.ratio} for row in rows]
                    options.json.write_text(json.dumps(figures, indent=1) + "\n")
    except KeyboardInterrupt:
        print("\nstopped: what was measured so far", file=sys.stderr)
    print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    if slowest_first:
        rows.sort(key=lambda row: -row.ratio)
    print(table(rows, third))
    return 0


def _cases(names: Iterable[str]) -> Iterable[tuple[Any, ...]]:
    for name in names:
        methods = ZOO[name]()
        program = compile_methods(methods)
        delegated = compile_methods(methods, [XnnpackPartitioner()])
        for method_name, method in methods.items():
            title = name if len(methods) == 1 else f"{name}.{method_name}"
            yield title, *calls(program, method, method_name), calls(delegated, method, method_name)[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(ZOO), default=list(ZOO))
    add_options(parser, block_ms=60.0)
    options = parser.parse_args(arguments)
    return run(_cases(options.models), options)


if __name__ == "__main__":
    sys.exit(main())
