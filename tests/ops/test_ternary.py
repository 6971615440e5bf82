"""Clamps, lerp, nan_to_num, shrinks, sums with products: through the whole runtime against eager."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from .random_tensors import FLOATS, INTEGERS, integers, numbers
from .whole_runtime import check

SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 0.5, -2.5, 1e6]


SHAPES = [
    ((1,), (1,), (1,)),
    ((37,), (37,), (37,)),
    ((5, 33), (33,), (5, 1)),
    ((4, 1, 17), (1, 3, 1), (17,)),
    ((7, 64), (), (7, 64)),
    ((0, 3), (3,), (0, 3)),
]


def _numbers(shape, dtype, seed, special=True):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator)
    if special:
        picked = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), shape, generator=generator)]
        values = torch.where(torch.rand(shape, generator=generator) < 0.4, picked, values)
    return values.to(dtype)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_clamp_by_tensors(shapes, dtype):
    x, low, high = (_numbers(shape, dtype, seed) for seed, shape in enumerate(shapes))
    check(lambda x, low, high: torch.clamp(x, low, high), x, low, high)
    check(lambda x, low: torch.clamp(x, min=low), x, low)
    check(lambda x, high: torch.clamp(x, max=high), x, high)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 2e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.float64, 1e-14)],
)
def test_lerp(shapes, dtype, tolerance):
    start, end, weight = (_numbers(shape, dtype, seed, special=False) for seed, shape in enumerate(shapes))
    check(torch.lerp, start, end, weight, tolerance=tolerance)
    for number in (0.0, 0.3, 0.5, 1.0, -2.0):
        check(lambda start, end, number=number: torch.lerp(start, end, number), start, end, tolerance=tolerance)


@pytest.mark.parametrize("weight", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("ends", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64])
def test_lerp_between_integers(ends, weight):
    """By a float of no dimensions, which makes the result a float; eager takes no other."""
    start, end = torch.tensor([[0, 1, 100], [7, 3, 0]]).to(ends), torch.tensor([1, 0, 33]).to(ends)
    for number in (0.3, 0.5, 1.75, -2.0):
        w = torch.tensor(number, dtype=weight)
        check(torch.lerp, start, end, w, tolerance=2e-6)
        check(torch.lerp, start[0, 1], end, w, tolerance=2e-6)
        check(torch.lerp, start, end[2], w, tolerance=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32])
@pytest.mark.parametrize(
    "numbers", [(), (1.5,), (0.1, 3e4, -7.0), (float("nan"), float("inf"), -float("inf"))], ids=str
)
def test_nan_to_num(dtype, numbers):
    x = torch.arange(70).to(dtype) if dtype == torch.int32 else _numbers((3, 71), dtype, 0)
    check(lambda x: torch.nan_to_num(x, *numbers), x)


def test_channels_last():
    x, low, high = (
        _numbers((2, 5, 3, 7), torch.float32, seed).to(memory_format=torch.channels_last) for seed in range(3)
    )
    check(lambda x, low, high: torch.clamp(x, low, high), x, low, high)
    check(lambda x, low, high: torch.clamp(x, low.contiguous(), high), x, low, high)
    check(lambda x: torch.nan_to_num(x), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("number", [0.0, 0.3, 0.5, 2.5])
@pytest.mark.parametrize("shrink", [torch.nn.functional.hardshrink, torch.nn.functional.softshrink])
def test_shrinks(shrink, dtype, number):
    x = _numbers((5, 71), dtype, 0)
    x[0, :2] = torch.tensor([number, -number]).to(dtype)  # the border
    check(lambda x: shrink(x, number), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_clamps(dtype: torch.dtype) -> None:
    x = integers(dtype)
    for low, high in [(2, 100), (None, 5), (3, None), (9, 4), (0, 0)]:
        check(lambda x, a=low, b=high: x.clamp(a, b), x)
    low, high = x.roll(3), x.roll(50)
    check(torch.clamp, x, low, high)
    check(torch.clamp, x[:9], low[:9, None], high[:9])
    check(lambda x, y: x.clamp(min=y), x, low)
    check(lambda x, y: x.clamp(max=y), x, high)
    if dtype != torch.uint8:
        check(lambda x: x.clamp(-3, 100), x)
        check(F.hardtanh, x)
        check(lambda x: F.hardtanh(x, -2.7, 3.9), x)
    check(F.relu6, x)


@pytest.mark.parametrize(
    "shapes", [((37,), (37,), (37,)), ((5, 33), (33,), (5, 1)), ((7, 4), (), (7, 4)), ((0, 3), (3,), (0, 3))]
)
def test_clamp_of_doubles_by_tensors(shapes):
    torch.manual_seed(0)
    x, low, high = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    for tensor in (x, low, high):
        if tensor.numel() > 4:
            tensor.view(-1)[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")], dtype=torch.float64).roll(
                tensor.numel()
            )
    check(torch.clamp, x, low, high)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_sums_with_products_and_quotients(name, dtype):
    function = getattr(torch, name)
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6}.get(dtype, 1e-14)
    for shapes in (((37,), (37,), (37,)), ((5, 33), (33,), (5, 1)), ((7, 64), (), (7, 64)), ((0, 3), (3,), (0, 3))):
        x, y, z = (numbers(shape, dtype, seed) for seed, shape in enumerate(shapes))
        z = z.abs() + 0.5
        check(function, x, y, z, tolerance=tolerance)
        check(lambda x, y, z: function(x, y, z, value=-2.5), x, y, z, tolerance=tolerance)
    zeros = torch.tensor([0.0, 1.0, -1.0, float("nan")], dtype=dtype)
    check(function, zeros, zeros, torch.zeros(4, dtype=dtype))
