"""A quantization report's chart as an image, drawn by matplotlib."""

from __future__ import annotations

import math
import os

from executorch_py.errors import NotSupportedError

from .page import chart_rows
from .rows import QuantizationRows

__all__ = ["plot_report"]


def plot_report(report: QuantizationRows, path: str | os.PathLike[str], title: str) -> None:
    """Writes bars (each layer alone) and a line (in the network) to an image.

    Raises:
        NotSupportedError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise NotSupportedError("a plot needs matplotlib: pip install matplotlib; to_html needs nothing") from None
    rows = chart_rows(report)
    figure = Figure(figsize=(min(max(7.0, 0.16 * len(rows)), 40.0), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    finite = [row.difference.sqnr_db for row in rows if math.isfinite(row.difference.sqnr_db)]
    finite += [row.alone.sqnr_db for row in rows if row.alone and math.isfinite(row.alone.sqnr_db)]
    top = max([10.0, *finite])
    bars = [(at, row.alone.sqnr_db) for at, row in enumerate(rows) if row.alone is not None]
    heights = [min(max(value, 0.0), top) for _, value in bars]
    colors = ["#cf3a32" if value < 15 else "#d88a10" if value < 25 else "#2f6fd6" for _, value in bars]
    axes.bar([at for at, _ in bars], heights, color=colors, width=0.72, label="alone")
    line = [(at, row.difference.sqnr_db) for at, row in enumerate(rows) if math.isfinite(row.difference.sqnr_db)]
    axes.plot([at for at, _ in line], [value for _, value in line], color="#111827", label="in the network")
    axes.set_ylabel("SQNR, dB (more is better)")
    axes.set_title(title)
    axes.set_xlim(-0.8, max(len(rows) - 0.2, 0.8))
    axes.set_ylim(min(0.0, *(value for _, value in line), 0.0), top * 1.05)
    every = max(1, math.ceil(len(rows) / 60))
    axes.set_xticks(range(0, len(rows), every), [row.name for row in rows[::every]], rotation=90, fontsize=7)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper right", ncols=2, fontsize=8)
    figure.savefig(path, dpi=140)
