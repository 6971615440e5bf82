"""Operators with what belongs to them, for parts of one operator each (``XnnpackPartitioner(per_op_mode=True)``).

A product of integers is one with the conversions around it: the dequantize in front of each input, at run time the quantization
before that, and the quantize behind it, with an activation in between. Alone it would be a product of floats and integers, which
XNNPACK has not.
"""

import operator
from collections.abc import Iterable
from typing import Any

from torch import fx

_CONVERSIONS = (
    "quantized_decomposed.quantize",
    "quantized_decomposed.dequantize",
    "quantized_decomposed.choose_qparams",
)


def units(nodes: Iterable[fx.Node]) -> dict[fx.Node, fx.Node]:
    """Each of ``nodes`` (in order of execution) -> the operator whose part it goes to; a conversion alone goes to its own."""
    taken = list(dict.fromkeys(nodes))
    unit: dict[fx.Node, fx.Node] = {node: node for node in taken}
    for node in taken:
        if not _is_conversion(node):
            before = next((n for n in node.all_input_nodes if n in unit and _gives_integers(n)), None)
            unit[node] = node if before is None else unit[before]
            for source in node.all_input_nodes:
                _take(source, unit[node], unit)
        elif _is(node, "quantize") and _is_operator(node.args[0], unit):
            unit[node] = unit[node.args[0]]
    return unit


def _take(source: fx.Node, owner: fx.Node, unit: dict[fx.Node, fx.Node]) -> None:
    """A dequantize goes with its user, and with it what quantizes its input at run time."""
    if source not in unit or not _is(source, "dequantize"):
        return
    unit[source] = owner
    quantize = source.args[0]
    if isinstance(quantize, fx.Node) and _is(quantize, "quantize") and _is_dynamic(quantize):
        for node in (
            quantize,
            *(n for item in quantize.all_input_nodes[1:] for n in (item, *item.all_input_nodes[:1])),
        ):
            if node in unit and (_is_conversion(node) or node.target is operator.getitem):
                unit[node] = owner


def _gives_integers(node: fx.Node) -> bool:
    """An operator on integers whose result is quantized only behind the one operator that reads it."""
    sources = [n for n in node.all_input_nodes if _is(n, "dequantize")]
    static = any(
        isinstance(n.args[0], fx.Node) and not (_is(n.args[0], "quantize") and _is_dynamic(n.args[0])) for n in sources
    )
    user = next(iter(node.users), None)
    return (
        not _is_conversion(node)
        and static
        and len(node.users) == 1
        and user is not None
        and any(_is(n, "quantize") for n in user.users)
    )


def _is_operator(node: Any, unit: dict[fx.Node, fx.Node]) -> bool:
    return isinstance(node, fx.Node) and node in unit and not _is_conversion(node)


def _is_dynamic(quantize: fx.Node) -> bool:
    return isinstance(quantize.args[1], fx.Node)


def _is_conversion(node: fx.Node) -> bool:
    return str(node.target).startswith(_CONVERSIONS)


def _is(node: fx.Node, kind: str) -> bool:
    return str(node.target).startswith(f"quantized_decomposed.{kind}")
