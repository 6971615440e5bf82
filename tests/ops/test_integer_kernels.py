"""Vector kernels of integers and bools, the whole way, against eager: every value of a byte, the ends of wider types."""

from __future__ import annotations

import pytest
import torch

from .kernel_runner import KernelError, kernel_count, prepare_and_run
from .test_vector_kernels import _check

F = torch.nn.functional
NOT_SUPPORTED = 0x10  # et::Error
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def _values(dtype: torch.dtype) -> torch.Tensor:
    """Every value of a byte, more of wider types, and their ends."""
    ends = torch.iinfo(dtype)
    torch.manual_seed(0)
    some = torch.randint(max(ends.min, -40000), min(ends.max, 40000), (1001,))
    return torch.cat([torch.arange(256), some, torch.tensor([ends.min, ends.min + 1, ends.max, 0, 1])]).to(dtype)


def _some(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Numbers whose products do not fit their type."""
    ends = torch.iinfo(dtype)
    return torch.randint(ends.min // 2, ends.max // 2, sizes).to(dtype)


def _check_wrapped(call, *inputs: torch.Tensor) -> None:
    """Against 64 bits, of which the lower ones count: eager has some convolutions of these types only."""
    _check(call, *inputs, exact=call(*(x.long() for x in inputs)).to(inputs[0].dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_common_divisors_and_multiples(name: str, dtype: torch.dtype) -> None:
    """Multiples that do not fit their type overflow as eager's do; the least integers are among the operands."""
    torch.manual_seed(0)
    x, y, low = _some(dtype, 1003), _some(dtype, 1003), torch.iinfo(dtype).min
    x[:3], y[:3] = torch.tensor([low, low, 0]), torch.tensor([1, low, low])
    _check(getattr(torch, name), x, y)


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


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_convolutions_wrap(dtype: torch.dtype, dims: int, transposed: bool) -> None:
    function = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    size = (19, 8, 5)[:dims]
    for groups, stride, padding, dilation in [(1, 1, 0, 1), (1, 2, 1, 1), (3, 1, 1, 2), (6, 3, 2, 1)]:
        x = _some(dtype, 2, 6, *size)
        kernel = (3, 2, 3)[:dims]
        for multiplier in (1, 5):  # few channels in a group, and more than the least number of rows of a product
            outputs = multiplier * groups
            weight = _some(dtype, *((6, outputs // groups) if transposed else (outputs, 6 // groups)), *kernel)
            bias = _some(dtype, outputs)
            numbers = (stride, padding, 0, groups, dilation) if transposed else (stride, padding, dilation, groups)
            _check_wrapped(lambda x, w, b, n=numbers: function(x, w, b, *n), x, weight, bias)
            _check_wrapped(lambda x, w, n=numbers: function(x, w, None, *n), x[0], weight)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_convolutions_of_many_channels(dtype: torch.dtype) -> None:
    """More than one panel of the packed product."""
    _check_wrapped(F.conv2d, _some(dtype, 1, 70, 33, 65), _some(dtype, 40, 70, 3, 3), _some(dtype, 40))
    _check_wrapped(F.conv_transpose2d, _some(dtype, 1, 70, 9, 11), _some(dtype, 70, 40, 3, 3), _some(dtype, 40))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_kernels_of_integers_are_taken(dtype: torch.dtype) -> None:
    """The first kernel of each operator, which a plain one would stand in for without a word."""
    x, weight = _some(dtype, 1, 6, 9, 11), _some(dtype, 6, 1, 3, 3)
    out = torch.empty(1, 6, 7, 9, dtype=dtype)
    sorted_values, values, places = torch.arange(9).to(dtype), _some(dtype, 20), torch.empty(20, dtype=torch.int64)
    calls = [
        ("aten::convolution.out", [x, weight, None, [1], [0], [1], False, [0], 6, out], "TTtlllbliT"),
        ("aten::bucketize.Tensor_out", [values, sorted_values, False, False, places], "TTbbT"),
        ("aten::searchsorted.Tensor_out", [sorted_values, values, False, False, None, None, places], "TTbbstT"),
    ]
    if dtype == torch.uint8:
        image, large = _some(dtype, 1, 3, 9, 11), torch.empty(1, 3, 20, 20, dtype=dtype)
        for name in ("aten::upsample_bilinear2d.vec_out", "et::upsample_bicubic2d.vec_out"):
            calls.append((name, [image, [20, 20], False, None, large], "TLbFT"))
    for name, arguments, letters in calls:
        taken = []
        for place in range(kernel_count(name)):
            try:
                prepare_and_run(name, place, arguments, letters, set())
                taken.append(place)
            except KernelError as problem:
                assert problem.code == NOT_SUPPORTED, name
        assert len(taken) >= 2, f"{name}: only the plain kernel takes {dtype}"
