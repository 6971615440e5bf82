"""Values of a graph, node by node: what the values of a run are held against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.devtools.inspector.events import Event
from executorch_py.devtools.inspector.record_map import listed
from executorch_py.errors import InvalidArgumentError

__all__ = ["Pair", "pairs_of", "values_of"]


def values_of(program: ExportedProgram, inputs: Sequence[Any]) -> dict[fx.Node, Any]:
    """The value of each call of the graph, on these inputs (the leaves of the arguments).

    Raises:
        InvalidArgumentError: The program takes another number of inputs.
    """
    spec = program.call_spec.in_spec
    if spec is not None and len(inputs) != spec.num_leaves:
        raise InvalidArgumentError(f"the program takes {spec.num_leaves} inputs, got {len(inputs)}")
    args, kwargs = torch.utils._pytree.tree_unflatten(list(inputs), spec) if spec is not None else (tuple(inputs), {})
    seen: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                seen[n] = result.clone() if isinstance(result, torch.Tensor) else result
            return result

    with torch.no_grad():
        Recorder(program.graph_module).run(*program._graph_module_flat_inputs(args, kwargs), enable_io_processing=False)
    return seen


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
    use.
    """
    by_handle: dict[int, list[fx.Node]] = {}
    for node in values:
        for handle in listed(node.meta.get("debug_handle")) or ():
            by_handle.setdefault(handle, []).append(node)
    order = {node: index for index, node in enumerate(program.graph.nodes)}
    found: dict[fx.Node, Pair] = {}
    for event in events:
        results = [value for value in event.debug_data if value is not None]
        members = {node for handle in listed(event.debug_handles) or () for node in by_handle.get(handle, ())}
        if not results or not members:
            continue
        leaving = sorted(
            (node for node in members if any(user not in members for user in node.users)), key=order.__getitem__
        )
        leaving = [node for node in leaving if isinstance(values[node], torch.Tensor)]
        for node, value in zip(leaving[::-1], results[::-1], strict=False):
            if isinstance(value, torch.Tensor) and value.numel() == values[node].numel():
                found[node] = Pair(node, values[node], event, value)
    return sorted(found.values(), key=lambda pair: order[pair.node])
