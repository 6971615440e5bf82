"""Inspector: the way into an ETDump.

Example:
    >>> inspector = Inspector("model.etdp", etrecord="model.etrecord")  # doctest: +SKIP
    >>> inspector.print_data_tabular()  # doctest: +SKIP
    >>> print(inspector.by_line())  # doctest: +SKIP
    >>> inspector.to_html("model.html")  # doctest: +SKIP
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from executorch_py._shown import Card, Shown
from executorch_py.devtools.etdump.serialize import deserialize_from_etdump_flatcc
from executorch_py.devtools.etrecord import ETRecord, parse_etrecord
from executorch_py.devtools.inspector.events import (
    AROUND_A_DELEGATE,
    AROUND_A_KERNEL,
    BETWEEN,
    EXECUTION,
    Event,
    EventBlock,
    MetadataParser,
    PerfData,
    TimeConverter,
    TimeScale,
    blocks_of,
    data_frame,
    scale_factor,
)
from executorch_py.devtools.inspector.files import chrome_trace, events_json, written
from executorch_py.devtools.inspector.numerical_comparator import COMPARATORS, NumericalComparatorBase
from executorch_py.devtools.inspector.page import profile_page
from executorch_py.devtools.inspector.profile import (
    Machine,
    Profile,
    Roofline,
    by_line,
    by_module,
    by_operator,
    roofline,
)
from executorch_py.devtools.inspector.record_map import RecordMap, listed, nodes_by_handle
from executorch_py.devtools.inspector.reference import Pair, pairs_of, values_of
from executorch_py.devtools.memory_peaks import MemoryReport
from executorch_py.devtools.quantization.page import chart_parts
from executorch_py.devtools.quantization.rows import QuantizationRows
from executorch_py.errors import InvalidArgumentError, InvalidProgramError, InvalidStateError, NotFoundError
from executorch_py.runtime import Program, Runtime
from executorch_py.text_table import aligned

__all__ = ["Inspector"]

EDGE = "edge_dialect_exported_program"
#: Columns that a table has no room for.
_TOO_WIDE = ("raw", "delegate_debug_identifier", "stack_traces", "module_hierarchy", "debug_data")


class Inspector(Shown):
    """What happened while a program ran.

    Attributes:
        event_blocks: The runs; those with the same events are one block.
    """

    def __init__(
        self,
        etdump_path: str | os.PathLike[str] | None = None,
        etdump_data: bytes | None = None,
        etrecord: ETRecord | str | os.PathLike[str] | None = None,
        source_time_scale: TimeScale = TimeScale.NS,
        target_time_scale: TimeScale = TimeScale.MS,
        debug_buffer_path: str | os.PathLike[str] | None = None,
        delegate_metadata_parser: MetadataParser | None = None,
        delegate_time_scale_converter: TimeConverter | None = None,
        enable_module_hierarchy: bool = False,
        reference_graph_name: str = "edge_dialect_graph_module",
    ) -> None:
        """Reads an ETDump.

        Args:
            etdump_path: Its file.
            etdump_data: Its bytes, instead of a file.
            etrecord: The ETRecord of the program, or its file: operators, lines and modules come from it.
            source_time_scale: Unit of the times in the ETDump.
            target_time_scale: Unit in which they are told.
            debug_buffer_path: File of the recorded values.
            delegate_metadata_parser: Makes something readable of what a backend wrote with an event, a list with an
                item for each run.
            delegate_time_scale_converter: Makes a time in the target unit of (the backend's id, a time of its clock).
            enable_module_hierarchy: Taken for the published API's sake; the modules are always there.
            reference_graph_name: Taken for the published API's sake; see ``calculate_numeric_gap``.

        Raises:
            InvalidArgumentError: Not exactly one of ``etdump_path`` and ``etdump_data`` is given, or ETDump and
                ETRecord are of different programs.
            InvalidProgramError: A file is damaged, or none of its kind; says which, and what to do.
        """
        if (etdump_path is None) == (etdump_data is None):
            raise InvalidArgumentError("give etdump_path or etdump_data, one of them")
        self._dump_name = "the ETDump" if etdump_path is None else os.fspath(etdump_path)
        data = Path(etdump_path).read_bytes() if etdump_path is not None else bytes(etdump_data or b"")
        self._record_name = os.fspath(etrecord) if isinstance(etrecord, (str, os.PathLike)) else "the ETRecord"
        self._etrecord = parse_etrecord(etrecord) if isinstance(etrecord, (str, os.PathLike)) else etrecord
        buffer = None if debug_buffer_path is None else Path(debug_buffer_path).read_bytes()
        self._source_time_scale, self._target_time_scale = source_time_scale, target_time_scale
        try:
            dump = deserialize_from_etdump_flatcc(data)
            self.event_blocks: list[EventBlock] = blocks_of(
                dump,
                source_time_scale,
                target_time_scale,
                buffer,
                delegate_metadata_parser,
                delegate_time_scale_converter,
            )
        except InvalidProgramError as error:
            raise InvalidProgramError(f"{self._dump_name}: {error}") from None
        if self._etrecord is not None:
            record = RecordMap(self._etrecord, self._dump_name, self._record_name)
            for block in self.event_blocks:
                record.connect(block)

    @classmethod
    def of(
        cls, program: Program, etrecord: ETRecord | str | os.PathLike[str] | None = None, **options: Any
    ) -> Inspector:
        """The Inspector of a loaded program that records, without files between.

        Args:
            program: Loaded with ``enable_etdump=True``.
            etrecord: As for the class.
            **options: The class's other ones.

        Raises:
            InvalidStateError: The program does not record.
            OutOfResourcesError: The values did not fit into ``debug_buffer_size``.
        """
        with tempfile.TemporaryDirectory() as folder:
            dump, values = os.path.join(folder, "run.etdp"), os.path.join(folder, "values.bin")
            program.write_etdump_result_to_file(dump, values)
            debug = values if os.path.exists(values) and os.path.getsize(values) else None
            return cls(etdump_data=Path(dump).read_bytes(), etrecord=etrecord, debug_buffer_path=debug, **options)

    @property
    def unit(self) -> str:
        """Unit of the times, such as ``ms``."""
        return self._target_time_scale.value

    def to_dataframe(self, include_units: bool = True, include_delegate_debug_data: bool = False) -> Any:
        """All events as a pandas DataFrame, a row each.

        Args:
            include_units: Put the unit behind the titles of times.
            include_delegate_debug_data: Add what backends wrote with their events.

        Raises:
            NotSupportedError: pandas is not installed.
        """
        return data_frame(self._rows(include_units, include_delegate_debug_data))

    def print_data_tabular(
        self, file: IO[str] | None = None, include_units: bool = True, include_delegate_debug_data: bool = False
    ) -> None:
        """Prints the events as a table, to ``file`` or standard output."""
        print(self.table(include_units, include_delegate_debug_data), file=file or sys.stdout)

    def table(self, include_units: bool = True, include_delegate_debug_data: bool = False) -> str:
        """The events as a table, with percentiles over the runs."""
        rows = self._shown_rows(include_units, include_delegate_debug_data)
        for row in rows:
            row.pop("start_time", None)  # a number for each run, which the DataFrame and the TSV have
        titles = list(rows[0]) if rows else ["event_block_name", "event_name"]
        figures = [
            index
            for index, title in enumerate(titles)
            if title.split(" ")[0] in ("p10", "p50", "p90", "avg", "min", "max")
        ]
        cells = [[_cell(value) for value in row.values()] for row in rows]
        return "\n".join(aligned(titles, cells, right=figures, indent=""))

    def save_data_to_tsv(
        self,
        file: IO[str] | str | os.PathLike[str],
        include_units: bool = True,
        include_delegate_debug_data: bool = False,
    ) -> None:
        """Writes the events as tab-separated values, for spreadsheets, to an open file or a path."""
        if isinstance(file, (str, os.PathLike)):
            with open(file, "w", encoding="utf-8", newline="") as opened:
                return self.save_data_to_tsv(opened, include_units, include_delegate_debug_data)
        rows = self._shown_rows(include_units, include_delegate_debug_data)
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["", *(rows[0] if rows else ())])
        for index, row in enumerate(rows):
            writer.writerow([index, *("" if value is None else value for value in row.values())])

    def _rows(self, include_units: bool, include_delegate_debug_data: bool) -> list[dict[str, Any]]:
        return [row for block in self.event_blocks for row in block.rows(include_units, include_delegate_debug_data)]

    def _shown_rows(self, include_units: bool, include_delegate_debug_data: bool) -> list[dict[str, Any]]:
        """Rows without what a table has no room for, and without spans around kernels."""
        return [
            {title: value for title, value in row.items() if title not in _TOO_WIDE}
            for row in self._rows(include_units, include_delegate_debug_data)
            if row["event_name"] != AROUND_A_KERNEL
        ]

    def events(self) -> list[Event]:
        """The events whose times add up to those of the executions: one an instruction, and the time between them.

        Instead of a delegate as a whole stand its own operators, where the backend timed them and said which they are,
        and what it took beside them.
        """
        found: list[Event] = []
        for block in self.event_blocks:
            before = len(found)
            inner: dict[int | None, list[Event]] = {}
            for event in block.events:
                if event.is_delegated_op and event.counts and (event.op_types or self._etrecord is None):
                    inner.setdefault(event._instruction_id, [])
            for event in block.events:
                if event.is_delegated_op and event.counts and event._instruction_id in inner:
                    inner[event._instruction_id].append(event)
            for event in block.events:
                if not event.counts or event.is_delegated_op:
                    continue
                operators = inner.get(event._instruction_id) if event.name == AROUND_A_DELEGATE else None
                found += [event] if operators is None else [*operators, *_beside(event, operators)]
            if found[before:]:
                for whole in (event for event in block.events if event.name == EXECUTION):
                    found += _left(whole, found[before:], BETWEEN)
        return found

    def by_operator(self) -> Profile:
        """Where the time of the executions goes, by operator."""
        return by_operator(self.events(), self.unit)

    def by_module(self) -> Profile:
        """Where the time goes, by module of the model; a module's time holds those of the modules inside.

        Raises:
            InvalidStateError: There is no ETRecord.
        """
        self._require_record("by_module")
        return by_module(self.events(), self.unit)

    def by_line(self) -> Profile:
        """Where the time goes, by line of the model's Python.

        Raises:
            InvalidStateError: There is no ETRecord.
        """
        self._require_record("by_line")
        return by_line(self.events(), self.unit)

    def roofline(self, machine: Machine | None = None) -> Roofline:
        """How near each instruction is to what the machine can: its bytes and products over bandwidth and peak.

        Args:
            machine: What the machine can; ``None``: this one is measured, once in a process, with the threads that
                methods use.

        Raises:
            InvalidStateError: There is no ETRecord, or times are cycles.
        """
        record = self._require_record("roofline")
        if self._target_time_scale is TimeScale.CYCLES:
            raise InvalidStateError("a roofline needs times in seconds; cycles have no length")
        nodes: dict[int, Any] = {}
        for program in record.edge_programs().values():
            nodes = nodes_by_handle(program) | nodes  # the first method's come first
        machine = machine or Machine.measured(Runtime.get().num_threads)
        per_second = scale_factor(TimeScale.S, self._target_time_scale)
        return roofline(self.events(), self.unit, per_second, nodes, machine)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """All events as JSON: times of each run, operators, lines, modules. Written to ``path`` where one is given."""
        return written(events_json(self.event_blocks, self.unit), path)

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the runs as a trace for ui.perfetto.dev and chrome://tracing: blocks, instructions, delegates."""
        written(chrome_trace(self.event_blocks, self._source_time_scale), path)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "profile",
        memory: MemoryReport | None = None,
        quantization: QuantizationRows | None = None,
    ) -> None:
        """Writes one self-contained page: bars, flame chart, the graph with heat, the memory plan, quantization errors.

        Args:
            path: The file.
            title: The page's title.
            memory: What ``memory_report`` gave, for its picture.
            quantization: What ``quantization_report`` gave, for its chart.
        """
        profiles, graph = [self.by_operator()], None
        if self._etrecord is not None:
            profiles += [self.by_line(), self.by_module()]
            program = self.get_exported_program()
            graph = None if program is None else program.graph
        further = [] if quantization is None else chart_parts(quantization)
        written(profile_page(title, self.unit, profiles, self.events(), graph, memory, further), path)

    def find_total_for_module(self, module_name: str) -> float:
        """The mean time of a call of all operators in a module: its path (``layers.0``), or its key in the hierarchy.

        An instruction that stands for operators of several modules counts with the share of its operators that lie in
        it.

        Raises:
            NotFoundError: No operator lies in such a module; names close ones.
        """
        self._require_record("find_total_for_module")
        total, found, runs = 0.0, False, {}
        for event in self.events():
            stacks = list(event.module_hierarchy.values())
            inside = sum(_is_inside(stack, module_name) for stack in stacks)
            found = found or bool(inside)
            if event.perf_data is not None:
                runs[event._block] = len(event.perf_data.raw)
                total += sum(event.perf_data.raw) * inside / max(len(stacks), 1)
        if not found:
            paths = sorted({path for event in self.events() for path in _paths(event)} - {""})
            raise NotFoundError(
                f"no operator lies in a module '{module_name}'; there are {', '.join(paths[:20]) or 'none'}"
            )
        return total / max(sum(runs.values()), 1)

    def get_op_list(self, event_block: str, show_delegated_ops: bool | None = True) -> dict[str, list[Event]]:
        """Operator -> events that stand for it, of the blocks of a name.

        Raises:
            NotFoundError: There is no block of that name.
        """
        blocks = [block for block in self.event_blocks if block.name == event_block]
        if not blocks:
            known = ", ".join(sorted({block.name for block in self.event_blocks}))
            raise NotFoundError(f"there is no event block '{event_block}'; there are {known}")
        found: dict[str, list[Event]] = {}
        for event in (event for block in blocks for event in block.events):
            if show_delegated_ops or not event.is_delegated_op:
                for op in event.op_types:
                    found.setdefault(op, []).append(event)
        return found

    def get_exported_program(self, graph: str | None = None) -> ExportedProgram | None:
        """A program of the ETRecord: the Edge program, ``exported_program``, or a further one by its name.

        ``None`` without an ETRecord.

        Raises:
            NotFoundError: The ETRecord has no such program.
        """
        record = self._etrecord
        if record is None:
            return None
        edge = record.edge_programs()
        known: dict[str, Any] = {f"{EDGE}/{name}": program for name, program in edge.items()} | record.graph_map
        known[EDGE] = edge.get("forward") or next(iter(edge.values()), None)
        known["exported_program"] = record.exported_program
        name = graph if graph is not None else EDGE
        if name not in known:
            raise NotFoundError(f"{self._record_name} has no program '{name}'; it has {', '.join(sorted(known))}")
        return known[name]

    def calculate_numeric_gap(
        self,
        distance: str | NumericalComparatorBase,
        disable_debug_handle_valdiation: bool = False,
        reference_graph: str | None = None,
    ) -> Any:
        """How far the recorded values of the run are from those of the Edge program, as a pandas DataFrame.

        The Edge program runs in PyTorch on the representative inputs of the ETRecord, or on the example inputs of its
        exported program.

        Args:
            distance: ``MSE``, ``L1`` or ``SNR``, or a measure of the caller's.
            disable_debug_handle_valdiation: Taken for the published API's sake.
            reference_graph: A program of the ETRecord, as for ``get_exported_program``; its nodes need debug handles.

        Raises:
            InvalidStateError: No values were recorded, or the ETRecord has no inputs; says what to do.
            InvalidArgumentError: ``distance`` is unknown.
        """
        comparator = self._comparator(distance)
        pairs = self.value_pairs(reference_graph)
        mapping = {
            (_tuple(pair.node.meta.get("debug_handle")), pair.expected): (_tuple(pair.event.debug_handles), pair.actual)
            for pair in pairs
        }
        rows = []
        for pair, ((key, expected), (own, actual)) in zip(
            pairs, comparator.preprocessing(mapping).items(), strict=True
        ):
            rows.append(
                {
                    "aot_debug_handle": key,
                    "aot_ops": [pair.node.name],
                    "aot_intermediate_output": expected,
                    "runtime_ops": [pair.event.name],
                    "runtime_debug_handle": own,
                    "runtime_intermediate_output": actual,
                    "gap": comparator.gaps(expected, actual),
                    "stacktraces": {pair.node.name: pair.node.meta.get("stack_trace")},
                }
            )
        return data_frame(rows)

    def value_pairs(self, reference_graph: str | None = None) -> list[Pair]:
        """The recorded values of the run, each with the graph's, in the order of the graph.

        Raises:
            InvalidStateError: No values were recorded, or the ETRecord has no inputs; says what to do.
        """
        record = self._require_record("calculate_numeric_gap")
        blocks = [block for block in self.event_blocks if any(event.debug_data for event in block.events)]
        if not blocks:
            raise InvalidStateError(
                f"{self._dump_name} has no values: load the program with debug_buffer_size, write the debug buffer "
                "with write_etdump_result_to_file(path, debug_path), and give debug_buffer_path=debug_path here"
            )
        block = blocks[0]
        program = self.get_exported_program(reference_graph or (f"{EDGE}/{block.method}" if block.method else None))
        inputs = record._representative_inputs
        exported = record.exported_program
        for one in (exported, program):
            if inputs is None and one is not None and one.example_inputs is not None:
                inputs = tree_leaves(one.example_inputs)
        if inputs is None or program is None:
            raise InvalidStateError(
                f"{self._record_name} has no inputs to run its graph on; call "
                "update_representative_inputs(list(inputs)) "
                "before save()"
            )
        # A span around a kernel repeats the kernel's values; what comes later in a delegate is nearer to its result.
        events = [
            event for event in block.events if event.name != AROUND_A_KERNEL and not event.name.startswith("Method::")
        ]
        return pairs_of(program, values_of(program, inputs), events)

    def _comparator(self, distance: str | NumericalComparatorBase) -> NumericalComparatorBase:
        if isinstance(distance, NumericalComparatorBase):
            distance._inspector = distance._inspector or self
            return distance
        if distance not in COMPARATORS:
            raise InvalidArgumentError(
                f"distance is {distance!r}; there are {', '.join(COMPARATORS)}, or give a measure"
            )
        return COMPARATORS[distance](self)

    def _require_record(self, what: str) -> ETRecord:
        if self._etrecord is None:
            raise InvalidStateError(
                f"{what} needs the ETRecord of the program: Inspector(..., etrecord=path), written by "
                "get_etrecord().save(path)"
            )
        return self._etrecord

    def _card(self) -> Card:
        profile = (self.by_line if self._etrecord is not None else self.by_operator)()
        inner = profile._card()
        facts = [repr(block) for block in self.event_blocks]
        return Card("Inspector", facts, inner.head, inner.rows)


def _beside(delegate: Event, operators: Sequence[Event]) -> list[Event]:
    """What a delegate took beside its operators: setting up, waking threads, and what its clock does not see."""
    return _left(delegate, operators, f"{delegate.delegate_backend_name or 'a delegate'} beside its operators")


def _left(whole: Event, parts: Sequence[Event], name: str) -> list[Event]:
    """What is left of a span without those inside of it, run by run, as one event; none where nothing is."""
    times = [one.perf_data.raw for one in parts if one.perf_data]
    left = [
        max(time - sum(raw[run] for raw in times if run < len(raw)), 0.0)
        for run, time in enumerate(whole.perf_data.raw if whole.perf_data else ())
    ]
    if not any(left):
        return []
    return [replace(whole, name=name, perf_data=PerfData(left), op_types=[], sources=[], macs=[], module_hierarchy={})]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _tuple(handles: Any) -> tuple[int, ...]:
    return tuple(listed(handles) or ())


def _is_inside(stack: Mapping[str, Any], name: str) -> bool:
    """Whether a stack of modules holds one, by its path or its key."""
    return name in stack or any(path == name for path, _ in stack.values())


def _paths(event: Event) -> set[str]:
    return {path for stack in event.module_hierarchy.values() for path, _ in stack.values()}
