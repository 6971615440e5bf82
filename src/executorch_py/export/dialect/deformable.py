"""Deformable convolutions, ``torchvision.ops.deform_conv2d``: samples at places that a tensor names, then a product.

torchvision defines the operator when it is imported, which nothing here does. So it is looked for at each lowering.

    >>> table = {**decomposition_table(), **torchvision_decompositions()}  # doctest: +SKIP
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten

#: Beyond it on the scale of a grid, an image of any size has no pixel, nor a neighbour of one. Images of one pixel
#: reach farthest: from -1 to 1, and a neighbour 2 beyond.
_OUTSIDE = 4.0


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """Every tap of a window reads a place of its own, by linear interpolation; outside of the image are zeros.

    Args:
        input: [batch, channels, height, width].
        weight: [out channels, channels / groups, taps down, taps across].
        offset: [batch, offset groups * taps * 2, out height, out width]: how far each tap is moved, down then across.
        mask: [batch, offset groups * taps, out height, out width]: what each tap is multiplied by.
        bias: [out channels].
        stride_h: Rows from a window to the next; the other numbers are those of a convolution, too.
        stride_w: Columns.
        pad_h: Rows of zeros.
        pad_w: Columns.
        dilation_h: Rows from a tap to the next.
        dilation_w: Columns.
        groups: Of channels that make an output channel.
        offset_groups: Of channels that have offsets in common.
        use_mask: False: the mask is not read.
    """
    batch, channels, height, width = input.shape
    rows, columns = offset.shape[-2:]
    dtype = input.dtype
    if dtype in (torch.float16, torch.bfloat16):  # a place in a large image needs more digits
        input, weight, offset, mask, bias = (each.float() for each in (input, weight, offset, mask, bias))
    down, across = weight.shape[-2:]
    taps = down * across

    def along(windows: Any, stride: int, pad: int, count: int, dilation: int) -> Tensor:
        """Where taps are that nobody moved: [count, windows]."""
        starts = torch.arange(windows, dtype=input.dtype) * stride - pad
        return starts + (torch.arange(count, dtype=input.dtype) * dilation).unsqueeze(1)

    y = along(rows, stride_h, pad_h, down, dilation_h).reshape(down, 1, rows, 1)
    x = along(columns, stride_w, pad_w, across, dilation_w).reshape(1, across, 1, columns)
    moved = offset.reshape(batch * offset_groups, down, across, 2, rows, columns)
    # A grid goes from -1, the edge before the first pixel, to 1, the edge behind the last.
    places = [
        moved[:, :, :, side] * (2 / size) + (still * (2 / size) + (1 / size - 1))
        for side, still, size in ((1, x, width), (0, y, height))
    ]
    grid = torch.stack(places, -1).clamp(-_OUTSIDE, _OUTSIDE).reshape(batch * offset_groups, taps * rows, columns, 2)
    images = input.reshape(batch * offset_groups, channels // offset_groups, height, width)
    samples = aten.grid_sampler_2d(images, grid, 0, 0, False)
    if use_mask:
        samples = samples * mask.reshape(batch * offset_groups, 1, taps * rows, columns)
    samples = samples.reshape(batch, channels * taps, rows, columns)
    filters = weight.reshape(weight.shape[0], weight.shape[1] * taps, 1, 1)
    return torch.nn.functional.conv2d(samples, filters, bias, groups=groups).to(dtype)


def torchvision_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Of torchvision's operators, those that are defined by now."""
    namespace = torch.ops.torchvision
    return {namespace.deform_conv2d.default: deform_conv2d} if hasattr(namespace, "deform_conv2d") else {}
