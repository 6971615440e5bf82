"""``etpy validate``: compares a program with its model."""

from __future__ import annotations

import argparse
from typing import Any

from .models import MODEL, model_of
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    validate = commands.add_parser("validate", help="compare a program with its model")
    validate.add_argument("program")
    validate.add_argument("model", help=MODEL)
    validate.add_argument("--method", default="forward")
    validate.add_argument("--tolerance", type=float, help="largest max error / max value")
    validate.add_argument("--min-sqnr", type=float, help="smallest signal-to-noise ratio in dB, instead of a tolerance")
    add_json(validate)
    validate.set_defaults(run=_validate)


def _validate(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.validate import Tolerance, validate

    model, inputs, kwargs = model_of(arguments.model)
    tolerance = None
    if arguments.tolerance is not None or arguments.min_sqnr is not None:
        tolerance = Tolerance(relative_to_max=arguments.tolerance, min_sqnr_db=arguments.min_sqnr)
    report = validate(
        arguments.program,
        model.module() if hasattr(model, "graph_signature") else model,
        inputs,
        example_kwargs=kwargs,
        method=arguments.method,
        tolerance=tolerance,
        verbose=False,
    )
    show(arguments, report, report.as_dict)
    return 0 if report.passed else 1
