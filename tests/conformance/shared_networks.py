"""Random networks in which nothing has one reader only: layers and weights that are used several times, values that
several operators read and that are outputs as well, norms before and behind everything.

A rewrite that does not ask who else reads a value or a weight gives such a network other numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 8
#: Spatial dimensions -> the input's sizes.
SIZES = {0: (3, WIDTH), 1: (2, WIDTH, 9), 2: (2, WIDTH, 6, 7)}
_NORMS = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d}
_ACTIVATIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    F.relu,
    F.relu6,
    F.hardswish,
    F.silu,
    torch.sigmoid,
    torch.tanh,
)


class SharedNetwork(nn.Module):
    """Drawn by a seed. ``text`` says what it computes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.spatial = self.random.choice(list(SIZES))
        self.layers = nn.ModuleList(self._layer() for _ in range(3))
        self.layers.append(self._layer())
        if type(self.layers[3]) is type(self.layers[0]) and self.layers[3].weight.shape == self.layers[0].weight.shape:
            self.layers[3].weight = self.layers[0].weight  # two layers of one weight
        self.shift = nn.Parameter(torch.randn(WIDTH, *[1] * self.spatial) * 0.5)
        self.norms = nn.ModuleList(self._norm() for _ in range(3))
        self.steps = [self._step(i + 1) for i in range(self.random.randint(5, 9))]
        self.also = sorted(self.random.sample(range(1, len(self.steps)), 2))
        self.inputs = (torch.randn(SIZES[self.spatial]),)
        self.text = f"seed {seed}: {[self.layers, self.norms]} {self.steps}, outputs {self.also}"

    def _layer(self) -> nn.Module:
        bias = self.random.random() < 0.5
        if not self.spatial:
            return nn.Linear(WIDTH, WIDTH, bias=bias)
        kind = self.random.choice(("Conv", "Conv", "ConvTranspose"))
        groups = self.random.choice((1, 1, 2, WIDTH if kind == "Conv" else 4))
        return getattr(nn, f"{kind}{self.spatial}d")(WIDTH, WIDTH, 3, padding=1, groups=groups, bias=bias)

    def _norm(self) -> nn.Module:
        norm = _NORMS[self.spatial](WIDTH, eps=self.random.choice((1e-5, 1e-2)), affine=self.random.random() < 0.8)
        with torch.no_grad():
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.3, 2)
            if norm.affine:
                norm.weight.uniform_(0.5, 1.5)
                norm.bias.uniform_(-0.5, 0.5)
        return norm

    def _step(self, count: int) -> tuple[str, int, int, int]:
        """An operator, which one of its kind, and the values that it reads: the newest one, or any."""
        kind = self.random.choice(
            (
                "layer",
                "layer",
                "norm",
                "norm",
                "activation",
                "sum",
                "product",
                "halves",
                "scaled",
                "shifted",
                "spelled out",
            )
        )
        newest = count - 1 if self.random.random() < 0.7 else self.random.randrange(count)
        return kind, self.random.randrange(12), newest, self.random.randrange(count)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [x]
        for kind, which, first, second in self.steps:
            a, b = values[first], values[second]
            if kind == "layer":
                values.append(self.layers[which % len(self.layers)](a))
            elif kind == "norm":
                values.append(self.norms[which % len(self.norms)](a))
            elif kind == "activation":
                values.append(_ACTIVATIONS[which % len(_ACTIVATIONS)](a))
            elif kind == "sum":
                values.append(a + b)
            elif kind == "product":
                values.append(a * torch.sigmoid(b))
            elif kind == "halves":
                left, right = a.chunk(2, 1)
                values.append(torch.cat([right, left], 1))
            elif kind == "shifted":
                values.append(a + self.shift if which % 2 else a * self.shift)
            elif (
                kind == "spelled out" and not self.spatial
            ):  # a product with a weight that layers have, and a bias of several
                weight = self.layers[which % len(self.layers)].weight
                values.append((a @ weight, a @ weight.t() + self.shift, torch.addmm(self.shift, a, weight))[which % 3])
            else:
                values.append(0.5 * a)
        norm, layer = self.norms[0], self.layers[0]
        y = layer(values[-1])
        values.append((norm(y) + y, self.norms[1](layer(0.5 * values[-1])))[self.steps[0][1] % 2])
        return (values[-1], *(values[i] for i in self.also))
