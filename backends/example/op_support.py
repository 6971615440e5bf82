"""What the example device can do: one entry an operator, with the reason for each refusal.

A check returns "" when the node is supported, and otherwise why not. Reports and tests read the reasons.
"""

from collections.abc import Callable

import torch
from torch import fx

from executorch_py.exir.backend.utils import arguments_of
from executorch_py.exir.dialects._ops import ops as exir_ops

aten = exir_ops.edge.aten

#: node, names of constant placeholders -> "" or the reason against it
Check = Callable[[fx.Node, frozenset[str]], str]


def _float32(node: fx.Node) -> str:
    for value in (node.meta["val"], *(source.meta["val"] for source in node.all_input_nodes)):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return "only float32 tensors"
        if value.dim() > 4:
            return f"a tensor of rank {value.dim()}, the device has 4"
    return ""


def _convolution(node: fx.Node, constants: frozenset[str]) -> str:
    given = arguments_of(node)
    weight, bias = given["weight"], given["bias"]
    if given["input"].meta["val"].dim() != 4:
        return "only 2-D convolution"
    if given["transposed"]:
        return "no transposed convolution"
    if weight.name not in constants or (bias is not None and bias.name not in constants):
        return "filter and bias must be constants"
    return _float32(node)


def _relu(node: fx.Node, constants: frozenset[str]) -> str:
    return _float32(node)


def _add(node: fx.Node, constants: frozenset[str]) -> str:
    a, b = node.args[:2]
    if not isinstance(a, fx.Node) or not isinstance(b, fx.Node):
        return "a number as operand"
    if node.kwargs.get("alpha", 1) != 1:
        return "a factor alpha"
    if a.meta["val"].shape != b.meta["val"].shape:
        return "operands of different sizes (no broadcasting)"
    if a.name in constants or b.name in constants:
        return "a constant operand"
    return _float32(node)


#: Operator -> check. Everything else is refused as not known.
SUPPORTED: dict[object, Check] = {
    aten.convolution.default: _convolution,
    aten.relu.default: _relu,
    aten.add.Tensor: _add,
}


def refusal(node: fx.Node, constants: frozenset[str]) -> str:
    """Why the device cannot take a node; "" when it can."""
    check = SUPPORTED.get(node.target)
    return "the device has no such operator" if check is None else check(node, constants)
