"""What moves elements between quantized layers moves integers, in a delegate's neighbourhood and alone."""

from collections.abc import Callable

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer

PLACES = torch.tensor([0, 3, 5, 7])
MOVEMENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "channel_shuffle": lambda y: F.channel_shuffle(y, 4),
    "roll": lambda y: torch.roll(y, (1, 2), (2, 3)),
    "rot90": lambda y: torch.rot90(y, 1, (2, 3)),
    "reflect": lambda y: F.pad(y, (1, 2, 1, 1), mode="reflect"),
    "replicate": lambda y: F.pad(y, (1, 1, 2, 1), mode="replicate"),
    "circular": lambda y: F.pad(y, (1, 1, 1, 1), mode="circular"),
    "stack": lambda y: torch.stack([y, y.flip(3)], 2).flatten(1, 2),
    "unbind": lambda y: torch.stack(y.unbind(1)[::-1], 1),
    "repeat": lambda y: y.repeat(1, 2, 1, 1),
    "diagonal": lambda y: y.diagonal(dim1=2, dim2=3).unsqueeze(2),
    "unfold": lambda y: y.unfold(2, 2, 2)[..., 0],
    "index_select": lambda y: torch.index_select(y, 1, PLACES),
    "index": lambda y: y[:, PLACES],
    "gather": lambda y: y.gather(1, PLACES.reshape(1, 4, 1, 1).expand(2, 4, 6, 6)),
    "max": lambda y: y.max(3, keepdim=True).values,
    "topk": lambda y: y.topk(4, 1).values,
    "amax": lambda y: y.amax((2, 3), keepdim=True),
}


class Between(nn.Module):
    """A movement between two convolutions; the second has as many channels as it gives."""

    def __init__(self, move: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.move, self.first = move, nn.Conv2d(3, 8, 3, padding=1)
        self.last = nn.Conv2d(move(torch.zeros(2, 8, 6, 6)).shape[1], 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.move(F.relu(self.first(x))))


@pytest.mark.parametrize("name", MOVEMENTS)
def test_integers_move(name: str) -> None:
    torch.manual_seed(0)
    model, data = Between(MOVEMENTS[name]).eval(), [torch.randn(2, 3, 6, 6) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    results = []
    for partitioners, conversions in (([], 2), ([XnnpackPartitioner()], 0)):
        manager = et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch()
        body = [line for line in manager.dump().split("method @forward")[1].splitlines() if " constant @" not in line]
        assert sum("quantized_decomposed::" in line for line in body) == conversions, body
        floats = [line for line in body if "= aten::" in line and ": f32" in line]
        assert not floats, floats
        results.append(et.load(manager.buffer)(data[0]))
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], program.module()(data[0]), atol=1e-2, rtol=0)
