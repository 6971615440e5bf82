"""Tags what the compiler half can write. The table of operators is C++ (compiler/op_support.cpp); here is the policy.

>>> TOSAPartitioner("TOSA-1.0+INT", accelerator="ethos-u55-128")  # doctest: +SKIP
"""

from collections.abc import Iterable
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from executorch_py import _core
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import Partitioner, PartitionResult
from executorch_py.exir.backend.utils import nodes_with_bodies, note_refusal
from executorch_py.export.importer.programs import import_programs

from .preprocess import BACKEND_ID, compile_specs, delegation_spec

_TAG = "tosa"


class TOSAPartitioner(Partitioner):
    """Gives TOSA the largest parts that it can say.

    These are the operators between quantize and dequantize: numbers become integers before a part
    and floats behind it.

    Args:
        compile_spec: A specification ("TOSA-1.0+INT"), or a list of CompileSpec.
        accelerator: Whose limits hold, as Vela names it ("ethos-u55-128"); None: those of TOSA's level 8K.

    Attributes:
        refusals: Name of each node of the last program that was not taken -> the reason.
    """

    def __init__(self, compile_spec: str | Iterable[CompileSpec] = "TOSA-1.0+INT", accelerator: str | None = None):
        super().__init__()
        specs = compile_specs(compile_spec, accelerator) if isinstance(compile_spec, str) else list(compile_spec)
        self.delegation_spec = delegation_spec(specs)
        self.refusals: dict[str, str] = {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the supported nodes and notes the reason at each other one."""
        imported = import_programs({"forward": exported_program})
        specs = [(spec.key, bytes(spec.value)) for spec in self.delegation_spec.compile_specs]
        reasons: dict[fx.Node, str] = {}
        for handle, reason, _ in _core.query_support(imported.program, BACKEND_ID, specs, False, False):
            node = imported.nodes[handle]
            reasons[node] = reasons.get(node) or reason  # one node may have become several
        self.refusals = {node.name: reason for node, reason in reasons.items() if reason}
        tags: dict[str, Any] = {}
        for node in nodes_with_bodies(exported_program.graph_module):
            if node.op != "call_function" or node not in reasons:
                continue
            if reason := reasons[node]:
                note_refusal(node, BACKEND_ID, reason)
            else:
                node.meta["delegation_tag"] = _TAG
                tags[_TAG] = self.delegation_spec
        return PartitionResult(exported_program, tags)
