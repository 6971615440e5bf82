"""Operators with what belongs to them, for parts of one operator each (``XnnpackPartitioner(per_op_mode=True)``).

A product of integers is one with the conversions around it: the dequantize in front of each input, at run time the
quantization before that, and the quantize behind it, with an activation in between. Alone it would be a product of
floats and integers, which XNNPACK has not.
"""

import operator
from collections.abc import Sequence

from torch import fx


def units(taken: Sequence[fx.Node]) -> dict[fx.Node, fx.Node]:
    """Each of ``taken`` (in order of execution) -> the operator whose part it goes to; a conversion alone goes to its
    own.
    """
    unit = {node: node for node in taken}
    for node in taken:
        if not _is_conversion(node):
            before = next((n for n in node.all_input_nodes if n in unit and _gives_integers(n)), node)
            unit[node] = _beside(node, unit) or unit[before]
            for source in node.all_input_nodes:
                _take(source, unit[node], unit)
        elif _is(node, "quantize") and not _is_conversion(source := node.all_input_nodes[0]):
            unit[node] = unit.get(source, node)
    return unit


def _beside(node: fx.Node, unit: dict[fx.Node, fx.Node]) -> fx.Node | None:
    """The operator that shares an input's quantization at run time: such integers leave no part."""
    for source in node.all_input_nodes:
        quantized = source.all_input_nodes[0] if _is(source, "dequantize") else node
        if _is_dynamic(quantized) and unit.get(quantized, quantized) is not quantized:
            return unit[quantized]
    return None


def _take(source: fx.Node, owner: fx.Node, unit: dict[fx.Node, fx.Node]) -> None:
    """What converts an input goes with the operator: a dequantize and, at run time, the quantization before it."""
    if _converts_for_its_user(source):
        if source in unit:  # what only names one of several results is not
            unit[source] = owner
        for before in source.all_input_nodes:
            _take(before, owner, unit)


def _converts_for_its_user(node: fx.Node) -> bool:
    if node.target is operator.getitem:
        return _is(node.all_input_nodes[0], "choose_qparams")
    return _is(node, "dequantize") or _is(node, "choose_qparams") or _is_dynamic(node)


def _gives_integers(node: fx.Node) -> bool:
    """An operator on integers whose result is quantized only behind the one operator that reads it."""
    if _is_conversion(node) or len(node.users) != 1:
        return False
    if not any(_is(user, "quantize") for user in next(iter(node.users)).users):
        return False
    converted = [n.all_input_nodes[0] for n in node.all_input_nodes if _is(n, "dequantize")]
    return any(not _is_dynamic(source) for source in converted)


def _is_dynamic(node: fx.Node) -> bool:
    """A quantize whose scale is chosen at run time."""
    return _is(node, "quantize") and isinstance(node.args[1], fx.Node)


def _is_conversion(node: fx.Node) -> bool:
    return _is(node, "quantize") or _is(node, "dequantize") or _is(node, "choose_qparams")


def _is(node: fx.Node, kind: str) -> bool:
    return str(node.target).startswith(f"quantized_decomposed.{kind}")
