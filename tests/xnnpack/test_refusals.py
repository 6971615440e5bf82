"""Each reason for which the delegate leaves a node, reached by a small module; the files run and are right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from executorch_py.backends.xnnpack import Precision, XnnpackPartitioner
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import executorch_py as et

q = torch.ops.quantized_decomposed
SOURCES = ("op_support.cpp", "image_support.cpp", "bounds.cpp", "quantization.cpp", "quantized_products.cpp")


class Case(NamedTuple):
    """A function (or module) of its inputs, and what is said of one of its nodes."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    reason: str
    dynamic_shapes: Any = None
    precisions: tuple[Precision, ...] = tuple(Precision)
    step: float = 0  # of a quantized result, which may be rounded to the other side
    compatible: bool = False  # asked for the official runtime


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("matrix", torch.linspace(-1, 1, 16).reshape(4, 4))
        self.register_buffer("image", torch.linspace(-1, 1, 64).reshape(1, 4, 4, 4))
        self.register_buffer("integers", torch.arange(-8, 8, dtype=torch.int8).reshape(4, 4))
        self.register_buffer("filter", torch.arange(-8, 8, dtype=torch.int8).reshape(4, 4, 1, 1))
        self.register_buffer("scales", torch.tensor([0.1, 0.2, 0.05, 0.3]))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("largest", torch.full((4,), 3e38))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


class Narrow(nn.Module):
    """Lines that a layer asks to be of one length: torch.export leaves their number of elements dynamic."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv1d(4, 8, 3, 2), nn.Linear(1, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x))


def t(*sizes: int) -> torch.Tensor:
    return torch.linspace(-2, 2, torch.Size(sizes).numel()).reshape(sizes)


X = t(1, 4, 4, 4)
ROWS = t(3, 4)
BATCH = Dim("batch", min=2, max=6)
SIDE = Dim("side", min=4, max=9)


def static(x: torch.Tensor, scale: float = 0.05, zero_point: int = 0, low: int = -128, high: int = 127) -> torch.Tensor:
    """Through integers and back, with numbers that are known."""
    integers = q.quantize_per_tensor(x, scale, zero_point, low, high, torch.int8)
    return q.dequantize_per_tensor(integers, scale, zero_point, low, high, torch.int8)


def sizes_of(counts: torch.Tensor, most: int) -> list[int]:
    sizes = counts.tolist()
    for size in sizes:
        torch._check(size >= 0)
        torch._check(size <= most)
    return sizes


def dynamic(x: torch.Tensor) -> torch.Tensor:
    """Through integers and back, with numbers that the data gives."""
    scale, zero_point = q.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
    integers = q.quantize_per_tensor.tensor(x, scale, zero_point, -128, 127, torch.int8)
    return q.dequantize_per_tensor.tensor(integers, scale, zero_point, -128, 127, torch.int8)


def channels(m: Any, axis: int = 0, low: int = -128, high: int = 127, integers: Any = None) -> torch.Tensor:
    """The module's matrix of integers, with a scale a channel."""
    return q.dequantize_per_channel(
        m.integers if integers is None else integers, m.scales, m.zeros, axis, low, high, torch.int8
    )


def one(m: Any, scale: float = 0.1, zero_point: int = 0) -> torch.Tensor:
    """The module's matrix of integers, with one scale."""
    return q.dequantize_per_tensor(m.integers, scale, zero_point, -128, 127, torch.int8)


def conv(x: torch.Tensor, w: torch.Tensor, transposed: bool = False, groups: int = 1) -> torch.Tensor:
    return (F.conv_transpose2d if transposed else F.conv2d)(x, w, groups=groups)


OPERATORS = (
    Case(
        "operator",
        lambda m, x: torch.cumsum(x, 1),
        (X,),
        "XNNPACK has no such operator, or the delegate's format cannot say it",
    ),
    Case(
        "size",
        lambda m, x: x * x.shape[0],
        (t(2, 4),),
        "an operand that is computed at run time and is no tensor",
        ({0: BATCH},),
    ),
    Case("alpha", lambda m, x: torch.add(x, x.abs(), alpha=2), (X,), "a factor alpha"),
    Case("rsub", lambda m, x: torch.rsub(x, 2, alpha=3), (X,), "a factor alpha, or a number computed at run time"),
    Case("pow", lambda m, x: x**3, (X,), "only exponents 2, 0.5 and -0.5"),
    Case(
        "clamp_size",
        lambda m, x: x.clamp(max=x.shape[0]),
        (t(2, 4),),
        "a bound that is computed at run time",
        ({0: BATCH},),
    ),
    Case("clamp_crossed", lambda m, x: x.clamp(2, 1), (X,), "its lower bound is above the upper one"),
    Case("gelu", lambda m, x: F.gelu(x, approximate="tanh"), (X,), "the tanh approximation"),
    Case("selu", lambda m, x: F.selu(x), (X,), "a scale"),
    Case("elu", lambda m, x: F.elu(x, -1.0), (X,), "an alpha that is not positive"),
    Case("leaky_relu", lambda m, x: F.leaky_relu(x, 0.0), (X,), "a slope that is zero or no number"),
    Case("prelu_input", lambda m, x, y: F.prelu(x, y), (X, t(4)), "slopes that are not constant"),
    Case("prelu_rank", lambda m, x: F.prelu(x, m.scales), (t(1, 4, 2, 2, 2),), "only ranks 2 to 4"),
    Case("softmax", lambda m, x: x.softmax(1), (X,), "only along the last dimension, or the channels of an image"),
    Case("linear_weight", lambda m, x, w: F.linear(x, w), (ROWS, t(2, 4)), "its weight is not constant"),
    Case("linear_bias", lambda m, x, b: F.linear(x, m.matrix, b), (ROWS, t(4)), "its bias is not constant"),
    Case("addmm", lambda m, x: torch.addmm(m.scales, x, m.matrix, alpha=2), (ROWS,), "a factor alpha or beta"),
    Case(
        "addmm_bias",
        lambda m, x, b: torch.addmm(b, x, m.matrix),
        (ROWS, t(4)),
        "its bias is no constant vector with a number for each column",
    ),
    Case(
        "linear_broadcast_bias",
        lambda m, x: F.linear(x, m.matrix, m.scales[:1]),
        (ROWS,),
        "its bias is no constant vector with a number for each column",
    ),
    Case(
        "addmm_factor",
        lambda m, x, y: torch.addmm(m.scales, x, y),
        (ROWS, t(4, 4)),
        "its second factor is not constant",
    ),
    Case("mm", lambda m, x: m.matrix @ x, (t(4, 3),), "its first factor is constant"),
    Case("conv3d", nn.Conv3d(2, 2, 2), (t(1, 2, 4, 4, 4),), "only 1-D and 2-D convolution"),
    Case("filter", lambda m, x, w: F.conv2d(x, w), (X, t(2, 4, 1, 1)), "its filter is not constant"),
    Case("conv_bias", lambda m, x, b: F.conv2d(x, m.image, b), (X, t(1)), "its bias is not constant"),
    Case(
        "pad_size",
        lambda m, x, y: F.pad(x, (0, y.shape[0])),
        (ROWS, t(3)),
        "paddings that are computed at run time",
        ({}, {0: BATCH}),
    ),
    Case("pad", lambda m, x: F.pad(x, (1, -1)), (X,), "a negative padding"),
    Case(
        "conv1d",
        nn.Conv1d(4, 2, 3),
        (t(2, 4, 8),),
        "a 1-D convolution with more than one dynamic dimension",
        ({0: BATCH, 2: SIDE},),
    ),
    Case(
        "pool_channels",
        lambda m, x: F.max_pool2d(x, 2),
        (t(1, 4, 4, 4),),
        "a dynamic number of channels",
        ({1: BATCH},),
    ),
    Case(
        "output_padding",
        nn.ConvTranspose2d(4, 2, 2, dilation=3, output_padding=2),
        (X,),
        "an output padding that is no smaller than the stride",
    ),
    Case(
        "small_output",
        nn.ConvTranspose2d(4, 2, 4, 4, 1),
        (t(1, 4, 1, 1),),
        "a transposed convolution whose output may be smaller than its stride",
    ),
    Case("batch_norm", lambda m, x, y: F.batch_norm(x, y, y.abs() + 1), (X, t(4)), "statistics that are not constant"),
    Case("batch_norm3d", nn.BatchNorm3d(2), (t(1, 2, 2, 2, 2),), "only ranks 2 to 4"),
    Case("pool_rank", nn.MaxPool2d(2), (t(4, 4, 4),), "only 2-D pooling of a batch"),
    Case("pool_one", lambda m, x: F.avg_pool2d(x, 1, 2), (X,), "a window of one element"),
    Case("pool_stride", nn.MaxPool2d(2, 3), (t(1, 4, 8, 8),), "strides larger than the window"),
    Case(
        "pool_ceil",
        nn.MaxPool2d(2, 2, padding=1, dilation=2, ceil_mode=True),
        (t(1, 4, 6, 6),),
        "ceil_mode with windows that reach further over the edge than they are wide",
    ),
    Case(
        "pool_ceil_dynamic",
        lambda m, x: F.max_pool2d(x, 2, ceil_mode=True),
        (t(1, 4, 5, 5),),
        "ceil_mode of images of any size",
        ({2: Dim.AUTO(min=4, max=9)},),
    ),
    Case("pool_indices", nn.MaxPool2d(2, return_indices=True), (X,), "its indices are used"),
    Case("pool_divisor", nn.AvgPool2d(2, divisor_override=3), (X,), "a divisor of its own"),
    Case(
        "mean",
        lambda m, x: x.mean(1),
        (X,),
        "only the mean over height and width of an image, or the length of a line",
    ),
    Case(
        "nearest",
        lambda m, x: F.interpolate(x, size=(6, 8)),
        (X,),
        "pixels that are not repeated one to five times",
    ),
    Case(
        "below_bounds",
        Narrow(),
        (t(2, 4, 3),),
        "sizes that fit together below their upper bounds only",
        ({0: Dim.AUTO(min=2, max=4), 2: Dim.AUTO(min=3, max=6)},),
    ),
    Case("cat_types", lambda m, x, y: torch.cat([x, y]), (ROWS.half(), ROWS), "tensors of different types or ranks"),
    Case("linear_vector", lambda m, x: F.linear(x, m.scales), (ROWS,), "its weight is no matrix"),
    Case(
        "statistics",
        lambda m, x: torch.ops.aten._native_batch_norm_legit_no_training(x, None, None, m.scales, m.scales, 0.1, 1e-5),
        (X,),
        "its statistics are used",
    ),
    Case(
        "conv_stride",
        lambda m, x, y: F.conv2d(x, m.image, stride=y.shape[0]),
        (t(1, 4, 12, 12), t(3)),
        "strides, paddings or groups that are computed at run time",
        ({}, {0: BATCH}),
    ),
    Case(
        "split_dynamic",
        lambda m, x: torch.split(x, [2, x.shape[0] - 2]),
        (t(6, 3),),
        "a dynamic dimension",
        ({0: SIDE},),
    ),
    Case("types", lambda m, x, y: torch.ops.aten.add.Tensor(x, y), (ROWS.half(), ROWS), "operands of different types"),
    Case("cat_one", lambda m, x: torch.cat([x]), (X,), "less than two tensors"),
    Case("cat_constant", lambda m, x: torch.cat([x, m.image]), (X,), "a constant among the tensors"),
    Case(
        "cat_empty",
        lambda m, x, y: torch.cat([x, y[y > 0]]),
        (t(4), t(6)),
        "a tensor that may have no elements",
    ),
    Case(
        "split_by_data",
        lambda m, x, y: torch.split(x, sizes_of(y, x.shape[0])),
        (t(6, 3), torch.tensor([2, 4])),
        "a part whose size is computed at run time",
    ),
    Case("permute", lambda m, x: x.sum().permute(()), (X,), "a scalar"),
    Case(
        "view",
        lambda m, x: x.view(x.shape[0], 1, x.shape[1]),
        (t(3, 5),),
        "a shape with more than one dynamic dimension",
        ({0: BATCH, 1: SIDE},),
    ),
    Case("step", lambda m, x: x[:, ::2], (X,), "a step other than 1"),
    Case("slice_dynamic", lambda m, x: x[1:], (t(4, 4),), "a part of a dynamic dimension", ({0: SIDE},)),
    Case(
        "slice_start",
        lambda m, x, y: x.narrow(1, y.shape[0], 2),
        (t(3, 9), t(3)),
        "a start that is computed at run time",
        ({}, {0: BATCH}),
    ),
    Case(
        "select_dynamic",
        lambda m, x: x[1],
        (t(3, 4),),
        "an index that is computed at run time, or a dynamic dimension",
        ({0: BATCH},),
    ),
    Case("split_empty", lambda m, x: torch.split(x, [4, 0], 1), (X,), "a part without elements"),
    Case(
        "resize",
        lambda m, x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        (t(1, 4, 5, 5),),
        "dynamic sizes",
        ({2: SIDE, 3: SIDE},),
    ),
    Case(
        "resize_scale",
        lambda m, x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
        (X,),
        "a scale that is not the ratio of sizes",
    ),
    Case("rank", lambda m, x: x.abs(), (t(1, 1, 2, 1, 2, 1, 2),), "a tensor of rank 7, the library has 6"),
    Case("unbounded", lambda m, x: x.abs(), (ROWS,), "a size that only the data decides", ({0: Dim("rows")},)),
    Case("empty", lambda m, x: x.abs(), (t(0, 4),), "a tensor without elements, or too large"),
    Case("result", lambda m, x: x.abs(), (torch.arange(4),), "a result of type torch.int64"),
    Case("operand", lambda m, x: x / 2, (torch.arange(4),), "a tensor of type torch.int64"),
    Case(
        "constants",
        lambda m, x: x + (m.matrix + m.scales).abs(),
        (t(4, 4),),
        "compile time: it depends on constants only",
    ),
    Case(
        "float32",
        lambda m, x: F.linear(x, m.matrix),
        (ROWS,),
        "float32, which the partitioner was told to leave",
        None,
        (Precision.FP16,),
    ),
    Case(
        "float16",
        lambda m, x: x.abs(),
        (ROWS.half(),),
        "float16, which the partitioner was told to leave",
        None,
        (Precision.FP32,),
    ),
)

QUANTIZED = (
    Case(
        "weight",
        lambda m, x: F.linear(dynamic(x), channels(m)),
        (ROWS,),
        "compile time: a weight that goes along with the operators that use it",
        step=0.05,
    ),
    Case(
        "activation_channels",
        lambda m, x: q.dequantize_per_channel(x, m.scales, m.zeros, 0, -128, 127, torch.int8),
        (torch.arange(12, dtype=torch.int8).reshape(4, 3),),
        "integers with a scale a channel that are no constant",
    ),
    Case(
        "no_dynamic",
        lambda m, x: F.linear(dynamic(x), channels(m)),
        (ROWS,),
        "dynamic quantization, which the partitioner was told to leave",
        None,
        (Precision.FP32,),
    ),
    Case(
        "no_static",
        lambda m, x: static(x),
        (ROWS,),
        "static quantization, which the partitioner was told to leave",
        None,
        (Precision.FP32,),
    ),
    Case(
        "no_product",
        lambda m, x: dynamic(x).abs(),
        (ROWS,),
        "parameters computed at run time for something that is no product with an integer weight",
    ),
    Case("half_range", lambda m, x: static(x, low=-127), (ROWS,), "only int8 with its whole range"),
    Case(
        "half",
        lambda m, x: q.dequantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8, out_dtype=torch.float16),
        (torch.arange(4, dtype=torch.int8),),
        "numbers that are not float32",
    ),
    Case("zero_scale", lambda m, x: static(x, 1e-42), (ROWS,), "a scale that is zero or no number"),
    Case(
        "far_smaller",
        lambda m, x: static(F.linear(static(x, 1.0), one(m, 100.0)), 0.01),
        (ROWS,),
        "results that are far smaller than its sums",
    ),
    Case(
        "large_bias",
        lambda m, x: static(F.linear(static(x, 1e-5), one(m, 1e-6), m.scales), 1e-5),
        (ROWS,),
        "a bias that does not fit 32 bits beside such small weights",
    ),
    Case(
        "zero_point",
        lambda m, x: static(F.linear(static(x), one(m, 0.1, 3)), 0.1),
        (ROWS,),
        "an integer weight whose scales the library has not (zero points, groups that are no multiple of 32)",
    ),
    Case(
        "conv_int4",
        lambda m, x: conv(dynamic(x), channels(m, 0, -8, 7, m.filter)),
        (X,),
        "4-bit weights outside of linear, or an odd number of them in a row",
    ),
    Case(
        "wrong_axis",
        lambda m, x: F.linear(dynamic(x), channels(m, 1)),
        (ROWS,),
        "scales that are not those of output channels",
    ),
    Case(
        "grouped_transposed",
        lambda m, x: static(conv(static(x), channels(m, 1, integers=m.filter), True, 2), 0.1),
        (X,),
        "a transposed convolution in groups with scales a channel",
        step=0.1,
    ),
    Case(
        "bias",
        lambda m, x, b: static(F.linear(static(x), channels(m), b), 0.1),
        (ROWS, t(4)),
        "its bias is not constant",
    ),
    Case(
        "weight_only",
        lambda m, x: F.linear(x, channels(m)),
        (ROWS,),
        "integer weights with an input that is not quantized",
    ),
    Case(
        "weight_only_conv",
        lambda m, x: conv(x, channels(m, integers=m.filter)),
        (X,),
        "a convolution of floats with integer weights",
        compatible=True,
    ),
    Case(
        "weight_only_one_scale",
        lambda m, x: F.linear(x, one(m)),
        (ROWS,),
        "a product of floats with integer weights whose scales are not those of output channels",
        compatible=True,
    ),
    Case(
        "weight_only_half",
        lambda m, x: F.linear(
            x, q.dequantize_per_channel(m.integers, m.scales, m.zeros, 0, -128, 127, torch.int8, out_dtype=torch.half)
        ),
        (ROWS.half(),),
        "a product of other floats than float32 with integer weights",
        compatible=True,
    ),
    Case(
        "weight_only_large_bias",
        lambda m, x: F.linear(x, channels(m), m.largest),
        (ROWS,),
        "a bias that is too large beside such small weights",
        compatible=True,
    ),
    Case(
        "float_result",
        lambda m, x: F.linear(static(x), channels(m)),
        (ROWS,),
        "a quantized input but a result that is not quantized",
    ),
    Case(
        "dynamic_one_scale",
        lambda m, x: F.linear(dynamic(x), one(m)),
        (ROWS,),
        "dynamic quantization with one scale for the whole weight",
    ),
    Case(
        "dynamic_conv",
        lambda m, x: conv(dynamic(x), q.dequantize_per_tensor(m.filter, 0.1, 0, -128, 127, torch.int8)),
        (X,),
        "dynamic quantization of this convolution",
    ),
    Case(
        "shared",
        lambda m, x: (lambda d: (F.linear(d, channels(m)), F.linear(d, one(m))))(dynamic(x)),
        (ROWS,),
        "its input is quantized at run time together with that of something that is not taken",
    ),
)
CASES = (*OPERATORS, *QUANTIZED)


def lowered(case: Case) -> tuple[nn.Module, et.EdgeProgramManager, dict[str, str]]:
    """The module, its edge program, and node -> reason."""
    module = (case.function if isinstance(case.function, nn.Module) else Call(case.function)).eval()
    shapes = case.dynamic_shapes
    if shapes is not None and not isinstance(case.function, nn.Module):
        shapes = (shapes,)  # the arguments of a Call are one
    exported = torch.export.export(module, case.inputs, dynamic_shapes=shapes)
    partitioner = XnnpackPartitioner(config_precisions=case.precisions, always=True)
    partitioner = partitioner.for_compatible() if case.compatible else partitioner
    return module, et.to_edge_transform_and_lower(exported, partitioner=[partitioner]), partitioner.refusals


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reason(case: Case) -> None:
    module, edge, reasons = lowered(case)
    assert case.reason in reasons.values(), reasons
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(module(*case.inputs))
    program = et.Runtime.get().load_program(edge.to_executorch().buffer)
    found = program.load_method("forward").execute(case.inputs)
    for actual, exact in zip(found, expected, strict=True):
        assert actual.dtype == exact.dtype and actual.shape == exact.shape
        assert torch.allclose(actual, exact, rtol=1e-5, atol=1e-5 + case.step, equal_nan=True)


#: Reasons that no module is known to reach, and why.
NOT_REACHED = {
    "its first operand is a number": "torch.export gives such a number a tensor, or the operator another name",
    "compile time: all operands are constants": "that the result depends on constants only is said first",
    "strides or paddings of another number of dimensions than the image has": "the importer repeats lists of one",
    "windows that are computed at run time": "torch.export makes them numbers",
    "a dimension that is computed at run time": "torch.export makes it a number",
    "a scale that is computed at run time": "what computes one makes a tensor of it, which is another operator",
}
_LITERAL = re.compile(r'(?:return|[?:=])\s*(?:kTaken\s*:\s*)?(?:std::string\()?"([^"]{6,})"')


def test_every_reason_is_reached() -> None:
    folder = Path(__file__).parents[2] / "backends" / "xnnpack" / "compiler"
    reasons = {reason for name in SOURCES for reason in _LITERAL.findall((folder / name).read_text()) if " " in reason}
    assert len(reasons) > 60
    reached = tuple(case.reason for case in CASES)
    missing = {
        reason
        for reason in reasons
        if not (reason in reached or (reason.endswith(" ") and any(one.startswith(reason) for one in reached)))
    }
    assert sorted(missing) == sorted(NOT_REACHED)
