"""Where the time goes: by operator, module and line of Python, and how near each is to what the machine can.

Example:
    >>> print(inspector.by_line())  # doctest: +SKIP
    by line, ms: 3 runs, a run 12.4
      line         p50    p90    share  calls  operators
      model.py:31  8.120  8.400  65.5%      2  linear
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import fx

from executorch_py._shown import Card, Shown, nbytes_text
from executorch_py.devtools.inspector.events import FIGURES, Event, PerfData
from executorch_py.graphs.macs import macs_of

__all__ = [
    "Machine",
    "Profile",
    "ProfileRow",
    "Roofline",
    "RooflineRow",
    "by_line",
    "by_module",
    "by_operator",
    "roofline",
]

UNKNOWN = "(not known)"


@dataclass
class ProfileRow:
    """The events of one key, taken together.

    Attributes:
        key: An operator, a module's path, or "file:line".
        times: The sum of their times, run by run.
        calls: How many events.
        detail: What they are: operators, or the modules' class.
    """

    key: str
    times: PerfData
    calls: int
    detail: str = ""


@dataclass(repr=False)
class Profile(Shown):
    """Times by one key, the largest first.

    Attributes:
        by: What the key is.
        unit: Of the times.
        rows: The rows.
        total: The sum of all events, run by run.
    """

    by: str
    unit: str
    rows: list[ProfileRow]
    total: PerfData

    def share(self, row: ProfileRow) -> float:
        """Share of the mean of a row in the mean of the whole."""
        return row.times.avg / self.total.avg if self.total.avg else 0.0

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain data."""
        return [
            {self.by: row.key, **{name: getattr(row.times, name) for name in FIGURES}}
            | {"raw": row.times.raw, "share": self.share(row), "calls": row.calls, "detail": row.detail}
            for row in self.rows
        ]

    def _card(self) -> Card:
        head = (self.by, "p50", "p90", "min", "share", "calls", "detail")
        rows = [
            (
                row.key,
                *(f"{value:.4g}" for value in (row.times.p50, row.times.p90, row.times.min)),
                f"{self.share(row):.1%}",
                str(row.calls),
                row.detail,
            )
            for row in self.rows
        ]
        facts = [f"{len(self.total.raw)} runs", f"a run {self.total.p50:.4g} {self.unit} (median)"]
        return Card(f"by {self.by}, {self.unit}", facts, head, rows)


@dataclass
class _Sum:
    raw: np.ndarray[Any, Any]
    events: set[int] = field(default_factory=set)
    detail: dict[str, None] = field(default_factory=dict)


def _grouped(
    by: str, unit: str, events: Sequence[Event], keys: Callable[[Event, int], Iterable[tuple[str, str]]]
) -> Profile:
    """Adds up. An event that stands for several operators counts for each with an equal share.

    ``keys`` gets an event and the number of one of its operators, and gives what that counts for, and what to tell of
    it.
    """
    runs = max((len(event.perf_data.raw) for event in events if event.perf_data), default=0)
    sums: dict[str, _Sum] = {}
    total = np.zeros(runs)
    for event in events:
        if event.perf_data is None or len(event.perf_data.raw) != runs:
            continue
        raw = np.asarray(event.perf_data.raw)
        total += raw
        count = max(len(event.sources), 1)
        for index in range(count):
            for key, detail in keys(event, index):
                one = sums.setdefault(key, _Sum(np.zeros(runs)))
                one.raw += raw / count
                one.events.add(id(event))
                one.detail[detail] = None
    rows = [
        ProfileRow(key, PerfData(one.raw.tolist()), len(one.events), ", ".join(filter(None, one.detail)))
        for key, one in sums.items()
    ]
    rows.sort(key=lambda row: -row.times.avg)
    return Profile(by, unit, rows, PerfData(total.tolist()))


def _operator(event: Event, index: int) -> str:
    if index >= len(event.op_types):
        return event.name
    return event.op_types[index].removeprefix("aten.").removesuffix(".default")


def by_operator(events: Sequence[Event], unit: str) -> Profile:
    """Times by operator of the Edge program; events that stand for none by their own name."""
    return _grouped(
        "operator", unit, events, lambda event, index: [(_operator(event, index), event.delegate_backend_name or "")]
    )


def by_line(events: Sequence[Event], unit: str) -> Profile:
    """Times by line of the model's Python."""

    def keys(event: Event, index: int) -> Iterable[tuple[str, str]]:
        source = event.sources[index] if index < len(event.sources) else None
        yield (f"{source.file}:{source.line}" if source and source.file else UNKNOWN), _operator(event, index)

    return _grouped("line", unit, events, keys)


def by_module(events: Sequence[Event], unit: str) -> Profile:
    """Times by module: that of a module holds those of the modules inside."""

    def keys(event: Event, index: int) -> Iterable[tuple[str, str]]:
        stacks = list(event.module_hierarchy.values())
        stack = stacks[index] if index < len(stacks) else {}
        paths = {path: str(kind).rpartition(".")[2].rstrip("'>") for path, kind in stack.values()}
        yield from paths.items() if paths else [(UNKNOWN, "")]

    return _grouped("module", unit, events, keys)


@dataclass(frozen=True)
class Machine:
    """What a machine can at most.

    Attributes:
        macs_per_second: Multiply-accumulates of float32.
        bytes_per_second: Read and written together, from and to memory.
    """

    macs_per_second: float
    bytes_per_second: float

    @staticmethod
    @functools.lru_cache(maxsize=4)
    def measured(num_threads: int = 1) -> Machine:
        """Measures this machine, once in a process: the best of several matrix products and copies, 0.3 s in all."""
        before = torch.get_num_threads()
        torch.set_num_threads(num_threads)
        try:
            a, b, size = torch.randn(512, 512), torch.randn(512, 512), 512
            out = torch.empty(512, 512)
            macs = size**3 / _best(lambda: torch.mm(a, b, out=out))
            source, target = torch.zeros(16 << 20), torch.zeros(16 << 20)
            return Machine(macs, 2 * source.nbytes / _best(lambda: target.copy_(source)))
        finally:
            torch.set_num_threads(before)


def _best(action: Callable[[], Any]) -> float:
    times: list[float] = []
    end = time.perf_counter() + 0.15
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times[1:])


@dataclass
class RooflineRow:
    """One instruction, or one operator of a delegate.

    Attributes:
        event: The event.
        macs: Multiply-accumulates of a call.
        nbytes: Bytes that it must read and write: operands, weights and results.
        share: Least possible time over the fastest run; near 1 is as fast as the machine can.
        bound: What the least possible time comes from: "compute" or "memory".
    """

    event: Event
    macs: int
    nbytes: int
    share: float
    bound: str


@dataclass(repr=False)
class Roofline(Shown):
    """How near each instruction is to what the machine can.

    Attributes:
        machine: What it can.
        rows: The instructions, the slowest first.
    """

    machine: Machine
    unit: str
    rows: list[RooflineRow]

    def _card(self) -> Card:
        head = ("event", "operators", "line", f"min ({self.unit})", "MACs", "bytes", "of the roof", "bound")
        rows = [
            (
                row.event.name,
                ", ".join(_operator(row.event, i) for i in range(len(row.event.op_types))),
                row.event.where,
                f"{row.event.perf_data.min:.4g}" if row.event.perf_data else "",
                f"{row.macs:,}",
                nbytes_text(row.nbytes),
                f"{row.share:.1%}",
                row.bound,
            )
            for row in self.rows
        ]
        peak = f"peak {self.machine.macs_per_second / 1e9:.3g} GMAC/s, {self.machine.bytes_per_second / 1e9:.3g} GB/s"
        return Card("roofline", [peak], head, rows)


def roofline(
    events: Sequence[Event], unit: str, per_second: float, nodes: dict[int, list[fx.Node]], machine: Machine
) -> Roofline:
    """Bytes and multiply-accumulates of each event over what the machine can.

    Args:
        events: The events.
        unit: Of their times.
        per_second: How many of the unit a second has.
        nodes: Debug handle -> nodes of the Edge program.
        machine: What it can.
    """
    rows = []
    for event in events:
        handles = event.debug_handles if not isinstance(event.debug_handles, int) else [event.debug_handles]
        members = {node for handle in handles or () for node in nodes.get(handle, ())}
        if not members or event.perf_data is None or event.perf_data.min <= 0:
            continue
        macs, nbytes = sum(macs_of(node) for node in members), traffic_of(members)
        compute, memory = macs / machine.macs_per_second, nbytes / machine.bytes_per_second
        least = max(compute, memory) * per_second
        rows.append(
            RooflineRow(event, macs, nbytes, least / event.perf_data.min, "compute" if compute > memory else "memory")
        )
    rows.sort(key=lambda row: -(row.event.perf_data.min if row.event.perf_data else 0.0))
    return Roofline(machine, unit, rows)


def traffic_of(members: set[fx.Node]) -> int:
    """Bytes that a group of nodes takes from others and gives to others."""
    taken = {one for node in members for one in node.all_input_nodes if one not in members}
    given = {node for node in members if any(user not in members for user in node.users)}
    return sum(_nbytes(node.meta.get("val")) for node in taken | given)


def _nbytes(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return sum(map(_nbytes, value))
    if not isinstance(value, torch.Tensor):
        return 0
    return math.prod(_size(size) for size in value.shape) * value.dtype.itemsize


def _size(size: Any) -> int:
    """A size, or for a dynamic one that of the example."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return hint if isinstance(hint, int) else 1
