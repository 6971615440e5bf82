"""Functions of one tensor, element by element, through the whole runtime against eager."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from .random_tensors import EDGES, FLOATS, INTEGERS, SMALL, integers, numbers
from .whole_runtime import check, outputs, run

SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, 2.0, -1.0, -2.5, 1e-30, -1e-30, 1e6, -1e6, 3e4]


TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12, torch.float16: 1e-3, torch.bfloat16: 8e-3}


SIZES = [0, 1, 7, 33, 1000, 20001]


def _numbers(n, dtype, low=-10.0, high=10.0):
    torch.manual_seed(n)
    values = torch.rand(n, dtype=torch.float64) * (high - low) + low
    values[: min(n, len(SPECIAL))] = torch.tensor(SPECIAL, dtype=torch.float64)[: min(n, len(SPECIAL))]
    return values.to(dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("function", [torch.lgamma, torch.erfc, torch.angle, torch.square], ids=lambda f: f.__name__)
def test_functions_of_one_number(function, dtype, n):
    x = _numbers(n, dtype)
    check(function, x, tolerance=TOLERANCE[dtype], exact=function(x.double()).to(dtype))


@pytest.mark.parametrize("function", [torch.lgamma, torch.erfc], ids=lambda f: f.__name__)
def test_small_results_keep_their_digits(function):
    near = torch.linspace(-1e-3, 1e-3, 4001, dtype=torch.float64)  # zeros of log gamma, two of them negative
    x = torch.cat([near + zero for zero in (1.0, 2.0, -2.4570247382208005, -3.143580888349980)]).float()
    x = torch.linspace(-6, 9, 20001) if function is torch.erfc else x
    exact = function(x.double())
    error = (outputs(function, x)[0].double() - exact).abs()
    assert float((error / exact.abs().clamp(min=1e-38)).max()) < 2e-6


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("function", [torch.lgamma, torch.erfc, torch.angle], ids=lambda f: f.__name__)
def test_functions_of_integers(function, dtype):
    torch.manual_seed(0)
    x = torch.randint(0 if dtype is not torch.int64 else -20, 20, (1000,)).to(dtype)
    check(function, x, tolerance=1e-6)


_NAMES = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 neg reciprocal
    relu round rsqrt sigmoid sin sinh sqrt square tan tanh trunc
"""


UNARY = {name: getattr(torch, name) for name in _NAMES.split()} | {
    "mish": F.mish, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "selu": F.selu,
    "elu": lambda x: F.elu(x, 1.5), "celu": F.celu, "leaky_relu": F.leaky_relu, "hardtanh": F.hardtanh,
    "clamp": lambda x: x.clamp(-0.5, 1.5), "clamp_min": lambda x: x.clamp(min=0.25), "softplus": F.softplus,
    "softplus_of_parts": lambda x: F.softplus(x, 3.0, 0.2), "pow1": lambda x: x**1.0, "pow2": lambda x: x**2,
    "pow3": lambda x: x**3, "root": lambda x: x**0.5,
}  # fmt: skip


@pytest.mark.parametrize("name", list(UNARY))
def test_functions_of_doubles(name):
    torch.manual_seed(0)
    for low, high in ((-1, 1), (-30, 30), (-600, 600), (0, 1e-3), (-1e-3, 1e-3), (0.9, 1.1), (-3e4, 3e4)):
        x = torch.rand(1003, dtype=torch.float64) * (high - low) + low
        x[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64)
        # Where eager cancels (gelu of -8), the absolute error counts.
        torch.testing.assert_close(outputs(UNARY[name], x)[0], UNARY[name](x), rtol=2e-13, atol=1e-15, equal_nan=True)
    for n in (0, 1, 7, 9):
        check(UNARY[name], torch.rand(n, dtype=torch.float64), tolerance=1e-13)


@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "atanh", "log", "log10", "log1p", "log2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_ends_of_domains(name, dtype):
    x = torch.tensor([*SPECIAL, -0.9995, -0.5, 0.5, 0.9999999, 1.0000001, 1e-40, 300.0, 3e38]).nan_to_num(
        posinf=5, neginf=-5
    )
    x = torch.cat([x, torch.tensor(SPECIAL)]) if dtype.is_floating_point else x.clamp(-1e6, 1e6)
    x = x.to(dtype)
    tolerance = TOLERANCE.get(dtype, 1e-6)
    exact = getattr(torch, name)(x.double()).to(dtype if dtype.is_floating_point else torch.float32)
    check(getattr(torch, name), x, tolerance=2 * tolerance, exact=exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_softplus(dtype):
    x = _numbers(1003, dtype, -40, 40)
    for beta, threshold in ((1.0, 20.0), (3.0, 0.2), (0.5, 100.0)):
        exact = F.softplus(x.double(), beta, threshold).to(dtype)
        call = lambda x, b=beta, t=threshold: F.softplus(x, b, t)  # noqa: E731
        check(call, x, tolerance=2 * TOLERANCE[dtype], exact=exact)


@pytest.mark.parametrize(("dtype", "threshold"), [(torch.float32, 100.0), (torch.float64, 1000.0)])
def test_softplus_is_linear_late(dtype, threshold):
    x = torch.tensor([-1.0, 0.0, 1.0, 60.0, threshold * 0.95, threshold + 1, float("nan"), float("inf")], dtype=dtype)
    check(lambda x: F.softplus(x, 1.0, threshold), x)


@pytest.mark.parametrize(
    "name", ["sign", "sgn", "isnan", "isinf", "signbit", "nan_to_num", "bitwise_not", "logical_not"]
)
def test_functions_of_bools(name):
    torch.manual_seed(0)
    for shape in [(0,), (1,), (1001,), (3, 70)]:
        x = torch.rand(shape) < 0.5
        check(getattr(torch, name), x)
        check(lambda x, y: x * y, x, torch.rand(shape) < 0.5)
        check(lambda x, y: x * y, x, torch.rand(shape[-1:]) < 0.5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int64])
def test_special_functions_of_few_numbers(dtype):
    torch.manual_seed(0)
    x = torch.randint(0 if dtype in (torch.bool, torch.uint8) else -9, 9, (20000,)).to(dtype)
    for function in (torch.digamma, torch.special.bessel_j1, torch.special.ndtri, torch.erfinv):
        check(function, x, tolerance=2e-6)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
@pytest.mark.parametrize(
    "name",
    ["abs", "bitwise_not", "ceil", "floor", "isinf", "isnan", "logical_not", "nan_to_num", "neg", "relu", "round"]
    + ["sgn", "sign", "signbit", "trunc"],
)
def test_functions_of_every_integer(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    x = integers(torch.uint8).bool() if dtype == torch.bool else integers(dtype)
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
        check(function, case)


SUMS = {torch.float32: 1e-6, torch.float64: 1e-13, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_to_decimals(dtype):
    torch.manual_seed(0)
    ends = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 0.5, 1.5, 0.25, 0.125, 2.675, 1e30, -1e-30, 65000.0]
    x = torch.cat([torch.tensor(ends), torch.randn(1000) * 30]).to(dtype)
    for decimals in (0, 1, 2, 3, 5, 12, 50, -1, -2, -40):
        call = lambda x, d=decimals: torch.round(x, decimals=d)  # noqa: E731
        for case in (x, x[:0], x[5], x[:1000].view(40, 25).t()):
            check(call, case)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fractions(dtype):
    ends = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, -0.5, 1e30, -1e-30, 1e-42]
    x = torch.cat([torch.tensor(ends), torch.randn(1001) * 30]).to(dtype)
    for case in (x, x[:0], x[5], x[:1000].view(40, 25).t()):
        check(torch.frac, case)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8, torch.bool])
def test_logit(dtype):
    if dtype.is_floating_point:
        ends = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, 0.5, -0.5, 1.5, 1e-30, 1e-42, 0.99999994]
        x = torch.cat([torch.tensor(ends), torch.rand(1001)]).to(dtype)
    else:
        x = torch.randint(0, 3, (1001,)).to(dtype)
    small = dtype in (torch.float16, torch.bfloat16)
    for eps in (None, 0.0, 1e-6, 0.25):
        call = lambda x, e=eps: torch.logit(x, e)  # noqa: E731
        exact = call(x.float()).to(dtype) if small and eps != 1e-6 else None
        if small and exact is None:
            continue  # 1 - eps is 1 or not, by the type that eager takes it in
        check(call, x, tolerance=SUMS.get(dtype, 1e-6) * 4, exact=exact)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("threshold", [3, 20])
def test_softplus_is_zero_far_below(threshold, dtype):
    call = lambda x: F.softplus(x, threshold=threshold)  # noqa: E731
    x = torch.tensor([-float("inf"), -6e4, -800.0, -120.0, -30.0, -2.0, 2.9, 3.1, 25.0, float("inf"), float("nan")])
    check(call, x.to(dtype), tolerance=SUMS[dtype])
    assert (outputs(call, x.to(dtype)[:3])[0] == 0).all()
    product = outputs(lambda x: x * torch.tanh(call(x)), x.to(dtype)[1:3])[0]
    assert (product == 0).all()


@pytest.mark.parametrize("dtype", SMALL)
def test_casts_of_small_floats(dtype):
    values = torch.cat((torch.tensor(EDGES), -torch.tensor(EDGES), torch.randn(1003) * 100))
    for other in (torch.float32, torch.bool, torch.int64, torch.int32, torch.float64, *SMALL):
        if other != dtype:
            from_values = values.to(dtype)
            if not other.is_floating_point and other != torch.bool:
                from_values = from_values.nan_to_num(0, 1000, -1000).clamp(-1000, 1000)
            check(lambda x, other=other: x.to(other), from_values)
            check(lambda x: x.to(dtype), values.to(other) if other.is_floating_point else (values > 0).to(other))
    image = numbers((2, 3, 5, 7), dtype).contiguous(memory_format=torch.channels_last)
    check(lambda x: x.float(), image)
    check(lambda x: x.float().contiguous(), image)
    assert torch.equal(run(lambda x: x.to(dtype), values).isnan(), values.isnan())


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
@pytest.mark.parametrize("complex_dtype", [torch.complex64, torch.complex128])
def test_casts_to_complex_numbers(dtype, complex_dtype):
    for shape in ((0,), (), (1,), (2049,), (3, 5, 7)):
        check(lambda x: torch.view_as_real(x.to(complex_dtype)), numbers(shape, dtype))
    if dtype.is_floating_point:
        check(lambda x: torch.view_as_real(x.to(complex_dtype)).nan_to_num(), torch.tensor(EDGES).to(dtype))
    check(lambda x: torch.view_as_real(x.transpose(0, 1).to(complex_dtype)), numbers((5, 7), dtype))
    check(lambda x: torch.view_as_real(x[:, 1::2].to(complex_dtype)), numbers((4, 9), dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_angles(dtype):
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2}.get(dtype, 1e-6)
    check(torch.deg2rad, numbers((5, 33), dtype), tolerance=tolerance)
    check(torch.rad2deg, numbers((5, 33), dtype) // 7, tolerance=tolerance)
