"""The gradients of convolutions through the whole runtime beside eager's: random ranks, groups and strides."""

import random

import pytest
import torch
from torch import nn

import executorch_py as et


class Gradients(nn.Module):
    """``convolution_backward`` with fixed numbers; gradients that are not asked for are left out."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    def forward(self, grad, x, weight):
        results = torch.ops.aten.convolution_backward(grad, x, weight, *self.numbers)
        return [result for result in results if result is not None]


def _case(seed):
    draw = random.Random(seed)
    rank, groups, transposed = draw.choice([1, 2, 2, 2, 3]), draw.choice([1, 1, 2, 3]), draw.random() < 0.4
    inner, outer = draw.randint(1, 3), draw.randint(1, 4)  # channels of a group
    kernel = [draw.randint(1, 3) for _ in range(rank)]
    stride = [draw.randint(1, 3) for _ in range(rank)]
    dilation = [draw.randint(1, 2) for _ in range(rank)]
    padding = [draw.randint(0, 2) for _ in range(rank)]
    beyond = [draw.randint(0, max(s, d) - 1) if transposed else 0 for s, d in zip(stride, dilation, strict=True)]
    sizes = [draw.randint(5, 9) for _ in range(rank)]
    generator = torch.Generator().manual_seed(seed)
    dtype = draw.choice([torch.float32, torch.float32, torch.float64])
    x = torch.randn(draw.randint(1, 3), groups * inner, *sizes, generator=generator, dtype=dtype)
    shape = (groups * inner, outer) if transposed else (groups * outer, inner)
    weight = torch.randn(*shape, *kernel, generator=generator, dtype=dtype)
    numbers = (stride, padding, dilation, transposed, beyond, groups)
    grad = torch.randn(torch.convolution(x, weight, None, *numbers).shape, generator=generator, dtype=dtype)
    mask = draw.choice([[True, True, True], [False, True, True], [True, False, False], [True, True, False]])
    return Gradients(([groups * outer], *numbers, mask)), (grad, x, weight)


@pytest.mark.parametrize("seed", range(24))
def test_gradients_are_eagers(seed):
    model, inputs = _case(seed)
    program = et.to_edge(torch.export.export(model, inputs)).to_executorch()
    outputs = et.Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)
    torch.testing.assert_close(outputs, model(*inputs), rtol=1e-4, atol=1e-4)
