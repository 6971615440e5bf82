"""The parser of ``etpy``: as argparse's, and it says what was probably meant."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["Parser"]


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the closest command or option.

    A command refuses what it does not know itself, so that the usage told is its own.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._given: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse; nothing is left over."""
        self._given = list(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, []

    def error(self, message: str) -> NoReturn:
        """Ends with status 2, a usage line and the message."""
        super().error("; ".join([message, *self._suggestions()]))

    def _suggestions(self) -> list[str]:
        commands = [name for action in self._actions if isinstance(action.choices, dict) for name in action.choices]
        options = [text for action in self._actions for text in action.option_strings]
        found = []
        for word in self._given:
            name = word.partition("=")[0]
            known: Sequence[str] = options if name.startswith("--") else commands
            if (known is commands and name in commands) or name == "--":
                break  # what follows a command is its own
            fits = known is options and any(one.startswith(name) for one in known)  # its beginning is enough
            if not fits and (close := difflib.get_close_matches(name, known, 1)):
                found.append(f"did you mean {close[0]} instead of {name}?")
        return found
