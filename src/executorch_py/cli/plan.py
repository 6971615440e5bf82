"""``etpy plan``: what lives where in the planned memory of a model's program."""

from __future__ import annotations

import argparse
from typing import Any

from .models import add_lowering, lowered
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    plan = commands.add_parser("plan", help="what lives at the peak of the planned memory, with its lines")
    add_lowering(plan)
    plan.add_argument("--method", default="forward")
    plan.add_argument("--try-options", action="store_true", help="compile with options that may save memory, and tell")
    plan.add_argument("--trace", help="a file for chrome://tracing to write: bytes along, steps down")
    add_json(plan)
    plan.set_defaults(run=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.memory_peaks import memory_report
    from executorch_py.devtools.memory_trace import generate_memory_trace

    program = lowered(arguments)[0]
    report = memory_report(program, arguments.method, try_options=arguments.try_options)
    if arguments.trace:
        generate_memory_trace(program, arguments.trace, True, arguments.method)
    show(arguments, report, report.as_dict)
    return 0
