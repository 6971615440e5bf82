"""A profile as one self-contained page: bars by line, a flame chart, the graph with heat, the memory plan.

>>> inspector.to_html("model.html", memory=memory_report(program))  # doctest: +SKIP
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from html import escape
from types import BuiltinFunctionType
from typing import Any

from torch import fx

from executorch_py._shown import nbytes_text
from executorch_py.devtools.inspector.events import Event
from executorch_py.devtools.inspector.profile import Profile
from executorch_py.devtools.memory_peaks import MemoryReport
from executorch_py.devtools.page import cards, frame, sorted_table

__all__ = ["profile_page"]

_WIDTH, _HEIGHT, _GAP = 170, 26, 22  # of a node, in pixels
_ROWS = 16  # of a table that are shown at first
_LARGEST = 600  # nodes that a picture of a graph has at most


def profile_page(
    title: str,
    unit: str,
    profiles: Sequence[Profile],
    events: Sequence[Event],
    graph: fx.Graph | None,
    memory: MemoryReport | None,
    further: Sequence[str],
) -> str:
    """The page's text.

    Args:
        title: Its title.
        unit: Of the times.
        profiles: By operator, and by line and module where they are known.
        events: One an instruction, for the graph.
        graph: The Edge program's.
        memory: The memory plan.
        further: More parts, such as a chart of a quantization report.
    """
    total = profiles[0].total
    runs = len(total.raw)
    figures = [("runs", str(runs)), ("instructions", str(sum(event.counts for event in events)))]
    if runs:
        figures += [(f"median, {unit}", f"{total.p50:.4g}"), (f"90th percentile, {unit}", f"{total.p90:.4g}")]
    parts = [f"<h1>{escape(title)}</h1>", cards(figures)]
    for profile in profiles:
        parts += [f"<h2>Time by {profile.by}</h2>", _bars(profile)]
        if profile.by == "module":
            parts += ["<h2>Flame chart: modules inside modules</h2>", _flame(profile)]
    if graph is not None:
        parts += ["<h2>Graph: the redder, the longer; dashed boxes are delegates</h2>", _graph(graph, events)]
    if memory is not None:
        parts += [
            "<h2>Planned memory: a box is a tensor, from its first step to its last, at its bytes</h2>",
            _memory(memory),
        ]
    return frame(title, [*parts, *further])


def _bars(profile: Profile) -> str:
    figures = [(f"{name}, {profile.unit}", True) for name in ("p50", "p90")]
    head = [(profile.by, False), ("share", True), *figures, ("calls", True)]
    rows: list[tuple[str, list[tuple[str, object]]]] = []
    for row in profile.rows:
        times = [(f"{value:.4g}", value) for value in (row.times.p50, row.times.p90)]
        share = row.share
        rows.append(
            ("", [(row.key or "(the model)", row.key), (f"{share:.1%}", share), *times, (str(row.calls), row.calls)])
        )
    table = sorted_table(head, rows[:_ROWS])
    if further := rows[_ROWS:]:
        table += f"<details><summary>{len(further)} more</summary>{sorted_table(head, further)}</details>"
    most = max((row.share for row in profile.rows), default=1.0) or 1.0
    for row in profile.rows:  # a bar in front of each share
        text = f"{row.share:.1%}</td>"
        width = 90 * row.share / most
        table = table.replace(f">{text}", f'><span class="bar" style="width:{width:.1f}px"></span> {text}', 1)
    return table


def _flame(profile: Profile) -> str:
    """Modules as boxes as wide as their share, those inside below."""
    rows = {row.key: row for row in profile.rows if not row.key.startswith("(")}
    inside: dict[str, list[str]] = {}
    for key in rows:
        if key:
            inside.setdefault(_parent(key, rows), []).append(key)
    boxes: list[str] = []
    deepest = 0

    def place(key: str, left: float, depth: int) -> None:
        nonlocal deepest
        deepest = max(deepest, depth)
        row, share = rows[key], rows[key].share
        hue = 18 + zlib.crc32(key.encode()) % 36
        text = f"{key or '(the model)'} {row.times.p50:.4g} {profile.unit} {share:.1%}"
        style = f"left:{100 * left:.3f}%;width:{100 * share:.3f}%;top:{22 * depth}px;background:hsl({hue} 85% 68%)"
        boxes.append(f'<div style="{style}" title="{escape(text, quote=True)}">{escape(text)}</div>')
        for one in inside.get(key, ()):
            place(one, left, depth + 1)
            left += rows[one].share

    left = 0.0
    for key in [""] if "" in rows else [one for one in rows if not _parent(one, rows)]:
        place(key, left, 0)
        left += rows[key].share
    return f'<div class="flame" style="height:{22 * (deepest + 1)}px">{"".join(boxes)}</div>'


def _parent(key: str, rows: dict[str, Any]) -> str:
    """The nearest module around one that has a row; "" for the model."""
    while "." in key:
        key = key.rpartition(".")[0]
        if key in rows:
            return key
    return ""


def _graph(graph: fx.Graph, events: Sequence[Event]) -> str:
    """The calls of the graph in levels, each as red as its share of the time."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    if not nodes or len(nodes) > _LARGEST:
        return f'<p class="soft">{len(nodes)} nodes: a picture has at most {_LARGEST}.</p>'
    times, parts = _times(events)
    level: dict[fx.Node, int] = {}
    columns: dict[int, int] = {}
    place: dict[fx.Node, tuple[int, int]] = {}
    for node in nodes:
        level[node] = 1 + max((level[one] for one in node.all_input_nodes if one in level), default=-1)
        column = columns.get(level[node], 0)
        columns[level[node]] = column + 1
        place[node] = (12 + column * (_WIDTH + _GAP), 12 + level[node] * (_HEIGHT + _GAP))
    most = max(times.values(), default=1.0) or 1.0
    marks = []
    boxes: dict[int, list[tuple[int, int]]] = {}
    for node in nodes:
        if node.name in parts:
            boxes.setdefault(parts[node.name], []).append(place[node])
    for found in boxes.values():
        left, top = min(x for x, _ in found) - 7, min(y for _, y in found) - 7
        right, low = max(x for x, _ in found) + _WIDTH + 7, max(y for _, y in found) + _HEIGHT + 7
        marks.append(f'<rect class="part" x="{left}" y="{top}" width="{right - left}" height="{low - top}" rx="8"/>')
    for node in nodes:
        x, y = place[node]
        for one in node.all_input_nodes:
            if one in place:
                left, low = place[one][0] + _WIDTH // 2, place[one][1] + _HEIGHT
                curve = f"M{left} {low} C{left} {low + 14} {x + _WIDTH // 2} {y - 14} {x + _WIDTH // 2} {y}"
                marks.append(f'<path class="edge" d="{curve}"/>')
    for node in nodes:
        x, y = place[node]
        time = times.get(node.name, 0.0)
        says = escape(f"{node.name}: {node.target}, {time:.4g}")
        at = f'x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"'
        called = node.target.__name__ if isinstance(node.target, BuiltinFunctionType) else str(node.target)
        label = called.removeprefix("aten.").removesuffix(".default")[:24]
        marks.append(f'<rect class="node" {at}/><rect class="heat" fill-opacity="{0.75 * time / most:.3f}" {at}>')
        marks.append(f"<title>{says}</title></rect>")
        marks.append(f'<text class="label" x="{x + 8}" y="{y + 17}" pointer-events="none">{escape(label)}</text>')
    width = 24 + max(columns.values()) * (_WIDTH + _GAP)
    height = 24 + (max(level.values()) + 1) * (_HEIGHT + _GAP)
    drawing = f'<svg width="{width}" height="{height}" role="img" aria-label="graph">{"".join(marks)}</svg>'
    return f'<div class="scroll">{drawing}</div>'


def _times(events: Sequence[Event]) -> tuple[dict[str, float], dict[str, int]]:
    """Node -> its share of the median time of its event, and the number of the delegate that it lies in."""
    times: dict[str, float] = {}
    parts: dict[str, int] = {}
    for event in events:
        for name in event.stack_traces:
            if event.perf_data is not None:
                times[name] = times.get(name, 0.0) + event.perf_data.p50 / len(event.stack_traces)
            if event.delegate_backend_name or event.name == "DELEGATE_CALL":
                parts[name] = event._instruction_id or 0
    return times, parts


def _memory(memory: MemoryReport) -> str:
    """Each arena: tensors as boxes from their first step to their last, at their bytes."""
    pictures = []
    for arena in memory.arenas:
        lives = [one for one in memory.lives if one.tensor.memory_id == arena.arena]
        steps = max(len(memory.steps), 1)
        marks = []
        for one in lives:
            x, width = 1000 * one.first / steps, max(1000 * (one.last - one.first + 1) / steps, 1.0)
            y = 300 * (1 - (one.tensor.memory_offset + one.tensor.size_bytes) / arena.nbytes)
            height = max(300 * one.tensor.size_bytes / arena.nbytes, 0.6)
            hue = zlib.crc32(one.tensor.fqn.encode()) % 360
            says = f"{one.tensor.name}: {nbytes_text(one.tensor.size_bytes)}, {one.tensor.op_name}, "
            says += f"{one.tensor.file_and_line_num} {one.tensor.fqn}, steps {one.first} to {one.last}"
            marks.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="hsl({hue} 55% 55%)" '
                f'fill-opacity=".75" stroke="var(--back)"><title>{escape(says)}</title></rect>'
            )
        at = 1000 * (arena.step + 0.5) / steps
        marks.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="300" stroke="var(--red)" stroke-width="2"/>')
        told = f"arena {arena.arena}: {nbytes_text(arena.nbytes)}; at the peak, step {arena.step} (red line), "
        told += f"{nbytes_text(arena.live_nbytes)} are in use"
        pictures.append(
            f'<p class="soft">{escape(told)}</p><div class="plan">'
            + _axis("bytes", [nbytes_text(arena.nbytes), nbytes_text(arena.nbytes // 2), "0"])
            + '<svg viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" aria-label="memory plan">'
            + f"{''.join(marks)}</svg>"
            + _axis("steps", ["step 0", f"step {steps // 2}", f"step {steps}"])
            + "</div>"
        )
    return "".join(pictures) or '<p class="soft">Nothing is planned.</p>'


def _axis(kind: str, texts: Sequence[str]) -> str:
    """Texts along one side of a plan, at equal distances: the drawing is stretched, and words must not be."""
    return f'<div class="axis {kind}">{"".join(f"<span>{escape(text)}</span>" for text in texts)}</div>'
