"""Every model of the zoo without a delegate, beside PyTorch eager on the same inputs in the same run.

    python -m benchmarks.models [--threads 1 2] [--models NAME ...] [--rounds N] [--json FILE]

Ours and eager run in turn, in blocks that last about `--block` milliseconds each; a block's figure is its mean, a model's the
median over the rounds, and the spread is the median distance of the rounds from it. The ratio is ours / eager: at most 1 is
the aim, and up to 1.03 counts as level. Both sides use the same number of threads. Eager runs under `torch.inference_mode`.
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
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

import executorch_py as et

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

    @property
    def ratio(self) -> float:
        return self.ours / self.eager


def _block(call: Callable[[], object], repeats: int) -> float:
    """Mean milliseconds of a call."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) * 1e3 / repeats


def _repeats(call: Callable[[], object], block_ms: float) -> int:
    """How many calls make a block, after a warm-up."""
    for _ in range(3):
        call()
    return max(1, int(block_ms / max(_block(call, 3), 1e-4)))


def _spread(values: list[float]) -> float:
    """Median absolute deviation."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def measure(
    name: str, ours: Callable[[], object], eager: Callable[[], object], threads: int, rounds: int, block_ms: float
) -> Row:
    """Runs both in turn, the first place alternating."""
    sides = ((ours, _repeats(ours, block_ms), []), (eager, _repeats(eager, block_ms), []))
    gc.disable()
    try:
        for turn in range(rounds):
            for call, repeats, times in sides if turn % 2 == 0 else reversed(sides):
                # A pool's workers wait actively for a moment after a call; they must not take a core from the other side.
                time.sleep(0.02)
                call()
                times.append(_block(call, repeats))
    finally:
        gc.enable()
    (_, _, mine), (_, _, theirs) = sides
    return Row(name, threads, statistics.median(mine), statistics.median(theirs), _spread(mine), _spread(theirs))


def compile_methods(methods: dict[str, Method]) -> et.Program:
    exported = {name: method.export() for name, method in methods.items()}
    return et.Runtime.get().load_program(et.to_edge_transform_and_lower(exported).to_executorch().buffer)


def calls(program: et.Program, method: Method, name: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """The call of our runtime and that of eager PyTorch."""
    loaded = program.load_method(name)
    inputs = tuple(pytree.tree_leaves(copy.deepcopy(method.inputs)))

    def eager() -> object:
        with torch.inference_mode():
            return method.module(*method.inputs)

    return lambda: loaded.execute(inputs), eager


def table(rows: list[Row]) -> str:
    lines = [f"{'model':24} {'threads':>7} {'ours ms':>10} {'eager ms':>10} {'ratio':>7}   spread ours / eager"]
    for row in rows:
        mark = "" if row.ratio <= LEVEL else "  slower"
        lines.append(
            f"{row.model:24} {row.threads:7d} {row.ours:10.3f} {row.eager:10.3f} {row.ratio:7.3f}   "
            f"{row.ours_spread:.4f} / {row.eager_spread:.4f}{mark}"
        )
    for threads in sorted({row.threads for row in rows}):
        ratios = [row.ratio for row in rows if row.threads == threads]
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        lines.append(f"geometric mean of the ratios, {threads} thread(s): {mean:.3f}; worst {max(ratios):.3f}")
    return "\n".join(lines)


def add_options(parser: argparse.ArgumentParser, block_ms: float) -> None:
    """Adds the options that run() reads."""
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--block", type=float, default=block_ms, help="milliseconds of a block")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")


def run(cases: Iterable[tuple[str, Callable[[], object], Callable[[], object]]], options: argparse.Namespace) -> int:
    """Measures each (name, our call, eager's call) with every number of threads; prints the table, writes the JSON."""
    rows = []
    for name, ours, eager in cases:
        for threads in options.threads:
            torch.set_num_threads(threads)
            et.set_num_threads(threads)
            print(f"\r{name}, {threads} thread(s) …".ljust(60), end="", file=sys.stderr, flush=True)
            rows.append(measure(name, ours, eager, threads, options.rounds, options.block))
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=1) + "\n")
    return 0


def _cases(names: Iterable[str]) -> Iterable[tuple[str, Callable[[], object], Callable[[], object]]]:
    for name in names:
        methods = ZOO[name]()
        program = compile_methods(methods)
        for method_name, method in methods.items():
            yield (name if len(methods) == 1 else f"{name}.{method_name}", *calls(program, method, method_name))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(ZOO), default=list(ZOO))
    add_options(parser, block_ms=60.0)
    options = parser.parse_args(arguments)
    return run(_cases(options.models), options)


if __name__ == "__main__":
    sys.exit(main())
