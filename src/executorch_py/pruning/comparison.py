"""``report``: what pruning has changed, in figures: parameters, zeros, MACs, bytes, time, and the caller's metric.

>>> print(report(model, pruned, (image,), metric=accuracy))  # doctest: +SKIP
                        before      after   after / before
parameters               44426      11402            0.257
non-zero parameters      44426      11402            0.257
MACs                   1234944     318592            0.258
non-zero MACs          1234944     318592            0.258
file, bytes             180224      48128            0.267
latency, ms              0.061      0.022            0.361
metric                   0.991      0.987           -0.004
"""

from __future__ import annotations

import contextlib
import copy
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from executorch_py._shown import Told
from executorch_py.errors import InvalidArgumentError
from executorch_py.graphs.modes import in_mode
from executorch_py.graphs.torch_quantized import require_exportable
from executorch_py.module import Module, load

from .masks import masked_parameters, sparsity

#: Seconds of measuring, over both models.
_MEASURED = 0.5
_ROUNDS = 15


@dataclass(frozen=True)
class ModelFigures:
    """Figures of one model.

    Attributes:
        parameters: Elements of all parameters.
        non_zeros: Those that are not zero.
        macs: Multiplications of one run of the example inputs, zeros included.
        non_zero_macs: Those whose weight is not zero.
        file_nbytes: Size of the ``.pte``.
        latency_ms: Median time of one run by the runtime.
        metric: What the caller's metric gave; None without one.
    """

    parameters: int
    non_zeros: int
    macs: int
    non_zero_macs: int
    file_nbytes: int
    latency_ms: float
    metric: float | None = None


@dataclass(frozen=True)
class LayerFigures:
    """One parameter before and after.

    Attributes:
        name: Its full name.
        shape_before: Its sizes; None when it came later.
        shape_after: Its sizes; None when it is gone.
        non_zeros_before: Elements that were not zero.
        non_zeros_after: Elements that are not zero.
    """

    name: str
    shape_before: tuple[int, ...] | None
    shape_after: tuple[int, ...] | None
    non_zeros_before: int
    non_zeros_after: int


@dataclass(frozen=True, repr=False)
class PruningReport(Told):
    """A model before and after pruning; ``print`` it.

    Attributes:
        before: Figures of the first model.
        after: Figures of the second model.
        layers: Parameters whose shape or zeros changed.
        masks: Parameters of the second model whose mask was not made permanent.
    """

    before: ModelFigures
    after: ModelFigures
    layers: tuple[LayerFigures, ...]
    masks: tuple[str, ...] = ()

    def __str__(self) -> str:
        b, a = self.before, self.after
        rows: list[tuple[str, ...]] = [("", "before", "after", "after / before")]
        for title, first, second in (
            ("parameters", b.parameters, a.parameters),
            ("non-zero parameters", b.non_zeros, a.non_zeros),
            ("MACs", b.macs, a.macs),
            ("non-zero MACs", b.non_zero_macs, a.non_zero_macs),
            ("file, bytes", b.file_nbytes, a.file_nbytes),
        ):
            rows.append((title, str(first), str(second), _ratio(first, second)))
        rows.append(("latency, ms", f"{b.latency_ms:.3f}", f"{a.latency_ms:.3f}", _ratio(b.latency_ms, a.latency_ms)))
        if b.metric is not None and a.metric is not None:
            rows.append(("metric", f"{b.metric:.4f}", f"{a.metric:.4f}", f"{a.metric - b.metric:+.4f}"))
        lines = _table(rows)
        if self.layers:
            table: list[tuple[str, ...]] = [("parameter", "shape", "non-zeros before", "after", "zero")]
            table += [_layer_row(layer) for layer in self.layers]
            lines += ["", *_table(table)]
        if self.masks:
            lines += ["", f"masks that are not permanent (pruning.make_permanent): {', '.join(self.masks)}"]
        return "\n".join(lines)


def report(
    before: nn.Module,
    after: nn.Module,
    inputs: Sequence[Any],
    metric: Callable[[Callable[..., Any]], float] | None = None,
    *,
    dynamic_shapes: Any = None,
    partitioner: Any = None,
) -> PruningReport:
    """Compares two models, each exported, lowered and run by the runtime in this process.

    Args:
        before: The model as it was.
        after: The pruned model.
        inputs: Positional arguments of one call, a tuple.
        metric: A function that gets a callable with the model's arguments and results, the lowered program, and gives a
            number; called for each model.
        dynamic_shapes: As in ``torch.export``, when the metric calls with other sizes.
        partitioner: Who gets parts of the models; None: the runtime's kernels run all. A delegate's payload holds
            weights dense.

    Raises:
        InvalidArgumentError: An argument is of the wrong kind, a parameter is NaN or infinite (the message names it),
            or the metric gives no finite number.
    """
    if not isinstance(inputs, (tuple, list)) or not inputs:
        raise InvalidArgumentError(f"inputs is {type(inputs).__name__}; it must be the tuple of a call's arguments")
    models = {"before": before, "after": after}
    files, runs = {}, {}
    for side, model in models.items():
        if not isinstance(model, nn.Module):
            raise InvalidArgumentError(f"'{side}' is {type(model).__name__}; it must be an nn.Module")
        for name, tensor in model.named_parameters():
            if tensor.is_floating_point() and not bool(tensor.detach().isfinite().all()):
                raise InvalidArgumentError(f"'{name}' of the model {side} has elements that are NaN or infinite")
        files[side] = _lowered(model, tuple(inputs), dynamic_shapes, partitioner)
        runs[side] = load(files[side])
    times = _latencies(runs, tuple(inputs))
    figures = {}
    for side, model in models.items():
        rows = sparsity(model)
        macs, kept = count_macs(model, tuple(inputs))
        figures[side] = ModelFigures(
            parameters=sum(row.elements for row in rows),
            non_zeros=sum(row.elements - row.zeros for row in rows),
            macs=macs,
            non_zero_macs=kept,
            file_nbytes=len(files[side]),
            latency_ms=times[side],
            metric=None if metric is None else _measured(metric, runs[side], side),
        )
    return PruningReport(figures["before"], figures["after"], _layers(before, after), tuple(masked_parameters(after)))


def count_macs(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[int, int]:
    """Multiplications of products and convolutions in one run, and those whose weight is not zero.

    Example:
        >>> count_macs(nn.Linear(8, 4), (torch.ones(2, 8),))
        (64, 64)
    """
    counter = FlopCounterMode(display=False)
    # Not a copy of the model: torch's masks have none.
    with torch.no_grad(), in_mode(model, training=False), _products_only(), counter:
        model(*copy.deepcopy(inputs))
    total = counter.get_total_flops() // 2
    density = _densities(model)
    root = type(model).__name__
    counts = {
        name.removeprefix(f"{root}.") if name != root else "": {op: flops // 2 for op, flops in ops.items()}
        for name, ops in counter.get_flop_counts().items()
        if name != "Global"
    }
    saved = 0.0
    for name, macs in counts.items():
        own = not any(
            other != name and other.startswith(f"{name}." if name else "") for other in counts if other != name
        )
        if own and name in density:
            weighted = sum(count for op, count in macs.items() if op not in _OF_ACTIVATIONS)
            saved += weighted * (1 - density[name])
    return total, round(total - saved)


#: Products of attention's queries, keys and values, which no weight takes part in.
_OF_ACTIVATIONS = (torch.ops.aten.bmm, torch.ops.aten.baddbmm)


@contextlib.contextmanager
def _products_only() -> Iterator[None]:
    """While active, attention is computed of products: what torch computes it with in one operator has no count."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _densities(model: nn.Module) -> dict[str, float]:
    """Module -> share of the weights it multiplies with that are not zero.

    Attention multiplies with its last layer's itself.
    """
    elements: dict[str, int] = {}
    zeros: dict[str, int] = {}
    for row in sparsity(model):
        path, _, parameter = row.name.rpartition(".")
        if parameter.endswith("weight"):
            above, _, last = path.rpartition(".")
            if last and isinstance(model.get_submodule(above), nn.MultiheadAttention):
                path = above
            elements[path] = elements.get(path, 0) + row.elements
            zeros[path] = zeros.get(path, 0) + row.zeros
    return {path: 1 - zeros[path] / count for path, count in elements.items() if count}


def _lowered(model: nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any, partitioner: Any) -> bytes:
    from executorch_py.lowering.edge import to_edge_transform_and_lower

    require_exportable(model)
    with in_mode(model, training=False):
        exported = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
    return to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().buffer


def _latencies(runs: Mapping[str, Module], inputs: tuple[Any, ...]) -> dict[str, float]:
    """Median milliseconds of a run; the models take turns, so that a busy machine slows both."""
    number: dict[str, int] = {}
    times: dict[str, list[float]] = {}
    for side, run in runs.items():
        run(*inputs)
        begin = time.perf_counter()
        run(*inputs)
        once = time.perf_counter() - begin
        number[side] = max(1, min(1000, int(_MEASURED / 2 / _ROUNDS / max(once, 1e-6))))
        times[side] = []
    for _ in range(_ROUNDS):
        for side, run in runs.items():
            begin = time.perf_counter()
            for _ in range(number[side]):
                run(*inputs)
            times[side].append((time.perf_counter() - begin) / number[side])
    return {side: 1e3 * statistics.median(values) for side, values in times.items()}


def _measured(metric: Callable[[Callable[..., Any]], float], run: Callable[..., Any], side: str) -> float:
    value = metric(run)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"the metric gave {type(value).__name__} for the model {side}; it must give a number"
        ) from None
    if not math.isfinite(number):
        raise InvalidArgumentError(f"the metric gave {number} for the model {side}; look at the model's outputs")
    return number


def _layers(before: nn.Module, after: nn.Module) -> tuple[LayerFigures, ...]:
    shapes = [_shapes(model) for model in (before, after)]
    kept = [{row.name: row.elements - row.zeros for row in sparsity(model)} for model in (before, after)]
    rows = []
    for name in dict.fromkeys([*kept[0], *kept[1]]):
        row = LayerFigures(name, shapes[0].get(name), shapes[1].get(name), kept[0].get(name, 0), kept[1].get(name, 0))
        if row.shape_before != row.shape_after or row.non_zeros_before != row.non_zeros_after:
            rows.append(row)
    return tuple(rows)


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    found = {}
    for row in sparsity(model):
        path, _, parameter = row.name.rpartition(".")
        found[row.name] = tuple(getattr(model.get_submodule(path), parameter).shape)
    return found


def _layer_row(layer: LayerFigures) -> tuple[str, ...]:
    first, second = (
        ("-" if s is None else "x".join(map(str, s)) or "scalar") for s in (layer.shape_before, layer.shape_after)
    )
    shape = first if first == second else f"{first} → {second}"
    elements = math.prod(layer.shape_after) if layer.shape_after is not None else 0
    zero = f"{100 * (1 - layer.non_zeros_after / elements):.1f} %" if elements else "-"
    return (layer.name, shape, str(layer.non_zeros_before), str(layer.non_zeros_after), zero)


def _ratio(first: float, second: float) -> str:
    return f"{second / first:.3f}" if first else "-"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 or (i == 1 and "shape" in rows[0]) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
