"""Partitions that keep groups of nodes together, under the published name."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

__all__ = ["GroupBasedPartitioner"]


class GroupBasedPartitioner(CapabilityBasedPartitioner):
    """torch's partitioner, with groups: the nodes of one come into one partition, or none of them does.

    Args:
        graph_module: The graph.
        operator_support: Which nodes may be in a partition.
        allows_single_node_partition: A partition may be one node.
        non_compute_ops: Operators that make no partition by themselves.
        allowed_single_node_partition_ops: Operators that do.
        node_groups: The groups; groups with a node in common are one.
    """

    def __init__(
        self,
        graph_module: fx.GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        node_groups: list[list[fx.Node]] | None = None,
    ) -> None:
        super().__init__(
            graph_module,
            operator_support,
            allows_single_node_partition,
            non_compute_ops,
            allowed_single_node_partition_ops,
            skip_horizontal_fusion=True,
        )
        self.node_groups = _joined(node_groups or [])

    def propose_partitions(self) -> list[Partition]:
        """The largest partitions; a group that no single partition can hold is left out, and the rest is done anew."""
        left_out: set[fx.Node] = set()
        while True:
            partitions = self._without(left_out)
            owner = {node: index for index, one in enumerate(partitions) for node in one.nodes}
            torn = [group for group in self.node_groups if len({owner.get(node) for node in group}) > 1]
            if not torn:
                return partitions
            left_out.update(torn[0])

    def _without(self, left_out: set[fx.Node]) -> list[Partition]:
        support = self.operator_support

        class _Rest(OperatorSupportBase):
            def is_node_supported(self, submodules: object, node: fx.Node) -> bool:
                return node not in left_out and support.is_node_supported(submodules, node)

        self.operator_support = _Rest()
        try:
            return super().propose_partitions()
        finally:
            self.operator_support = support


def _joined(groups: list[list[fx.Node]]) -> list[set[fx.Node]]:
    """Groups in which no two have a node in common."""
    joined: list[set[fx.Node]] = []
    for group in groups:
        nodes = set(group)
        apart = [one for one in joined if not one & nodes]
        joined = [*apart, nodes.union(*(one for one in joined if one & nodes))]
    return joined
