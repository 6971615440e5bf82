"""Kernels of eight-byte elements beside eager: odd sizes, values that are no numbers, empty tensors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import executorch_py as et

from .test_vector_kernels import _Call, _check, _check_pooling

CONVOLUTIONS = {
    1: [((3, 8, 50), {"padding": 2}), ((8, 37), {"stride": 3}), ((2, 8, 9), {"dilation": 4, "padding": 5})],
    2: [
        ((2, 8, 13, 21), {"padding": (1, 0)}),
        ((1, 8, 7, 30), {"stride": (2, 3), "padding": 1}),
        ((8, 9, 9), {"dilation": 2, "groups": 2}),
        ((0, 8, 5, 5), {}),
    ],
    3: [((2, 8, 5, 6, 7), {"padding": 1}), ((1, 8, 4, 5, 9), {"stride": 2, "groups": 2})],
}


def _values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype) if dtype.is_floating_point else torch.randint(-(2**40), 2**40, shape)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_convolutions(dtype, n, transposed):
    torch.manual_seed(0)
    function = getattr(F, f"conv_transpose{n}d" if transposed else f"conv{n}d")
    for shape, options in CONVOLUTIONS[n]:
        groups = options.get("groups", 1)
        x = _values(dtype, *shape)
        w = _values(dtype, *((8, 10 // groups) if transposed else (10, 8 // groups)), *(3,) * n)
        b = _values(dtype, 10)  # products and sums of integers wrap
        for inputs in [(x, w), (x, w, b), (x.transpose(-1, -2).contiguous().transpose(-1, -2), w, b)]:
            _check(lambda *t, o=options: function(*t, **o), *inputs, tolerance=1e-13)


def test_convolutions_of_no_numbers():
    torch.manual_seed(0)
    x, w = torch.randn(1, 4, 9, 11, dtype=torch.float64), torch.randn(6, 4, 3, 3, dtype=torch.float64)
    x.view(-1)[::53] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0], dtype=torch.float64).repeat(2)
    _check(lambda x, w: F.conv2d(x, w, padding=1), x, w, tolerance=1e-13)
    _check(lambda x, w: F.conv_transpose2d(x, w, stride=2), x, w.transpose(0, 1).contiguous(), tolerance=1e-13)


@pytest.mark.parametrize("form", [None, "bool", "numbers", "causal", "nothing", "scale", "infinite"])
def test_attention_of_doubles(form):
    torch.manual_seed(0)
    for rows, keys, depth, value_depth in [(33, 70, 24, 24), (1, 300, 7, 13), (17, 513, 64, 40), (300, 5, 3, 1)]:
        q, k = (torch.randn(2, 3, n, depth, dtype=torch.float64) for n in (rows, keys))
        v = torch.randn(2, 3, keys, value_depth, dtype=torch.float64)
        masks = {
            "bool": torch.rand(rows, keys) < 0.7,
            "nothing": (torch.rand(rows, 1) < 0.5).expand(rows, keys).contiguous(),
            "numbers": torch.randn(2, 1, rows, keys, dtype=torch.float64),
            "infinite": torch.where(torch.rand(rows, keys) < 0.5, 0.0, -torch.inf).double(),
        }
        options = {"is_causal": form == "causal", "scale": 300.0 if form == "scale" else None}
        inputs = (q, k, v, masks[form]) if form in masks else (q, k, v)
        _check(lambda *t, o=options: F.scaled_dot_product_attention(*t, **o), *inputs, tolerance=1e-12)


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
            _check(call, x)
            if dtype not in (torch.int64, torch.bool):  # eager has none of int64, this build none of bool
                _check(lambda c, o=options, s=shape[-2:]: F.fold(c, s, *o), columns)


def test_products_with_one_row():
    torch.manual_seed(0)
    for depth, columns in [(1, 1), (7, 5), (100, 33), (1025, 3)]:
        w, x = torch.randn(columns, depth, dtype=torch.float64), torch.randn(1, depth, dtype=torch.float64)
        b = torch.randn(columns, dtype=torch.float64)
        _check(lambda x, w: F.linear(x, w), x, w, tolerance=1e-12)
        _check(F.linear, x[0], w, b, tolerance=1e-12)
        _check(torch.mm, w, x.t().contiguous(), tolerance=1e-12)
        _check(torch.mm, x, w.t().contiguous(), tolerance=1e-12)
        _check(lambda x, w: x @ w.t(), x, w, tolerance=1e-12)
        _check(torch.addmm, b[:, None], w, x.t().contiguous(), tolerance=1e-12)


@pytest.mark.parametrize("affine", [False, True])
def test_group_norm_of_doubles(affine):
    torch.manual_seed(0)
    for shape, groups in [((2, 6, 5, 7), 3), ((3, 4), 2), ((1, 8, 129), 1), ((2, 4, 3, 3, 3), 4), ((0, 4, 3), 2)]:
        x = torch.randn(shape, dtype=torch.float64) + 3
        if x.numel() > 40:
            x.view(-1)[-3:] = torch.tensor([float("nan"), float("inf"), 1e300], dtype=torch.float64)
        inputs = (x, *torch.randn(2, shape[1], dtype=torch.float64).unbind()) if affine else (x,)
        _check(lambda x, w=None, b=None, g=groups: F.group_norm(x, g, w, b), *inputs, tolerance=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_max_pooling_of_lines(dtype):
    windows = [(1,), (2,), (3, 2, 1), (3, 1, 1), (2, 3), (3, 4, 1, 2), (5, 2, 2), (4, 1, 2, 3), (3, 2, 1, 1, True)]
    _check_pooling(F.max_pool1d, dtype, [(2, 3, 1100), (1, 1, 5), (4, 33)], windows)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_norms_in_one_pass(dtype):
    torch.manual_seed(0)
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-6}.get(dtype, torch.finfo(dtype).eps)
    for shape in [(), (1,), (1003,), (5, 300), (300, 5), (3, 4, 37), (0, 3), (3, 0), (2, 3, 5, 7)]:
        x = torch.randn(shape, dtype=dtype)
        special = x.clone()
        special.view(-1)[:3] = torch.tensor([float("nan"), float("inf"), 1e15], dtype=dtype)[: min(3, special.numel())]
        for case in (x, special, x.mT.contiguous().mT if x.dim() > 1 else x):
            dims = [None, *range(len(shape)), *([[-2, -1], [0, -1]] if len(shape) > 2 else [])]
            for dim in dims:
                call = lambda x, d=dim, k=case is x: torch.linalg.vector_norm(x, dim=d, keepdim=k)  # noqa: E731
                _check(call, case, tolerance=tolerance)
        _check(lambda x: torch.linalg.vector_norm(x, 3), x, tolerance=2 * tolerance)
        _check(lambda x: torch.linalg.vector_norm(x, dtype=torch.float64), x, tolerance=tolerance)


def test_norms_stay_whole_where_a_kernel_takes_them():
    x = torch.randn(2, 3, 4)
    for options, whole in [({}, True), ({"dim": (1, 2)}, True), ({"dim": (0, 2)}, False), ({"ord": 1}, False)]:
        call = lambda x, o=options: torch.linalg.vector_norm(x, **o)  # noqa: E731
        for dtype in (torch.float32, torch.bfloat16):
            edge = et.to_edge(torch.export.export(_Call(call), (x.to(dtype),)))
            assert ("linalg_vector_norm" in str(edge.exported_program().graph)) == whole
