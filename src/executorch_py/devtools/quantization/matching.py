"""Finds the operators of a float graph in the quantized graph that was made from it.

Structure decides, labels break ties. Two operators are the same when they have the same name and take the same (already
matched) values. Where several do (query, key and value of one input), the one with the same origin (``from_node``),
name, module path and weight shape is taken. q/dq nodes, casts, copies and constants are looked through, so flows that
fold, rename or move constants do not matter. A batch norm that is gone from behind its convolution or linear layer has
become part of it: the layer is compared with the batch norm's result. What is left over on either side is listed, never
dropped.

Example:
    >>> match = match_graphs(exported.module(), converted)  # doctest: +SKIP
    >>> match.values[converted_conv].name  # doctest: +SKIP
    'batch_norm'
"""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from executorch_py.graphs.nodes import (
    constant_nodes,
    is_value_preserving,
    iterate_arguments,
    kind_of,
    op_name,
    value_source,
)
from executorch_py.graphs.sources import source_of

__all__ = ["Match", "match_graphs"]

_SAME_OPERATION = {"view": "reshape", "_unsafe_view": "reshape", "permute": "permute", "mT": "transpose"}
_FOLDS_BATCH_NORM = frozenset(
    (
        "conv1d",
        "conv2d",
        "conv3d",
        "convolution",
        "conv_transpose1d",
        "conv_transpose2d",
        "linear",
        "addmm",
    )
)
_NO_VALUES = ("_assert", "sym_", "_guards")  # checks and sizes


@dataclass
class Match:
    """Which node is which.

    Attributes:
        operators: Node of the quantized graph -> the same operator in the float graph.
        values: Node of the quantized graph -> the float node whose value it should have; another one than in
            ``operators`` where a batch norm was folded.
        folded: Float nodes that became part of another -> that float node.
        only_float: Float operators without counterpart.
        only_quantized: Quantized operators without counterpart.
    """

    operators: dict[fx.Node, fx.Node] = field(default_factory=dict)
    values: dict[fx.Node, fx.Node] = field(default_factory=dict)
    folded: dict[fx.Node, fx.Node] = field(default_factory=dict)
    only_float: list[fx.Node] = field(default_factory=list)
    only_quantized: list[fx.Node] = field(default_factory=list)


def match_graphs(floats: fx.GraphModule, quantized: fx.GraphModule) -> Match:
    """Matches the nodes of two graphs; the inputs correspond by their order."""
    match = Match()
    constants = constant_nodes(floats), constant_nodes(quantized)
    inputs = [[node for node in module.graph.nodes if node.op == "placeholder"] for module in (floats, quantized)]
    for ours, theirs in zip(inputs[1], inputs[0], strict=False):
        match.operators[ours] = match.values[ours] = theirs
    state = {node.target: node for node in floats.graph.nodes if node.op == "get_attr" and node not in constants[0]}
    for node in quantized.graph.nodes:  # buffers that the model writes to
        if node.op == "get_attr" and node not in constants[1] and node.target in state:
            match.operators[node] = match.values[node] = state[node.target]
    waiting: dict[tuple[Any, ...], list[fx.Node]] = defaultdict(list)
    by_label: dict[tuple[str, str], list[fx.Node]] = defaultdict(list)
    candidates = [node for node in floats.graph.nodes if _is_operator(node, constants[0])]
    for node in candidates:
        waiting[_signature(node, constants[0], None)].append(node)
        by_label[operation(node), node.name].append(node)
    taken: set[fx.Node] = set(match.operators.values())
    for node in quantized.graph.nodes:
        if not _is_operator(node, constants[1]):
            continue
        found = [other for other in waiting[_signature(node, constants[1], match)] if other not in taken]
        if not found:  # its operands have no counterpart: origin or name must say it
            names = (*_origins(node), node.name)
            found = [other for name in names for other in by_label[operation(node), name] if other not in taken]
        if not found:
            match.only_quantized.append(node)
            continue
        best = max(found, key=lambda other: _likeness(other, node, constants))
        taken.add(best)
        match.operators[node] = match.values[node] = best
        _look_for_folded(node, best, match, taken)
    match.only_float = [node for node in candidates if node not in taken]
    return match


def operation(node: fx.Node) -> str:
    """Name of an operator without what does not matter: in place or not, view or reshape."""
    name = op_name(node)
    if name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    return _SAME_OPERATION.get(name, name)


def _is_operator(node: fx.Node, constants: set[fx.Node]) -> bool:
    return (
        node.op == "call_function"
        and node not in constants
        and not kind_of(node)
        and not is_value_preserving(node)
        and not _is_number(node)
    )


def _is_number(node: fx.Node) -> bool:
    """A size or what is computed from sizes, or a check."""
    value = node.meta.get("val")
    numbers = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    return op_name(node).startswith(_NO_VALUES) or isinstance(value, numbers)


def _signature(node: fx.Node, constants: set[fx.Node], match: Match | None) -> tuple[Any, ...]:
    """Operation and operands; operands are nodes of the float graph (``match`` translates), constants do not count."""
    operands: list[Any] = []
    for argument in iterate_arguments(node):
        source = value_source(argument)
        if argument in constants or source in constants or _is_number(source):
            continue
        operands.append(match.values.get(source, "unknown") if match else source)
    index = node.args[1] if node.target is operator.getitem else None
    return (operation(node), index, *operands)


def _origins(node: fx.Node) -> list[str]:
    """Names that the node had in earlier graphs, the oldest last (torch's ``from_node``)."""
    names: list[str] = []
    sources = node.meta.get("from_node") or []
    while sources:
        source = sources[-1]
        names.append(source.name)
        sources = source.from_node or []
    return names


def _likeness(ours: fx.Node, theirs: fx.Node, constants: tuple[set[fx.Node], set[fx.Node]]) -> int:
    our_names, their_names = {ours.name, *_origins(ours)}, {theirs.name, *_origins(theirs)}
    return (
        4 * (ours.name == theirs.name)
        + 4 * bool(our_names & their_names)
        + 2 * (source_of(ours).module_path == source_of(theirs).module_path)
        + (_constant_shapes(ours, constants[0]) == _constant_shapes(theirs, constants[1]))
    )


def _constant_shapes(node: fx.Node, constants: set[fx.Node]) -> list[Any]:
    shapes = []
    for argument in iterate_arguments(node):
        value = argument.meta.get("val")
        if argument in constants and isinstance(value, torch.Tensor):
            shapes.append(tuple(value.shape))
    return shapes


def _users(node: fx.Node) -> list[fx.Node]:
    """Operators that take the node's value, behind q/dq pairs, casts and copies."""
    found = []
    for user in node.users:
        if kind_of(user) == "choose":
            continue
        if kind_of(user) or is_value_preserving(user):
            found.extend(_users(user))
        else:
            found.append(user)
    return found


def _is_batch_norm(node: fx.Node) -> bool:
    return "batch_norm" in op_name(node)  # torch has six, by how their statistics go in and out


def _look_for_folded(node: fx.Node, counterpart: fx.Node, match: Match, taken: set[fx.Node]) -> None:
    if operation(node) not in _FOLDS_BATCH_NORM:
        return
    users = _users(counterpart)
    if len(users) != 1 or not _is_batch_norm(users[0]) or value_source(users[0].all_input_nodes[0]) is not counterpart:
        return
    if any(_is_batch_norm(user) for user in _users(node)):
        return
    norm = value = users[0]
    items = [user for user in norm.users if user.target is operator.getitem]
    if items:
        first = [user for user in items if user.args[1] == 0]
        if not first:
            return
        value = first[0]
        taken.update(items)
        match.folded.update(dict.fromkeys(items, counterpart))
    taken.add(norm)
    match.folded[norm] = counterpart
    match.values[node] = value
