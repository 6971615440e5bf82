"""Matrix products and convolutions whose weights are known only at run time, against eager: sizes around the
panels of the packed kernels, transposed operands, groups, one row, integers that wrap.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from .random_tensors import FLOATS, INTEGERS, SMALL, integers, numbers
from .whole_runtime import check, run

# Largest |ours - exact| / largest |exact|: a few roundings of the result's type; sums are kept in float32.
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}


SIZES = (1, 3, 17, 64, 129, 300, 511)


def check_in_doubles(
    function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], dtype: torch.dtype
) -> None:
    inputs = tuple(value.to(dtype) for value in inputs)
    actual = run(function, *inputs)
    exact = function(*(value.double() for value in inputs))
    assert (actual.double() - exact).abs().max() <= LIMITS[dtype] * exact.abs().max()


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_products(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    draw = random.Random(seed)
    m, k, n = (draw.choice(SIZES) for _ in range(3))
    check_in_doubles(torch.mm, (torch.randn(m, k), torch.randn(k, n)), dtype)
    check_in_doubles(lambda a, b: torch.mm(a.t(), b.t()), (torch.randn(k, m), torch.randn(n, k)), dtype)
    addends = (torch.randn(n), torch.randn(m, k), torch.randn(k, n))
    check_in_doubles(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), addends, dtype)
    batches = (torch.randn(3, m % 70 + 1, k), torch.randn(3, n % 70 + 1, k))
    check_in_doubles(lambda a, b: torch.bmm(a, b.transpose(1, 2)), batches, dtype)
    check_in_doubles(F.linear, (torch.randn(2, m % 50 + 1, k), torch.randn(n, k), torch.randn(n)), dtype)


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("dims", (1, 2, 3))
@pytest.mark.parametrize("seed", range(3))
def test_convolutions(seed: int, dims: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    draw = random.Random(seed)
    groups = draw.choice((1, 2, 3))
    channels, filters = groups * draw.choice((1, 4, 9)), groups * draw.choice((1, 5, 16))
    kernel = [draw.choice((1, 2, 3, 5)) for _ in range(dims)]
    stride = [draw.choice((1, 2, 3)) for _ in range(dims)]
    padding = [draw.randrange(0, size + 1) // 2 for size in kernel]
    dilation = [draw.choice((1, 2)) for _ in range(dims)]
    extra = [draw.randrange(0, max(s, d)) for s, d in zip(stride, dilation, strict=True)]
    x = torch.randn(2, channels, *(draw.choice((12, 13, 17)) for _ in range(dims)))
    bias = torch.randn(filters)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    weight = torch.randn(filters, channels // groups, *kernel)
    check_in_doubles(lambda x, w, b: convolve(x, w, b, stride, padding, dilation, groups), (x, weight, bias), dtype)
    transposed = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    weight = torch.randn(channels, filters // groups, *kernel)
    check_in_doubles(
        lambda x, w, b: transposed(x, w, b, stride, padding, extra, groups, dilation), (x, weight, bias), dtype
    )


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16, torch.float32), ids=str)
@pytest.mark.parametrize("filters", (1, 2, 4, 5, 8, 12, 13, 16))
@pytest.mark.parametrize("dims", (1, 2, 3))
def test_convolutions_of_step_one(dims: int, filters: int, dtype: torch.dtype) -> None:
    """They read their windows in place: odd and single channels, borders on some sides, rows at the edges of blocks."""
    torch.manual_seed(filters)
    draw = random.Random(filters)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    for channels, groups in ((1, 1), (3, 1), (1, 3), (4, 2), (18, 1)):
        kernel = [draw.choice((1, 2, 3)) for _ in range(dims)]
        padding = [draw.choice((0, 1, 2)) for _ in range(dims)]
        dilation = [draw.choice((1, 2)) for _ in range(dims)]
        sizes = [draw.choice((11, 16, 17)) for _ in range(dims)] if dims > 1 else [draw.choice((11, 800))]
        x = torch.randn(2, channels * groups, *sizes)
        weight = torch.randn(filters * groups, channels, *kernel)
        bias = torch.randn(filters * groups) if draw.random() < 0.5 else None
        arguments = (x, weight) if bias is None else (x, weight, bias)
        check_in_doubles(
            lambda x, w, b=None, p=padding, d=dilation, g=groups: convolve(x, w, b, 1, p, d, g), arguments, dtype
        )  # fmt: skip


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("value", (float("inf"), float("nan")))
def test_one_element_that_is_not_finite(value: float, dtype: torch.dtype) -> None:
    """It reaches the sums that it belongs to and no other."""
    x = torch.ones(1, 3, 9, 9, dtype=dtype)
    x[0, 2, 4, 8] = value
    weight, matrix = torch.ones(5, 3, 3, 3, dtype=dtype), torch.ones(9, 33, dtype=dtype)
    for function, operands in ((lambda x, w: F.conv2d(x, w, padding=1), (x, weight)), (torch.mm, (x[0, 2], matrix))):
        exact = function(*(operand.double() for operand in operands))  # eager itself spreads NaN in 16 bits
        torch.testing.assert_close(run(function, *operands), exact.to(dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_a_border_much_larger_than_the_image(dtype: torch.dtype) -> None:
    check_in_doubles(lambda x, w: F.conv1d(x, w, padding=9000), (torch.randn(1, 2, 5), torch.randn(4, 2, 18003)), dtype)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("depth", (1, 31, 866, 70000))
def test_a_matrix_of_16_bits_times_a_vector(depth: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    matrix, vector = torch.randn(19, depth), torch.randn(depth)
    check_in_doubles(torch.mv, (matrix, vector), dtype)
    check_in_doubles(lambda a, x: x[None] @ a.t(), (matrix, vector), dtype)
    check_in_doubles(lambda a, x: x[None] @ a, (torch.randn(depth, 19), vector), dtype)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_casts_of_16_bits_in_other_orders(dtype: torch.dtype) -> None:
    x = torch.randn(3, 70, 90)
    x[0, 1, 2], x[1, 2, 3], x[2, 3, 4] = float("inf"), float("nan"), 1e-6
    for value, to in ((x, dtype), (x.to(dtype), torch.float32)):
        for shown in (lambda v: v, lambda v: v.transpose(1, 2), lambda v: v[:, ::3, 1::2]):
            actual = run(lambda v, shown=shown, to=to: shown(v).to(to), value)
            torch.testing.assert_close(actual, shown(value).to(to), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_sums_at_indices(dtype: torch.dtype) -> None:
    """Elements that no index names keep their bits; positions broadcast against each other, from both ends."""
    torch.manual_seed(0)
    x, values = torch.randn(40, 300).to(dtype), torch.randn(40, 300).to(dtype)
    x[3, 5], values[0, 7] = float("nan"), float("inf")
    index = torch.randint(0, 20, (40, 300))
    for reduce in ("sum", "prod", "amax", "amin"):
        actual = run(lambda x, i, v, r=reduce: x.scatter_reduce(0, i, v, r), x, index, values)
        exact = x.double().scatter_reduce(0, index, values.double(), reduce)
        torch.testing.assert_close(actual, exact.to(dtype), equal_nan=True)
        assert torch.equal(actual[20:].view(torch.int16), x[20:].view(torch.int16))
    rows, columns = torch.randperm(40)[:, None] - 40, torch.randperm(300)[None, :130].int()
    put = torch.randn(40, 130).to(dtype)
    actual = run(lambda x, i, j, v: x.index_put((i, j), v, accumulate=True), x, rows, columns, put)
    torch.testing.assert_close(actual, x.index_put((rows, columns), put, accumulate=True), equal_nan=True)


def test_convolutions_of_no_pixels() -> None:
    """A batch of none, whose images have a border only: an empty result, as eager gives it."""
    for layer, shape in (
        (torch.nn.Conv2d(3, 4, 3, padding=2), (0, 3, 1, 0)),
        (torch.nn.Conv1d(3, 4, 3, padding=1), (0, 3, 1)),
    ):
        x = torch.randn(shape)
        assert run(layer.eval(), x).shape == layer(x).shape


@pytest.mark.parametrize("depth", (1, 31, 32, 33, 63, 511, 513, 1025))
def test_products_around_tiles(depth: int) -> None:
    """Sizes around 16 rows, 32 columns and 32 steps, which a processor with tiles of BFloat16 multiplies at a time."""
    torch.manual_seed(depth)
    for m, n in ((1, 2), (15, 31), (16, 32), (17, 33), (33, 65), (48, 96), (130, 40)):
        left, right = torch.randn(m, depth), torch.randn(depth, n)
        check_in_doubles(torch.mm, (left, right), torch.bfloat16)
        check_in_doubles(
            lambda a, b: torch.mm(a.t(), b.t()), (left.t().contiguous(), right.t().contiguous()), torch.bfloat16
        )
        check_in_doubles(F.linear, (left, right.t().contiguous(), torch.randn(n)), torch.bfloat16)


@pytest.mark.parametrize("channels", (7, 8, 9, 31, 32, 33, 40, 70))
def test_convolutions_around_tiles(channels: int) -> None:
    """Pairs of channels around the 16 planes of a tile, filters around its 16, positions around 64."""
    torch.manual_seed(channels)
    for filters in (3, 4, 15, 16, 17, 40):
        bias = torch.randn(filters)
        for width in (3, 61, 67, 130):
            check_in_doubles(
                lambda x, w, b: F.conv1d(x, w, b, padding=2, dilation=2),
                (torch.randn(2, channels, width), torch.randn(filters, channels, 3), bias),
                torch.bfloat16,
            )
        image, volume = torch.randn(1, channels, 9, 23), torch.randn(1, channels, 4, 5, 6)
        check_in_doubles(
            lambda x, w, b: F.conv2d(x, w, b, padding=(1, 0)),
            (image, torch.randn(filters, channels, 3, 2), bias),
            torch.bfloat16,
        )
        check_in_doubles(
            lambda x, w, b: F.conv3d(x, w, b, padding=1),
            (volume, torch.randn(filters, channels, 3, 3, 3), bias),
            torch.bfloat16,
        )


LENGTHS = [0, 1, 3, 16, 17, 63, 1025, 2049]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_dot(dtype):
    for size in (*LENGTHS, 9000):
        a, b = numbers((size,), dtype), numbers((size,), dtype, 1)
        expected = torch.dot(a.double(), b.double()).to(dtype) if dtype.is_floating_point else torch.dot(a, b)
        tolerance = {torch.float64: 1e-11, torch.float32: 2e-4, torch.float16: 1e-1, torch.bfloat16: 1}.get(dtype, 0)
        for call in (torch.dot, torch.vdot, torch.matmul):
            torch.testing.assert_close(run(call, a, b), expected, rtol=tolerance / 8, atol=tolerance)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_matrix_times_vector(dtype):
    for rows, columns in ((1, 1), (5, 33), (3, 1030), (0, 4), (4, 0)):
        a, b, c = numbers((rows, columns), dtype), numbers((columns,), dtype, 1), numbers((rows,), dtype, 2)
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-4, torch.float16: 1e-1, torch.bfloat16: 1}.get(dtype, 0)
        check(torch.mv, a, b, tolerance=tolerance / 8)
        check(torch.addmv, c, a, b, tolerance=tolerance / 8)
        check(lambda a, b: torch.mv(a.t(), b), a.t().contiguous(), b, tolerance=tolerance / 8)
    check(torch.trace, numbers((5, 7), dtype), tolerance=1e-2 if dtype in SMALL else 1e-6)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
def test_addr(dtype):
    column, row = numbers((5,), dtype, 1), numbers((33,), dtype, 2)
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-6}.get(dtype, 1e-14)
    for shape in ((5, 33), (33,), (5, 1), ()):
        x = numbers(shape, dtype)
        check(torch.addr, x, column, row, tolerance=tolerance)
        if dtype != torch.bool:
            check(lambda x, c, r: torch.addr(x, c, r, beta=3, alpha=-2), x, column, row, tolerance=tolerance)
    if dtype.is_floating_point:
        nan = torch.full((5, 33), float("nan"), dtype=dtype)
        check(lambda x, c, r: torch.addr(x, c, r, beta=0), nan, column, row, tolerance=tolerance)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_products_wrap(dtype: torch.dtype) -> None:
    x = integers(dtype)
    y, z = x.flip(0), x.roll(7)
    for value in (1, 3, -2, 2**40 + 1 if dtype == torch.int64 else 5):
        if value >= 0 or dtype != torch.uint8:
            check(lambda x, y, z, v=value: torch.addcmul(x, y, z, value=v), x, y, z)
    check(lambda x, y: torch.addcmul(x, x[:, None], y), x[:9], y[:9])
    for n in (0, 1, 31, 1262):
        check(torch.dot, x[:n], y[:n])
        matrix = x[: n // 2 * 2].reshape(2, -1)
        check(torch.mv, matrix, y[: matrix.shape[1]])
        check(lambda v, m, w: torch.addmv(v, m, w, beta=2, alpha=3), x[:2], matrix, y[: matrix.shape[1]])
    for rows, columns in ((6, 9), (9, 131)):
        check(torch.addr, x[: rows * columns].reshape(rows, columns), y[:rows], z[:columns])


def test_products_with_one_row():
    torch.manual_seed(0)
    for depth, columns in [(1, 1), (7, 5), (100, 33), (1025, 3)]:
        w, x = torch.randn(columns, depth, dtype=torch.float64), torch.randn(1, depth, dtype=torch.float64)
        b = torch.randn(columns, dtype=torch.float64)
        check(lambda x, w: F.linear(x, w), x, w, tolerance=1e-12)
        check(F.linear, x[0], w, b, tolerance=1e-12)
        check(torch.mm, w, x.t().contiguous(), tolerance=1e-12)
        check(torch.mm, x, w.t().contiguous(), tolerance=1e-12)
        check(lambda x, w: x @ w.t(), x, w, tolerance=1e-12)
        check(torch.addmm, b[:, None], w, x.t().contiguous(), tolerance=1e-12)
