"""What objects look like when they are printed, and in a notebook: one description, as text and as HTML.

Standard library only: the runtime has it, too.

Example:
    >>> class Shelf(Shown):
    ...     def _card(self):
    ...         return Card("Shelf", ["2 boards"], ("board", "books"), [("upper", "12"), ("lower", "7")])
    >>> print(Shelf())
    Shelf: 2 boards
      board  books
      upper  12
      lower  7
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Card", "Shown", "Told", "counted", "nbytes_text", "value_text"]


@dataclass
class Card:
    """A description.

    Attributes:
        title: What it is.
        facts: Short facts about the whole.
        head: Titles of the table's columns.
        rows: The table.
    """

    title: str
    facts: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=list)

    def text(self) -> str:
        """As plain text."""
        from executorch_py.text_table import aligned

        first = ": ".join(filter(None, (self.title, ", ".join(self.facts))))
        return "\n".join([first, *(aligned(self.head, self.rows, widest=90) if self.rows else ())])

    def html(self) -> str:
        """As a piece of HTML, in the colours of the page around it."""
        from html import escape  # not needed to run programs

        cell = "text-align:left;padding:2px 12px 2px 0;vertical-align:top"
        head = "".join(f'<th style="{cell}">{escape(title)}</th>' for title in self.head)
        rows = "".join(
            "<tr>" + "".join(f'<td style="{cell}">{escape(text)}</td>' for text in row) + "</tr>" for row in self.rows
        )
        facts = f"<span>: {escape(', '.join(self.facts))}</span>" if self.facts else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        # Where the page is narrower the table scrolls by itself.
        wide = f'<div style="overflow-x:auto">{table}</div>' if self.rows else ""
        return f"<div><b>{escape(self.title)}</b>{facts}{wide}</div>"


class Shown:
    """An object with a card, which derived classes give."""

    __slots__ = ()

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


class Told:
    """A report: its text is what it looks like everywhere."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f'<pre style="line-height:1.3;overflow-x:auto">{escape(str(self))}</pre>'


def counted(count: int, noun: str) -> str:
    """A count in words: "1 method", "2 methods"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def nbytes_text(nbytes: int) -> str:
    """A size for people: "1.5 MiB"; exact below a KiB."""
    size, unit = float(nbytes), "bytes"
    for bigger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, bigger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def value_text(name: str, value: Any) -> str:
    """An input or output of a graph in words: "x: float32[2, 8]". Its value may be a tensor, a number or a symbol."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{name}: {str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    return f"{name}: {type(value).__name__}" if value is not None else name
