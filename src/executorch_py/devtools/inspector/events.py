"""The events of an ETDump, one for all runs of the same event: its times, and the values that it recorded."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from executorch_py._shown import Card, Shown, counted
from executorch_py.devtools.etdump import schema_flatcc as schema
from executorch_py.devtools.inspector.values import inflate
from executorch_py.errors import InvalidArgumentError, NotSupportedError
from executorch_py.graphs.sources import Source

__all__ = ["Event", "EventBlock", "PerfData", "TimeScale", "blocks_of", "data_frame", "scale_factor"]

#: Spans around a kernel's own: the times of both would count twice.
AROUND_A_KERNEL = "OPERATOR_CALL"
#: Memory that an instruction took: it has no time.
ALLOCATION = "ALLOCATION"
#: A delegate as a whole, around the events that its backend gives.
AROUND_A_DELEGATE = "DELEGATE_CALL"
#: One call of a method.
EXECUTION = "Method::execute"
#: What an execution takes beside its instructions: the calls from one to the next, and recording them.
BETWEEN = "(between instructions)"

#: What is told of the times of the runs.
FIGURES = ("p10", "p50", "p90", "avg", "min", "max")

TimeConverter = Callable[[int | str, int | float], int | float]
MetadataParser = Callable[[list[Any]], Any]


class TimeScale(enum.Enum):
    """Units of time."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


_PER_SECOND = {TimeScale.NS: 1e9, TimeScale.US: 1e6, TimeScale.MS: 1e3, TimeScale.S: 1.0}


def scale_factor(source: TimeScale, target: TimeScale) -> float:
    """What a time in ``source`` is multiplied with.

    Raises:
        InvalidArgumentError: One of the two is cycles, whose length nobody knows.
    """
    if source is target:
        return 1.0
    if TimeScale.CYCLES in (source, target):
        raise InvalidArgumentError(
            f"times in {source.value} have no length in {target.value}; give CYCLES as source_time_scale and "
            "target_time_scale"
        )
    return _PER_SECOND[target] / _PER_SECOND[source]


@dataclass(repr=False)
class PerfData:
    """Times of one event, one for each run, in the target unit.

    Attributes:
        raw: The times in the order of the runs; what a run did several times is added up.
    """

    raw: list[float]

    def percentile(self, share: float) -> float:
        """The time that ``share`` per cent of the runs do not exceed, between two of them in a straight line."""
        return float(np.percentile(self.raw, share))

    @property
    def p10(self) -> float:
        """10th percentile."""
        return self.percentile(10)

    @property
    def p50(self) -> float:
        """Median."""
        return self.percentile(50)

    @property
    def p90(self) -> float:
        """90th percentile."""
        return self.percentile(90)

    @property
    def avg(self) -> float:
        """Mean."""
        return float(np.mean(self.raw))

    @property
    def min(self) -> float:
        """The fastest run."""
        return float(np.min(self.raw))

    @property
    def max(self) -> float:
        """The slowest run."""
        return float(np.max(self.raw))

    def __repr__(self) -> str:
        return f"PerfData(p50={self.p50:.6g}, min={self.min:.6g}, max={self.max:.6g}, {counted(len(self.raw), 'run')})"


@dataclass(repr=False)
class Event:
    """An instruction, an operator inside a delegate, or a step of the framework.

    Attributes:
        name: ``native_call_add.out``, ``DELEGATE_CALL``, ``Method::execute``, the backend's own name; "" for a value
            without a time.
        perf_data: Its times; ``None`` for a value without a time.
        op_types: Operators of the Edge program that it stands for.
        delegate_debug_identifier: The backend's own id, inside a delegate.
        debug_handles: Debug handles of those operators.
        num_outputs: How many of the last values of ``debug_data`` are results.
        stack_traces: Name of the node -> where it stands in the model's Python.
        module_hierarchy: Name of the node -> the modules that it stands in.
        is_delegated_op: Whether it happened inside a delegate.
        delegate_backend_name: Name of the backend.
        debug_data: Values that the first run recorded.
        sources: File, line and module path of each operator.
        macs: Multiply-accumulates of each operator.
        is_added: Whether a pass added it beside its operators, such as a copy: then it has their handles, lines and
            modules, and neither ``op_types`` nor ``macs``.
    """

    name: str
    perf_data: PerfData | None = None
    op_types: list[str] = field(default_factory=list)
    delegate_debug_identifier: int | str | None = None
    debug_handles: int | Sequence[int] | None = None
    num_outputs: int = 1
    stack_traces: dict[str, str] = field(default_factory=dict)
    module_hierarchy: dict[str, Any] = field(default_factory=dict)
    is_delegated_op: bool | None = None
    delegate_backend_name: str | None = None
    _delegate_debug_metadatas: list[Any] = field(default_factory=list)
    debug_data: list[Any] = field(default_factory=list)
    _instruction_id: int | None = None
    _delegate_metadata_parser: MetadataParser | None = None
    _delegate_time_scale_converter: TimeConverter | None = None
    _start_time: list[int | float] | None = None
    sources: list[Source] = field(default_factory=list)
    macs: list[int] = field(default_factory=list)
    is_added: bool = False
    _block: int = 0  # which of the runs with the same events it is of

    @property
    def start_time(self) -> list[int | float] | None:
        """When it began, in each run, in the unit of the ETDump."""
        return self._start_time

    @property
    def raw_delegate_debug_metadatas(self) -> list[Any]:
        """What the backend wrote with the event, in each run, as it stands in the file."""
        return self._delegate_debug_metadatas

    @property
    def delegate_debug_metadatas(self) -> Any:
        """What ``delegate_metadata_parser`` makes of what the backend wrote."""
        if not self.is_delegated_op or self._delegate_metadata_parser is None:
            return self._delegate_debug_metadatas
        return self._delegate_metadata_parser(self._delegate_debug_metadatas)

    @property
    def counts(self) -> bool:
        """Whether its time is one of the times that a method's add up from: no span around others, no allocation."""
        is_inside = self.perf_data is not None and self._instruction_id is not None
        return is_inside and self.name not in (AROUND_A_KERNEL, ALLOCATION)

    @property
    def where(self) -> str:
        """File and line of the first of its operators whose line is known; "" when none is."""
        return next((f"{one.file}:{one.line}" for one in self.sources if one.file), "")

    def asdict(self, _units: str = "") -> dict[str, Any]:
        """The event as a row; ``_units`` stands behind the titles of times."""
        perf = self.perf_data
        row: dict[str, Any] = {"event_name": self.name, "raw": None if perf is None else perf.raw}
        for title in FIGURES:
            row[title + _units] = None if perf is None else getattr(perf, title)
        return row | {
            "op_types": self.op_types,
            "delegate_debug_identifier": self.delegate_debug_identifier,
            "stack_traces": self.stack_traces,
            "module_hierarchy": self.module_hierarchy,
            "is_delegated_op": self.is_delegated_op,
            "delegate_backend_name": self.delegate_backend_name,
            "debug_data": self.debug_data,
            "start_time": self._start_time,
        }

    def to_dataframe(self, _units: str = "") -> Any:
        """The event as a pandas DataFrame with one row."""
        return data_frame([self.asdict(_units)])

    def __repr__(self) -> str:
        time = "" if self.perf_data is None else f", p50={self.perf_data.p50:.6g}"
        where = f", {self.where}" if self.where else ""
        return f"Event({self.name!r}{time}{where})"


@dataclass(repr=False)
class EventBlock(Shown):
    """Runs with the same events, taken together: loading is one block, the executions of a method another.

    Attributes:
        name: ``Default`` for loading, ``Execute`` for executions.
        events: Its events in the order in which they ended.
        source_time_scale: Unit of the times in the ETDump.
        target_time_scale: Unit of the times in ``perf_data``.
        bundled_input_index: Test case of a bundled program; -1 for none.
        run_output: Outputs of the method in the first run, if they were recorded.
        reference_output: Outputs that the ETRecord has for it.
        method: Name of the method; "" for loading, and without an ETRecord where another runtime wrote the ETDump.
    """

    name: str
    events: list[Event] = field(default_factory=list)
    source_time_scale: TimeScale = TimeScale.NS
    target_time_scale: TimeScale = TimeScale.MS
    bundled_input_index: int | None = None
    run_output: list[Any] | None = None
    reference_output: list[Any] | None = None
    method: str = ""

    def rows(self, include_units: bool = False, include_delegate_debug_data: bool = False) -> list[dict[str, Any]]:
        """A row for each event, as ``to_dataframe`` has them."""
        units = f" ({self.target_time_scale.value})" if include_units else ""
        found = [{"event_block_name": self.name, **event.asdict(units)} for event in self.events]
        if include_delegate_debug_data:
            for row, event in zip(found, self.events, strict=True):
                row["delegate_debug_metadatas"] = event.delegate_debug_metadatas if event.is_delegated_op else []
        return found

    def to_dataframe(self, include_units: bool = False, include_delegate_debug_data: bool = False) -> Any:
        """The events as a pandas DataFrame, a row each.

        Args:
            include_units: Put the unit behind the titles of times.
            include_delegate_debug_data: Add what backends wrote with their events.

        Raises:
            NotSupportedError: pandas is not installed.
        """
        return data_frame(self.rows(include_units, include_delegate_debug_data))

    def _card(self) -> Card:
        rows = [
            (
                event.name,
                "" if event.perf_data is None else f"{event.perf_data.p50:.4g}",
                ", ".join(event.op_types),
                event.where,
            )
            for event in self.events
        ]
        return Card(repr(self), [], ("event", f"p50 ({self.target_time_scale.value})", "operators", "line"), rows)

    def __repr__(self) -> str:
        runs = max((len(event.perf_data.raw) for event in self.events if event.perf_data), default=0)
        method = f" of {self.method}" if self.method else ""
        return f"EventBlock({self.name!r}{method}: {counted(len(self.events), 'event')}, {counted(runs, 'run')})"


def data_frame(rows: list[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame.

    Raises:
        NotSupportedError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise NotSupportedError(
            "a DataFrame needs pandas: pip install pandas. print_data_tabular, save_data_to_tsv and by_line need "
            "nothing"
        ) from None
    return pandas.DataFrame(rows)


@dataclass(frozen=True)
class _Place:
    """What is the same for an event in all runs."""

    chain: int
    instruction: int
    delegate_id: int | str | None
    name: str


@dataclass
class _Seen:
    """One event of one run."""

    start: float
    duration: float
    metadata: bytes | None


def blocks_of(
    dump: schema.ETDumpFlatCC,
    source: TimeScale,
    target: TimeScale,
    buffer: bytes | None = None,
    parser: MetadataParser | None = None,
    converter: TimeConverter | None = None,
) -> list[EventBlock]:
    """The runs of an ETDump, those with the same events taken together."""
    factor = scale_factor(source, target)
    groups: dict[Any, list[tuple[dict[_Place, _Seen], schema.RunData]]] = {}
    for run in dump.run_data:
        seen = _times(run, factor, converter)
        groups.setdefault((run.name, _method_of(run), run.bundled_input_index, tuple(seen)), []).append((seen, run))
    blocks: list[EventBlock] = []
    for (name, method, bundled, places), runs in groups.items():
        values, outputs = _values(runs[0][1], buffer)
        events = [_event_of(place, [seen[place] for seen, _ in runs], parser, converter) for place in places]
        _give_values(events, places, values)
        for event in events:
            event._block = len(blocks)
        blocks.append(EventBlock(name, events, source, target, bundled, outputs or None, method=method))
    return blocks


def _method_of(run: schema.RunData) -> str:
    """The method that ran, which this package's runtime writes with the execution; "" otherwise."""
    for event in run.events or ():
        one = event.profile_event
        if one is not None and one.name == EXECUTION and one.delegate_debug_metadata:
            return bytes(one.delegate_debug_metadata).decode("utf-8", "replace")
    return ""


def _times(run: schema.RunData, factor: float, converter: TimeConverter | None) -> dict[_Place, _Seen]:
    """The spans of a run; what happens several times, as in a loop, is added up."""
    seen: dict[_Place, _Seen] = {}
    for event in run.events or ():
        one = event.profile_event
        if one is None:
            continue
        delegate_id = _delegate_id(one)
        name = one.name or ("" if delegate_id is None else str(delegate_id))
        place = _Place(one.chain_index, one.instruction_id, delegate_id, name)
        if delegate_id is not None and converter is not None:
            duration = float(converter(delegate_id, one.end_time) - converter(delegate_id, one.start_time))
        else:
            duration = (one.end_time - one.start_time) * factor
        known = seen.setdefault(place, _Seen(one.start_time, 0.0, one.delegate_debug_metadata))
        known.duration += duration
    return seen


def _delegate_id(one: schema.ProfileEvent | schema.DebugEvent) -> int | str | None:
    if one.delegate_debug_id_str:
        return one.delegate_debug_id_str
    return one.delegate_debug_id_int if one.delegate_debug_id_int not in (None, -1) else None


def _event_of(
    place: _Place, seen: list[_Seen], parser: MetadataParser | None, converter: TimeConverter | None
) -> Event:
    return Event(
        place.name,
        PerfData([one.duration for one in seen]),
        delegate_debug_identifier=place.delegate_id,
        is_delegated_op=place.delegate_id is not None,
        _delegate_debug_metadatas=[one.metadata for one in seen if one.metadata and place.delegate_id is not None],
        _instruction_id=place.instruction if place.chain >= 0 else None,
        _delegate_metadata_parser=parser,
        _delegate_time_scale_converter=converter,
        _start_time=[one.start for one in seen],
    )


_Values = Mapping[tuple[int, int, int | str | None], list[Any]]


def _values(run: schema.RunData, buffer: bytes | None) -> tuple[_Values, list[Any]]:
    """The values that a run recorded, by instruction and the backend's id, and the outputs of the method."""
    values: dict[tuple[int, int, int | str | None], list[Any]] = {}
    outputs: list[Any] = []
    for event in run.events or ():
        one = event.debug_event
        if one is None:
            continue
        value = inflate(one.debug_entry, buffer)
        is_output = one.debug_entry.output is not None and one.debug_entry.output.bool_val
        if is_output:
            outputs += value if isinstance(value, list) else [value]
        elif one.chain_index >= 0:
            values.setdefault((one.chain_index, one.instruction_id, _delegate_id(one)), []).append(value)
    return values, outputs


def _give_values(events: list[Event], places: Sequence[_Place], values: _Values) -> None:
    """Hands values to the events of their instruction; a value without an event becomes one without a time."""
    left = dict(values)
    for event, place in zip(list(events), places, strict=True):
        key = (place.chain, place.instruction, place.delegate_id)
        if key in values:
            event.debug_data = values[key]
            left.pop(key, None)
    for (_, instruction, delegate_id), found in left.items():
        events.append(
            Event(
                "",
                delegate_debug_identifier=delegate_id,
                is_delegated_op=delegate_id is not None,
                debug_data=found,
                _instruction_id=instruction,
            )
        )
