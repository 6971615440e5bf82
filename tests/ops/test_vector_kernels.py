"""Vector kernels through the whole runtime against eager: special functions, renorm, batch norm of training, nonzero.

NaN, infinities, empty tensors, sizes around a vector's, and every element type that eager takes. That each instruction set gives
what the portable kernels give is in tests/cpp/kernels/optimized.
"""

from __future__ import annotations

import pytest
import torch

import executorch_py as et

F = torch.nn.functional
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, 2.0, -1.0, -2.5, 1e-30, -1e-30, 1e6, -1e6, 3e4]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12, torch.float16: 1e-3, torch.bfloat16: 8e-3}
SIZES = [0, 1, 7, 33, 1000, 20001]


class _Call(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self._call = call

    def forward(self, *inputs):
        return self._call(*inputs)


def _run(call, *inputs):
    program = et.to_edge(torch.export.export(_Call(call), inputs)).to_executorch().buffer
    return et.Runtime.get().load_program(program).load_method("forward").execute(inputs)


def _check(call, *inputs, tolerance=0.0, exact=None):
    expected = call(*inputs) if exact is None else exact
    torch.testing.assert_close(_run(call, *inputs)[0], expected, rtol=tolerance, atol=tolerance, equal_nan=True)


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
    _check(function, x, tolerance=TOLERANCE[dtype], exact=function(x.double()).to(dtype))


@pytest.mark.parametrize("function", [torch.lgamma, torch.erfc], ids=lambda f: f.__name__)
def test_small_results_keep_their_digits(function):
    near = torch.linspace(-1e-3, 1e-3, 4001, dtype=torch.float64)  # zeros of log gamma, two of them negative
    x = torch.cat([near + zero for zero in (1.0, 2.0, -2.4570247382208005, -3.143580888349980)]).float()
    x = torch.linspace(-6, 9, 20001) if function is torch.erfc else x
    exact = function(x.double())
    error = (_run(function, x)[0].double() - exact).abs()
    assert float((error / exact.abs().clamp(min=1e-38)).max()) < 2e-6


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("function", [torch.lgamma, torch.erfc, torch.angle], ids=lambda f: f.__name__)
def test_functions_of_integers(function, dtype):
    torch.manual_seed(0)
    x = torch.randint(0 if dtype is not torch.int64 else -20, 20, (1000,)).to(dtype)
    _check(function, x, tolerance=1e-6)


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
        _check(lambda x, dim=dim: torch.renorm(x, p, dim, 1.5), x, tolerance=2 * TOLERANCE[dtype], exact=exact)
    if x.numel() > 4:
        x.view(-1)[:2] = torch.tensor([float("nan"), float("inf")], dtype=dtype)
        _check(lambda x: torch.renorm(x, p, 0, 1.5), x, tolerance=2 * TOLERANCE[dtype])


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
    _check(call, *inputs, tolerance=4 * TOLERANCE[dtype], exact=exact)
    if len(shape) == 4:
        last = x.to(memory_format=torch.channels_last)
        _check(call, last, *inputs[1:], tolerance=4 * TOLERANCE[dtype], exact=exact)

    def running(x, mean, var):
        F.batch_norm(x, mean, var, training=True)
        return mean, var

    statistics = torch.zeros(shape[1], dtype=dtype), torch.ones(shape[1], dtype=dtype)
    got = _run(lambda x, m, v: running(x, m.clone(), v.clone()), x, *statistics)
    for actual, expected in zip(got, running(x, *(s.clone() for s in statistics))):
        torch.testing.assert_close(actual, expected, rtol=4 * TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool],
)
@pytest.mark.parametrize("shape", [(0,), (1,), (700,), (3, 0), (5, 300), (2, 3, 4), (2, 1, 3, 257), ()], ids=str)
def test_nonzero(shape, dtype):
    torch.manual_seed(0)
    x = torch.randint(-1, 2, shape).to(dtype)
    if dtype.is_floating_point and x.numel() > 4:
        x.view(-1)[:4] = torch.tensor([-0.0, float("nan"), float("inf"), 1e-40], dtype=dtype)
    for values in (x, torch.zeros_like(x), torch.ones_like(x)):
        assert torch.equal(_run(torch.nonzero, values)[0], torch.nonzero(values))


_NAMES = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor log log10 log1p log2 neg reciprocal relu
    round rsqrt sigmoid sin sinh sqrt square tan tanh trunc
"""
UNARY = {name: getattr(torch, name) for name in _NAMES.split()} | {
    "mish": F.mish, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "selu": F.selu,
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
        torch.testing.assert_close(_run(UNARY[name], x)[0], UNARY[name](x), rtol=2e-13, atol=1e-15, equal_nan=True)
    for n in (0, 1, 7, 9):
        _check(UNARY[name], torch.rand(n, dtype=torch.float64), tolerance=1e-13)


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
    _check(getattr(torch, name), x, tolerance=2 * tolerance, exact=exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_softplus(dtype):
    x = _numbers(1003, dtype, -40, 40)
    for beta, threshold in ((1.0, 20.0), (3.0, 0.2), (0.5, 100.0)):
        exact = F.softplus(x.double(), beta, threshold).to(dtype)
        call = lambda x, b=beta, t=threshold: F.softplus(x, b, t)  # noqa: E731
        _check(call, x, tolerance=2 * TOLERANCE[dtype], exact=exact)


@pytest.mark.parametrize(("dtype", "threshold"), [(torch.float32, 100.0), (torch.float64, 1000.0)])
def test_softplus_is_linear_late(dtype, threshold):
    x = torch.tensor([-1.0, 0.0, 1.0, 60.0, threshold * 0.95, threshold + 1, float("nan"), float("inf")], dtype=dtype)
    _check(lambda x: F.softplus(x, 1.0, threshold), x)


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
    _check(torch.clamp, x, low, high)


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (1000,), (5, 33), (33, 5), (3, 4, 300), (300, 4, 3), (2, 600, 9)], ids=str
)
@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float64, name) for name in ("sum", "mean", "prod", "amax", "amin", "any", "all")]
    + [(torch.bool, name) for name in ("amax", "amin", "any", "all")]
    + [(dtype, name) for dtype in (torch.float16, torch.int64) for name in ("any", "all")],
)
def test_reductions(dtype, name, shape):
    function = getattr(torch, name)
    torch.manual_seed(0)
    x = torch.rand(shape, dtype=torch.float64) + 0.5
    cases = [x, x.where(torch.rand(shape) < 0.9, 0.0), torch.zeros_like(x), -torch.zeros_like(x)]
    if dtype.is_floating_point:
        cases.append(x.clone())
        cases[-1].view(-1)[-1] = float("nan")
    for case in cases:
        case = case.to(dtype)
        for dim in range(len(shape)):
            _check(lambda x, dim=dim: function(x, dim=dim), case, tolerance=1e-13)
            _check(lambda x, dim=dim: function(x, dim=dim, keepdim=True), case, tolerance=1e-13)
        _check(lambda x: function(x, dim=()) if name.startswith("am") else function(x), case, tolerance=1e-13)
    if name in ("sum", "prod", "any", "all"):
        _check(lambda x: function(x, dim=0), torch.zeros(0, *shape[1:], dtype=dtype))


@pytest.mark.parametrize(
    "name", ["sign", "sgn", "isnan", "isinf", "signbit", "nan_to_num", "bitwise_not", "logical_not"]
)
def test_functions_of_bools(name):
    torch.manual_seed(0)
    for shape in [(0,), (1,), (1001,), (3, 70)]:
        x = torch.rand(shape) < 0.5
        _check(getattr(torch, name), x)
        _check(lambda x, y: x * y, x, torch.rand(shape) < 0.5)
        _check(lambda x, y: x * y, x, torch.rand(shape[-1:]) < 0.5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int64])
def test_special_functions_of_few_numbers(dtype):
    torch.manual_seed(0)
    x = torch.randint(0 if dtype in (torch.bool, torch.uint8) else -9, 9, (20000,)).to(dtype)
    for function in (torch.digamma, torch.special.bessel_j1, torch.special.ndtri, torch.erfinv):
        _check(function, x, tolerance=2e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", [None, "bool", "numbers", "causal"])
def test_attention_of_16_bit_floats(mask, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, n, 24).to(dtype) for n in (33, 70, 70))
    options = {"is_causal": mask == "causal"}
    masks = {"bool": torch.rand(33, 70) < 0.7, "numbers": torch.randn(2, 1, 33, 70).to(dtype)}
    inputs = (q, k, v, masks[mask]) if mask in masks else (q, k, v)
    wide = [t.double() if t.is_floating_point() else t for t in inputs]
    exact = F.scaled_dot_product_attention(*wide, **options).to(dtype)
    call = lambda *inputs: F.scaled_dot_product_attention(*inputs, **options)  # noqa: E731
    _check(call, *inputs, tolerance=4 * TOLERANCE[dtype], exact=exact)


def _check_pooling(pool, dtype, shapes, every_options):
    torch.manual_seed(0)
    for shape in shapes:
        x = torch.randint(-99, 99, shape).to(dtype)
        if dtype.is_floating_point:
            x.view(-1)[1:5] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0], dtype=dtype)
        for options in every_options:
            for case in (x, torch.full_like(x, -99)):
                try:
                    expected = pool(case, *options)
                except RuntimeError:  # windows larger than the input
                    continue
                _check(lambda x, options=options: pool(x, *options), case, exact=expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_max_pooling(dtype):
    shapes = [(2, 3, 17, 33), (3, 9, 40), (1, 1, 1, 5)]
    windows = [(1,), ((1, 3), (1, 2), (0, 1)), (3, 2, 1), (2, 1, 1, 1), ((3, 2), 3, (1, 0), (1, 2)), (3, 2, 1, 1, True)]
    _check_pooling(F.max_pool2d, dtype, shapes, windows)
    line = torch.randn(2, 5, 1000).to(dtype)
    _check(lambda x: F.max_pool1d(x, 3, 2, 1), line) if dtype.is_floating_point else None


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
        _check(lambda x, n=normalized: F.layer_norm(x, n), x, tolerance=1e-11)
        _check(lambda x, w, b, n=normalized: F.layer_norm(x, n, w, b), x, weight, bias, tolerance=1e-11)
        _check(lambda x, n=normalized: torch.native_layer_norm(x, n, None, None, 1e-5)[2], x, tolerance=1e-11)
