"""Pooling of lines, images and volumes, with values that are no numbers, through the whole runtime against eager."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from .whole_runtime import check

NAN, INF = float("nan"), float("inf")


WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)},
]


def _images(layout: torch.memory_format) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 13, 17)
    flat = x.view(-1)
    flat[::97] = torch.tensor([NAN, INF, -INF]).repeat(8)[: len(flat[::97])]
    x[1, 2, 3, 4:6] = torch.tensor([INF, -INF])
    x[0, 0, 0, 0] = x[1, 4, 12, 16] = NAN
    x[0, 3] = -INF
    return x.to(memory_format=layout)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("window", WINDOWS)
def test_images_with_what_is_no_number(window, layout):
    x = _images(layout)
    check(lambda x: F.max_pool2d(x, **window), x)
    check(lambda x: F.max_pool2d(x, dilation=2, **window), x)
    check(lambda x: F.avg_pool2d(x, count_include_pad=False, **window), x, tolerance=1e-5)
    check(lambda x: F.avg_pool2d(x, **window), x, tolerance=1e-5)
    check(lambda x: F.lp_pool2d(x, 2.0, window["kernel_size"]), x, tolerance=1e-5)


@pytest.mark.parametrize("window", [{"kernel_size": 2}, {"kernel_size": (3, 2, 3), "stride": (1, 2, 3), "padding": 1}])
def test_volumes_with_what_is_no_number(window):
    x = _images(torch.contiguous_format)[:, None].expand(2, 3, 5, 13, 17).contiguous()
    check(lambda x: F.max_pool3d(x, **window), x)
    check(lambda x: F.max_pool3d(x, ceil_mode=True, **window), x[0])
    check(lambda x: F.max_pool3d(x, return_indices=True, **window)[1], x)
    check(lambda x: F.avg_pool3d(x, ceil_mode=True, **window), x, tolerance=1e-5)
    check(lambda x: F.avg_pool3d(x, count_include_pad=False, **window), x, tolerance=1e-5)


def test_images_smaller_than_a_window():
    """With ceil_mode there is one window."""
    x = torch.randn(2, 3, 1, 1)
    for layout in (torch.contiguous_format, torch.channels_last):
        image = x.to(memory_format=layout)
        check(lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), image, tolerance=1e-6)
        check(lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True), image)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_windows_without_elements(dtype):
    x = (torch.rand(1, 2, 2, 1) * 50).to(dtype)
    check(lambda x: F.max_pool2d(x, (1, 2), 1, (0, 1), (1, 2)), x)


def test_one_number_is_missing():
    """At every place of an image in turn."""
    for place in range(25):
        x = torch.randn(1, 1, 5, 5)
        x.view(-1)[place] = NAN
        check(lambda x: F.max_pool2d(x, 3, 1, 1), x)
        check(lambda x: F.avg_pool2d(x, 2), x, tolerance=1e-6)


def test_local_response_norm():
    torch.manual_seed(0)
    for shape in ((2, 5, 13, 17), (1, 32, 7, 9), (3, 4, 8), (2, 3, 4, 5, 6)):
        for size in (1, 2, 5):
            check(lambda x, n=size: F.local_response_norm(x, n), torch.randn(shape), tolerance=1e-6)
    x = torch.randn(2, 3, 11, 6, 7)
    for window in ((3, 1, 1), (2, 2, 1), (1, 3, 3)):
        check(lambda x, w=window: F.avg_pool3d(x, w, stride=1), x, tolerance=1e-6)
        check(lambda x, w=window: F.avg_pool3d(x, w, ceil_mode=True), x, tolerance=1e-6)


def _check_pooling(pool, dtype, shapes, every_options):
    torch.manual_seed(0)
    for shape in shapes:
        x = torch.randint(-99, 99, shape).to(dtype)
        if dtype.is_floating_point:
            x.view(-1)[1:5] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0], dtype=dtype)
        for options in every_options:
            for case in (x, torch.full_like(x, -99)):
                try:
                    expected = pool(case, *options)
                except RuntimeError:  # windows larger than the input
                    continue
                check(lambda x, options=options: pool(x, *options), case, exact=expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_max_pooling(dtype):
    shapes = [(2, 3, 17, 33), (3, 9, 40), (1, 1, 1, 5)]
    windows = [(1,), ((1, 3), (1, 2), (0, 1)), (3, 2, 1), (2, 1, 1, 1), ((3, 2), 3, (1, 0), (1, 2)), (3, 2, 1, 1, True)]
    _check_pooling(F.max_pool2d, dtype, shapes, windows)
    line = torch.randn(2, 5, 1000).to(dtype)
    check(lambda x: F.max_pool1d(x, 3, 2, 1), line) if dtype.is_floating_point else None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bool, torch.int64, torch.bfloat16])
def test_windows_of_images(dtype):
    torch.manual_seed(0)
    for shape in [(2, 3, 9, 14), (3, 5, 7), (1, 2, 4, 4)]:
        x = torch.randint(0, 2, shape).to(dtype) if dtype is torch.bool else torch.randint(-9, 9, shape).to(dtype)
        for options in [(1,), (2, 1, 1, 2), (3, 2, 3, 1), ((2, 3), 1, (0, 5), (3, 4)), ((4, 1), (1, 9), (2, 1), 7)]:
            call = lambda x, o=options: F.unfold(x, *o)  # noqa: E731
            try:
                columns = call(x)
            except RuntimeError:  # windows larger than the image
                continue
            check(call, x)
            if dtype not in (torch.int64, torch.bool):  # eager has none of int64, this build none of bool
                check(lambda c, o=options, s=shape[-2:]: F.fold(c, s, *o), columns)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_max_pooling_of_lines(dtype):
    windows = [(1,), (2,), (3, 2, 1), (3, 1, 1), (2, 3), (3, 4, 1, 2), (5, 2, 2), (4, 1, 2, 3), (3, 2, 1, 1, True)]
    _check_pooling(F.max_pool1d, dtype, [(2, 3, 1100), (1, 1, 5), (4, 33)], windows)
