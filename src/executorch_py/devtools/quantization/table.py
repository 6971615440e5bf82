"""QuantizationReport: what quantization does to each layer and output, as data and as text. Needs neither torch nor numpy.

report.py makes it; ``print`` it, or read ``rows``, ``outputs`` and ``unmatched``:

16 batches; 21 layers compared, 14 of them quantized

output  of         SQNR dB    cosine  max error  mean error
0       converted     32.1  0.999873   1.19e-01    2.98e-02

layers, the one that loses most first
  layer   source       module  weight            activation           alone dB  …  note
  conv2d  model.py:12  conv    int8 per channel  int8 [-2.1, 3.4]         18.3  …  output saturated: 4.2 % of the values
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass, field
from typing import Any

from executorch_py.devtools.text_table import aligned

__all__ = [
    "Difference",
    "LayerRow",
    "MetricRow",
    "OutputRow",
    "Quantization",
    "QuantizationReport",
    "Unmatched",
    "metric_figures",
]

#: Operators without counterpart that the summary names, of each graph; ``unmatched`` has all.
_NAMED = 12


@dataclass(frozen=True)
class Difference:
    """How far values are from the float model's, over all data.

    Attributes:
        sqnr_db: Signal to quantization noise ratio, ``10 log10(sum expected^2 / sum error^2)``; infinite when equal.
        cosine: Cosine of the angle between both, taken as vectors.
        max_error: Largest absolute error.
        mean_error: Mean absolute error.
        relative_error: ``max_error`` divided by the largest absolute expected value.
        num_elements: How many values were compared.
    """

    sqnr_db: float
    cosine: float
    max_error: float
    mean_error: float
    relative_error: float
    num_elements: int = 0


@dataclass(frozen=True)
class Quantization:
    """To what a tensor is quantized.

    Attributes:
        dtype: "int8", "uint8", "int16", "int4" ….
        granularity: "per tensor", "per channel", "per group of 32", "per token".
        dynamic: Parameters are computed at run time; scales and limits are None then.
        smallest_scale: Smallest scale of all channels or groups.
        largest_scale: Largest one.
        low: Smallest value that can be represented.
        high: Largest value that can be represented.
        quant_min: Smallest integer.
        quant_max: Largest integer.
    """

    dtype: str
    granularity: str
    dynamic: bool = False
    smallest_scale: float | None = None
    largest_scale: float | None = None
    low: float | None = None
    high: float | None = None
    quant_min: int = -128
    quant_max: int = 127

    def __str__(self) -> str:
        if self.dynamic:
            return f"{self.dtype} {self.granularity}, dynamic"
        if self.granularity == "per tensor" and self.low is not None and self.high is not None:
            return f"{self.dtype} [{self.low:.3g}, {self.high:.3g}]"
        return f"{self.dtype} {self.granularity}"


@dataclass(frozen=True)
class LayerRow:
    """One operator of the quantized graph beside its counterpart in the float one.

    Attributes:
        index: Its place in the order of execution.
        name: Name of the fx node in the quantized graph.
        op: "conv2d"; "input" for an input that is quantized.
        source: "model.py:12", empty when it is not known.
        module_path: Path of the module that it comes from.
        weight: Of its constant operand, when that is quantized.
        activation: Of its result (static), or of its operand when that is quantized at run time.
        difference: Of its result in the running network; holds what all layers before lost.
        alone: Of its result when it gets the float model's operands: what this layer itself loses. None when nothing of
            it is quantized, or when it could not be run alone (``notes`` says so).
        weight_sqnr_db: ``alone``, with nothing but its weight quantized; None without a quantized weight.
        activation_sqnr_db: ``alone``, with nothing but its activation quantized; None without one.
        lowest: Smallest value that the float model's result has on the data.
        highest: Largest one.
        saturated: Share of the float model's values that lie outside of what the result's integers can represent, 0 to 1.
        network_saturated: The same of the values in the running quantized network.
        weight_saturated: The same of the weight; None when the float weight is not known.
        notes: What is wrong in words: saturation, constants, NaN.
        broken: Whether the result is useless whatever its figures: NaN, or a constant where the float model has none.
    """

    index: int
    name: str
    op: str
    source: str
    module_path: str
    weight: Quantization | None
    activation: Quantization | None
    difference: Difference
    alone: Difference | None
    weight_sqnr_db: float | None = None
    activation_sqnr_db: float | None = None
    lowest: float = math.inf
    highest: float = -math.inf
    saturated: float = 0.0
    network_saturated: float = 0.0
    weight_saturated: float | None = None
    notes: tuple[str, ...] = ()
    broken: bool = False

    @property
    def is_quantized(self) -> bool:
        """Whether its weight, its result or its operand is."""
        return self.weight is not None or self.activation is not None

    @property
    def where(self) -> str:
        """Such as "features.0, model.py:12", as far as it is known."""
        return ", ".join(part for part in (self.module_path, self.source) if part)


@dataclass(frozen=True)
class OutputRow:
    """One output of the model.

    Attributes:
        output: Its place in the model's result: ``0``, ``['logits']``.
        of: ``converted`` (the quantized graph beside the float one), ``runtime`` (the program beside the float graph) or
            ``runtime to converted``.
        difference: Over all data.
        note: What the figures do not say: NaN, other shapes, share of equal integers.
    """

    output: str
    of: str
    difference: Difference
    note: str = ""


@dataclass(frozen=True)
class MetricRow:
    """What a metric of the user's own gave for one form of the model.

    Attributes:
        of: ``float``, ``converted`` (the quantized graph in eager PyTorch) or ``runtime`` (the program).
        value: The metric's number.
        change: Difference to the float model's.
    """

    of: str
    value: float
    change: float


@dataclass(frozen=True)
class Unmatched:
    """A node that has no counterpart.

    Attributes:
        graph: ``float`` or ``quantized``: where the node is.
        name: Name of the fx node.
        op: "conv2d".
        source: "model.py:12".
        module_path: Path of its module.
    """

    graph: str
    name: str
    op: str
    source: str
    module_path: str


@dataclass(frozen=True)
class QuantizationReport:
    """What :func:`et.quantization_report` found. ``print`` it, or read it as data.

    Attributes:
        layers: Every compared operator, in order of execution.
        outputs: A line for each output.
        unmatched: Operators without a counterpart in the other graph: no figures exist for them.
        num_batches: How many sets of inputs were run.
        folded: Float operators that became part of another: name -> name of that one (batch norms).
        notes: What holds for the whole report.
        metrics: Of the user's metric, before and after; empty without one.
    """

    layers: tuple[LayerRow, ...]
    outputs: tuple[OutputRow, ...]
    unmatched: tuple[Unmatched, ...] = ()
    num_batches: int = 1
    folded: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    metrics: tuple[MetricRow, ...] = ()

    @property
    def rows(self) -> list[LayerRow]:
        """The layers, the one that loses most first: broken ones, then by what a layer alone loses."""
        return sorted(self.layers, key=_loss_order)

    def worst(self, count: int = 5) -> list[LayerRow]:
        """The first ``count`` quantized layers of :attr:`rows`."""
        return [row for row in self.rows if row.is_quantized][:count]

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
        """Everything as plain data; ``rows`` in the order of :attr:`rows`. Infinities become None, so that it is JSON."""
        plain = dataclasses.asdict(self)
        plain["layers"] = [dataclasses.asdict(row) for row in self.rows]
        return _finite(plain)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`as_dict` to a file."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.as_dict(), file, indent=1)

    def to_html(self, path: str | os.PathLike[str], title: str = "Quantization report") -> None:
        """Writes one self-contained page: a chart and tables that can be sorted. Needs nothing that is not installed."""
        from .page import page_of

        with open(path, "w", encoding="utf-8") as file:
            file.write(page_of(self, title))

    def plot(self, path: str | os.PathLike[str], title: str = "SQNR by layer") -> None:
        """Writes the chart as an image (the ending says which kind) with matplotlib.

        Raises:
            NotSupportedError: matplotlib is not installed.
        """
        from .plot import plot_report

        plot_report(self, path, title)


def _loss_order(row: LayerRow) -> tuple[int, float, int]:
    if row.broken:
        return (0, -math.inf, row.index)
    rank = 1 if row.alone is not None else 2 if row.is_quantized else 3
    figure = (row.alone or row.difference).sqnr_db
    return (rank, math.inf if math.isnan(figure) else figure, row.index)  # NaN: nothing was compared


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


def metric_figures(row: MetricRow) -> tuple[str, str]:
    """The value and its change as texts, "" for the float model's change."""
    return f"{row.value:.6g}", "" if row.of == "float" else f"{row.change:+.3g}"


def decibels(value: float | None) -> str:
    """A text such as "32.1"; empty for None."""
    return "" if value is None else f"{value:.1f}"


def percent(share: float) -> str:
    """A text such as "4.2 %"; shares that would round to nothing are "<0.1 %"."""
    return f"{100 * share:.1f} %" if share >= 0.0005 else "<0.1 %"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
