"""Looking at a graph with compiled parts: what is delegated, what is not, and how it reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate

from .compiled_part import get_lowered_submodules

__all__ = [
    "format_delegated_graph",
    "get_delegated_payload",
    "get_delegates",
    "get_non_lowered_nodes",
    "is_identical_graph",
    "is_shape_dynamic",
    "print_delegated_graph",
]


def get_delegates(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that hold compiled parts."""
    owner = graph.owning_module
    return [] if owner is None else [node for _, _, node in get_lowered_submodules(owner)]


def get_delegated_payload(graph_module: fx.GraphModule) -> dict[str, bytes]:
    """Name of each compiled part -> its payload."""
    return {name: part.processed_bytes for name, part, _ in get_lowered_submodules(graph_module)}


def get_non_lowered_nodes(graph: fx.Graph) -> list[fx.Node]:
    """Calls that stay with the runtime's own kernels: no calls of compiled parts, and no elements of their results.

    Nodes for a backend that compiles in C++ stay in the graph until ``to_executorch``; their tag says who takes them.
    """
    calls = [node for node in graph.nodes if node.op == "call_function" and node.target is not executorch_call_delegate]
    return [node for node in calls if not _is_result_of_delegate(node) and not node.meta.get("delegation_tag")]


def _is_result_of_delegate(node: fx.Node) -> bool:
    source = node.args[0] if node.args else None
    is_item = getattr(node.target, "__name__", "") == "getitem"
    return is_item and isinstance(source, fx.Node) and source.target is executorch_call_delegate


def format_delegated_graph(graph_module: fx.GraphModule) -> str:
    """The graph as text, with each compiled part's backend and original graph under the node that holds it."""
    return _format(graph_module, "")


def _format(graph_module: fx.GraphModule, indent: str) -> str:
    parts = {node.name: part for _, part, node in get_lowered_submodules(graph_module)}
    lines = []
    for line in str(graph_module.graph).strip().splitlines():
        lines.append(indent + line)
        part = parts.get(line.strip().removeprefix("%").split(" ", 1)[0])
        if part is not None:
            lines += [f"{indent}        backend_id: {part.backend_id}", f"{indent}        lowered graph():"]
            inner = _format(part.original_module.graph_module, indent + "        ").splitlines()
            lines += inner[1:]
    return "\n".join(lines) + "\n"


def print_delegated_graph(graph_module: fx.GraphModule) -> None:
    """Prints ``format_delegated_graph``."""
    print(format_delegated_graph(graph_module))


def is_identical_graph(graph_left: fx.GraphModule, graph_right: fx.GraphModule) -> bool:
    """Whether two graphs call the same operators on the same values in the same order; names do not matter."""
    left, right = list(graph_left.graph.nodes), list(graph_right.graph.nodes)
    if len(left) != len(right):
        return False
    twin = dict(zip(left, right))
    for one, other in zip(left, right):
        if one.op != other.op or (one.op == "call_function" and one.target != other.target):
            return False
        if _values((one.args, one.kwargs), twin) != _values((other.args, other.kwargs), {}):
            return False
    return True


def _values(arguments: Any, twin: dict[fx.Node, fx.Node]) -> Any:
    if isinstance(arguments, fx.Node):
        return ("node", twin.get(arguments, arguments).name)
    if isinstance(arguments, dict):
        return {key: _values(value, twin) for key, value in arguments.items()}
    if isinstance(arguments, Iterable) and not isinstance(arguments, str):
        return [_values(one, twin) for one in arguments]
    return arguments


def is_shape_dynamic(node: fx.Node) -> bool:
    """Whether a size of the node's tensor changes from call to call."""
    return any(not isinstance(size, int) for size in getattr(node.meta.get("val"), "shape", ()))
