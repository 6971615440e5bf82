"""Products whose second factor is turned: the node says so, and nothing is transposed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export import Dim

import executorch_py as et
from tests.xnnpack.payload import read_payloads

_GENERATOR = torch.Generator().manual_seed(4)


def _t(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=_GENERATOR)


class _Call(nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> object:
        return self.function(self, a, b)


#: Function, inputs, and how many StaticTranspose are left.
CASES: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, torch.Tensor], int]] = {
    "matrices": (lambda m, a, b: a @ b.mT, (_t(5, 7), _t(6, 7)), 0),
    "batches": (lambda m, a, b: a @ b.mT, (_t(3, 5, 7), _t(3, 6, 7)), 0),
    "half": (lambda m, a, b: a @ b.mT, (_t(3, 5, 7).half(), _t(3, 6, 7).half()), 0),
    "heads": (lambda m, a, b: torch.softmax(a @ b.mT, -1) @ b, (_t(2, 3, 5, 7), _t(2, 3, 6, 7)), 0),
    "broadcast": (lambda m, a, b: a @ b.mT, (_t(3, 5, 7), _t(6, 7)), 0),
    "two_readers": (lambda m, a, b: (lambda t: a @ t + (a * 2) @ t)(b.mT), (_t(3, 5, 7), _t(3, 6, 7)), 0),
    # Where anything else wants the turned one, it is made.
    "other_reader": (lambda m, a, b: (lambda t: (a @ t, torch.tanh(t)))(b.mT), (_t(3, 5, 7), _t(3, 6, 7)), 1),
    "handed_out": (lambda m, a, b: (lambda t: (a @ t, t))(b.mT), (_t(3, 5, 7), _t(3, 6, 7)), 1),
    "both_factors": (lambda m, a, b: (lambda t: t @ t)(b.mT), (_t(1), _t(3, 6, 6)), 1),
    "first_factor": (lambda m, a, b: a.mT @ b, (_t(3, 7, 5), _t(3, 7, 6)), 1),
    "other_dims": (lambda m, a, b: a @ b.permute(1, 2, 0), (_t(6, 5, 3), _t(7, 6, 3)), 1),
    "cut_anew": (lambda m, a, b: a @ b.mT.reshape(3, 14, 3), (_t(3, 5, 14), _t(3, 6, 7)), 1),
    # An image with its channels innermost is turned to be rows, and no second time.
    "image": (lambda m, a, b: a @ m.conv(b).mT, (_t(1, 4, 5, 8), _t(1, 4, 6, 8)), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_transposes(name: str) -> None:
    function, inputs, transposes = CASES[name]
    torch.manual_seed(0)
    module = _Call(function).eval()
    exported = torch.export.export(module, inputs)
    file = (
        et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(always=True)]).to_executorch().buffer
    )
    assert sum(graph.count("StaticTranspose") for graph in read_payloads(file)) == transposes
    found = et.Runtime.get().load_program(file).load_method("forward").execute(inputs)
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(module(*inputs))
    for actual, exact in zip(found, expected, strict=True):
        tolerance = 1e-2 if exact.dtype == torch.float16 else 1e-5
        assert actual.shape == exact.shape and torch.allclose(actual, exact, rtol=tolerance, atol=tolerance)


def test_sizes_that_change() -> None:
    class Product(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a @ b.mT

    rows, columns = Dim("rows", min=1, max=9), Dim("columns", min=1, max=17)
    exported = torch.export.export(
        Product(), (_t(3, 5, 7), _t(3, 6, 7)), dynamic_shapes={"a": {1: rows}, "b": {1: columns}}
    )
    file = (
        et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )
    assert [graph.nodes for graph in read_payloads(file)] == [("BatchMatrixMultiply",)]
    method = et.Runtime.get().load_program(file).load_method("forward")
    for m, n in ((5, 6), (1, 17), (9, 1), (5, 6)):
        a, b = _t(3, m, 7), _t(3, n, 7)
        assert torch.allclose(method.execute((a, b))[0], a @ b.mT, atol=1e-5)
