"""Random graphs of one operator, and what Arm's reference model makes of them.

Runs in .venv-tosa, without executorch_py:

operator_cases.py SEED COUNT FILE        # COUNT graphs of each kind; FILE is an .npz that operator_graphs.py reads
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import tosa_reference_model
import tosa_serializer as ts
from tosa_serializer import DType, Op

NUMPY = {
    DType.BOOL: np.bool_,
    DType.INT8: np.int8,
    DType.INT16: np.int16,
    DType.INT32: np.int32,
    DType.FP32: np.float32,
}
LIMITS = {
    DType.INT4: (-7, 7),
    DType.INT8: (-128, 127),
    DType.INT16: (-32768, 32767),
    DType.INT32: (-(2**31), 2**31 - 1),
}
PROPAGATE = ts.NanPropagationMode.PROPAGATE


class Graph:
    """A graph under construction: one operator, or an int16 product and the RESCALE that makes its INT48 readable."""

    def __init__(self, seed: Sequence[int]) -> None:
        self.rng = np.random.default_rng(seed)
        self.file = ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 0, 0, False)
        self.inputs: list[np.ndarray] = []
        self.output_shape: list[int] = []

    def ints(self, low: int, high: int) -> int:
        """A number in [low, high]."""
        return int(self.rng.integers(low, high, endpoint=True))

    def flag(self) -> bool:
        return bool(self.ints(0, 1))

    def pick(self, *choices):
        return choices[self.ints(0, len(choices) - 1)]

    def sizes(self, rank: int, high: int = 6) -> list[int]:
        return [self.ints(1, high) for _ in range(rank)]

    def values(self, shape: Sequence[int], dtype: DType, low: int | None = None, high: int | None = None) -> np.ndarray:
        """Random elements; integers over their whole range unless bounded, and often at its ends."""
        if dtype == DType.BOOL:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if dtype == DType.FP32:
            return (self.rng.standard_normal(shape) * 3).astype(np.float32)
        least, most = LIMITS[dtype]
        least, most = least if low is None else low, most if high is None else high
        chosen = self.rng.integers(least, most, shape, endpoint=True)
        ends = self.rng.integers(0, 8, shape)
        return np.where(ends == 0, least, np.where(ends == 1, most, chosen)).astype(NUMPY.get(dtype, np.int8))

    def input(self, shape: Sequence[int], dtype: DType, low: int | None = None, high: int | None = None) -> str:
        name = f"input{len(self.inputs)}"
        self.file.addInputTensor(ts.TosaSerializerTensor(name, list(shape), dtype))
        self.inputs.append(self.values(shape, dtype, low, high))
        return name

    def const(self, values, dtype: DType) -> str:
        values = np.asarray(values)
        shape = list(values.shape) if dtype != DType.SHAPE else [values.size]
        return self.file.addConst(shape, dtype, values.reshape(-1).tolist() if dtype == DType.SHAPE else values).name

    def zero_point(self, dtype: DType) -> str:
        return self.const([self.ints(-128, 127) if dtype == DType.INT8 else 0], dtype)

    def attribute(self, name: str, *arguments) -> ts.TosaSerializerAttribute:
        attribute = ts.TosaSerializerAttribute()
        getattr(attribute, f"{name}Attribute")(*arguments)
        return attribute

    def operator(
        self, op: Op, inputs: Sequence[str], shape: Sequence[int], dtype: DType, attribute, output: bool = True
    ) -> str:
        make = self.file.addOutput if output else self.file.addIntermediate
        self.output_shape = list(shape)
        name: str = make(self.output_shape, dtype).name
        self.file.addOperator(op, list(inputs), [name], attribute)
        return name


def int48_output(g: Graph, name: str, shape: Sequence[int]) -> None:
    """An INT48 leaves a graph through RESCALE."""
    shift = g.ints(8, 40)
    inputs = [g.const([g.ints(0, 32767)], DType.INT16), g.const([shift], DType.INT8)]
    zero_points = [g.const([0], DType.INT48), g.const([0], DType.INT32)]
    single = g.attribute("Rescale", False, ts.RoundingMode.SINGLE_ROUND, False, False, False)
    g.operator(Op.RESCALE, [name, *inputs, *zero_points], shape, DType.INT32, single)


def window(g: Graph, kernel: int, dilation: int, low_pad: int) -> tuple[int, int, int, int, int]:
    """Size of the input, stride, paddings before and behind, size of the output; the window ends exactly at the end."""
    stride, out = g.ints(1, 3), g.ints(1, 5)
    before, behind = g.ints(0, low_pad), g.ints(0, low_pad)
    size = (out - 1) * stride + 1 + (kernel - 1) * dilation - before - behind
    return (size, stride, before, behind, out) if size >= 1 else window(g, kernel, dilation, low_pad)


def convolution(g: Graph, op: Op, name: str) -> None:
    dtype = g.pick(DType.INT8, DType.INT8, DType.INT16)
    weight_type = g.pick(DType.INT8, DType.INT4) if dtype == DType.INT8 else DType.INT8
    sum_type = DType.INT32 if dtype == DType.INT8 else DType.INT48
    n, ic, oc = g.ints(1, 2), g.ints(1, 9), g.ints(1, 9)
    kernel, dilation = g.sizes(2, 4), g.sizes(2, 3)
    (h, sh, top, bottom, oh), (w, sw, left, right, ow) = (window(g, k, d, 2) for k, d in zip(kernel, dilation))
    weight_shape = [oc, *kernel, ic]
    if op == Op.DEPTHWISE_CONV2D:
        multiplier = g.ints(1, 3)
        weight_shape, oc = [*kernel, ic, multiplier], ic * multiplier
    biases = g.pick(1, oc)
    bias = g.rng.integers(-(2**20), 2**20, biases)
    weight_zero = (
        g.zero_point(DType.INT8) if weight_type == DType.INT8 and dtype == DType.INT8 else g.const([0], weight_type)
    )
    operands = [
        g.input([n, h, w, ic], dtype),
        g.const(g.values(weight_shape, weight_type), weight_type),
        g.const(bias, sum_type),
        g.zero_point(dtype),
        weight_zero,
    ]
    attribute = g.attribute(name, [top, bottom, left, right], [sh, sw], dilation, False, sum_type)
    shape = [n, oh, ow, oc]
    result = g.operator(op, operands, shape, sum_type, attribute, sum_type == DType.INT32)
    if sum_type == DType.INT48:
        int48_output(g, result, shape)


def transposed(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16)
    sum_type = DType.INT32 if dtype == DType.INT8 else DType.INT48
    n, ic, oc, h, w = g.ints(1, 2), g.ints(1, 6), g.ints(1, 6), g.ints(1, 4), g.ints(1, 4)
    kernel, stride = g.sizes(2, 4), g.sizes(2, 3)
    pad = [g.ints(-k + 1, 2) for k in kernel for _ in range(2)]
    shape = [
        n,
        (h - 1) * stride[0] + pad[0] + pad[1] + kernel[0],
        (w - 1) * stride[1] + pad[2] + pad[3] + kernel[1],
        oc,
    ]
    if min(shape) < 1:
        transposed(g)
        return
    weight_zero = g.zero_point(DType.INT8) if dtype == DType.INT8 else g.const([0], DType.INT8)
    bias = g.const(g.rng.integers(-(2**20), 2**20, g.pick(1, oc)), sum_type)
    weight = g.const(g.values([oc, *kernel, ic], DType.INT8), DType.INT8)
    operands = [g.input([n, h, w, ic], dtype), weight, bias, g.zero_point(dtype), weight_zero]
    attribute = g.attribute("TransposeConv2d", pad, stride, False, sum_type)
    result = g.operator(Op.TRANSPOSE_CONV2D, operands, shape, sum_type, attribute, sum_type == DType.INT32)
    if sum_type == DType.INT48:
        int48_output(g, result, shape)


def matmul(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16)
    sum_type = DType.INT32 if dtype == DType.INT8 else DType.INT48
    n, h, c, w = g.sizes(4, 12)
    operands = [g.input([n, h, c], dtype), g.input([n, c, w], dtype), g.zero_point(dtype), g.zero_point(dtype)]
    result = g.operator(Op.MATMUL, operands, [n, h, w], sum_type, g.attribute("MatMul"), sum_type == DType.INT32)
    if sum_type == DType.INT48:
        int48_output(g, result, [n, h, w])


def pool(g: Graph, op: Op) -> None:
    dtype = g.pick(DType.INT8, DType.INT16)
    n, c = g.ints(1, 2), g.ints(1, 9)
    kernel = g.sizes(2, 5)
    (h, sh, top, bottom, oh), (w, sw, left, right, ow) = (window(g, k, 1, k - 1) for k in kernel)
    operands = [g.input([n, h, w, c], dtype)]
    if op == Op.AVG_POOL2D:
        operands += [g.zero_point(dtype), g.zero_point(dtype)]
        attribute = g.attribute("AvgPool2d", kernel, [sh, sw], [top, bottom, left, right], DType.INT32)
    else:
        attribute = g.attribute("MaxPool2d", kernel, [sh, sw], [top, bottom, left, right], PROPAGATE)
    g.operator(op, operands, [n, oh, ow, c], dtype, attribute)


def rescale(g: Graph) -> None:
    source, target = g.pick(DType.INT8, DType.INT16, DType.INT32), g.pick(DType.INT8, DType.INT16, DType.INT32)
    scale32, per_channel = g.flag(), g.flag()
    shape = g.sizes(g.ints(1, 5), 7)
    channels = shape[-1] if per_channel else 1
    modes = [ts.RoundingMode.SINGLE_ROUND, ts.RoundingMode.DOUBLE_ROUND] if scale32 else [ts.RoundingMode.SINGLE_ROUND]
    unsigned_in = source == DType.INT8 and g.ints(0, 3) == 0
    unsigned_out = not unsigned_in and target == DType.INT8 and g.ints(0, 3) == 0
    if scale32:
        multipliers, shifts = g.rng.integers(2**30, 2**31, channels), g.rng.integers(22, 50, channels)
    else:
        multipliers, shifts = g.rng.integers(2**14, 2**15, channels), g.rng.integers(9, 34, channels)
    # The definition wants |value| < 2^(shift - 1), and a result of 32 bits.
    bits = {DType.INT8: 9, DType.INT16: 16, DType.INT32: int(min(shifts)) - (1 if scale32 else 0)}[source]
    shifts = np.maximum(shifts, bits + 1 if source != DType.INT32 else 2)
    low, high = (-(2 ** (min(bits, 31) - 1)), 2 ** (min(bits, 31) - 1) - 1) if source == DType.INT32 else (None, None)
    operands = [
        g.input(shape, source, low, high),
        g.const(multipliers, DType.INT32 if scale32 else DType.INT16),
        g.const(shifts, DType.INT8),
        g.zero_point(source),
        g.zero_point(target),
    ]
    attribute = g.attribute("Rescale", scale32, g.pick(*modes), per_channel, unsigned_in, unsigned_out)
    g.operator(Op.RESCALE, operands, shape, target, attribute)


def table(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16)
    shape = g.sizes(g.ints(1, 4))
    points = g.values([256 if dtype == DType.INT8 else 513], dtype)
    if dtype == DType.INT16:  # the definition wants slopes of 16 bits
        points = np.clip(np.cumsum(g.rng.integers(-200, 201, 513)), -32768, 32767).astype(np.int16)
    target = DType.INT8 if dtype == DType.INT8 else DType.INT32
    g.operator(Op.TABLE, [g.input(shape, dtype), g.const(points, dtype)], shape, target, g.attribute("Table"))


def broadcast_shapes(g: Graph, count: int) -> tuple[list[list[int]], list[int]]:
    full = g.sizes(g.ints(1, 5), 5)
    shapes = [[1 if g.ints(0, 3) == 0 else size for size in full] for _ in range(count)]
    return shapes, [max(sizes) for sizes in zip(*shapes)]


def binary(
    op: Op,
    name: str,
    types: Sequence[DType],
    limits: tuple[int | None, int | None] = (None, None),
    compares: bool = False,
):
    def make(g: Graph) -> None:
        dtype = g.pick(*types)
        shapes, full = broadcast_shapes(g, 2)
        arguments = {"Maximum": [PROPAGATE], "Minimum": [PROPAGATE], "ArithmeticRightShift": [g.flag()]}.get(name, [])
        second = (0, {DType.INT8: 7, DType.INT16: 15, DType.INT32: 31}[dtype]) if "Shift" in name else limits
        operands = [g.input(shapes[0], dtype, *limits), g.input(shapes[1], dtype, *second)]
        g.operator(op, operands, full, DType.BOOL if compares else dtype, g.attribute(name, *arguments))

    return make


def mul(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16, DType.INT32)
    shapes, full = broadcast_shapes(g, 2)
    shift = g.ints(2, 40) if dtype == DType.INT32 and g.flag() else 0
    limit = (-30000, 30000) if dtype == DType.INT32 else (None, None)
    operands = [g.input(shape, dtype, *limit) for shape in shapes] + [g.const([shift], DType.INT8)]
    g.operator(Op.MUL, operands, full, DType.INT32, g.attribute("Mul"))


def select(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16, DType.INT32, DType.BOOL)
    shapes, full = broadcast_shapes(g, 3)
    operands = [g.input(shape, kind) for shape, kind in zip(shapes, (DType.BOOL, dtype, dtype))]
    g.operator(Op.SELECT, operands, full, dtype, g.attribute("Select"))


def unary(op: Op, name: str, types: Sequence[DType], low: int | None = None):
    def make(g: Graph) -> None:
        dtype = g.pick(*types)
        shape = g.sizes(g.ints(1, 5))
        zero_points = [g.zero_point(dtype), g.zero_point(dtype)] if op == Op.NEGATE else []
        g.operator(op, [g.input(shape, dtype, low), *zero_points], shape, dtype, g.attribute(name))

    return make


def clamp(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16)
    shape = g.sizes(g.ints(1, 4))
    bounds = np.sort(g.values([2], dtype))
    attribute = g.attribute("Clamp", list(bounds[:1].tobytes()), list(bounds[1:].tobytes()), PROPAGATE)
    g.operator(Op.CLAMP, [g.input(shape, dtype)], shape, dtype, attribute)


def cast(g: Graph) -> None:
    source, target = g.pick(
        *[(a, b) for a in NUMPY for b in NUMPY if a != b and DType.FP32 not in (a, b)],
    )
    shape = g.sizes(g.ints(1, 4))
    g.operator(Op.CAST, [g.input(shape, source)], shape, target, g.attribute("Cast"))


def reduce(op: Op, name: str, types: Sequence[DType]):
    def make(g: Graph) -> None:
        dtype = g.pick(*types)
        shape = g.sizes(g.ints(1, 4))
        axis = g.ints(0, len(shape) - 1)
        extra = [PROPAGATE] if name in ("ReduceMax", "ReduceMin", "ArgMax") else []
        kept = [1 if d == axis else size for d, size in enumerate(shape)]
        limits = (-(2**24), 2**24) if op == Op.REDUCE_SUM else (None, None)
        if op == Op.ARGMAX:
            kept = shape[:axis] + shape[axis + 1 :]
        target = DType.INT32 if op == Op.ARGMAX else dtype
        g.operator(op, [g.input(shape, dtype, *limits)], kept, target, g.attribute(name, axis, *extra))

    return make


ANY = (DType.INT8, DType.INT16, DType.INT32, DType.BOOL)


def movement(op: Op) -> Callable[[Graph], None]:
    def make(g: Graph) -> None:
        dtype = g.pick(*ANY)
        shape = g.sizes(g.ints(1, 6), 4)
        axis = g.ints(0, len(shape) - 1)
        inputs = [] if op == Op.CONCAT else [g.input(shape, dtype)]
        name, arguments, result = op.name.capitalize(), [], list(shape)
        if op == Op.RESHAPE:
            result = [int(np.prod(shape))] if g.flag() else [*shape[::-1]]
            inputs.append(g.const(result, DType.SHAPE))
        elif op == Op.TRANSPOSE:
            perms = g.rng.permutation(len(shape)).tolist()
            arguments, result = [perms], [shape[p] for p in perms]
        elif op == Op.REVERSE:
            arguments = [axis]
        elif op == Op.SLICE:
            start = [g.ints(0, size - 1) for size in shape]
            result = [g.ints(1, size - first) for size, first in zip(shape, start)]
            inputs += [g.const(start, DType.SHAPE), g.const(result, DType.SHAPE)]
        elif op == Op.TILE:
            times = g.sizes(len(shape), 3)
            result = [size * by for size, by in zip(shape, times)]
            inputs.append(g.const(times, DType.SHAPE))
        elif op == Op.PAD:
            pads = [g.ints(0, 2) for _ in range(2 * len(shape))]
            result = [size + a + b for size, a, b in zip(shape, pads[::2], pads[1::2])]
            inputs += [g.const(pads, DType.SHAPE), g.const(g.values([1], dtype), dtype)]
        elif op == Op.CONCAT:
            arguments = [axis]
            for _ in range(g.ints(1, 4)):
                inputs.append(g.input([g.ints(1, 4) if d == axis else size for d, size in enumerate(shape)], dtype))
            result[axis] = sum(array.shape[axis] for array in g.inputs)
        g.operator(op, inputs, result, dtype, g.attribute(name, *arguments))

    return make


def gather(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16, DType.INT32)
    n, k, w, c = g.sizes(4)
    operands = [g.input([n, k, c], dtype), g.input([n, w], DType.INT32, 0, k - 1)]
    g.operator(Op.GATHER, operands, [n, w, c], dtype, g.attribute("Gather"))


def scatter(g: Graph) -> None:
    dtype = g.pick(DType.INT8, DType.INT16, DType.INT32)
    n, w, c = g.sizes(3, 4)
    k = w + g.ints(0, 3)
    operands = [g.input([n, k, c], dtype), g.input([n, w], DType.INT32, 0, k - 1), g.input([n, w, c], dtype)]
    g.inputs[1] = np.stack([g.rng.permutation(k)[:w] for _ in range(n)]).astype(np.int32)  # each index once
    g.operator(Op.SCATTER, operands, [n, k, c], dtype, g.attribute("Scatter"))


def float_convolution(g: Graph) -> None:
    kernel, dilation, ic, oc = g.sizes(2, 4), g.sizes(2, 2), g.ints(1, 9), g.ints(1, 9)
    (h, sh, top, bottom, oh), (w, sw, left, right, ow) = (window(g, k, d, 2) for k, d in zip(kernel, dilation))
    weight, bias = (g.const(g.values(shape, DType.FP32), DType.FP32) for shape in ([oc, *kernel, ic], [oc]))
    zero = g.const([0.0], DType.FP32)
    attribute = g.attribute("Conv2d", [top, bottom, left, right], [sh, sw], dilation, False, DType.FP32)
    operands = [g.input([1, h, w, ic], DType.FP32), weight, bias, zero, zero]
    g.operator(Op.CONV2D, operands, [1, oh, ow, oc], DType.FP32, attribute)


def float_matmul(g: Graph) -> None:
    n, h, c, w = g.sizes(4, 12)
    zero = g.const([0.0], DType.FP32)
    operands = [g.input([n, h, c], DType.FP32), g.input([n, c, w], DType.FP32), zero, zero]
    g.operator(Op.MATMUL, operands, [n, h, w], DType.FP32, g.attribute("MatMul"))


def float_pool(g: Graph) -> None:
    kernel = g.sizes(2, 5)
    (h, sh, top, bottom, oh), (w, sw, left, right, ow) = (window(g, k, 1, k - 1) for k in kernel)
    x, zero = g.input([1, h, w, 3], DType.FP32), g.const([0.0], DType.FP32)
    place = (kernel, [sh, sw], [top, bottom, left, right])
    if g.flag():
        average = g.attribute("AvgPool2d", *place, DType.FP32)
        g.operator(Op.AVG_POOL2D, [x, zero, zero], [1, oh, ow, 3], DType.FP32, average)
    else:
        g.operator(Op.MAX_POOL2D, [x], [1, oh, ow, 3], DType.FP32, g.attribute("MaxPool2d", *place, PROPAGATE))


def float_mul(g: Graph) -> None:
    shapes, full = broadcast_shapes(g, 2)
    operands = [g.input(shape, DType.FP32) for shape in shapes] + [g.const([0], DType.INT8)]
    g.operator(Op.MUL, operands, full, DType.FP32, g.attribute("Mul"))


def float_cast(g: Graph) -> None:
    shape, target = g.sizes(3), g.pick(DType.INT8, DType.INT16, DType.INT32)
    g.operator(Op.CAST, [g.input(shape, DType.FP32)], shape, target, g.attribute("Cast"))


def float_unary(g: Graph) -> None:
    name = g.pick("Sigmoid", "Tanh", "Exp", "Ceil", "Floor", "Erf", "Abs", "Reciprocal")
    unary(getattr(Op, name.upper()), name, (DType.FP32,))(g)


def float_binary(g: Graph) -> None:
    name = g.pick("Add", "Sub", "Maximum", "Minimum")
    binary(getattr(Op, name.upper()), name, (DType.FP32,))(g)


def float_reduce(g: Graph) -> None:
    name = g.pick("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProduct", "ArgMax")
    op = Op.ARGMAX if name == "ArgMax" else getattr(Op, f"REDUCE_{name.removeprefix('Reduce').upper()}")
    reduce(op, name, (DType.FP32,))(g)


def resized_axis(g: Graph) -> tuple[int, int, list[int], int, int]:
    """Sizes before and behind, parts of a pixel and step, offset, border; the last place ends exactly at the border."""
    size, result, parts, step = g.ints(1, 6), g.ints(1, 8), g.ints(1, 20), g.ints(1, 30)
    offset = g.ints(-parts, parts - 1)
    border = (result - 1) * step + offset - (size - 1) * parts
    fits = step < 16 * parts and -16 * parts <= border < parts
    return (size, result, [parts, step], offset, border) if fits else resized_axis(g)


def resize(g: Graph, types: Sequence[DType], modes: Sequence[ts.ResizeMode]) -> None:
    dtype = g.pick(*types)
    (h, oh, rows, top, bottom), (w, ow, columns, left, right) = resized_axis(g), resized_axis(g)
    n, c = g.ints(1, 2), g.ints(1, 5)
    shapes = [g.const(values, DType.SHAPE) for values in ([*rows, *columns], [top, left], [bottom, right])]
    attribute = g.attribute("Resize", g.pick(*modes))
    g.operator(Op.RESIZE, [g.input([n, h, w, c], dtype), *shapes], [n, oh, ow, c], dtype, attribute)


I32, INTS, BOOL = (DType.INT32,), (DType.INT8, DType.INT16, DType.INT32), (DType.BOOL,)
HALF = (-(2**30), 2**30 - 1)

KINDS: dict[str, Callable[[Graph], None]] = {
    "conv2d": lambda g: convolution(g, Op.CONV2D, "Conv2d"),
    "depthwise_conv2d": lambda g: convolution(g, Op.DEPTHWISE_CONV2D, "DepthwiseConv2d"),
    "transpose_conv2d": transposed,
    "matmul": matmul,
    "avg_pool2d": lambda g: pool(g, Op.AVG_POOL2D),
    "max_pool2d": lambda g: pool(g, Op.MAX_POOL2D),
    "rescale": rescale,
    "table": table,
    "clamp": clamp,
    "cast": cast,
    "mul": mul,
    "select": select,
    "add": binary(Op.ADD, "Add", I32, HALF),
    "sub": binary(Op.SUB, "Sub", I32, HALF),
    "intdiv": binary(Op.INTDIV, "IntDiv", I32, (1, 2**31 - 1)),
    "maximum": binary(Op.MAXIMUM, "Maximum", I32),
    "minimum": binary(Op.MINIMUM, "Minimum", I32),
    "bitwise_and": binary(Op.BITWISE_AND, "BitwiseAnd", INTS),
    "bitwise_or": binary(Op.BITWISE_OR, "BitwiseOr", INTS),
    "bitwise_xor": binary(Op.BITWISE_XOR, "BitwiseXor", INTS),
    "logical_and": binary(Op.LOGICAL_AND, "LogicalAnd", BOOL),
    "logical_or": binary(Op.LOGICAL_OR, "LogicalOr", BOOL),
    "logical_xor": binary(Op.LOGICAL_XOR, "LogicalXor", BOOL),
    "arithmetic_right_shift": binary(Op.ARITHMETIC_RIGHT_SHIFT, "ArithmeticRightShift", INTS),
    "logical_left_shift": binary(Op.LOGICAL_LEFT_SHIFT, "LogicalLeftShift", INTS),
    "logical_right_shift": binary(Op.LOGICAL_RIGHT_SHIFT, "LogicalRightShift", INTS),
    "equal": binary(Op.EQUAL, "Equal", I32, (-3, 3), compares=True),
    "greater": binary(Op.GREATER, "Greater", I32, (-3, 3), compares=True),
    "greater_equal": binary(Op.GREATER_EQUAL, "GreaterEqual", I32, (-3, 3), compares=True),
    "abs": unary(Op.ABS, "Abs", I32, -(2**31) + 1),
    "clz": unary(Op.CLZ, "Clz", I32),
    "bitwise_not": unary(Op.BITWISE_NOT, "BitwiseNot", INTS),
    "logical_not": unary(Op.LOGICAL_NOT, "LogicalNot", BOOL),
    "negate": unary(Op.NEGATE, "Negate", INTS, -127),
    "reduce_sum": reduce(Op.REDUCE_SUM, "ReduceSum", I32),
    "reduce_max": reduce(Op.REDUCE_MAX, "ReduceMax", INTS),
    "reduce_min": reduce(Op.REDUCE_MIN, "ReduceMin", INTS),
    "reduce_all": reduce(Op.REDUCE_ALL, "ReduceAll", BOOL),
    "reduce_any": reduce(Op.REDUCE_ANY, "ReduceAny", BOOL),
    "argmax": reduce(Op.ARGMAX, "ArgMax", (DType.INT8, DType.INT16)),
    "gather": gather,
    "scatter": scatter,
    "float_conv2d": float_convolution,
    "float_matmul": float_matmul,
    "float_pool": float_pool,
    "float_mul": float_mul,
    "float_cast": float_cast,
    "float_unary": float_unary,
    "float_binary": float_binary,
    "float_reduce": float_reduce,
    **{
        op.name.lower(): movement(op)
        for op in (Op.RESHAPE, Op.TRANSPOSE, Op.REVERSE, Op.SLICE, Op.TILE, Op.CONCAT, Op.PAD, Op.IDENTITY)
    },
    "resize": lambda g: resize(g, (DType.INT8, DType.INT16), [ts.ResizeMode.NEAREST]),
    "float_resize": lambda g: resize(g, (DType.FP32,), [ts.ResizeMode.NEAREST, ts.ResizeMode.BILINEAR]),
}


def defined_case(kind: str, seed: list[int]) -> tuple[Graph, bytes, list[np.ndarray]]:
    """A graph, its bytes and its outputs; where the definition leaves the outputs open, another graph instead."""
    for attempt in range(30):
        graph = Graph([*seed, attempt])
        KINDS[kind](graph)
        payload = graph.file.serialize()
        outputs, status = tosa_reference_model.run(payload, graph.inputs, tosa_level="EIGHTK")
        if status == tosa_reference_model.GraphStatus.TOSA_VALID:
            return graph, payload, [output.reshape(graph.output_shape) for output in outputs]  # scalars come as [1]
        if status != tosa_reference_model.GraphStatus.TOSA_UNPREDICTABLE:
            raise SystemExit(f"{kind} {seed}: the reference model says {status}")
    raise SystemExit(f"{kind} {seed}: no graph of 30 has defined outputs, the last {status}")


def main() -> None:
    seed, count, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    arrays: dict[str, np.ndarray] = {}
    for number, kind in enumerate(KINDS):
        for i in range(count):
            graph, payload, outputs = defined_case(kind, [seed, number, i])
            arrays[f"{kind}/{i}/payload"] = np.frombuffer(payload, np.uint8)
            arrays |= {f"{kind}/{i}/in{k}": array for k, array in enumerate(graph.inputs)}
            arrays |= {f"{kind}/{i}/out{k}": array for k, array in enumerate(outputs)}
    np.savez(file, **arrays)


if __name__ == "__main__":
    main()
