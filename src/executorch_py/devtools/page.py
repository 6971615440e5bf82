"""One writer of pages: frame, style, script, cards, tables that sort by a click. No network, no dependency.

Light and dark come from the reader's settings. The pages of quantization reports and of profiles are made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["bullets", "cards", "frame", "sorted_table"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6775; --line: #d9dee5; --back: #ffffff; --card: #f5f7fa;
  --blue: #2f6fd6; --red: #cf3a32; --amber: #d88a10; --net: #111827; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #98a4b3; --line: #313a46; --back: #14181e;
  --card: #1c222a; --blue: #6ea2f5; --red: #f0716a; --amber: #ebaf45; --net: #f3f4f6; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 2rem auto;
  max-width: 1400px; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem; }
.card b { display: block; font-size: 1.25rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { padding: .28rem .6rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } td.note { white-space: normal; min-width: 16rem; }
th { color: var(--soft); font-weight: 600; cursor: pointer; user-select: none; position: sticky; top: 0;
  background: var(--back); }
th[data-dir="1"]::after { content: " ▲"; } th[data-dir="-1"]::after { content: " ▼"; }
tr.broken td { color: var(--red); } ul { margin: .3rem 0; padding-left: 1.2rem; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } .grid { stroke: var(--line); }
.good { fill: var(--blue); } .fair { fill: var(--amber); } .poor { fill: var(--red); }
.bar { display: inline-block; height: .7em; background: var(--blue); border-radius: 2px; min-width: 1px; }
.plan { display: grid; grid-template-columns: max-content 1fr; gap: 2px 8px; }
.plan svg { width: 100%; height: 300px; border: 1px solid var(--line); box-sizing: border-box; }
.axis { display: flex; justify-content: space-between; color: var(--soft); font-size: 11px; }
.axis.bytes { flex-direction: column; text-align: right; } .axis.steps { grid-column: 2; }
.scroll { overflow: auto; max-height: 720px; border: 1px solid var(--line); border-radius: 8px; }
.flame { position: relative; } .flame div { position: absolute; height: 20px; box-sizing: border-box; overflow: hidden;
  white-space: nowrap; font-size: 11px; padding: 2px 4px;
  border: 1px solid var(--back); border-radius: 3px; color: #10151c; }
.node { fill: var(--card); stroke: var(--line); } .heat { fill: var(--red); } .edge { stroke: var(--soft); fill: none; }
.part { fill: none; stroke: var(--blue); stroke-dasharray: 5 3; } svg .label { fill: var(--ink); }
.net { fill: none; stroke: var(--net); stroke-width: 2; } .key { display: inline-block; width: .8em; height: .8em;
  margin: 0 .3em 0 1em; border-radius: 2px; vertical-align: -1px; }
@media (max-width: 700px) { body { margin: 1rem auto; padding: 0 .8rem; } th, td { padding: .28rem .35rem; }
  td:first-child:not(.n) { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; } }
summary { cursor: pointer; color: var(--soft); margin: .4rem 0; }
"""

_SCRIPT = """
document.querySelectorAll('table.sort th').forEach(function (head) {
  head.addEventListener('click', function () {
    var body = head.closest('table').tBodies[0], column = head.cellIndex;
    var dir = head.dataset.dir === '1' ? -1 : 1;
    head.parentNode.querySelectorAll('th').forEach(function (other) { delete other.dataset.dir; });
    head.dataset.dir = dir;
    Array.from(body.rows).sort(function (a, b) {
      var x = a.cells[column].dataset.v, y = b.cells[column].dataset.v;
      var order = head.classList.contains('n') ? parseFloat(x) - parseFloat(y) : x.localeCompare(y);
      return dir * (order || 0);
    }).forEach(function (row) { body.appendChild(row); });
  });
});
"""


def frame(title: str, parts: Iterable[str]) -> str:
    """A whole page."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(parts)
        + f"\n<script>{_SCRIPT}</script>\n</body></html>\n"
    )


def cards(figures: Iterable[tuple[str, str]]) -> str:
    """Figures with their labels, side by side."""
    inner = "".join(f'<div class="card">{escape(label)}<b>{escape(value)}</b></div>' for label, value in figures)
    return f'<div class="cards">{inner}</div>'


def bullets(lines: Iterable[str]) -> list[str]:
    """A list of lines."""
    return ["<ul>", *(f"<li>{escape(line)}</li>" for line in lines), "</ul>"]


def sorted_table(head: Sequence[tuple[str, bool]], rows: Iterable[tuple[str, Sequence[tuple[str, object]]]]) -> str:
    """A table whose cells are (text, value to sort by)."""
    titles = "".join(f"<th{' class=n' if number else ''}>{escape(title)}</th>" for title, number in head)
    lines = []
    for style, cells in rows:
        line = ""
        for (text, value), (title, number) in zip(cells, head, strict=True):
            kind = "n" if number else "note" if title == "note" else ""
            line += f'<td class="{kind}" data-v="{escape(str(value), quote=True)}">{escape(text)}</td>'
        lines.append(f'<tr class="{style}">{line}</tr>')
    return (
        f'<div class="wide"><table class="sort"><thead><tr>{titles}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
