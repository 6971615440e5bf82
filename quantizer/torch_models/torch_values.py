"""Values and operators of torch's own quantization, on ordinary tensors: a quantize and a dequantize around each
operator.

A model that torch has quantized (torch_quantized.py) hands quantized tensors from operator to operator. Nothing exports
these. Here a :class:`QuantizedValue` takes their place: what the integers stand for, with their scale. Functions of
torch come to it through ``__torch_function__``. One table says what each operator of the namespace ``quantized``
computes.

>>> x = quantize(torch.tensor([0.1, -0.26]), 0.1, 128, torch.quint8)  # doctest: +SKIP
>>> torch.relu(x).values  # doctest: +SKIP
tensor([0.1000, 0.0000])
"""

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  registers the operators
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from executorch_py.errors import NotSupportedError

from . import torch_recurrent
from .torch_recurrent import linear_dynamically, measured
from .torch_weights import PackedConvolution, PackedWeight

_q = torch.ops.quantized_decomposed

#: torch's dtype -> smallest and largest integer, the dtype that holds them, and what torch's integers are larger by.
_STORED: dict[torch.dtype, tuple[int, int, torch.dtype, int]] = {
    torch.quint8: (-128, 127, torch.int8, 128),
    torch.qint8: (-128, 127, torch.int8, 0),
    torch.qint32: (-(2**31), 2**31 - 1, torch.int32, 0),
}


class QuantizedValue:
    """What stands for a quantized tensor of torch while a model runs or is exported.

    Attributes:
        values: What the integers stand for, float32.
        integers: As int8, where torch has uint8 less by 128.
        scale: Of one step.
        zero_point: As torch counts it.
        dtype: torch's: ``torch.quint8``, ``torch.qint8`` or ``torch.qint32``.
    """

    is_quantized = True

    def __init__(
        self, values: torch.Tensor, integers: torch.Tensor, scale: float, zero_point: int, dtype: torch.dtype
    ) -> None:
        self.values, self.integers = values, integers
        self.scale, self.zero_point, self.dtype = scale, zero_point, dtype

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return call(function, *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        member = None if name.startswith("__") else getattr(torch.Tensor, name, None)
        if member is None:
            raise AttributeError(f"a quantized tensor has no attribute {name!r}")
        if callable(member):
            return functools.partial(call, member, self)
        value = getattr(self.values, name)  # a property: the sizes, the transposed tensor
        return self.like(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    def __getitem__(self, index: Any) -> Any:
        return call(torch.Tensor.__getitem__, self, index)

    def __gt__(self, other: Any) -> Any:
        return call(torch.gt, self, other)

    def __lt__(self, other: Any) -> Any:
        return call(torch.lt, self, other)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return iter(call(torch.unbind, self))

    def dequantize(self) -> torch.Tensor:
        """What the integers stand for."""
        return self.values

    def int_repr(self) -> torch.Tensor:
        """The integers, as torch holds them."""
        if self.dtype != torch.quint8:
            return self.integers
        return (self.integers.to(torch.int16) + 128).to(torch.uint8)

    def q_scale(self) -> float:
        """The scale."""
        return self.scale

    def q_zero_point(self) -> int:
        """The zero point, as torch counts it."""
        return self.zero_point

    def qscheme(self) -> Any:
        """One scale for the tensor."""
        return torch.per_tensor_affine

    def like(self, values: torch.Tensor) -> "QuantizedValue":
        """Other values with this one's scale."""
        return quantize(values, self.scale, self.zero_point, self.dtype)


class QuantizedValues(TorchFunctionMode):
    """While active, what torch would make quantized tensors of becomes QuantizedValues."""

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if is_quantized_function(function):
            return call(function, *args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


def quantize(x: Any, scale: Any, zero_point: Any, dtype: torch.dtype) -> QuantizedValue:
    """A tensor as integers with one scale.

    Raises:
        NotSupportedError: A dtype that activations do not have.
    """
    if dtype not in _STORED:
        raise NotSupportedError(f"an activation of {dtype}; from_torch_quantized takes quint8, qint8 and qint32")
    low, high, stored, shift = _STORED[dtype]
    scale, zero_point = float(scale), int(zero_point)
    arguments = (scale, zero_point - shift, low, high, stored)
    integers = _q.quantize_per_tensor.default(plain(x), *arguments)
    return QuantizedValue(_q.dequantize_per_tensor.default(integers, *arguments), integers, scale, zero_point, dtype)


def quantized_constant(weight: PackedWeight) -> QuantizedValue:
    """A quantized tensor that a layer holds."""
    dtype = torch.quint8 if weight.integers.dtype == torch.uint8 else torch.qint8
    return QuantizedValue(weight.values(), weight.integers, weight.scale, weight.zero_point, dtype)


def plain(tree: Any) -> Any:
    """The same with ordinary tensors, those that quantized values stand for."""
    return pytree.tree_map_only(QuantizedValue, lambda value: value.values, tree)


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function of torch gives where some of its arguments are quantized values."""
    if name := _operator_name(function):
        return _operator(name, function, args, kwargs)
    if function in _FUNCTIONS:
        return _FUNCTIONS[function](*args, **kwargs)
    name = getattr(function, "__name__", "")
    if name in ("dequantize", "int_repr", "q_scale", "q_zero_point", "qscheme"):
        return getattr(args[0], name)()
    if name.startswith("__set") or name in ("copy_", "fill_", "zero_", "add_", "mul_"):
        raise NotSupportedError(f"{name} writes into a quantized tensor; let the model make a new one of its parts")
    return _with_its_scale(function, name, args, kwargs)


# ---------------------------------------------------------------------------------------------------- torch's functions


def _with_its_scale(function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that has a kernel for quantized tensors: its results have the scale of its first, but for three that
    know their range.
    """
    first = next(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, QuantizedValue))
    in_place = bool(kwargs.get("inplace")) or (name.endswith("_") and not name.endswith("__"))
    if kwargs.get("inplace"):
        kwargs = {**kwargs, "inplace": False}
    elif in_place:
        name = name[:-1]
        function = next(f for home in (torch, torch.Tensor, functional) if (f := getattr(home, name, None)))
    scale, zero_point = _own_scale(name, first.dtype) or (first.scale, first.zero_point)

    def quantized(value: torch.Tensor) -> Any:
        return quantize(value, scale, zero_point, first.dtype) if value.is_floating_point() else value

    result = pytree.tree_map_only(torch.Tensor, quantized, function(*plain(args), **plain(kwargs)))
    if in_place:
        vars(first).update(vars(result))
        return first
    return result


def _own_scale(name: str, dtype: torch.dtype) -> tuple[float, int] | None:
    """The scale and zero point that torch gives the results of functions whose range is known."""
    smallest = 0 if dtype == torch.quint8 else -128
    if name in ("sigmoid", "hardsigmoid"):
        return 1 / 256, smallest
    return (2 / 256, smallest + 128) if name == "tanh" else None


# --------------------------------------------------------------------------------- operators of the namespace quantized

_Given = SimpleNamespace
#: How schemas name the scale and zero point of a result; elu has a factor beside it that is named scale.
_RESULT_SCALES = (
    ("output_scale", "output_zero_point"),
    ("Y_scale_i", "Y_zero_point_i"),
    ("scale", "zero_point"),
)


def _operator_name(function: Any) -> str:
    """The name of one of torch's operators for quantized tensors; empty for other functions."""
    packet = getattr(function, "overloadpacket", function)
    name = getattr(packet, "_qualified_op_name", "")
    return name.removeprefix("quantized::") if name.startswith("quantized::") else ""


def is_quantized_function(function: Any) -> bool:
    """Whether a function of torch makes quantized tensors, or is for nothing else."""
    return function in _FUNCTIONS or bool(_operator_name(function))


def _operator(name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = _given(name, function, args, kwargs)
    if name in _FLOAT:
        return _FLOAT[name](_Given(**plain(given)))
    if name == "dropout":
        return given["self"]
    base, relu = (name, False) if name in _REQUANTIZED else (name.removesuffix("_relu"), name.endswith("_relu"))
    quantized = [v for v in pytree.tree_leaves(given) if isinstance(v, QuantizedValue)]
    scalar = _scalar_of(base, given)
    if scalar is not None:
        return _with_scalar(base[:3], quantized[0], scalar, relu)
    if base not in _REQUANTIZED or not quantized:
        raise NotSupportedError(
            f"torch.ops.quantized.{name} has no form here; quantize the float model with executorch_py.quantizer"
        )
    values = _REQUANTIZED[base](_Given(**plain(given), quantized=given))
    values = torch.relu(values) if relu else values
    for scale, zero_point in _RESULT_SCALES:
        if given.get(scale) is not None:
            return quantize(values, given[scale], given[zero_point], quantized[0].dtype)
    return quantized[0].like(values)


def _given(name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names that the operator's schema has for them: of the shortest overload that they fit."""
    packet = getattr(function, "overloadpacket", function)
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    for schema in sorted(schemas, key=lambda schema: len(schema.arguments)):
        names = [argument.name for argument in schema.arguments]
        if len(args) <= len(names) and {*kwargs} <= {*names}:
            bound = {**dict(zip(names, args, strict=False)), **kwargs}
            missing = {a.name: a.default_value for a in schema.arguments if a.name not in bound}
            if all(a.has_default_value() for a in schema.arguments if a.name in missing):
                return {**missing, **bound}
    raise NotSupportedError(f"torch.ops.quantized.{name} was given arguments that no overload of it takes")


def _scalar_of(base: str, given: dict[str, Any]) -> float | None:
    """The number that an operator adds or multiplies with; None where it takes two tensors."""
    if base not in ("add", "mul", "add_scalar", "mul_scalar") or "b" not in given:
        return None
    return float(given["b"])


def _with_scalar(kind: str, x: QuantizedValue, number: float, relu: bool) -> QuantizedValue:
    """A sum or product with a number changes the scale, and the integers where they would not fit."""
    smallest = 0 if x.dtype == torch.quint8 else -128
    largest = smallest + 255
    values, scale, point = x.values, x.scale, x.zero_point
    if kind == "mul":
        scale, point = abs(number) * scale, point if number > 0 else largest + smallest - point
        scale, point = (1.0, 0) if number == 0 else (scale, point)
        values = values * number
    else:
        steps = round(number / scale)
        values, wanted = values + steps * scale, point - steps
        point = min(max(wanted, smallest), largest)
        scale *= max(1.0, (largest - wanted) / 255, (wanted - smallest) / 255)
    return quantize(torch.relu(values) if relu else values, scale, point, x.dtype)


def _batch_norm(g: _Given) -> torch.Tensor:
    return functional.batch_norm(g.qx, g.mean, g.var, g.weight, g.bias, False, 0.0, g.eps)


def _convolved(g: _Given) -> torch.Tensor:
    packed: PackedConvolution = g.packed_weight if hasattr(g, "packed_weight") else g.weight
    return packed(g.qx)


def _convolved_dynamically(g: _Given) -> torch.Tensor:
    return g.packed_weight(measured(g.qx, g.reduce_range))


def _linear(g: _Given) -> torch.Tensor:
    return functional.linear(g.X, g.W_prepack.values(), g.W_prepack.bias)


def _table_bag(g: _Given) -> torch.Tensor:
    """Sums of rows. Bags of one size each are sums over a dimension, which leave the table as it is."""
    if g.mode != 0 or g.compressed_indices_mapping is not None:
        raise NotSupportedError("a bag of embeddings that is pruned or takes means; torch quantizes sums")
    if g.indices.dim() == 2:
        rows = g.weight.rows(g.indices)
        return (rows if g.per_sample_weights is None else rows * g.per_sample_weights[..., None]).sum(1)
    return functional.embedding_bag(
        g.indices,
        g.weight.values(),
        g.offsets,
        mode="sum",
        per_sample_weights=g.per_sample_weights,
        include_last_offset=g.include_last_offset,
    )


def _prelu(g: _Given) -> torch.Tensor:
    """Torch multiplies what is positive by one as the slopes' integers have it, which is less where their range ends
    before.
    """
    slopes: QuantizedValue = g.quantized["weight"]
    largest = (255 if slopes.dtype == torch.quint8 else 127) - slopes.zero_point
    one = min(round(1 / slopes.scale), largest) * slopes.scale
    return torch.relu(g.qx) * one + functional.prelu(g.qx.clamp(max=0), g.weight)


def _pool(name: str) -> Callable[[_Given], torch.Tensor]:
    return lambda g: getattr(functional, name)(
        g.qx, g.kernel_size, g.stride or None, g.padding, g.dilation, g.ceil_mode
    )


#: Operator, without its relu -> what it computes in floats, before the result gets its scale, or that of its input.
_REQUANTIZED: dict[str, Callable[[_Given], torch.Tensor]] = {
    "add": lambda g: g.qa + g.qb,
    "mul": lambda g: g.qa * g.qb,
    "matmul": lambda g: g.qa @ g.qb,
    "cat": lambda g: torch.cat(g.qx, g.dim),
    **dict.fromkeys(("batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d"), _batch_norm),
    "layer_norm": lambda g: functional.layer_norm(g.input, g.normalized_shape, g.weight, g.bias, g.eps),
    "group_norm": lambda g: functional.group_norm(g.input, g.num_groups, g.weight, g.bias, g.eps),
    "instance_norm": lambda g: functional.instance_norm(g.input, weight=g.weight, bias=g.bias, eps=g.eps),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolved),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _convolved),
    "conv2d_add": lambda g: g.packed_weight(g.qx) + g.qaccum,
    "linear": _linear,
    "linear_leaky_relu": lambda g: functional.leaky_relu(_linear(g), g.negative_slope),
    "linear_tanh": lambda g: torch.tanh(_linear(g)),
    "elu": lambda g: functional.elu(g.self, g.alpha),
    "celu": lambda g: functional.celu(g.self, g.alpha),
    "hardswish": lambda g: functional.hardswish(g.input),
    "leaky_relu": lambda g: functional.leaky_relu(g.qx, g.negative_slope),
    "prelu": _prelu,
    "sigmoid": lambda g: torch.sigmoid(g.qx),
    "softmax": lambda g: torch.softmax(g.qx, g.dim),
    "relu6": lambda g: functional.relu6(g.qx),
    "clamp": lambda g: torch.clamp(g.qx, g.min, g.max),
    "threshold": lambda g: functional.threshold(g.qx, g.threshold, g.value),
    "max_pool1d": _pool("max_pool1d"),
    "max_pool2d": _pool("max_pool2d"),
}


def _linear_of_floats(g: _Given) -> torch.Tensor:
    return linear_dynamically(g.X, g.W_prepack, getattr(g, "reduce_range", False))


def _linear_of_given_scale(g: _Given) -> torch.Tensor:
    x = quantize(g.X, g.X_scale, g.X_zero_point, torch.quint8)
    return functional.linear(x.values, g.W_prepack.values(), g.W_prepack.bias)


#: Operator -> what it computes: its results are floats.
_FLOAT: dict[str, Callable[[_Given], Any]] = {
    **dict.fromkeys(("linear_dynamic", "linear_dynamic_fp16"), _linear_of_floats),
    **dict.fromkeys(("linear_relu_dynamic", "linear_relu_dynamic_fp16"), lambda g: torch.relu(_linear_of_floats(g))),
    **dict.fromkeys(
        [f"conv{kind}{dims}d_dynamic" for kind in ("", "_transpose") for dims in (1, 2, 3)], _convolved_dynamically
    ),
    "linear_with_input_q_dq_qweight_dq_output_fp32": _linear_of_given_scale,
    "linear_with_input_q_dq_qweight_dq_relu_output_fp32": lambda g: torch.relu(_linear_of_given_scale(g)),
    **dict.fromkeys(("embedding_byte", "embedding_4bit"), lambda g: g.weight.rows(g.indices)),
    **dict.fromkeys(("embedding_bag_byte", "embedding_bag_4bit"), _table_bag),
    **torch_recurrent.CELLS,
}

#: Functions of torch that make quantized tensors, and recurrent layers -> what stands for them.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    torch.quantize_per_tensor: quantize,
    torch.quantized_lstm: torch_recurrent.lstm,
    torch.quantized_gru: torch_recurrent.gru,
}
