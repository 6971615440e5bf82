"""to_edge, to_edge_transform_and_lower and EdgeProgramManager, with the published names and semantics.

>>> edge = to_edge(torch.export.export(model, inputs))  # doctest: +SKIP
>>> edge = edge.transform([MyPass()]).to_backend(MyPartitioner())  # doctest: +SKIP
>>> edge.to_executorch().save("model.pte")  # doctest: +SKIP
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py._shown import Card, Shown, counted
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from executorch_py.exir.backend.compiled_part import get_lowered_backend_modules
from executorch_py.exir.backend.partitioner import Partitioner
from executorch_py.export.decompose.decomposer import decompose
from executorch_py.export.decompose.quantized_forms import canonical_quantization
from executorch_py.export.dialect.edge import check_edge
from executorch_py.export.dialect.operators import KEPT_WHOLE
from executorch_py.export.functional.functionalize import functionalize
from executorch_py.export.functional.higher_order import expand_operators, inline_wrappers
from executorch_py.export.importer.structure import signature_text
from executorch_py.graphs.modes import warn_of_training
from executorch_py.graphs.program_state import mark_trained
from executorch_py.graphs.rewriting import nodes_with_bodies
from executorch_py.graphs.torch_quantized import export_hint
from executorch_py.graphs.weight_names import with_weight_names

from .config import EdgeCompileConfig, ExecutorchBackendConfig, require_known_methods
from .delegated import Delegated
from .delegation import delegate, for_compatible
from .passes import Passes, passes_for, run_passes
from .program import ExecutorchProgramManager, Recorded, compile_methods

#: One program (method "forward"), or several by method name.
Programs = ExportedProgram | Mapping[str, ExportedProgram]
Partitioners = Partitioner | Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]]


def to_edge(
    programs: Programs,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> "EdgeProgramManager":
    """Brings exported programs into the Edge dialect.

    Args:
        programs: One program (method ``forward``), or several by method name.
        constant_methods: Method name -> what it returns: a number, bool, string, tensor, or list of these.
        compile_config: Options.
        generate_etrecord: Put the exported program into the ETRecord, too, which
            ``ExecutorchProgramManager.get_etrecord`` gives in any case.

    Raises:
        NotSupportedError: An operator has no form in Edge; names it, its source line and what to do.
    """
    edge = _to_edge(programs, constant_methods, compile_config or EdgeCompileConfig(), {})
    edge._exported = _recorded(programs) if generate_etrecord else None
    return edge


def to_edge_transform_and_lower(
    programs: Programs,
    transform_passes: Passes | None = None,
    partitioner: Partitioners | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> "EdgeProgramManager":
    """``to_edge``, users' passes and delegation in one step; operators that a partitioner wants whole stay whole.

    Args:
        programs: One program (method ``forward``), or several by method name.
        transform_passes: Passes that run on the Edge programs before partitioning.
        partitioner: One, several (first come first served), or several for each method by name.
        constant_methods: As in ``to_edge``.
        compile_config: Options.
        generate_etrecord: As in ``to_edge``.
    """
    named = _named(programs)
    wanted = _partitioners_by_method(partitioner, named)
    edge = _to_edge(named, constant_methods, compile_config or EdgeCompileConfig(), wanted)
    edge._exported = _recorded(programs) if generate_etrecord else None
    if transform_passes is not None:
        edge = edge.transform(transform_passes)
    return edge.to_backend(wanted) if any(wanted.values()) else edge


class EdgeProgramManager(Shown):
    """Edge programs by method name, immutable: each step returns a new manager."""

    def __init__(
        self,
        edge_programs: Programs,
        constant_methods: Mapping[str, Any] | None = None,
        compile_config: EdgeCompileConfig | None = None,
        core_aten_ops_exception_list: Sequence[OpOverload] | None = None,
        preserve_ops: Sequence[OpOverload] | None = None,
    ) -> None:
        self.compile_config = compile_config or EdgeCompileConfig()
        given: dict[str, Any] = {
            "_core_aten_ops_exception_list": core_aten_ops_exception_list,
            "preserve_ops": preserve_ops,
        }
        if lists := {name: value for name, value in given.items() if value is not None}:
            self.compile_config = replace(self.compile_config, **lists)
        if not isinstance(constant_methods, (Mapping, NoneType)):
            raise InvalidTypeError(f"constant_methods is {constant_methods!r:.80}, must be a dict of names and values")
        self._constant_methods: dict[str, Any] = {}
        for name, value in (constant_methods or {}).items():
            self.add_constant_method(name, value)
        self._delegated = {name: Delegated(program) for name, program in _named(edge_programs).items()}
        self._exported: ExportedProgram | None = None
        self._before_delegation: dict[str, ExportedProgram] = {}

    @property
    def methods(self) -> set[str]:
        """Names of the methods."""
        return set(self._delegated)

    @property
    def config_methods(self) -> set[str]:
        """Names of the constant methods."""
        return set(self._constant_methods)

    def add_constant_method(self, name: str, value: Any) -> None:
        """Adds a method that returns ``value``; passes note what they found so."""
        require_method_name(name)
        self._constant_methods[name] = value

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The Edge program of one method.

        Raises:
            NotFoundError: There is no such method.
        """
        return self._method(method_name).program

    def delegation_tags(self, method_name: str = "forward") -> dict[str, str]:
        """``delegation_tag`` -> id of the backend whose C++ compiler takes the nodes that carry it.

        Raises:
            NotFoundError: There is no such method.
        """
        return {tag: spec.backend_id for tag, spec in self._method(method_name).tags.items()}

    def transform(self, passes: Passes, compile_config: EdgeCompileConfig | None = None) -> "EdgeProgramManager":
        """Runs users' passes: one, several, or several for each method by name.

        Raises:
            NotFoundError: Passes are given for a method that does not exist.
            InvalidArgumentError: A pass left the graph broken, or changed the method's interface.
        """
        self._require_known("passes", passes)
        changed = {
            name: replace(method, program=run_passes(method.program, passes_for(passes, name)))
            for name, method in self._delegated.items()
        }
        return self._with(changed, compile_config)

    def to_backend(self, partitioner: Partitioners) -> "EdgeProgramManager":
        """Lets partitioners tag nodes and backends compile them: one, several, or several for each method by name.

        Raises:
            PartitionError: A partitioner's tags and specs do not fit together.
            NotFoundError: Nobody compiles for a backend that a partitioner names.
        """
        done = dict(self._delegated)
        for one, methods in _stages(_partitioners_by_method(partitioner, done)):
            done.update(delegate({name: done[name] for name in methods}, one))
        other = self._with(done, None)
        other._before_delegation = {
            name: one.program for name, one in self._delegated.items()
        } | self._before_delegation
        return other

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Compiles the methods into a program.

        Raises:
            NotSupportedError: A construct has no form in the file; names it and its source line.
            OperatorMissingError: No kernel exists for an operator.
        """
        config = config if config is not None else ExecutorchBackendConfig()
        _require_options("config", config, ExecutorchBackendConfig)
        config.require_valid()
        self._require_known("passes", config.passes)
        self._require_known("memory plans", config.memory_planning_pass)
        programs = {
            name: replace(method, program=run_passes(method.program, passes_for(config.passes, name)))
            for name, method in self._delegated.items()
        }
        recorded = Recorded(self._before_delegation, self._exported)
        methods = for_compatible(programs) if config.compatible else programs
        return compile_methods(methods, self._constant_methods, config, recorded)

    def _card(self) -> Card:
        rows = []
        for name, method in sorted(self._delegated.items()):
            nodes = [node for node in nodes_with_bodies(method.program.graph_module) if node.op == "call_function"]
            tags = [method.tags.get(node.meta.get("delegation_tag", "")) for node in nodes]
            taken = Counter(spec.backend_id for spec in tags if spec is not None)
            taken.update(part.backend_id for part in get_lowered_backend_modules(method.program.graph_module))
            delegated = ", ".join(f"{backend}: {count}" for backend, count in sorted(taken.items())) or "none"
            rows.append((name, *signature_text(method.program), counted(len(nodes), "node"), delegated))
        facts = [counted(len(rows), "method")]
        if self._constant_methods:
            facts.append(f"constant methods {', '.join(sorted(self._constant_methods))}")
        return Card("EdgeProgramManager", facts, ("method", "inputs", "outputs", "graph", "delegated"), rows)

    def _method(self, name: str) -> Delegated:
        method = self._delegated.get(name)
        if method is None:
            raise NotFoundError(f"there is no method '{name}'; there are {', '.join(sorted(self._delegated))}")
        return method

    def _require_known(self, what: str, given: Any) -> None:
        if isinstance(given, Mapping):
            require_known_methods(what, given, self._delegated)

    def _with(self, methods: dict[str, Delegated], config: EdgeCompileConfig | None) -> "EdgeProgramManager":
        other = EdgeProgramManager({}, self._constant_methods, config or self.compile_config)
        other._delegated = methods
        other._exported, other._before_delegation = self._exported, self._before_delegation
        return other


def _require_options(what: str, given: Any, kind: type) -> None:
    if not isinstance(given, kind):
        raise InvalidTypeError(f"{what} is {given!r:.80}, must be an {kind.__name__}")


def require_method_name(name: Any) -> None:
    """A method is called by its name from Python, C++ and shells.

    Raises:
        InvalidTypeError: It is no string.
        InvalidArgumentError: It is empty, or has characters that no shell or log shows.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"the name of a method is {name!r}, must be a string")
    if not name or not name.isprintable():
        raise InvalidArgumentError(f"the name of a method is {name!r}; it must have characters, all of them printable")


def _named(programs: Programs) -> dict[str, ExportedProgram]:
    named = dict(programs) if isinstance(programs, Mapping) else {"forward": programs}
    for name, program in named.items():
        require_method_name(name)
        if not isinstance(program, ExportedProgram):
            hint = export_hint(program) if isinstance(program, torch.nn.Module) else ""
            raise InvalidArgumentError(f"method '{name}' is a {type(program).__name__}, not an ExportedProgram{hint}")
    return named


def _recorded(programs: Programs) -> ExportedProgram | None:
    """The exported program of an ETRecord, which has room for one."""
    return programs.get("forward") if isinstance(programs, Mapping) else programs


def _to_edge(
    programs: Programs,
    constant_methods: Mapping[str, Any] | None,
    config: EdgeCompileConfig,
    partitioners: Mapping[str, Sequence[Partitioner]],
) -> EdgeProgramManager:
    _require_options("compile_config", config, EdgeCompileConfig)
    config.require_valid()
    edge: dict[str, ExportedProgram] = {}
    named = _named(programs)
    if not named:
        raise InvalidArgumentError("there is no program to lower: the dict of programs is empty")
    for name, program in named.items():
        for one in partitioners.get(name, ()):
            program = one.transform_for_pre_decomposition(program)
            _require_program(f"{type(one).__name__}.transform_for_pre_decomposition", program)
        warn_of_training(name, program)
        functional = canonical_quantization(expand_operators(functionalize(inline_wrappers(program))))
        wanted, accepts = _wanted_whole(functional, partitioners.get(name, ()), config)
        whole = frozenset((*KEPT_WHOLE, *wanted)) - set(config.decompose_ops)
        edge[name] = with_weight_names(decompose(functional, whole, accepts))
        if config._check_ir_validity:
            check_edge(name, edge[name], {*wanted, *config._core_aten_ops_exception_list})
    mark_trained(edge)
    return EdgeProgramManager(edge, constant_methods, config)


def _require_program(what: str, given: Any) -> None:
    if not isinstance(given, ExportedProgram):
        raise InvalidTypeError(f"{what} returned {given!r:.60}, must return an ExportedProgram")


def _wanted_whole(
    program: ExportedProgram, partitioners: Sequence[Partitioner], config: EdgeCompileConfig
) -> tuple[set[OpOverload], Callable[[fx.Node], bool]]:
    """Operators that stay whole beside Edge's own, and the filter for their nodes."""
    always = set(config.preserve_ops)
    filters: dict[Any, list[Callable[[fx.Node], bool] | None]] = {}
    for one in partitioners:
        ops, accepts = one.ops_to_not_decompose(program)
        for op in ops:
            filters.setdefault(op, []).append(accepts)

    def keep(node: fx.Node) -> bool:
        if node.target in always:
            return True
        return any(accepts is None or accepts(node) for accepts in filters.get(node.target, ()))

    return always | set(filters), keep


def _partitioners_by_method(
    partitioner: Partitioners | None, methods: Mapping[str, Any]
) -> dict[str, list[Partitioner]]:
    if partitioner is None:
        return {name: [] for name in methods}
    if isinstance(partitioner, Mapping):
        require_known_methods("partitioners", partitioner, methods)
        return {name: _listed(partitioner.get(name)) for name in methods}
    return {name: _listed(partitioner) for name in methods}


def _listed(partitioner: Any) -> list[Partitioner]:
    if partitioner is None:
        return []
    several = list(partitioner) if isinstance(partitioner, (list, tuple)) else [partitioner]
    for one in several:
        if not isinstance(one, Partitioner):
            raise InvalidArgumentError(f"{one!r:.80} is no object of a class derived from Partitioner")
    return several


def _stages(by_method: Mapping[str, Sequence[Partitioner]]) -> list[tuple[Partitioner, list[str]]]:
    """Partitioners in their order, each with the methods it works on (all at once, so that it can share work)."""
    stages: list[tuple[Partitioner, list[str]]] = []
    for name, partitioners in by_method.items():
        for one in partitioners:
            for known, methods in stages:
                if known is one:
                    methods.append(name)
                    break
            else:
                stages.append((one, [name]))
    return stages
