"""Clamps that the library fuses into the node before them: bounds must not reach the parameters of that node."""

from collections.abc import Callable

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer

CLAMPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "above": lambda y: y.clamp(min=0.1),
    "within": lambda y: y.clamp(0.1, 0.4),
    "below": lambda y: (-y).clamp(max=-0.1),
    "zero": lambda y: (-y).clamp(max=0.0),
    "minus_zero": lambda y: y.clamp(-0.0, 0.4),
    "around": lambda y: y.clamp(-0.3, 0.4),
}


class Net(nn.Module):
    def __init__(self, clamp: Callable[[torch.Tensor], torch.Tensor], before: str) -> None:
        super().__init__()
        self.first, self.last, self.clamp, self.before = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Conv2d(8, 4, 1),
            clamp,
            before,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first(x))
        if self.before == "max_pool":
            y = F.max_pool2d(y, 3, 2, 1)
        elif self.before == "avg_pool":
            y = F.avg_pool2d(y, 3, 2, 1)
        return self.last(self.clamp(y))


@pytest.mark.parametrize("config", [None, "static_int8"])
@pytest.mark.parametrize("before", ["conv", "max_pool", "avg_pool"])
@pytest.mark.parametrize("clamp", CLAMPS)
def test_clamp_behind_padding(clamp: str, before: str, config: str | None) -> None:
    torch.manual_seed(0)
    model, data = Net(CLAMPS[clamp], before).eval(), [torch.randn(2, 3, 6, 6) for _ in range(4)]
    exported = torch.export.export(model, (data[0],))
    program = exported if config is None else quantizer.quantize(exported, (), config, data)
    results = []
    for partitioners in ([], [XnnpackPartitioner(largest=True)]):
        buffer = et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch().buffer
        results.append(et.load(buffer)(data[0]))
    if config is not None:
        assert torch.equal(*results)
    torch.testing.assert_close(results[1], program.module()(data[0]), atol=1e-5 if config is None else 0.02, rtol=1e-4)
