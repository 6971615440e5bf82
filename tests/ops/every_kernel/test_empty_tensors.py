"""Tensors without elements, whose other sizes nothing bounds: what is computed from them must neither wrap around nor
take a step for each. A file may ask for all of it."""

from __future__ import annotations

import contextlib

import pytest

torch = pytest.importorskip("torch")
from ..kernel_runner import KernelError, kernel_count, prepare_and_run, run_kernel  # noqa: E402

NOT_SUPPORTED, INVALID_ARGUMENT = 0x10, 0x12
MANY = 2**40
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def codes(name: str, arguments: list, letters: str, expected: torch.Tensor | None = None) -> set[int]:
    """What the kernels say that take the arguments: 0, or an error. `expected`: what they make of the last one then."""
    found = set()
    for place in range(kernel_count(name)):
        if expected is not None:
            arguments[-1].fill_(9)
        try:
            prepare_and_run(name, place, arguments, letters, set())
            found.add(0)
            assert expected is None or torch.equal(arguments[-1], expected), place
        except KernelError as error:
            found.add(error.code)
    return found - {NOT_SUPPORTED}


def convolution(x, w, bias, out, padding: int = 0, transposed: bool = False, groups: int = 1) -> list:
    return [x, w, bias, [1], [padding], [1], transposed, [0], groups, out]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64], ids=str)
def test_filters_of_no_channels(dtype: torch.dtype) -> None:
    n = 2**29
    x, w = torch.zeros(1, 0, n, n, dtype=dtype), torch.zeros(2, 0, n, n, dtype=dtype)
    bias, out = torch.tensor([3, 4]).to(dtype), torch.zeros(1, 2, 1, 1, dtype=dtype)
    expected = bias.reshape(out.shape)
    assert codes("aten::convolution.out", convolution(x, w, bias, out), "TTtlllbliT", expected) == {0}
    x, w = torch.zeros(1, 0, 1, 1, dtype=dtype), torch.zeros(0, 2, n + 1, n + 1, dtype=dtype)
    arguments = convolution(x, w, bias, out, padding=n // 2, transposed=True)
    assert codes("aten::convolution.out", arguments, "TTtlllbliT", expected) == {0}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64], ids=str)
@pytest.mark.parametrize(("size", "kernel"), [([0], [0]), ([5], [0]), ([0, 5], [0, 1]), ([3, 0, 2], [1, 0, 2])])
def test_filters_of_no_size(size: list[int], kernel: list[int], dtype: torch.dtype) -> None:
    """As in eager, which says that the kernel size should be greater than zero."""
    x, w = torch.zeros(1, 4, *size, dtype=dtype), torch.zeros(6, 4, *kernel, dtype=dtype)
    out = torch.zeros([1, 6, *(n - k + 1 for n, k in zip(size, kernel))], dtype=dtype)
    arguments = convolution(x, w, torch.arange(6).to(dtype), out)
    assert codes("aten::convolution.out", arguments, "TTtlllbliT") == {INVALID_ARGUMENT}


def test_groups_of_channels_that_wrap() -> None:
    for dtype in FLOATS:
        x, w, out = (torch.zeros(size, dtype=dtype) for size in ((1, 0, 4, 4), (0, 4, 1, 1), (1, 0, 4, 4)))
        for transposed in (False, True):
            arguments = convolution(x, w, None, out, transposed=transposed, groups=2**62)
            assert codes("aten::convolution.out", arguments, "TTtlllbliT") == {INVALID_ARGUMENT}
    x, w, out = x.to(torch.int8), w.to(torch.int8), out.to(torch.int8)
    numbers = [[1], [0], [1], False, [0], 2**62, 0.5, 0, -128, 127, out]
    arguments = [x, 0.5, 0, w, torch.ones(1), None, *numbers]
    assert codes("et::quantized_convolution.out", arguments, "TdiTTtlllblidiiiT") == {INVALID_ARGUMENT}


def test_images_of_nothing() -> None:
    x, w, out = torch.zeros(MANY, 0, 4, 4), torch.zeros(0, 0, 3, 3), torch.zeros(MANY, 0, 2, 2)
    assert codes("aten::convolution.out", convolution(x, w, None, out), "TTtlllbliT") == {0}
    assert codes("aten::upsample_nearest2d.vec_out", [x, [2, 2], None, out], "TLFo") == {0}
    x, w, out = x.to(torch.int8), w.to(torch.int8), out.to(torch.int8)
    numbers = [0.5, 0, -128, 127, out]
    arguments = [x, 0.5, 0, w, torch.ones(1), None, [1], [0], [1], False, [0], 1, *numbers]
    assert codes("et::quantized_convolution.out", arguments, "TdiTTtlllblidiiiT") == {0}
    arguments = [x, 0.5, 0, [2, 2], [2, 2], [0, 0], False, True, None, *numbers]
    assert codes("et::quantized_avg_pool2d.out", arguments, "TdilllbbIdiiio") == {0}


def test_integer_filters_of_no_channels() -> None:
    n = 2**29
    x, w = torch.zeros(1, 0, n, n, dtype=torch.int8), torch.zeros(2, 0, n, n, dtype=torch.int8)
    out, bias = torch.zeros(1, 2, 1, 1, dtype=torch.int8), torch.tensor([8, 12], dtype=torch.int32)
    numbers = [[1], [0], [1], False, [0], 1, 0.5, 0, -128, 127, out]
    run_kernel("et::quantized_convolution.out", [x, 0.5, 0, w, torch.ones(2), bias, *numbers], "TdiTTtlllblidiiiT")
    assert out.flatten().tolist() == [8, 12]


def test_gradients_of_convolutions_of_no_channels() -> None:
    name = "aten::convolution_backward.out"

    def call(w, grad, x, groups: int = 1, stride: int = 1, padding: int = 0, dilation: int = 1) -> None:
        outs = [torch.ones_like(x), torch.ones_like(w), torch.ones(grad.shape[1])]
        mask = [True, True, True]
        run_kernel(name, [grad, x, w, None, [stride], [padding], [dilation], False, [0], groups, mask, *outs])

    n = 2**29
    call(torch.zeros(4, 0, n, n), torch.ones(1, 4, 1, 1), torch.zeros(1, 0, n, n))
    x, w, grad = torch.ones(1, 4, 4, 4), torch.ones(4, 4, 3, 3), torch.ones(1, 4, 2, 2)
    call(w, grad, x)
    most = 2**63 - 1
    for numbers in ({"stride": most}, {"stride": 0}, {"padding": -most - 1}, {"padding": most}, {"dilation": most}):
        with pytest.raises(KernelError):
            call(w, grad, x, **numbers)
    for groups in (3, MANY, 2**62, 0):
        with pytest.raises(KernelError):
            call(torch.zeros(4, 0, 3, 3), grad, torch.zeros(1, 0, 4, 4), groups)


@pytest.mark.parametrize(("batch", "width"), [(0, 3), (1, 0)])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
def test_steps_of_nothing(cell: str, batch: int, width: int) -> None:
    hidden = 0 if width == 0 else 4
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[cell] * hidden
    x, out, state = torch.zeros(MANY, batch, width), torch.zeros(MANY, batch, hidden), torch.zeros(1, batch, hidden)
    params = [torch.zeros(gates, width), torch.zeros(gates, hidden)]
    states = [state] if cell != "lstm" else [state, state.clone()]
    given = states[0] if cell != "lstm" else states
    arguments = [x, given, params, False, 1, 0.0, False, False, False, out, *(s.clone() for s in states)]
    letters = "Tvvbidbbbooo" if cell == "lstm" else "TTvbidbbboo"
    assert codes(f"et::{cell}.input_out", arguments, letters) == {0}


@pytest.mark.parametrize("shape", [(MANY, 0), (0, MANY), (MANY, 0, 0)])
def test_decompositions_of_nothing(shape: tuple[int, ...]) -> None:
    a, none = torch.zeros(shape), torch.zeros(*shape[:-2], 0)
    run_kernel("aten::geqrf.a", [a, a.clone(), none])
    q, r = torch.zeros(*shape[:-1], 0), torch.zeros(*shape[:-2], 0, shape[-1])
    run_kernel("aten::linalg_qr.out", [a, "reduced", q, r])
    run_kernel("aten::_linalg_svd.U", [a, False, True, None, q, none, r], "Tbbsooo")
    if shape[-1] == shape[-2]:
        for name, arguments in (
            ("aten::cholesky.out", [False, a.clone()]),
            ("aten::cholesky_inverse.out", [False, a.clone()]),
            ("aten::linalg_matrix_exp.out", [a.clone()]),
            ("aten::linalg_solve_triangular.out", [a, True, True, False, a.clone()]),
            ("aten::linalg_lu.out", [True, a.clone(), a.clone(), a.clone()]),
            ("aten::linalg_eig.out", [none.to(torch.complex64), a.to(torch.complex64)]),
            ("aten::_linalg_eigh.eigenvalues", ["L", True, none, a.clone()]),
        ):
            run_kernel(name, [a, *arguments])


def test_matrices_whose_bytes_wrap() -> None:
    """As doubles, [2^31, 2^30] have 2^64 bytes."""
    a = torch.zeros(0, 2**31, 2**30, dtype=torch.float16)
    with pytest.raises(KernelError, match="do not fit memory"):
        run_kernel("aten::geqrf.a", [a, a.clone(), torch.zeros(0, 2**30, dtype=torch.float16)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_distances_of_nothing(dtype: torch.dtype) -> None:
    none, wide, tall = (
        torch.zeros(0, dtype=dtype),
        torch.zeros(0, 2**59, dtype=dtype),
        torch.zeros(MANY, 0, dtype=dtype),
    )
    assert codes("aten::_cdist_forward.out", [wide, wide, 2.0, None, torch.zeros(0, 0, dtype=dtype)], "TTdIo") == {0}
    assert codes("aten::_cdist_forward.out", [tall, tall[:0], 2.0, None, tall.clone()], "TTdIo") == {0}
    assert codes("aten::_pdist_forward.out", [wide, 2.0, none], "Tdo") == {0}
    rows = 486331011735726989  # rows (rows - 1) is 28 more than a multiple of 2^64
    arguments = [torch.zeros(rows, 0, dtype=dtype), 2.0, torch.zeros(14, dtype=dtype)]
    assert codes("aten::_pdist_forward.out", arguments, "Tdo") == {INVALID_ARGUMENT}


def test_integer_products_of_nothing() -> None:
    def integers(*size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=torch.int8)

    numbers = [0.5, 0, -128, 127]
    arguments = [integers(1, 0, 0), 0.5, 0, integers(1, 0, MANY), 0.5, 0, *numbers, integers(1, 0, MANY)]
    assert codes("et::quantized_matmul.out", arguments, "TdiTdidiiio") == {0}
    linear = [integers(0, 0), 0.5, 0, integers(MANY, 0), torch.ones(1), None, *numbers, integers(0, MANY)]
    assert codes("et::quantized_linear.out", linear, "TdiTTtdiiio") == {0}
    out = torch.ones(3, 2)
    run_kernel(
        "et::weight_only_linear.out",
        [torch.ones(3, 0), integers(2, 0), torch.ones(1), None, out[0] * 5, 0, out],
        "TTTttio",
    )
    assert torch.equal(out, torch.full((3, 2), 5.0)), "a sum of nothing is the bias"


def test_one_matrix_for_many_right_sides_of_nothing() -> None:
    a, b = torch.tensor([[2.0, 1.0], [1.0, 3.0]]), torch.zeros(MANY, 2, 0)
    lu, pivots, info = torch.zeros(2, 2), torch.zeros(2, dtype=torch.int32), torch.ones((), dtype=torch.int32)
    assert codes("aten::_linalg_solve_ex.result", [a, b, True, False, b.clone(), lu, pivots, info], "TTbboooo") == {0}
    expected = torch.linalg.lu_factor(a)
    torch.testing.assert_close(lu, expected.LU)
    assert torch.equal(pivots, expected.pivots)
    assert info.item() == 0
    tall, b = torch.ones(3, 2), torch.zeros(MANY, 3, 0)
    rank, values = torch.zeros((), dtype=torch.int64), torch.zeros(2)
    outs = [torch.zeros(MANY, 2, 0), torch.zeros(0), rank, values]
    assert codes("aten::linalg_lstsq.out", [tall, b, None, "gelsd", *outs], "TTDSoooo") == {0}
    assert rank.item() == 1
    torch.testing.assert_close(values, torch.linalg.svdvals(tall))


def test_transforms_of_nothing() -> None:
    x, out = torch.zeros(MANY, 4, 0), torch.zeros(MANY, 3, 0, dtype=torch.complex64)
    assert codes("aten::_fft_r2c.out", [x, [1], 0, True, out], "Tlibo") == {0}
    assert codes("aten::_fft_c2r.out", [out, [1], 0, 4, x], "Tliio") == {0}


def test_shuffles_whose_sizes_wrap() -> None:
    for name, x in (("pixel_shuffle", torch.zeros(0, MANY, 1)), ("pixel_unshuffle", torch.zeros(MANY, 0, 0))):
        with contextlib.suppress(KernelError):
            run_kernel(f"aten::{name}.out", [x, 2**31 - 1, x.clone()])


def test_windows_of_pools_of_nothing() -> None:
    x = torch.zeros(1, 2, 3, 3)
    for size in ([MANY, 0], [0, MANY]):
        out = torch.zeros(1, 2, *size)
        assert codes("aten::_adaptive_avg_pool2d.out", [x, size, out], "Tlo") == {0}
        assert codes("aten::adaptive_max_pool2d.out", [x, size, out, out.long()], "Tloo") == {0}
    none = torch.zeros(MANY, 0, 2)
    run_kernel("aten::max_unpool2d.out", [none, none.long(), [0, 4], torch.zeros(MANY, 0, 4)])
