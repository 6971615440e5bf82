"""Linear algebra and Fourier transforms on about a million elements, for benchmarks.enlarge.

The database's samples of these operators cannot be enlarged: a matrix of values between those of a sample is singular
or not positive. Here each has a matrix of 1000 x 1000. The decompositions and what goes with them have 4096 matrices of
16 x 16 as well. Each transform has rows of lengths that are products of small primes, powers of two and primes.

    for name, (function, inputs) in matrices(torch.float32).items(): …
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Pair = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]

LARGE, SMALL = (1000, 1000), (4096, 16, 16)


def matrices(dtype: torch.dtype) -> dict[str, Pair]:
    """Name in the database (and ".small" for the batch of small matrices) -> function and inputs; floats of 32 or 64
    bits.
    """
    return {
        f"{name}{suffix}": pair
        for suffix, shape in (("", LARGE), (".small", SMALL))
        for name, pair in _of(shape, dtype)
    }


def _of(shape: tuple[int, ...], dtype: torch.dtype) -> list[tuple[str, Pair]]:
    linalg = torch.linalg
    generator = torch.Generator().manual_seed(0)
    n = shape[-1]
    a, b = (torch.randn(shape, generator=generator, dtype=dtype) for _ in range(2))
    symmetric = (a + a.mT) / 2
    definite = a @ a.mT + n * torch.eye(n, dtype=dtype)
    factor = linalg.cholesky(definite)
    lu, pivots = linalg.lu_factor(a)
    reflectors, tau = torch.geqrf(a)
    ld, ld_pivots = linalg.ldl_factor(symmetric)
    one = b[..., :1].contiguous()
    cases: dict[str, Pair] = {
        "linalg.cholesky": (linalg.cholesky, (definite,)),
        "linalg.cholesky_ex": (lambda x: tuple(linalg.cholesky_ex(x, upper=True)), (definite,)),
        "cholesky": (torch.cholesky, (definite,)),
        "cholesky_inverse": (torch.cholesky_inverse, (factor,)),
        "cholesky_solve": (torch.cholesky_solve, (b, factor)),
        "triangular_solve": (lambda b, a: tuple(torch.triangular_solve(b, a, upper=False)), (b, factor)),
        "linalg.solve_triangular": (lambda a, b: linalg.solve_triangular(a, b, upper=False), (factor, b)),
        "linalg.solve_triangular.right": (
            lambda a, b: linalg.solve_triangular(a.mT, b, upper=True, left=False), (factor, b)),
        "linalg.lu_factor": (lambda x: tuple(linalg.lu_factor(x)), (a,)),
        "linalg.lu_factor_ex": (lambda x: tuple(linalg.lu_factor_ex(x)), (a,)),
        "linalg.lu": (lambda x: tuple(linalg.lu(x)), (a,)),
        "linalg.lu_solve": (linalg.lu_solve, (lu, pivots, b)),
        "lu_solve": (torch.lu_solve, (b, lu, pivots)),
        "lu_unpack": (lambda lu, pivots: tuple(torch.lu_unpack(lu, pivots)), (lu, pivots)),
        "linalg.inv": (linalg.inv, (a,)),
        "linalg.inv_ex": (lambda x: tuple(linalg.inv_ex(x)), (a,)),
        "linalg.solve": (linalg.solve, (a, b)),
        "linalg.solve.one_column": (linalg.solve, (a, one)),
        "linalg.solve_ex": (lambda a, b: tuple(linalg.solve_ex(a, b)), (a, b)),
        "linalg.det": (linalg.det, (a / n**0.5,)),
        "linalg.slogdet": (lambda x: tuple(linalg.slogdet(x)), (a,)),
        "logdet": (torch.logdet, (definite,)),
        "linalg.ldl_factor": (lambda x: tuple(linalg.ldl_factor(x)), (symmetric,)),
        "linalg.ldl_factor_ex": (lambda x: tuple(linalg.ldl_factor_ex(x)), (symmetric,)),
        "linalg.ldl_solve": (linalg.ldl_solve, (ld, ld_pivots, b)),
        "linalg.qr": (lambda x: tuple(linalg.qr(x)), (a,)),
        "qr": (lambda x: tuple(torch.qr(x)), (a,)),
        "geqrf": (lambda x: tuple(torch.geqrf(x)), (a,)),
        "ormqr": (torch.ormqr, (reflectors, tau, b)),
        "linalg.householder_product": (linalg.householder_product, (reflectors, tau)),
        "linalg.eigh": (lambda x: tuple(linalg.eigh(x)), (symmetric,)),
        "linalg.eigvalsh": (linalg.eigvalsh, (symmetric,)),
        "linalg.eig": (lambda x: tuple(torch.view_as_real(y) for y in linalg.eig(x)), (a,)),
        "linalg.eigvals": (lambda x: torch.view_as_real(linalg.eigvals(x)), (a,)),
        "linalg.svd": (lambda x: tuple(linalg.svd(x)), (a,)),
        "svd": (lambda x: tuple(torch.svd(x)), (a,)),
        "linalg.svdvals": (linalg.svdvals, (a,)),
        "linalg.pinv": (linalg.pinv, (a,)),
        "linalg.pinv.hermitian": (lambda x: linalg.pinv(x, hermitian=True), (symmetric,)),
        "pinverse": (torch.pinverse, (a,)),
        "linalg.matrix_rank": (linalg.matrix_rank, (a,)),
        "linalg.matrix_rank.hermitian": (lambda x: linalg.matrix_rank(x, hermitian=True), (symmetric,)),
        "linalg.cond": (linalg.cond, (a,)),
        "linalg.matrix_norm": (linalg.matrix_norm, (a,)),
        "linalg.matrix_norm.nuclear": (lambda x: linalg.matrix_norm(x, "nuc"), (a,)),
        "linalg.norm": (linalg.norm, (a,)),
        "linalg.vector_norm": (linalg.vector_norm, (a,)),
        "linalg.matrix_power": (lambda x: linalg.matrix_power(x, 5), (a / n**0.5,)),
        "matrix_exp": (torch.matrix_exp, (a / n**0.5,)),
        "linalg.lstsq": (lambda a, b: linalg.lstsq(a, b).solution, (a, one)),
    }  # fmt: skip
    if len(shape) == 2:
        cases |= {
            "linalg.multi_dot": (lambda a, b, c: linalg.multi_dot([a, b, c]), (a, b, one)),
            "linalg.vander": (linalg.vander, (a[0].clone().tanh(),)),
            "linalg.cross": (linalg.cross, (torch.stack([a, b, a]).reshape(-1, 3),
                                            torch.stack([b, a, a]).reshape(-1, 3))),
            "linalg.vecdot": (linalg.vecdot, (a, b)),
            "linalg.diagonal": (linalg.diagonal, (a.reshape(100, 100, 100),)),
            "linalg.tensorinv": (lambda x: linalg.tensorinv(x, ind=2),
                                 (a[:900, :900].reshape(30, 30, 30, 30).contiguous(),)),
            "linalg.tensorsolve": (
                linalg.tensorsolve, (a[:900, :900].reshape(30, 30, 900).contiguous(), b[:30, :30].contiguous())),
            "svd_lowrank": (lambda x: tuple(torch.svd_lowrank(x)), (a,)),
        }  # fmt: skip
    return list(cases.items())


def transforms(dtype: torch.dtype) -> dict[str, Pair]:
    """Each operator of torch.fft by its name in the database, with the size where one has several cases."""
    generator = torch.Generator().manual_seed(0)
    fft = torch.fft

    def real(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    def seen(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
        """From a complex tensor, seen as pairs of numbers, to the same."""

        def run(x: torch.Tensor) -> torch.Tensor:
            y = function(torch.view_as_complex(x), *arguments)
            return torch.view_as_real(y) if y.is_complex() else y

        return run

    def from_real(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
        return lambda x: torch.view_as_real(function(x, *arguments).resolve_conj())

    cases: dict[str, Pair] = {}
    # mixed factors, a power of two, two primes (1009 - 1 has small factors only), twice a prime, one long row
    for rows, n in ((1000, 1000), (1000, 1024), (1000, 997), (1009, 1009), (1000, 1006), (1, 2**20), (1, 1_000_003)):
        name = f"{rows}x{n}"
        cases |= {
            f"fft.fft.{name}": (seen(fft.fft), (real(max(rows // 2, 1), n, 2),)),
            f"fft.ifft.{name}": (seen(fft.ifft), (real(max(rows // 2, 1), n, 2),)),
            f"fft.rfft.{name}": (from_real(fft.rfft), (real(rows, n),)),
            f"fft.irfft.{name}": (seen(fft.irfft, n), (real(rows, n // 2 + 1, 2),)),
        }
    pairs, half = real(1000, 1000, 2), real(1000, 501, 2)
    cases |= {
        "fft.fft": (seen(fft.fft, None, 0), (pairs,)),
        "fft.ifft": (seen(fft.ifft, None, 0), (pairs,)),
        "fft.hfft": (seen(fft.hfft), (half,)),
        "fft.ihfft": (from_real(fft.ihfft), (real(1000, 1000),)),
        "fft.rfft": (from_real(fft.rfft, None, 0), (real(1000, 1000),)),
        "fft.irfft": (seen(fft.irfft), (half,)),
        "fft.fftshift": (fft.fftshift, (real(1000, 1000),)),
        "fft.ifftshift": (fft.ifftshift, (real(1000, 1000),)),
    }
    for many in ("2", "n"):
        for name in ("fft", "ifft"):
            cases[f"fft.{name}{many}"] = (seen(getattr(fft, name + many)), (pairs,))
        for name in ("rfft", "ihfft"):
            cases[f"fft.{name}{many}"] = (from_real(getattr(fft, name + many)), (real(1000, 1000),))
        for name in ("irfft", "hfft"):
            cases[f"fft.{name}{many}"] = (seen(getattr(fft, name + many)), (half,))
    return cases
