"""How long our part of lowering takes, beside a second `torch.export` of the same model in the same process.

    python -m benchmarks.lowering [--rounds N]

Our part goes from an ExportedProgram to the bytes of the file. Both are measured from their second call on,
interleaved, and the medians are shown. Aim: a ratio of at most 1, never over 2.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import executorch_py as et

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import models


def zoo() -> dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]]:
    """The models of the figure: a function that makes each with an example input."""

    def vision(name: str) -> Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]:
        def make() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
            import torchvision.models

            torch.manual_seed(0)
            return getattr(torchvision.models, name)(weights=None).eval(), (torch.randn(1, 3, 224, 224),)

        return make

    def encoder() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        ids = torch.arange(1000, 1128).unsqueeze(0)
        return models.SentenceEncoder().eval(), (ids, torch.ones_like(ids))

    return {
        "MobileNetV2": vision("mobilenet_v2"),
        "MobileNetV3-large": vision("mobilenet_v3_large"),
        "ResNet-18": vision("resnet18"),
        "MiniLM-L6": encoder,
    }


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def measure(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], rounds: int) -> tuple[float, float]:
    """Medians of a second export and of our part, in seconds."""
    exported = torch.export.export(model, inputs)

    def lower() -> bytes:
        return bytes(et.to_edge_transform_and_lower(exported).to_executorch().buffer)

    lower()
    exports, lowerings = [], []
    for _ in range(rounds):
        exports.append(seconds(lambda: torch.export.export(model, inputs)))
        lowerings.append(seconds(lower))
    return statistics.median(exports), statistics.median(lowerings)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    print(f"{'model':<20}{'second export':>15}{'our lowering':>15}{'ratio':>8}")
    for name, make in zoo().items():
        export, lowering = measure(*make(), options.rounds)
        print(f"{name:<20}{export * 1e3:>12.0f} ms{lowering * 1e3:>12.0f} ms{lowering / export:>8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
