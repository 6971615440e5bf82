"""AllNodePartitioner: the whole program for one backend, under its published name."""

from torch.export import ExportedProgram

from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.utils import tag_constant_data, tag_mutated_buffer

__all__ = ["AllNodePartitioner"]


class AllNodePartitioner(Partitioner):
    """Tags every call for one backend; weights and state go along.

    Args:
        backend_id: Which backend.
        compile_specs: Its options.
    """

    def __init__(self, backend_id: str, compile_specs: list[CompileSpec]) -> None:
        super().__init__()
        self.delegation_spec = DelegationSpec(backend_id, compile_specs)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the calls of the method's own graph."""
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                node.meta["delegation_tag"] = "all"
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, {"all": self.delegation_spec})
