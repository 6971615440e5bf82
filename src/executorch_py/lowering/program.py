"""ExecutorchProgramManager: a compiled program, as bytes, files and debug information."""

import functools
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py import _arguments, _core
from executorch_py._shown import Card, Shown, counted, nbytes_text
from executorch_py.codegen.pte_operators import instructions_of
from executorch_py.devtools.etrecord.record import ETRecord
from executorch_py.errors import InvalidArgumentError, InvalidStateError
from executorch_py.exir.backend.compiled_part import get_lowered_backend_modules
from executorch_py.exir.passes.memory_planning_pass import core_algorithm, is_own_planner
from executorch_py.exir.print_program import print_program
from executorch_py.export.decompose.decomposer import decompose
from executorch_py.export.dialect.custom_operators import CustomOperator, find_custom_operators
from executorch_py.export.dialect.operators import PUBLISHED_WHOLE
from executorch_py.export.importer.programs import Imported, import_programs
from executorch_py.export.importer.structure import signature_text
from executorch_py.graphs.rewriting import nodes_with_bodies

from .config import ExecutorchBackendConfig
from .delegated import Delegated
from .delegation_report import report_of
from .delegation_table import KEY
from .external_constants import DEFAULT_FILE, external_file_of
from .python_planning import options_of, plan_in_python


@dataclass(frozen=True)
class Recorded:
    """Programs of earlier stages, for the ETRecord.

    Attributes:
        edge: Method -> Edge program before delegation.
        exported: What ``torch.export`` gave, when it is to be recorded.
        methods: Method -> its program with the tags of C++ backends, as it was compiled.
    """

    edge: Mapping[str, ExportedProgram] = field(default_factory=dict)
    exported: ExportedProgram | None = None
    methods: Mapping[str, Delegated] = field(default_factory=dict)


class ExecutorchProgramManager(Shown):
    """A compiled program. Made by ``EdgeProgramManager.to_executorch``.

    Weights are not copied: the file is written straight from torch's memory. A weight that changes in between is
    refused, because the compiler has computed with its old value already.
    """

    def __init__(
        self,
        compiled: Any,
        programs: Mapping[str, ExportedProgram],
        imported: Imported,
        constant_methods: Mapping[str, Any],
        config: ExecutorchBackendConfig,
        recorded: Recorded,
    ) -> None:
        self._recorded = recorded
        self._compiled = compiled
        self._programs = dict(programs)
        self._imported = imported
        self._constant_methods = dict(constant_methods)
        self.backend_config = config

    @property
    def methods(self) -> set[str]:
        """Names of the methods."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the constant methods."""
        return set(self._constant_methods)

    @functools.cached_property
    def buffer(self) -> bytes:
        """The bytes of the ``.pte`` file.

        Raises:
            InvalidStateError: A weight was changed after ``to_executorch``.
        """
        return self._current().to_bytes()

    @property
    def memory_report(self) -> list[dict[str, Any]]:
        """For each method: planned bytes, largest sum of live bytes, bytes without reuse, arena sizes."""
        return self._compiled.memory

    @property
    def pass_timings(self) -> list[tuple[str, int, int, int]]:
        """Compiler passes in order: id, nanoseconds, nanoseconds of the verifier after it, number of methods
        changed.
        """
        return self._compiled.pass_timings

    @property
    def debug_handle_map(self) -> dict[str, dict[int, list[int]]]:
        """Method -> instruction index -> debug handles of the fx nodes that the instruction stands for."""
        known = self._imported.handles
        return {
            method: {
                index: sorted({one for handle in handles if handle in known for one in known[handle][2]})
                for index, handles in enumerate(instructions)
            }
            for method, instructions in self._compiled.debug_handles.items()
        }

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The fx program that a method was compiled from."""
        if method_name not in self._programs:
            raise InvalidArgumentError(
                f"there is no method '{method_name}'; there are {', '.join(sorted(self._programs))}"
            )
        return self._programs[method_name]

    @property
    def executorch_program(self) -> "ExecutorchProgramManager":
        """The program itself, for ``print_program``; the published class of file tables has no like here."""
        return self

    @property
    def delegate_map(self) -> dict[str, dict[int, Any]]:
        """Method -> instruction that calls a delegate -> its backend and ``delegate_map``.

        That is: the backend's own ids, under which ETDumps tell of its steps -> debug handles of the fx nodes that each
        stands for.
        """
        parts = self._imported.delegates
        found: dict[str, dict[int, Any]] = {}
        for method, calls in self._compiled.delegate_calls.items():
            found[method] = {}
            for instruction, index, backend, _, steps in calls:
                own = parts[index].meta["debug_handle_map"] if index < len(parts) else None
                map_of_steps = own or {step: self._fx_handles(handles) for step, handles in steps.items()}
                found[method][instruction] = {"name": backend, "delegate_map": map_of_steps}
        return found

    @property
    def delegate_output_counts(self) -> dict[str, dict[int, int]]:
        """Method -> instruction that calls a delegate -> how many of its values are outputs, the last ones."""
        calls = self._compiled.delegate_calls
        return {method: {instruction: outputs for instruction, _, _, outputs, _ in calls[method]} for method in calls}

    def _fx_handles(self, handles: list[int]) -> tuple[int, ...]:
        """Debug handles of fx nodes for those of the IR, without those that have none."""
        known = self._imported.handles
        return tuple(dict.fromkeys(own for one in handles if one in known for own in known[one][2] if own))

    def dump_executorch_program(self, verbose: bool = False, out: TextIO | None = None) -> None:
        """Writes the program as text to ``out`` or standard output; ``verbose``: with the bytes of arenas."""
        print_program(self, show_meminfo=verbose, out=out)

    def dump(self) -> str:
        """The IR after the last pass, as text."""
        return self._compiled.text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the ``.pte`` file, whole or not at all: to a temporary name in the same folder, then renamed.

        Raises:
            AccessFailedError: The folder cannot be written.
            InvalidArgumentError: The name does not end in ``.pte``.
            InvalidStateError: A weight was changed after ``to_executorch``.
        """
        name = _arguments.path("the file to save to", path)
        if Path(name).suffix != ".pte":
            raise InvalidArgumentError(f"'{name}' does not end in .pte")
        self._current().save(name)

    def write_to_file(self, open_file: BinaryIO) -> None:
        """Writes the ``.pte`` bytes to a file that is open for writing bytes."""
        open_file.write(self.buffer)

    def write_tensor_data_to_file(self, outdir: str | os.PathLike[str]) -> list[Path]:
        """Writes each ``.ptd`` file of external constants into a folder; returns their paths.

        None is written where ``external_constants`` finds no constant.

        Raises:
            InvalidStateError: Constants were not to be external; set
                ``ExecutorchBackendConfig(external_constants=True)``.
        """
        names = sorted(self._compiled.external_files)
        config = self.backend_config
        if not names and config.external_constants is False and not config.external_mutable_weights:
            raise InvalidStateError(
                "the program has no external constants; lower it with ExecutorchBackendConfig(external_constants=True)"
            )
        folder = Path(_arguments.path("the folder to write to", outdir))
        paths = {name: folder / f"{name}.ptd" for name in names}
        for name, path in paths.items():
            self._current().save_external(name, os.fspath(path))
        return [*paths.values()]

    def get_etrecord(self) -> ETRecord:
        """What developer tools need beside the file: graphs, and what each instruction stands for.

        The exported program is in it when the program was lowered with ``generate_etrecord=True``.
        """
        return ETRecord(
            self._recorded.exported,
            edge_dialect_program={**self._programs, **self._recorded.edge},
            _debug_handle_map=self.debug_handle_map,
            _delegate_map=self.delegate_map,
            _instruction_id_to_num_outs_map=self.delegate_output_counts,
            instructions=instructions_of(self.buffer),
        )

    def _card(self) -> Card:
        memory = {one["method"]: one for one in self.memory_report}
        rows = []
        for name, program in sorted(self._programs.items()):
            instructions = self._compiled.debug_handles.get(name, ())
            taken = Counter(_backends(self._recorded.methods[name]))
            taken.update(part.backend_id for part in get_lowered_backend_modules(program.graph_module))
            own = "".join(f", {counted(count, 'node')} in {backend}" for backend, count in sorted(taken.items()))
            sizes = memory.get(name, {}).get("arena_sizes", ())
            runs = counted(len(instructions), "instruction") + own
            rows.append((name, *signature_text(program), runs, nbytes_text(sum(sizes))))
        facts = [f"a file of {nbytes_text(self._compiled.nbytes)}", counted(len(rows), "method")]
        if self._constant_methods:
            facts.append(f"constant methods {', '.join(sorted(self._constant_methods))}")
        return Card("ExecutorchProgramManager", facts, ("method", "inputs", "outputs", "runs", "planned memory"), rows)

    def _current(self) -> Any:
        """The compiled program, if the weights it borrows are those it was compiled with."""
        self._imported.require_unchanged()
        return self._compiled


def compile_methods(
    methods: Mapping[str, Delegated],
    constant_methods: Mapping[str, Any],
    config: ExecutorchBackendConfig,
    recorded: Recorded | None = None,
) -> ExecutorchProgramManager:
    """Imports Edge programs into the IR and compiles them (driver::compile)."""
    programs = {name: method.program for name, method in methods.items()}
    if config.compatible:
        # The official runtime has no operator for checks (torch._check), and its exporter leaves them out.
        programs = {
            name: decompose(
                program, frozenset(PUBLISHED_WHOLE) | _only_delegated(program), keep_checks=False, published=True
            )
            for name, program in programs.items()
        }
    custom = find_custom_operators(programs, True if _any_kernel(config) else config.target_kernels)
    options = _options(methods, custom, config)

    def imports() -> Imported:
        return import_programs(
            programs,
            constant_methods,
            external_file_of(config.external_constants),
            with_checks=not config.compatible,
            trained_file=DEFAULT_FILE if config.external_mutable_weights else "",
        )

    if planners := {name: plan for name in methods if is_own_planner(plan := config.planning_for(name))}:
        signatures = {name: program.graph_signature for name, program in programs.items()}
        options["planning"].update(plan_in_python(planners, signatures, imports().program, options))
    imported = imports()
    if config.debug_info:
        _note_delegation(methods, programs, imported)
    options["debug_handles"] = {one: [own for own in known[2] if own] for one, known in imported.handles.items()}
    compiled = _core.compile(imported.program, options)
    recorded = replace(recorded or Recorded(), methods=methods)
    return ExecutorchProgramManager(compiled, programs, imported, constant_methods, config, recorded)


def _backends(method: Delegated) -> list[str]:
    """The backend of each node that the C++ compiler of one takes."""
    tags = (node.meta.get("delegation_tag") for node in nodes_with_bodies(method.program.graph_module))
    return [method.tags[tag].backend_id for tag in tags if tag in method.tags]


def _note_delegation(
    methods: Mapping[str, Delegated], programs: Mapping[str, ExportedProgram], imported: Imported
) -> None:
    """Writes the delegation report into the program, for ``etpy inspect``, when something is delegated."""
    backends = {name: {tag: spec.backend_id for tag, spec in method.tags.items()} for name, method in methods.items()}
    if any(backends.values()):
        imported.program.named_data(KEY, report_of(programs, backends, imported).to_bytes())


def _only_delegated(program: ExportedProgram) -> frozenset[OpOverload]:
    """Operators all of whose nodes go to a backend, which gets them whole whatever the official runtime has."""
    delegated: dict[OpOverload, bool] = {}
    for node in nodes_with_bodies(program.graph_module):
        if isinstance(node.target, OpOverload):
            delegated[node.target] = delegated.get(node.target, True) and bool(node.meta.get("delegation_tag"))
    return frozenset(op for op, whole in delegated.items() if whole)


def _target_kernels(custom: Mapping[str, CustomOperator], config: ExecutorchBackendConfig) -> list[str]:
    if _any_kernel(config):
        return [op.kernel for op in custom.values()]
    return [] if isinstance(config.target_kernels, bool) else list(config.target_kernels)


def _any_kernel(config: ExecutorchBackendConfig) -> bool:
    """Whether operators are lowered whose kernels this process has not."""
    return config.target_kernels is True or config.to_out_var_pass.ignore_to_out_var_failure


def _sparse_option(sparse_weights: bool | float) -> dict[str, float]:
    """The least part of zeros of a weight that is stored without them; above 1: none is."""
    if sparse_weights is True:
        return {}
    return {"sparse_weights": 2.0 if sparse_weights is False else float(sparse_weights)}


def _planning(plan: Any) -> dict[str, Any]:
    return options_of(plan, None if is_own_planner(plan) else core_algorithm(plan))


def _options(
    methods: Mapping[str, Delegated], custom: Mapping[str, CustomOperator], config: ExecutorchBackendConfig
) -> dict[str, Any]:
    """The options of driver::compile, by name."""
    return {
        "compatible": config.compatible,
        "quantized_io": config.quantized_io,
        "disabled_passes": [*config.disabled_passes, *([] if config.remove_view_copy else ["remove-views"])],
        "custom_ops": {name: (op.kernel, op.changed, op.signature) for name, op in custom.items()},
        "target_kernels": _target_kernels(custom, config),
        "segment_alignment": max(config.segment_alignment, config.delegate_alignment or 1),
        "constant_alignment": config.constant_tensor_alignment or 16,
        "inline_delegates": not config.extract_delegate_segments,
        "debug_info": config.debug_info,
        **_sparse_option(config.sparse_weights),
        "planning": {name: _planning(config.planning_for(name)) for name in methods},
        "delegation": {
            tag: (spec.backend_id, [(item.key, bytes(item.value)) for item in spec.compile_specs])
            for method in methods.values()
            for tag, spec in method.tags.items()
        },
    }
