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
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx

from executorch_py._shown import Card, Shown, counted, nbytes_text
from executorch_py.devtools.inspector.events import BETWEEN, FIGURES, Event, PerfData
from executorch_py.graphs.macs import macs_of

__all__ = [
    "CacheLevel",
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
        times: The sum of their times, run by run, of the runs that had any.
        calls: How many events.
        share: Of the time of the faster half of the runs, so that an interrupted run decides nothing.
        detail: What they are: operators, or the modules' class.
    """

    key: str
    times: PerfData
    calls: int
    share: float
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
        """Share of a row in the whole."""
        return row.share

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain data."""
        return [
            {self.by: row.key, **{name: getattr(row.times, name) for name in FIGURES}}
            | {"raw": row.times.raw, "share": row.share, "calls": row.calls, "detail": row.detail}
            for row in self.rows
        ]

    def _card(self) -> Card:
        head = (self.by, "p50", "p90", "min", "share", "calls", "detail")
        rows = [
            (
                row.key or "(the model)",
                *(f"{value:.4g}" for value in (row.times.p50, row.times.p90, row.times.min)),
                f"{row.share:.1%}",
                str(row.calls),
                row.detail,
            )
            for row in self.rows
        ]
        runs = self.total.raw
        facts = [counted(len(runs), "run"), f"a run {self.total.p50:.4g} {self.unit} (median)"] if runs else []
        facts = facts or ["no instruction was recorded"]
        return Card(f"by {self.by}, {self.unit}", facts, head, rows)


@dataclass
class _Sum:
    runs: list[np.ndarray[Any, Any]] = field(default_factory=list)  # one a block that has such events
    typical: float = 0.0
    events: set[int] = field(default_factory=set)
    detail: dict[str, None] = field(default_factory=dict)


def _grouped(
    by: str, unit: str, events: Sequence[Event], keys: Callable[[Event, int], Iterable[tuple[str, str]]]
) -> Profile:
    """Adds up. The time of an event that stands for several operators goes to those that multiply, by their work.

    A convolution with its norm and its activation is the convolution's time: the others cost next to nothing there.
    Where none multiplies, each has an equal share.

    Runs that took another way (branches, loops) are other blocks. Each counts with the faster half of its runs, as
    often as it ran.

    ``keys`` gets an event and the number of one of its operators, and gives what that counts for, and what to tell of
    it.
    """
    sums: dict[str, _Sum] = {}
    whole = _Sum()
    blocks: dict[tuple[int, int], list[tuple[Event, np.ndarray[Any, Any]]]] = {}
    for event in events:
        if event.perf_data is not None:
            raw = np.asarray(event.perf_data.raw)
            blocks.setdefault((event._block, len(raw)), []).append((event, raw))
    for timed in blocks.values():
        total = np.sum([raw for _, raw in timed], axis=0)
        is_typical = total <= np.median(total)
        of_block: dict[str, np.ndarray[Any, Any]] = {}
        for event, raw in timed:
            weights = event.macs if any(event.macs) else [1] * max(len(event.sources), 1)
            for index, weight in enumerate(weights):
                for key, detail in keys(event, index):
                    of_block[key] = of_block.get(key, 0.0) + raw * (weight / sum(weights))
                    one = sums.setdefault(key, _Sum())
                    one.events.add(id(event))
                    one.detail[detail] = None
        for one, raw in [(whole, total), *((sums[key], raw) for key, raw in of_block.items())]:
            one.runs.append(raw)
            one.typical += float(raw[is_typical].mean()) * len(raw)
    rows = [
        ProfileRow(
            key,
            PerfData(np.concatenate(one.runs).tolist()),
            len(one.events),
            one.typical / whole.typical if whole.typical else 0.0,
            ", ".join(filter(None, one.detail)),
        )
        for key, one in sums.items()
    ]
    rows.sort(key=lambda row: -row.share)
    return Profile(by, unit, rows, PerfData(np.concatenate(whole.runs or [np.zeros(0)]).tolist()))


def _no_source(event: Event, detail: str = "") -> list[tuple[str, str]]:
    return [(BETWEEN, "")] if event.name == BETWEEN else [(UNKNOWN, detail)]


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
        if source and source.file:
            yield f"{source.file}:{source.line}", _operator(event, index)
        else:
            yield from _no_source(event, _operator(event, index))

    return _grouped("line", unit, events, keys)


def by_module(events: Sequence[Event], unit: str) -> Profile:
    """Times by module: that of a module holds those of the modules inside."""

    def keys(event: Event, index: int) -> Iterable[tuple[str, str]]:
        stacks = list(event.module_hierarchy.values())
        stack = stacks[index] if index < len(stacks) else {}
        paths = {path: str(kind).rpartition(".")[2].rstrip("'>") for path, kind in stack.values()}
        yield from paths.items() if paths else _no_source(event)

    return _grouped("module", unit, events, keys)


@dataclass(frozen=True)
class CacheLevel:
    """A cache: ``L2`` or ``L3``, its bytes, and the bytes a second read and written together."""

    name: str
    nbytes: int
    bytes_per_second: float


@dataclass(frozen=True)
class Machine:
    """What a machine can at most.

    Attributes:
        macs_per_second: Multiply-accumulates of float32.
        bytes_per_second: Read and written together, from and to memory.
        caches: Caches that are faster than memory, the smallest first.
    """

    macs_per_second: float
    bytes_per_second: float
    caches: tuple[CacheLevel, ...] = ()

    @staticmethod
    @functools.lru_cache(maxsize=4)
    def measured(num_threads: int = 1) -> Machine:
        """Measures this machine, once in a process: the best of several matrix products and copies, 1 s in all.

        By processor time, so that a busy machine has the peak of an idle one.
        """
        before = torch.get_num_threads()
        a, b, size = torch.randn(512, 512), torch.randn(512, 512), 512
        out = torch.empty(512, 512)
        macs = 0.0
        try:
            levels = dict.fromkeys(_caches(), 0.0)
            # Several threads can at least what one can; on a busy machine they wait for each other and seem slower.
            for threads in {1, num_threads}:
                torch.set_num_threads(threads)
                macs = max(macs, size**3 / _best(lambda: torch.mm(a, b, out=out), threads))
                # Half of a cache is copied, so that what else runs has room in it.
                levels = {
                    (level, nbytes): max(best, _copied(nbytes // 2, threads))
                    for (level, nbytes), best in levels.items()
                }
            memory = _copied(128 << 20, num_threads)
            caches = (
                CacheLevel(f"L{level}", nbytes, best) for (level, nbytes), best in levels.items() if best > memory
            )
            return Machine(macs, memory, tuple(caches))
        finally:
            torch.set_num_threads(before)

    def seconds_of(self, nbytes: int, distance: int) -> tuple[float, str]:
        """How long bytes take at least, and where they come from.

        Args:
            nbytes: How many.
            distance: How many bytes the machine touches until it is here again: a cache that holds as many has them.
        """
        for level in self.caches:
            if distance <= level.nbytes:
                return nbytes / level.bytes_per_second, level.name
        return nbytes / self.bytes_per_second, "memory"


def _copied(nbytes: int, num_threads: int) -> float:
    """Bytes a second of a copy whose source and target have so many together."""
    source, target = torch.zeros(nbytes // 8), torch.zeros(nbytes // 8)
    return 2 * source.nbytes / _best(lambda: target.copy_(source), num_threads)


def _caches() -> list[tuple[int, int]]:
    """Level and bytes of the second and third cache, as Linux tells them; none elsewhere."""
    found: dict[int, int] = {}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind in ("Data", "Unified") and level in "23" and size.endswith("K"):
            found[int(level)] = int(size[:-1]) << 10
    return sorted(found.items())


def _best(action: Callable[[], Any], num_threads: int) -> float:
    """Seconds of the fastest of several calls, without the turns of other programs on a busy machine.

    Linux books the time of other threads once in some milliseconds. With several threads calls are therefore timed
    many at once.
    """
    worked = time.thread_time if num_threads == 1 else lambda: time.process_time() / num_threads
    start = time.perf_counter()
    action()
    calls = 1 if num_threads == 1 else math.ceil(0.02 / (time.perf_counter() - start))
    times: list[float] = []
    end = time.perf_counter() + 0.15
    while len(times) < 3 or time.perf_counter() < end:
        start, before = time.perf_counter(), worked()
        for _ in range(calls):
            action()
        times.append(min(time.perf_counter() - start, worked() - before) / calls)
    return min(times)


@dataclass
class RooflineRow:
    """One instruction, or one operator of a delegate.

    Attributes:
        event: The event.
        macs: Multiply-accumulates of a call.
        nbytes: Bytes that it must read and write: operands, weights and results.
        share: Least possible time over the fastest run; near 1 is as fast as the machine can. Above 1 the kernel
            multiplies less than the operator's definition does, as Winograd's convolutions do.
        bound: What the least possible time comes from: "compute", "memory", or the cache that has the bytes ("L2").
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
        machine = self.machine
        peak = f"peak {machine.macs_per_second / 1e9:.3g} GMAC/s, {machine.bytes_per_second / 1e9:.3g} GB/s"
        caches = [
            f"{one.name} of {nbytes_text(one.nbytes)} {one.bytes_per_second / 1e9:.3g} GB/s" for one in machine.caches
        ]
        return Card("roofline", [peak, *caches], head, rows)


def roofline(
    events: Sequence[Event], unit: str, per_second: float, nodes: dict[int, list[fx.Node]], machine: Machine
) -> Roofline:
    """Bytes and multiply-accumulates of each event over what the machine can.

    What an instruction of the run computed was touched a moment ago: its bytes come from the smallest cache that holds
    those of the event. Weights and inputs were touched a run ago: theirs come from one that holds those of all events.

    Args:
        events: The events.
        unit: Of their times.
        per_second: How many of the unit a second has.
        nodes: Debug handle -> nodes of the Edge program.
        machine: What it can.
    """
    groups = [(event, members) for event in events if not event.is_added and (members := _members(event, nodes))]
    traffic = [traffic_of(members) for _, members in groups]
    whole = sum(kept + fresh for kept, fresh in traffic)
    rows = []
    for (event, members), (kept, fresh) in zip(groups, traffic, strict=True):
        if event.perf_data is None or event.perf_data.min <= 0:
            continue
        macs, nbytes = sum(macs_of(node) for node in members), kept + fresh
        compute = macs / machine.macs_per_second
        from_before, from_now = machine.seconds_of(kept, whole), machine.seconds_of(fresh, nbytes)
        moved = from_before[0] + from_now[0]
        bound = "compute" if compute > moved else max(from_before, from_now)[1]
        rows.append(RooflineRow(event, macs, nbytes, max(compute, moved) * per_second / event.perf_data.min, bound))
    rows.sort(key=lambda row: -(row.event.perf_data.min if row.event.perf_data else 0.0))
    return Roofline(machine, unit, rows)


def _members(event: Event, nodes: dict[int, list[fx.Node]]) -> set[fx.Node]:
    handles = event.debug_handles if not isinstance(event.debug_handles, int) else [event.debug_handles]
    return {node for handle in handles or () for node in nodes.get(handle, ())}


def traffic_of(members: set[fx.Node]) -> tuple[int, int]:
    """Bytes that a group of nodes takes from outside (weights, inputs), and those of the run's own values."""
    taken = {one for node in members for one in node.all_input_nodes if one not in members}
    given = {node for node in members if any(user not in members for user in node.users)}
    kept = {one for one in taken if one.op in ("placeholder", "get_attr")}
    fresh = (taken | given) - kept
    return sum(_nbytes(one.meta.get("val")) for one in kept), sum(_nbytes(one.meta.get("val")) for one in fresh)


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
