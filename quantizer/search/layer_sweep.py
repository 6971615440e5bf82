"""Which layers lose most when they are quantized: the sweep that hybrid configurations are made from.

>>> report = sensitivity(model, example_inputs, "static_int8", calibration_data)  # doctest: +SKIP
>>> print(report)  # doctest: +SKIP
>>> names = report.most_sensitive(3)  # doctest: +SKIP
>>> quantizer = XNNPACKQuantizer().set_global("static_int8").set_filter_function(float_filter(names))  # doctest: +SKIP
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils import _pytree

from executorch_py.devtools.quantization.batches import calls
from executorch_py.devtools.quantization.difference import RunningDifference
from executorch_py.devtools.quantization.task_metric import Metric, measured
from executorch_py.errors import InvalidArgumentError
from executorch_py.graphs.state import State
from executorch_py.text_table import aligned

from .candidates import Candidates, Layer

__all__ = ["LayerSensitivity", "SensitivityReport", "sensitivity", "sweep"]

Mode = Literal["only", "without"]


@dataclass(frozen=True)
class LayerSensitivity:
    """One line of the sweep.

    Attributes:
        layer: Its name, as ``float_filter`` and ``Candidates`` take it.
        operators: "conv2d, relu".
        source: "model.py:12".
        macs: Multiply-accumulates of one call.
        sqnr_db: Of the model's outputs with this layer alone quantized (mode ``only``), or all but it (``without``);
            None when a metric was measured instead.
        metric: What the metric gave for that model; None without one.
        loss: What the list is sorted by, larger is worse: dB below 100 dB (only), dB gained by leaving the layer in
            float (without), or metric lost to the float model (gained, without).
    """

    layer: str
    operators: str
    source: str
    macs: int
    sqnr_db: float | None
    metric: float | None
    loss: float


@dataclass(frozen=True)
class SensitivityReport:
    """What :func:`sensitivity` found; ``print`` it.

    Attributes:
        rows: The layers, the most sensitive first.
        mode: ``only``: each layer alone was quantized; ``without``: all but it.
        quantized_sqnr_db: Of the outputs with everything quantized; None when a metric was measured.
        quantized_metric: The metric with everything quantized; None without one.
        float_metric: The metric of the float model; None without one.
        total_macs: Multiply-accumulates of one call.
    """

    rows: tuple[LayerSensitivity, ...]
    mode: Mode
    quantized_sqnr_db: float | None
    quantized_metric: float | None
    float_metric: float | None
    total_macs: int

    def most_sensitive(self, count: int) -> list[str]:
        """Names of the first ``count`` layers: what a hybrid configuration leaves in float."""
        return [row.layer for row in self.rows[:count]]

    def below(self, sqnr_db: float) -> list[str]:
        """Names of the layers with an SQNR below ``sqnr_db``.

        Raises:
            InvalidArgumentError: The sweep measured a metric.
        """
        if any(row.sqnr_db is None for row in self.rows):
            raise InvalidArgumentError("the sweep measured a metric, not SQNR: choose by most_sensitive()")
        return [row.layer for row in self.rows if row.sqnr_db is not None and row.sqnr_db < sqnr_db]

    def __str__(self) -> str:
        measured = "metric" if self.float_metric is not None else "SQNR dB"
        what = "quantized alone" if self.mode == "only" else "left in float, the rest quantized"
        first = f"{len(self.rows)} layers, each {what}; the most sensitive first"
        if self.float_metric is not None:
            first += f"; float {self.float_metric:.6g}, all quantized {self.quantized_metric:.6g}"
        elif self.quantized_sqnr_db is not None:
            first += f"; all quantized {self.quantized_sqnr_db:.1f} dB"
        head = ("layer", "operators", "source", "MACs", measured, "loss")
        cells = []
        for row in self.rows:
            value = f"{row.metric:.6g}" if row.metric is not None else f"{row.sqnr_db:.1f}"
            share = f"{row.macs / self.total_macs:.1%}" if self.total_macs else ""
            cells.append((row.layer, row.operators, row.source, share, value, f"{row.loss:.4g}"))
        return "\n".join([first, *aligned(head, cells, right=(3, 4, 5))])


def data_to_measure(data: Iterable[Any] | None, calibration_data: Iterable[Any] | None) -> Iterable[Any] | None:
    """``data``; without it the calibration data, which is read a second time then."""
    if data is None and calibration_data is not None and iter(calibration_data) is calibration_data:
        raise InvalidArgumentError("calibration_data can be read once only: give data as well, or a list")
    return calibration_data if data is None else data


def sensitivity(
    model: Any,
    example_inputs: tuple[Any, ...] = (),
    config_or_quantizer: Any = "static_int8",
    calibration_data: Iterable[Any] | None = None,
    *,
    data: Iterable[Any] | None = None,
    metric: Metric | None = None,
    higher_is_better: bool = True,
    mode: Mode = "only",
    layers: Sequence[str] | None = None,
    groups: Mapping[str, str | Sequence[str]] | None = None,
    transform: Callable[[Any], Any] | None = None,
    example_kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    progress: bool = False,
) -> SensitivityReport:
    """Quantizes one layer at a time (or all but one) and measures what the outputs, or a metric, lose.

    The model is calibrated once; data is read once, whatever the number of layers.

    Args:
        model: The float model in eval mode, or its exported program.
        example_inputs: As in :func:`executorch_py.quantizer.quantize`.
        config_or_quantizer: As in ``quantize``: what the layers are quantized with.
        calibration_data: As in ``quantize``.
        data: What the outputs are compared on; ``calibration_data`` by default.
        metric: Gets a callable model and gives a number; measured for each layer instead of SQNR. It has its own data.
        higher_is_better: Of the metric.
        mode: ``only`` quantizes one layer at a time, ``without`` all but one.
        layers: Layers to try; all by default.
        groups: Name -> patterns of layer names that are tried as one.
        transform: Makes the model's inputs of an item of ``calibration_data`` and ``data``.
        example_kwargs: As in ``quantize``.
        dynamic_shapes: As in ``quantize``.
        progress: Show on stderr how far it is.

    Raises:
        InvalidArgumentError: No data; a name that is no layer; the float model's metric is NaN.
        InvalidTypeError: The metric gives no number.
    """
    if mode not in ("only", "without"):
        raise InvalidArgumentError(f"mode is {mode!r}, must be 'only' or 'without'")
    if metric is None:
        data = data_to_measure(data, calibration_data)
        if data is None:
            raise InvalidArgumentError("there is nothing to measure on: give data, calibration_data or a metric")
    candidates = Candidates.of(
        model,
        example_inputs,
        config_or_quantizer,
        calibration_data,
        example_kwargs=example_kwargs,
        dynamic_shapes=dynamic_shapes,
        transform=transform,
        groups=groups,
        progress=progress,
    )
    stream = calls(data, transform) if data is not None and metric is None else None
    return sweep(
        candidates, stream, metric, higher_is_better=higher_is_better, mode=mode, layers=layers, progress=progress
    )


def sweep(
    candidates: Candidates,
    data: Iterator[tuple[tuple[Any, ...], dict[str, Any]]] | None,
    metric: Metric | None = None,
    *,
    higher_is_better: bool = True,
    mode: Mode = "only",
    layers: Sequence[str] | None = None,
    progress: bool = False,
) -> SensitivityReport:
    """:func:`sensitivity` of a model that is quantized already; ``data`` are positional and keyword arguments of
    calls.
    """
    chosen = _chosen(candidates, layers)
    names = set(candidates.names)
    variants = [names - {layer.name} if mode == "only" else {layer.name} for layer in chosen]
    if metric is not None:
        return _by_metric(candidates, chosen, variants, metric, higher_is_better, mode, progress)
    assert data is not None
    reference = candidates.runnable(names)
    modules = [candidates.runnable(()), *(candidates.runnable(floats) for floats in variants)]
    sums: list[dict[int, RunningDifference]] = [{} for _ in modules]
    show = _Progress(len(modules), progress)
    states = [State(module) for module in (reference, *modules)]
    with torch.no_grad():
        for args, kwargs in data:
            for state in states:
                state.restore()
            expected = _leaves(reference(*_clones(args), **_clones(kwargs)))
            for module, differences in zip(modules, sums, strict=True):
                actual = _leaves(module(*_clones(args), **_clones(kwargs)))
                for index, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
                    differences.setdefault(index, RunningDifference()).update(ours, theirs)
                show.step()
    show.done()
    figures = [_combined(differences) for differences in sums]
    rows = [
        LayerSensitivity(
            layer.name, layer.operators, layer.source, layer.macs, value, None, _loss(value, figures[0], mode)
        )
        for layer, value in zip(chosen, figures[1:], strict=True)
    ]
    return SensitivityReport(_sorted(rows), mode, figures[0], None, None, candidates.total_macs)


def _by_metric(
    candidates: Candidates,
    chosen: list[Layer],
    variants: list[set[str]],
    metric: Metric,
    higher_is_better: bool,
    mode: Mode,
    progress: bool,
) -> SensitivityReport:
    exact = measured(metric, candidates.runnable(candidates.names), "the float model")
    if math.isnan(exact):
        raise InvalidArgumentError("the float model's metric is NaN: there is nothing that quantization could lose")
    everything = measured(metric, candidates.runnable(()), "the quantized model")
    sign = 1.0 if higher_is_better else -1.0
    show = _Progress(len(chosen), progress)
    rows = []
    for layer, floats in zip(chosen, variants, strict=True):
        value = measured(metric, candidates.runnable(floats), f"the model with {layer.name} {mode} quantized")
        lost = sign * (exact - value) if mode == "only" else sign * (value - everything)
        lost = math.inf if math.isnan(lost) else lost
        rows.append(LayerSensitivity(layer.name, layer.operators, layer.source, layer.macs, None, value, lost))
        show.step()
    show.done()
    return SensitivityReport(_sorted(rows), mode, None, everything, exact, candidates.total_macs)


def _chosen(candidates: Candidates, layers: Sequence[str] | None) -> list[Layer]:
    known = {layer.name: layer for layer in candidates.layers}
    if layers is None:
        return candidates.layers
    unknown = [name for name in layers if name not in known]
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]!r} is no layer of the model; layers are {', '.join(list(known)[:20])}, …"
        )
    return [known[name] for name in layers]


def _sorted(rows: list[LayerSensitivity]) -> tuple[LayerSensitivity, ...]:
    return tuple(sorted(rows, key=lambda row: -row.loss))


def _loss(value: float, everything: float, mode: Mode) -> float:
    """Larger is worse, and finite where it can be, so that it sorts."""
    if mode == "only":
        return max(100.0 - value, 0.0) if not math.isinf(value) or value < 0 else 0.0
    return value - everything if math.isfinite(value) and math.isfinite(everything) else math.inf


def _combined(differences: Mapping[int, RunningDifference]) -> float:
    """SQNR over all outputs: mean of their shares of noise, so that large outputs do not drown small ones."""
    shares = []
    for sums in differences.values():
        if sums.not_finite[0] > sums.not_finite[1]:
            return -math.inf
        noise, signal = sums.sums
        if signal > 0 or noise > 0:
            shares.append(noise / signal if signal > 0 else math.inf)
    mean = sum(shares) / len(shares) if shares else 0.0
    if mean == 0:
        return math.inf
    return -10 * math.log10(mean) if math.isfinite(mean) else -math.inf


def _leaves(result: Any) -> list[torch.Tensor]:
    """Tensors of floats; where there is none (a model that gives class numbers), of integers."""
    tensors = [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    floats = [leaf for leaf in tensors if leaf.is_floating_point()]
    return floats or tensors


def _clones(tree: Any) -> Any:
    return _pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


class _Progress:
    """One line on stderr."""

    def __init__(self, total: int, is_shown: bool) -> None:
        self._total, self._count, self._is_shown = total, 0, is_shown
        self._started = time.monotonic()

    def step(self) -> None:
        self._count += 1
        if self._is_shown:
            batch, place = divmod(self._count - 1, self._total)
            seconds = time.monotonic() - self._started
            text = f"\rsensitivity: batch {batch + 1}, {place + 1} of {self._total}, {seconds:.0f} s"
            print(text, end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        if self._is_shown and self._count:
            print(file=sys.stderr)
