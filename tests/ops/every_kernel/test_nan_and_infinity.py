"""NaN, infinities, both zeros, subnormal and huge numbers through every kernel of an operator that is more than
pointwise.

Each kernel that takes the call, a library's among them, gives each element the class that eager gives it: NaN, an
infinity, or a number close by. Sizes are below a vector, around it and beyond; layers have no activation or one that a
kernel takes over. ET_INSTRUCTION_SET holds the vector kernels to one (AVX2, SSE4). Pointwise operators:
tests/conformance, group "special".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
from ..kernel_runner import KernelError, kernel_count, prepare_and_run  # noqa: E402
from ..near_eager import FLOATS, TOLERANCE  # noqa: E402
from ..own_calls import LETTERS  # noqa: E402

torch.set_num_threads(1)

NOT_SUPPORTED = 0x10
NAN, INF = float("nan"), float("inf")
CLAMPS = {"none": None, "relu": (0, None), "relu6": (0, 6), "hardtanh": (-1, 1), "above": (None, 0.5)}
SPECIAL = {
    "nan": [NAN], "inf": [INF], "-inf": [-INF], "mixed": [NAN, INF, -INF, -0.0, 1e-40, 3e4], "opposite": [INF, -INF],
    "huge": [1e18],
}  # fmt: skip


def special(shape: tuple[int, ...], dtype: torch.dtype, kind: str, share: int = 9) -> torch.Tensor:
    """Random numbers, one in `share` of them special."""
    x = torch.randn(shape)
    flat, values = x.view(-1), SPECIAL[kind]
    for i, place in enumerate(torch.randperm(flat.numel())[: max(1, flat.numel() // share)].tolist()):
        flat[place] = values[i % len(values)]
    return x.to(dtype)


def same_classes(actual: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    tolerance = 4 * TOLERANCE[expected.dtype]
    usual = expected[expected.abs() < 1e18]
    largest = max(1.0, float(usual.abs().max()) if usual.numel() else 0.0)
    torch.testing.assert_close(
        actual, expected, rtol=tolerance, atol=tolerance * largest, equal_nan=True, msg=lambda m: f"{what}: {m}"
    )


def every_kernel(
    name: str, arguments: list[Any], variable: set[int], expected: torch.Tensor, what: str, spreads: bool = False
) -> int:
    """Runs each kernel that takes the call, whose last argument is the output; returns how many did.

    With `spreads` a kernel may give NaN beside what is not finite, too.
    """
    constant = set(range(len(arguments) - 1)) - variable
    taken = 0
    for place in range(kernel_count(name)):
        arguments[-1].fill_(99)
        try:
            prepare_and_run(name, place, arguments, LETTERS[name], constant)
        except KernelError as error:
            assert error.code == NOT_SUPPORTED, str(error)
            continue
        taken += 1
        actual = arguments[-1]
        if spreads:
            actual = torch.where(actual.isnan() & ~expected.isnan(), expected, actual)
        same_classes(actual, expected, f"{what}, kernel {place}")
    return taken


def clamped(name: str, arguments: list[Any], clamp: tuple | None) -> tuple[str, list[Any]]:
    """The operator's name, and arguments with the limits before the output."""
    if clamp is None:
        return f"aten::{name}.out", arguments
    return f"et::{name}_clamp.out", [*arguments[:-1], *clamp, arguments[-1]]


def limited(x: torch.Tensor, clamp: tuple | None) -> torch.Tensor:
    return x if clamp is None else x.clamp(*clamp)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("activation", CLAMPS)
def test_linear(activation: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    clamp, taken = CLAMPS[activation], 0
    for inputs, outputs in [(64, 10), (8, 8), (16, 3), (128, 2), (24, 12), (33, 40), (300, 129)]:
        weight, bias = torch.randn(outputs, inputs).to(dtype), torch.randn(outputs).to(dtype)
        for rows, kind in itertools.product([1, 3, 16], SPECIAL):
            x = special((rows, inputs), dtype, kind, share=5 * inputs)
            for given in (bias, None):
                # Of 16 bits eager's own libraries differ in how they add infinities up.
                expected = limited(
                    F.linear(x.double(), weight.double(), None if given is None else given.double()), clamp
                )
                name, arguments = clamped("linear", [x, weight, given, torch.empty(rows, outputs, dtype=dtype)], clamp)
                what = f"{rows} x {inputs} -> {outputs}, {kind}"
                taken += every_kernel(name, arguments, {0}, expected.to(dtype), what)
                taken += every_kernel(name, arguments, {0, 1, 2}, expected.to(dtype), what)
    assert taken


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_matrix_products(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for (m, k, n), kind in itertools.product([(1, 64, 10), (3, 8, 8), (7, 16, 3), (20, 33, 40), (64, 64, 64)], SPECIAL):
        a, b, row = special((m, k), dtype, kind, 5 * k), torch.randn(k, n).to(dtype), torch.randn(n).to(dtype)
        exact = a.double() @ b.double()
        what = f"{m} x {k} x {n}, {kind}"
        for variable in ({0}, {0, 1, 2}):
            every_kernel("aten::mm.out", [a, b, torch.empty(m, n, dtype=dtype)], variable, exact.to(dtype), what)
            for activation in CLAMPS:
                name, arguments = clamped(
                    "addmm", [row, a, b, 1, 1, torch.empty(m, n, dtype=dtype)], CLAMPS[activation]
                )
                expected = limited(exact + row.double(), CLAMPS[activation]).to(dtype)
                every_kernel(name, arguments, variable - {0} | {1}, expected, f"{what}, {activation}")
        batch = torch.stack([a, a]), torch.stack([b, b])
        expected = torch.stack([exact, exact]).to(dtype)
        every_kernel("aten::bmm.out", [*batch, torch.empty_like(expected)], {0, 1}, expected, what)


# in channels, out channels, groups, kernel, stride, padding
CONVOLUTIONS_2D = [
    (1, 1, 1, 1, 1, 0), (3, 8, 1, 3, 2, 1), (16, 5, 1, 1, 1, 0), (8, 8, 8, 3, 1, 1), (33, 33, 33, 5, 2, 2),
    (8, 16, 2, 3, 1, 1),
    (16, 40, 1, 3, 1, 1), (4, 1, 1, 5, 1, 2), (20, 20, 5, 3, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("activation", ["none", "relu6", "above"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_convolutions(dtype: torch.dtype, activation: str) -> None:
    torch.manual_seed(0)
    for rank, (inputs, outputs, groups, kernel, stride, padding) in itertools.product((1, 2, 3), CONVOLUTIONS_2D):
        if rank == 3 and inputs > 8:
            continue
        conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        weight = torch.randn(outputs, inputs // groups, *[kernel] * rank).to(dtype)
        lists = [[stride] * rank, [padding] * rank, [1] * rank, False, [0] * rank, groups]
        for kind, order in itertools.product(("nan", "mixed"), orders(rank)):
            x = special((1, inputs, *[12] * (rank - 1), 13), dtype, kind, share=60).to(memory_format=order)
            exact = conv(x.double(), weight.double(), None, stride, padding, 1, groups)
            check_convolution(
                x, weight, lists, exact, order, CLAMPS[activation], f"{rank}-D {inputs} -> {outputs}, {kind}"
            )


@pytest.mark.parametrize("activation", ["none", "relu6", "above"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_transposed_convolutions(dtype: torch.dtype, activation: str) -> None:
    torch.manual_seed(0)
    for rank, (inputs, outputs, groups, kernel, stride) in itertools.product(
        (1, 2, 3),
        [(4, 1, 1, 2, 2), (8, 4, 1, 2, 2), (6, 10, 1, 3, 2), (1, 1, 1, 1, 1), (8, 8, 4, 3, 1), (16, 33, 1, 4, 2)],
    ):
        conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
        weight = torch.randn(inputs, outputs // groups, *[kernel] * rank).to(dtype)
        lists = [[stride] * rank, [0] * rank, [1] * rank, True, [0] * rank, groups]
        for kind, order in itertools.product(("nan", "mixed"), orders(rank)):
            x = special((1, inputs, *[5] * (rank - 1), 7), dtype, kind, share=60).to(memory_format=order)
            exact = conv(x.double(), weight.double(), None, stride, 0, 0, groups)
            check_convolution(
                x, weight, lists, exact, order, CLAMPS[activation], f"{rank}-D {inputs} -> {outputs}, {kind}"
            )


def orders(rank: int) -> list[torch.memory_format]:
    return [torch.contiguous_format, *{2: [torch.channels_last], 3: [torch.channels_last_3d]}.get(rank, [])]


def check_convolution(
    x: torch.Tensor, weight: torch.Tensor, lists: list, exact: torch.Tensor, order: torch.memory_format,
    clamp: tuple | None,
    what: str,
) -> None:  # fmt: skip
    expected = limited(exact, clamp).to(x.dtype)
    out = torch.empty_like(expected).to(memory_format=order)
    name, arguments = clamped("convolution", [x, weight, None, *lists, out], clamp)
    # Winograd's tiles; XNNPACK's depthwise kernels, which fill up to 3, 4, 9 or 25 taps with zeros that meet
    # neighbours.
    is_depthwise = weight.shape[1] == 1 and lists[-1] > 1
    spreads = weight.shape[2:] == (3, 3) or (is_depthwise and weight[0].numel() not in (3, 4, 9, 25))
    for variable in ({0}, {0, 1}):
        every_kernel(name, arguments, variable, expected, f"{what}, {order}", spreads)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pooling(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for channels, kernel, stride, padding in [(1, 2, 2, 0), (3, 3, 2, 1), (17, 3, 1, 1), (40, 2, 1, 0), (8, 5, 3, 2)]:
        for kind, order in itertools.product(SPECIAL, orders(2)):
            x = special((2, channels, 11, 19), dtype, kind, share=25).to(memory_format=order)
            lists = [[kernel] * 2, [stride] * 2, [padding] * 2]
            what = f"{channels} channels, windows of {kernel}, {kind}, {order}"
            largest = F.max_pool2d(x, kernel, stride, padding)
            every_kernel(
                "et::max_pool2d.out", [x, *lists, [1, 1], False, torch.empty_like(largest)], {0}, largest, what
            )
            mean = F.avg_pool2d(x.double(), kernel, stride, padding).to(dtype)
            rest = [False, True, None, torch.empty_like(mean)]
            every_kernel("aten::avg_pool2d.out", [x, *lists, *rest], {0}, mean, what)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape, dim, kind in itertools.product([(3, 5), (2, 16), (4, 33), (1, 300), (7, 130)], (0, 1), SPECIAL):
        x = special(shape, dtype, kind, share=17)
        expected = getattr(torch, name)(x.double(), dim).to(dtype)
        what = f"{shape}, {dim}, {kind}"
        every_kernel(f"aten::_{name}.out", [x, dim, False, torch.empty_like(x)], {0}, expected, what)


def norm_calls(x: torch.Tensor, weight: torch.Tensor) -> Iterator[tuple[str, list[Any], torch.Tensor]]:
    wide, factor = x.double(), weight.double()
    yield "et::rms_norm.out", [x, weight, 1e-6, torch.empty_like(x)], F.rms_norm(wide, x.shape[-1:], factor, 1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norms(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape, kind in itertools.product(
        [(3, 5), (2, 16), (4, 33), (1, 300), (7, 130)], ("nan", "inf", "-inf", "opposite")
    ):
        x, weight = special(shape, dtype, kind, share=17), torch.randn(shape[-1]).to(dtype)
        for name, arguments, expected in norm_calls(x, weight):
            every_kernel(name, arguments, {0}, expected.to(dtype), f"{shape}, {kind}")
