"""Deformable convolutions (``torchvision::deform_conv2d``) against the published formula, written as loops.

torchvision's compiled part does not load beside the CPU wheel of torch. Where it did, its own operator is the
reference.
"""

import random

import numpy as np
import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py.export.decompose import decomposer
from executorch_py.export.dialect.deformable import torchvision_decompositions
from executorch_py.testing import assert_matches_eager

_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def _reference(
    input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups,
    use_mask,
):  # fmt: skip
    x, w, o, m, b = (each.double().numpy() for each in (input, weight, offset, mask, bias))
    (batch, channels, height, width), (outs, ins, down, across) = x.shape, w.shape
    result = np.zeros((batch, outs, *o.shape[2:]))

    def pixel(image, y, x):
        return image[y, x] if 0 <= y < height and 0 <= x < width else 0.0

    def sample(image, y, x):
        if y <= -1 or y >= height or x <= -1 or x >= width:
            return 0.0
        top, left = int(np.floor(y)), int(np.floor(x))
        low, right = y - top, x - left
        upper = (1 - right) * pixel(image, top, left) + right * pixel(image, top, left + 1)
        lower = (1 - right) * pixel(image, top + 1, left) + right * pixel(image, top + 1, left + 1)
        return (1 - low) * upper + low * lower

    samples = np.zeros((batch, channels, down, across, *o.shape[2:]))
    for n, channel, ky, kx, row, column in np.ndindex(*samples.shape):
        tap = (channel // (channels // offset_groups) * down + ky) * across + kx
        y = row * stride_h - pad_h + ky * dilation_h + o[n, 2 * tap, row, column]
        x_ = column * stride_w - pad_w + kx * dilation_w + o[n, 2 * tap + 1, row, column]
        factor = m[n, tap, row, column] if use_mask else 1
        samples[n, channel, ky, kx, row, column] = factor * sample(x[n, channel], y, x_)
    for n, out in np.ndindex(batch, outs):
        first = out // (outs // groups) * ins
        result[n, out] = b[out]
        for i, ky, kx in np.ndindex(ins, down, across):
            result[n, out] += w[out, i, ky, kx] * samples[n, first + i, ky, kx]
    return torch.from_numpy(result).to(input.dtype)


if not hasattr(torch.ops.torchvision, "deform_conv2d"):
    _LIBRARY.define(
        "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
        "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
        "SymInt offset_groups, bool use_mask) -> Tensor"
    )
    _LIBRARY.impl("deform_conv2d", _reference, "CPU")

    @torch.library.register_fake("torchvision::deform_conv2d", lib=_LIBRARY)
    def _fake(input, weight, offset, *rest):
        return input.new_empty((input.shape[0], weight.shape[0], *offset.shape[-2:]))


OP = torch.ops.torchvision.deform_conv2d.default


class Layer(nn.Module):
    def __init__(self, channels, outs, kernel, stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1, offset_groups=1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outs, channels // groups, *kernel))
        self.bias = nn.Parameter(torch.randn(outs))
        self.numbers = (*stride, *pad, *dilation, groups, offset_groups)

    def forward(self, x, offset, mask=None):
        given = x.new_zeros(x.shape[0], 1) if mask is None else mask
        return OP(x, self.weight, offset, given, self.bias, *self.numbers, mask is not None)

    def inputs(self, batch, height, width, reach=1.0, masked=True):
        """Random inputs, with offsets of the size of `reach`."""
        stride, pad, dilation = self.numbers[0:2], self.numbers[2:4], self.numbers[4:6]
        kernel = self.weight.shape[2:]
        rows, columns = (
            (size + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
            for i, size in enumerate((height, width))
        )
        groups, offset_groups = self.numbers[6:]
        maps = offset_groups * kernel[0] * kernel[1]
        x = torch.randn(batch, self.weight.shape[1] * groups, height, width)
        offset = reach * torch.randn(batch, 2 * maps, rows, columns)
        return (x, offset, torch.rand(batch, maps, rows, columns)) if masked else (x, offset)


@pytest.mark.parametrize("seed", range(12))
def test_random_settings(seed):
    choose = random.Random(seed).choice
    torch.manual_seed(seed)
    groups, offset_groups = choose([1, 2, 3]), choose([1, 2, 4])
    layer = Layer(
        groups * offset_groups * choose([1, 2]), groups * choose([1, 2]), (choose([1, 2, 3]), choose([1, 3])),
        (choose([1, 2]), choose([1, 3])), (choose([0, 1, 2]), choose([1, 2])), (choose([1, 2]), 1), groups,
        offset_groups,
    )  # fmt: skip
    height, width = choose([5, 6]), choose([1, 4, 7])
    batch, masked = choose([1, 2]), seed % 3 != 0
    assert_matches_eager(layer, [layer.inputs(batch, height, width, reach, masked) for reach in (1, 0, 6)])


def test_places_far_outside_are_zeros():
    layer = Layer(2, 3, (3, 3), pad=(1, 1))
    x, offset, mask = layer.inputs(1, 4, 5)
    offset.view(-1)[::3], offset.view(-1)[1::6], offset.view(-1)[2::7] = float("inf"), -1e30, -float("inf")
    assert_matches_eager(layer, (x, offset, mask))


def test_places_at_the_edges():
    """Whole pixels, and just outside of the image, where a sample fades to zero."""
    layer = Layer(2, 2, (1, 1), pad=(3, 3))
    x, offset = layer.inputs(1, 1, 2, masked=False)
    assert_matches_eager(layer, [(x, torch.full_like(offset, step)) for step in (-1.0, -0.5, 0.0, 0.25, 1.0)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_floats(dtype):
    torch.manual_seed(0)
    layer = Layer(4, 2, (3, 3), pad=(1, 1), groups=2, offset_groups=2).to(dtype)
    inputs = tuple(each.to(dtype) for each in layer.inputs(2, 5, 4))
    assert_matches_eager(layer, inputs)


def test_dynamic_sizes():
    torch.manual_seed(0)
    layer = Layer(2, 2, (3, 3), pad=(1, 1))
    batch, height, width = (torch.export.Dim(name, min=2, max=9) for name in ("batch", "height", "width"))
    sizes = {0: batch, 2: height, 3: width}
    inputs = [layer.inputs(2, 4, 5), layer.inputs(3, 7, 2), layer.inputs(2, 2, 9)]
    assert_matches_eager(layer, inputs, dynamic_shapes=(sizes, sizes, sizes))


def _calls(program, name):
    """Whether a program calls an operator of that name."""
    return any(name in str(node.target) for node in program.exported_program().graph.nodes)


def test_a_kernel_of_the_users_is_taken(monkeypatch):
    layer = Layer(2, 2, (1, 1))
    exported = torch.export.export(layer, layer.inputs(1, 3, 3))
    edge = et.to_edge(exported)
    assert _calls(edge, "grid_sampler_2d") and not _calls(edge, "deform_conv2d")
    assert _calls(et.to_edge(exported, compile_config=et.EdgeCompileConfig(preserve_ops=[OP])), "deform_conv2d")
    monkeypatch.setattr(decomposer, "kernels_of_operator", lambda name: [name])
    assert _calls(et.to_edge(exported), "deform_conv2d")


def test_only_what_is_defined_is_decomposed(monkeypatch):
    assert list(torchvision_decompositions()) == [OP]
    monkeypatch.setattr(torch.ops, "torchvision", object())
    assert torchvision_decompositions() == {}
