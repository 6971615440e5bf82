"""Blocks of MobileNetV2 whose convolutions run as one operator, strip by strip, beside the same blocks with the pass left out:
equal bit for bit, in less memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import executorch_py as et

PASS = "fuse-separable-convolution"


class Block(nn.Module):
    """Expansion (left out for equal channels), depthwise, projection; a residual sum where sizes allow."""

    def __init__(self, before: int, inside: int, after: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        expand = [nn.Conv2d(before, inside, 1), nn.ReLU6()] if before != inside else []
        middle = nn.Conv2d(inside, inside, kernel, stride, kernel // 2, groups=inside)
        self.layers = nn.Sequential(*expand, middle, nn.ReLU6(), nn.Conv2d(inside, after, 1, bias=False))
        self.adds = before == after and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        Block(32, 32, 16),
        Block(16, 96, 24, stride=2),
        Block(24, 144, 24, kernel=5),
        Block(24, 144, 40, stride=2),
    ).eval()


@pytest.mark.parametrize("batch", [1, 3])
def test_equal_bits_in_less_memory(batch: int) -> None:
    model, x = network(), torch.randn(batch, 3, 112, 101)
    edge = et.to_edge(torch.export.export(model, (x,)))
    runtime = et.Runtime.get()
    joined = runtime.load_program(edge.to_executorch().buffer)
    alone = runtime.load_program(edge.to_executorch(et.ExecutorchBackendConfig(disabled_passes=[PASS])).buffer)
    assert joined.metadata("forward").operators().count("et::separable_convolution.out") == 1
    assert "et::separable_convolution.out" not in alone.metadata("forward").operators()
    arenas = [sum(program.metadata("forward").planned_buffer_sizes()) for program in (joined, alone)]
    assert arenas[0] < arenas[1] / 2
    before = runtime.num_threads
    try:
        for threads in (1, 2, 3):
            et.set_num_threads(threads)
            (y,), (expected,) = (program.load_method("forward").execute((x,)) for program in (joined, alone))
            assert torch.equal(y, expected)
            torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-4)
    finally:
        et.set_num_threads(before)


def test_compatible_files_keep_the_convolutions() -> None:
    edge = et.to_edge(torch.export.export(network(), (torch.randn(1, 3, 112, 112),)))
    data = edge.to_executorch(et.ExecutorchBackendConfig(compatible=True)).buffer
    operators = et.Runtime.get().load_program(data).metadata("forward").operators()
    assert not [name for name in operators if name.startswith("et::")]
