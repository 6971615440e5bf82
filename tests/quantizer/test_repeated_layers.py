"""What a model computes twice from the same integers, rounded in two ways."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer


class Layer(nn.Module):
    """One layer twice on one tensor: with its relu, and without."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.layer(F.relu(self.layer(x))) + self.layer(x)


class Sum(nn.Module):
    """A sum of two layers, with its relu and without."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Conv2d(3, 3, 1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.a(x), self.b(x)
        return self.c(F.relu(a + b)) + self.d(a + b)


@pytest.mark.parametrize("activations", ["int8", "uint8"])
@pytest.mark.parametrize(("kind", "sizes"), [(Layer, (4, 8)), (Sum, (1, 3, 5, 5))], ids=["layer", "sum"])
def test_both_stay_integers(kind: type[nn.Module], sizes: tuple[int, ...], activations: str) -> None:
    """Merged, they were one operator on floats; the delegate said that the partitioner should not have taken it."""
    torch.manual_seed(0)
    model, data = kind().eval(), [torch.randn(sizes) for _ in range(8)]
    program = quantizer.quantize(model, (data[0],), quantizer.quantization_config(activations), data)
    results = []
    for partitioners in ([], [XnnpackPartitioner(largest=True)]):
        manager = et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch()
        body = manager.dump().split("method @forward")[1].splitlines()
        floats = [line for line in body if ": f32" in line and ("aten::linear" in line or "aten::add" in line)]
        assert not floats, floats
        results.append(et.load(manager.buffer)(data[0]))
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], program.module()(data[0]), atol=0.05, rtol=0)
