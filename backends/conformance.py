"""What a backend's ``conformance.py`` says: the cases that the suite in tests/conformance runs over every backend.

A *case* must be taken, in as many parts as it says, and give eager's numbers. A *refused* case must not be taken at all
(the device cannot do it, for ever) and still run, on the runtime's own kernels. What should work and does not yet is an
expected failure with a reason; it fails the suite when it begins to work.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from executorch_py.exir.backend.partitioner import Partitioner


@dataclass(frozen=True)
class Case:
    """One model for a backend.

    Attributes:
        name: Unique in its suite.
        make: Makes the module.
        inputs: Example inputs, which are also run.
        num_delegates: How many calls of the backend the program has.
        dynamic_shapes: As in torch.export.
        more_inputs: Other inputs to run, of other sizes.
        tolerance: Instead of the suite's, for numbers of lower precision.
        expected_failure: Why it does not work yet; empty = it must.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    num_delegates: int
    dynamic_shapes: Any = None
    more_inputs: tuple[tuple[Any, ...], ...] = ()
    tolerance: float | None = None
    expected_failure: str = ""


@dataclass(frozen=True)
class Suite:
    """All cases of a backend.

    Attributes:
        backend: Name of its folder.
        partitioner: Makes its partitioner.
        tolerance: max |ours - eager| / max |eager|.
        cases: What it must take.
        refused: What it must leave alone.
    """

    backend: str
    partitioner: Callable[[], Partitioner]
    tolerance: float
    cases: tuple[Case, ...]
    refused: tuple[Case, ...] = field(default=())


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class InvertedResidual(nn.Module):
    """A block with squeeze and excitation, as in MobileNetV3, for images of 8 channels.

    Args:
        bias: Whether the depthwise convolution has one before its batch norm.
    """

    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.depthwise = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=bias), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.down, self.up = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.project = nn.Sequential(nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(self.expand(x))
        scale = F.hardsigmoid(self.up(F.relu(self.down(y.mean((2, 3), keepdim=True)))))
        return x + self.project(y * scale)
