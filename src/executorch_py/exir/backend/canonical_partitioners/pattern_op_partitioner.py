"""Partitions from a rule per node: torch's CapabilityBasedPartitioner under the published function names."""

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase


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
