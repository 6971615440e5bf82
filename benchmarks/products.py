"""Products of matrices by shape: rows of floats times a constant matrix, beside MKL and oneDNN, which PyTorch carries.

    python -m benchmarks.products [--threads 1] [--rounds N] [--rows N …] [--columns N …] [--depth N …]
        [--isa avx2]

A line a shape: milliseconds of our linear layer without a delegate, GFLOP/s of all three, and our time over that of the
better one. Last comes our share of what the registers of the machine did at that moment (benchmarks/peers/peak.c).
Products of more than 10 MFLOP count in the last lines: worst and median. MKL is eager's; oneDNN gets its
weight in the order that it wants. Method as in benchmarks.models.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.peers.peak import Peak

from executorch_py.cli.instruction_sets import ISAS, check_isa, isa_settings

ROWS = (1, 4, 16, 64, 197, 512)
COLUMNS = (64, 768, 3072, 20_000, 50_257, 200_000)
DEPTHS = (16, 64, 256, 768, 2048, 8192)
#: Largest matrix, in numbers, and largest product, in multiplications.
MOST_NUMBERS, MOST_WORK = 170_000_000, 16_000_000_000
COUNTED_FLOP = 10_000_000


@dataclass
class Figure:
    """One shape: milliseconds of a call of each side."""

    rows: int
    columns: int
    depth: int
    ours: float
    mkl: float
    onednn: float
    peak_rate: float  # multiply-accumulates a second

    @property
    def flop(self) -> float:
        return 2.0 * self.rows * self.columns * self.depth

    @property
    def ratio(self) -> float:
        return self.ours / min(self.mkl, self.onednn)

    @property
    def of_peak(self) -> float:
        return self.flop / 2 / (self.ours * 1e-3) / self.peak_rate

    @property
    def name(self) -> str:
        return f"{self.rows} x {self.depth} x {self.columns}"

    def rate(self, ms: float) -> float:
        """GFLOP/s of a side that takes so long."""
        return self.flop / ms / 1e6

    def line(self) -> str:
        rates = " ".join(f"{self.rate(ms):8.1f}" for ms in (self.ours, self.mkl, self.onednn))
        return f"{self.name:22s} {self.ours:9.3f} {rates} {self.ratio:7.2f} {self.of_peak:7.2f}"


def shapes(options: argparse.Namespace) -> Iterator[tuple[int, int, int]]:
    """(rows, columns, depth) within the bounds, matrices of one size after the other."""
    for depth in options.depth:
        for columns in options.columns:
            for rows in options.rows:
                if depth * columns <= MOST_NUMBERS and rows * depth * columns <= MOST_WORK:
                    yield rows, columns, depth


def measure_shape(rows: int, columns: int, depth: int, peak: Peak, options: argparse.Namespace) -> Figure:
    """Medians of all three sides in turn."""
    import torch

    from benchmarks import models
    from tests.models.zoo import Method

    torch.manual_seed(0)
    method = Method(torch.nn.Linear(depth, columns).eval(), (torch.randn(rows, depth),))
    ours, mkl = models.calls(models.compile_methods({"forward": method}), method, "forward")
    row = models.measure("", ours, mkl, options.threads, options.rounds, options.block, _onednn(method))
    peak_rate = peak.rate("fp32", options.threads)
    return Figure(rows, columns, depth, row.ours, row.eager, row.delegated, peak_rate)


def _onednn(method: object) -> Callable[[], object]:
    import torch

    (x,), layer = method.inputs, method.module
    weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), x.shape[0])

    def call() -> object:
        with torch.inference_mode():
            return torch.ops.mkldnn._linear_pointwise(x, weight, layer.bias, "none", [], "")

    return call


def summary(figures: list[Figure]) -> str:
    """The last lines; of what counts."""
    counted = [figure for figure in figures if figure.flop > COUNTED_FLOP]
    if not counted:
        return "no product of more than 10 MFLOP"
    worst = max(counted, key=lambda figure: figure.ratio)
    slowest = min(counted, key=lambda figure: figure.of_peak)
    median = statistics.median(figure.ratio for figure in counted)
    share = statistics.median(figure.of_peak for figure in counted)
    return (
        f"{len(counted)} shapes, over the better one: median {median:.2f}, worst {worst.ratio:.2f} ({worst.name})\n"
        f"of the peak: median {share:.2f}, least {slowest.of_peak:.2f} ({slowest.name})"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block", type=float, default=20.0, help="milliseconds of a block")
    parser.add_argument("--isa", choices=ISAS, help="limits all sides")
    for name, default in (("rows", ROWS), ("columns", COLUMNS), ("depth", DEPTHS)):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    options = parser.parse_args(arguments)
    if options.isa:
        check_isa(options.isa)
        os.environ.update(isa_settings(options.isa))  # before the libraries are loaded

    import torch

    import executorch_py as et
    from benchmarks.peers.peak import Peak

    torch.set_num_threads(options.threads)
    et.set_num_threads(options.threads)
    titles = "".join(f" {name:>{width}s}" for name, width in (("ms", 9), ("ours", 8), ("MKL", 8), ("oneDNN", 8)))
    print(f"{'rows x depth x columns':22s}{titles} {'ratio':>7s} {'of peak':>7s}")
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        peak = Peak(Path(folder), options.isa)
        for shape in shapes(options):
            figures.append(measure_shape(*shape, peak, options))
            print(figures[-1].line(), flush=True)
    print(summary(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
