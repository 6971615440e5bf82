"""Partitioner: the policy of delegation. It tags nodes; it changes nothing.

class MyPartitioner(Partitioner):
    def partition(self, exported_program):
        tags = {}
        for node in exported_program.graph.nodes:
            if node.target in SUPPORTED:
                node.meta["delegation_tag"] = "mine"
                tags["mine"] = DelegationSpec("MyBackend", [])
        return PartitionResult(exported_program, tags)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from .compile_spec_schema import CompileSpec


class DelegationSpec(NamedTuple):
    """Who compiles the nodes of a tag, and with which options."""

    backend_id: str
    compile_specs: list[CompileSpec]


@dataclass
class PartitionResult:
    """What a partitioner decided.

    Attributes:
        tagged_exported_program: The program whose nodes carry ``node.meta["delegation_tag"]``.
        partition_tags: Tag -> who takes its nodes. Nodes of one tag become one call where that is possible.
    """

    tagged_exported_program: ExportedProgram
    partition_tags: dict[str, DelegationSpec]


class Partitioner(ABC):
    """Decides which nodes a backend takes. Placeholders of constants may be tagged, too: the backend then owns them."""

    def __init__(self, spec: Mapping[Any, Any] = MappingProxyType({})) -> None:
        self._spec = dict(spec)  # a read-only view could not be copied, and a manager keeps its partitioners

    @property
    def spec(self) -> Mapping[Any, Any]:
        """What the partitioner was made with."""
        return self._spec

    @property
    def takes_recurrent_steps(self) -> bool:
        """Whether recurrent layers' loops are written step by step before ``partition`` sees a program."""
        return False

    def __call__(self, exported_program: ExportedProgram) -> PartitionResult:
        return self.partition(exported_program)

    @abstractmethod
    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags nodes of ``exported_program``."""

    def for_compatible(self) -> "Partitioner | None":
        """Who partitions anew when the file is for the official runtime (``ExecutorchBackendConfig(compatible=True)``).

        For partitioners that leave nodes to kernels which that runtime has not. It gets the program as this one left
        it, without this one's tags; nodes that others took stay theirs. None: this one's tags stay.
        """
        return None

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Callable[[fx.Node], bool] | None]:
        """Operators that this backend wants whole, and a filter that says for a node whether it really does."""
        return [], None

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Changes the program as torch exported it, before operators are decomposed (``to_edge_transform_and_lower``
        only).

        Several partitioners change it one after the other, in their order.
        """
        return exported_program
