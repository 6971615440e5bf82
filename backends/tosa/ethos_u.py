"""Ethos-U: parts of a quantized model as commands for Arm's NPU, compiled by Vela.

>>> from executorch_py.backends.tosa import EthosUPartitioner  # doctest: +SKIP
>>> partitioner = EthosUPartitioner("ethos-u55-128")  # doctest: +SKIP
>>> edge = et.to_edge_transform_and_lower(quantized, partitioner=[partitioner])  # doctest: +SKIP
>>> print(partitioner.report)  # cycles, memory, what stays on the CPU and why  # doctest: +SKIP

Nothing here runs such a payload: firmware hands it to a driver (backends/ethos_u). The same partitions with
``TOSAPartitioner(accelerator=…)`` run on the host and give the same integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import fx
from torch.export import ExportedProgram

from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import NotSupportedError, PartitionError
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.utils import get_delegated_payload
from executorch_py.graphs.sources import source_of
from executorch_py.lowering.config import ExecutorchBackendConfig
from executorch_py.lowering.delegated import Delegated
from executorch_py.lowering.delegation import delegate
from executorch_py.lowering.program import compile_methods

from .partitioner import Support, TOSAPartitioner, find_support, is_operator
from .preprocess import ETHOS_U, compile_specs, delegation_spec
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
    spec = delegation_spec(compile_specs(ETHOS_U, options.accelerator))
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
        rows = []
        for i, part in enumerate(self.parts, 1):
            rows += [f"part {i} of {len(self.parts)} on {part}"] if len(self.parts) > 1 else [str(part)]
        if len(self.parts) > 1:
            rows.append(f"{self.cycles} cycles in {len(self.parts)} parts")
        count = len(self.on_cpu)
        rows.append(f"{count} operator{'s' * (count != 1)} on the CPU beside conversions" + (":" if count else ""))
        rows += [f"  {name}  {source}  {reason}" for name, source, reason in self.on_cpu]
        return "\n".join(rows)


class _Parts(Partitioner):
    """Tags parts that are known, by the names of their nodes."""

    def __init__(self, parts: Iterable[Iterable[fx.Node]], spec: DelegationSpec) -> None:
        super().__init__()
        self.tags = {node.name: f"{_TAG}_{i}" for i, part in enumerate(parts) for node in part}
        self.delegation_spec = spec

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Constants, and what dequantizes them, go with the nodes that read them."""
        signature = exported_program.graph_signature
        constants = {
            *signature.inputs_to_parameters,
            *signature.inputs_to_buffers,
            *signature.inputs_to_lifted_tensor_constants,
        }
        for node in reversed(exported_program.graph.nodes):
            tag = self.tags.get(node.name)
            is_dequantized = "dequantize" in str(node.target) and getattr(node.args[0], "name", "") in constants
            if node.name in constants or is_dequantized:
                tags = {user.meta[_KEY] for user in node.users if user.meta.get(_KEY)}
                tag = tags.pop() if len(tags) == 1 else tag
            if tag is not None:
                node.meta[_KEY] = tag
        return PartitionResult(exported_program, dict.fromkeys(self.tags.values(), self.delegation_spec))


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
        super().__init__(ETHOS_U, self.options.accelerator, at_most=at_most)
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
            support = find_support(exported_program, self._tosa_specs, left)
            tried = self._tried(exported_program, support)
            if not isinstance(tried, Exception):
                break
            node, why = self._first_refused(exported_program, left, support, tried)
            left[node] = why
        self._note(support)
        self._report(support.reasons, tried)
        return _Parts(support.parts, self.delegation_spec).partition(exported_program)

    def _tried(self, program: ExportedProgram, support: Support) -> tuple[Report, ...] | RuntimeError:
        """Vela's report of each part, or why one cannot be compiled."""
        parts = _Parts(support.parts, self.delegation_spec)
        try:
            whole = delegate({"forward": Delegated(program)}, parts)["forward"].program
        except (VelaRefused, NotSupportedError) as refusal:
            return refusal
        reports = {one.payload: one.report for one in _compiled.values() if isinstance(one, Compiled)}
        return tuple(reports[payload] for payload in get_delegated_payload(whole.graph_module).values())

    def _first_refused(
        self, program: ExportedProgram, left: Mapping[fx.Node, str], support: Support, refusal: RuntimeError
    ) -> tuple[fx.Node, str]:
        """The first operator that makes a part refused, found by halving, and the reason.

        Raises:
            RuntimeError: The refusal, where there is no operator to leave.
        """
        operators = [node for node, reason in support.reasons.items() if not reason and is_operator(node)]
        if not operators:
            raise refusal
        taken, refused = 0, len(operators)  # so many operators are taken, and so many are not
        while refused - taken > 1:
            middle = (taken + refused) // 2
            others = dict.fromkeys(operators[middle:], "not tried")
            tried = self._tried(program, find_support(program, self._tosa_specs, {**left, **others}))
            if isinstance(tried, Exception):
                refused, refusal = middle, tried
            else:
                taken = middle
        return operators[refused - 1], str(refusal)

    def _report(self, reasons: Mapping[fx.Node, str], parts: tuple[Report, ...]) -> None:
        def source(node: fx.Node) -> str:
            place = source_of(node)
            return f"{place.file}:{place.line}" if place.file else ""

        on_cpu = tuple(
            (str(node.target), source(node), reason) for node, reason in reasons.items() if reason and is_operator(node)
        )
        self.report = OffloadReport(parts, on_cpu)
