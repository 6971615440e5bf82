"""``etpy passes``: the compiler's passes."""

from __future__ import annotations

import argparse
from typing import Any

from executorch_py import _core

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    passes = commands.add_parser(
        "passes", help="the compiler's passes, each of which a config can leave out by its name"
    )
    passes.set_defaults(run=_passes)


def _passes(_: argparse.Namespace) -> int:
    for name, summary in _core.list_passes():
        print(f"{name:36}  {summary}")
    return 0
