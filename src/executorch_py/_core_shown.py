"""What objects of the extension module look like: their class, and each property in short.

Those that Python wraps (programs, methods, what describes them) show what the wrapper shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executorch_py import _core
from executorch_py._shown import Card, counted, nbytes_text
from executorch_py.errors import ExecutorchError
from executorch_py.text_table import shortened

__all__ = ["install"]


def install(wrappers: Mapping[type, type]) -> None:
    """Gives every class of the extension module its text; ``wrappers``: class -> the class that wraps it."""
    for kind in vars(_core).values():
        if isinstance(kind, type) and kind.__module__ == _core.__name__:
            wrapper = wrappers.get(kind)
            card = _card if wrapper is None else lambda core, wrapper=wrapper: wrapper(core)._card()
            kind.__repr__ = lambda core, card=card: card(core).text()  # type: ignore
            kind._repr_html_ = lambda core, card=card: card(core).html()  # type: ignore


def _card(core: Any) -> Card:
    names = [name for name, what in vars(type(core)).items() if isinstance(what, property)]
    rows = [(name, _told(core, name)) for name in names]
    return Card(f"_core.{type(core).__name__}", [], ("property", "value"), rows)


def _told(core: Any, name: str) -> str:
    try:
        value = getattr(core, name)
    except ExecutorchError as error:  # of a context whose call is over
        return shortened(str(error).splitlines()[0])
    if isinstance(value, bytes):
        return nbytes_text(len(value))
    if isinstance(value, str) and "\n" in value:
        return counted(value.count("\n"), "line")
    if isinstance(value, (list, tuple, dict)) and len(repr(value)) > 80:
        return counted(len(value), "item")
    return shortened(repr(value), 80)
