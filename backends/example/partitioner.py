"""Tags what op_support.py accepts. Cutting the tagged nodes into parts is the compiler's work, not ours."""

from torch.export import ExportedProgram

from executorch_py.exir.backend.partitioner import Partitioner, PartitionResult
from executorch_py.exir.backend.utils import constant_names, note_refusal

from .op_support import refusal
from .preprocess import BACKEND_ID, delegation_spec

_TAG = "example"


class ExamplePartitioner(Partitioner):
    """Gives the example backend all it can do.

    Attributes:
        refusals: Name of each node of the last program that was not taken -> the reason.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refusals: dict[str, str] = {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the supported nodes."""
        constants = constant_names(exported_program)
        self.refusals = {}
        tags = {}
        for node in exported_program.graph.nodes:
            if node.op != "call_function":
                continue
            if reason := refusal(node, constants):
                self.refusals[node.name] = reason
                note_refusal(node, BACKEND_ID, reason)
            else:
                node.meta["delegation_tag"] = _TAG
                tags[_TAG] = delegation_spec()
        return PartitionResult(exported_program, tags)
