"""Events as files for other programs: JSON, and a trace for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from executorch_py.devtools.inspector.events import FIGURES, Event, EventBlock, TimeScale, scale_factor
from executorch_py.errors import InvalidArgumentError

__all__ = ["chrome_trace", "events_json", "written"]

#: Rows of a block in a trace.
_FRAMEWORK, _INSTRUCTIONS, _DELEGATES = 0, 1, 2


def events_json(blocks: Sequence[EventBlock], unit: str) -> str:
    """The blocks and their events, without values."""
    told = [
        {
            "name": block.name,
            "method": block.method,
            "bundled_input_index": block.bundled_input_index,
            "events": [_told(event) for event in block.events],
        }
        for block in blocks
    ]
    return json.dumps({"unit": unit, "blocks": told}, indent=1)


def _told(event: Event) -> dict[str, Any]:
    perf = event.perf_data
    times = {} if perf is None else {"raw": perf.raw, **{name: getattr(perf, name) for name in FIGURES}}
    return {
        "name": event.name,
        **times,
        "instruction": event._instruction_id,
        "delegate_id": event.delegate_debug_identifier,
        "backend": event.delegate_backend_name,
        "operators": event.op_types,
        "lines": [f"{one.file}:{one.line}" for one in event.sources if one.file],
        "modules": [one.module_path for one in event.sources],
        "start": event.start_time,
    }


def chrome_trace(blocks: Sequence[EventBlock], source: TimeScale) -> str:
    """A trace: a process for each block; in it rows of the framework, the instructions and the delegates' operators.

    Raises:
        InvalidArgumentError: The ETDump's times are cycles.
    """
    if source is TimeScale.CYCLES:
        raise InvalidArgumentError("a trace shows times in microseconds; cycles have no length in them")
    factor = scale_factor(source, TimeScale.US)
    starts = [start for block in blocks for event in block.events for start in event.start_time or ()]
    first = min(starts, default=0)
    events: list[dict[str, Any]] = []
    for process, block in enumerate(blocks):
        events.append(_named("process_name", process, 0, f"{block.name} {block.method}".strip()))
        for row, name in ((_FRAMEWORK, "framework"), (_INSTRUCTIONS, "instructions"), (_DELEGATES, "inside delegates")):
            events.append(_named("thread_name", process, row, name))
        to_us = scale_factor(block.target_time_scale, TimeScale.US)
        for event in block.events:
            row = (
                _DELEGATES if event.is_delegated_op else _FRAMEWORK if event._instruction_id is None else _INSTRUCTIONS
            )
            about = {
                "operators": ", ".join(event.op_types),
                "line": event.where,
                "module": next((one.module_path for one in event.sources), ""),
                "instruction": event._instruction_id,
            }
            raw = event.perf_data.raw if event.perf_data is not None else []
            for start, duration in zip(event.start_time or (), raw, strict=False):
                at = {"ts": (start - first) * factor, "dur": duration * to_us, "pid": process, "tid": row}
                events.append({"name": event.name, "cat": block.name, "ph": "X", **at, "args": about})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def written(text: str, path: str | os.PathLike[str] | None) -> str:
    """The text, written to a file where one is named."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
