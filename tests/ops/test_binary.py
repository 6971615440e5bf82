"""Functions of two tensors through the whole runtime against eager: divisions, remainders, powers of two, promotion."""

from __future__ import annotations

import math

import pytest
import torch

from .kernel_runner import prepare_and_run
from .random_tensors import EDGES, FLOATS, INTEGERS, SMALL, numbers
from .whole_runtime import check, outputs

INF, NAN = float("inf"), float("nan")


SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.1, -0.1, 7.3, 1e-3, 6e-8, 65504.0, -2.5, INF, -INF, NAN]


NARROW = [torch.float16, torch.bfloat16]


DIVISIONS = {
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}


def _check_bits(call, *inputs, exact=None):
    """Equal, also in the signs of zeros; any NaN for a NaN."""
    expected = call(*inputs) if exact is None else exact
    (actual,) = outputs(call, *inputs)
    same = (actual == expected) & (actual.signbit() == expected.signbit()) | (actual.isnan() & expected.isnan())
    wrong = (~same).nonzero()[:5].flatten().tolist() if actual.dim() == 1 else []
    assert actual.dtype == expected.dtype
    assert same.all(), [(*(x.flatten()[i].item() for x in inputs), actual[i].item()) for i in wrong]


def _pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return values.repeat_interleave(len(values)), values.repeat(len(values))


def _every(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(-32768, 32768).to(torch.int16).view(dtype)


def _random_bits(dtype: torch.dtype, n: int) -> torch.Tensor:
    integers = {4: torch.int32, 8: torch.int64}[dtype.itemsize]
    ends = torch.iinfo(integers)
    return torch.randint(ends.min, ends.max, (n,), dtype=integers).view(dtype)


def _one_by_one(call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Eager's vectors are not exact for quotients that floats do not count to, its single elements are."""
    return torch.stack([call(x, y) for x, y in zip(a, b)])


@pytest.mark.parametrize("name", list(DIVISIONS))
@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_of_integers(name: str, dtype: torch.dtype) -> None:
    call, ends = DIVISIONS[name], torch.iinfo(dtype)
    torch.manual_seed(0)
    if dtype.itemsize == 1:
        a, b = _pairs(torch.arange(ends.min, ends.max + 1).to(dtype))
    else:
        edges = torch.tensor([ends.min, ends.min + 1, ends.max, ends.max - 1, -1, 0, 1, 2, -2, 3, 7, 181, -46341])
        shifts = torch.randint(0, 8 * dtype.itemsize, (300,))
        some = torch.randint(ends.min, ends.max, (300,), dtype=torch.int64) >> shifts
        a, b = _pairs(torch.cat([edges.clamp(ends.min, ends.max), some]).to(dtype))
    kept = b != 0
    a, b = a[kept], b[kept]
    # The smallest number by -1 overflows, which eager does not define: it wraps here, the remainder is 0.
    least = (a == ends.min) & (b == -1) if ends.min < 0 else torch.zeros_like(kept[kept])
    exact = call(a.where(~least, 0), b)
    exact = exact.where(~least, 0 if name in ("remainder", "fmod") else ends.min)
    check(call, a, b, exact=exact)
    a, b = a[a != ends.min], b[a != ends.min]
    for number in (1, 2, 3, 7, 100, -1, -3):
        if ends.min < 0 or number > 0:
            check(lambda x, n=number: call(x, n), a)
    check(call, a[-12:, None].contiguous(), b[:7])
    check(call, a[-1:], b[:333])


@pytest.mark.parametrize("name", list(DIVISIONS))
@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_division_by_zero_is_refused(name: str, dtype: torch.dtype) -> None:
    call = DIVISIONS[name]
    for n in (1, 5, 100, 5000):
        for place in (0, n // 2, n - 1):
            b = torch.ones(n, dtype=dtype)
            b[place] = 0
            with pytest.raises(RuntimeError, match="division by zero"):
                outputs(call, torch.ones(n, dtype=dtype), b)
    with pytest.raises(RuntimeError, match="division by zero"):
        outputs(lambda x: call(x, 0), torch.ones(9, dtype=dtype))


@pytest.mark.parametrize("name", list(DIVISIONS))
@pytest.mark.parametrize("dtype", NARROW)
def test_divisions_of_every_16_bit_float(name: str, dtype: torch.dtype) -> None:
    call, every = DIVISIONS[name], _every(dtype)
    n = len(SPECIAL)
    special = torch.tensor(SPECIAL).to(dtype).repeat_interleave(len(every))
    for a, b in ((every.repeat(n), special), (special, every.repeat(n))):
        kept = ~((a.float() / b.float()).abs() > 2.0**20)  # what eager's vectors compute exactly
        _check_bits(call, a[kept], b[kept])
    for number in (3, 7.3, -0.1, 0.0, INF):
        kept = every[~((every.float() / number).abs() > 2.0**20)] if number != 0 else every
        _check_bits(lambda x, b=number: call(x, b), kept)
        _check_bits(call, kept, torch.tensor([number], dtype=dtype))


@pytest.mark.parametrize("name", list(DIVISIONS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_divisions_of_floats(name: str, dtype: torch.dtype) -> None:
    call = DIVISIONS[name]
    torch.manual_seed(0)
    a, b = _pairs(torch.tensor([*SPECIAL, 1e-40, 3e38, 2.0**24, 2.0**53, 1e-45], dtype=dtype))
    _check_bits(call, a, b, exact=_one_by_one(call, a, b))
    a, b = torch.randn(2, 50001, dtype=dtype)
    _check_bits(call, a, b)
    _check_bits(call, a * 1000, b)
    _check_bits(call, (a * 1000).round(), (b * 10).round())
    _check_bits(call, (b * 30).round() * a, a)  # quotients that are whole, or nearly
    for number in (3, 0.1, -7.3, 1e-3):
        _check_bits(lambda x, n=number: call(x, n), a * 100)
    _check_bits(call, a[:900].view(30, 30), b[:30])
    _check_bits(call, a[:900].view(30, 30).T, b[:30, None])
    a, b = _random_bits(dtype, 3001), _random_bits(dtype, 3001)
    _check_bits(call, a, b, exact=_one_by_one(call, a, b))


FUNCTIONS = {name: getattr(torch, name) for name in ("atan2", "copysign", "hypot", "logaddexp", "xlogy", "pow")}


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_values(name: str, dtype: torch.dtype) -> None:
    a, b = _pairs(torch.tensor([*SPECIAL, 2.0, -2.0, 0.5, 1e-30, -1e30, 3e38, -1e-40], dtype=dtype))
    exact = FUNCTIONS[name](a.double(), b.double()).to(dtype)
    actual = _run_kernel(name, a, b)
    step = torch.finfo(dtype).eps
    cancels = name == "logaddexp"  # where the larger number and the logarithm do
    torch.testing.assert_close(actual, exact, rtol=2.5 * step, atol=step if cancels else 1e-45, equal_nan=True)
    signs = (actual.signbit() == exact.signbit()) | actual.isnan()
    assert signs.all(), [(x.item(), y.item()) for x, y in zip(a[~signs], b[~signs])]


def _run_kernel(name: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The kernel by itself, with its vectors."""
    suffix = {"pow": ".Tensor_Tensor_out", "xlogy": ".OutTensor"}.get(name, ".out")
    out = torch.empty_like(a)
    place = 1 if name == "pow" and a.dtype == torch.float64 else 0  # there are vectors of floats only
    prepare_and_run(f"aten::{name}{suffix}", place, [a, b, out], "eeo", set())
    return out


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("dtype", NARROW)
def test_functions_of_every_16_bit_float(name: str, dtype: torch.dtype) -> None:
    call, every = FUNCTIONS[name], _every(dtype)
    special = torch.tensor(SPECIAL).to(dtype).repeat_interleave(len(every))
    for a, b in ((every.repeat(len(SPECIAL)), special), (special, every.repeat(len(SPECIAL)))):
        expected, actual = call(a, b), _run_kernel(name, a, b)
        # Both round a float, which may be an ulp of a float apart: a few fall on another side.
        close = actual == expected
        close |= actual.isnan() & expected.isnan()
        assert (~close).sum() < 2e-3 * close.numel()
        assert torch.equal(actual.isnan(), expected.isnan())
        steps = (actual[~close].view(torch.int16).int() - expected[~close].view(torch.int16).int()).abs()
        assert steps.numel() == 0 or steps.max() <= 1


def _ulps(actual: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest distance in steps of the result's type, from the exact value in doubles."""
    size = torch.nextafter(exact.to(actual.dtype).abs(), torch.tensor(INF)) - exact.to(actual.dtype).abs()
    return float(((actual.double() - exact).abs() / size.double()).max())


@pytest.mark.parametrize(
    ("name", "bound"), [("atan2", 2.0), ("hypot", 0.51), ("pow", 0.51), ("logaddexp", 3.0), ("xlogy", 4.0)]
)
def test_errors_of_floats(name: str, bound: float) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 1_000_001)
    a, b = (a.abs(), b.abs() + 1e-3) if name in ("pow", "xlogy") else (a, b)
    for scale in (1.0, 1e-3, 30.0):
        inputs = (a * scale + 5, b + 5) if name == "logaddexp" else (a * scale, b)  # its zeros cancel
        exact = FUNCTIONS[name](*(x.double() for x in inputs))
        actual = _run_kernel(name, *inputs)
        assert _ulps(actual, exact) <= bound


@pytest.mark.parametrize("name", [*FUNCTIONS, *DIVISIONS])
def test_shapes_and_types_that_meet(name: str) -> None:
    call = (FUNCTIONS | DIVISIONS)[name]
    torch.manual_seed(0)
    x = torch.rand(3, 4, 5, 7) + 0.5
    tolerance = 1e-6
    check(call, x, torch.rand(4, 1, 7) + 0.5, tolerance=tolerance)
    check(call, x.to(memory_format=torch.channels_last), x + 1, tolerance=tolerance)
    check(call, x[0, 0, 0, :1], x, tolerance=tolerance)
    check(call, x[:0], x[:0], tolerance=tolerance)
    whole = torch.randint(1, 9, (3, 4, 5, 7))
    check(call, x, whole, tolerance=tolerance)
    if name not in ("hypot", "logaddexp"):  # eager has none of integers
        check(call, whole.int(), whole.int() + 1, tolerance=tolerance)
    check(call, x.half(), whole, tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *NARROW])
def test_prelu(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape in ((2, 5, 7, 9), (3, 40), (1, 32, 56, 56), (0, 3, 4)):
        x = torch.randn(shape).to(dtype)
        x.view(-1)[: x.numel() and 6] = torch.tensor([INF, -INF, NAN, 0.0, -0.0, -1e-30][: x.numel()], dtype=dtype)
        for weight in (torch.randn(shape[1]), torch.tensor([0.25])):
            _check_bits(torch.nn.functional.prelu, x, weight.to(dtype))
    x = torch.randn(2, 5, 7, 9).to(dtype, memory_format=torch.channels_last)
    _check_bits(torch.nn.functional.prelu, x, torch.randn(5).to(dtype))


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


EXPONENTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("exponents", EXPONENTS)
def test_every_exponent_that_a_type_has(exponents):
    last = min(torch.iinfo(exponents).max, 300)
    n = torch.arange(max(torch.iinfo(exponents).min, -300), last + 1).to(exponents)
    for number in (0.0, 1.0, -1.5, 1e-30, 1e-44, 1e30, math.inf, math.nan):
        check(torch.ldexp, torch.full([len(n)], number), n)


def test_other_types():
    check(torch.ldexp, torch.tensor([3, 4]), torch.tensor([2, -1]))
    check(torch.ldexp, torch.tensor([3.0, 1e-5, 6e-8]).half(), torch.tensor([[20], [3], [-4]]))
    check(torch.ldexp, torch.tensor([3.0, 1e-30]).bfloat16(), torch.tensor([120, 130]))
    check(torch.ldexp, torch.tensor([3.0, 1e-300], dtype=torch.float64), torch.tensor([1000, 1022]))
    check(torch.ldexp, torch.tensor([3.0, math.inf]), torch.tensor([-3000, -3000]))
    check(torch.ldexp, torch.tensor([3.0, 4.0]), torch.tensor([0.5, -0.5]), tolerance=1e-6)


def _some(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Numbers whose products do not fit their type."""
    ends = torch.iinfo(dtype)
    return torch.randint(ends.min // 2, ends.max // 2, sizes).to(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_common_divisors_and_multiples(name: str, dtype: torch.dtype) -> None:
    """Multiples that do not fit their type overflow as eager's do; the least integers are among the operands."""
    torch.manual_seed(0)
    x, y, low = _some(dtype, 1003), _some(dtype, 1003), torch.iinfo(dtype).min
    x[:3], y[:3] = torch.tensor([low, low, 0]), torch.tensor([1, low, low])
    check(getattr(torch, name), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logaddexp2(dtype):
    values = torch.tensor([*EDGES[:5], 1.5, -700.0, 700.0, 3.25], dtype=dtype)
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float32: 1e-6}.get(dtype, 1e-14)
    check(torch.logaddexp2, values.unsqueeze(1), values, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [*SMALL, *INTEGERS, torch.bool])
def test_pairs_of_other_types_meet_in_float(dtype):
    for shape, other in (((37,), (37,)), ((5, 33), (33,)), ((4, 1, 17), (3, 1)), ((0, 3), (3,))):
        x, y = numbers(shape, torch.float32), numbers(other, dtype, 1)
        for function in (torch.add, torch.sub, torch.mul, torch.div):
            if function is not torch.sub or dtype != torch.bool:
                check(function, x, y)
                check(function, y, x)
        if dtype != torch.bool:
            check(lambda x, y: torch.add(x, y, alpha=2), x, y, tolerance=1e-6)
    image = numbers((2, 3, 5, 7), torch.float32).contiguous(memory_format=torch.channels_last)
    check(torch.mul, image, numbers((2, 3, 5, 7), dtype))
