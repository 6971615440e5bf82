"""Tags what the compiler half can write. The table of operators is C++ (compiler/op_support.cpp); here is the policy.

>>> XnnpackPartitioner()  # the largest parts, all precisions  # doctest: +SKIP
>>> XnnpackPartitioner(config_precisions=Precision.FP32, per_op_mode=True)  # doctest: +SKIP
"""

import copy
from collections.abc import Iterable

from torch import fx
from torch.export import ExportedProgram

from executorch_py import _core
from executorch_py.exir.backend.partitioner import Partitioner, PartitionResult
from executorch_py.exir.backend.utils import nodes_with_bodies, note_refusal
from executorch_py.export.importer import import_programs

from .preprocess import BACKEND_ID, Precision, delegation_spec
from .units import units

_TAG = "xnnpack"


class XnnpackPartitioner(Partitioner):
    """Gives XNNPACK what it can do, in parts that are as large as the graph allows.

    Args:
        config_precisions: One precision or several; None takes all.
        per_op_mode: One part for each operator, with its conversions where it computes in integers, instead of the largest
            ones, for finding the operator that differs.
        always: Take parts that hold elementwise operators and views only, too, functions that are written out (GELU,
            norms) and the steps of quantized recurrent layers; by default they stay with the kernels, which do them at least
            as fast as a call of the delegate. Files for the official runtime (``compatible=True``), which has no such
            kernels, have functions and steps in the delegate in any case, and products of floats with integer weights.

    Attributes:
        refusals: Name of each node of the last program that was not taken -> the reason.
    """

    def __init__(
        self,
        config_precisions: Precision | Iterable[Precision] | None = None,
        per_op_mode: bool = False,
        always: bool = False,
    ) -> None:
        super().__init__()
        chosen = [config_precisions] if isinstance(config_precisions, Precision) else config_precisions
        self._precisions = frozenset(Precision if chosen is None else chosen)
        self._delegation_spec = delegation_spec(self._precisions)
        self._per_op_mode = per_op_mode
        self._leaves_parts = not (always or per_op_mode)
        self._leaves_functions = self._leaves_parts
        self.refusals: dict[str, str] = {}

    def for_compatible(self) -> "XnnpackPartitioner":
        """Takes what is left to kernels that the official runtime has not: written-out functions, recurrent steps and others."""
        other = copy.copy(self)
        other._leaves_functions = False
        other._delegation_spec = delegation_spec(self._precisions, weight_only=True)
        return other

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the supported nodes and notes the reason at each other one."""
        imported = import_programs({"forward": exported_program})
        specs = [(spec.key, bytes(spec.value)) for spec in self._delegation_spec.compile_specs]
        reasons: dict[fx.Node, str] = {}
        answers = _core.query_support(imported.program, BACKEND_ID, specs, self._leaves_parts, self._leaves_functions)
        for handle, reason in answers:
            node = imported.nodes[handle]
            reasons[node] = reasons.get(node) or reason  # one node may have become several
        self.refusals = {node.name: reason for node, reason in reasons.items() if reason}
        tags = {}
        nodes = [
            n for n in nodes_with_bodies(exported_program.graph_module) if n.op == "call_function" and n in reasons
        ]
        taken = [node for node in nodes if not reasons[node]]
        places: dict[fx.Node, int] = {}
        owner = units(taken) if self._per_op_mode else {}
        for node in nodes:
            if reason := reasons[node]:
                note_refusal(node, BACKEND_ID, reason)
        for node in taken:
            place = places.setdefault(owner.get(node, node), len(places))
            tag = f"{_TAG}_{place}" if self._per_op_mode else _TAG
            node.meta["delegation_tag"] = tag
            tags[tag] = self._delegation_spec
        return PartitionResult(exported_program, tags)
