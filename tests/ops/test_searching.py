"""Searches in sorted sequences (searchsorted, bucketize, isin) through the whole runtime against eager. The cases are
every element type, both sides, sequences of one value and of none, values between and beyond, sequences that are not
sorted, and NaN."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from whole_runtime import check

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def _numbers(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    torch.manual_seed(sum(sizes))
    low = 0 if dtype == torch.uint8 else -100
    return torch.randint(low, 120, sizes).to(dtype)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_sorted_sequences(dtype, out_int32, right):
    flags = {"out_int32": out_int32, "right": right}
    for length in (0, 1, 2, 7, 64, 1000):
        edges = _numbers(dtype, length).sort()[0]
        for values in (_numbers(dtype, 3, 70), _numbers(dtype, 0), _numbers(dtype, 1)[0]):
            check(lambda e, v: torch.searchsorted(e, v, **flags), edges, values)
            check(lambda v, e: torch.bucketize(v, e, **flags), values, edges)
    many, values = _numbers(dtype, 4, 3, 33).sort()[0], _numbers(dtype, 4, 3, 50)
    check(lambda e, v: torch.searchsorted(e, v, **flags), many, values)
    check(lambda e, v: torch.searchsorted(e, v, **flags), many[:, :, :0], values)
    check(lambda e, v: torch.searchsorted(e, v, side="right"), many, values)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, *FLOATS])
def test_sequences_that_are_not_sorted(dtype):
    """The same probes as eager's, so the same positions; another order by a sorter."""
    edges, values = _numbers(dtype, 2, 61), _numbers(dtype, 2, 300)
    for right in (False, True):
        check(lambda e, v, r=right: torch.searchsorted(e, v, right=r), edges, values)
        check(lambda e, v, r=right: torch.searchsorted(e, v, right=r, sorter=e.argsort()), edges, values)


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_that_are_no_numbers(dtype):
    nan, inf = float("nan"), float("inf")
    edges = torch.tensor([-inf, -2, -0.0, 0.0, 1.5, inf, nan], dtype=dtype)
    values = torch.tensor([nan, inf, -inf, 0.0, -0.0, 3.0, 1.5], dtype=dtype)
    for right in (False, True):
        check(lambda e, v, r=right: torch.searchsorted(e, v, right=r), edges, values)


@pytest.mark.parametrize("elements", [torch.uint8, torch.int64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("edges", [torch.uint8, torch.int32, torch.float64])
def test_types_that_differ(elements, edges):
    check(torch.bucketize, _numbers(elements, 90), _numbers(edges, 31).sort()[0])


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.float32])
def test_members(dtype):
    for tests in (2, 40, 900):
        check(torch.isin, _numbers(dtype, 50, 60), _numbers(dtype, tests))
