"""``etpy compare``: two programs beside each other."""

from __future__ import annotations

import argparse
from typing import Any

from executorch_py.runtime import Runtime

from .arguments import inputs_of, positive
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    compare = commands.add_parser("compare", help="sizes, operators, times and numbers of two programs")
    compare.add_argument("a", help="a .pte file")
    compare.add_argument("b", help="the other one")
    compare.add_argument("--method", default="forward")
    compare.add_argument(
        "--input", action="append", default=[], help=".npy file (a number: JSON); in order, rest generated"
    )
    compare.add_argument("--runs", type=positive, default=20)
    compare.add_argument("--no-run", action="store_true", help="sizes and operators only")
    compare.add_argument("--min-sqnr", type=float, help="exit with 1 when an output of b has less beside a's, in dB")
    add_json(compare)
    compare.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from executorch_py.devtools.program_comparison import compare

    inputs = None
    if not arguments.no_run:
        method = Runtime.get().load_program(arguments.a).load_method(arguments.method)
        inputs = inputs_of(method, arguments.input)
    found = compare(arguments.a, arguments.b, inputs, method=arguments.method, runs=arguments.runs)
    show(arguments, found, found.as_dict)
    least = min((one.sqnr_db for one in found.outputs), default=float("inf"))
    return 0 if arguments.min_sqnr is None or least >= arguments.min_sqnr else 1
