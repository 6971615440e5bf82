"""``etpy strip``: a program without what only tools read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidProgramError
from executorch_py.text_table import aligned

from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    strip = commands.add_parser("strip", help="write a program without debug information and names")
    strip.add_argument("program", help="a .pte file")
    strip.add_argument("-o", "--output", required=True, help="the .pte to write; may be the same file")
    add_json(strip)
    strip.set_defaults(run=_strip)


def _strip(arguments: argparse.Namespace) -> int:
    from executorch_py.codegen.flatbuffer import DamagedError
    from executorch_py.codegen.pte_stripping import stripped
    from executorch_py.runtime import Runtime

    data = Path(arguments.program).read_bytes()
    Runtime.get().load_program(arguments.program)  # InvalidProgramError for what is none
    try:
        smaller, removed = stripped(data)
    except DamagedError as error:
        raise InvalidProgramError(f"{arguments.program}: {error}") from None
    Runtime.get().load_program(smaller)
    Path(arguments.output).write_bytes(smaller)
    told = {"file": arguments.output, "bytes_before": len(data), "bytes": len(smaller), "removed": removed}
    rows = [(name, f"{count:,}") for name, count in removed.items()] or [("nothing", "0")]
    lines = [f"{arguments.output}: {len(smaller):,} bytes of {len(data):,}"]
    show(arguments, "\n".join([*lines, *aligned(("removed", "bytes"), rows, right=(1,))]), lambda: told)
    return 0
