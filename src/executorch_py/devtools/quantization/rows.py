"""The rows of a quantization report: what was measured of each layer and output. Needs neither torch nor numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from executorch_py.graphs.quantization import Quantization

__all__ = [
    "Difference",
    "LayerRow",
    "MetricRow",
    "OutputRow",
    "QuantizationRows",
    "Unmatched",
    "decibels",
    "metric_figures",
    "percent",
]


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
        saturated: Share of the float model's values that lie outside of what the result's integers can represent, 0 to
            1.
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
        of: ``converted`` (the quantized graph beside the float one), ``runtime`` (the program beside the float graph)
            or ``runtime to converted``.
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
class QuantizationRows:
    """What :func:`et.quantization_report` found, as data.

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


def _loss_order(row: LayerRow) -> tuple[int, float, int]:
    if row.broken:
        return (0, -math.inf, row.index)
    rank = 1 if row.alone is not None else 2 if row.is_quantized else 3
    figure = (row.alone or row.difference).sqnr_db
    return (rank, math.inf if math.isnan(figure) else figure, row.index)  # NaN: nothing was compared


def metric_figures(row: MetricRow) -> tuple[str, str]:
    """The value and its change as texts, "" for the float model's change."""
    return f"{row.value:.6g}", "" if row.of == "float" else f"{row.change:+.3g}"


def decibels(value: float | None) -> str:
    """A text such as "32.1"; empty for None."""
    return "" if value is None else f"{value:.1f}"


def percent(share: float) -> str:
    """A text such as "4.2 %"; shares that would round to nothing are "<0.1 %"."""
    return f"{100 * share:.1f} %" if share >= 0.0005 else "<0.1 %"
