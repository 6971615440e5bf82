"""Ethos-U: parts of a quantized model as commands for Arm's NPU, compiled by Vela.

>>> from executorch_py.backends.tosa import EthosUPartitioner  # doctest: +SKIP
>>> partitioner = EthosUPartitioner("ethos-u55-128")  # doctest: +SKIP
>>> edge = et.to_edge_transform_and_lower(quantized, partitioner=[partitioner])  # doctest: +SKIP
>>> print(partitioner.report)  # cycles, memory, what stays on the CPU and why  # doctest: +SKIP

Nothing here runs such a payload: firmware hands it to a driver (backends/ethos_u). The same partitions with
``TOSAPartitioner(accelerator=…)`` run on the host and give the same integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import fx
from torch.export import ExportedProgram

from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import PartitionError
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.utils import get_delegated_payload
from executorch_py.graphs.sources import source_of
from executorch_py.lowering.config import ExecutorchBackendConfig
from executorch_py.lowering.delegated import Delegated
from executorch_py.lowering.delegation import delegate
from executorch_py.lowering.program import compile_methods

from .partitioner import TOSAPartitioner, is_operator, support
from .preprocess import compile_specs, delegation_spec
from .vela import BACKEND_ID, Compiled, Report, VelaOptions, VelaRefused, compile_payload

__all__ = ["EthosUBackend", "EthosUPartitioner", "OffloadReport"]

_KEY, _TAG = "delegation_tag", "ethos_u"
_KEPT = 64
#: What Vela made of a payload, or why not; the parts of a program are compiled when it is partitioned.
_compiled: dict[tuple[bytes, VelaOptions], Compiled | VelaRefused] = {}


def _compile(payload: bytes, options: VelaOptions) -> Compiled:
    """compile_payload(), once for each payload.

    Raises:
        VelaRefused: Vela does not take it.
    """
    key = (payload, options)
    if key not in _compiled:
        while len(_compiled) >= _KEPT:
            del _compiled[next(iter(_compiled))]
        try:
            _compiled[key] = compile_payload(payload, options)
        except VelaRefused as refusal:
            _compiled[key] = refusal
    found = _compiled[key]
    if isinstance(found, VelaRefused):
        raise found
    return found


class EthosUBackend(BackendDetails):
    """Compiles a part: to TOSA in C++, then with Vela."""

    backend_id = BACKEND_ID

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The payload of a part.

        Raises:
            VelaRefused: Vela does not take it; EthosUPartitioner makes parts that it takes.
            ToolsMissing: There is no environment with Vela.
        """
        options = VelaOptions.from_compile_specs(compile_specs)
        return PreprocessResult(_compile(_tosa_payload(edge_program, options), options).payload)


def _tosa_payload(program: ExportedProgram, options: VelaOptions) -> bytes:
    """A whole program as one TOSA graph."""
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.meta[_KEY] = _TAG
    spec = delegation_spec(compile_specs("TOSA-1.0+INT", options.accelerator))
    made = compile_methods({"forward": Delegated(program, {_TAG: spec})}, {}, ExecutorchBackendConfig())
    parts = delegates_of(bytes(made.buffer))
    if len(parts) != 1:
        raise PartitionError(f"a part for {BACKEND_ID} became {len(parts)} TOSA graphs, must be one")
    return parts[0].payload


@dataclass(frozen=True)
class OffloadReport:
    """What runs where: Vela's report of each part, and what stays on the CPU.

    Attributes:
        parts: One of each part; cycles are Vela's estimates.
        on_cpu: Operators that stay outside: name, source line, reason.
    """

    parts: tuple[Report, ...]
    on_cpu: tuple[tuple[str, str, str], ...]

    @property
    def cycles(self) -> int:
        """Of all parts, estimated."""
        return sum(part.cycles for part in self.parts)

    def __str__(self) -> str:
        rows = [str(part) for part in self.parts]
        rows.append(f"{len(self.on_cpu)} operators stay on the CPU" + (":" if self.on_cpu else ""))
        rows += [f"  {name}  {source}  {reason}" for name, source, reason in self.on_cpu]
        return "\n".join(rows)


class _Tagged(Partitioner):
    """Tags the nodes that are named."""

    def __init__(self, names: set[str], spec: DelegationSpec) -> None:
        super().__init__()
        self.names, self.delegation_spec = names, spec

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in exported_program.graph.nodes:
            if node.name in self.names:
                node.meta[_KEY] = _TAG
        _tag_constants(exported_program)
        return PartitionResult(exported_program, {_TAG: self.delegation_spec})


def _tag_constants(program: ExportedProgram) -> None:
    """Constants go with the nodes that read them."""
    signature = program.graph_signature
    state = {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in state:
            tags = {user.meta[_KEY] for user in node.users if user.meta.get(_KEY)}
            if len(tags) == 1 and not node.meta.get(_KEY):
                node.meta[_KEY] = tags.pop()


class EthosUPartitioner(TOSAPartitioner):
    """Gives an Ethos-U what TOSA can say and Vela takes; the rest stays with the CPU's kernels, each with its reason.

    Args:
        options: The accelerator ("ethos-u55-128"), or more of Vela's options.
        at_most: As of TOSAPartitioner: only the first operators, this many.

    Raises:
        InvalidArgumentError: An accelerator that is not known.

    Attributes:
        refusals: Name of each node of the last program that was not taken -> the reason.
        report: What runs where in the last program.
    """

    def __init__(self, options: VelaOptions | str = "ethos-u55-128", *, at_most: int | None = None) -> None:
        self.options = VelaOptions(options) if isinstance(options, str) else options
        super().__init__(accelerator=self.options.accelerator, at_most=at_most)
        self._tosa_specs = self.delegation_spec.compile_specs
        specs = [CompileSpec(key, value) for key, value in self.options.compile_specs()]
        self.delegation_spec = DelegationSpec(BACKEND_ID, specs)
        self.report = OffloadReport((), ())

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags what Vela takes.

        Raises:
            ToolsMissing: There is no environment with Vela.
            InvalidArgumentError: The configuration has no such memory mode or system configuration.
        """
        left = self._beyond(exported_program)
        while True:
            reasons = support(exported_program, self._tosa_specs, left)
            parts = self._parts(exported_program, reasons)
            if not isinstance(parts, VelaRefused):
                break
            node, why = self._first_refused(exported_program, left, reasons, parts)
            left[node] = why
        self._report(reasons, parts)
        result = self._tagged(exported_program, reasons)
        _tag_constants(exported_program)
        return result

    def _parts(self, program: ExportedProgram, reasons: Mapping[fx.Node, str]) -> tuple[Report, ...] | VelaRefused:
        """Vela's report of each part, or its refusal of one."""
        names = {node.name for node, reason in reasons.items() if not reason}
        try:
            whole = delegate({"forward": Delegated(program)}, _Tagged(names, self.delegation_spec))["forward"].program
        except VelaRefused as refusal:
            return refusal
        reports = {one.payload: one.report for one in _compiled.values() if isinstance(one, Compiled)}
        return tuple(reports[payload] for payload in get_delegated_payload(whole.graph_module).values())

    def _first_refused(
        self,
        program: ExportedProgram,
        left: Mapping[fx.Node, str],
        reasons: Mapping[fx.Node, str],
        refusal: VelaRefused,
    ) -> tuple[fx.Node, str]:
        """The first operator with which Vela refuses, found by halving, and Vela's reason.

        Raises:
            VelaRefused: It refuses without any operator.
        """
        operators = [node for node, reason in reasons.items() if not reason and is_operator(node)]
        taken, refused = 0, len(operators)  # so many operators are taken, and so many are not
        while refused - taken > 1:
            middle = (taken + refused) // 2
            others = dict.fromkeys(operators[middle:], "not tried")
            tried = self._parts(program, support(program, self._tosa_specs, {**left, **others}))
            if isinstance(tried, VelaRefused):
                refused, refusal = middle, tried
            else:
                taken = middle
        if not operators:
            raise refusal
        return operators[refused - 1], str(refusal)

    def _report(self, reasons: Mapping[fx.Node, str], parts: tuple[Report, ...]) -> None:
        def source(node: fx.Node) -> str:
            place = source_of(node)
            return f"{place.file}:{place.line}" if place.file else ""

        on_cpu = tuple(
            (str(node.target), source(node), reason) for node, reason in reasons.items() if reason and is_operator(node)
        )
        self.report = OffloadReport(parts, on_cpu)
