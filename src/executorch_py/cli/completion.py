"""``etpy completion``: a script that completes commands, options and files in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from executorch_py.errors import NotSupportedError

__all__ = ["add"]

SHELLS = ("bash", "zsh", "fish")


def add(commands: Any, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Adds the command; ``parser`` makes the whole command line's."""
    completion = commands.add_parser("completion", help="print a script that completes commands, options and files")
    completion.add_argument("shell", choices=SHELLS)
    completion.set_defaults(run=lambda arguments: _completion(arguments.shell, parser()))


def _completion(shell: str, parser: argparse.ArgumentParser) -> int:
    try:
        import shtab
    except ImportError:
        raise NotSupportedError("etpy completion needs the package shtab: pip install shtab") from None
    _complete_files(parser, shtab.FILE)
    print(shtab.complete(parser, shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Values without a list of choices are completed as files."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _complete_files(one, files)
        elif action.choices is None and action.nargs != 0:
            action.complete = files  # type: ignore[attr-defined]
