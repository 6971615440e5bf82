"""What a layer computes in that is not quantized as the rest of its model: float32, other integers, or float16.

fallback           a convolution or linear layer                          other operators
float32            with its float weight                                  in float32
dynamic_int8       keeps its integers; those of its input get their       in float32
                   scale at run time, and its result is not quantized
int8_weight_only   its weight of 4 bits gets 8, a scale a channel;        in float32, tables of
                   input and result are float32                           embeddings as they are
float16            input, weight and result are float16                   in float32

An input whose outliers move from sample to sample, or a result with a few channels that are far larger than the others,
has no good fixed scale. Run time knows the first, and floats have no such trouble with the second, while the
multiplications stay between integers. Of a model with weights of 4 bits the layers that lose most want 8: a quarter of
the bytes that floats have.
"""

import operator
from typing import Any, Literal

import torch
from executorch_py.quantizer.spec import smallest_scales
from executorch_py.quantizer.spec.config import PRESETS
from torch import fx

from executorch_py.graphs.nodes import arguments_of, kind_of, op_name

Fallback = Literal["float32", "dynamic_int8", "int8_weight_only", "float16"]

_decomposed = torch.ops.quantized_decomposed

_DIRECT = frozenset(("linear", "conv1d", "conv2d"))


def can_be_dynamic(node: fx.Node) -> bool:
    """Whether a quantized node has a form with integers made at run time: 8-bit weights, channels of their own
    scales.
    """
    given = arguments_of(node) if op_name(node) in _DIRECT else {}
    weight = given.get("weight")
    if not isinstance(weight, fx.Node) or kind_of(weight) != "dequantize":
        return False
    return has_8_bits(weight) and op_name(weight) == "dequantize_per_channel" and given.get("groups", 1) == 1


def has_8_bits(weight: fx.Node) -> bool:
    """Whether a dequantized weight has more than 4 bits."""
    highest = arguments_of(weight).get("quant_max")
    return isinstance(highest, int) and highest > 7


def is_narrow(weight: Any) -> bool:
    """Whether a weight has 4 bits, with scales along its first dimension."""
    if not isinstance(weight, fx.Node) or kind_of(weight) != "dequantize" or has_8_bits(weight):
        return False
    is_by_channel = op_name(weight) in ("dequantize_per_channel", "dequantize_per_channel_group")
    return is_by_channel and arguments_of(weight).get("axis", 0) == 0


def with_8_bits(module: fx.GraphModule, name: str, value: torch.Tensor, user: fx.Node) -> fx.Node:
    """A weight as integers of 8 bits and their dequantize before ``user``, as ``int8_weight_only`` has it.

    Args:
        module: Gets the integers and scales as buffers, once for all its copies.
        name: Of the weight; the new node's is made of it.
        value: The float weight.
        user: Reads it first.
    """
    spec = PRESETS["int8_weight_only"]().weight
    observer = spec.observer_or_fake_quant_ctr.with_args(
        dtype=spec.dtype, qscheme=spec.qscheme, quant_min=spec.quant_min, quant_max=spec.quant_max, ch_axis=spec.ch_axis
    )()
    observer(value.detach())
    scales, zero_points = observer.calculate_qparams()
    limits = (spec.quant_min, spec.quant_max, spec.dtype)
    integers = _decomposed.quantize_per_channel(value.detach(), scales, zero_points, 0, *limits)
    name = f"_int8_{name}".replace(".", "_")
    for part, tensor in (("integers", integers), ("scales", scales), ("zero_points", zero_points)):
        module.register_buffer(f"{name}_{part}", tensor)
    with user.graph.inserting_before(user):
        parts = [user.graph.get_attr(f"{name}_{part}") for part in ("integers", "scales", "zero_points")]
        new = user.graph.create_node(
            "call_function",
            _decomposed.dequantize_per_channel.default,
            (*parts, 0, *limits),
            name=f"{name}_dequantized",
        )
    new.meta = _place(user)
    return new


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
