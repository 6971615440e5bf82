"""Tags what the compiler half can write. The table of operators is C++ (compiler/op_support.cpp); here is the policy.

>>> XnnpackPartitioner()  # the parts that cost less in the delegate, all precisions  # doctest: +SKIP
>>> XnnpackPartitioner(largest=True)  # the largest parts  # doctest: +SKIP
>>> XnnpackPartitioner(config_precisions=Precision.FP32, per_op_mode=True)  # doctest: +SKIP
"""

import copy
import logging
from collections.abc import Iterable

from torch import fx
from torch.export import ExportedProgram

from executorch_py import _arguments, _core
from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.exir.backend.partitioner import Partitioner, PartitionResult
from executorch_py.exir.backend.utils import nodes_with_bodies, note_refusal
from executorch_py.export.importer.programs import import_programs
from executorch_py.graphs.recurrent import parts_of_recurrent

from .operator_config import OperatorConfig, is_meant, operators_of
from .preprocess import BACKEND_ID, Precision, delegation_spec
from .units import units

_TAG = "xnnpack"
_ISAS = ("any", "sse4.1", "avx2", "avxvnni", "avx512", "amx", "arm")

_logger = logging.getLogger("executorch_py.backends.xnnpack")


class XnnpackPartitioner(Partitioner):
    """Gives XNNPACK the parts that cost less there than in the runtime's kernels.

    Without options, measured costs decide for each part, which is as large as the graph allows: it goes to the delegate
    or stays with the kernels (docs/design/15-costs-decide.md). An option that says what is wanted wins over costs.

    Args:
        configs: Classes of ``partition_configs``: only operators that one of them is for are taken; None takes all.
        config_precisions: One precision or several, as members of Precision or their values ("fp32"); None takes all.
        per_op_mode: One part for each operator, with its conversions where it computes in integers, instead of the
            largest ones, for finding the operator that differs.
        verbose: Log, at the level INFO, why each other node is left alone.
        largest: Take the largest parts that the graph allows, whatever they cost. For processors that no table is for.
        isa: The processor that the file is for: "sse4.1", "avx2", "avxvnni", "avx512", "amx" or "arm". By default
            ("any") the choice must do for avx2, avx512 and amx. Figures for arm are derived, not measured.
        always: As ``largest``, and take parts that hold elementwise operators and views only, too, functions that are
            spelled out (GELU, norms) and the steps of quantized recurrent layers; otherwise they stay with the kernels,
            which do them at least as fast as a call of the delegate. Files for the official runtime
            (``compatible=True``), which has no such kernels, have functions and steps in the delegate in any case, and
            products of floats with integer weights.

    Attributes:
        refusals: Name of each node of the last program that was not taken -> the reason.
    """

    _takes_largest = False  # where neither `largest` nor `isa` says

    def __init__(
        self,
        configs: Iterable[type[OperatorConfig]] | None = None,
        config_precisions: Precision | str | Iterable[Precision | str] | None = None,
        per_op_mode: bool = False,
        verbose: bool = False,
        always: bool = False,
        largest: bool | None = None,
        isa: str = "any",
    ) -> None:
        super().__init__()
        self._precisions = _precisions(config_precisions)
        self._operators = None if configs is None else operators_of(configs)
        self._verbose = _arguments.flag("verbose", verbose)
        self._delegation_spec = delegation_spec(self._precisions)
        self._per_op_mode = per_op_mode
        self._leaves_parts = not (always or per_op_mode)
        self._leaves_functions = self._leaves_parts
        if _arguments.text("isa", isa) not in _ISAS:
            raise InvalidArgumentError(f"isa is '{isa}', must be of {', '.join(_ISAS)}")
        if largest is None:
            largest = self._takes_largest and isa == "any"
        has_wish = configs is not None or config_precisions is not None or per_op_mode or always or largest
        self._isa = "" if has_wish else isa
        self.refusals: dict[str, str] = {}

    @property
    def takes_recurrent_steps(self) -> bool:
        """As ``always``, and for the official runtime: the steps of recurrent layers are in the delegate."""
        return not self._leaves_functions

    def for_compatible(self) -> "XnnpackPartitioner":
        """Takes what is left to kernels that the official runtime has not: functions, recurrent steps, others."""
        other = copy.copy(self)
        other._leaves_functions = False
        other._isa = ""
        other._delegation_spec = delegation_spec(self._precisions, weight_only=True)
        return other

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the supported nodes and notes the reason at each other one."""
        steps = parts_of_recurrent(exported_program.graph_module)
        imported = import_programs({"forward": exported_program})
        specs = [(spec.key, bytes(spec.value)) for spec in self._delegation_spec.compile_specs]
        reasons: dict[fx.Node, str] = {}
        answers = _core.query_support(
            imported.program, BACKEND_ID, specs, self._leaves_parts, self._leaves_functions, self._isa
        )
        for handle, reason, costs in answers:
            node = imported.nodes[handle]
            if costs:
                note_refusal(node, BACKEND_ID, costs)
            reasons[node] = reasons.get(node) or reason  # one node may have become several
            if node in steps:
                reasons[node] = "it is part of a recurrent layer's step; the steps run as one operator"
        for node in reasons if self._operators is not None else ():
            if not reasons[node] and not is_meant(node, self._operators):
                reasons[node] = "its operator is not among the configs of the partitioner"
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
                if self._verbose:
                    _logger.info("%s (%s) is left alone: %s", node.name, node.target, reason)
        for node in taken:
            place = places.setdefault(owner.get(node, node), len(places))
            tag = f"{_TAG}_{place}" if self._per_op_mode else _TAG
            node.meta["delegation_tag"] = tag
            tags[tag] = self._delegation_spec
        return PartitionResult(exported_program, tags)


class PublishedXnnpackPartitioner(XnnpackPartitioner):
    """The class as its published path gives it: the largest parts, as code written for the published package expects.

    ``largest=False`` or an ``isa`` lets costs decide, as they do by default for ``executorch_py.backends.xnnpack``.
    """

    _takes_largest = True


def _precisions(given: Precision | str | Iterable[Precision | str] | None) -> frozenset[Precision]:
    """The precisions that are meant.

    Raises:
        InvalidArgumentError: A string is the value of none.
        InvalidTypeError: Something else is given.
    """
    if given is None:
        return frozenset(Precision)
    several = [given] if isinstance(given, (Precision, str)) else given
    if not isinstance(several, Iterable):
        raise InvalidTypeError(f"config_precisions is {given!r:.60}, must be members of Precision or their values")
    found = set()
    for one in several:
        if not isinstance(one, (Precision, str)):
            raise InvalidTypeError(f"config_precisions has {one!r:.60}, must have members of Precision or their values")
        known = {member.value: member for member in Precision} | {member.name: member for member in Precision}
        value = one.value if isinstance(one, Precision) else one
        if value not in known:
            values = ", ".join(member.value for member in Precision)
            raise InvalidArgumentError(f"config_precisions has '{one}', must be of {values}")
        found.add(known[value])
    return frozenset(found)


class XnnpackDynamicallyQuantizedPartitioner(XnnpackPartitioner):
    """Takes linear layers whose inputs are quantized at run time, and nothing else."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__(config_precisions=Precision.DYNAMIC_QUANT, per_op_mode=True, verbose=verbose)


class XnnpackFloatingPointPartitioner(XnnpackPartitioner):
    """Takes what computes in float32, and nothing else."""

    def __init__(self) -> None:
        super().__init__(config_precisions=Precision.FP32)


class XnnpackQuantizedPartitioner(XnnpackPartitioner):
    """Takes what computes with integers, and nothing else."""

    def __init__(self) -> None:
        super().__init__(config_precisions=[Precision.STATIC_QUANT, Precision.DYNAMIC_QUANT])
