"""What q/dq nodes say: which nodes of an fx graph quantize, and to what.

The vocabulary is the one that torchao's flows leave in graphs: ``quantized_decomposed`` (PT2E) and ``torchao`` (affine
quantization, ``quantize_``). Arguments are found by the names of the schema, so that overloads need no table.

Example:
    >>> quantization_of(dequantize_node, constant)  # doctest: +SKIP
    Quantization(dtype='int8', granularity='per channel', ...)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.graphs.quantization import Quantization
from executorch_py.operator_facts import OPERATORS

__all__ = [
    "GROUP_SIZE",
    "REARRANGING",
    "arguments_of",
    "constant_nodes",
    "fake_mode_of",
    "is_dynamic",
    "is_value_preserving",
    "iterate_arguments",
    "kind_of",
    "module_attribute",
    "named_arguments",
    "op_name",
    "quantization_of",
    "set_argument",
    "value_source",
]

#: In ``meta["custom"]`` of a weight's dequantize: the size of groups that was requested and does not divide its
#: columns.
GROUP_SIZE = "executorch_py.group_size"

#: Operators that only rearrange values, by name without overload: their figures are those of their operand.
REARRANGING = frozenset(
    op.base_name for op in OPERATORS.values() if op.moves in ("reshape", "permute", "part", "repeat")
) | {"getitem"}

_NAMESPACES = ("quantized_decomposed", "torchao")
_KINDS = {"quantize": "quantize", "dequantize": "dequantize", "choose_qparams": "choose", "_choose_qparams": "choose"}

# Operators that hand on their first argument's values, perhaps in another element type.
_SAME_VALUES = frozenset(
    (
        "alias",
        "clone",
        "contiguous",
        "convert_element_type",
        "detach",
        "detach_",
        "dropout",
        "feature_dropout",
        "lift_fresh",
        "lift_fresh_copy",
        "to",
        "_to_copy",
    )
)


def op_name(node: fx.Node) -> str:
    """The name "conv2d" of a node with the target ``aten.conv2d.default``; empty for what calls no operator."""
    if node.op != "call_function":
        return ""
    if isinstance(node.target, OpOverload):
        return node.target._schema.name.split("::")[1]
    return getattr(node.target, "__name__", str(node.target))


def kind_of(node: fx.Node) -> str:
    """``quantize``, ``dequantize``, ``choose`` (parameters computed at run time) or an empty string."""
    if node.op != "call_function":
        return ""
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        return "choose" if kind_of(node.args[0]) == "choose" else ""
    if not isinstance(node.target, OpOverload) or node.target.namespace not in _NAMESPACES:
        return ""
    name = op_name(node)
    return next((kind for start, kind in _KINDS.items() if name.startswith(start)), "")


def is_value_preserving(node: fx.Node) -> bool:
    """Whether the node hands on its first argument's values: a clone, a cast, a dropout of an evaluated model."""
    return node.op == "call_function" and op_name(node) in _SAME_VALUES and bool(node.all_input_nodes)


def value_source(node: fx.Node) -> fx.Node:
    """The node whose values these are, behind q/dq pairs, casts and copies."""
    while kind_of(node) in ("quantize", "dequantize") or is_value_preserving(node):
        node = node.all_input_nodes[0]
    return node


def named_arguments(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call by the names of the operator's schema, in its order, defaults included."""
    found: dict[str, Any] = {}
    for index, argument in enumerate(op._schema.arguments):
        if index < len(args):
            found[argument.name] = args[index]
        elif argument.name in kwargs:
            found[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            found[argument.name] = argument.default_value
    return found


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """``named_arguments`` of the call that a node is."""
    assert isinstance(node.target, OpOverload)
    return named_arguments(node.target, node.args, node.kwargs)


def set_argument(node: fx.Node, name: str, value: Any) -> None:
    """Gives a node another argument, by the name of the operator's schema."""
    assert isinstance(node.target, OpOverload)
    names = [argument.name for argument in node.target._schema.arguments if not argument.kwarg_only]
    index = names.index(name) if name in names else len(names)
    if name in node.kwargs or index > len(node.args) or index == len(names):
        node.update_kwarg(name, value)
    else:
        node.args = (*node.args[:index], value, *node.args[index + 1 :])


def is_dynamic(node: fx.Node) -> bool:
    """Whether a quantize or dequantize node's parameters are computed from the value at run time."""
    scale = _first(arguments_of(node), "scale", "scales")
    return isinstance(scale, fx.Node) and kind_of(scale) == "choose"


def fake_mode_of(program: ExportedProgram) -> FakeTensorMode:
    """The mode of the program's fake tensors; a new one where it has none."""
    for node in program.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, FakeTensor):
                return value.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def module_attribute(module: torch.nn.Module, path: str) -> Any:
    """The attribute that a ``get_attr`` node names."""
    held: Any = module
    for name in path.split("."):
        held = getattr(held, name)
    return held


def constant_nodes(module: fx.GraphModule) -> set[fx.Node]:
    """Nodes that need no input: parameters, buffers that nothing writes to, and what is computed from them alone."""
    written = {_root(node.args[0]) for node in module.graph.nodes if _writes(node) and node.args}
    found: set[fx.Node] = set()
    for node in module.graph.nodes:
        if node.op == "get_attr":
            if f"get_attr {node.target}" not in written:
                found.add(node)
        elif node.op == "call_function" and not _writes(node):
            inputs = node.all_input_nodes
            if (inputs and all(value in found for value in inputs)) or (not inputs and _is_deterministic_source(node)):
                found.add(node)
    return found


def _is_deterministic_source(node: fx.Node) -> bool:
    """A node without inputs that makes the same tensor each time: ``arange``, ``full``, not ``rand``."""
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded not in node.target.tags


def _writes(node: fx.Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _root(value: Any) -> str:
    while isinstance(value, fx.Node) and value.op == "call_function" and value.all_input_nodes:
        value = value.all_input_nodes[0]
    return f"{value.op} {value.target}" if isinstance(value, fx.Node) else ""


def quantization_of(node: fx.Node, constant: Callable[[fx.Node], Any]) -> Quantization:
    """What a quantize or dequantize node says.

    Args:
        node: The node.
        constant: Value of a constant node (scales and zero points of channels).
    """
    arguments = arguments_of(node)
    dtype = _first(arguments, "dtype", "input_dtype", "output_dtype")
    low, high = _integers(arguments, dtype)
    dynamic = is_dynamic(node)
    scales: list[float] = []
    range_low = range_high = None
    if not dynamic:
        scale = _values(_first(arguments, "scale", "scales"), constant)
        zero = _values(_first(arguments, "zero_point", "zero_points"), constant)
        if scale is not None:
            zero = torch.zeros_like(scale) if zero is None or zero.numel() == 0 else zero
            scales = [float(scale.min()), float(scale.max())]
            range_low = float(((low - zero) * scale).min())
            range_high = float(((high - zero) * scale).max())
    return Quantization(
        dtype=_dtype_name(dtype, low, high),
        granularity=_granularity(node, arguments),
        dynamic=dynamic,
        smallest_scale=scales[0] if scales else None,
        largest_scale=scales[1] if scales else None,
        low=range_low,
        high=range_high,
        quant_min=low,
        quant_max=high,
    )


def _first(arguments: dict[str, Any], *names: str) -> Any:
    return next((arguments[name] for name in names if name in arguments), None)


def _values(argument: Any, constant: Callable[[fx.Node], Any]) -> torch.Tensor | None:
    value = constant(argument) if isinstance(argument, fx.Node) else argument
    return None if value is None else torch.as_tensor(value, dtype=torch.float64).reshape(-1)


def _integers(arguments: dict[str, Any], dtype: Any) -> tuple[int, int]:
    low, high = arguments.get("quant_min"), arguments.get("quant_max")
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        return int(low), int(high)
    if isinstance(dtype, torch.dtype) and not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        return int(limits.min), int(limits.max)
    return -128, 127


def _dtype_name(dtype: Any, low: int, high: int) -> str:
    """A name such as "int4" where only sixteen values of a wider type are used, else the type's own name."""
    name = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else "int8"
    levels = high - low + 1
    if levels <= 16:
        return f"{'u' if low >= 0 else ''}int{2 if levels <= 4 else 4}"
    return name


def _granularity(node: fx.Node, arguments: dict[str, Any]) -> str:
    name = op_name(node)
    if "per_channel_group" in name:
        return f"per group of {arguments.get('group_size')}"
    if "per_channel" in name:
        axis = arguments.get("axis", 0)
        return "per channel" if axis == 0 else f"per channel of dim {axis}"
    if "per_token" in name:
        return "per token"
    if "affine" in name:
        return _of_blocks(arguments, is_dynamic(node))
    return "per tensor"


def _of_blocks(arguments: dict[str, Any], dynamic: bool) -> str:
    blocks = arguments.get("block_size")
    value = arguments.get("input")
    tensor = value.meta.get("val") if isinstance(value, fx.Node) else None
    if not isinstance(blocks, (list, tuple)) or tensor is None or len(blocks) != tensor.dim():
        return f"blocks of {list(blocks)}" if isinstance(blocks, (list, tuple)) else "per tensor"
    cut = [dim for dim, (block, size) in enumerate(zip(blocks, tensor.shape, strict=True)) if block != size]
    if not cut:
        return "per tensor"
    if all(blocks[dim] == 1 for dim in cut):
        if dynamic:
            return "per token"
        return "per channel" if cut[0] == 0 else f"per channel of dim {cut[0]}"
    return f"per group of {blocks[-1]}"


def iterate_arguments(node: fx.Node) -> Iterator[fx.Node]:
    """Every node among the arguments, in order, as often as it stands there."""

    def walk(value: Any) -> Iterator[fx.Node]:
        if isinstance(value, fx.Node):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from walk(item)
        elif isinstance(value, dict):
            for item in value.values():
                yield from walk(item)

    yield from walk(node.args)
    yield from walk(node.kwargs)
