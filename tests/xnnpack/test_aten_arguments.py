"""Arguments that only callers of aten operators give: one number for all dimensions, scales that sizes contradict."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et

aten = torch.ops.aten


class Call(nn.Module):
    """A function of a weight and an image, behind a convolution so that a part is worth a call."""

    def __init__(self, function: Callable, weight: tuple[int, ...], spatial: int) -> None:
        super().__init__()
        self.function = function
        self.conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[spatial - 1](4, 4, 1)
        self.weight = nn.Parameter(torch.randn(weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.conv(x), self.weight)


def _check(function: Callable, weight: tuple[int, ...], sizes: tuple[int, ...], delegate: bool) -> set[str]:
    torch.manual_seed(0)
    model, x = Call(function, weight, len(sizes) - 2).eval(), (torch.randn(sizes),)
    edge = et.to_edge_transform_and_lower(
        torch.export.export(model, x), partitioner=[XnnpackPartitioner(always=True)] if delegate else None
    )
    torch.testing.assert_close(et.load(edge.to_executorch().buffer)(*x), model(*x).detach(), atol=1e-5, rtol=1e-5)
    return {row.op for row in et.delegation_report(edge).refused()} if delegate else set()


IMAGE = (2, 4, 9, 8)
#: Name -> convolution with lists of one number, sizes of its weight, sizes of the image.
CONVOLUTIONS = {
    "plain": (lambda x, w: aten.convolution(x, w, None, [1], [0], [1], False, [0], 1), (6, 4, 3, 3), IMAGE),
    "padded": (lambda x, w: aten.convolution(x, w, None, [2], [1], [1], False, [0], 1), (6, 4, 3, 3), IMAGE),
    "dilated": (lambda x, w: aten.convolution(x, w, None, [1, 2], [2], [2], False, [0], 2), (6, 2, 3, 3), IMAGE),
    "depthwise": (lambda x, w: aten.convolution(x, w, None, [2], [1, 2], [1], False, [0, 0], 4), (4, 1, 3, 5), IMAGE),
    "transposed": (lambda x, w: aten.convolution(x, w, None, [2], [1], [1], True, [1], 1), (4, 6, 3, 3), (2, 4, 5, 6)),
    "transposed, mixed": (lambda x, w: aten.convolution(x, w, None, [3, 2], [1], [1], True, [1], 2), (4, 3, 3, 3),
                          IMAGE),
    "line": (lambda x, w: aten.convolution(x, w, None, [2], [1], [1], False, [0], 1), (6, 4, 3), (2, 4, 9)),
    "conv2d": (lambda x, w: aten.conv2d(x, w, None, [2], [1], [1], 1), (6, 4, 3, 3), IMAGE),
    "conv_transpose2d": (lambda x, w: aten.conv_transpose2d(x, w, None, [2], [1], [1], 1, [1]), (4, 6, 3, 3), IMAGE),
}  # fmt: skip
POOLINGS = {
    "max": lambda x, w: aten.max_pool2d(x, [3], [2], [1], [1]) * w,
    "max of one stride": lambda x, w: aten.max_pool2d(x, [3]) * w,
    "max with indices": lambda x, w: aten.max_pool2d_with_indices(x, [3], [2], [1], [1])[0] * w,
    "average": lambda x, w: aten.avg_pool2d(x, [3], [2], [1]) * w,
    "adaptive": lambda x, w: torch.nn.functional.adaptive_avg_pool2d(x, [3, 2]) * w,
}


@pytest.mark.parametrize("delegate", [True, False], ids=["delegate", "kernels"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_with_one_number_for_all_dimensions(name: str, delegate: bool) -> None:
    assert "aten.convolution.default" not in _check(*CONVOLUTIONS[name], delegate)


@pytest.mark.parametrize("delegate", [True, False], ids=["delegate", "kernels"])
@pytest.mark.parametrize("name", POOLINGS)
def test_poolings_with_one_number_for_all_dimensions(name: str, delegate: bool) -> None:
    _check(POOLINGS[name], (1,), (2, 4, 9, 8), delegate)


LINES = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
RESIZES = [*LINES, "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"]
RESIZES += [f"{kind}{rank}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3)]


@pytest.mark.parametrize("delegate", [True, False], ids=["delegate", "kernels"])
@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize(
    ("size", "scales"),
    [
        ((8, 10, 6), (2.0, 2.0, 2.0)), ((8, 10, 6), (2.5, 3.0, 2.0)), ((8, 10, 6), (None, 3.0, None)),
        ((4, 5, 3), (2.0, 2.0, 1.5)), ((4, 5, 7), (1.7, None, 3.0)), ((7, 3, 4), (1.9, 2.0, 2.0)),
        ((12, 20, 6), (3.0, 4.0, 2.0)), ((12, 20, 5), (3.5, 4.0, 2.0)),
        ((8, 10, 6), (0.5, 4.0, 1.0)), ((8, 10, 6), (-1.0, 0.0, 2.0)), ((4, 5, 3), (0.7, None, 0.3)),
    ],
)  # fmt: skip
def test_scales_beside_sizes(
    name: str, size: tuple[int, ...], scales: tuple[float | None, ...], delegate: bool
) -> None:
    op, rank = getattr(aten, name).default, int(name.removesuffix("_aa")[-2])
    if name.endswith("_aa") and (scales[0] or 1) == 0.5:
        pytest.skip("eager reads past the image where its smoothing window lies behind the end")
    more = () if "nearest" in name else (False,)
    _check(lambda x, w: op(x, size[:rank], *more, *scales[:rank]) * w, (1,), (2, 4, 4, 5, 3)[: rank + 2], delegate)
