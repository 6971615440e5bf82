"""Small models of the Arm examples, and how they are quantized and lowered for tests of whole ways."""

from __future__ import annotations

import torch
from executorch_py.backends.tosa import TOSAPartitioner

import executorch_py as et
from executorch_py import quantizer


class Add(torch.nn.Module):
    """The smallest: a sum of two inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Gate(torch.nn.Module):
    """A module of the user's own: what two branches give, added and multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.gate = torch.nn.Linear(8, 12), torch.nn.Linear(8, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.value(x) * torch.sigmoid(self.gate(x)) + 0.5


class Classifier(torch.nn.Module):
    """Operators that go to the NPU one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = torch.nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        x = torch.nn.functional.max_pool2d(x, 2).flatten(1)
        return self.last(x)


def small_networks() -> dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]:
    """Name -> model and example inputs; the same numbers each time."""
    torch.manual_seed(0)
    return {
        "add": (Add(), (torch.randn(1, 2, 3), torch.randn(1, 2, 3))),
        "linear": (torch.nn.Linear(9, 7), (torch.randn(1, 9),)),
        "conv_relu": (
            torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, stride=2, padding=1), torch.nn.ReLU()),
            (torch.randn(1, 3, 9, 11),),
        ),
        "custom": (Gate(), (torch.randn(1, 8),)),
        "classifier": (Classifier(), (torch.randn(1, 1, 8, 8),)),
    }


def quantized(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    """int8 as the TOSA quantizer annotates it, calibrated on a few random inputs."""
    config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
    samples = [inputs, *(tuple(torch.randn_like(x) for x in inputs) for _ in range(3))]
    return quantizer.quantize(model.eval(), inputs, quantizer.TOSAQuantizer().set_global(config), samples)


def lowered(program: torch.export.ExportedProgram, partitioner: TOSAPartitioner | None) -> et.EdgeProgramManager:
    """The program with the partitioner's parts."""
    return et.to_edge_transform_and_lower(program, partitioner=[partitioner] if partitioner else None)
