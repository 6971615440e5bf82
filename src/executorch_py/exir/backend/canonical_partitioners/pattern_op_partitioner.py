"""Partitions from patterns and from a rule per node, under the published function names; torch's partitioner does the
work.
"""

from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher


class _Wanted(OperatorSupportBase):
    """The nodes of patterns, and those that another support accepts."""

    def __init__(self, pattern_list: list[list[fx.Node]] | None, op_support: OperatorSupportBase | None) -> None:
        self._nodes = {node for pattern in pattern_list or [] for node in pattern}
        self._other = op_support

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node in self._nodes or (self._other is not None and self._other.is_node_supported(submodules, node))


def generate_partitions_from_list_of_nodes(
    graph_module: torch.fx.GraphModule,
    pattern_list: list[list[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
) -> list[Partition]:
    """Largest acyclic partitions of the nodes that are in ``pattern_list`` or that ``op_support`` accepts."""
    partitioner = CapabilityBasedPartitioner(
        graph_module, _Wanted(pattern_list, op_support), allows_single_node_partition=True, skip_horizontal_fusion=True
    )
    return partitioner.propose_partitions()


def generate_grouped_partitions_from_list_of_nodes(
    graph_module: torch.fx.GraphModule,
    pattern_list: list[list[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
) -> list[Partition]:
    """Partitions in which the nodes of one group stay together: groups that may be one partition are joined."""
    from .group_partitioner import GroupBasedPartitioner

    partitioner = GroupBasedPartitioner(
        graph_module,
        _Wanted(pattern_list, op_support),
        allows_single_node_partition=True,
        node_groups=pattern_list or [],
    )
    return partitioner.propose_partitions()


def generate_pattern_op_partitions(
    graph_module: torch.fx.GraphModule,
    patterns: list[fx.Graph] | None = None,
    partitions_list: list[list[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
    ignore_literals: bool = False,
) -> list[Partition]:
    """The largest partitions of what matches a pattern, stands in a list, or is accepted by a support.

    Args:
        graph_module: The graph.
        patterns: Graphs whose placeholders stand for anything.
        partitions_list: Lists of nodes, besides.
        op_support: A rule for single nodes.
        ignore_literals: Numbers of a pattern stand for any.
    """
    found = [*(partitions_list or [])]
    for pattern in patterns or []:
        matcher = SubgraphMatcher(pattern, ignore_literals=ignore_literals)
        for match in matcher.match(graph_module.graph):
            inner = [
                node
                for twin, node in match.nodes_map.items()
                if twin.op not in ("placeholder", "output") and isinstance(node, fx.Node)
            ]
            found.append(inner)
    return generate_partitions_from_list_of_nodes(graph_module, found, op_support)
