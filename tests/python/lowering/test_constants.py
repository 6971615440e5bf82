"""Constants that files do not hold: what only repeats elements of smaller ones."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import executorch_py as et

LENGTH = 399


def _causal() -> torch.Tensor:
    places = torch.arange(LENGTH)
    return (places[None, :] <= places[:, None])[None, None]


def _window() -> torch.Tensor:
    places = torch.arange(LENGTH)
    return ((places[None, :] <= places[:, None]) & (places[None, :] > places[:, None] - 64)).expand(1, 4, -1, -1)


def _open() -> torch.Tensor:
    return (torch.arange(LENGTH)[None, None, :, None] >= 0).expand(1, -1, LENGTH, LENGTH)


def _added() -> torch.Tensor:
    return torch.zeros(LENGTH, LENGTH).masked_fill(~_causal()[0, 0], -3e38)[None, None]


class Attention(nn.Module):
    def __init__(self, mask: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=self.mask())


class Scores(nn.Module):
    def __init__(self, mask: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2)) * 0.25
        mask = self.mask()
        scores = torch.where(mask, scores, -1e4) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(-1) @ k


@pytest.mark.parametrize("mask", [_causal, _window, _open, _added])
@pytest.mark.parametrize("kind", [Attention, Scores])
def test_masks_are_made_where_they_are_read(kind: type[nn.Module], mask: Callable[[], torch.Tensor]) -> None:
    torch.manual_seed(0)
    model, inputs = kind(mask).eval(), (torch.randn(1, 4, LENGTH, 16), torch.randn(1, 4, LENGTH, 16))
    program = et.to_edge_transform_and_lower(torch.export.export(model, inputs)).to_executorch()
    assert len(program.buffer) < 32 * 1024, f"{len(program.buffer)} bytes; the mask has {LENGTH * LENGTH}"
    out = et.Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)[0]
    torch.testing.assert_close(out, model(*inputs), rtol=1e-4, atol=1e-5)


def test_a_weight_made_of_repetitions_is_stored() -> None:
    """Products prepare their weights at load, which they can with constants only."""

    class Blur(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            row = torch.tensor([1.0, 2.0, 1.0])
            weight = (row[:, None] * row[None, :] / 16).repeat(256, 1, 1, 1)
            return nn.functional.conv2d(x, weight, groups=256)

    x = torch.randn(1, 256, 8, 8)
    program = et.to_edge_transform_and_lower(torch.export.export(Blur(), (x,))).to_executorch()
    assert len(program.buffer) > 256 * 9 * 4
    out = et.Runtime.get().load_program(program.buffer).load_method("forward").execute((x,))[0]
    torch.testing.assert_close(out, Blur()(x), rtol=1e-4, atol=1e-5)
