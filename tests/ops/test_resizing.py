"""Resizing to the nearest element and along lines, through the whole runtime against eager. The cases are every element
type, sizes that grow and shrink, factors beside sizes, channels-last images, lines with values that are no numbers, and
numbers of damaged files."""

import random

import pytest
import torch
from torch.nn import functional as F

import executorch_py as et

from .kernel_runner import KernelError, run_kernel
from .whole_runtime import check

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = {1: (2, 3, 37), 2: (2, 3, 9, 14), 3: (1, 2, 5, 7, 6)}
FACTORS = [1.0, 2.0, 3.0, 0.5, 1.7, 0.6, 2.3]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8])
@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_to_the_nearest(mode, rank, dtype):
    x = (torch.rand(SHAPES[rank]) * 99).to(dtype)
    for options in [
        *({"scale_factor": factor} for factor in FACTORS),
        {"size": 1},
        {"size": 5},
        {"size": 40},
        {"scale_factor": 1.3, "recompute_scale_factor": True},
    ]:
        check(lambda x, o=options: F.interpolate(x, mode=mode, **o), x)
        if rank == 2:
            check(lambda x, o=options: F.interpolate(x, mode=mode, **o), x.to(memory_format=torch.channels_last))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("size", [(2, 3, 9), (2, 3, 9, 3), (1, 2, 4, 9, 5)])
@pytest.mark.parametrize("factor", [1.07, 1.1, 2.03, 2.1])
def test_factors_that_keep_or_double_a_size(factor, size, dtype):
    """Eager copies elements of such dimensions and forgets the factor."""
    x = (torch.rand(size) * 99).to(dtype)
    rank = len(size) - 2
    modes = ["nearest", "nearest-exact"]
    if dtype != torch.uint8:
        modes.append(["linear", "bilinear", "trilinear"][rank - 1])
    elif rank == 2:
        modes += ["bilinear", "bicubic"]
    for mode in modes:
        tolerance = 0.0 if "nearest" in mode or dtype == torch.uint8 else 2e-2 if dtype == torch.bfloat16 else 2e-5
        for factors in [factor, (1.6, *[factor] * (rank - 1)), (*[factor] * (rank - 1), 0.7)]:
            check(lambda x, m=mode, f=factors: F.interpolate(x, scale_factor=f, mode=m), x, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_positions_of_the_nearest(dtype):
    """Those of eager for all pairs of small sizes: rounding decides where a position falls on a border."""
    for size in (3, 10, 24, 49, 100):
        line = torch.arange(size, dtype=dtype).reshape(1, 1, size)

        def all_sizes(x, mode):
            return torch.cat([F.interpolate(x, n, mode=mode) for n in range(1, 60)], 2)

        for mode in ("nearest", "nearest-exact"):
            check(lambda x, m=mode: all_sizes(x, m), line)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("align_corners", [False, True])
def test_lines(align_corners, dtype):
    torch.manual_seed(0)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for shape in [(2, 3, 37), (1, 1, 1), (3, 1, 130)]:
        x = torch.randn(shape).to(dtype)
        for options in [*({"scale_factor": factor} for factor in FACTORS if shape[2] > 1), {"size": 1}, {"size": 67}]:
            call = lambda x, o=options: F.interpolate(x, mode="linear", align_corners=align_corners, **o)  # noqa: E731
            check(call, x, tolerance=tolerance)


def test_lines_of_no_numbers():
    x = torch.randn(1, 2, 33)
    x[0, 0, ::5] = torch.tensor([float("nan"), float("inf"), -float("inf")]).repeat(3)[:7]
    for options in [{"scale_factor": 2}, {"size": 33}, {"size": 11}, {"size": 65, "align_corners": True}]:
        check(lambda x, o=options: F.interpolate(x, mode="linear", **o), x, tolerance=1e-5)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(2, 3, 9, 14), (1, 1, 40, 33), (1, 4, 1, 70), (3, 3, 17, 1), (1, 3, 130, 140)])
def test_images_of_bytes(shape, mode, align_corners):
    """Equal to eager's fixed-point arithmetic, in either layout, with dark and bright edges that cubic weights
    overshoot.
    """
    torch.manual_seed(0)
    x = torch.randint(256, shape, dtype=torch.uint8)
    x[..., : shape[-1] // 2] = x[..., : shape[-1] // 2] // 128 * 255
    for options in [
        *({"scale_factor": factor} for factor in FACTORS if min(shape[2:]) > 1),
        {"size": (1, 2)},  # one pixel of three channels is an internal error of eager's
        {"size": (23, 5)},
        {"size": (shape[2], 50)},
        {"size": (50, shape[3])},
        {"size": (300, 2)},
    ]:
        call = lambda x, o=options: F.interpolate(x, mode=mode, align_corners=align_corners, **o)  # noqa: E731
        check(call, x)
        check(call, x.to(memory_format=torch.channels_last))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_images_of_bytes_on_threads(threads):
    x = torch.randint(256, (5, 3, 41, 67), dtype=torch.uint8)
    et.set_num_threads(threads)
    try:
        for layout in (torch.contiguous_format, torch.channels_last):
            check(lambda x: F.interpolate(x, size=(300, 255), mode="bicubic"), x.to(memory_format=layout))
    finally:
        et.set_num_threads(0)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("et::upsample_nearest1d.vec_out", []),
        ("et::_upsample_nearest_exact1d.vec_out", []),
        ("et::upsample_linear1d.vec_out", [False]),
    ],
)
def test_damaged_factors(name, flags):
    x, y = torch.randn(1, 1, 8), torch.empty(1, 1, 16)
    letters = "TLbFT" if flags else "TLFT"
    for factors in ([], [2.0, 2.0], [float("nan")], [-2.0], [1e300], [1e-320]):
        for size in ([16], None):
            try:
                run_kernel(name, [x, size, *flags, factors, y], letters)
            except KernelError:
                continue
            assert bool(torch.isfinite(y).all()), (factors, size)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_smoothed_images_of_bytes(channels, align_corners):
    """ATen's weights in fixed point: equal byte for byte."""
    torch.manual_seed(channels)
    for size, target in [((17, 23), (5, 7)), ((17, 23), (40, 50)), ((9, 4), (3, 2)), ((3, 31), (17, 2))]:
        x = torch.randint(0, 256, (2, channels, *size), dtype=torch.uint8)
        expected = torch.ops.aten._upsample_bilinear2d_aa(x, target, align_corners, None, None)
        out = torch.empty_like(expected)
        run_kernel("aten::_upsample_bilinear2d_aa.out", [x, list(target), align_corners, None, None, out])
        assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_volumes_of_16_bit_floats_round_once(dtype):
    torch.manual_seed(0)
    for size in [(1, 3, 9), (7, 2, 5), (6, 12, 1)]:
        x = (4 * torch.randn(2, 3, 4, 5, 6)).to(dtype)
        for align_corners in (False, True):
            exact = F.interpolate(x.double(), size, mode="trilinear", align_corners=align_corners)
            out = torch.empty(exact.shape, dtype=dtype)
            run_kernel("et::upsample_trilinear3d.vec_out", [x, list(size), align_corners, None, out])
            error = (out.double() - exact).abs().max() / exact.abs().max()
            assert error < torch.finfo(dtype).eps / 2


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_a_weight_of_zero_keeps_what_is_no_number(mode):
    name = {"bilinear": "aten", "bicubic": "et"}[mode] + f"::upsample_{mode}2d.vec_out"
    x = torch.tensor([[[[float("nan"), 1.0, 4.0], [2.0, 3.0, 5.0]]]])
    for size in [(2, 5), (2, 3), (4, 6)]:
        expected = F.interpolate(x, size, mode=mode)
        out = torch.empty_like(expected)
        run_kernel(name, [x, list(size), False, None, out])
        assert torch.equal(out.isnan(), expected.isnan())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e20])
def test_samples_at_places_that_are_no_numbers(value):
    x, grid = torch.arange(1.0, 7).view(1, 1, 2, 3), torch.zeros(1, 1, 20, 2)
    grid[..., 0] = value
    for mode, padding in [(m, p) for m in (0, 1, 2) for p in (0, 1, 2)]:
        expected = torch.ops.aten.grid_sampler_2d(x, grid, mode, padding, False)
        out = torch.empty_like(expected)
        run_kernel("aten::grid_sampler_2d.out", [x, grid, mode, padding, False, out])
        torch.testing.assert_close(out, expected, equal_nan=True)


#: Operator -> its spatial dimensions, whether it has align_corners.
SIZED = {
    **{
        f"{kind}{rank}d": (rank, False)
        for kind in ("upsample_nearest", "_upsample_nearest_exact")
        for rank in (1, 2, 3)
    },
    **{"upsample_linear1d": (1, True), "upsample_bilinear2d": (2, True), "upsample_trilinear3d": (3, True)},
    **{"upsample_bicubic2d": (2, True), "_upsample_bilinear2d_aa": (2, True)},
    **{"_upsample_bicubic2d_aa": (2, True), "_upsample_lanczos2d_aa": (2, True)},
}


def _scale(draw: random.Random, size: int, resized: int, smoothed: bool) -> float | None:
    """A factor, which may contradict the sizes. Eager reads past an image where a smoothing window lies behind it."""
    scale = draw.choice([None, 0.5, 1.0, 2.0, draw.uniform(0.2, 5), resized / size])
    return scale if scale is None or not smoothed else max(scale, resized / size)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8])
@pytest.mark.parametrize("name", SIZED)
def test_sizes_beside_scales_that_say_something_else(name, dtype):
    """`aten.upsample_*.default` take both: sizes say how long a result is, scales where its elements are read."""
    operator, (rank, aligns) = getattr(torch.ops.aten, name).default, SIZED[name]
    smoothed = name.endswith("_aa")
    if dtype == torch.uint8 and name.startswith(("upsample_linear", "upsample_tri")):
        pytest.skip("eager has no such kernel for bytes")
    if dtype.itemsize == 2 and smoothed:
        pytest.skip("eager has no such kernel for 16-bit floats")
    draw = random.Random(f"{name} {dtype}")
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}.get(dtype, 0.0)
    for _ in range(25):
        sizes = [draw.randint(1 + smoothed, 9) for _ in range(rank)]  # eager's smoothing mixes up images of one column
        resized = [draw.choice([size, 2 * size, draw.randint(2, 19)]) for size in sizes]
        scales = [_scale(draw, size, length, smoothed) for size, length in zip(sizes, resized, strict=True)]
        flags = [draw.random() < 0.5] if aligns else []
        x = torch.rand(2, 3, *sizes)
        x = (255 * x if dtype == torch.uint8 else x).to(dtype)
        check(lambda x, a=(resized, *flags, *scales): operator(x, *a), x, tolerance=tolerance)
