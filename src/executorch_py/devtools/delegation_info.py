"""How much of a program is delegated, by operator, under the published names.

``et.delegation_report`` says more: the reasons.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from torch import fx
from torch._ops import OpOverload

from executorch_py.exir.backend.compiled_part import get_lowered_backend_modules

__all__ = ["DelegationBreakdown", "DelegationInfo", "get_delegation_info", "print_delegation_info"]


@dataclass
class DelegationBreakdown:
    """One operator: how many of its nodes are delegated."""

    op_type: str = ""
    delegated: int = 0
    non_delegated: int = 0


@dataclass
class DelegationInfo:
    """A whole graph."""

    num_delegated_subgraphs: int
    num_delegated_nodes: int
    num_non_delegated_nodes: int
    delegation_by_operator: dict[str, DelegationBreakdown]

    def get_summary(self) -> str:
        """Three lines of numbers."""
        return (
            f"Total delegated subgraphs: {self.num_delegated_subgraphs}\n"
            f"Number of delegated nodes: {self.num_delegated_nodes}\n"
            f"Number of non-delegated nodes: {self.num_non_delegated_nodes}\n"
        )

    def get_operator_delegation_dataframe(self) -> Any:
        """A pandas DataFrame with a row an operator, in the order of their names, and a last row for all.

        Needs pandas.
        """
        import pandas

        rows = [self.delegation_by_operator[name] for name in sorted(self.delegation_by_operator)]
        rows.append(DelegationBreakdown("Total", self.num_delegated_nodes, self.num_non_delegated_nodes))
        columns = ["op_type", "occurrences_in_delegated_graphs", "occurrences_in_non_delegated_graphs"]
        return pandas.DataFrame([astuple(one) for one in rows], columns=columns)


def get_delegation_info(graph_module: fx.GraphModule) -> DelegationInfo:
    """Counts the calls of operators of an Edge program's graph.

    Parts for backends that compile in C++ are still nodes of the graph: their tags count, and each connected set of
    nodes of a tag is a part.
    """
    table: dict[str, DelegationBreakdown] = {}
    tagged: set[fx.Node] = set()
    for node in graph_module.graph.nodes:
        if _is_operator(node):
            is_delegated = bool(node.meta.get("delegation_tag"))
            _count(table, node, is_delegated)
            tagged |= {node} if is_delegated else set()
    parts = get_lowered_backend_modules(graph_module)
    for part in parts:
        for node in part.original_module.graph.nodes:
            if _is_operator(node):
                _count(table, node, True)
    delegated = sum(row.delegated for row in table.values())
    rest = sum(row.non_delegated for row in table.values())
    return DelegationInfo(len(parts) + _num_parts(tagged), delegated, rest, table)


def _is_operator(node: fx.Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, OpOverload)


def _count(table: dict[str, DelegationBreakdown], node: fx.Node, is_delegated: bool) -> None:
    name = str(node.target).replace(".", "_")
    row = table.setdefault(name, DelegationBreakdown(name))
    if is_delegated:
        row.delegated += 1
    else:
        row.non_delegated += 1


def _num_parts(tagged: set[fx.Node]) -> int:
    from executorch_py.lowering.extraction import convex_groups

    by_tag: dict[str, set[fx.Node]] = {}
    for node in tagged:
        by_tag.setdefault(node.meta["delegation_tag"], set()).add(node)
    return sum(len(convex_groups(next(iter(nodes)).graph, nodes)) for nodes in by_tag.values())


def print_delegation_info(graph_module: fx.GraphModule) -> None:
    """Prints the summary and the table."""
    info = get_delegation_info(graph_module)
    print(info.get_summary())
    for name in sorted(info.delegation_by_operator):
        row = info.delegation_by_operator[name]
        print(f"{name:<48} {row.delegated:>6} delegated {row.non_delegated:>6} not")
