"""``etpy validate``: compares a program with its model, or its kernels with ATen's."""

from __future__ import annotations

import argparse
from typing import Any

from executorch_py.errors import InvalidArgumentError

from .arguments import inputs_of
from .models import MODEL, model_of
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    validate = commands.add_parser("validate", help="compare a program with its model")
    validate.add_argument("program")
    validate.add_argument("model", nargs="?", help=f"{MODEL}; --aten can do without")
    validate.add_argument(
        "--aten", action="store_true", help="compute each instruction once more by ATen, from what its kernel read"
    )
    validate.add_argument("--method", default="forward")
    validate.add_argument("--tolerance", type=float, help="largest max error / max value")
    validate.add_argument("--min-sqnr", type=float, help="smallest signal-to-noise ratio in dB, instead of a tolerance")
    add_json(validate)
    validate.set_defaults(run=_validate)


def _validate(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.validate import Tolerance, validate
    from executorch_py.graphs.modules import module_of

    tolerance = None
    if arguments.tolerance is not None or arguments.min_sqnr is not None:
        tolerance = Tolerance(relative_to_max=arguments.tolerance, min_sqnr_db=arguments.min_sqnr)
    if arguments.aten:
        return _beside_aten(arguments, tolerance)
    if arguments.model is None:
        raise InvalidArgumentError("validate needs the model to compare with; --aten compares kernels without one")
    model, inputs, kwargs = model_of(arguments.model)
    report = validate(
        arguments.program,
        module_of(model) if hasattr(model, "graph_signature") else model,
        inputs,
        example_kwargs=kwargs,
        method=arguments.method,
        tolerance=tolerance,
        verbose=False,
    )
    show(arguments, report, report.as_dict)
    return 0 if report.passed else 1


def _beside_aten(arguments: argparse.Namespace, tolerance: Any) -> int:
    """The inputs are the model's, or generated as for ``etpy run``."""
    from executorch_py.devtools.aten_check import compare_with_aten
    from executorch_py.runtime import Runtime

    program = Runtime.get().load_program(arguments.program)
    if arguments.model is None:
        leaves = inputs_of(program.load_method(arguments.method), [])
        report = compare_with_aten(program, leaves=leaves, method=arguments.method, tolerance=tolerance)
    else:
        _, inputs, kwargs = model_of(arguments.model)
        report = compare_with_aten(program, inputs, kwargs=kwargs, method=arguments.method, tolerance=tolerance)
    show(arguments, report, report.as_dict)
    return 0 if report.passed else 1
