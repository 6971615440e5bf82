"""What a layer computes in that is not quantized as the rest of its model: float32, integers made at run time, or float16.

fallback        a convolution or linear layer                          other operators
float32         with its float weight                                  in float32
dynamic_int8    keeps its integers; those of its input get their       in float32
                scale at run time, and its result is not quantized
float16         input, weight and result are float16                   in float32

An input whose outliers move from sample to sample, or a result with a few channels that are far larger than the others, has no
good fixed scale: run time knows the first, and floats have no such trouble with the second, while the multiplications stay
between integers.
"""

import operator
from typing import Any, Literal

import torch
from torch import fx

from executorch_py.devtools.quantization.nodes import arguments_of, kind_of, op_name

from . import smallest_scales

Fallback = Literal["float32", "dynamic_int8", "float16"]

_decomposed = torch.ops.quantized_decomposed

_DIRECT = frozenset(("linear", "conv1d", "conv2d"))


def can_be_dynamic(node: fx.Node) -> bool:
    """Whether a quantized node has a form with integers made at run time: 8-bit weights, channels of their own scales."""
    weight = node.args[1] if len(node.args) > 1 else None
    if op_name(node) not in _DIRECT or not isinstance(weight, fx.Node) or kind_of(weight) != "dequantize":
        return False
    given = arguments_of(weight)
    is_wide = isinstance(given.get("quant_max"), int) and given["quant_max"] > 7
    return is_wide and op_name(weight) == "dequantize_per_channel" and arguments_of(node).get("groups", 1) == 1


def quantized_at_run_time(x: fx.Node, user: fx.Node) -> fx.Node:
    """``x`` as integers and back, with a scale that is computed from it; written before ``user``."""
    limits = (-128, 127, torch.int8)
    parameters = _call(user, _decomposed.choose_qparams.tensor, x, -128, 127, smallest_scales.MEASURED, torch.int8)
    scale, zero_point = (_call(user, operator.getitem, parameters, i) for i in range(2))
    integers = _call(user, _decomposed.quantize_per_tensor.tensor, x, scale, zero_point, *limits)
    return _call(user, _decomposed.dequantize_per_tensor.tensor, integers, scale, zero_point, *limits)


def in_half(node: fx.Node) -> None:
    """Writes conversions to float16 and back around a node, as PT2E's float16 configurations leave them."""
    node.args = tuple(_through_half(node, value) if _is_float(value) else value for value in node.args)
    users = list(node.users)
    with node.graph.inserting_after(node):
        half = node.graph.call_function(_decomposed.convert_element_type.no_fuse, (node, torch.float16))
    with node.graph.inserting_after(half):
        back = node.graph.call_function(_decomposed.convert_element_type.no_fuse, (half, torch.float32))
    for new in (half, back):
        new.meta = _place(node)
    for user in users:
        user.replace_input_with(node, back)


def _through_half(node: fx.Node, value: fx.Node) -> fx.Node:
    half = _call(node, _decomposed.convert_element_type.no_fuse, value, torch.float16)
    return _call(node, _decomposed.convert_element_type.no_fuse, half, torch.float32)


def _is_float(value: Any) -> bool:
    held = value.meta.get("val") if isinstance(value, fx.Node) else None
    return isinstance(value, fx.Node) and (held is None or held.dtype == torch.float32)


def _call(before: fx.Node, target: Any, *args: Any) -> fx.Node:
    with before.graph.inserting_before(before):
        new = before.graph.call_function(target, args)
    new.meta = _place(before)
    return new


def _place(node: fx.Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}
