"""``etpy export``: exports a model and writes its program."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from typing import Any

from executorch_py.runtime import Runtime

from .models import add_lowering, lowered
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    export = commands.add_parser("export", help="export, quantize and lower a model")
    add_lowering(export)
    export.add_argument("-o", "--output", required=True, help="the .pte to write")
    export.add_argument("--etrecord", metavar="FILE", help="its ETRecord to write, from which etpy profile has lines")
    add_json(export)
    export.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    program = lowered(arguments)[0]
    program.save(arguments.output)
    if arguments.etrecord:
        program.get_etrecord().save(arguments.etrecord)
    metadata = Runtime.get().load_program(arguments.output).metadata("forward")
    delegates = Counter(metadata.backends())
    told = {
        "file": arguments.output,
        "bytes": os.path.getsize(arguments.output),
        "instructions": metadata.num_instructions(),
        "delegates": delegates,
    }
    parts = [f"{count} parts for {name}" if count > 1 else f"one part for {name}" for name, count in delegates.items()]
    facts = ", ".join([f"{told['bytes']:,} bytes", f"{told['instructions']} instructions", *parts])
    show(arguments, f"{arguments.output}: {facts}", lambda: told)
    return 0
