"""How long lowering and quantization take, beside `torch.export` of the same model, and how much memory.

    python -m benchmarks.lowering [--models NAME ...] [--rounds N]

Lowering goes from an ExportedProgram to the bytes of the file, without a partitioner and with XNNPACK's. Quantization
goes from the module to the ExportedProgram of integers (`static_int8`, two samples). Each model has a process of its
own. All are measured from their second call on, in turn, and medians are shown. Memory is the peak of a lowering,
beyond what the process held before, over the bytes of the weights. Weights of less than 8 MiB have no figure, since it
would be that of Python. Aims: lowering at most 1, quantization at most 3, memory at most 2.5.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import quantizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.peers.models import MODELS
from benchmarks.peers.report import geometric_mean
from benchmarks.peers.row import Model
from benchmarks.peers.worker import status_bytes

LEAST_WEIGHTS = 8 << 20


@dataclass(frozen=True)
class Figure:
    """One model: seconds of a second `torch.export`, the others over that; memory beside the weights."""

    name: str
    export: float
    lowered: float
    delegated: float
    quantized: float
    memory: float | None

    def line(self) -> str:
        memory = "" if self.memory is None else f"{self.memory:.2f}"
        ratios = f"{self.lowered:12.2f}{self.delegated:12.2f}{self.quantized:12.2f}"
        return f"{self.name:<20}{self.export * 1e3:>10.0f} ms{ratios}{memory:>12}"


def lower(exported: torch.export.ExportedProgram, partitioners: list[XnnpackPartitioner] | None = None) -> bytes:
    """The bytes of the file."""
    return bytes(et.to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch().buffer)


def memory_of(model: Model, exported: torch.export.ExportedProgram) -> float | None:
    """Most memory of a lowering beyond what the process holds, over the bytes of the weights (Linux)."""
    weights = sum(t.nbytes for t in (*model.module.parameters(), *model.module.buffers()))
    if weights < LEAST_WEIGHTS:
        return None
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = status_bytes("VmRSS")
    lower(exported)
    return (status_bytes("VmHWM") - before) / weights


def measure(name: str, rounds: int) -> Figure:
    """The figures of a model; call it in a process of its own."""
    warm = MODELS["tiny_autoencoder"]()
    lower(quantizer.quantize(warm.module, warm.inputs, "static_int8", [warm.inputs]), [XnnpackPartitioner()])
    model = MODELS[name]()
    exported = torch.export.export(model.module, model.inputs)
    memory = memory_of(model, exported)
    actions: dict[str, Callable[[], object]] = {
        "export": lambda: torch.export.export(model.module, model.inputs),
        "lowered": lambda: lower(exported),
        "delegated": lambda: lower(exported, [XnnpackPartitioner()]),
        "quantized": lambda: quantizer.quantize(model.module, model.inputs, "static_int8", [model.inputs] * 2),
    }
    times: dict[str, list[float]] = {action: [] for action in actions}
    for turn in range(rounds + 1):
        for action, call in actions.items():
            gc.collect()
            start = time.perf_counter()
            call()
            if turn:
                times[action].append(time.perf_counter() - start)
    medians = {action: statistics.median(seconds) for action, seconds in times.items()}
    export = medians.pop("export")
    return Figure(name, export, **{action: seconds / export for action, seconds in medians.items()}, memory=memory)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    chosen = [name for name in MODELS if not name.endswith("_x8")]
    parser.add_argument("--models", nargs="+", choices=chosen, default=chosen)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    print(
        f"{'model':<20}{'second export':>13}" + "".join(f"{c:>12}" for c in ("lowering", "delegated", "int8", "memory"))
    )
    figures = []
    for name in options.models:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            figures.append(process.apply(measure, (name, options.rounds)))
        print(figures[-1].line(), flush=True)
    for column in ("lowered", "delegated", "quantized"):
        ratios = {figure.name: getattr(figure, column) for figure in figures}
        worst = max(ratios, key=ratios.__getitem__)
        print(
            f"{column}: geometric mean {geometric_mean(list(ratios.values())):.2f}, worst {ratios[worst]:.2f} ({worst})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
