"""Kernels of windows, pooling, padding and pairs at the edges of what they take, beside the plain ones.

One channel, one pixel, no image at all, channels around the vectors, borders wider than the filter, strides longer
than it, taps that are apart, groups of a few channels. Every kernel of an operator gets each call, as a load and two
calls give it, some also smaller images than at load. Results are compared; builds with sanitizers (make sanitize) see
what is read and written beside a tensor. ET_INSTRUCTION_SET holds the vector kernels to one (AVX2, SSE4).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from ..kernel_runner import KernelError, kernel_count, prepare_and_run, run_kernel  # noqa: E402
from ..own_calls import LETTERS  # noqa: E402

torch.set_num_threads(1)

INVALID_ARGUMENT, NOT_SUPPORTED = 0x12, 0x10
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
CONVOLUTION, CLAMPED, QUANTIZED = "aten::convolution.out", "et::convolution_clamp.out", "et::quantized_convolution.out"


def random(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    ends = torch.iinfo(dtype)
    return torch.randint(max(ends.min, -1000), min(ends.max, 1000), shape).to(dtype)


def innermost(x: torch.Tensor) -> torch.Tensor:
    """The channels lie innermost."""
    return x.to(memory_format=LAST[x.dim()]) if x.dim() in LAST else x


def outcome(name: str, place: int | None, arguments: list[Any], constant: set[int], called: list[Any] | None) -> int:
    """The error of a kernel, 0 for none; place None: the portable or quantized one, of `called` alone."""
    try:
        if place is None:
            run_kernel(name, called, LETTERS[name])
        else:
            prepare_and_run(name, place, arguments, LETTERS[name], constant, called)
    except KernelError as error:
        return error.code
    return 0


def check(
    name: str, arguments: list[Any], variable: set[int], called: list[Any] | None = None, tolerance: float = 0.0
) -> int:
    """Compares all kernels with the last one; returns how many took the call.

    Args:
        name: The kernels' name.
        arguments: What a load gives; the last one is the output.
        variable: Places of the arguments, beside the output, that are no constants of the program.
        called: What the first call gives, where it is something else: a kernel may refuse that.
        tolerance: Relative to the largest finite result.
    """
    constant = set(range(len(arguments) - 1)) - variable
    given = arguments if called is None else called
    out = given[-1]
    out.fill_(113)
    refusal = outcome(name, None, arguments, constant, given)
    expected = out.clone()
    largest = float(expected.nan_to_num(0, 0, 0).abs().max()) if expected.numel() else 0.0
    taken = 0
    for place in range(kernel_count(name) - 1):
        out.fill_(99)
        code = outcome(name, place, arguments, constant, called)
        if code == NOT_SUPPORTED:
            continue
        refused = called is not None and code == INVALID_ARGUMENT
        assert refused or (code == 0) == (refusal == 0), f"kernel {place}: error {code:#x}, the last one's {refusal:#x}"
        if code != 0:
            continue
        taken += 1
        torch.testing.assert_close(
            out, expected, rtol=0, atol=tolerance * max(1.0, largest), equal_nan=True, msg=lambda m,
            p=place: f"kernel {p}: {m}"
        )  # fmt: skip
    return taken


def extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return max(0, (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1)


# kernel, stride, padding, dilation
WINDOWS_2D = [
    ((1, 1), (1, 1), (0, 0), (1, 1)),
    ((1, 1), (3, 2), (0, 0), (1, 1)),
    ((3, 3), (1, 1), (1, 1), (1, 1)),
    ((3, 3), (2, 2), (0, 1), (1, 1)),
    ((2, 5), (1, 7), (1, 2), (1, 1)),  # a stride longer than the filter
    ((3, 2), (4, 5), (5, 6), (1, 1)),  # a border wider than the filter
    ((3, 3), (1, 2), (2, 4), (2, 3)),
    ((5, 5), (1, 1), (2, 2), (1, 1)),
    ((7, 7), (2, 2), (3, 3), (1, 1)),
    ((1, 4), (1, 1), (0, 3), (1, 2)),
]
IMAGES = [(1, 1), (1, 9), (8, 1), (3, 3), (5, 8), (13, 17)]
# groups, channels of a group, filters of a group
CHANNELS = [(1, 1, 1), (1, 3, 8), (1, 5, 17), (1, 16, 33), (3, 5, 1), (2, 3, 5), (5, 3, 4), (4, 4, 9), (2, 7, 33)]
DEPTHWISE = [2, 3, 7, 8, 15, 17, 33, 64, 67]


def convolutions(
    windows: list[tuple], images: list[tuple[int, ...]], channels: list[tuple[int, int, int]]
) -> Iterator[tuple]:
    """Shapes of images, filters and results, and the lists of numbers."""
    for (kernel, stride, padding, dilation), image, (groups, inputs, outputs) in itertools.product(
        windows, images, channels
    ):
        batch = 2 if len(image) == 2 else 1
        size = [extent(*numbers) for numbers in zip(image, kernel, stride, padding, dilation)]
        if 0 in size:
            continue
        filters = (groups * outputs, inputs, *kernel)
        numbers = [list(stride), list(padding), list(dilation), False, [0] * len(image), groups]
        yield (batch, groups * inputs, *image), filters, (batch, groups * outputs, *size), numbers


def check_convolutions(cases: Iterator[tuple], name: str = CONVOLUTION) -> int:
    taken = 0
    for image, filters, result, numbers in cases:
        x, w, out = innermost(random(image)), random(filters), innermost(torch.empty(result))
        limits = [-1.0, None] if name == CLAMPED else []
        bias = random((filters[0],)) if filters[0] % 2 else None
        taken += check(name, [x, w, bias, *numbers, *limits, out], {0}, tolerance=2e-6)
        if name == CLAMPED:
            taken += check(name, [x, innermost(w), bias, *numbers, *limits, out], {0}, tolerance=2e-6)
    return taken


@pytest.mark.parametrize("window", range(len(WINDOWS_2D)))
def test_convolutions(window: int) -> None:
    torch.manual_seed(window)
    windows = WINDOWS_2D[window : window + 1]
    assert check_convolutions(convolutions(windows, IMAGES, CHANNELS)) > 0
    assert check_convolutions(convolutions(windows, IMAGES[-2:], CHANNELS[2:]), CLAMPED) > 0


@pytest.mark.parametrize("window", range(len(WINDOWS_2D)))
def test_depthwise_convolutions(window: int) -> None:
    torch.manual_seed(window)
    channels = [(c, 1, 1) for c in DEPTHWISE]
    assert check_convolutions(convolutions(WINDOWS_2D[window : window + 1], IMAGES, channels)) > 0


WINDOWS_3D = [
    ((1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    ((1, 3, 3), (1, 1, 2), (0, 1, 1), (1, 1, 1)),
    ((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((2, 1, 3), (3, 2, 1), (1, 0, 4), (1, 1, 1)),
    ((3, 2, 2), (2, 1, 1), (4, 1, 1), (2, 1, 2)),
]
VOLUMES = [(1, 1, 1), (1, 4, 5), (6, 1, 3), (5, 7, 6)]
CHANNELS_3D = [(1, 1, 3), (1, 3, 8), (1, 5, 33), (2, 3, 32), (3, 5, 5), (4, 1, 1)]


@pytest.mark.parametrize("window", range(len(WINDOWS_3D)))
def test_volumes(window: int) -> None:
    torch.manual_seed(window)
    windows = WINDOWS_3D[window : window + 1]
    assert check_convolutions(convolutions(windows, VOLUMES, CHANNELS_3D)) > 0
    plain = list(convolutions(windows, VOLUMES, CHANNELS_3D))
    taken = 0
    for image, filters, result, numbers in plain:  # row-major
        x, w, out = random(image), random(filters), torch.empty(result)
        taken += check(CONVOLUTION, [x, w, None, *numbers, out], {0}, tolerance=2e-6)
    assert taken > 0


def check_quantized(cases: Iterator[tuple]) -> int:
    taken = 0
    for image, filters, result, numbers in cases:
        x, w = innermost(random(image, torch.int8)), random(filters, torch.int8)
        out = innermost(torch.empty(result, dtype=torch.int8))
        scales = torch.rand(filters[0]) * 0.01 + 0.001
        bias = torch.randint(-3000, 3000, (filters[0],), dtype=torch.int32) if filters[0] % 2 else None
        for zero_point in (-128, 7):
            rest = [w, scales, bias, *numbers, 0.3, -3, -128, 120, out]
            taken += check(QUANTIZED, [x, 0.02, zero_point, *rest], {0})
    return taken


@pytest.mark.parametrize("window", range(len(WINDOWS_2D)))
def test_quantized_convolutions(window: int) -> None:
    torch.manual_seed(window)
    windows = WINDOWS_2D[window : window + 1]
    assert check_quantized(convolutions(windows, IMAGES, CHANNELS)) > 0
    assert check_quantized(convolutions(windows, IMAGES, [(c, 1, 1) for c in (*DEPTHWISE, 130)])) > 0


@pytest.mark.parametrize("window", range(len(WINDOWS_3D)))
def test_quantized_volumes(window: int) -> None:
    torch.manual_seed(window)
    assert check_quantized(convolutions(WINDOWS_3D[window : window + 1], VOLUMES, CHANNELS_3D)) > 0


def convolution_call(weight: torch.Tensor, image: tuple[int, int, int], window: tuple, groups: int) -> list[Any]:
    """Of images [batch, rows, columns] with as many channels as the filter is for."""
    batch, *size = image
    kernel, stride, padding, dilation = window
    extents = [extent(*numbers) for numbers in zip(size, kernel, stride, padding, dilation)]
    x = innermost(random((batch, groups * weight.shape[1], *size), weight.dtype))
    out = innermost(torch.empty((batch, len(weight), *extents), dtype=weight.dtype))
    numbers = [list(stride), list(padding), list(dilation), False, [0, 0], groups]
    if weight.dtype == torch.int8:
        return [x, 0.02, 7, weight, torch.full((1,), 0.004), None, *numbers, 0.3, -3, -128, 120, out]
    return [x, weight, None, *numbers, out]


@pytest.mark.parametrize(("name", "dtype"), [(CONVOLUTION, torch.float32), (QUANTIZED, torch.int8)])
def test_images_that_become_smaller(name: str, dtype: torch.dtype) -> None:
    """A kernel is prepared for bounds: images of one pixel, of no rows, of no columns, batches of none follow."""
    torch.manual_seed(0)
    taken = 0
    for (groups, inputs, outputs), window in itertools.product([*CHANNELS, (8, 1, 1), (17, 1, 1)], WINDOWS_2D):
        weight = random((groups * outputs, inputs, *window[0]), dtype)
        loaded = convolution_call(weight, (2, 13, 17), window, groups)
        for image in ((1, 13, 5), (2, 1, 1), (1, 0, 17), (1, 13, 0), (2, 0, 0), (0, 13, 17)):
            called = convolution_call(weight, image, window, groups)
            if 0 not in called[-1].shape[2:]:
                tolerance = 2e-6 if dtype.is_floating_point else 0
                taken += check(name, loaded, {0}, called, tolerance)
    assert taken > 0


# kernel, stride, padding, dilation
POOLS = [
    ((1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 2), (2, 2), (0, 0), (1, 1)),
    ((3, 3), (2, 2), (1, 1), (1, 1)),
    ((3, 2), (5, 4), (1, 1), (1, 1)),
    ((1, 7), (1, 1), (0, 3), (1, 1)),
    ((9, 9), (1, 1), (4, 4), (1, 1)),
    ((2, 3), (1, 2), (1, 1), (3, 2)),
]
POOLED = [1, 3, 7, 8, 9, 17, 33, 65]


def pooled_sizes(image: tuple[int, ...], window: tuple, ceil_mode: bool) -> list[int]:
    sizes = []
    for size, kernel, stride, padding, dilation in zip(image, *window):
        room = size + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil_mode else 0)
        out = room // stride + 1 if room >= 0 else 0
        sizes.append(out - 1 if ceil_mode and (out - 1) * stride >= size + padding else out)
    return sizes


def pools(images: list[tuple[int, ...]], windows: list[tuple], channels: list[int]) -> Iterator[tuple]:
    for image, window, count, ceil_mode in itertools.product(images, windows, channels, (False, True)):
        sizes = pooled_sizes(image, window, ceil_mode)
        if min(sizes) > 0:
            yield (2, count, *image), [list(numbers) for numbers in window], ceil_mode, (2, count, *sizes)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int8, torch.uint8, torch.int64])
def test_pools(dtype: torch.dtype, last: bool) -> None:
    torch.manual_seed(0)
    order = innermost if last else torch.Tensor.contiguous
    taken = 0
    for image, window, ceil_mode, result in pools(IMAGES, POOLS, POOLED if last else [1, 5]):
        x, out = order(random(image, dtype)), order(torch.empty(result, dtype=dtype))
        taken += check("et::max_pool2d.out", [x, *window, ceil_mode, out], {0})
        if not dtype.is_floating_point or window[3] != [1, 1]:
            continue
        tolerance = 2e-3 if dtype == torch.float16 else 1e-6
        for counts, divisor in ((True, None), (False, None), (True, 5)):
            arguments = [x, *window[:3], ceil_mode, counts, divisor, out]
            taken += check("aten::avg_pool2d.out", arguments, {0}, tolerance=tolerance)
    assert taken > 0 or (last and dtype in (torch.float16, torch.float64, torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int64])
def test_pools_of_volumes(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    windows = [
        tuple((first, *numbers) for first, numbers in zip(of_planes, window))
        for of_planes in ((1, 1, 0, 1), (3, 2, 1, 1), (2, 3, 1, 1))
        for window in POOLS[:5]
    ]
    taken = 0
    for image, window, ceil_mode, result in pools(VOLUMES, windows, [1, 3]):
        x, out = random(image, dtype), torch.empty(result, dtype=dtype)
        taken += check("et::max_pool3d.out", [x, *window, ceil_mode, out], {0})
        if dtype.is_floating_point:
            tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-6
            for counts in (True, False):
                arguments = [x, *window[:3], ceil_mode, counts, None, out]
                taken += check("aten::avg_pool3d.out", arguments, {0}, tolerance=tolerance)
    assert taken > 0


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_quantized_pools(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    low, high = (-128, 120) if dtype == torch.int8 else (0, 240)
    numbers = [0.03, 9, low, high]
    taken = 0
    for image, window, ceil_mode, result in pools(IMAGES, [w for w in POOLS if w[3] == (1, 1)], POOLED):
        x, out = innermost(random(image, dtype)), innermost(torch.empty(result, dtype=dtype))
        for counts, divisor in ((True, None), (False, None), (True, -3)):
            arguments = [x, 0.05, 3, *window[:3], ceil_mode, counts, divisor, *numbers, out]
            taken += check("et::quantized_avg_pool2d.out", arguments, {0})
    for image, channels in itertools.product(IMAGES, POOLED):
        x = innermost(random((2, channels, *image), dtype))
        out = torch.empty((2, channels), dtype=dtype)
        taken += check("et::quantized_mean.out", [x, 0.05, 3, [2, 3], False, *numbers, out], {0})
        for size in ([1, 1], [2, 3], [20, 1]):
            out = innermost(torch.empty((2, channels, *size), dtype=dtype))
            taken += check("et::quantized_adaptive_avg_pool2d.out", [x, 0.05, 3, size, *numbers, out], {0})
    assert taken > 0


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64, torch.complex128])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_padding(spatial: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    taken = 0
    for image, batch in itertools.product(((1,), (2,), (7,), (33,)), (False, True)):
        sizes = (image * 3)[:spatial]
        shape = (2, 3, *sizes) if batch else (3, *sizes)
        x = random(shape, torch.float32).to(dtype)
        for low, high in ((0, 0), (1, 0), (0, 6), (5, 5), (40, 1)):
            padding = [low, high] * spatial
            out = torch.empty((*shape[: -spatial or None], *(n + low + high for n in sizes)), dtype=dtype)
            for kind in ("reflection", "replication"):
                if kind == "replication" or max(low, high) < image[0]:
                    taken += check(f"aten::{kind}_pad{spatial}d.out", [x, padding, out], {0})
    assert taken > 0


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64]
)
def test_divisions(dtype: torch.dtype) -> None:
    """Also the smallest number by -1, which has no quotient of its type."""
    torch.manual_seed(0)
    taken = 0
    for n in (0, 1, 3, 15, 17, 63, 65, 257):
        for b_shape in ((n,), (1,), (2, n), (2, 1)):
            a, b = random((2, n), dtype), random(b_shape, dtype)
            b = torch.where(b == 0, 1, b)
            if not dtype.is_floating_point and n > 1:
                a[0, :2] = torch.iinfo(dtype).min
                b.view(-1)[0] = -1 if torch.iinfo(dtype).min < 0 else 1
            out = torch.empty((2, n), dtype=dtype)
            for name, mode in (
                ("aten::div.out_mode", ["floor"]), ("aten::div.out_mode", ["trunc"]), ("aten::floor_divide.out", []),
                ("aten::remainder.Tensor_out", []), ("aten::fmod.Tensor_out", []),
            ):  # fmt: skip
                taken += check(name, [a, b, *mode, out], {0, 1}, tolerance=1e-6 if dtype.is_floating_point else 0)
        for number in (3, -1, 200):
            number = abs(number) % 128 if dtype == torch.uint8 else number % 128 if number > 0 else number
            for name, mode in (
                ("aten::div.Scalar_mode_out", ["floor"]), ("aten::div.Scalar_mode_out", ["trunc"]),
                ("aten::floor_divide.Scalar_out", []), ("aten::remainder.Scalar_out", []),
                ("aten::fmod.Scalar_out", []),
            ):  # fmt: skip
                taken += check(name, [a, number, *mode, out], {0}, tolerance=1e-6 if dtype.is_floating_point else 0)
    assert taken > 0


PAIRS = ["aten::atan2.out", "aten::copysign.out", "aten::hypot.out", "aten::logaddexp.out", "aten::xlogy.OutTensor",
         "aten::pow.Tensor_Tensor_out", "et::prelu.out"]  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    torch.manual_seed(0)
    taken = 0
    for dtype, tolerance in (
        (torch.float32, 1e-6),
        (torch.float64, 1e-12),
        (torch.float16, 2e-3),
        (torch.bfloat16, 2e-2),
    ):
        for n in (0, 1, 3, 7, 15, 17, 33, 513):
            for shapes in (((3, n), (3, n)), ((3, n), (n,)), ((3, n), (3, 1)), ((1,), (3, n))):
                a, b = ((torch.rand(shape) + 0.5).to(dtype) for shape in shapes)
                taken += check(name, [a, b, torch.empty((3, n), dtype=dtype)], {0, 1}, tolerance=tolerance)
    assert taken > 0


GRIDS = [(1, 1), (1, 9), (3, 7), (8, 8), (5, 64), (19, 33)]  # points
NO_PLACES = [float("nan"), float("inf"), -float("inf"), 1e30, -1e20, 1e9, -0.0]


def sprinkle(x: torch.Tensor, step: int, values: list[float]) -> None:
    """One in `step` elements becomes one of `values`, in turn."""
    some = x.view(-1)[::step]
    some[:] = torch.tensor(values)[torch.arange(some.numel()) % len(values)]


def special_grid(shape: tuple[int, ...], kind: str, size: int) -> torch.Tensor:
    """Places inside and around an image, far from it, exactly between two pixels, or that are none."""
    if kind == "between":
        return (torch.randint(-2 * size, 2 * size, shape).float() + 1) / size
    grid = {"near": 0.6, "around": 2.0, "far": 1e6, "none": 1.0}[kind] * torch.randn(shape)
    if kind == "none":
        sprinkle(grid, 3, NO_PLACES)
    return grid


@pytest.mark.parametrize("kind", ["near", "around", "far", "between", "none"])
@pytest.mark.parametrize("channels", [1, 3, 4, 7, 64, 130])
def test_grid_samples(channels: int, kind: str) -> None:
    """What is nearest, and what is outside, is the same in each kernel. Outside are zeros, beside NaN too."""
    torch.manual_seed(channels)
    taken = 0
    for (height, width), (rows, columns) in itertools.product(IMAGES, GRIDS):
        x, grid = random((2, channels, height, width)), special_grid((2, rows, columns, 2), kind, width)
        if kind == "none":
            sprinkle(x, 5, NO_PLACES[:3])
        for mode, padding, aligned in itertools.product((0, 1), (0, 1, 2), (False, True)):
            arguments = [x, grid, mode, padding, aligned, torch.empty(2, channels, rows, columns)]
            taken += check("aten::grid_sampler_2d.out", arguments, {0, 1}, tolerance=0 if mode else 2e-6)
    assert taken == len(IMAGES) * len(GRIDS) * 12
    bicubic = [x, grid, 2, 0, False, torch.empty(2, channels, rows, columns)]
    assert check("aten::grid_sampler_2d.out", bicubic, {0, 1}) == 0  # the plain kernel's


def test_grids_that_change_after_load() -> None:
    for size, points in [
        ((2, 70, 9, 5), (3, 4)),
        ((1, 6, 2, 3), (8, 8)),
        ((1, 2, 1, 1), (1, 1)),
        ((0, 3, 4, 4), (2, 2)),
    ]:
        arguments = [random((3, 70, 12, 12)), random((3, 8, 8, 2)), 0, 1, True, torch.empty(3, 70, 8, 8)]
        called = [random(size), random((size[0], *points, 2)), 0, 1, True, torch.empty(*size[:2], *points)]
        assert check("aten::grid_sampler_2d.out", arguments, {0, 1}, called, tolerance=2e-6) == 1
