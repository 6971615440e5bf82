"""Tags what the compiler half can write. The table of operators is C++ (compiler/op_support.cpp); here is the policy.

>>> TOSAPartitioner("TOSA-1.0+INT", accelerator="ethos-u55-128")  # doctest: +SKIP
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from executorch_py import _core
from executorch_py.errors import InvalidArgumentError
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import Partitioner, PartitionResult
from executorch_py.exir.backend.utils import nodes_with_bodies, note_refusal
from executorch_py.export.importer.programs import import_programs

from .preprocess import BACKEND_ID, compile_specs, delegation_spec

_TAG = "tosa"
_KEY = "delegation_tag"


@dataclass(frozen=True)
class Support:
    """What TOSA takes of a program.

    Attributes:
        reasons: Each node that was judged -> why it stays outside, "" where it does not.
        parts: The nodes of each part.
    """

    reasons: dict[fx.Node, str]
    parts: list[list[fx.Node]]


class TOSAPartitioner(Partitioner):
    """Gives TOSA the largest parts that it can say.

    In the profile INT these are the operators between quantize and dequantize: numbers become integers before a part
    and floats behind it. In the profile FP they are operators on floats.

    Args:
        compile_spec: A specification ("TOSA-1.0+INT+int16", "TOSA-1.0+FP"), or a list of CompileSpec.
        accelerator: Whose limits hold, as Vela names it ("ethos-u55-128"); None: those of TOSA's level 8K.
        at_most: Only the first operators of a program, this many, go to TOSA; conversions do not count. None: all.
            The outputs are the same for every number, so that a model can move to the NPU operator by operator.

    Raises:
        InvalidArgumentError: A specification or an accelerator that is not known; floats for an accelerator; a negative
            number.

    Attributes:
        refusals: Name of each node of the last program that was not taken -> the reason.
    """

    #: A loop is nothing that TOSA's profiles have.
    takes_recurrent_steps = True

    def __init__(
        self,
        compile_spec: str | Iterable[CompileSpec] = "TOSA-1.0+INT",
        accelerator: str | None = None,
        *,
        at_most: int | None = None,
    ):
        super().__init__()
        if at_most is not None and at_most < 0:
            raise InvalidArgumentError(f"at_most is {at_most}, must be None or a number of operators")
        specs = compile_specs(compile_spec, accelerator) if isinstance(compile_spec, str) else list(compile_spec)
        self.delegation_spec = delegation_spec(specs)
        self.at_most = at_most
        self.refusals: dict[str, str] = {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the supported nodes and notes the reason at each other one."""
        specs, left = self.delegation_spec.compile_specs, self._beyond(exported_program)
        support = find_support(exported_program, specs, left)
        self._note(support)
        tags: dict[str, Any] = {}
        for node, reason in support.reasons.items():
            if not reason:
                node.meta[_KEY] = _TAG
                tags[_TAG] = self.delegation_spec
        return PartitionResult(exported_program, tags)

    def _beyond(self, program: ExportedProgram) -> dict[fx.Node, str]:
        """The operators that `at_most` leaves, each with the reason."""
        if self.at_most is None:
            return {}
        operators = (node for node in nodes_with_bodies(program.graph_module) if is_operator(node))
        why = f"it stands behind the first {self.at_most} operators, which are all that at_most gives away"
        return dict.fromkeys(islice(operators, self.at_most, None), why)

    def _note(self, support: Support) -> None:
        self.refusals = {node.name: reason for node, reason in support.reasons.items() if reason}
        for node, reason in support.reasons.items():
            if reason:
                note_refusal(node, self.delegation_spec.backend_id, reason)


def find_support(
    program: ExportedProgram, specs: Iterable[CompileSpec], left: Mapping[fx.Node, str] | None = None
) -> Support:
    """What of a program TOSA takes; nodes that carry a tag are left out.

    Args:
        program: The program, which is not changed.
        specs: Specification and accelerator.
        left: Nodes that stay outside for the reasons given.
    """
    left = {node: why for node, why in (left or {}).items() if not node.meta.get(_KEY)}
    for node in left:
        node.meta[_KEY] = "left"  # what carries a tag is not judged
    try:
        imported = import_programs({"forward": program})
    finally:
        for node in left:
            del node.meta[_KEY]
    given = [(spec.key, bytes(spec.value)) for spec in specs]
    reasons = dict(left)
    for handle, reason, _ in _core.query_support(imported.program, BACKEND_ID, given, False, False):
        node = imported.nodes[handle]
        if node.op == "call_function":
            reasons[node] = reasons.get(node) or reason  # one node may have become several
    parts = _core.delegate_parts(imported.program)["forward"]
    nodes = [dict.fromkeys(imported.nodes[handle] for handle in part) for part in parts]
    return Support(reasons, [taken for part in nodes if (taken := [n for n in part if reasons.get(n) == ""])])


def is_operator(node: fx.Node) -> bool:
    """Whether a node counts: neither a conversion nor an element of several results."""
    name = getattr(node.target, "__name__", "")
    return node.op == "call_function" and "quantize_per" not in name and name != "getitem"
