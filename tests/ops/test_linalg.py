"""Linear algebra beyond the conformance suite: least squares (torch cannot export it), larger matrices, and arguments
that only a damaged program has."""

from __future__ import annotations

import threading

import pytest
import torch

import executorch_py as et

from .kernel_runner import KernelError, Unbound, run_kernel


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(7, 4), (4, 4), (3, 6), (2, 5, 3)], ids=str)
def test_least_squares(driver: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    a, b = torch.randn(*shape, dtype=torch.float64), torch.randn(*shape[:-1], 2, dtype=torch.float64)
    solution = torch.empty(*shape[:-2], shape[-1], 2, dtype=torch.float64)
    residuals = Unbound(torch.float64, len(shape) - 1)
    rank = torch.empty([0] if driver == "gels" else shape[:-2], dtype=torch.int64)
    values = Unbound(torch.float64, len(shape) - 1 if driver in ("gelsd", "gelss") else 1)
    is_tall = shape[-2] > shape[-1] and driver != "gelsy"
    if not is_tall:
        residuals = Unbound(torch.float64, 1)
    run_kernel("aten::linalg_lstsq.out", [a, b, None, driver, solution, residuals, rank, values], "TTDSTTTT")
    expected = torch.linalg.lstsq(a, b, driver=driver)
    torch.testing.assert_close(solution, expected.solution)
    if is_tall:
        torch.testing.assert_close(residuals.value, expected.residuals)


def test_a_matrix_of_some_size() -> None:
    torch.manual_seed(0)
    a = torch.randn(60, 60)
    s, u, vt = torch.empty(60), torch.empty(60, 60), torch.empty(60, 60)
    run_kernel("aten::_linalg_svd.U", [a, False, True, None, u, s, vt], "TbbSTTT")
    torch.testing.assert_close(s, torch.linalg.svdvals(a), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(u * s @ vt, a, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(u.T @ u, torch.eye(60), rtol=1e-4, atol=1e-4)
    symmetric = a + a.T
    values, vectors = torch.empty(60), torch.empty(60, 60)
    run_kernel("aten::_linalg_eigh.eigenvalues", [symmetric, "L", True, values, vectors])
    torch.testing.assert_close(values, torch.linalg.eigvalsh(symmetric), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(symmetric @ vectors, vectors * values, rtol=1e-3, atol=1e-3)
    general, vectors = torch.empty(60, dtype=torch.complex64), torch.empty(60, 60, dtype=torch.complex64)
    run_kernel("aten::linalg_eig.out", [a, general, vectors])
    torch.testing.assert_close(a.to(torch.complex64) @ vectors, vectors * general, rtol=1e-3, atol=1e-3)


def test_rank_deficient_matrices_have_orthonormal_vectors() -> None:
    for a in (torch.zeros(4, 3), torch.ones(3, 5), torch.eye(4)[:, :2]):
        m, n = a.shape
        s, u, vt = torch.empty(min(m, n)), torch.empty(m, m), torch.empty(n, n)
        run_kernel("aten::_linalg_svd.U", [a, True, True, None, u, s, vt], "TbbSTTT")
        torch.testing.assert_close(u.T @ u, torch.eye(m))
        torch.testing.assert_close(vt @ vt.T, torch.eye(n))
        torch.testing.assert_close(u[:, : len(s)] * s @ vt[: len(s)], a, rtol=1e-5, atol=1e-6)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("aten::linalg_lu_solve.out", lambda: [torch.eye(3), ints(1, 2, 9), torch.ones(3, 1), True, False,
                                               torch.empty(3, 1)],
         "pivot 2 is 9"),
        ("aten::linalg_ldl_solve.out", lambda: [torch.eye(3), ints(-2, -2, -3), torch.ones(3, 1), False,
                                                torch.empty(3, 1)],
         "half of a block"),
        ("aten::ormqr.out", lambda: [torch.ones(2, 3), torch.ones(3), torch.ones(2, 2), True, False, torch.empty(2, 2)],
         "do not fit"),
        ("aten::linalg_householder_product.out", lambda: [torch.ones(3, 4, 2), torch.ones(2, 2), torch.empty(3, 4, 2)],
         "batch"),
        ("aten::lu_unpack.out", lambda: [torch.ones(3, 2, 2), ints(1, 2, 1, 2).reshape(2, 2), True, True,
                                         torch.empty(3, 2, 2), torch.empty(3, 2, 2), torch.empty(3, 2, 2)], "batch"),
        ("aten::cholesky.out", lambda: [-torch.eye(2), False, torch.empty(2, 2)], "not positive definite"),
        ("aten::linalg_eig.out", lambda: [torch.full((2, 2), torch.nan), torch.empty(2, dtype=torch.complex64),
                                          torch.empty(2, 2, dtype=torch.complex64)], "NaN"),
        ("aten::fractional_max_pool2d.output", lambda: [torch.ones(1, 4, 4), [2, 2], [2, 2], torch.full((1, 1, 2), 7.0),
                                                        torch.empty(1, 2, 2), torch.empty(1, 2, 2, dtype=torch.int64)],
         "random sample 0 is 7"),
        ("aten::mode.values", lambda: [torch.empty(3, 0), 1, False, torch.empty(3), torch.empty(3, dtype=torch.int64)],
         "is empty"),
    ],
)  # fmt: skip
def test_impossible_arguments_are_refused(name: str, arguments, words: str) -> None:
    with pytest.raises(KernelError, match=words):
        run_kernel(name, arguments())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(32, 32), (97, 33), (33, 97), (2, 40, 41)], ids=str)
def test_singular_values_by_way_of_two_diagonals(shape, dtype) -> None:
    torch.manual_seed(0)
    m, n = shape[-2:]
    k = min(m, n)
    a = torch.randn(shape, dtype=dtype)
    rank_three = a[..., :3] @ torch.randn(3, n, dtype=dtype)
    holes = a.clone()
    holes[..., 5:9] = 0.0
    holes[..., 20, :] = 0.0
    steps = torch.zeros(shape, dtype=dtype)
    steps[..., range(k), range(k)] = torch.logspace(0, -30, k, dtype=dtype)
    close = torch.eye(m, n, dtype=dtype).expand(shape) + 1e-7 * a
    ones = torch.ones(shape, dtype=dtype)
    cases = [
        a,
        rank_three,
        holes,
        steps,
        close,
        ones,
        a * 1e-30,
        a * 1e30,
        torch.zeros_like(a),
        -torch.eye(m, n, dtype=dtype),
    ]
    for case in cases:
        case = case.expand(shape).contiguous()
        size = case.abs().max().item() or 1.0
        near = {"rtol": 0, "atol": (1e-5 if dtype == torch.float32 else 1e-13) * k}
        for full in (False, True):
            s = torch.empty(*shape[:-2], k, dtype=dtype)
            u = torch.empty(*shape[:-1], m if full else k, dtype=dtype)
            vt = torch.empty(*shape[:-2], n if full else k, n, dtype=dtype)
            run_kernel("aten::_linalg_svd.U", [case, full, True, None, u, s, vt], "TbbSTTT")
            torch.testing.assert_close(s / size, torch.linalg.svdvals(case) / size, **near)
            torch.testing.assert_close((u[..., :k] * (s / size)[..., None, :]) @ vt[..., :k, :], case / size, **near)
            torch.testing.assert_close(u.mT @ u, torch.eye(u.shape[-1], dtype=dtype).expand_as(u.mT @ u), **near)
            torch.testing.assert_close(vt @ vt.mT, torch.eye(vt.shape[-2], dtype=dtype).expand_as(vt @ vt.mT), **near)
            only = torch.empty_like(s)
            none = [torch.empty(0, dtype=dtype) for _ in range(2)]
            run_kernel("aten::_linalg_svd.U", [case, full, False, None, none[0], only, none[1]], "TbbSTTT")
            torch.testing.assert_close(only / size, s / size, **near)


@pytest.mark.parametrize("power", [0, 150, 156, 161, 170])
def test_singular_vectors_of_rows_of_far_apart_sizes(power: int) -> None:
    torch.manual_seed(0)
    a = torch.randn(40, 40, dtype=torch.float64)
    a[1:] *= 10.0**-power
    program = et.to_edge(torch.export.export(Svd(), (a,))).to_executorch().buffer
    u, s, vh = et.Runtime.get().load_program(program).load_method("forward").execute((a,))
    one = torch.eye(40, dtype=torch.float64)
    torch.testing.assert_close(u.T @ u, one, rtol=0, atol=1e-13)
    torch.testing.assert_close(vh @ vh.T, one, rtol=0, atol=1e-13)
    torch.testing.assert_close(u * s @ vh, a, rtol=0, atol=1e-13 * float(s[0]))


def test_singular_values_can_be_cancelled() -> None:
    a = torch.randn(1000, 1000, dtype=torch.float64)
    program = et.to_edge(torch.export.export(Svd(), (a,))).to_executorch().buffer
    method = et.Runtime.get().load_program(program).load_method("forward")
    timer = threading.Timer(0.2, method.cancel)
    timer.start()
    with pytest.raises(et.CancelledError):
        method.execute((a,))
    timer.join()


class Svd(torch.nn.Module):
    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.linalg.svd(a, full_matrices=False)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (40, 33)])
@pytest.mark.parametrize("size", [1e140, 1e100, 1e-140])
def test_singular_values_of_large_and_small_numbers(shape: tuple[int, int], size: float) -> None:
    torch.manual_seed(0)
    a = torch.randn(shape, dtype=torch.float64)
    expected = torch.linalg.svdvals(a)
    k = min(shape)
    s = torch.empty(k, dtype=torch.float64)
    u, vt = torch.empty(shape[0], k, dtype=torch.float64), torch.empty(k, shape[1], dtype=torch.float64)
    run_kernel("aten::_linalg_svd.U", [a * size, False, True, None, u, s, vt], "TbbSTTT")
    torch.testing.assert_close(s / size, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(u.mT @ u, torch.eye(k, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close((u * (s / size)) @ vt, a, rtol=0, atol=1e-12)


SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
WITH_SINGULAR = {
    "cholesky": (torch.linalg.cholesky, -torch.eye(2)),
    "inv": (torch.linalg.inv, SINGULAR),
    "inverse": (torch.inverse, SINGULAR),
    "tensorinv": (lambda a: torch.linalg.tensorinv(a, 1), SINGULAR),
    "solve": (lambda a: torch.linalg.solve(a, torch.ones(2)), SINGULAR),
    "solve from the right": (lambda a: torch.linalg.solve(a, torch.ones(3, 2), left=False), SINGULAR),
    "tensorsolve": (lambda a: torch.linalg.tensorsolve(a, torch.ones(2)), SINGULAR),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, -2), SINGULAR),
    "lu_factor": (torch.linalg.lu_factor, SINGULAR),
    "ldl_factor": (torch.linalg.ldl_factor, torch.zeros(2, 2)),
    "second of a batch": (torch.linalg.inv, torch.stack([torch.eye(2), SINGULAR])),
    "inv_ex": (lambda a: torch.linalg.inv_ex(a, check_errors=True), SINGULAR),
}


@pytest.mark.parametrize("name", WITH_SINGULAR)
def test_what_eager_refuses_is_refused(name: str) -> None:
    """PyTorch's decompositions look at a factorization's success outside of the graph, so that a program would not."""
    function, singular = WITH_SINGULAR[name]
    with pytest.raises(RuntimeError):
        function(singular)

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor):
            return function(a)

    regular = torch.eye(2).expand_as(singular) * 2 + 0.25
    program = et.to_edge(torch.export.export(Model(), (regular,))).to_executorch()
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    with pytest.raises(et.InvalidArgumentError, match=r"is singular|is not positive definite"):
        method.execute((singular,))
    expected = function(regular)
    for result, value in zip(
        method.execute((regular,)), [expected] if isinstance(expected, torch.Tensor) else expected
    ):
        torch.testing.assert_close(result, value)


def test_a_failure_that_is_asked_for_is_told() -> None:
    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor):
            return torch.linalg.inv_ex(a).info

    program = et.to_edge(torch.export.export(Model(), (torch.eye(2),))).to_executorch()
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    assert method.execute((SINGULAR,))[0].item() == 2
