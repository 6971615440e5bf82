"""Batch, group and layer norms, renorm, deviations: through the whole runtime against eager."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import executorch_py as et

from .whole_runtime import Function, check, outputs

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape", [(2, 3), (5, 600), (600, 5), (4, 7, 33), (0, 3), (3, 1, 5)], ids=str)
@pytest.mark.parametrize("p", [1, 2, float("inf"), 0.5])
def test_renorm(p, shape, dtype):
    if 0 in shape and p == float("inf"):
        pytest.skip("eager has no largest element of nothing")
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype)
    for dim in range(len(shape)):
        exact = torch.renorm(x.double(), p, dim, 1.5).to(dtype)
        check(lambda x, dim=dim: torch.renorm(x, p, dim, 1.5), x, tolerance=2 * TOLERANCE[dtype], exact=exact)
    if x.numel() > 4:
        x.view(-1)[:2] = torch.tensor([float("nan"), float("inf")], dtype=dtype)
        check(lambda x: torch.renorm(x, p, 0, 1.5), x, tolerance=2 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(8, 3), (300, 5), (9, 700), (3, 5, 700), (2, 6, 5, 7), (2, 6, 5, 7, 2)], ids=str)
def test_batch_norm_of_training(shape, affine, dtype):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 3 + 2).to(dtype)
    weight, bias = (torch.randn(shape[1]).to(dtype) for _ in range(2)) if affine else (None, None)
    call = lambda x, *wb: F.batch_norm(x, None, None, *wb, training=True)  # noqa: E731
    inputs = (x, weight, bias) if affine else (x,)
    exact = call(*(t.double() for t in inputs)).to(dtype)
    check(call, *inputs, tolerance=4 * TOLERANCE[dtype], exact=exact)
    if len(shape) == 4:
        last = x.to(memory_format=torch.channels_last)
        check(call, last, *inputs[1:], tolerance=4 * TOLERANCE[dtype], exact=exact)

    def running(x, mean, var):
        F.batch_norm(x, mean, var, training=True)
        return mean, var

    statistics = torch.zeros(shape[1], dtype=dtype), torch.ones(shape[1], dtype=dtype)
    got = outputs(lambda x, m, v: running(x, m.clone(), v.clone()), x, *statistics)
    for actual, expected in zip(got, running(x, *(s.clone() for s in statistics))):
        torch.testing.assert_close(actual, expected, rtol=4 * TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


def test_layer_norm_of_doubles():
    torch.manual_seed(0)
    for shape, normalized in [
        ((3, 5, 7), (7,)),
        ((3, 5, 7), (5, 7)),
        ((40, 1000), (1000,)),
        ((4, 1), (1,)),
        ((0, 3), (3,)),
    ]:
        x = torch.randn(shape, dtype=torch.float64)
        weight, bias = torch.randn(2, *normalized, dtype=torch.float64)
        check(lambda x, n=normalized: F.layer_norm(x, n), x, tolerance=1e-11)
        check(lambda x, w, b, n=normalized: F.layer_norm(x, n, w, b), x, weight, bias, tolerance=1e-11)
        check(lambda x, n=normalized: torch.native_layer_norm(x, n, None, None, 1e-5)[2], x, tolerance=1e-11)


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


SUMS = {torch.float32: 1e-6, torch.float64: 1e-13, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norm_whose_statistics_move(dtype):
    torch.manual_seed(0)

    def call(x, mean, var, weight, bias):
        mean, var = mean.clone(), var.clone()
        y = F.batch_norm(x, mean, var, weight, bias, training=True, momentum=0.3)
        return y, mean, var

    for shape in [(2, 6, 9, 33), (300, 5), (4, 7, 1)]:
        x = (torch.randn(shape) * 3 + 2).to(dtype)
        count = shape[1]
        inputs = (
            x,
            *(t.to(dtype) for t in (torch.randn(count), torch.rand(count), torch.randn(count), torch.randn(count))),
        )
        expected = [t.to(dtype) for t in call(*(t.double() for t in inputs))]
        for case in (x, x.to(memory_format=torch.channels_last) if x.dim() == 4 else x):
            for got, wanted in zip(outputs(call, case, *inputs[1:]), expected, strict=True):
                torch.testing.assert_close(got, wanted, rtol=4 * SUMS[dtype], atol=4 * SUMS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_deviations_whose_variance_is_no_number_of_the_type(dtype):
    """Large and tiny numbers, rows whose sum overflows, one number; rows and columns, with the mean and without."""
    torch.manual_seed(0)
    large, tiny = (1e20, 1e-25) if dtype in (torch.float32, torch.bfloat16) else (3e4, 1e-6)
    x = torch.rand(9, 40, dtype=torch.float64)
    x[0] *= large
    x[1] *= tiny
    x[2:5, 0] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    x[5], x[6] = 0, 0.75 * torch.finfo(dtype).max if dtype != torch.float64 else 1e150
    x = x.to(dtype)
    tolerance = {**SUMS, torch.float32: 1e-5}[dtype]
    for call in (
        lambda x: x.std(-1),
        lambda x: x.std(-1, correction=0, keepdim=True),
        lambda x: x.var(-1),
        lambda x: x.std(0, unbiased=False),
        lambda x: x[:2].std(),
        lambda x: x[:, :1].std(-1),
        lambda x: torch.std_mean(x, -1)[0],
        lambda x: torch.std_mean(x[:2])[1],
        lambda x: torch.std_mean(x[:2], 0, keepdim=True)[1],
    ):
        expected = call(x)
        torch.testing.assert_close(outputs(call, x)[0], expected, rtol=tolerance, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_deviations_of_nearly_equal_numbers(dtype):
    """Equal numbers deviate by exactly nothing, and the mean's rounding is no deviation."""
    torch.manual_seed(0)
    for n in (3, 7, 9, 33, 100, 1000):
        x = torch.tensor([0.1, 3.3, -7e3], dtype=dtype)[:, None].expand(3, n).contiguous()
        for call in (lambda x: x.std(-1), lambda x: x.var(-1), lambda x: torch.std_mean(x, -1)[0]):
            torch.testing.assert_close(outputs(call, x)[0], torch.zeros(3, dtype=dtype), rtol=0, atol=0)
    near = 1000 * (1 + 3 * torch.finfo(dtype).eps * torch.randn(4, 5000, dtype=torch.float64)).to(dtype)
    tolerance = {torch.float64: 1e-7, torch.float32: 1e-4}.get(dtype, 1e-2)
    expected = near.to(torch.float64).sub(1000).std(-1)
    torch.testing.assert_close(outputs(lambda x: x.std(-1), near)[0].double(), expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("affine", [False, True])
def test_group_norm_of_doubles(affine):
    torch.manual_seed(0)
    for shape, groups in [((2, 6, 5, 7), 3), ((3, 4), 2), ((1, 8, 129), 1), ((2, 4, 3, 3, 3), 4), ((0, 4, 3), 2)]:
        x = torch.randn(shape, dtype=torch.float64) + 3
        if x.numel() > 40:
            x.view(-1)[-3:] = torch.tensor([float("nan"), float("inf"), 1e300], dtype=torch.float64)
        inputs = (x, *torch.randn(2, shape[1], dtype=torch.float64).unbind()) if affine else (x,)
        check(lambda x, w=None, b=None, g=groups: F.group_norm(x, g, w, b), *inputs, tolerance=1e-11)


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
                check(call, case, tolerance=tolerance)
        check(lambda x: torch.linalg.vector_norm(x, 3), x, tolerance=2 * tolerance)
        check(lambda x: torch.linalg.vector_norm(x, dtype=torch.float64), x, tolerance=tolerance)


def test_norms_stay_whole_where_a_kernel_takes_them():
    x = torch.randn(2, 3, 4)
    for options, whole in [({}, True), ({"dim": (1, 2)}, True), ({"dim": (0, 2)}, False), ({"ord": 1}, False)]:
        call = lambda x, o=options: torch.linalg.vector_norm(x, **o)  # noqa: E731
        for dtype in (torch.float32, torch.bfloat16):
            edge = et.to_edge(torch.export.export(Function(call), (x.to(dtype),)))
            assert ("linalg_vector_norm" in str(edge.exported_program().graph)) == whole
