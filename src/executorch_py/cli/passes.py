"""``etpy passes``: the compiler's passes."""

from __future__ import annotations

import argparse
from typing import Any

from executorch_py import _core

from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    passes = commands.add_parser(
        "passes", help="the compiler's passes, each of which a config can leave out by its name"
    )
    add_json(passes)
    passes.set_defaults(run=_passes)


def _passes(arguments: argparse.Namespace) -> int:
    found = _core.list_passes()
    text = "\n".join(f"{name:36}  {summary}" for name, summary in found)
    show(arguments, text, lambda: dict(found))
    return 0
