"""Values of a graph, node by node: what the values of a run are held against."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.devtools.inspector.events import Event
from executorch_py.devtools.inspector.record_map import listed
from executorch_py.errors import InvalidArgumentError

__all__ = ["Pair", "pairs_of", "placeholders_of", "values_of"]


def values_of(program: ExportedProgram, inputs: Sequence[Any]) -> dict[fx.Node, Any]:
    """The value of each call of the graph, on these inputs (the leaves of the arguments).

    Raises:
        InvalidArgumentError: The program takes another number of inputs.
    """
    spec = program.call_spec.in_spec
    if spec is not None and len(inputs) != spec.num_leaves:
        raise InvalidArgumentError(f"the program takes {spec.num_leaves} inputs, got {len(inputs)}")
    seen: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                seen[n] = result.clone() if isinstance(result, torch.Tensor) else result
            return result

    with torch.no_grad():
        Recorder(program.graph_module).run(*_all_inputs(program, inputs), enable_io_processing=False)
    return seen


def placeholders_of(program: ExportedProgram, inputs: Sequence[Any]) -> dict[str, Any]:
    """The value of each placeholder by its name: inputs, weights, buffers and constants."""
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    return dict(zip(names, _all_inputs(program, inputs), strict=True))


def _all_inputs(program: ExportedProgram, inputs: Sequence[Any]) -> Sequence[Any]:
    """What the graph is called with."""
    spec = program.call_spec.in_spec
    args, kwargs = torch.utils._pytree.tree_unflatten(list(inputs), spec) if spec is not None else (tuple(inputs), {})
    return program._graph_module_flat_inputs(args, kwargs)


@dataclass(frozen=True)
class Pair:
    """A value of the graph and the value of the run that stands for it."""

    node: fx.Node
    expected: Any
    event: Event
    actual: Any


def pairs_of(program: ExportedProgram, values: dict[fx.Node, Any], events: Iterable[Event]) -> list[Pair]:
    """The values of the run that stand for one of the graph, in the order of the graph.

    An instruction may stand for several nodes, as a fused one or a delegate does: its results are those that others
    use. They are the last values that it recorded, behind its inputs.
    """
    by_handle: dict[int, list[fx.Node]] = {}
    for node in values:
        for handle in listed(node.meta.get("debug_handle")) or ():
            by_handle.setdefault(handle, []).append(node)
    order = {node: index for index, node in enumerate(program.graph.nodes)}
    found: dict[fx.Node, Pair] = {}
    for event in events:
        if event.is_added:
            continue
        members = {node for handle in listed(event.debug_handles) or () for node in by_handle.get(handle, ())}
        leaving = _leaving(members, order)
        recorded = [value for value in event.debug_data if value is not None]
        results = recorded[max(len(recorded) - event.num_outputs, 0) :]
        for node, value in _matched(leaving, results, values):
            if isinstance(value, torch.Tensor) and _same_kind(value, values[node]):
                found[node] = Pair(node, values[node], event, _arranged(value, values[node]))
    return sorted(found.values(), key=lambda pair: order[pair.node])


def _matched(
    leaving: Sequence[fx.Node], results: Sequence[Any], values: dict[fx.Node, Any]
) -> Iterable[tuple[fx.Node, Any]]:
    """Which result is which node's. A node with several results stands for those that are taken out of it."""
    several = [node for node in leaving if isinstance(values[node], (tuple, list))]
    for node in several[-1:]:
        taken = {user.args[1]: user for user in node.users if user.target is operator.getitem and user in values}
        one_or_all = enumerate(results[: len(values[node])] if len(results) > 1 else results)
        yield from ((taken[index], value) for index, value in one_or_all if index in taken)
        return
    tensors = [node for node in leaving if isinstance(values[node], torch.Tensor)]
    yield from zip(tensors[::-1], results[::-1], strict=False)


def _same_kind(value: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether they can be held against each other: a backend may compute in integers what the graph has in floats."""
    return value.numel() == expected.numel() and value.is_floating_point() == expected.is_floating_point()


def _arranged(value: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """A value with the dims in the graph's order: inside a backend images may have their channels last.

    Where both orders have the same sizes, the nearer one is meant.
    """
    rank = expected.dim()
    if rank < 3 or value.dim() != rank:
        return value
    moved = value.permute(0, rank - 1, *range(1, rank - 1))
    if moved.shape != expected.shape or torch.equal(value.reshape(-1), expected.reshape(-1)):
        return value
    if value.shape != expected.shape:
        return moved
    first, second = ((one.double() - expected.double()).abs().nan_to_num(nan=0.0).sum() for one in (value, moved))
    return moved if second < first else value


def _leaving(members: set[fx.Node], order: dict[fx.Node, int]) -> list[fx.Node]:
    """Those that other nodes use, in the order of the graph.

    A node between two of them, such as a view that the compiler took away, is no other one.
    """
    if not members:
        return []
    places = [order[node] for node in members]
    nodes = [node for node, place in order.items() if min(places) <= place <= max(places)]
    behind, before = set(members), set(members)
    for node in nodes:
        if any(one in behind for one in node.all_input_nodes):
            behind.add(node)
    for node in reversed(nodes):
        if any(user in before for user in node.users):
            before.add(node)
    inside = behind & before
    # torch.export.load adds results that nobody reads, so a user that has none does not count.
    leaves = {
        node
        for node in members
        if any(user not in inside and (user.users or user.op == "output") for user in node.users)
    }
    return sorted(leaves, key=order.__getitem__)
