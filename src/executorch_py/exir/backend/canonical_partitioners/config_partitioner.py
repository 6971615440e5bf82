"""Partitioners from a table of operators: one small class an operator says whether a node is taken and with what around
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import Partition

from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.utils import is_constant_node, tag_constant_data, tag_mutated_buffer

from .pattern_op_partitioner import generate_grouped_partitions_from_list_of_nodes

__all__ = ["ConfigerationBasedPartitioner", "PartitionerConfig", "format_target_name", "is_constant_data"]


def format_target_name(target_name: str) -> str:
    """Name of an operator as configurations write it, without namespace and with its overload: "add.Tensor"."""
    return target_name.rpartition("::")[2].removeprefix("aten.")


def is_constant_data(ep: ExportedProgram, node: fx.Node) -> bool:
    """Whether ``node`` is a weight, which the method only reads."""
    return is_constant_node(ep, node)


class PartitionerConfig(ABC):
    """What a backend does with one operator."""

    #: "add.Tensor"
    target_name: str

    @abstractmethod
    def check_constraints(self, node: fx.Node, ep: ExportedProgram) -> bool:
        """Whether the backend can take ``node``."""

    @abstractmethod
    def get_node_and_deps(self, node: fx.Node, ep: ExportedProgram) -> list[fx.Node]:
        """``node``, and the nodes that go with it."""

    @abstractmethod
    def get_original_aten(self) -> OpOverload | None:
        """The operator that must not be decomposed; None: none."""

    def get_partition(self, node: fx.Node, ep: ExportedProgram) -> list[fx.Node]:
        """``get_node_and_deps`` when the constraints hold, else no nodes."""
        if not self.check_constraints(node, ep):
            return []
        return self.get_node_and_deps(node, ep)


class ConfigerationBasedPartitioner(Partitioner):
    """Calls the configuration of each node's operator; what goes together stays together. (The name is the published
    one.)

    Args:
        delegation_spec: Who takes the nodes.
        partitioner_configs: Objects of classes derived from PartitionerConfig, or the classes.
    """

    def __init__(
        self,
        delegation_spec: DelegationSpec,
        partitioner_configs: Iterable[PartitionerConfig | type[PartitionerConfig]],
    ) -> None:
        super().__init__()
        self.delegation_spec = delegation_spec
        made = (one() if isinstance(one, type) else one for one in partitioner_configs)
        self.target_partitioner_configs = {one.target_name: one for one in made}

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Callable[[fx.Node], bool] | None]:
        """The original operators of the configurations."""
        configs = self.target_partitioner_configs.values()
        originals = {name: one for one in configs if (name := one.get_original_aten()) is not None}

        def wanted(node: fx.Node) -> bool:
            config = originals.get(node.target) if isinstance(node.target, OpOverload) else None
            return config is not None and config.check_constraints(node, ep)

        return list(originals), wanted

    def get_matched_nodes_from_configs(self, ep: ExportedProgram) -> list[list[fx.Node]]:
        """The groups of nodes that configurations take."""
        groups = []
        for node in ep.graph_module.graph.nodes:
            name = getattr(node.target, "__name__", str(node.target))
            config = self.target_partitioner_configs.get(format_target_name(name))
            if node.op == "call_function" and config is not None and (group := config.get_partition(node, ep)):
                groups.append(group)
        return groups

    def generate_partitions(self, ep: ExportedProgram) -> list[Partition]:
        """The largest partitions of these groups."""
        return generate_grouped_partitions_from_list_of_nodes(ep.graph_module, self.get_matched_nodes_from_configs(ep))

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags each partition."""
        tags: dict[str, DelegationSpec] = {}
        for one in self.generate_partitions(exported_program):
            for node in one.nodes:
                tag = f"tag{one.id}"
                node.meta["delegation_tag"] = tag
                tags[tag] = self.delegation_spec
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, tags)
