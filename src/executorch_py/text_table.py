r"""Plain-text tables: columns of equal width, as all reports print them.

Example:
    >>> print("\n".join(aligned(("output", "SQNR dB"), [("0", "32.1")], right=(1,))))
      output  SQNR dB
      0          32.1
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["aligned", "shortened"]

WIDEST = 44  # characters of a column; longer texts are cut in the middle


def shortened(text: str, widest: int = WIDEST) -> str:
    """``text``, its middle left out when it is longer than ``widest``."""
    return text if len(text) <= widest else f"{text[: widest // 2 - 1]}…{text[-widest // 2 :]}"


def aligned(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    indent: str = "  ",
    widest: int = WIDEST,
) -> list[str]:
    """Lines of a table.

    Args:
        head: Titles of the columns.
        rows: Cells, as many a row as there are titles.
        right: Numbers of the columns that stand at the right side of their place (figures).
        indent: What each line begins with.
        widest: Longest text of a column; the last column is as long as it is.
    """
    cells = [list(head), *([*(shortened(cell, widest) for cell in row[:-1]), row[-1]] for row in rows)]
    last = len(head) - 1
    widths = [max(len(row[i]) for row in cells) for i in range(last + 1)]
    lines = []
    for row in cells:
        padded = [
            text.rjust(width) if i in right else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(padded)).rstrip())
    return lines
