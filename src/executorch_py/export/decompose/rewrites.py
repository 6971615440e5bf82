"""Decompositions that need no tracing: what most models are made of, written down directly.

A rule takes the decomposer, the node and its mapped arguments, and returns the new value (a node, or a list for several
results). It returns None when the general way has to do it: trace the operator once with fake tensors (decomposer.py).
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py.errors import Diagnostic, ErrorCode, NotSupportedError
from executorch_py.graphs.sources import source_of

from .rule import Rule, Writer, bind

aten = torch.ops.aten

_TABLES = (
    aten.bartlett_window,
    aten.blackman_window,
    aten.hamming_window,
    aten.hann_window,
    aten.kaiser_window,
    aten.fft_fftfreq,
    aten.fft_rfftfreq,
)

RULES: dict[OpOverload, Rule] = {}


def _rule(*ops: OpOverload) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for op in ops:
            RULES[op] = function
        return function

    return register


def _repeated(value: Any, count: int) -> list[int]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * count if len(values) == 1 else values


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape)


def _node_value(node: Any) -> Any:
    return node.meta["val"] if isinstance(node, fx.Node) else node


@_rule(aten.cdist.default)
def _distances(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """One pass over the points, whatever the mode; by a matrix product, close points would lose their digits."""
    x1, x2, p, mode = bind(node.target, args, kwargs)
    return self.emit(node, aten._cdist_forward.default, (x1, x2, float(p), mode), node.meta["val"])


@_rule(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def _convolution(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, weight, bias, stride, padding, dilation, groups = bind(node.target, args, kwargs)
    rank = _node_value(weight).dim() - 2
    if _node_value(x).dim() != rank + 2:
        return None  # without a batch dimension
    stride, padding, dilation = (_repeated(v, rank) for v in (stride, padding, dilation))
    arguments = (x, weight, bias, stride, padding, dilation, False, [0] * rank, groups)
    return self.emit(node, aten.convolution.default, arguments, node.meta["val"])


@_rule(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def _transposed_convolution(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, weight, bias, stride, padding, output_padding, groups, dilation = bind(node.target, args, kwargs)
    rank = _node_value(weight).dim() - 2
    if _node_value(x).dim() != rank + 2:
        return None
    stride, padding, output_padding, dilation = (
        _repeated(v, rank) for v in (stride, padding, output_padding, dilation)
    )
    arguments = (x, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return self.emit(node, aten.convolution.default, arguments, node.meta["val"])


@_rule(aten.batch_norm.default)
def _batch_norm(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, weight, bias, mean, variance, training, momentum, eps, _ = bind(node.target, args, kwargs)
    if training or mean is None or variance is None:
        return None
    value = node.meta["val"]
    empty = self.empty_like(value, (0,))
    arguments = (x, weight, bias, mean, variance, momentum, eps)
    op = aten._native_batch_norm_legit_no_training.default
    return self.first_of(node, op, arguments, (value, empty, empty))


@_rule(aten.layer_norm.default)
def _layer_norm(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, shape, weight, bias, eps, _ = bind(node.target, args, kwargs)
    value = node.meta["val"]
    if not _is_static(value) or value.dtype not in (torch.float32, torch.float64):
        return None
    kept = len(value.shape) - len(shape)
    statistics = self.empty_like(value, (*value.shape[:kept], *[1] * len(shape)))
    arguments = (x, list(shape), weight, bias, eps)
    return self.first_of(node, aten.native_layer_norm.default, arguments, (value, statistics, statistics))


#: A cell that a model calls step by step, and the layer that it is one step of.
LAYER_OF_CELL = {
    aten.lstm_cell.default: aten.lstm.input,
    aten.gru_cell.default: aten.gru.input,
    aten.rnn_tanh_cell.default: aten.rnn_tanh.input,
    aten.rnn_relu_cell.default: aten.rnn_relu.input,
}


@_rule(*LAYER_OF_CELL)
def _recurrent_cell(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A sequence of one step, where such layers stay whole: one kernel instead of two products and the gates."""
    layer = LAYER_OF_CELL[node.target]
    x, hx, *weights = bind(node.target, args, kwargs)
    params = [weight for weight in weights if weight is not None]
    states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    dtypes = {_node_value(item).dtype for item in (x, *states, *params)}
    if layer not in self.kept or len(params) == 3 or len(dtypes) > 1 or _node_value(x).dim() != 2:
        return None

    def step(item: fx.Node) -> fx.Node:
        value = _node_value(item)
        return self.emit(node, aten.unsqueeze_copy.default, (item, 0), self.empty_like(value, (1, *value.shape)))

    steps = [step(state) for state in states]
    results = tuple(_node_value(state) for state in (steps[0], *steps))  # of one step: the sequence, then the states
    arguments = (step(x), steps if len(steps) > 1 else steps[0], params, len(params) == 4, 1, 0.0, False, False, False)
    call = self.writer.emit(node, layer, arguments, None, results)
    new = []
    for index, state in enumerate(states, 1):
        item = self.writer.emit(node, operator.getitem, (call, index), None, results[index])
        new.append(self.emit(node, aten.squeeze_copy.dims, (item, [0]), _node_value(state)))
    return new if len(new) > 1 else new[0]


@_rule(aten.max_pool2d.default)
def _max_pool2d(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, kernel, stride, padding, dilation, ceil_mode = bind(node.target, args, kwargs)
    value = node.meta["val"]
    kernel, padding, dilation = (_repeated(v, 2) for v in (kernel, padding, dilation))
    stride = _repeated(stride, 2) if stride else kernel
    indices = self.empty_like(value, value.shape, torch.int64)
    arguments = (x, kernel, stride, padding, dilation, ceil_mode)
    return self.first_of(node, aten.max_pool2d_with_indices.default, arguments, (value, indices))


@_rule(aten.adaptive_avg_pool2d.default)
def _adaptive_avg_pool2d(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, size = args
    if _repeated(size, 2) != [1, 1]:
        return None
    return self.emit(node, aten.mean.dim, (x, [-1, -2], True), node.meta["val"])


@_rule(
    aten.flatten.using_ints,
    aten.reshape.default,
    aten.view.default,
    aten._unsafe_view.default,
    aten.unflatten.int,
    aten.view_as.default,
    aten.reshape_as.default,
    aten._reshape_alias.default,
    aten.squeeze.default,
)
def _view(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    value = node.meta["val"]
    if not _is_static(value):
        return None
    if node.target is not aten.view.default and list(_node_value(args[0]).shape) == list(value.shape):
        return args[0]
    return self.emit(node, aten.view_copy.default, (args[0], list(value.shape)), value)


@_rule(aten.t.default, aten.numpy_T.default, aten.transpose.int, aten.swapaxes.default, aten.transpose_copy.int)
def _transpose(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, *exchanged = bind(node.target, args, kwargs)
    rank = node.meta["val"].dim()
    dims = list(range(rank))
    if exchanged and rank:
        first, second = (dim % rank for dim in exchanged)
        dims[first], dims[second] = second, first
    else:
        dims.reverse()
    if dims == list(range(rank)):
        return x
    return self.emit(node, aten.permute_copy.default, (x, dims), node.meta["val"])


@_rule(
    aten.alias.default,
    aten.detach.default,
    aten.detach_copy.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.contiguous.default,
    aten.resolve_conj.default,
    aten.resolve_neg.default,
    aten.positive.default,
    aten.alias_copy.default,
)
def _same(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Values, not memory, count in Edge: tensors are row-major and nothing is written in place."""
    return args[0]


@_rule(aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default)
def _dropout(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, _, training = bind(node.target, args, kwargs)
    return x if training is False else None


@_rule(
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.device,
    aten.to.other,
    aten.type_as.default,
    aten._to_copy.default,
    aten._autocast_to_reduced_precision.default,
)
def _to(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    value = node.meta["val"]
    if not isinstance(args[0], fx.Node):  # a number that tracing found in the place of a tensor
        return self.emit(node, aten.full.default, (list(value.shape), args[0]), value, {"dtype": value.dtype})
    if _node_value(args[0]).dtype == value.dtype:
        return args[0]
    return self.emit(node, aten._to_copy.default, (args[0],), value, {"dtype": value.dtype})


@_rule(aten.mean.default, aten.mean.dim)
def _mean(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Integers are converted before they are added; the kernel does that for floating types alone."""
    value, x = node.meta["val"], _node_value(args[0])
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return None
    converted = self.empty_like(value, x.shape)
    whole = self.emit(node, aten._to_copy.default, (args[0],), converted, {"dtype": value.dtype})
    rest = {key: item for key, item in kwargs.items() if key != "dtype"}
    return self.emit(node, node.target, (whole, *args[1:]), value, rest)


@_rule(aten.softmax.int, aten.log_softmax.int)
def _softmax(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, dim, _ = bind(node.target, args, kwargs)
    value = node.meta["val"]
    if _node_value(x).dtype != value.dtype:
        return None
    op = aten._softmax.default if node.target is aten.softmax.int else aten._log_softmax.default
    return self.emit(node, op, (x, dim, False), value)


@_rule(aten.expand_as.default)
def _expand_as(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    value = node.meta["val"]
    if not _is_static(value):
        return None
    return self.emit(node, aten.expand_copy.default, (args[0], list(value.shape)), value)


@_rule(aten.matmul.default)
def _matmul(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    left, right = map(_node_value, args)
    ranks = (left.dim(), right.dim())
    if ranks == (2, 2):
        return self.emit(node, aten.mm.default, args, node.meta["val"])
    if ranks == (3, 3) and left.shape[0] is right.shape[0]:
        return self.emit(node, aten.bmm.default, args, node.meta["val"])
    return None


@_rule(aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default)
def _as_strided(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Strides into a tensor's memory mean the same in Edge only when that memory is the whole tensor, row-major."""
    value = _node_value(node.args[0])
    if value.is_contiguous() and value.storage_offset() == 0:
        return None
    source = source_of(node)
    raise NotSupportedError(
        f"{node.target} reads the memory behind a tensor that is a view or not row-major, which has another layout in "
        "a program; call contiguous() before it",
        diagnostics=[
            Diagnostic(
                "as_strided of a tensor that is not the whole of its memory, row-major; call contiguous() before it",
                ErrorCode.NotSupported,
                op=str(node.target),
                node=node.name,
                module_path=source.module_path or None,
                file=source.file or None,
                line=source.line or None,
            )
        ],
    )


@_rule(aten.sym_storage_offset.default, aten.sym_stride.int, aten.sym_is_contiguous.default)
def _layout(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Tensors are row-major and start at their memory in Edge. Other strides that the data decides have no form."""
    value, target = node.meta["val"], node.target
    if isinstance(value, (bool, int)):
        return value
    if target is aten.sym_storage_offset.default:
        return 0
    if target is aten.sym_is_contiguous.default:
        return True
    x, of = args
    tensor = _node_value(x)
    if not tensor.is_contiguous():
        return None
    stride: Any = 1
    for dim in range(of % tensor.dim() + 1, tensor.dim()):
        size = tensor.shape[dim]
        factor = size if isinstance(size, int) else self.emit(node, aten.sym_size.int, (x, dim), size)
        product = _node_value(stride) * size
        plain = isinstance(stride, int) and isinstance(factor, int)
        stride = product if plain else self.emit(node, operator.mul, (stride, factor), product)
    return stride


@_rule(aten.empty_permuted.default, aten.new_empty_strided.default)
def _empty(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Strides are of no account: Edge tensors are row-major."""
    value = node.meta["val"]
    if not _is_static(value):
        return None
    options = {"dtype": value.dtype, "device": value.device}
    return self.emit(node, aten.empty.memory_format, (list(value.shape),), value, options)


@_rule(aten.pad.default)
def _circular_pad(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The ends of each dim and what is between them, one after the other; traced, they are written into an empty
    tensor.
    """
    x, pad, mode, _ = bind(node.target, args, kwargs)
    if mode != "circular" or not _is_static(node.meta["val"]) or not all(isinstance(n, int) and n >= 0 for n in pad):
        return None
    shape = list(_node_value(x).shape)
    for i in range(len(pad) // 2):
        dim, (low, high) = len(shape) - 1 - i, pad[2 * i : 2 * i + 2]
        size = shape[dim]

        def part(start: int, end: int, x: fx.Node = x, dim: int = dim) -> fx.Node:
            value = self.empty_like(node.meta["val"], (*shape[:dim], end - start, *shape[dim + 1 :]))
            return self.emit(node, aten.slice_copy.Tensor, (x, dim, start, end), value)

        parts = [x]
        if low > 0:
            parts.insert(0, part(size - low, size))
        if high > 0:
            parts.append(part(0, high))
        shape[dim] += low + high
        if len(parts) > 1:
            x = self.emit(node, aten.cat.default, (parts, dim), self.empty_like(node.meta["val"], shape))
    return x


@_rule(aten.round.decimals)
def _round_decimals(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """As PyTorch does it: times a power of ten, rounded, divided by it (the other way round for negative decimals)."""
    value = node.meta["val"]
    x, decimals = bind(node.target, args, kwargs)
    if decimals == 0 or not value.dtype.is_floating_point:
        return self.emit(node, aten.round.default, (x,), value)
    before, after = (aten.mul.Scalar, aten.div.Scalar) if decimals > 0 else (aten.div.Scalar, aten.mul.Scalar)
    factor = float(10 ** abs(decimals))
    scaled = self.emit(node, before, (x, factor), value)
    return self.emit(node, after, (self.emit(node, aten.round.default, (scaled,), value), factor), value)


@_rule(aten.pow.Tensor_Scalar)
def _complex_power(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Small whole powers of complex numbers, which have no kernel for others, are products."""
    value, (x, exponent) = node.meta["val"], args
    if not value.is_complex() or not isinstance(exponent, (int, float)) or exponent not in range(1, 9):
        return None
    power = x
    for bit in f"{int(exponent):b}"[1:]:
        power = self.emit(node, aten.mul.Tensor, (power, power), value)
        if bit == "1":
            power = self.emit(node, aten.mul.Tensor, (power, x), value)
    return power


def _parts(self: Writer, node: fx.Node, value: Any) -> fx.Node:
    """The real and imaginary parts of a complex value, in a last dim."""
    complex_value = _node_value(value)
    real = self.empty_like(complex_value, (*complex_value.shape, 2), complex_value.real.dtype)
    return self.emit(node, aten.view_as_real_copy.default, (value,), real)


@_rule(aten.cumsum.default)
def _complex_cumsum(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, dim, _ = bind(node.target, args, kwargs)
    value = node.meta["val"]
    if not value.is_complex() or _node_value(x).dtype != value.dtype:
        return None
    parts = _parts(self, node, x)
    sums = self.emit(node, aten.cumsum.default, (parts, dim % max(value.dim(), 1)), parts.meta["val"])
    return self.emit(node, aten.view_as_complex_copy.default, (sums,), value)


@_rule(aten.isnan.default, aten.isinf.default, aten.isfinite.default)
def _complex_class(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    if not _node_value(args[0]).is_complex():
        return None
    parts = _parts(self, node, args[0])
    each = self.emit(
        node, node.target, (parts,), self.empty_like(parts.meta["val"], parts.meta["val"].shape, torch.bool)
    )
    join = aten.all.dim if node.target is aten.isfinite.default else aten.any.dim
    return self.emit(node, join, (each, -1), node.meta["val"])


@_rule(aten.item.default)
def _item(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Traced, the number would get another symbol than the one that later nodes know it by."""
    return self.emit(node, aten._local_scalar_dense.default, args, node.meta["val"])


@_rule(aten.relu6.default)
def _relu6(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    return self.emit(node, aten.hardtanh.default, (args[0], 0, 6), node.meta["val"])


@_rule(*(getattr(packet, name) for packet in _TABLES for name in packet.overloads() if "out" not in name))
def _table(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A table of numbers that depends on its size alone: a constant."""
    if any(isinstance(argument, fx.Node) for argument in args):
        return None
    table: Any = node.target
    return self.writer.lift_constant(table(*args, **kwargs), node.meta["val"])
