"""The fastest quantized configuration that still holds a user's metric.

It starts fully quantized and, while the metric has dropped too far, puts layers back to float, in an order from a sweep
(layer_sweep.py). What gains most for its cost comes first, as many as are needed, found by bisection. Then layers that
turn out not to be needed go back to integers. Those that are left are also tried in other numbers than float32
(fallbacks.py). Configurations that hold are lowered and measured by the runtime; the fastest is given back, its metric
checked on the runtime itself.

>>> result = quantize_to_accuracy(  # doctest: +SKIP
...     model, example_inputs, "static_int8", calibration_data, metric=accuracy, max_drop=0.01, partitioner=[...]
... )
>>> print(result)  # doctest: +SKIP
>>> result.executorch_program.save("model.pte")  # doctest: +SKIP
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.devtools.quantization.batches import calls
from executorch_py.devtools.quantization.task_metric import Metric, measured
from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError
from executorch_py.graphs.modules import module_of
from executorch_py.lowering.edge import to_edge_transform_and_lower
from executorch_py.lowering.program import ExecutorchProgramManager
from executorch_py.module import Module, load
from executorch_py.text_table import aligned

from .candidates import Candidates
from .fallbacks import Fallback
from .layer_sweep import LayerSensitivity, SensitivityReport, data_to_measure, sweep

__all__ = ["AccuracyResult", "Step", "quantize_to_accuracy"]

#: What a layer may compute in that is not quantized as the rest.
FALLBACKS: tuple[Fallback, ...] = ("float32", "dynamic_int8", "int8_weight_only", "float16")
#: From an exported program to what ``to_executorch()`` gives.
Lower = Callable[[ExportedProgram], ExecutorchProgramManager]


@dataclass(frozen=True)
class Step:
    """One configuration that was tried.

    Attributes:
        what: Why: "all layers quantized", "first 5 layers in float", "without encoder.0 in float".
        float_layers: Layers that it leaves in float, or in what ``instead`` says.
        metric: Of the converted graph in eager PyTorch.
        holds: Whether that is within the permitted drop.
        integer_share: Share of the multiply-accumulates between integers, 0 to 1.
        runtime_metric: Of the lowered program; None where it was not run.
        latency_ms: Of one call of the lowered program on the example inputs, the median; None where it was not
            measured.
        nbytes: Size of the lowered program; None where it was not lowered.
        instead: What convolutions and linear layers among ``float_layers`` compute in: "float32", "dynamic_int8",
            "int8_weight_only", "float16".
    """

    what: str
    float_layers: tuple[str, ...]
    metric: float
    holds: bool
    integer_share: float
    runtime_metric: float | None = None
    latency_ms: float | None = None
    nbytes: int | None = None
    instead: Fallback = "float32"


@dataclass(frozen=True)
class AccuracyResult:
    """What :func:`quantize_to_accuracy` found; ``print`` it.

    Attributes:
        model: The chosen configuration, an ExportedProgram with q/dq nodes.
        executorch_program: It, lowered.
        float_layers: Layers that it leaves in float; ``float_filter`` makes a quantizer do the same.
        float_metric: Of the float model in eager PyTorch.
        limit: What the metric must not pass.
        higher_is_better: Of the metric.
        chosen: The chosen step.
        steps: Everything that was tried, in order.
        float_latency_ms: Of the lowered float model.
        float_nbytes: Size of the lowered float model.
        sensitivity: The sweep; None when everything could be quantized at once.
    """

    model: ExportedProgram
    executorch_program: ExecutorchProgramManager
    float_layers: tuple[str, ...]
    float_metric: float
    limit: float
    higher_is_better: bool
    chosen: Step
    steps: tuple[Step, ...]
    float_latency_ms: float
    float_nbytes: int
    sensitivity: SensitivityReport | None

    def __str__(self) -> str:
        sign = ">=" if self.higher_is_better else "<="
        head = ("configuration", "metric", "holds", "integer MACs", "runtime", "ms", "bytes", "")
        rows = [
            (
                "float",
                f"{self.float_metric:.6g}",
                "",
                "",
                "",
                f"{self.float_latency_ms:.3f}",
                f"{self.float_nbytes:,}",
                "",
            )
        ]
        for step in self.steps:
            rows.append(
                (
                    step.what,
                    f"{step.metric:.6g}",
                    "yes" if step.holds else "no",
                    f"{step.integer_share:.1%}",
                    f"{step.runtime_metric:.6g}" if step.runtime_metric is not None else "",
                    f"{step.latency_ms:.3f}" if step.latency_ms is not None else "",
                    f"{step.nbytes:,}" if step.nbytes is not None else "",
                    "chosen" if step is self.chosen else "",
                )
            )
        lines = [f"metric {sign} {self.limit:.6g}", *aligned(head, rows, right=(1, 3, 4, 5, 6))]
        if self.float_layers:
            lines.append(f"in {self.chosen.instead}: {', '.join(self.float_layers)}")
        chosen = self.chosen.latency_ms
        if chosen is not None and chosen > self.float_latency_ms:
            lines.append("the float model is faster here than every quantized configuration that holds")
        return "\n".join(lines)


@dataclass
class _Trial:
    """A configuration on its way to a Step."""

    what: str
    floats: frozenset[str]
    instead: Fallback
    metric: float
    holds: bool
    program: ExecutorchProgramManager | None = None
    module: Module | None = None
    runtime_metric: float | None = None
    times: list[float] = field(default_factory=list)

    @property
    def wider(self) -> frozenset[str]:
        """Layers whose weights have more bits than were requested."""
        return self.floats if self.instead == "int8_weight_only" else frozenset()


def quantize_to_accuracy(
    model: Any,
    example_inputs: tuple[Any, ...] = (),
    config_or_quantizer: Any = "static_int8",
    calibration_data: Iterable[Any] | None = None,
    *,
    metric: Metric,
    max_drop: float,
    relative: bool = False,
    higher_is_better: bool = True,
    data: Iterable[Any] | None = None,
    sweep_metric: bool = False,
    partitioner: Sequence[Any] | None = None,
    lower: Lower | None = None,
    groups: Mapping[str, str | Sequence[str]] | None = None,
    min_integer_share: float = 0.0,
    fallbacks: Sequence[Fallback] = FALLBACKS,
    transform: Callable[[Any], Any] | None = None,
    example_kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    progress: bool = False,
) -> AccuracyResult:
    """Quantizes as much of a model as a permitted drop of a metric allows.

    The metric is measured on the float model in eager PyTorch, on the converted graphs, and on the runtime for those
    that are lowered. It gets a callable with the model's arguments and result each time.

    Args:
        model: The float model in eval mode, or its exported program.
        example_inputs: As in :func:`executorch_py.quantizer.quantize`; latencies are measured on them.
        config_or_quantizer: As in ``quantize``: what is quantized, and how, at most.
        calibration_data: As in ``quantize``.
        metric: ``metric(callable_model)`` gives a number.
        max_drop: How much worse than the float model's the metric may become; a share of it when ``relative``.
        relative: 0.01 is one percent of the float model's metric.
        higher_is_better: False for losses and error rates.
        data: What the sweep compares outputs on; ``calibration_data`` by default.
        sweep_metric: Sweep by the metric instead of the SQNR of the outputs: slower, when the metric says more.
        partitioner: As in ``to_edge_transform_and_lower``: where the programs run that are measured.
        lower: Instead of ``partitioner``: from an ExportedProgram to what ``to_executorch()`` gives.
        groups: As in ``sensitivity``.
        min_integer_share: Share of the multiply-accumulates that must be between integers.
        fallbacks: What layers may compute in that are not quantized as the rest: "float32", "dynamic_int8",
            "int8_weight_only" (of layers whose weight has 4 bits), "float16". The fastest that holds is chosen: give
            ``["int8_weight_only"]`` where the file's size counts more.
        transform: As in ``quantize``; for ``data``, too.
        example_kwargs: As in ``quantize``.
        dynamic_shapes: As in ``quantize``.
        progress: Say on stderr what is tried.

    Returns:
        The fastest configuration that holds the metric, on the runtime as well.

    Raises:
        InvalidArgumentError: The float model's metric is NaN or infinite; ``max_drop`` is negative or NaN;
            ``min_integer_share`` is no share; an unknown fallback.
        InvalidTypeError: The metric gives no number.
        InvalidStateError: The drop cannot be held: not with every layer in float (the metric changes from call to call,
            or the exported model differs from the eager one), or not with ``min_integer_share``.
    """
    if not isinstance(max_drop, (int, float)) or not max_drop >= 0:
        raise InvalidArgumentError(f"max_drop is {max_drop!r}, must be a number of at least 0")
    if not isinstance(min_integer_share, (int, float)) or not 0 <= min_integer_share <= 1:
        raise InvalidArgumentError(f"min_integer_share is {min_integer_share!r}, must be a share from 0 to 1")
    if not callable(metric):
        raise InvalidTypeError(f"metric is {type(metric).__name__}, must be a function of a callable model")
    if not fallbacks or any(one not in FALLBACKS for one in fallbacks):
        raise InvalidArgumentError(
            f"fallbacks are {list(fallbacks)!r}, must be some of {', '.join(map(repr, FALLBACKS))}"
        )
    if not sweep_metric:
        data = data_to_measure(data, calibration_data)
    eager = module_of(model) if isinstance(model, ExportedProgram) else model
    exact = measured(metric, eager, "the float model")
    if not math.isfinite(exact):  # an infinite loss would permit everything
        what = "NaN" if math.isnan(exact) else "infinite"
        raise InvalidArgumentError(f"the float model's metric is {what}: there is no drop that could be held")
    drop = max_drop * abs(exact) if relative else max_drop
    limit = exact - drop if higher_is_better else exact + drop
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
    inputs = candidates.float_program.example_inputs or (example_inputs, example_kwargs or {})
    inputs = pytree.tree_map_only(torch.Tensor, torch.clone, inputs)  # programs that are timed may write to them
    search = _Search(candidates, metric, limit, higher_is_better, inputs, _lowering(lower, partitioner), progress)
    order: list[str] = []
    report: SensitivityReport | None = None
    if not search.tried((), "all layers quantized").holds:
        stream = calls(data, transform) if data is not None and not sweep_metric else None
        if stream is None and not sweep_metric:
            raise InvalidArgumentError("the sweep has nothing to compare outputs on: give data, or sweep_metric=True")
        report = sweep(
            candidates,
            stream,
            metric if sweep_metric else None,
            higher_is_better=higher_is_better,
            progress=progress,
        )
        order = _by_worth(report)
        search.explore(order, fallbacks)
    chosen = search.fastest(min_integer_share)
    return search.result(chosen, exact, report)


def _by_worth(report: SensitivityReport) -> list[str]:
    """Layers by what leaving them in float gains for what it costs: noise at the outputs over multiply-accumulates.

    An addition of large values loses much and costs nothing. A hundredth stands for what every operator costs.
    """

    def worth(row: LayerSensitivity) -> float:
        gained = max(row.loss, 0.0) if row.sqnr_db is None else 10 ** (-max(row.sqnr_db, -300.0) / 10)
        return gained / (row.macs / max(report.total_macs, 1) + 0.01)

    return [row.layer for row in sorted(report.rows, key=worth, reverse=True)]


def _lowering(lower: Lower | None, partitioner: Sequence[Any] | None) -> Lower:
    if lower is not None:
        return lower
    chosen = list(partitioner or ())
    return lambda program: to_edge_transform_and_lower(program, partitioner=chosen or None).to_executorch()


class _Search:
    """Tries configurations and remembers them."""

    def __init__(
        self,
        candidates: Candidates,
        metric: Metric,
        limit: float,
        higher_is_better: bool,
        inputs: tuple[tuple[Any, ...], dict[str, Any]],
        lower: Lower,
        progress: bool,
    ) -> None:
        self._candidates, self._metric, self._limit, self._higher = candidates, metric, limit, higher_is_better
        self._inputs, self._lower, self._progress = inputs, lower, progress
        self._trials: dict[tuple[frozenset[str], Fallback], _Trial] = {}
        self._fallbacks: list[Fallback] = []
        self._float_times: list[float] = []
        self._float_nbytes = 0

    def _share(self, trial: _Trial) -> float:
        return self._candidates.integer_share(trial.floats, trial.instead)

    def holds(self, value: float) -> bool:
        """NaN never does."""
        return value >= self._limit if self._higher else value <= self._limit

    def tried(self, floats: Collection[str], what: str, instead: Fallback = "float32") -> _Trial:
        """Measures a configuration's metric in eager PyTorch, once."""
        key = (frozenset(floats), instead if floats else "float32")
        if key not in self._trials:
            value = measured(self._metric, self._candidates.runnable(*key), what)
            self._trials[key] = _Trial(what, *key, value, self.holds(value))
            self._say(f"{what}: metric {value:.6g}, {'holds' if self._trials[key].holds else 'too low'}")
        return self._trials[key]

    def explore(self, order: list[str], fallbacks: Sequence[Fallback]) -> None:
        """For each fallback the fewest layers of the order that must have it."""
        whole = self.tried(order, "all layers in float32")
        if not whole.holds:
            raise InvalidStateError(
                f"the permitted drop cannot be held: with every layer in float the exported model's metric is "
                f"{whole.metric:.6g}, the limit is {self._limit:.6g}; does the metric change from call to call, or "
                "does torch.export change the model?"
            )
        needed: Sequence[str] = ()
        self._fallbacks = sorted(fallbacks, key=FALLBACKS.index)
        for instead in self._fallbacks:
            if needed and self._candidates.can_be(needed, instead):
                self.tried(needed, f"the same {len(needed)} layers in {instead}", instead)
            found = self._bisect(order, instead)
            needed = needed or found

    def _bisect(self, order: list[str], instead: Fallback) -> Sequence[str]:
        """The fewest layers of the order that hold with a fallback, then layers given back that are not needed."""
        total = len(order)
        high = total
        if instead != "float32":
            known = [len(t.floats) for t in self._trials.values() if t.holds and t.instead == instead]
            if known:  # as good as float32 on the layers that float32 needed: fewer would not do
                return ()
            if (
                not self._candidates.can_be(order, instead)
                or not self.tried(order, f"all layers in {instead}", instead).holds
            ):
                return ()
        low = 0  # does not hold, high does
        while high - low > 1:
            middle = (low + high) // 2
            if self.tried(order[:middle], f"first {middle} layers in {instead}", instead).holds:
                high = middle
            else:
                low = middle
        kept = list(order[:high])
        if high == total:
            return kept
        macs = {layer.name: layer.macs for layer in self._candidates.layers}
        # The last one was needed. Of the others, those that cost most are tried first.
        for name in sorted(kept[:-1], key=lambda name: -macs[name])[:_GIVEN_BACK]:
            without = [other for other in kept if other != name]
            what = f"{len(without)} layers in {instead}, {name} back in integers"
            if self.tried(without, what, instead).holds:
                kept = without
        return kept

    def fastest(self, min_share: float) -> _Trial:
        """The fastest configuration that holds, also on the runtime.

        Raises:
            InvalidStateError: None does.
        """
        everything = frozenset(self._candidates.names)
        holding = [
            trial
            for trial in self._trials.values()
            if trial.holds
            and (trial.floats != everything or trial.instead != "float32")
            and self._share(trial) >= min_share
        ]
        if not holding:
            raise InvalidStateError(self._why_nothing_holds(min_share))
        # Those with most in integers; a configuration that leaves more in float than another one has little to win by.
        # What has 8 bits instead of 4 is no faster or slower by the share of integer products: there those with most in
        # 4 bits.
        macs = {layer.name: layer.macs for layer in self._candidates.layers}
        holding.sort(key=lambda trial: (-self._share(trial), sum(macs[name] for name in trial.wider), len(trial.wider)))
        measured_here: list[_Trial] = []
        for trial in holding:
            if sum(other.instead == trial.instead for other in measured_here) == _MEASURED:
                continue
            self._say(f"lowering: {trial.what}")
            trial.program = self._lower(self._candidates.program(trial.floats, trial.instead))
            trial.module = load(trial.program.buffer)
            trial.runtime_metric = measured(self._metric, trial.module, f"{trial.what}, on the runtime")
            if self.holds(trial.runtime_metric):
                measured_here.append(trial)
        if not measured_here:
            worst = ", ".join(f"{trial.runtime_metric:.6g}" for trial in holding[:5])
            raise InvalidStateError(
                f"configurations hold in eager PyTorch but not on the runtime: there the metric is {worst}, the limit "
                f"is {self._limit:.6g}; et.validate compares a program with its model"
            )
        self._measure(measured_here)
        return min(measured_here, key=lambda trial: statistics.median(trial.times))

    def _why_nothing_holds(self, min_share: float) -> str:
        best = max((self._share(trial) for trial in self._trials.values() if trial.holds), default=0.0)
        if min_share and best > 0:
            return (
                f"the permitted drop cannot be held with {min_share:.0%} of the multiply-accumulates in integers; it "
                f"holds with {best:.1%}"
            )
        if self._fallbacks and "float32" not in self._fallbacks:
            names = self._candidates.names
            idle = [one for one in self._fallbacks if not self._candidates.can_be(names, one)]
            why = f" ({', '.join(idle)}: fits none of the layers)" if idle else ""
            return (
                f"the permitted drop cannot be held with {', '.join(self._fallbacks)} for single layers{why}: permit "
                "float32 among the fallbacks, or a larger drop"
            )
        return (
            "the permitted drop is held only with every layer in float: choose a larger drop or another configuration"
        )

    def _measure(self, trials: list[_Trial]) -> None:
        """Latencies, taking turns, so that what else the machine does falls on all of them alike."""
        floats = self._lower(self._candidates.float_program)
        self._float_nbytes = len(floats.buffer)
        args, kwargs = self._inputs
        runs: list[tuple[Module, list[float]]] = [(load(floats.buffer), self._float_times)]
        runs += [(trial.module, trial.times) for trial in trials if trial.module is not None]
        started = time.perf_counter()
        for turn in range(_TURNS + 1):
            for module, times in runs:
                before = time.perf_counter()
                module(*args, **kwargs)
                if turn:  # the first one warms up
                    times.append(1e3 * (time.perf_counter() - before))
            if turn >= 5 and time.perf_counter() - started > _SECONDS * len(runs):
                break

    def result(self, chosen: _Trial, exact: float, report: SensitivityReport | None) -> AccuracyResult:
        """Everything, for the caller."""
        steps = {
            key: Step(
                what=trial.what,
                float_layers=tuple(name for name in self._candidates.names if name in trial.floats),
                metric=trial.metric,
                holds=trial.holds,
                integer_share=self._share(trial),
                runtime_metric=trial.runtime_metric,
                latency_ms=statistics.median(trial.times) if trial.times else None,
                nbytes=len(trial.program.buffer) if trial.program is not None else None,
                instead=trial.instead,
            )
            for key, trial in self._trials.items()
        }
        step = steps[chosen.floats, chosen.instead]
        assert chosen.program is not None
        return AccuracyResult(
            model=self._candidates.program(chosen.floats, chosen.instead),
            executorch_program=chosen.program,
            float_layers=step.float_layers,
            float_metric=exact,
            limit=self._limit,
            higher_is_better=self._higher,
            chosen=step,
            steps=tuple(steps.values()),
            float_latency_ms=statistics.median(self._float_times),
            float_nbytes=self._float_nbytes,
            sensitivity=report,
        )

    def _say(self, text: str) -> None:
        if self._progress:
            print(f"accuracy control: {text}", file=sys.stderr, flush=True)


_GIVEN_BACK = 12  # layers that are tried in integers again after the bisection
_MEASURED = 3  # configurations of a fallback whose latency is measured
_TURNS = 40
_SECONDS = 0.5  # for each of them
