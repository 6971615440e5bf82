"""Pooling of images with values that are no numbers, through the whole runtime against eager: the library, which limits floats,
loses them otherwise."""

import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from whole_runtime import check

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
