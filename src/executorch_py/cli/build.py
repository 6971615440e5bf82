"""``etpy build``: a program as straight-line C++ without an interpreter."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from executorch_py.native import TARGETS, build_native

from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    build = commands.add_parser("build", help="write a program as C++ code, and build it: no interpreter, no file")
    build.add_argument("program", help="a .pte file")
    build.add_argument("-o", "--output", required=True, help="folder of the code")
    build.add_argument("--target", choices=list(TARGETS), default="host")
    build.add_argument("--name", help="what functions begin with; else the file's name")
    build.add_argument("--input", action="append", help=".npy file of an example input; once for each")
    build.add_argument("--library", action="store_true", help="the library and its header only, without a program")
    build.add_argument(
        "--check", action="store_true", help="compare with the interpreter: sizes, instructions, outputs"
    )
    build.add_argument("--no-measure", action="store_true", help="write the code only: neither build nor run it")
    add_json(build)
    build.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    report = build_native(
        arguments.program,
        arguments.output,
        arguments.target,
        name=arguments.name,
        inputs=[np.load(path) for path in arguments.input] if arguments.input else None,
        library=arguments.library,
        measure=not arguments.no_measure,
        check=arguments.check,
    )
    show(arguments, str(report), report.as_dict)
    return 0 if report.matches else 1
