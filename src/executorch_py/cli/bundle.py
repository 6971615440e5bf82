"""``etpy bundle``: puts test cases into a program's file, and runs those of one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgumentError

from .arguments import model_of

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    bundle = commands.add_parser("bundle", help="put test cases into a program's file, or run those of one")
    bundle.add_argument("program", help="a .pte file; a .bpte, whose cases are run, when no model is given")
    bundle.add_argument(
        "model", nargs="?", help="package.module:function, which returns (model, example_inputs[, kwargs])"
    )
    bundle.add_argument("--method", default="forward")
    bundle.add_argument("-o", "--output", help="the .bpte to write")
    bundle.add_argument("--tolerance", type=float, help="largest max error / max value, for a run")
    bundle.set_defaults(run=_bundle)


def _bundle(arguments: argparse.Namespace) -> int:
    if arguments.model is None:
        return _check(arguments)
    if not arguments.output:
        raise InvalidArgumentError("name the file to write: -o model.bpte")
    import torch

    from executorch_py.devtools import BundledProgram, MethodTestCase, MethodTestSuite
    from executorch_py.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    model, inputs, kwargs = model_of(arguments.model)
    with torch.no_grad():
        case = MethodTestCase((inputs, kwargs), model(*inputs, **kwargs))
    bundled = BundledProgram(None, [MethodTestSuite(arguments.method, [case])], arguments.program)
    Path(arguments.output).write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
    print(f"{arguments.output}: {bundled!r}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.bundled_program.check import run_test_cases
    from executorch_py.devtools.comparison import Tolerance

    tolerance = None if arguments.tolerance is None else Tolerance(relative_to_max=arguments.tolerance)
    report = run_test_cases(Path(arguments.program).read_bytes(), tolerance)
    print(report)
    return 0 if report.passed else 1
