"""Convolutions: by Winograd's filtering, separable blocks as one operator, integers that wrap, eight-byte elements."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import executorch_py as et

from .kernel_runner import KernelError, kernel_count, prepare_and_run
from .whole_runtime import check

# Largest |ours - exact| / largest |exact|. Direct convolution has about 5e-7 on the same networks.
LIMIT = 5e-6


def network(channels: list[int], padding: int = 1) -> nn.Module:
    torch.manual_seed(sum(channels))
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, padding=padding), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


def relative_error(actual: torch.Tensor, model: nn.Module, x: torch.Tensor) -> float:
    with torch.inference_mode():
        exact = copy.deepcopy(model).double()(x.double())
    assert actual.shape == exact.shape
    return float((actual.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize(
    ("channels", "size", "batch", "padding"),
    [
        ([16, 16, 16, 16], (33, 47), 1, 1),
        ([32, 48, 24, 5], (20, 21), 3, 0),
        ([64, 64, 64], (15, 14), 2, 2),
        ([128, 128, 128], (28, 28), 1, 1),
        ([256, 256, 256], (14, 14), 1, 1),
        ([40, 512, 512], (7, 9), 1, 1),
    ],
    ids=str,
)
def test_errors_against_float64(
    channels: list[int], size: tuple[int, int], batch: int, padding: int, threads: int
) -> None:
    model = network(channels, padding)
    x = torch.randn(batch, channels[0], *size)
    data = et.to_edge(torch.export.export(model, (x,))).to_executorch().buffer
    before = et.Runtime.get().num_threads
    et.set_num_threads(threads)
    try:
        method = et.Runtime.get().load_program(data).load_method("forward")
        for scale in (1.0, 1e-20, 1e20):
            (actual,) = method.execute((x * scale,))
            assert relative_error(actual, model, x * scale) <= LIMIT
    finally:
        et.set_num_threads(before)


def test_dynamic_sizes_between_calls() -> None:
    model = network([24, 32, 32, 16])
    batch, height, width = (torch.export.Dim(name, min=1, max=most) for name, most in (("b", 4), ("h", 50), ("w", 60)))
    exported = torch.export.export(
        model, (torch.randn(2, 24, 20, 30),), dynamic_shapes=({0: batch, 2: height, 3: width},)
    )
    method = et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer).load_method("forward")
    for shape in ((1, 50, 60), (4, 1, 1), (2, 3, 59), (1, 17, 4), (4, 50, 60), (3, 2, 2)):
        x = torch.randn(shape[0], 24, *shape[1:])
        (actual,) = method.execute((x,))
        assert relative_error(actual, model, x) <= LIMIT, shape


def test_methods_share_weights() -> None:
    model = network([32, 32, 32])
    inputs = {"small": (torch.randn(1, 32, 14, 14),), "large": (torch.randn(1, 32, 56, 56),)}
    exported = {name: torch.export.export(model, x) for name, x in inputs.items()}
    program = et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer)
    methods = {name: program.load_method(name) for name in inputs}
    for name in ("small", "large", "small"):
        (actual,) = methods[name].execute(inputs[name])
        assert relative_error(actual, model, inputs[name][0]) <= LIMIT


PASS = "fuse-separable-convolution"


class Block(nn.Module):
    """Expansion (left out for equal channels), depthwise, projection; a residual sum where sizes allow."""

    def __init__(self, before: int, inside: int, after: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        expand = [nn.Conv2d(before, inside, 1), nn.ReLU6()] if before != inside else []
        middle = nn.Conv2d(inside, inside, kernel, stride, kernel // 2, groups=inside)
        self.layers = nn.Sequential(*expand, middle, nn.ReLU6(), nn.Conv2d(inside, after, 1, bias=False))
        self.adds = before == after and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def blocks() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        Block(32, 32, 16),
        Block(16, 96, 24, stride=2),
        Block(24, 144, 24, kernel=5),
        Block(24, 144, 40, stride=2),
    ).eval()


@pytest.mark.parametrize("batch", [1, 3])
def test_equal_bits_in_less_memory(batch: int) -> None:
    model, x = blocks(), torch.randn(batch, 3, 112, 101)
    edge = et.to_edge(torch.export.export(model, (x,)))
    runtime = et.Runtime.get()
    joined = runtime.load_program(edge.to_executorch().buffer)
    alone = runtime.load_program(edge.to_executorch(et.ExecutorchBackendConfig(disabled_passes=[PASS])).buffer)
    assert joined.metadata("forward").operators().count("et::separable_convolution.out") == 1
    assert "et::separable_convolution.out" not in alone.metadata("forward").operators()
    arenas = [sum(program.metadata("forward").planned_buffer_sizes()) for program in (joined, alone)]
    assert arenas[0] < arenas[1] / 2
    before = runtime.num_threads
    try:
        for threads in (1, 2, 3):
            et.set_num_threads(threads)
            (y,), (expected,) = (program.load_method("forward").execute((x,)) for program in (joined, alone))
            assert torch.equal(y, expected)
            torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-4)
    finally:
        et.set_num_threads(before)


def test_compatible_files_keep_the_convolutions() -> None:
    edge = et.to_edge(torch.export.export(blocks(), (torch.randn(1, 3, 112, 112),)))
    data = edge.to_executorch(et.ExecutorchBackendConfig(compatible=True)).buffer
    operators = et.Runtime.get().load_program(data).metadata("forward").operators()
    assert not [name for name in operators if name.startswith("et::")]


NOT_SUPPORTED = 0x10  # et::Error


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def _some(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Numbers whose products do not fit their type."""
    ends = torch.iinfo(dtype)
    return torch.randint(ends.min // 2, ends.max // 2, sizes).to(dtype)


def _check_wrapped(call, *inputs: torch.Tensor) -> None:
    """Against 64 bits, of which the lower ones count: eager has some convolutions of these types only."""
    check(call, *inputs, exact=call(*(x.long() for x in inputs)).to(inputs[0].dtype))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_convolutions_wrap(dtype: torch.dtype, dims: int, transposed: bool) -> None:
    function = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    size = (19, 8, 5)[:dims]
    for groups, stride, padding, dilation in [(1, 1, 0, 1), (1, 2, 1, 1), (3, 1, 1, 2), (6, 3, 2, 1)]:
        x = _some(dtype, 2, 6, *size)
        kernel = (3, 2, 3)[:dims]
        for multiplier in (1, 5):  # few channels in a group, and more than the least number of rows of a product
            outputs = multiplier * groups
            weight = _some(dtype, *((6, outputs // groups) if transposed else (outputs, 6 // groups)), *kernel)
            bias = _some(dtype, outputs)
            numbers = (stride, padding, 0, groups, dilation) if transposed else (stride, padding, dilation, groups)
            _check_wrapped(lambda x, w, b, n=numbers: function(x, w, b, *n), x, weight, bias)
            _check_wrapped(lambda x, w, n=numbers: function(x, w, None, *n), x[0], weight)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_convolutions_of_many_channels(dtype: torch.dtype) -> None:
    """More than one panel of the packed product."""
    _check_wrapped(F.conv2d, _some(dtype, 1, 70, 33, 65), _some(dtype, 40, 70, 3, 3), _some(dtype, 40))
    _check_wrapped(F.conv_transpose2d, _some(dtype, 1, 70, 9, 11), _some(dtype, 70, 40, 3, 3), _some(dtype, 40))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_kernels_of_integers_are_taken(dtype: torch.dtype) -> None:
    """The first kernel of each operator, which a plain one would stand in for without a word."""
    x, weight = _some(dtype, 1, 6, 9, 11), _some(dtype, 6, 1, 3, 3)
    out = torch.empty(1, 6, 7, 9, dtype=dtype)
    sorted_values, values, places = torch.arange(9).to(dtype), _some(dtype, 20), torch.empty(20, dtype=torch.int64)
    calls = [
        ("aten::convolution.out", [x, weight, None, [1], [0], [1], False, [0], 6, out], "TTtlllbliT"),
        ("aten::bucketize.Tensor_out", [values, sorted_values, False, False, places], "TTbbT"),
        ("aten::searchsorted.Tensor_out", [sorted_values, values, False, False, None, None, places], "TTbbstT"),
    ]
    if dtype == torch.uint8:
        image, large = _some(dtype, 1, 3, 9, 11), torch.empty(1, 3, 20, 20, dtype=dtype)
        for name in ("aten::upsample_bilinear2d.vec_out", "et::upsample_bicubic2d.vec_out"):
            calls.append((name, [image, [20, 20], False, None, large], "TLbFT"))
    for name, arguments, letters in calls:
        taken = []
        for place in range(kernel_count(name)):
            try:
                prepare_and_run(name, place, arguments, letters, set())
                taken.append(place)
            except KernelError as problem:
                assert problem.code == NOT_SUPPORTED, name
        assert len(taken) >= 2, f"{name}: only the plain kernel takes {dtype}"


CONVOLUTIONS = {
    1: [((3, 8, 50), {"padding": 2}), ((8, 37), {"stride": 3}), ((2, 8, 9), {"dilation": 4, "padding": 5})],
    2: [
        ((2, 8, 13, 21), {"padding": (1, 0)}),
        ((1, 8, 7, 30), {"stride": (2, 3), "padding": 1}),
        ((8, 9, 9), {"dilation": 2, "groups": 2}),
        ((0, 8, 5, 5), {}),
    ],
    3: [((2, 8, 5, 6, 7), {"padding": 1}), ((1, 8, 4, 5, 9), {"stride": 2, "groups": 2})],
}


def _values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype) if dtype.is_floating_point else torch.randint(-(2**40), 2**40, shape)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_convolutions(dtype, n, transposed):
    torch.manual_seed(0)
    function = getattr(F, f"conv_transpose{n}d" if transposed else f"conv{n}d")
    for shape, options in CONVOLUTIONS[n]:
        groups = options.get("groups", 1)
        x = _values(dtype, *shape)
        w = _values(dtype, *((8, 10 // groups) if transposed else (10, 8 // groups)), *(3,) * n)
        b = _values(dtype, 10)  # products and sums of integers wrap
        for inputs in [(x, w), (x, w, b), (x.transpose(-1, -2).contiguous().transpose(-1, -2), w, b)]:
            check(lambda *t, o=options: function(*t, **o), *inputs, tolerance=1e-13)


def test_convolutions_of_no_numbers():
    torch.manual_seed(0)
    x, w = torch.randn(1, 4, 9, 11, dtype=torch.float64), torch.randn(6, 4, 3, 3, dtype=torch.float64)
    x.view(-1)[::53] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0], dtype=torch.float64).repeat(2)
    check(lambda x, w: F.conv2d(x, w, padding=1), x, w, tolerance=1e-13)
    check(lambda x, w: F.conv_transpose2d(x, w, stride=2), x, w.transpose(0, 1).contiguous(), tolerance=1e-13)
