"""What a step of a GRU does between its products, which stays in float and becomes one operator (``et::gru_gates``).

The sums of its gates are those of two products, which a quantizer would take for activations of their own; each rounding of
theirs is one that the next step inherits. An LSTM's gates are functions of one sum, and nothing behind it is quantized.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

from torch import fx

from .matching import ADD, MUL, Operators, ops

_SIGMOID, _TANH, _SUB, _RSUB = (
    ops("sigmoid.default", "sigmoid_.default"),
    ops("tanh.default", "tanh_.default"),
    ops("sub.Tensor", "sub_.Tensor"),
    ops("rsub.Scalar"),
)


def gates_of_grus(graph: fx.Graph) -> set[fx.Node]:
    """The sums and products of all steps, from those of the gates to the new state.

    A step is ``n + z * (h - n)`` or ``(1 - z) * n + z * h`` with ``n = tanh(i_n + r * h_n)``; r and z are ``sigmoid(i + h)``.
    """
    return {node for last in graph.nodes if last.target in ADD for node in _step(last)}


def _step(last: fx.Node) -> list[fx.Node]:
    for blend in (_difference, _mean):
        for candidate, update, nodes in blend(last):
            inner = _candidate(candidate)
            gate = _gate(update)
            if inner and gate:
                return [last, *nodes, *inner, *gate]
    return []


def _difference(last: fx.Node) -> Iterator[tuple[Any, Any, list[fx.Node]]]:
    """Readings as n + z * (h - n): the candidate, z, the product."""
    for candidate, product in _orders(last, ADD):
        for update, difference in _orders(product, MUL):
            if _is(difference, _SUB) and difference.args[1] is candidate:
                yield candidate, update, [product]


def _mean(last: fx.Node) -> Iterator[tuple[Any, Any, list[fx.Node]]]:
    """Readings as (1 - z) * n + z * h: the candidate, z, the products."""
    for fresh, kept in _orders(last, ADD):
        for rest, candidate in _orders(fresh, MUL):
            for update, _ in _orders(kept, MUL):
                if _is(rest, _RSUB) and rest.args[:2] == (update, 1):
                    yield candidate, update, [fresh, kept]


def _candidate(node: Any) -> list[fx.Node]:
    """Sums and products of tanh(i_n + r * h_n); none of other nodes."""
    if _is(node, _TANH):
        for _, product in _orders(node.args[0], ADD):
            for reset, _ in _orders(product, MUL):
                if gate := _gate(reset):
                    return [node.args[0], product, *gate]
    return []


def _gate(node: Any) -> list[fx.Node]:
    """The sum in sigmoid(i + h); nothing of other nodes."""
    return [node.args[0]] if _is(node, _SIGMOID) and _is(node.args[0], ADD) else []


def _orders(node: Any, wanted: Operators) -> Iterator[tuple[Any, Any]]:
    if _is(node, wanted):
        yield from permutations(node.args[:2])


def _is(node: Any, wanted: Operators) -> bool:
    return isinstance(node, fx.Node) and node.target in wanted
