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
