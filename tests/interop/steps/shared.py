"""What the steps share: the root of the imports, small models, and how a file is run."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn
from torch.export import export

#: Root of the imports: "executorch" in the environment of the published package.
root = "executorch_py"


def use(path: str, *names: str) -> Any:
    """``from root.path import names``; one name is given by itself, without names it is the module."""
    module = importlib.import_module(f"{root}.{path}")
    found = [getattr(module, name) for name in names]
    return module if not names else found[0] if len(found) == 1 else found


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Sums(nn.Module):
    def forward(self, x, y):
        return ((x + y) * y) + x


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x):
        return self.linear(torch.relu(self.conv(x)).mean((2, 3)))


class Logit(nn.Module):
    def forward(self, x):
        return torch.logit(torch.sigmoid(x), 0.01)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


X, XY, PICTURE = (torch.randn(2, 8),), (torch.randn(2, 3), torch.randn(2, 3)), (torch.randn(1, 3, 8, 8),)


def exported(model: nn.Module = None, inputs: tuple = X, **options: Any) -> Any:
    return export((model or Linears()).eval(), inputs, **options)


def run(buffer: bytes, *inputs: Any) -> Any:
    load = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")
    return load(buffer).forward(list(inputs))


def same(got: Any, want: Any, tolerance: float = 1e-4) -> None:
    assert torch.allclose(got, want, atol=tolerance, rtol=1e-4), (got - want).abs().max()


def planned(graph_module: Any) -> list:
    return [n.meta["spec"] for n in graph_module.graph.nodes if hasattr(n.meta.get("spec"), "mem_offset")]


def xnnpack():
    return use("backends.xnnpack.partition.xnnpack_partitioner", "XnnpackPartitioner")
