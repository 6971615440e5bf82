"""Partitions from patterns and from a rule per node, under the published function names; torch's partitioner does the work."""

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher


def generate_partitions_from_list_of_nodes(
    graph_module: torch.fx.GraphModule,
    pattern_list: list[list[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
) -> list[Partition]:
    """Largest acyclic partitions of the nodes that are in ``pattern_list`` or that ``op_support`` accepts."""
    wanted = {node for pattern in pattern_list or [] for node in pattern}

    class _Support(OperatorSupportBase):
        def is_node_supported(self, submodules: object, node: fx.Node) -> bool:
            return node in wanted or (op_support is not None and op_support.is_node_supported(submodules, node))

    partitioner = CapabilityBasedPartitioner(
        graph_module, _Support(), allows_single_node_partition=True, skip_horizontal_fusion=True
    )
    return partitioner.propose_partitions()


def generate_grouped_partitions_from_list_of_nodes(
    graph_module: torch.fx.GraphModule,
    pattern_list: list[list[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
) -> list[Partition]:
    """Partitions in which the nodes of one group stay together: groups that may be one partition are joined."""
    from .group_partitioner import GroupBasedPartitioner

    wanted = {node for pattern in pattern_list or [] for node in pattern}

    class _Support(OperatorSupportBase):
        def is_node_supported(self, submodules: object, node: fx.Node) -> bool:
            return node in wanted or (op_support is not None and op_support.is_node_supported(submodules, node))

    partitioner = GroupBasedPartitioner(
        graph_module, _Support(), allows_single_node_partition=True, node_groups=pattern_list or []
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
