"""Kernels that take whole rows at a time, through the whole runtime against eager. They are fills, reversals, running
products, dot products, reductions of integers, casts of 16-bit floats and to complex numbers, sums with products and
quotients. Sizes
around a vector's and a piece's, strides, channels-last images, empty tensors, NaN, infinities, sums and products that wrap."""

import sys
from pathlib import Path

import pytest
import torch

import executorch_py as et

sys.path.insert(0, str(Path(__file__).resolve().parent))
from whole_runtime import check, run

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
SMALL = [torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 6e-8, 65520.0, 3.4e38]
SIZES = [0, 1, 3, 16, 17, 63, 1025, 2049]


def _numbers(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, shape, dtype=dtype, generator=generator)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_fills_and_expansions(dtype):
    for size in SIZES:
        check(lambda x: torch.full_like(x, 1), _numbers((size,), dtype))
    column = _numbers((5, 1, 1), dtype)
    check(lambda x: x.expand(5, 7, 301), column)
    check(lambda x, y: x.expand_as(y), column, _numbers((5, 3, 2), dtype))  # an input of which only the shape counts
    check(lambda x: x.expand(5, 7, 3), _numbers((7, 1), dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_flips(dtype):
    for size in SIZES[1:]:
        x = _numbers((3, 2, size), dtype)
        for dims in ([2], [0, 2], [0, 1, 2], [1], []):
            check(lambda x, dims=dims: torch.flip(x, dims), x)
    image = _numbers((2, 3, 5, 17), dtype).contiguous(memory_format=torch.channels_last)
    check(lambda x: torch.flip(x, [1, 3]), image)
    check(lambda x: torch.flip(x, [0]), _numbers((0, 4), dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_quarter_turns(dtype):
    for shape in ((37, 70), (3, 40, 5), (2, 33, 1), (1, 1), (0, 3)):
        x = (torch.arange(torch.Size(shape).numel()) % 251).reshape(shape).to(dtype)
        for turns in (1, 2, 3, 0, -1, 6):
            check(lambda x, k=turns: torch.rot90(x, k), x)
            check(lambda x, k=turns: torch.rot90(x, k, (-1, 0)), x)
            check(lambda x, k=turns: torch.rot90(x, k, (-2, -1)), x)
    check(lambda x: torch.rot90(x, 1, (1, 3)), torch.randn(2, 5, 3, 17).to(memory_format=torch.channels_last))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_shuffled_channels(dtype):
    for shape in ((2, 12, 5, 7), (1, 6, 33), (2, 4, 1, 3, 2), (0, 6, 3)):
        x = (torch.arange(torch.Size(shape).numel()) % 251).reshape(shape).to(dtype)
        for groups in (1, 2, shape[1]):
            check(lambda x, g=groups: torch.channel_shuffle(x, g), x)
    image = torch.randn(2, 6, 5, 17).to(memory_format=torch.channels_last)
    check(lambda x: torch.channel_shuffle(x, 3), image)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans(name, dtype):
    function = getattr(torch, name)
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-13, torch.float16: 2e-3, torch.bfloat16: 2e-2}
    tolerance = tolerance.get(dtype, 0.0)
    for shape in ((1,), (9,), (5, 33), (3, 7, 300), (4, 1), (2, 0, 3)):
        x = _numbers(shape, dtype)
        for dim in range(len(shape)):
            check(lambda x, dim=dim: function(x, dim), x, tolerance=tolerance)


def test_a_running_product_stays_in_range_where_parts_of_it_do_not():
    small, large = torch.full((6, 16), 1e-38), torch.full((6, 16), 1e38)
    x = torch.stack((small, large), -1).reshape(6, 32)  # 1e-38, 1, 1e-38, …
    check(lambda x: x.cumprod(1), torch.cat((x, torch.full((6, 1), 0.0), large), 1), tolerance=1e-5)
    assert run(lambda x: x.cumprod(0), torch.tensor([0.0, *[3e38] * 16])).tolist() == [0.0] * 17


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_dot(dtype):
    for size in (*SIZES, 9000):
        a, b = _numbers((size,), dtype), _numbers((size,), dtype, 1)
        expected = torch.dot(a.double(), b.double()).to(dtype) if dtype.is_floating_point else torch.dot(a, b)
        tolerance = {torch.float64: 1e-11, torch.float32: 2e-4, torch.float16: 1e-1, torch.bfloat16: 1}.get(dtype, 0)
        for call in (torch.dot, torch.vdot, torch.matmul):
            torch.testing.assert_close(run(call, a, b), expected, rtol=tolerance / 8, atol=tolerance)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_matrix_times_vector(dtype):
    for rows, columns in ((1, 1), (5, 33), (3, 1030), (0, 4), (4, 0)):
        a, b, c = _numbers((rows, columns), dtype), _numbers((columns,), dtype, 1), _numbers((rows,), dtype, 2)
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-4, torch.float16: 1e-1, torch.bfloat16: 1}.get(dtype, 0)
        check(torch.mv, a, b, tolerance=tolerance / 8)
        check(torch.addmv, c, a, b, tolerance=tolerance / 8)
        check(lambda a, b: torch.mv(a.t(), b), a.t().contiguous(), b, tolerance=tolerance / 8)
    check(torch.trace, _numbers((5, 7), dtype), tolerance=1e-2 if dtype in SMALL else 1e-6)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
def test_block_diag(dtype):
    parts = [_numbers(shape, dtype, seed) for seed, shape in enumerate([(2, 3), (4,), (), (5, 1), (0, 2)])]
    check(lambda *x: torch.block_diag(*x), *parts)
    check(lambda x: torch.block_diag(x), parts[0])
    check(lambda *x: torch.block_diag(*x), parts[0], _numbers((3, 3), torch.int32))
    check(lambda *x: torch.block_diag(*(t.mT for t in x)), parts[0], _numbers((5, 3), dtype))
    check(lambda *x: torch.block_diag(*x), _numbers((0, 2), dtype), _numbers((0,), dtype))


@pytest.mark.parametrize("accumulate", [False, True])
def test_few_elements_put(accumulate):
    x, values = _numbers((30, 40), torch.float32), _numbers((2, 5), torch.float32, 1)
    index = torch.tensor([[0, -1, 1199, -1200, 47], [600, -41, 39, 40, 41]])
    index = index if accumulate else index.remainder(1100).unique()[:8].view(2, 4)
    check(lambda x, i, v: torch.put(x, i, v, accumulate), x, index, values[:, : index.shape[1]])
    check(lambda x, i, v: torch.put(x, i, v, accumulate), x.view(2, 3, 10, 20), index, values[:, : index.shape[1]])


@pytest.mark.parametrize("dtype", FLOATS)
def test_logaddexp2(dtype):
    values = torch.tensor([*SPECIAL[:5], 1.5, -700.0, 700.0, 3.25], dtype=dtype)
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float32: 1e-6}.get(dtype, 1e-14)
    check(torch.logaddexp2, values.unsqueeze(1), values, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
def test_reductions_of_integers(dtype):
    names = ["sum", "amax", "amin"] if dtype != torch.bool else ["sum"]
    for shape in ((1,), (70,), (5, 300), (3, 4, 65), (2, 3, 4, 5)):
        x = _numbers(shape, dtype)
        for name in names:
            for dim in [*range(len(shape)), list(range(len(shape)))]:
                for keepdim in (False, True):
                    check(lambda x, n=name, d=dim, k=keepdim: getattr(torch, n)(x, dim=d, keepdim=k), x)
        check(lambda x: torch.prod(x, 0), x)
        check(torch.prod, x)
        check(torch.sum, x)
        if dtype != torch.bool:
            check(torch.max, x)
            check(torch.min, x)
    image = _numbers((2, 3, 5, 7), dtype).contiguous(memory_format=torch.channels_last)
    for dims in ([1], [2, 3], [0, 2, 3], [1, 3]):
        check(lambda x, dims=dims: x.sum(dims), image)
    check(lambda x: x.sum(1), _numbers((3, 0), dtype))
    check(lambda x: x.prod(0), _numbers((0, 3), dtype))


@pytest.mark.parametrize("dtype", SMALL)
def test_casts_of_small_floats(dtype):
    values = torch.cat((torch.tensor(SPECIAL), -torch.tensor(SPECIAL), torch.randn(1003) * 100))
    for other in (torch.float32, torch.bool, torch.int64, torch.int32, torch.float64, *SMALL):
        if other != dtype:
            from_values = values.to(dtype)
            if not other.is_floating_point and other != torch.bool:
                from_values = from_values.nan_to_num(0, 1000, -1000).clamp(-1000, 1000)
            check(lambda x, other=other: x.to(other), from_values)
            check(lambda x: x.to(dtype), values.to(other) if other.is_floating_point else (values > 0).to(other))
    image = _numbers((2, 3, 5, 7), dtype).contiguous(memory_format=torch.channels_last)
    check(lambda x: x.float(), image)
    check(lambda x: x.float().contiguous(), image)
    assert torch.equal(run(lambda x: x.to(dtype), values).isnan(), values.isnan())


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
@pytest.mark.parametrize("complex_dtype", [torch.complex64, torch.complex128])
def test_casts_to_complex_numbers(dtype, complex_dtype):
    for shape in ((0,), (), (1,), (2049,), (3, 5, 7)):
        check(lambda x: torch.view_as_real(x.to(complex_dtype)), _numbers(shape, dtype))
    if dtype.is_floating_point:
        check(lambda x: torch.view_as_real(x.to(complex_dtype)).nan_to_num(), torch.tensor(SPECIAL).to(dtype))
    check(lambda x: torch.view_as_real(x.transpose(0, 1).to(complex_dtype)), _numbers((5, 7), dtype))
    check(lambda x: torch.view_as_real(x[:, 1::2].to(complex_dtype)), _numbers((4, 9), dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_sums_with_products_and_quotients(name, dtype):
    function = getattr(torch, name)
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6}.get(dtype, 1e-14)
    for shapes in (((37,), (37,), (37,)), ((5, 33), (33,), (5, 1)), ((7, 64), (), (7, 64)), ((0, 3), (3,), (0, 3))):
        x, y, z = (_numbers(shape, dtype, seed) for seed, shape in enumerate(shapes))
        z = z.abs() + 0.5
        check(function, x, y, z, tolerance=tolerance)
        check(lambda x, y, z: function(x, y, z, value=-2.5), x, y, z, tolerance=tolerance)
    zeros = torch.tensor([0.0, 1.0, -1.0, float("nan")], dtype=dtype)
    check(function, zeros, zeros, torch.zeros(4, dtype=dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
def test_addr(dtype):
    column, row = _numbers((5,), dtype, 1), _numbers((33,), dtype, 2)
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-6}.get(dtype, 1e-14)
    for shape in ((5, 33), (33,), (5, 1), ()):
        x = _numbers(shape, dtype)
        check(torch.addr, x, column, row, tolerance=tolerance)
        if dtype != torch.bool:
            check(lambda x, c, r: torch.addr(x, c, r, beta=3, alpha=-2), x, column, row, tolerance=tolerance)
    if dtype.is_floating_point:
        nan = torch.full((5, 33), float("nan"), dtype=dtype)
        check(lambda x, c, r: torch.addr(x, c, r, beta=0), nan, column, row, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_angles(dtype):
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2}.get(dtype, 1e-6)
    check(torch.deg2rad, _numbers((5, 33), dtype), tolerance=tolerance)
    check(torch.rad2deg, _numbers((5, 33), dtype) // 7, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [*SMALL, *INTEGERS, torch.bool])
def test_pairs_of_other_types_meet_in_float(dtype):
    for shape, other in (((37,), (37,)), ((5, 33), (33,)), ((4, 1, 17), (3, 1)), ((0, 3), (3,))):
        x, y = _numbers(shape, torch.float32), _numbers(other, dtype, 1)
        for function in (torch.add, torch.sub, torch.mul, torch.div):
            if function is not torch.sub or dtype != torch.bool:
                check(function, x, y)
                check(function, y, x)
        if dtype != torch.bool:
            check(lambda x, y: torch.add(x, y, alpha=2), x, y, tolerance=1e-6)
    image = _numbers((2, 3, 5, 7), torch.float32).contiguous(memory_format=torch.channels_last)
    check(torch.mul, image, _numbers((2, 3, 5, 7), dtype))


def test_take_of_a_few_elements():
    for shape in ((5, 33), (3, 4, 17), (40,)):
        x = _numbers(shape, torch.float32)
        check(torch.take, x, torch.tensor([[0, -1], [x.numel() - 1, -x.numel()]]))
        check(torch.take, x, torch.tensor([7, -8, 33]))
        for index in (x.numel(), -x.numel() - 1):
            with pytest.raises(et.errors.ExecutorchError):
                run(torch.take, x, torch.tensor([index]).expand(2).clone())
    check(torch.take, _numbers((2, 3), torch.int64), torch.arange(-6, 6))
