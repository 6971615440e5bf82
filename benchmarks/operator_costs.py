"""Measures what operators cost in our kernels and in XNNPACK, and writes the tables that choose.

    export ET_LIBRARY_KERNELS=off                                                  # our kernels alone
    ET_MAX_ISA=avx2 python -m benchmarks.operator_costs --measure build/costs      # for each instruction set
    python -m benchmarks.operator_costs --write build/costs   # the two tables; rows that were not measured stay

Both tables serve twice: a load takes the kernel that costs the least, and a lowering compares the delegate with the
kernel that a load would take. XNNPACK is measured through its delegate.

An operator's cost is a number of nanoseconds for the call and one of picoseconds for each unit of work: a
multiplication of a product or a convolution, an element of anything else. Both come from a small and a large example.
Each example stands in a chain of two and in a chain of six, and a quarter of the difference is the operator: what the
chain has at its ends falls out. The sides run in turn on one thread; a time is the least of several blocks of that
thread's processor time. To measure again adds a run; of three or five the one with the median ratio counts.

The column of Arm, which nobody measured, is derived (`derived`), and the tables say so. Floats of avxvnni run the code
of avx2, but on Intel's processors. Measure them on one of these: XNNPACK's products are slower there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer

ROOT = Path(__file__).resolve().parents[1]
TABLES = {
    "kernels": ROOT / "src/cpp/ops/kernel_costs.def",
    "delegate": ROOT / "backends/xnnpack/costs/costs.def",
}
ISAS = ("sse4.1", "avx2", "avxvnni", "avx512", "amx")  # measured; that of Arm is derived
LENGTHS = (2, 6)

Run = dict[str, list[float]]  # side -> nanoseconds of a call, picoseconds of a unit
Figures = dict[str, dict[str, dict[str, Run]]]  # set, numbers, kind


@dataclass(frozen=True)
class Example:
    """One operator of a chain: its module, the input, its units of work, and what each module takes beside it."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    units: float
    others: tuple[tuple[int, ...], ...] = ()

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return tuple(torch.rand(shape) for shape in (self.shape, *self.others))


class _Chain(nn.Module):
    def __init__(self, steps: list[nn.Module]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = step(x, *others)
        return x


def _convolution(channels: int, size: int, kernel: int, groups: int = 1, stride: int = 1) -> Example:
    def make() -> nn.Module:
        return nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=groups, stride=stride)

    units = channels * channels // groups * kernel * kernel * size * size
    return Example(make, (1, channels, size, size), units)


def _line(channels: int, length: int, kernel: int, groups: int) -> Example:
    def make() -> nn.Module:
        return nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=groups)

    return Example(make, (1, channels, length), channels * channels // groups * kernel * length)


class _Corner(nn.Module):
    """A module's result, cut to the size of its input."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)[:, :, : x.shape[2], : x.shape[3]]


def _transposed(channels: int, size: int) -> Example:
    def make() -> nn.Module:
        return _Corner(nn.ConvTranspose2d(channels, channels, 4, 2, 1))

    return Example(make, (1, channels, size, size), channels * channels * 16 * size * size)


def _linear(width: int, rows: int) -> Example:
    return Example(lambda: nn.Linear(width, width), (rows, width), width * width * rows)


class _Function(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def _products(batch: int, rows: int, width: int) -> Example:
    packing = 8 if rows > 1 else 0  # cost_of() adds it
    shape, matrix = (batch, rows, width), (batch, width, width)
    return Example(lambda: _Function(torch.bmm), shape, batch * (rows + packing) * width * width, (matrix,))


def _image(make: Callable[[], nn.Module], channels: int, size: int) -> Example:
    return Example(make, (1, channels, size, size), channels * size * size)


def _rows(function: Callable[[torch.Tensor], torch.Tensor], rows: int, width: int) -> Example:
    return Example(lambda: _Function(function), (rows, width), rows * width)


#: Kind of ops/work.def -> a small and a large example. Products fill tiles of five and of seven rows.
#: Elementwise ones stand between images or rows as models have them, not a number of pages apart.
EXAMPLES: dict[str, tuple[Example, Example]] = {
    "convolution_3x3": (_convolution(32, 14, 3), _convolution(64, 28, 3)),
    "convolution_1x1": (_convolution(32, 14, 1), _convolution(128, 28, 1)),
    "convolution": (_convolution(32, 14, 5), _convolution(32, 28, 5)),
    "transposed_overlap": (_transposed(16, 8), _transposed(64, 16)),
    "depthwise_small": (_convolution(16, 14, 3, 16), _convolution(128, 28, 3, 128)),
    "depthwise_large": (_convolution(16, 14, 7, 16), _convolution(128, 28, 7, 128)),
    "line_depthwise": (_line(16, 50, 3, 16), _line(256, 500, 3, 256)),
    "line_1x1": (_line(32, 70, 1, 1), _line(128, 500, 1, 1)),
    "linear": (_linear(64, 35), _linear(384, 70)),
    "linear_row": (_linear(64, 1), _linear(512, 1)),
    "matmul": (_products(2, 16, 16), _products(8, 96, 96)),
    "matmul_line": (_products(2, 1, 16), _products(8, 1, 96)),
    "pooling": (
        _image(lambda: nn.MaxPool2d(3, 1, 1), 16, 14),
        _image(lambda: nn.MaxPool2d(3, 1, 1), 64, 28),
    ),
    "softmax": (_rows(lambda x: x.softmax(-1), 8, 16), _rows(lambda x: x.softmax(-1), 64, 384)),
    "gelu": (_rows(torch.nn.functional.gelu, 8, 16), _rows(torch.nn.functional.gelu, 64, 768)),
    "exponential": (_rows(torch.sigmoid, 8, 16), _rows(torch.sigmoid, 64, 768)),
    "norm": (
        Example(lambda: nn.LayerNorm(64), (8, 64), 8 * 64),
        Example(lambda: nn.LayerNorm(768), (64, 768), 64 * 768),
    ),
    "prelu": (_image(lambda: nn.PReLU(16), 16, 14), _image(lambda: nn.PReLU(128), 128, 28)),
    "elementwise": (_rows(lambda x: x * 1.5, 8, 16), _rows(lambda x: x * 1.5, 61, 760)),
    "moves": (
        _rows(lambda x: x.reshape(x.shape[1] // 4, 4, -1).permute(0, 2, 1).reshape(x.shape), 8, 16),
        _rows(lambda x: x.reshape(x.shape[1] // 4, 4, -1).permute(0, 2, 1).reshape(x.shape), 64, 768),
    ),
}
EXAMPLES["part"] = EXAMPLES["elementwise"]
#: Numbers -> the quantizer's preset, and the kinds that it makes products of integers of.
INTEGER = {
    "int8": ("static_int8", ("convolution_3x3", "convolution_1x1", "convolution", "transposed_overlap",
                             "depthwise_small", "depthwise_large", "line_depthwise", "line_1x1", "linear",
                             "linear_row")),
    "dynamic": ("dynamic_int8", ("convolution_3x3", "convolution_1x1", "convolution", "linear", "linear_row")),
}  # fmt: skip


def _program(example: Example, length: int, side: str, numbers: str) -> bytes:
    torch.manual_seed(0)
    module = _Chain([example.make() for _ in range(length)]).eval()
    inputs = example.inputs()
    exported = (
        torch.export.export(module, inputs)
        if numbers == "float"
        else quantizer.quantize(module, inputs, INTEGER[numbers][0], [inputs])
    )
    partitioner = None if side == "kernels" else [XnnpackPartitioner(always=True)]
    return et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().buffer


def _least(calls: dict[Any, Callable[[], object]], blocks: int = 9, block_ms: float = 4.0) -> dict[Any, float]:
    """Key -> least nanoseconds of a call, all in turn."""
    clock = time.thread_time_ns
    repeats = {}
    for key, call in calls.items():
        call()
        start = clock()
        for _ in range(3):
            call()
        repeats[key] = max(3, int(block_ms * 1e6 / max((clock() - start) / 3, 100)))
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(blocks):
        for key, call in calls.items():
            call()
            start = clock()
            for _ in range(repeats[key]):
                call()
            least[key] = min(least[key], (clock() - start) / repeats[key])
    return least


def measured(kind: str, numbers: str, programs: Path) -> Run:
    """Side -> [nanoseconds of a call, picoseconds of a unit]."""
    times: dict[str, list[float]] = {side: [] for side in TABLES}
    least_small: dict[str, float] = {}
    for size, example in enumerate(EXAMPLES[kind]):
        calls = {}
        for side in TABLES:
            for length in LENGTHS:
                file = programs / f"{kind}.{size}.{length}.{side}.{numbers}.pte"
                if not file.exists():
                    file.write_bytes(_program(example, length, side, numbers))
                method = et.Runtime.get().load_program(file.read_bytes()).load_method("forward")
                inputs = example.inputs()
                calls[side, length] = lambda m=method, i=inputs: m.execute(i)
        least = _least(calls)
        for side in TABLES:
            short, long = (least[side, length] for length in LENGTHS)
            least_small.setdefault(side, short)
            times[side].append(max((long - short) / (LENGTHS[1] - LENGTHS[0]), 1.0))
    if kind == "part":  # what is around the smallest chain
        return {side: [max(least_small[side] - LENGTHS[0] * times[side][0], 0.0), 0.0] for side in TABLES}
    small, large = EXAMPLES[kind]
    out = {}
    for side, (few, many) in times.items():
        rate = max((many - few) / (large.units - small.units), 0.0)
        call = max(few - rate * small.units, 0.0)
        out[side] = [call, (many - call) / large.units * 1e3]
    return out


def measure(folder: Path, wanted: list[str], dtypes: list[str]) -> None:
    """Adds a run to a file of the folder: costs of the kinds in these numbers under the limit of ET_MAX_ISA."""
    if os.environ.get("ET_LIBRARY_KERNELS") != "off":
        sys.exit("operator_costs: set ET_LIBRARY_KERNELS=off, so that our kernels are measured and not the library's")
    isa = os.environ["ET_MAX_ISA"]
    programs = folder / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    et.set_num_threads(1)
    path = folder / f"{isa}.json"
    runs: dict[str, dict[str, list[Run]]] = json.loads(path.read_text()) if path.exists() else {}
    for numbers, kinds in (("float", tuple(EXAMPLES)), *((name, kinds) for name, (_, kinds) in INTEGER.items())):
        for kind in (kind for kind in kinds if kind in wanted and numbers in dtypes):
            found = measured(kind, numbers, programs)
            runs.setdefault(numbers, {}).setdefault(kind, []).append(found)
            text = "   ".join(f"{side} {call:8.0f} ns + {unit:9.2f} ps" for side, (call, unit) in found.items())
            print(f"{isa:7} {numbers:7} {kind:16} {text}", flush=True)
            path.write_text(json.dumps(runs, indent=1) + "\n")


#: Vectors of Arm are half as long as those of AVX2.
OF_ARM = 2.0


def known(folder: Path) -> tuple[Figures, set[tuple[str, str]]]:
    """The figures of the tables with those of the folder over them, and which rows these are in."""
    found: Figures = {isa: {numbers: {} for numbers in ("float", *INTEGER)} for isa in ISAS}
    measured_rows = set()
    for side, path in TABLES.items():
        for numbers, kind, row in re.findall(r"ET_COST\((\w+), (\w+), (.*)\)\n", path.read_text()):
            figures = [float(figure) for figure in row.split(",")]
            for place, isa in enumerate(ISAS):
                kinds = found[isa][numbers.replace("floating", "float")]
                kinds.setdefault(kind, {})[side] = figures[2 * place : 2 * place + 2]
    for isa in ISAS:
        file = folder / f"{isa}.json"
        for dtype, kinds in (json.loads(file.read_text()) if file.exists() else {}).items():
            found[isa][dtype].update({kind: usual(kind, runs) for kind, runs in kinds.items()})
            measured_rows |= {(dtype, kind) for kind in kinds}
    return found, measured_rows


def usual(kind: str, runs: list[Run]) -> Run:
    """The run whose ratio of both sides is the median, at the large example: neighbours of a machine change ratios."""
    ratios = {i: cost(kind, run["kernels"]) / max(cost(kind, run["delegate"]), 1.0) for i, run in enumerate(runs)}
    return runs[sorted(ratios, key=ratios.__getitem__)[len(runs) // 2]]


def cost(kind: str, figures: list[float]) -> float:
    """Nanoseconds of the large example."""
    return figures[0] + figures[1] * EXAMPLES[kind][1].units * 1e-3


def derived(found: Figures, dtype: str, kind: str, side: str) -> list[float]:
    """The figures of a row, with those of arm, which nobody measured."""
    figures = [figure for isa in ISAS for figure in found[isa][dtype][kind][side]]
    return [*figures, *(figure * OF_ARM for figure in found["avx2"][dtype][kind][side])]


def write(folder: Path) -> None:
    """Renders the rows of both tables that the folder has figures for; the others stay."""
    found, measured_rows = known(folder)
    for side, path in TABLES.items():
        lines = []
        for line in path.read_text().splitlines():
            row = re.match(r"ET_COST\((\w+), (\w+), ", line)
            dtype, kind = (row[1].replace("floating", "float"), row[2]) if row else ("", "")
            if row and (dtype, kind) in measured_rows:
                figures = derived(found, dtype, kind, side)
                numbers = ", ".join(f"{figure:.3g}" if figure < 100 else f"{figure:.0f}" for figure in figures)
                line = f"{row[0]}{numbers})"
            lines.append(line)
        path.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", type=Path, metavar="FOLDER", help="measure under ET_MAX_ISA")
    parser.add_argument("--kinds", nargs="+", choices=list(EXAMPLES), default=list(EXAMPLES))
    parser.add_argument("--numbers", nargs="+", choices=["float", *INTEGER], default=["float", *INTEGER])
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the tables from what was measured")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.kinds, options.numbers)
    if options.write:
        write(options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
