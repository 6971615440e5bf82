"""``etpy export``: exports a model and writes its program."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .arguments import lowered

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    export = commands.add_parser("export", help="export and lower a model")
    export.add_argument("model", help="package.module:function, which returns (model, example_inputs[, kwargs])")
    export.add_argument("-o", "--output", required=True, help="the .pte to write")
    export.add_argument("--partitioner", action="append", default=[], help="package.module:Class; may be repeated")
    export.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    program = lowered(arguments)[0]
    program.save(arguments.output)
    print(f"{arguments.output}: {os.path.getsize(arguments.output):,} bytes")
    return 0
