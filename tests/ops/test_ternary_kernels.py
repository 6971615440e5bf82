"""Clamping by tensors, lerp, nan_to_num and the shrinks through the whole runtime against eager: broadcasting on every operand,
sizes around a vector's, NaN and infinities, channels-last images, 16-bit floats."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from whole_runtime import check

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
