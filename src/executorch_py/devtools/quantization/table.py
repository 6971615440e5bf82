"""QuantizationReport: what quantization does to each layer and output, as data and as text. Needs neither torch nor
numpy.

report.py makes it; ``print`` it, or read ``rows``, ``outputs`` and ``unmatched``:

16 batches; 21 layers compared, 14 of them quantized

output  of         SQNR dB    cosine  max error  mean error
0       converted     32.1  0.999873   1.19e-01    2.98e-02

layers, the one that loses most first
  layer   source       module  weight            activation           alone dB  …  note
  conv2d  model.py:12  conv    int8 per channel  int8 [-2.1, 3.4]  18.3  …  output saturated: 4.2 % of the values
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from typing import Any

from executorch_py._shown import Told
from executorch_py.text_table import aligned

from .page import page_of
from .plot import plot_report
from .rows import Difference, LayerRow, QuantizationRows, decibels, metric_figures, percent

__all__ = ["QuantizationReport"]

#: Operators without counterpart that the summary names, of each graph; ``unmatched`` has all.
_NAMED = 12


@dataclass(frozen=True, repr=False)
class QuantizationReport(Told, QuantizationRows):
    """What :func:`et.quantization_report` found. ``print`` it, or read it as data."""

    def summary(self) -> str:
        """A few lines: how much was compared, what is wrong, what has no counterpart."""
        quantized = sum(row.is_quantized for row in self.layers)
        batches = f"{self.num_batches} batch{'' if self.num_batches == 1 else 'es'}"
        lines = [f"{batches}; {len(self.layers)} layers compared, {quantized} of them quantized", *self.notes]
        for row in self.rows:
            lines.extend(f"{row.name} ({row.where or row.op}): {note}" for note in row.notes)
        for graph in ("float", "quantized"):
            names = [row.name for row in self.unmatched if row.graph == graph]
            if names:
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                lines.append(f"without counterpart in the other graph, {graph}: {', '.join(names[:_NAMED])}{more}")
        return "\n".join(lines)

    def table(self, limit: int | None = None) -> str:
        """Outputs and layers as text.

        Args:
            limit: How many layers at most; all by default.
        """
        head = ("output", "of", "SQNR dB", "cosine", "max error", "mean error", "")
        cells = [(row.output, row.of, *_figures(row.difference), row.note) for row in self.outputs]
        lines = aligned(head, cells, right=range(2, 6), indent="")
        if self.metrics:
            values = [(row.of, *metric_figures(row)) for row in self.metrics]
            lines = [*aligned(("model", "metric", "change"), values, right=(1, 2), indent=""), "", *lines]
        rows = self.rows[:limit]
        lines += ["", "layers, the one that loses most first"]
        lines += aligned(_HEAD, [_cells(row) for row in rows], right=range(5, 13))
        if len(rows) < len(self.layers):
            lines.append(f"  … and {len(self.layers) - len(rows)} more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.summary()}\n\n{self.table()}"

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data; ``rows`` in the order of :attr:`rows`.

        Infinities become None, so that it is JSON.
        """
        plain = dataclasses.asdict(self)
        plain["layers"] = [dataclasses.asdict(row) for row in self.rows]
        return _finite(plain)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`as_dict` to a file."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.as_dict(), file, indent=1)

    def to_html(self, path: str | os.PathLike[str], title: str = "Quantization report") -> None:
        """Writes one self-contained page: a chart and tables that can be sorted.

        Needs nothing that is not installed.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(page_of(self, title))

    def plot(self, path: str | os.PathLike[str], title: str = "SQNR by layer") -> None:
        """Writes the chart as an image (the ending says which kind) with matplotlib.

        Raises:
            NotSupportedError: matplotlib is not installed.
        """
        plot_report(self, path, title)


_HEAD = (
    "layer",
    "source",
    "module",
    "weight",
    "activation",
    "alone dB",
    "weight dB",
    "activ. dB",
    "network dB",
    "cosine",
    "max error",
    "mean error",
    "saturated",
    "note",
)


def _cells(row: LayerRow) -> tuple[str, ...]:
    alone = row.alone.sqnr_db if row.alone else None
    sqnr, *rest = _figures(row.difference)
    return (
        row.name,
        row.source,
        row.module_path,
        str(row.weight or ""),
        str(row.activation or ""),
        decibels(alone),
        decibels(row.weight_sqnr_db),
        decibels(row.activation_sqnr_db),
        sqnr,
        *rest,
        percent(row.saturated) if row.saturated else "",
        "; ".join(row.notes),
    )


def _figures(difference: Difference) -> tuple[str, str, str, str]:
    return (
        decibels(difference.sqnr_db),
        f"{difference.cosine:.6f}",
        f"{difference.max_error:.2e}",
        f"{difference.mean_error:.2e}",
    )


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
