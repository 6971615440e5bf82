"""Numbers that meet floats of 16 bits in one operator are rounded to them first, as eager's are: a count of 2,049 beside float16
is 2,048. Products and quotients take a second operand of one element as it is. Through the whole runtime against eager."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from whole_runtime import check

OPERATORS = {
    "add": torch.add,
    "add with alpha": lambda a, b: torch.add(a, b, alpha=2),
    "sub": torch.sub,
    "rsub": torch.rsub,
    "mul": torch.mul,
    "div": torch.div,
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "nextafter": torch.nextafter,
    "addcdiv": lambda a, b: torch.addcdiv(a, b, a),
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "ge": torch.ge,
    "maximum": torch.maximum,
    "fmin": torch.fmin,
    "where": lambda a, b: torch.where(a > 0, a, b),
}
#: The first whole number that a float of 16 bits does not have, and one beyond its range or far up in it.
ODD = {torch.float16: (2049, 70001), torch.bfloat16: (257, 66001)}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "other", [torch.int16, torch.int32, torch.int64, torch.float32, torch.float64, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("name", OPERATORS)
def test_operands_are_rounded_first(name, dtype, other):
    if other == torch.bool and name in ("sub", "rsub"):
        pytest.skip("eager refuses bools")
    function = OPERATORS[name]
    odd, large = ODD[dtype]
    numbers = torch.tensor(
        [odd, -odd, odd + 2, 3, 1, 200] + ([large] if other not in (torch.int16, torch.uint8) else [])
    )
    numbers = (numbers > 0 if other == torch.bool else numbers.clamp(0, 255) if other == torch.uint8 else numbers).to(
        other
    )
    smalls = torch.tensor([1 - odd, odd - 1, 3 - odd, 0.3, -7, 100, 0.5])[: len(numbers)].to(dtype)
    if not other.is_floating_point:  # floats of more bits make the whole result wider
        check(function, numbers, smalls)
        check(function, smalls, numbers)
        check(function, numbers[:, None], smalls)
        check(function, numbers[:1], smalls)
        check(function, smalls, numbers[:1])
    check(function, numbers[0], smalls)
    check(function, smalls, numbers[0])
    check(function, smalls[:1], numbers[0])


def test_bools_and_numbers():
    """Operators that compute with bools as with 0 and 1."""
    b = torch.tensor([True, False, True])
    for function in (lambda x: 2**x, lambda x: x // 3, lambda x: x % -3, lambda x: torch.fmod(x, 2.5)):
        check(function, b)
    for shift in (torch.bitwise_left_shift, torch.bitwise_right_shift):
        check(lambda x, shift=shift: shift(x, 3), b)
        check(lambda x, shift=shift: shift(5, x), b)
    for low, high in ((-1.5, 0.5), (2, 3), (0.5, None), (None, 0)):
        check(lambda x, low=low, high=high: x.clamp(low, high), b)
    check(torch.pow, torch.tensor([2.5, -3.0, 0.7]), b)
    check(torch.bucketize, b, torch.tensor([0.0, 0.5, 1.0]))


NUMBERS = {
    "add": lambda x: x + 1.1,
    "sub": lambda x: x - 1.1,
    "rsub": lambda x: 1.1 - x,
    "add of a large number": lambda x: x + 2049,
    "mul": lambda x: x * 1.1,
    "mul by a large number": lambda x: x * 2049,
    "div": lambda x: x / 1.1,
    "number / tensor": lambda x: 1.1 / x,
    "floor_divide": lambda x: x // 1.1,
    "remainder": lambda x: x % 1.1,
    "fmod": lambda x: torch.fmod(x, 1.1),
    "pow": lambda x: x.abs() ** 1.1,
    "number ** tensor": lambda x: 1.1**x,
    "eq": lambda x: x.clamp(max=1.1) == 1.1,
    "in place": lambda x: (x + 0).mul_(1.1).add_(1.1),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_beside_floats_of_16_bits(name, dtype):
    """Products and quotients take a Python number as it is; everything else rounds it to the tensor's type first."""
    x = (3 * torch.randn(1000, generator=torch.Generator().manual_seed(0))).to(dtype)
    check(NUMBERS[name], x)
    check(NUMBERS[name], x[:7])
