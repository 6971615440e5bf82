"""Decompositions of matrices around the edges of the blocks that vectors compute, beside PyTorch eager."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import executorch_py as et

from .kernel_runner import kernel_count, prepare_and_run

# A leaf is 32 rows, a matrix large from 48 on; 257 is more than a panel of any product.
SIZES = [31, 32, 33, 47, 48, 49, 64, 65, 100, 257]
SHAPES = [(n, n) for n in SIZES] + [(130, 50), (50, 130), (64, 49), (49, 200), (3, 70, 70), (2, 2, 66, 50)]
DTYPES = [torch.float32, torch.float64]


def run_kernel(name: str, arguments: list[Any], letters: str = "") -> None:
    """Runs the kernel that a load chooses: the one with blocks."""
    assert kernel_count(name) > 1
    prepare_and_run(name, 0, arguments, letters, set())


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


def assert_cancelled(method: et.Method, a: torch.Tensor, seconds: float) -> None:
    """Cancels the call after so many seconds, and again where that came before the call was under way."""
    done = threading.Event()

    def cancel() -> None:
        while not done.wait(seconds):
            method.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(et.CancelledError):
            method.execute((a,))
    finally:
        done.set()
        thread.join()


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
    assert_cancelled(method, a, 0.15)


def is_orthonormal(rows: torch.Tensor) -> bool:
    return torch.allclose(
        rows @ rows.mT, torch.eye(rows.shape[-2], dtype=rows.dtype), **near(rows.dtype, rows.shape[-1])
    )


def symmetric_matrices(n: int, dtype: torch.dtype) -> list[torch.Tensor]:
    a = random((n, n), dtype)
    graded = 10.0 ** torch.linspace(0, -12, n, dtype=dtype)
    clustered = torch.diag(torch.cat([torch.ones(n // 2, dtype=dtype), torch.zeros(n - n // 2, dtype=dtype)]))
    q = torch.linalg.qr(a)[0]
    return [
        (a + a.T) / 2,
        a[:, :3] @ a[:, :3].T,
        graded[:, None] * (a + a.T) * graded,
        (graded[:, None] * (a + a.T) * graded).flip(0, 1),
        (q @ clustered @ q.T).tril() + (q @ clustered @ q.T).tril(-1).T,
        torch.eye(n, dtype=dtype),
        torch.zeros(n, n, dtype=dtype),
        torch.ones(n, n, dtype=dtype),
        (a + a.T) * 1e-30,
        (a + a.T) * 1e30,
        torch.diag(torch.ones(n - 1, dtype=dtype), 1) + torch.diag(torch.ones(n - 1, dtype=dtype), -1),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, *SIZES])
def test_eigenvalues_of_symmetric_matrices(n: int, dtype: torch.dtype) -> None:
    for a in symmetric_matrices(n, dtype):
        size = torch.linalg.eigvalsh(a).abs().max().item() or 1.0
        expected = torch.linalg.eigvalsh(a) / size
        for uplo in ("L", "U"):
            half = a.tril() if uplo == "L" else a.triu()
            values, vectors = torch.empty(n, dtype=dtype), torch.empty(n, n, dtype=dtype)
            run_kernel("aten::_linalg_eigh.eigenvalues", [half, uplo, True, values, vectors])
            torch.testing.assert_close(values / size, expected, **near(dtype, n))
            torch.testing.assert_close(a / size @ vectors, vectors * (values / size), **near(dtype, n))
            assert is_orthonormal(vectors.T)
        only = torch.empty_like(values)
        run_kernel("aten::_linalg_eigh.eigenvalues", [a, "L", False, only, torch.empty(0, dtype=dtype)])
        torch.testing.assert_close(only / size, expected, **near(dtype, n))


@pytest.mark.parametrize("n", [5, 100])
def test_eigenvalues_of_what_is_no_number(n: int) -> None:
    a = torch.eye(n)
    a[2, 1] = torch.nan
    values, vectors = torch.empty(n), torch.empty(n, n)
    run_kernel("aten::_linalg_eigh.eigenvalues", [a, "L", True, values, vectors])
    assert values.isnan().all() and vectors.isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(n, n) for n in SIZES] + [(130, 50), (50, 130), (64, 49), (49, 200), (3, 70, 70)], ids=str
)
def test_singular_values_and_vectors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    m, n = shape[-2:]
    k = min(m, n)
    a = random(shape, dtype)
    holes = a.clone()
    holes[..., 5:9] = 0.0
    holes[..., 20, :] = 0.0
    steps = torch.zeros_like(a)
    steps[..., range(k), range(k)] = torch.logspace(0, -30, k, dtype=dtype)
    for case in (
        a,
        a[..., :3] @ random((3, n), dtype, 1),
        holes,
        steps,
        torch.ones_like(a),
        a * 1e-30,
        a * 1e30,
        0.0 * a,
    ):
        size = torch.linalg.svdvals(case).max().item() or 1.0
        bound = near(dtype, max(m, n))
        for full in (False, True):
            s = torch.empty(*shape[:-2], k, dtype=dtype)
            u = torch.empty(*shape[:-1], m if full else k, dtype=dtype)
            vt = torch.empty(*shape[:-2], n if full else k, n, dtype=dtype)
            run_kernel("aten::_linalg_svd.U", [case, full, True, None, u, s, vt], "TbbSTTT")
            torch.testing.assert_close(s / size, torch.linalg.svdvals(case) / size, **bound)
            torch.testing.assert_close((u[..., :k] * (s / size)[..., None, :]) @ vt[..., :k, :], case / size, **bound)
            assert all(
                is_orthonormal(rows) for rows in (*u.mT.reshape(-1, u.shape[-1], m), *vt.reshape(-1, vt.shape[-2], n))
            )
        only = torch.empty_like(s)
        none = [torch.empty(0, dtype=dtype) for _ in range(2)]
        run_kernel("aten::_linalg_svd.U", [case, False, False, None, none[0], only, none[1]], "TbbSTTT")
        torch.testing.assert_close(only / size, s / size, **bound)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pseudoinverses(dtype: torch.dtype) -> None:
    for shape in ((60, 60), (100, 50), (50, 100), (2, 70, 60)):
        a = random(shape, dtype)
        a[..., 1] = a[..., 0]
        inverse = run_function(torch.linalg.pinv, a)[0]
        torch.testing.assert_close(inverse, torch.linalg.pinv(a), **near(dtype, 100, 64.0))
    for n in (5, 60, 100):  # the lower triangle counts; half of the eigenvalues are zero, others negative
        half = random((n, n // 2), dtype)
        half[:, 0] *= 2
        a = (
            half
            @ torch.diag(torch.linspace(-1, 1, n // 2, dtype=dtype) + 2 * torch.eye(n // 2, dtype=dtype)[0])
            @ half.T
        )
        inverse = run_function(lambda a: torch.linalg.pinv(a, hermitian=True, rtol=1e-4), a.tril())[0]
        torch.testing.assert_close(a @ inverse @ a, a, **near(dtype, n, 64.0 * a.abs().max().item()))
        torch.testing.assert_close(inverse, inverse.T, **near(dtype, n, 64.0 * inverse.abs().max().item()))


def distance(values: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest distance of one of `values` from the one of `expected` that is left and nearest."""
    left, worst = expected.clone(), 0.0
    for value in values:
        distances = (left - value).abs()
        nearest = distances.argmin()
        worst = max(worst, distances[nearest].item())
        left[nearest] = torch.inf
    return worst


def general_matrices(n: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    a = random((n, n), dtype)
    graded = 10.0 ** torch.linspace(0, -6, n, dtype=dtype)
    blocks = torch.block_diag(a[: n // 2, : n // 2], a[n // 2 :, n // 2 :])
    return {
        "random": a,
        "symmetric": a + a.T,
        "orthogonal": torch.linalg.qr(a)[0],
        "triangular": a.triu(),
        "blocks": blocks,
        "shift": torch.roll(torch.eye(n, dtype=dtype), 1, 0),
        "graded": graded[:, None] * a * graded,
        "badly scaled": graded[:, None] * a / graded,
        "zero": torch.zeros(n, n, dtype=dtype),
        "identity": torch.eye(n, dtype=dtype),
        "ones": torch.ones(n, n, dtype=dtype),
        "small": a * 1e-30,
        "large": a * 1e30,
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 48, 97, 130, 257])
def test_eigenvalues_of_general_matrices(n: int, dtype: torch.dtype) -> None:
    complex_dtype = torch.complex64 if dtype == torch.float32 else torch.complex128
    for name, a in general_matrices(n, dtype).items():
        size = torch.linalg.matrix_norm(a.double()).item() or 1.0
        bound = 4 * torch.finfo(dtype).eps * n
        values, vectors = torch.empty(n, dtype=complex_dtype), torch.empty(n, n, dtype=complex_dtype)
        run_kernel("aten::linalg_eig.out", [a, values, vectors])
        only = torch.empty_like(values)
        run_kernel("aten::linalg_eigvals.out", [a, only])
        scaled = values / size
        assert ((a / size).to(complex_dtype) @ vectors - vectors * scaled).abs().max() < bound, name
        if name == "ones":  # eager's iteration converges for some n only for this one and the next
            expected = torch.eye(n)[0].to(complex_dtype)
        elif name == "shift":
            angles = 2 * torch.pi * torch.arange(n, dtype=torch.float64) / n
            expected = torch.polar(torch.full_like(angles, 1 / size), angles).to(complex_dtype)
        elif name == "badly scaled":  # the random one, of which rows and columns are scaled
            expected = torch.linalg.eigvals(general_matrices(n, dtype)["random"])
            scaled, size = values, 1.0
        else:
            expected = torch.linalg.eigvals(a / size)
        assert distance(scaled, expected) < 100 * bound * max(1.0, expected.abs().max().item()), name
        assert distance(only / size, scaled) < 100 * bound * max(1.0, expected.abs().max().item()), name
        torch.testing.assert_close(vectors.norm(dim=0), torch.ones(n, dtype=dtype), rtol=0, atol=bound)


def test_eigenvalues_of_jordan_blocks() -> None:
    # Eigenvalues that cannot be told from each other: only a x = value x can be asked for.
    a = 2 * torch.eye(100, dtype=torch.float64) + torch.diag(torch.ones(99, dtype=torch.float64), 1)
    for case in (a, a.T.contiguous(), torch.diag(torch.ones(99, dtype=torch.float64), -1)):
        values, vectors = torch.empty(100, dtype=torch.complex128), torch.empty(100, 100, dtype=torch.complex128)
        run_kernel("aten::linalg_eig.out", [case, values, vectors])
        assert (case.to(torch.complex128) @ vectors - vectors * values).abs().max() < 1e-13
        assert vectors.isfinite().all()


@pytest.mark.parametrize("name", ["eigvals", "eig"])
def test_eigenvalues_can_be_cancelled(name: str) -> None:
    a = random((1500, 1500), torch.float64)

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> object:
            values = getattr(torch.linalg, name)(a)
            return torch.view_as_real(values if name == "eigvals" else values[1])

    program = et.to_edge(torch.export.export(Model(), (a,))).to_executorch().buffer
    method = et.Runtime.get().load_program(program).load_method("forward")
    for seconds in (0.05, 0.5):  # on the way to Hessenberg's form, and after it
        assert_cancelled(method, a, seconds)


def symmetric_factors(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ld, pivots = torch.empty_like(a), torch.empty(a.shape[:-1], dtype=torch.int32)
    info = torch.empty(a.shape[:-2], dtype=torch.int32)
    run_kernel("aten::linalg_ldl_factor_ex.out", [a, False, False, ld, pivots, info], "TbbTTT")
    return ld, pivots, info


@pytest.mark.parametrize("n", SIZES)
def test_factors_of_symmetric_matrices(n: int) -> None:
    a = random((2, n, n), torch.float64)
    a = (a + a.mT) / 2
    hollow = a.clone()
    hollow[:, range(n), range(n)] = 0.0  # blocks of two rows
    for case in (a, hollow, torch.eye(n, dtype=torch.float64).expand(2, n, n).flip(-1), a + n * torch.eye(n)):
        case = case.contiguous()
        ld, pivots, info = symmetric_factors(case.tril())
        expected, expected_pivots = torch.linalg.ldl_factor(case)
        assert not info.any()
        assert torch.equal(pivots, expected_pivots)
        torch.testing.assert_close(ld, expected.tril(), **near(torch.float64, 1000 * n))
        b, x = random((2, n, 3), torch.float64, 1), torch.empty(2, n, 3, dtype=torch.float64)
        run_kernel("aten::linalg_ldl_solve.out", [expected, expected_pivots, b, False, x], "TTTbT")
        torch.testing.assert_close(x, torch.linalg.ldl_solve(expected, expected_pivots, b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [48, 100])
def test_factors_of_symmetric_matrices_in_float(n: int) -> None:
    a = random((n, n), torch.float32)
    a = a + a.T
    ld, pivots, _ = symmetric_factors(a)
    b, x = random((n, 3), torch.float32, 1), torch.empty(n, 3)
    run_kernel("aten::linalg_ldl_solve.out", [ld, pivots, b, False, x], "TTTbT")
    torch.testing.assert_close(a @ x, b, **near(torch.float32, n, 64.0 * x.abs().max().item()))


def test_a_block_of_zeros_is_named() -> None:
    a = random((100, 100), torch.float64)
    a = a + a.T
    a[40] = a[:, 40] = 0.0
    ld, pivots, info = symmetric_factors(a)
    assert info.item() > 0
    assert torch.equal(pivots, torch.linalg.ldl_factor_ex(a).pivots)
    assert ld.isfinite().all()
    assert symmetric_factors(torch.zeros(60, 60))[2].item() == 1


@pytest.mark.parametrize("shape", [(60, 60), (70, 50), (50, 70), (3, 5, 4)], ids=str)
def test_unpacked_factors(shape: tuple[int, ...]) -> None:
    lu, pivots = torch.linalg.lu_factor(random(shape, torch.float32))
    for ours, expected in zip(
        run_function(lambda a, b: tuple(torch.lu_unpack(a, b)), lu, pivots), torch.lu_unpack(lu, pivots)
    ):
        assert torch.equal(ours, expected)
