"""Decompositions of matrices around the edges of the blocks that vectors compute, beside PyTorch eager."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import executorch_py as et

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel_runner import run_kernel

# A leaf is 32 rows, a matrix large from 48 on; 257 is more than a panel of any product.
SIZES = [31, 32, 33, 47, 48, 49, 64, 65, 100, 257]
SHAPES = [(n, n) for n in SIZES] + [(130, 50), (50, 130), (64, 49), (49, 200), (3, 70, 70), (2, 2, 66, 50)]
DTYPES = [torch.float32, torch.float64]


def near(dtype: torch.dtype, n: int, units: float = 8.0) -> dict[str, float]:
    """Errors of some units in the last place for each of n sums, of matrices of numbers of size 1."""
    return {"rtol": 0, "atol": units * n * torch.finfo(dtype).eps}


def random(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def run_function(function: Callable[..., object], *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The outputs of a program of this function."""

    class Model(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> object:
            return function(*inputs)

    program = et.to_edge(torch.export.export(Model(), inputs)).to_executorch().buffer
    return et.Runtime.get().load_program(program).load_method("forward").execute(inputs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_factors_and_their_solutions(n: int, dtype: torch.dtype) -> None:
    a = random((2, n, n), dtype)
    a = a @ a.mT / n + torch.eye(n, dtype=dtype)
    for upper in (False, True):
        half = a.triu() if upper else a.tril()  # the other half is not looked at
        factor, info = torch.empty_like(a), torch.empty(2, dtype=torch.int32)
        run_kernel("aten::linalg_cholesky_ex.L", [half, upper, False, factor, info], "TbbTT")
        assert info.tolist() == [0, 0]
        torch.testing.assert_close(factor, torch.linalg.cholesky(a, upper=upper), **near(dtype, n))
        assert torch.equal(factor, factor.triu() if upper else factor.tril())
        b, x, inverse = random((2, n, 5), dtype, 1), torch.empty(2, n, 5, dtype=dtype), torch.empty_like(a)
        run_kernel("aten::cholesky_solve.out", [b, factor, upper, x])
        torch.testing.assert_close(x, torch.linalg.solve(a, b), **near(dtype, n))
        run_kernel("aten::cholesky_inverse.out", [factor, upper, inverse])
        torch.testing.assert_close(inverse, torch.linalg.inv(a), **near(dtype, n))


@pytest.mark.parametrize("bad", [0, 31, 32, 40, 63, 64, 99])
def test_the_first_minor_that_is_not_positive_is_named(bad: int) -> None:
    a = torch.eye(100)
    a[bad, bad] = -1.0
    info = torch.empty((), dtype=torch.int32)
    for upper in (False, True):
        run_kernel("aten::linalg_cholesky_ex.L", [a, upper, False, torch.empty_like(a), info], "TbbTT")
        assert info.item() == bad + 1
        a[bad, bad] = torch.nan
        run_kernel("aten::linalg_cholesky_ex.L", [a, upper, False, torch.empty_like(a), info], "TbbTT")
        assert info.item() == bad + 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("columns", [1, 70])
def test_triangular_systems(columns: int, n: int, dtype: torch.dtype) -> None:
    a = random((n, n), dtype) / n + torch.eye(n, dtype=dtype)
    for upper in (False, True):
        for left in (False, True):
            for unit in (False, True):
                b = random((n, columns) if left else (columns, n), dtype, 1)
                x = torch.empty_like(b)
                run_kernel("aten::linalg_solve_triangular.out", [a, b, upper, left, unit, x], "TTbbbT")
                expected = torch.linalg.solve_triangular(
                    a.triu() if upper else a.tril(), b, upper=upper, left=left, unitriangular=unit
                )
                torch.testing.assert_close(x, expected, **near(dtype, n))
        b = random((n, columns), dtype, 2)
        for transposed in (False, True):
            x, m = torch.empty_like(b), torch.empty_like(a)
            run_kernel("aten::triangular_solve.X", [b, a, upper, transposed, False, x, m], "TTbbbTT")
            half = a.triu() if upper else a.tril()
            torch.testing.assert_close((half.T if transposed else half) @ x, b, **near(dtype, n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu_factors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    m, n = shape[-2:]
    a = random(shape, dtype)
    lu, pivots = torch.empty_like(a), torch.empty(*shape[:-2], min(m, n), dtype=torch.int32)
    info = torch.empty(shape[:-2], dtype=torch.int32)
    run_kernel("aten::linalg_lu_factor_ex.out", [a, True, False, lu, pivots, info], "TbbTTT")
    p, lower, upper = torch.lu_unpack(lu, pivots)
    torch.testing.assert_close(p @ lower @ upper, a, **near(dtype, max(m, n)))
    assert lower.abs().max() <= 1.0
    assert not info.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_systems_inverses_and_determinants(n: int, dtype: torch.dtype) -> None:
    a, b = random((2, n, n), dtype) / n**0.5 + 2 * torch.eye(n, dtype=dtype), random((2, n, 3), dtype, 1)
    functions = [
        lambda a, b: torch.linalg.solve(a, b),
        lambda a, b: torch.linalg.solve(a, b.mT, left=False),
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
        lambda a, b: torch.linalg.inv(a),
        lambda a, b: torch.linalg.slogdet(a)[1] / n,
        lambda a, b: torch.linalg.matrix_exp(a)[0] / 1000,
    ]
    for function in functions:
        torch.testing.assert_close(run_function(function, a, b)[0], function(a, b), **near(dtype, n, 32.0))


@pytest.mark.parametrize("column", [0, 31, 32, 33, 64, 99])
def test_the_first_pivot_that_is_zero_is_named(column: int) -> None:
    a = random((100, 100), torch.float64)
    a[:, column] = 0.0
    lu, pivots = torch.empty_like(a), torch.empty(100, dtype=torch.int32)
    info = torch.empty((), dtype=torch.int32)
    run_kernel("aten::linalg_lu_factor_ex.out", [a, True, False, lu, pivots, info], "TbbTTT")
    assert info.item() == column + 1
    p, lower, upper = torch.lu_unpack(lu, pivots)
    torch.testing.assert_close(p @ lower @ upper, a, rtol=0, atol=1e-12)
    torch.testing.assert_close(run_function(torch.linalg.det, a)[0], torch.tensor(0.0, dtype=torch.float64))


def test_what_is_no_number_stays_none() -> None:
    a = random((100, 100), torch.float32)
    a[70, 3] = torch.nan
    assert run_function(torch.linalg.det, a)[0].isnan()
    q, r = run_function(lambda x: tuple(torch.linalg.qr(x)), a)
    assert q.isnan().any() and r.isnan().any()
    assert torch.equal(
        run_function(torch.linalg.inv, torch.diag(torch.full((60,), torch.inf)))[0].diag(), torch.zeros(60)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orthogonal_factors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    m, n = shape[-2:]
    a = random(shape, dtype)
    a[..., 5] = 0.0
    for mode in ("reduced", "complete", "r"):
        width = m if mode == "complete" else min(m, n)
        q = torch.empty(0 if mode == "r" else (*shape[:-1], width), dtype=dtype)
        r = torch.empty(*shape[:-2], width, n, dtype=dtype)
        run_kernel("aten::linalg_qr.out", [a, mode, q, r])
        torch.testing.assert_close(r.abs(), torch.linalg.qr(a, mode)[1].abs(), **near(dtype, max(m, n), 32.0))
        if mode != "r":
            torch.testing.assert_close(q @ r, a, **near(dtype, max(m, n)))
            torch.testing.assert_close(
                q.mT @ q, torch.eye(width, dtype=dtype).expand(*shape[:-2], -1, -1), **near(dtype, m)
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(100, 64), (130, 130), (2, 65, 50)], ids=str)
def test_products_with_reflectors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    m, _n = shape[-2:]
    reflectors, tau = torch.geqrf(random(shape, dtype))
    q = torch.empty_like(reflectors)
    run_kernel("aten::linalg_householder_product.out", [reflectors, tau, q])
    torch.testing.assert_close(q, torch.linalg.householder_product(reflectors, tau), **near(dtype, m))
    for left in (False, True):
        for transpose in (False, True):
            other = random((*shape[:-2], m, 60) if left else (*shape[:-2], 60, m), dtype, 1)
            product = torch.empty_like(other)
            run_kernel("aten::ormqr.out", [reflectors, tau, other, left, transpose, product], "TTTbbT")
            expected = torch.ormqr(reflectors, tau, other, left=left, transpose=transpose)
            torch.testing.assert_close(product, expected, **near(dtype, m))


@pytest.mark.parametrize("power", [-30, 30])
def test_columns_of_very_large_and_small_numbers(power: int) -> None:
    a = random((100, 60), torch.float32)
    q, r = torch.empty(100, 60), torch.empty(60, 60)
    run_kernel("aten::linalg_qr.out", [a * 10.0**power, "reduced", q, r])
    torch.testing.assert_close(q @ (r / 10.0**power), a, **near(torch.float32, 100))
    torch.testing.assert_close(q.T @ q, torch.eye(60), **near(torch.float32, 100))


@pytest.mark.parametrize("name", ["inv", "qr", "cholesky", "matrix_exp"])
def test_long_ones_can_be_cancelled(name: str) -> None:
    a = torch.eye(3000, dtype=torch.float64)
    function = getattr(torch.linalg, name)

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> object:
            result = function(a)
            return result if isinstance(result, torch.Tensor) else tuple(result)

    program = et.to_edge(torch.export.export(Model(), (a,))).to_executorch().buffer
    method = et.Runtime.get().load_program(program).load_method("forward")
    timer = threading.Timer(0.15, method.cancel)
    timer.start()
    with pytest.raises(et.CancelledError):
        method.execute((a,))
    timer.join()
