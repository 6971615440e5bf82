"""The ETRecord of a program.

Example:
    >>> edge = et.to_edge_transform_and_lower(exported, generate_etrecord=True)  # doctest: +SKIP
    >>> record = edge.to_executorch().get_etrecord()  # doctest: +SKIP
    >>> record.update_representative_inputs(list(inputs))  # doctest: +SKIP
    >>> record.save("model.etrecord")  # doctest: +SKIP
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from torch.export import ExportedProgram

from executorch_py._shown import Told, counted
from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError

from .archive import read_record, write_record

__all__ = ["ETRecord", "generate_etrecord", "parse_etrecord"]

#: Method -> number of the instruction -> debug handles of fx nodes, one or several.
HandleMap = Mapping[str, Mapping[int, Any]]


class ETRecord(Told):
    """What developer tools need beside the file. Made by ``get_etrecord`` of a compiled program, or read from a file.

    Attributes:
        exported_program: What ``torch.export`` gave; ``None`` unless it was lowered with ``generate_etrecord=True``.
        export_graph_id: Number of its graph, which ``from_node`` of later graphs names.
        edge_dialect_program: The Edge program before delegation; a dict by method when there are several.
        graph_map: "module/method" -> further programs that were recorded.
        instructions: Method -> what each instruction calls: a kernel such as ``aten::add.out``, or "" for others. Empty
            in records of the published package.
    """

    def __init__(
        self,
        exported_program: ExportedProgram | None = None,
        export_graph_id: int | None = None,
        edge_dialect_program: ExportedProgram | Mapping[str, ExportedProgram] | None = None,
        graph_map: Mapping[str, ExportedProgram] | None = None,
        _debug_handle_map: HandleMap | None = None,
        _delegate_map: Mapping[str, Any] | None = None,
        _instruction_id_to_num_outs_map: Mapping[str, Any] | None = None,
        _reference_outputs: Mapping[str, Any] | None = None,
        _representative_inputs: Sequence[Any] | None = None,
        instructions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.exported_program = exported_program
        self.export_graph_id = (
            id(exported_program.graph) if export_graph_id is None and exported_program else export_graph_id
        )
        self.edge_dialect_program = _one_or_several(edge_dialect_program)
        self.graph_map = dict(graph_map or {})
        self._debug_handle_map = _debug_handle_map
        self._delegate_map = _delegate_map
        self._instruction_id_to_num_outs_map = _instruction_id_to_num_outs_map
        self._reference_outputs = _reference_outputs
        self._representative_inputs = None if _representative_inputs is None else list(_representative_inputs)
        self.instructions = {name: tuple(found) for name, found in (instructions or {}).items()}

    @property
    def debug_handle_map(self) -> HandleMap:
        """Method -> number of the instruction -> debug handles of fx nodes."""
        return self._debug_handle_map or {}

    @property
    def delegate_map(self) -> Mapping[str, Any]:
        """Method -> number of the instruction -> name of the backend, and its own ids with their debug handles."""
        return self._delegate_map or {}

    def edge_programs(self) -> dict[str, ExportedProgram]:
        """The Edge program of each method."""
        program = self.edge_dialect_program
        if isinstance(program, Mapping):
            return dict(program)
        return {} if program is None else {next(iter(self.debug_handle_map), "forward"): program}

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Writes the record as a file, to a path or to a file that is open for writing bytes.

        Raises:
            InvalidStateError: It has no Edge program or no debug handles.
        """
        if self.edge_dialect_program is None or self._debug_handle_map is None:
            raise InvalidStateError(
                "the record has no Edge program or no compiled program; add them with add_edge_dialect_program and "
                "add_executorch_program, or take get_etrecord() of what to_executorch() returns"
            )
        write_record(self, path)

    def copy(self) -> ETRecord:
        """The record of the stages before ``to_executorch``."""
        return ETRecord(
            self.exported_program, self.export_graph_id, self.edge_dialect_program, copy.copy(self.graph_map)
        )

    def add_extra_export_modules(self, extra_recorded_export_modules: Mapping[str, Any]) -> None:
        """Adds programs under names of the user's: exported ones, or managers of Edge programs.

        Raises:
            InvalidArgumentError: A name is one of the file's own.
        """
        for name, module in extra_recorded_export_modules.items():
            if name.split("/")[0] in RESERVED:
                raise InvalidArgumentError(f"'{name}' is a name of the file's own; take another one")
            for method, program in _programs_of(module).items():
                self.graph_map[f"{name}/{method}"] = program

    def add_executorch_program(self, executorch_program: Any) -> None:
        """Adds a compiled program, or a bundled one with its inputs and expected outputs.

        Raises:
            InvalidStateError: The record has one already.
        """
        self._require_none("compiled", self._debug_handle_map)
        bundled = executorch_program if hasattr(executorch_program, "method_test_suites") else None
        program = bundled.executorch_program if bundled is not None else executorch_program
        if not hasattr(program, "debug_handle_map"):
            raise InvalidTypeError(f"{executorch_program!r:.60} is nothing that to_executorch() returned")
        made = program.get_etrecord()
        self._debug_handle_map, self._delegate_map = made._debug_handle_map, made._delegate_map
        self._instruction_id_to_num_outs_map = made._instruction_id_to_num_outs_map
        self.instructions = made.instructions
        if bundled is not None:
            self.update_representative_inputs(bundled)
            self.update_reference_outputs(bundled)

    def add_exported_program(self, exported_program: ExportedProgram | Mapping[str, ExportedProgram] | None) -> None:
        """Adds what ``torch.export`` gave; of several methods, ``forward``.

        Raises:
            InvalidStateError: The record has one already.
        """
        if exported_program is None:
            return
        self._require_none("exported", self.exported_program)
        if isinstance(exported_program, Mapping):
            exported_program = exported_program.get("forward")
        self.exported_program = exported_program
        self.export_graph_id = id(exported_program.graph) if exported_program is not None else None

    def add_edge_dialect_program(self, edge_dialect_program: Any) -> None:
        """Adds the manager that ``to_edge`` returned, or Edge programs.

        Raises:
            InvalidStateError: The record has one already.
        """
        self._require_none("Edge", self.edge_dialect_program)
        self.edge_dialect_program = _one_or_several(_programs_of(edge_dialect_program))

    def update_representative_inputs(self, representative_inputs: Any) -> None:
        """Sets the inputs that ``calculate_numeric_gap`` runs: a list, or the first case of a bundled program."""
        if hasattr(representative_inputs, "method_test_suites"):
            representative_inputs = _suite(representative_inputs).test_cases[0].inputs
        self._representative_inputs = list(representative_inputs)

    def update_reference_outputs(self, reference_outputs: Any) -> None:
        """Sets the expected outputs: of ``forward``, by method, or those of a bundled program."""
        if hasattr(reference_outputs, "method_test_suites"):
            suites = reference_outputs.method_test_suites
            reference_outputs = {one.method_name: [case.expected_outputs for case in one.test_cases] for one in suites}
        if not isinstance(reference_outputs, Mapping):
            reference_outputs = {"forward": [list(reference_outputs)]}
        self._reference_outputs = dict(reference_outputs)

    def _require_none(self, what: str, value: Any) -> None:
        if value is not None:
            raise InvalidStateError(f"the record has an {what} program already; make another record")

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{name}: {counted(len(found), 'instruction')}" for name, found in self.debug_handle_map.items()
        )
        extra = "".join(f", {name}" for name in sorted(self.graph_map))
        exported = ", with its exported program" if self.exported_program is not None else ""
        return f"ETRecord({counts or 'no compiled program'}{exported}{extra})"


def generate_etrecord(
    et_record: str | os.PathLike[str] | BinaryIO,
    edge_dialect_program: Any,
    executorch_program: Any,
    exported_program: ExportedProgram | Mapping[str, ExportedProgram] | None = None,
    extra_recorded_export_modules: Mapping[str, Any] | None = None,
) -> None:
    """Writes the ETRecord of a program.

    Args:
        et_record: Path, or a file that is open for writing bytes.
        edge_dialect_program: The manager that ``to_edge`` returned.
        executorch_program: What ``to_executorch`` returned, or a BundledProgram of it.
        exported_program: What ``torch.export`` gave, to compare with values of the original graph.
        extra_recorded_export_modules: Name -> further programs to record.
    """
    record = ETRecord()
    record.add_exported_program(exported_program)
    record.add_edge_dialect_program(edge_dialect_program)
    record.add_executorch_program(executorch_program)
    record.add_extra_export_modules(extra_recorded_export_modules or {})
    record.save(et_record)


def parse_etrecord(etrecord_path: str | os.PathLike[str]) -> ETRecord:
    """Reads the ETRecord of a file.

    Raises:
        InvalidProgramError: The file is no ETRecord, is damaged or of another version; says what to do.
        NotSupportedError: A graph in it has an operator that this process does not know.
    """
    return ETRecord(**read_record(os.fspath(etrecord_path)))


#: Names in the zip that are the format's own.
RESERVED = (
    "ETRECORD_V0",
    "exported_program",
    "edge_dialect_exported_program",
    "debug_handle_map",
    "delegate_map",
    "instruction_id_to_num_outs_map",
    "reference_outputs",
    "representative_inputs",
    "export_graph_id",
)


def _programs_of(module: Any) -> dict[str, ExportedProgram]:
    """The programs of a manager, of a dict, or one."""
    if isinstance(module, ExportedProgram):
        return {"forward": module}
    if isinstance(module, Mapping):
        return dict(module)
    if hasattr(module, "methods") and hasattr(module, "exported_program"):
        before = getattr(module, "_before_delegation", {})
        return {name: before.get(name) or module.exported_program(name) for name in sorted(module.methods)}
    raise InvalidTypeError(f"{module!r:.60} is neither an ExportedProgram nor what to_edge() returned")


def _one_or_several(programs: Any) -> Any:
    return next(iter(programs.values())) if isinstance(programs, Mapping) and len(programs) == 1 else programs


def _suite(bundled: Any) -> Any:
    suites = {one.method_name: one for one in bundled.method_test_suites if one.test_cases}
    if not suites:
        raise InvalidArgumentError("the bundled program has no test case whose inputs could be taken")
    return suites.get("forward") or next(iter(suites.values()))
