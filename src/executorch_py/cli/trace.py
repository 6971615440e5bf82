"""``etpy trace``: runs of a program as a trace for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

import argparse
from typing import Any

from .recording import add_recording, inspector_of
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    trace = commands.add_parser("trace", help="runs as a trace for chrome://tracing and ui.perfetto.dev")
    add_recording(trace)
    trace.add_argument("-o", "--output", required=True, help="the .json to write")
    add_json(trace)
    trace.set_defaults(run=_trace)


def _trace(arguments: argparse.Namespace) -> int:
    inspector = inspector_of(arguments)
    inspector.to_chrome_trace(arguments.output)
    text = f"{arguments.output}: {inspector.event_blocks[-1]!r}; open it in ui.perfetto.dev"
    show(arguments, text, lambda: {"file": arguments.output, "events": len(inspector.events())})
    return 0
