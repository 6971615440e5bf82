"""``etpy bundle``: puts test cases into a program's file, and runs those of one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgumentError

from .models import MODEL, model_of
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    bundle = commands.add_parser("bundle", help="put test cases into a program's file, or run those of one")
    bundle.add_argument("program", help="a .pte file; a .bpte, whose cases are run, when no model is given")
    bundle.add_argument("model", nargs="?", help=MODEL)
    bundle.add_argument("--method", default="forward")
    bundle.add_argument("-o", "--output", help="the .bpte to write")
    bundle.add_argument("--tolerance", type=float, help="largest max error / max value, for a run")
    add_json(bundle)
    bundle.set_defaults(run=_bundle)


def _bundle(arguments: argparse.Namespace) -> int:
    if arguments.model is None:
        return _check(arguments)
    if not arguments.output:
        raise InvalidArgumentError("name the file to write: -o model.bpte")
    import torch

    from executorch_py.devtools import BundledProgram, MethodTestCase, MethodTestSuite
    from executorch_py.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    from executorch_py.graphs.modules import module_of

    model, inputs, kwargs = model_of(arguments.model)
    model = module_of(model) if isinstance(model, torch.export.ExportedProgram) else model
    with torch.no_grad():
        case = MethodTestCase((inputs, kwargs), model(*inputs, **kwargs))
    bundled = BundledProgram(None, [MethodTestSuite(arguments.method, [case])], arguments.program)
    Path(arguments.output).write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
    told = {"file": arguments.output, "method": arguments.method, "cases": 1}
    show(arguments, f"{arguments.output}: {bundled!r}", lambda: told)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.bundled_program.check import run_test_cases
    from executorch_py.devtools.comparison import Tolerance

    tolerance = None if arguments.tolerance is None else Tolerance(relative_to_max=arguments.tolerance)
    report = run_test_cases(Path(arguments.program).read_bytes(), tolerance)
    show(arguments, report, report.as_dict)
    return 0 if report.passed else 1
