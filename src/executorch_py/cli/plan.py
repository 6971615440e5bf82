"""``etpy plan``: what lives where in the planned memory of a model's program."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .arguments import lowered

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    plan = commands.add_parser("plan", help="what lives at the peak of the planned memory, with its lines")
    plan.add_argument("model", help="package.module:function, which returns (model, example_inputs[, kwargs])")
    plan.add_argument("--partitioner", action="append", default=[], help="package.module:Class; may be repeated")
    plan.add_argument("--method", default="forward")
    plan.add_argument("--try-options", action="store_true", help="compile with options that may save memory, and tell")
    plan.add_argument("--trace", help="a file for chrome://tracing to write: bytes along, steps down")
    plan.add_argument("--json", action="store_true")
    plan.set_defaults(run=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.memory_peaks import memory_report
    from executorch_py.devtools.memory_trace import generate_memory_trace

    program = lowered(arguments)[0]
    report = memory_report(program, arguments.method, try_options=arguments.try_options)
    if arguments.trace:
        generate_memory_trace(program, arguments.trace, True, arguments.method)
    print(json.dumps(report.as_dict(), indent=2) if arguments.json else report)
    return 0
