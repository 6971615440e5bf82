"""A quantization report as one self-contained HTML page: a chart in SVG and tables that sort by a click. No dependency.

>>> page_of(report, "MobileNetV2, int8")  # doctest: +SKIP
"""

from __future__ import annotations

import math
from html import escape

from executorch_py.devtools.page import bullets, frame, sorted_table
from executorch_py.devtools.page import cards as cards_of

from .rows import Difference, LayerRow, QuantizationRows, decibels, metric_figures, percent

__all__ = ["chart_parts", "page_of"]

_HEIGHT, _LEFT, _BELOW, _ABOVE = 260, 46, 24, 14  # of the chart, in pixels
_POOR, _FAIR = 15.0, 25.0  # dB: below them a bar is red, amber


def page_of(report: QuantizationRows, title: str) -> str:
    """The page's text."""
    quantized = sum(row.is_quantized for row in report.layers)
    cards = [("batches", str(report.num_batches)), ("layers compared", str(len(report.layers)))]
    cards.append(("of them quantized", str(quantized)))
    cards += [(f"metric, {row.of}", " ".join(metric_figures(row))) for row in report.metrics]
    cards += [
        (f"output {row.output}, {row.of}", f"{decibels(row.difference.sqnr_db)} dB") for row in report.outputs[:6]
    ]
    named = [(row, note) for row in report.rows for note in row.notes]
    parts = [
        f"<h1>{escape(title)}</h1>",
        '<p class="soft">Figures of the quantized model beside the float one, on the same data.</p>',
        cards_of(cards),
    ]
    if named or report.notes:
        lines = [*report.notes, *(f"{row.name} ({row.where or row.op}): {note}" for row, note in named)]
        parts += ["<h2>What to look at</h2>", *bullets(lines)]
    parts += ["<h2>Layers in the order of execution</h2>", _legend(), f'<div class="wide">{_chart(report)}</div>']
    parts += ["<h2>Outputs</h2>", _outputs(report)]
    parts += ["<h2>Layers, the one that loses most first</h2>", _layers(report)]
    parts += _leftovers(report)
    return frame(title, parts)


def chart_parts(report: QuantizationRows) -> list[str]:
    """The chart of errors by layer, for other pages."""
    return ["<h2>Quantization errors by layer</h2>", _legend(), f'<div class="wide">{_chart(report)}</div>']


def _legend() -> str:
    keys = (
        ("blue", f"alone, {_FAIR:.0f} dB and more"),
        ("amber", f"{_POOR:.0f} to {_FAIR:.0f} dB"),
        ("red", f"below {_POOR:.0f} dB"),
        ("net", "in the network (holds what the layers before lost)"),
    )
    return (
        '<p class="soft">Up: SQNR in dB, more is better. Along: the layer, by its # in the table.'
        + "".join(f'<span class="key" style="background: var(--{color})"></span>{escape(text)}' for color, text in keys)
        + "</p>"
    )


def chart_rows(report: QuantizationRows) -> list[LayerRow]:
    """What the charts show: layers in order, without those that nothing was lost in."""
    return [row for row in report.layers if row.is_quantized or math.isfinite(row.difference.sqnr_db)]


def _chart(report: QuantizationRows) -> str:
    rows = chart_rows(report)
    if not rows:
        return '<p class="soft">No layer lost anything.</p>'
    known = [row.difference.sqnr_db for row in rows] + [row.alone.sqnr_db for row in rows if row.alone]
    top = max([10.0, *(value for value in known if math.isfinite(value))])
    top = 10 * math.ceil(min(top, 120.0) / 10)
    step = max(8.0, min(36.0, 1200 / len(rows)))
    width = int(_LEFT + step * len(rows) + 12)
    inner = _HEIGHT - _BELOW - _ABOVE

    def y(value: float) -> float:
        share = min(max(value, 0.0), top) / top if math.isfinite(value) else (1.0 if value > 0 else 0.0)
        return round(_ABOVE + inner * (1 - share), 1)

    marks = []
    for value in range(0, int(top) + 1, 10 if top <= 60 else 20):
        marks.append(f'<line class="grid" x1="{_LEFT}" x2="{width - 6}" y1="{y(value)}" y2="{y(value)}"/>')
        marks.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value}</text>')
    line = []
    for index, row in enumerate(rows):
        x = round(_LEFT + step * (index + 0.5), 1)
        says = f"{row.name}\n{row.where}\nnetwork {decibels(row.difference.sqnr_db)} dB"
        if row.alone is not None:
            says += f"\nalone {decibels(row.alone.sqnr_db)} dB"
            band = "poor" if row.alone.sqnr_db < _POOR else "fair" if row.alone.sqnr_db < _FAIR else "good"
            bar = max(_ABOVE + inner - y(row.alone.sqnr_db), 2.0)
            marks.append(
                f'<rect class="{band}" x="{x - 0.36 * step:.1f}" y="{_ABOVE + inner - bar:.1f}" '
                f'width="{0.72 * step:.1f}" height="{bar:.1f}"><title>{escape(says)}</title></rect>'
            )
        if math.isfinite(row.difference.sqnr_db):
            line.append(f"{x},{y(row.difference.sqnr_db)}")
        if index % max(1, math.ceil(28 / step)) == 0:
            marks.append(f'<text x="{x}" y="{_HEIGHT - 8}" text-anchor="middle">{row.index}</text>')
    if line:
        marks.append(f'<polyline class="net" points="{" ".join(line)}"/>')
    return f'<svg width="{width}" height="{_HEIGHT}" role="img" aria-label="SQNR by layer">{"".join(marks)}</svg>'


def _number(value: float | None, text: str) -> tuple[str, object]:
    """Infinities sort at the ends; what is not known sorts last."""
    if value is None:
        return text, "1e999"
    return text, value if math.isfinite(value) else ("-1e999" if value < 0 else "1e999")


def _figures(difference: Difference) -> list[tuple[str, object]]:
    return [
        _number(difference.sqnr_db, decibels(difference.sqnr_db)),
        _number(difference.cosine, f"{difference.cosine:.6f}"),
        _number(difference.max_error, f"{difference.max_error:.2e}"),
        _number(difference.mean_error, f"{difference.mean_error:.2e}"),
    ]


_FIGURES = [("network dB", True), ("cosine", True), ("max error", True), ("mean error", True)]


def _outputs(report: QuantizationRows) -> str:
    head = [("output", False), ("of", False), ("SQNR dB", True), *_FIGURES[1:], ("note", False)]
    rows = [
        ("", [(row.output, row.output), (row.of, row.of), *_figures(row.difference), (row.note, row.note)])
        for row in report.outputs
    ]
    return sorted_table(head, rows)


def _layers(report: QuantizationRows) -> str:
    head = [("#", True), ("layer", False), ("operator", False), ("source", False), ("module", False)]
    head += [("weight", False), ("activation", False), ("float range", False)]
    head += [("alone dB", True), ("weight dB", True), ("activation dB", True), *_FIGURES]
    head += [("saturated", True), ("note", False)]
    rows = []
    for row in report.rows:
        alone = row.alone.sqnr_db if row.alone else None
        span = f"[{row.lowest:.3g}, {row.highest:.3g}]"
        texts = (row.name, row.op, row.source, row.module_path, str(row.weight or ""), str(row.activation or ""), span)
        cells: list[tuple[str, object]] = [(str(row.index), row.index), *((text, text) for text in texts)]
        cells += [_number(value, decibels(value)) for value in (alone, row.weight_sqnr_db, row.activation_sqnr_db)]
        cells += _figures(row.difference)
        cells.append((percent(row.saturated) if row.saturated else "", row.saturated))
        cells.append(("; ".join(row.notes), "; ".join(row.notes)))
        rows.append(("broken" if row.broken else "", cells))
    return sorted_table(head, rows)


def _leftovers(report: QuantizationRows) -> list[str]:
    parts: list[str] = []
    if report.unmatched:
        parts.append("<h2>Without counterpart in the other graph: not compared</h2>")
        parts += bullets(
            f"{item.graph}: {item.name} ({', '.join(filter(None, (item.op, item.module_path, item.source)))})"
            for item in report.unmatched
        )
    if report.folded:
        parts.append("<h2>Folded into another operator</h2>")
        parts += bullets(f"{name} into {into}" for name, into in report.folded.items())
    return parts
