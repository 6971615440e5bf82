"""Shapes that no tensor has, which a file may ask for: lists of a hundred sizes, more than 16 dimensions, strides that
wrap.
"""

from __future__ import annotations

import contextlib

import pytest

torch = pytest.importorskip("torch")
from ..kernel_runner import KernelError, run_kernel  # noqa: E402

ONE = torch.zeros(1)
FULL = torch.zeros([1] * 16)
MANY = [1] * 100


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten::view_copy.out", [ONE, MANY]),
        ("aten::_unsafe_view.out", [ONE, MANY]),
        ("aten::expand_copy.out", [ONE, MANY, False]),
        ("aten::repeat.out", [ONE, MANY]),
        ("aten::as_strided_copy.out", [ONE, MANY, MANY, None]),
    ],
)
@pytest.mark.parametrize("out", [ONE, FULL])
def test_lists_longer_than_any_rank(name: str, arguments: list, out: torch.Tensor) -> None:
    with pytest.raises(KernelError):
        run_kernel(name, [*arguments, out.clone()])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten::unsqueeze_copy.out", [FULL, 0]),
        ("aten::unsqueeze_copy.out", [FULL, 16]),
        ("aten::stack.out", [[FULL, FULL], 3]),
        ("aten::unfold_copy.out", [FULL, 2, 1, 1]),
        ("aten::view_as_real_copy.out", [FULL.to(torch.complex64)]),
    ],
)
def test_one_dimension_more_than_there_can_be(name: str, arguments: list) -> None:
    with pytest.raises(KernelError):
        run_kernel(name, [*arguments, FULL.clone()])


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ([3, 3], [2**62, 2**62], 0),
        ([2], [2**63 - 1], 1),
        ([2**62 + 1], [4], 0),
        ([1], [1], 2**62),
        ([0], [1], 2**62),
    ],
)
def test_windows_whose_end_wraps(size: list[int], stride: list[int], offset: int) -> None:
    x = torch.arange(9.0)
    out = torch.zeros([min(n, 3) for n in size])
    with pytest.raises(KernelError) if size != [0] else contextlib.nullcontext():
        run_kernel("aten::as_strided_copy.out", [x, size, stride, offset, out])


def test_repeats_that_do_not_fit_memory() -> None:
    for count in (2**62, 2**63 - 1):
        with pytest.raises(KernelError):
            run_kernel("aten::repeat.out", [torch.zeros(4), [count], torch.zeros(0)])


def test_views_whose_sizes_wrap() -> None:
    for size in ([2**32, 2**32], [-(2**63), 2, -1], [-(2**31), -(2**33)]):
        with pytest.raises(KernelError):
            run_kernel("aten::view_copy.out", [torch.zeros(0), size, torch.zeros(0)])


def test_ranges_whose_distance_wraps() -> None:
    least, most = -(2**63), 2**63 - 1
    for start, end, step in (
        (0, least, -1),
        (most, least, -1),
        (least, most, 1),
        (0.0, 1e308, 1e-300),
        (0.0, 1e30, 1.0),
    ):
        with pytest.raises(KernelError):
            run_kernel("aten::arange.start_out", [start, end, step, torch.zeros(3, dtype=torch.int64)])
    out = torch.zeros(2, dtype=torch.int64)
    run_kernel("aten::arange.start_out", [least, most, 2**63 - 1, torch.zeros(3, dtype=torch.int64)])
    run_kernel("aten::arange.start_out", [0, least, least, out[:1]])
    assert out[0] == 0


def test_factors_whose_square_wraps() -> None:
    x = torch.zeros(4, 2, 2)
    for factor in (2**32, 2**63 - 1):
        for name in ("aten::pixel_shuffle.out", "aten::pixel_unshuffle.out"):
            with pytest.raises(KernelError):
                run_kernel(name, [x, factor, x.clone()])
    with pytest.raises(KernelError):
        run_kernel("aten::pixel_unshuffle.out", [torch.zeros(4, 0, 0), 2**32, torch.zeros(0, 0, 0)])


def test_steps_and_edges_beyond_the_tensor() -> None:
    x = torch.arange(4.0).reshape(2, 2)
    most = 2**63 - 1
    for diagonal in (most, -(2**63)):
        for name, op in (("aten::tril.out", torch.tril), ("aten::triu.out", torch.triu)):
            out = torch.empty(2, 2)
            run_kernel(name, [x, diagonal, out])
            assert torch.equal(out, op(x, max(-9, min(9, diagonal))))
    out = torch.empty(1, 2)
    run_kernel("aten::slice_copy.Tensor_out", [x, 0, 0, 2, most, out])
    assert torch.equal(out, x[:1])
    out = torch.empty(1, 2, 2)
    run_kernel("aten::unfold_copy.out", [x, 0, 2, most, out])
    assert torch.equal(out, x.unfold(0, 2, 5))


@pytest.mark.parametrize("number", [2**62, 2**63 - 1])
def test_windows_of_pools_and_convolutions_that_wrap(number: int) -> None:
    x, out, weight = torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 3, 3)
    for kernel, stride, padding, dilation in ((2, 2, number, 1), (number, 1, number // 2, 1), (2, 2, 0, number)):
        lists = [[kernel] * 2, [stride] * 2, [padding] * 2, [dilation] * 2]
        with pytest.raises(KernelError):
            run_kernel("et::max_pool2d.out", [x, *lists, False, out], "TllllbT")
        for lists in ([[kernel] * 3, [stride] * 3, [padding] * 3, [dilation] * 3], [[2, 2], [2, 2], [0, 0], [1, 1]]):
            with pytest.raises(KernelError):
                run_kernel("et::max_pool3d.out", [x[None], *lists, False, out[None]], "TllllbT")
    for stride, padding, dilation in ((1, number, 1), (1, 1, number)):
        for transposed in (False, True):
            arguments = [x, weight, None, [stride] * 2, [padding] * 2, [dilation] * 2, transposed, [0, 0], 1, out]
            with pytest.raises(KernelError):
                run_kernel("aten::convolution.out", arguments)


def test_windows_of_unfolded_images_that_wrap() -> None:
    """Rows or columns of the output whose number is 2^64 more than there is memory for."""
    for image, kernel, padding, sizes in (
        (
            [1, 1, 1, 65540],
            [1, 1],
            [2**31 - 2**15, 2**31 - 2],
            [1, 1, 2**16],
        ),  # (2^32 - 2^16 + 1) (2^32 + 2^16) columns
        ([1, 32, 0, 1], [2**30, 2**29], [2**29, 2**28], [1, 0, 2]),  # 2^64 rows
    ):
        with pytest.raises(KernelError):
            run_kernel("aten::im2col.out", [torch.ones(image), kernel, [1], padding, [1], torch.zeros(sizes)])
    x = torch.ones(1, 1, 2**16)
    with pytest.raises(KernelError):
        run_kernel(
            "aten::col2im.out",
            [x, [1, 65540], [1, 1], [1], [2**31 - 2**15, 2**31 - 2], [1], torch.zeros(1, 1, 1, 65540)],
        )


def test_counts_and_filters_that_wrap() -> None:
    with pytest.raises(KernelError):
        run_kernel("aten::bincount.out", [torch.tensor([2**63 - 1]), None, 3, torch.zeros(3, dtype=torch.int64)])
    x = torch.ones(1, 1, 1, 100)
    for scale in (2.0**-61, 1e-320, 2.0**-5):  # a window of 2^62 + 1 elements; of more than there are numbers
        out = torch.zeros(1, 1, 1, 4)
        run_kernel("aten::_upsample_bilinear2d_aa.out", [x, [1, 4], False, None, scale, out])
    x = torch.zeros(0, 1, 1, 1, dtype=torch.uint8)
    out = torch.zeros(0, 1, 1, 2**62, dtype=torch.uint8)
    for name in ("aten::upsample_bilinear2d.out", "aten::_upsample_bilinear2d_aa.out"):
        run_kernel(name, [x, [1, 2**62], False, None, None, out])
    x, out = x.reshape(0, 1, 1), out.reshape(0, 1, 2**62)
    run_kernel("et::upsample_linear1d.vec_out", [x, [2**62], False, None, out], "TlbFT")


def test_triangles_of_more_rows_than_there_is_time_for() -> None:
    out = torch.zeros(2, 0, dtype=torch.int64)
    for rows, columns, offset in ((2**63 - 1, 0, 0), (2**63 - 1, 1, -(2**63)), (0, 2**63 - 1, 2)):
        run_kernel("aten::tril_indices.out", [rows, columns, offset, out])
        run_kernel("aten::triu_indices.out", [min(rows, 5), columns, 2**63 - 1, out])
    with pytest.raises(KernelError):
        run_kernel("aten::tril_indices.out", [2**40, 2**40, 2**40, out])
    for rows, columns, offset in ((4, 3, 0), (3, 5, 1), (3, 5, -1), (5, 2, -3), (2, 2, 9), (2, 2, -9)):
        for name, op in (
            ("aten::tril_indices.out", torch.tril_indices),
            ("aten::triu_indices.out", torch.triu_indices),
        ):
            expected = op(rows, columns, offset)
            out = torch.zeros_like(expected)
            run_kernel(name, [rows, columns, offset, out])
            assert torch.equal(out, expected), (rows, columns, offset)


def test_lists_and_sources_shorter_than_the_tensor() -> None:
    x = torch.zeros(1, 1, 4, 4, 4)
    with pytest.raises(KernelError):
        run_kernel(
            "aten::avg_pool3d.out", [x, [2, 2, 2], [1, 1], [0, 0, 0], False, True, None, torch.zeros(1, 1, 3, 3, 3)]
        )
    index = torch.zeros(3, 3, dtype=torch.int64)
    with pytest.raises(KernelError):
        run_kernel("aten::scatter_add.out", [torch.zeros(3, 3), 0, index, torch.zeros(3), torch.zeros(3, 3)])
    one = torch.zeros(())
    with pytest.raises(KernelError):
        run_kernel("aten::index_reduce.out", [one, 0, index[0], one, "mean", True, one.clone()])


def test_transforms_of_nothing() -> None:
    for shape, dims in (((2, 0), [1]), ((0, 3), [0, 1])):
        x = torch.zeros(shape, dtype=torch.complex64)
        run_kernel("aten::_fft_c2c.out", [x, dims, 0, True, x.clone()])
        out = torch.ones(*shape[:-1], shape[-1] // 2 + 1, dtype=torch.complex64)
        run_kernel("aten::_fft_r2c.out", [x.real, dims, 0, True, out])
        assert not out.any()
    x = torch.zeros(0, 2, dtype=torch.complex64)
    run_kernel("aten::_fft_c2r.out", [x, [0, 1], 0, 2, x.real.clone()])


def test_attention_of_more_rows_of_nothing_than_there_is_time_for() -> None:
    x = torch.zeros(1, 2**24, 0)
    run_kernel("et::scaled_dot_product_attention.out", [x, x, x, None, 0.0, False, None, False, x.clone()], "TTTtdbDbT")


def test_products_of_more_rows_of_nothing_than_there_is_time_for() -> None:
    x, nothing = torch.zeros(2**40, 0), torch.zeros(0, 0)
    run_kernel("aten::mm.out", [x, nothing, x.clone()])
    run_kernel("aten::addmm.out", [x, x, nothing, 1, 1, x.clone()])
    run_kernel("aten::linear.out", [x, nothing, None, x.clone()])
    run_kernel("et::linear_clamp.out", [x, nothing, None, 0, 1, x.clone()])
    batch = torch.zeros(2, 2**40, 0)
    run_kernel("aten::bmm.out", [batch, torch.zeros(2, 0, 0), batch.clone()])
    many = torch.zeros(2**40, 0, 0)
    run_kernel("aten::bmm.out", [many, many, many.clone()])


def test_running_statistics_of_fewer_channels() -> None:
    x, four, two = torch.randn(2, 4, 3), torch.zeros(4), torch.zeros(2)
    outs = [torch.zeros(2, 4, 3), four.clone(), four.clone()]
    for mean, var in ((two, four), (four, two)):
        with pytest.raises(KernelError):
            run_kernel(
                "aten::_native_batch_norm_legit.out", [x, None, None, mean.clone(), var.clone(), True, 0.1, 1e-5, *outs]
            )


@pytest.mark.parametrize("window", [2**63 - 2, 2**63 - 1])
@pytest.mark.parametrize("count", [2, 3])
def test_windows_whose_sum_wraps_around(count: int, window: int) -> None:
    outs = [torch.zeros(1, 3, count, count), torch.zeros(1, 3, count, count, dtype=torch.int64)]
    samples = torch.full((1, 3, 2), 0.5)
    with pytest.raises(KernelError, match="do not fit"):
        run_kernel(
            "aten::fractional_max_pool2d.output",
            [torch.randn(1, 3, 9, 9), [3, window], [count, count], samples, *outs],
        )


def test_windows_of_pools_whose_elements_wrap() -> None:
    """2^64 elements, most of them padding: sums of integers were divided by zero."""
    kernel, padding = [2**22, 2**21, 2**21], [2**21, 2**20, 2**20]
    for dtype in (torch.int64, torch.float32):
        x = torch.ones(1, 1, 1, 1, 1, dtype=dtype)
        with pytest.raises(KernelError, match="does not fit"):
            run_kernel("aten::avg_pool3d.out", [x, kernel, [2**30], padding, False, True, None, x.clone()])


def test_windows_of_pools_that_begin_far_outside() -> None:
    x, out = torch.arange(1000.0).reshape(1, 1, 1, 1000), torch.empty(1, 1, 1, 1001)
    lists = [[1, 2**31 - 2], [1, 1], [0, 2**30 - 1], [1, 1]]
    run_kernel("et::max_pool2d.out", [x, *lists, False, out], "TllllbT")
    assert torch.equal(out, torch.full_like(out, 999))


@pytest.mark.parametrize(("low", "high"), [(-(2**63), -(2**63)), (2**63 - 1, 2 - 2**63), (-(2**63), 2**63 - 1)])
def test_padding_whose_sum_wraps(low: int, high: int) -> None:
    x, out = torch.ones(1, 4), torch.ones(1, 4)
    for name, arguments in (
        ("aten::reflection_pad1d.out", [[low, high]]),
        ("aten::replication_pad1d.out", [[low, high]]),
        ("aten::constant_pad_nd.out", [[low, high], 1.0]),
    ):
        with pytest.raises(KernelError, match="does not fit"):
            run_kernel(name, [x, *arguments, out])
