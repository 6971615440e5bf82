"""What commands print: JSON where it is asked for, plain text into files and pipes, colours on a terminal.

``rich`` draws colours and progress. Where it is not installed, terminals get plain text.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

__all__ = ["add_json", "complain", "followed", "show"]

_Item = TypeVar("_Item")

#: Style -> what it marks in a report.
_STYLES = {
    "bold green": r"\b(pass|all pass|yes|nothing is missing)\b",
    "bold red": r"\b(FAIL|MISSING|not all pass|missing)\b",
    "cyan": r"[\w./<>-]+\.py:\d+",
    "magenta": r"\b\w+::\w+(\.\w+)?\b",
    "dim": r"^(  )?[a-z][\w ./%]*(?=  ).*  (share|calls|SQNR dB|mean error|line|backend|dtypes)\b.*$",
}


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that prints the same as data."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def show(arguments: argparse.Namespace, text: Any, plain: Callable[[], Any]) -> None:
    """Prints a report: its text, or what ``plain`` returns as JSON where ``--json`` was given."""
    if arguments.json:
        print(json.dumps(_finite(plain()), indent=2))
    elif (console := _console(sys.stdout)) is None:
        print(text)
    else:
        console.print(_coloured(str(text)), soft_wrap=True)


def _finite(value: Any) -> Any:
    """Data as JSON can say it: infinities and NaN are ``null``."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value


def complain(message: str) -> None:
    """Prints an error."""
    if (console := _console(sys.stderr)) is None:
        print(f"etpy: {message}", file=sys.stderr)
    else:
        kind, colon, rest = message.partition(":")
        console.print(_styled([("etpy: ", ""), (kind + colon, "bold red"), (rest, "")]), soft_wrap=True)


def followed(items: Iterable[_Item], what: str, count: int) -> Iterator[_Item]:
    """The items, with a bar on standard error while they last, where that is a terminal."""
    if (console := _console(sys.stderr)) is None:
        yield from items
        return
    from rich.progress import track

    yield from track(items, what, total=count, console=console, transient=True)


def _console(stream: Any) -> Any:
    """A console of rich for a stream that is a terminal; ``None`` for others."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, highlight=False)


def _styled(parts: Sequence[tuple[str, str]]) -> Any:
    from rich.text import Text

    return Text.assemble(*parts)


def _coloured(text: str) -> Any:
    from rich.text import Text

    found = Text(text)
    for style, pattern in _STYLES.items():
        found.highlight_regex(f"(?m){pattern}", style)
    return found
