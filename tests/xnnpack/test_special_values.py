"""NaN, infinities and signed zeros through the delegate: each element is of the class that eager gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et

NAN, INF = float("nan"), float("inf")
ACTIVATIONS = {"none": nn.Identity(), "relu": nn.ReLU(), "relu6": nn.ReLU6(), "hardtanh": nn.Hardtanh(-0.5, 0.5)}
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear 24 12": (lambda: nn.Linear(24, 12), (3, 24)),
    "linear 128 2": (lambda: nn.Linear(128, 2), (1, 128)),
    "linear 40 70": (lambda: nn.Linear(40, 70), (9, 40)),
    "conv 1 1 1": (lambda: nn.Conv2d(1, 1, 1), (1, 1, 6, 7)),
    "conv 3 8 3": (lambda: nn.Conv2d(3, 8, 3, padding=1), (1, 3, 6, 7)),
    "conv 8 40 3": (lambda: nn.Conv2d(8, 40, 3, stride=2), (1, 8, 9, 9)),
    "depthwise": (lambda: nn.Conv2d(16, 16, 3, groups=16), (1, 16, 9, 9)),
    "transposed 4 1": (lambda: nn.ConvTranspose2d(4, 1, 2, stride=2), (1, 4, 5, 5)),
    "transposed 8 33": (lambda: nn.ConvTranspose2d(8, 33, 3), (1, 8, 5, 5)),
    "average pooling": (lambda: nn.AvgPool2d(3, 2), (1, 5, 9, 9)),
    "clamp": (lambda: nn.Hardtanh(-1, 2), (5, 33)),
    "leaky relu": (lambda: nn.LeakyReLU(0.1), (5, 33)),
    "hardswish": (lambda: nn.Hardswish(), (5, 33)),
}


def planted(shape: tuple[int, ...]) -> torch.Tensor:
    x = torch.randn(shape)
    x.view(-1)[:: max(7, x.numel() // 4)] = torch.tensor(NAN)
    x.view(-1)[3] = INF
    return x


def check(model: nn.Module, *inputs: torch.Tensor) -> None:
    exported = torch.export.export(model.eval(), inputs)
    manager = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)])
    got = et.load(manager.to_executorch().buffer)(*inputs)
    torch.testing.assert_close(got, model(*inputs), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer: str, activation: str) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[layer]
    check(nn.Sequential(make(), ACTIVATIONS[activation]), planted(shape))


class Both(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "mul", "sub"])
def test_pairs(name: str) -> None:
    torch.manual_seed(0)
    for shape in ((7,), (5, 33)):
        check(Both(getattr(torch, name)), planted(shape), planted(shape).flip(0))
        check(Both(getattr(torch, name)), torch.randn(shape), planted(shape))
