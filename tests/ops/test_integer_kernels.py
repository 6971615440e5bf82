"""Vector kernels of integers and bools, the whole way, against eager: every value of a byte, the ends of wider types."""

from __future__ import annotations

import pytest
import torch

from .test_vector_kernels import _check

F = torch.nn.functional
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def _values(dtype: torch.dtype) -> torch.Tensor:
    """Every value of a byte, more of wider types, and their ends."""
    ends = torch.iinfo(dtype)
    torch.manual_seed(0)
    some = torch.randint(max(ends.min, -40000), min(ends.max, 40000), (1001,))
    return torch.cat([torch.arange(256), some, torch.tensor([ends.min, ends.min + 1, ends.max, 0, 1])]).to(dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
@pytest.mark.parametrize(
    "name",
    ["abs", "bitwise_not", "ceil", "floor", "isinf", "isnan", "logical_not", "nan_to_num", "neg", "relu", "round"]
    + ["sgn", "sign", "signbit", "trunc"],
)
def test_functions_of_one_number(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    x = _values(torch.uint8).bool() if dtype == torch.bool else _values(dtype)
    try:
        function(x[:1])
    except RuntimeError:
        pytest.skip(f"eager has no {name} of {dtype}")
    for case in (
        x,
        x[:0],
        x[:1],
        x.expand(3, -1).contiguous(),
        x[:1000].reshape(2, 5, 10, 10).to(memory_format=torch.channels_last),
    ):
        _check(function, case)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_clamps(dtype: torch.dtype) -> None:
    x = _values(dtype)
    for low, high in [(2, 100), (None, 5), (3, None), (9, 4), (0, 0)]:
        _check(lambda x, a=low, b=high: x.clamp(a, b), x)
    low, high = x.roll(3), x.roll(50)
    _check(torch.clamp, x, low, high)
    _check(torch.clamp, x[:9], low[:9, None], high[:9])
    _check(lambda x, y: x.clamp(min=y), x, low)
    _check(lambda x, y: x.clamp(max=y), x, high)
    if dtype != torch.uint8:
        _check(lambda x: x.clamp(-3, 100), x)
        _check(F.hardtanh, x)
        _check(lambda x: F.hardtanh(x, -2.7, 3.9), x)
    _check(F.relu6, x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_truth(dtype: torch.dtype) -> None:
    zeros, ones = torch.zeros(3, 700, dtype=dtype), torch.ones(3, 700, dtype=dtype)
    one, gap = zeros.clone(), ones.clone()
    one[1, 333], gap[2, 5] = torch.iinfo(dtype).max, 0
    for x in (zeros, ones, one, gap, zeros[:0], zeros[:, :0]):
        for function in (torch.any, torch.all):
            _check(function, x)
            for dim in (0, 1):
                _check(lambda x, f=function, d=dim: f(x, dim=d), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_products_wrap(dtype: torch.dtype) -> None:
    x = _values(dtype)
    y, z = x.flip(0), x.roll(7)
    for value in (1, 3, -2, 2**40 + 1 if dtype == torch.int64 else 5):
        if value >= 0 or dtype != torch.uint8:
            _check(lambda x, y, z, v=value: torch.addcmul(x, y, z, value=v), x, y, z)
    _check(lambda x, y: torch.addcmul(x, x[:, None], y), x[:9], y[:9])
    for n in (0, 1, 31, 1262):
        _check(torch.dot, x[:n], y[:n])
        matrix = x[: n // 2 * 2].reshape(2, -1)
        _check(torch.mv, matrix, y[: matrix.shape[1]])
        _check(lambda v, m, w: torch.addmv(v, m, w, beta=2, alpha=3), x[:2], matrix, y[: matrix.shape[1]])
    for rows, columns in ((6, 9), (9, 131)):
        _check(torch.addr, x[: rows * columns].reshape(rows, columns), y[:rows], z[:columns])
