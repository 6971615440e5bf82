"""``et.quantization_report``: what quantization costs, layer by layer and output by output, on the user's data.

>>> report = et.quantization_report(exported, converted, data)  # doctest: +SKIP
>>> print(report)  # doctest: +SKIP
>>> report.to_html("report.html")  # doctest: +SKIP
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree

from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.graphs.modules import module_of
from executorch_py.graphs.nodes import GROUP_SIZE, kind_of, op_name
from executorch_py.graphs.sources import source_of
from executorch_py.graphs.state import State, own_state
from executorch_py.graphs.torch_quantized import require_exportable

from .batches import calls
from .difference import RunningDifference
from .matching import match_graphs
from .paired_run import Layer, PairedRun
from .rows import LayerRow, MetricRow, OutputRow, Unmatched, percent
from .table import QuantizationReport
from .task_metric import Metric, measured

__all__ = ["quantization_report"]

_SATURATED = 0.01  # share of values from which a layer is named for it


def quantization_report(
    model: Any,
    quantized: Any,
    data: Iterable[Any],
    *,
    transform: Callable[[Any], Any] | None = None,
    program: Any = None,
    dynamic_shapes: Any = None,
    max_batches: int | None = None,
    metric: Metric | None = None,
) -> QuantizationReport:
    """Compares a quantized model with its float model on data, layer by layer.

    Memory does not grow with the data: sums are kept, activations of one batch at a time.

    Args:
        model: The float model: the ExportedProgram that was quantized (best: its nodes keep their names), what its
            ``module()`` gave, or the eager module in eval mode, which is exported here.
        quantized: What ``convert_pt2e`` gave, or an ExportedProgram of it.
        data: Iterable of inputs: tuples, dicts of keyword arguments, single tensors; a DataLoader.
        transform: Called with each item of ``data``; gives the inputs.
        program: The lowered program (what ``to_executorch()`` gave, a path, bytes, a Program), whose outputs are
            compared, too.
        dynamic_shapes: As in ``torch.export``, when ``model`` is an eager module and the sizes of the inputs vary.
        max_batches: How many items of ``data`` at most.
        metric: A function of yours that gets a callable with the model's arguments and results and gives a number
            (accuracy on your test set): measured for the float model, the quantized one and ``program``. It has its own
            data.

    Returns:
        The report: print it, read ``rows``, or write a page with ``to_html``.

    Raises:
        InvalidArgumentError: No data; nothing in ``quantized`` is quantized; it was prepared and never converted.
        InvalidTypeError: ``model`` or ``quantized`` is something else; ``metric`` gives no number.
    """
    stream = calls(data, transform, max_batches)
    first = next(stream)
    floats = _float_graph(model, first, dynamic_shapes)
    converted = _graph_module(quantized, "quantized")
    _check(floats, converted)
    match = match_graphs(floats, converted)
    pair = PairedRun(floats, converted, match)
    runtime = _runtime(program)
    outputs: dict[tuple[str, str], _Output] = {}
    count = 0
    states = [State(floats), State(converted, floats)]
    for args, kwargs in itertools.chain([first], stream):
        count += 1
        for state in states:
            state.restore()
        inputs = _flat(floats, args, kwargs)
        try:
            expected, actual = pair(inputs)
        except (RuntimeError, AssertionError, TypeError, ValueError, IndexError) as error:
            shapes = ", ".join(
                str(tuple(value.shape)) if isinstance(value, torch.Tensor) else repr(value) for value in inputs
            )
            raise InvalidArgumentError(
                f"item {count - 1} of the data (inputs {shapes}) does not run through the model: "
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            ) from error
        _add(outputs, "converted", floats, expected, actual)
        if runtime is not None:
            ran = _pytree.tree_leaves(runtime(args, kwargs))
            _add(outputs, "runtime", floats, expected, ran)
            _add(outputs, "runtime to converted", floats, actual, ran)
    layers: list[LayerRow] = []
    mismatched: list[Layer] = []
    for layer in pair.layers:
        if layer.total.num_elements:
            layers.append(_row(len(layers), layer, pair))
        elif layer.not_alone:
            mismatched.append(layer)
    unmatched = [_unmatched("float", node) for node in match.only_float]
    unmatched += [_unmatched("quantized", node) for node in match.only_quantized]
    for layer in mismatched:  # results of other sizes: not the same operator after all
        unmatched += [_unmatched("float", layer.counterpart), _unmatched("quantized", layer.node)]
    metrics = []
    if metric is not None:
        for state in states:
            state.restore()
        metrics = _metrics(metric, floats, converted, program)
    return QuantizationReport(
        layers=tuple(layers),
        outputs=tuple(output.row(place, of) for (place, of), output in sorted(outputs.items(), key=_by_output)),
        unmatched=tuple(unmatched),
        num_batches=count,
        folded={node.name: into.name for node, into in match.folded.items()},
        metrics=tuple(metrics),
    )


def _by_output(item: tuple[tuple[str, str], _Output]) -> tuple[int, int]:
    (_, of), output = item
    return output.index, ("converted", "runtime", "runtime to converted").index(of)


# -- the graphs


def _float_graph(model: Any, first: tuple[tuple[Any, ...], dict[str, Any]], dynamic_shapes: Any) -> fx.GraphModule:
    if isinstance(model, torch.nn.Module) and not isinstance(model, fx.GraphModule):
        if model.training:
            raise InvalidArgumentError("the float model is in training mode: call model.eval() first")
        args, kwargs = first
        require_exportable(model)
        with torch.no_grad():
            exported = torch.export.export(model, args, kwargs or None, dynamic_shapes=dynamic_shapes)
        return _graph_module(exported, "float")
    return _graph_module(model, "float")


def _graph_module(model: Any, which: str) -> fx.GraphModule:
    """A copy of the graph, so that runs change nothing of the user's."""
    if isinstance(model, ExportedProgram):
        return own_state(module_of(model))
    if isinstance(model, fx.GraphModule):
        return copy.deepcopy(model)
    hint = " or a torch.nn.Module" if which == "float" else ", what convert_pt2e gives"
    raise InvalidTypeError(
        f"the {which} model is an ExportedProgram, a GraphModule{hint}, not "
        f"{type(model).__module__}.{type(model).__name__}"
    )


def _check(floats: fx.GraphModule, converted: fx.GraphModule) -> None:
    for name, module in (("float", floats), ("quantized", converted)):
        observers = [
            node.name
            for node in module.graph.nodes
            if node.op == "call_module" and hasattr(module.get_submodule(str(node.target)), "calculate_qparams")
        ]
        if observers and name == "quantized":
            raise InvalidArgumentError(
                f"the quantized model has observers ({observers[0]}, …): it was prepared and never converted; "
                "call convert_pt2e"
            )
        if observers:
            raise InvalidArgumentError(
                f"the float model has observers ({observers[0]}, …): prepare_pt2e changes the module that it gets; "
                "give the ExportedProgram, or a copy from before"
            )
    if not any(kind_of(node) for node in converted.graph.nodes):
        raise InvalidArgumentError(
            "nothing in the quantized model is quantized: it has no quantize or dequantize node; did the quantizer "
            "annotate anything?"
        )
    if any(kind_of(node) for node in floats.graph.nodes):
        raise InvalidArgumentError("the float model has quantize or dequantize nodes; are the two models swapped?")
    counts = [sum(node.op == "placeholder" for node in module.graph.nodes) for module in (floats, converted)]
    if counts[0] != counts[1]:
        raise InvalidArgumentError(
            f"the float model has {counts[0]} inputs and the quantized one {counts[1]}: they are not the same model"
        )


def _flat(module: fx.GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The graph's inputs in its order.

    Raises:
        InvalidArgumentError: The item of the data does not fit the model's arguments.
    """
    codegen = module.graph._codegen
    info = getattr(codegen, "pytree_info", None)
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    if info is None:
        return leaves
    wanted = info.in_spec
    if spec != wanted and kwargs:  # keyword arguments in another order
        names = list(wanted.child(1).context) if hasattr(wanted, "child") else list(wanted.children_specs[1].context)
        if set(names) == set(kwargs):
            leaves, spec = _pytree.tree_flatten((args, {name: kwargs[name] for name in names}))
    if spec != wanted and wanted.num_leaves != len(leaves):
        raise InvalidArgumentError(
            f"an item of the data gives {len(args)} positional arguments"
            f"{f' and {sorted(kwargs)}' if kwargs else ''}, {len(leaves)} values; the model takes {wanted.num_leaves}: "
            "use transform= to drop labels"
        )
    return leaves


# -- outputs


class _Output:
    def __init__(self, index: int) -> None:
        self.index = index
        self.sums = RunningDifference()
        self.equal = self.integers = 0
        self.note = ""

    def add(self, actual: Any, expected: Any) -> None:
        if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
            if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
                self.add(torch.tensor(float(actual)), torch.tensor(float(expected)))
            elif actual is not expected and actual != expected:
                self.note = f"{actual!r}, expected {expected!r}"
            return
        if actual.shape != expected.shape:
            self.note = f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
            return
        if expected.is_floating_point() and not actual.is_floating_point():
            self.note = f"not compared: {actual.dtype} stands for {expected.dtype}"
            return
        if not expected.is_floating_point():
            self.equal += int((actual == expected).sum())
            self.integers += expected.numel()
        self.sums.update(actual, expected)

    def row(self, place: str, of: str) -> OutputRow:
        notes = [self.note] if self.note else []
        if self.integers:
            notes.append(f"{percent(self.equal / self.integers)} of the integers are equal")
        notes += _not_finite(self.sums)
        return OutputRow(place, of, self.sums.result(), "; ".join(notes))


def _add(outputs: dict[tuple[str, str], _Output], of: str, module: fx.GraphModule, expected: Any, actual: Any) -> None:
    places = _places(module, len(expected))
    if len(actual) != len(expected):
        raise InvalidArgumentError(
            f"the {of.split()[0]} model gives {len(actual)} outputs, the float model {len(expected)}"
        )
    for index, (place, ours, theirs) in enumerate(zip(places, actual, expected, strict=True)):
        outputs.setdefault((place, of), _Output(index)).add(ours, theirs)


def _places(module: fx.GraphModule, count: int) -> list[str]:
    info = getattr(module.graph._codegen, "pytree_info", None)
    if info is None or info.out_spec is None or info.out_spec.num_leaves != count:
        return [str(index) for index in range(count)]
    tree = _pytree.tree_unflatten(list(range(count)), info.out_spec)
    found, _ = _pytree.tree_flatten_with_path(tree)
    return [_pytree.keystr(path) or "0" for path, _ in found]


def _runtime(program: Any) -> Callable[[tuple[Any, ...], Mapping[str, Any]], Any] | None:
    if program is None:
        return None
    from executorch_py.devtools.validate import as_module

    module = as_module(program)
    method = module.method("forward")

    def call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if method.method.metadata.uses_state():
            method.method.reset_state()
        return method(*_clones(args), **_clones(kwargs))  # a program writes to an input where its model does

    return call


def _clones(tree: Any) -> Any:
    return _pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


def _metrics(metric: Metric, floats: fx.GraphModule, converted: fx.GraphModule, program: Any) -> list[MetricRow]:
    """The metric of each form of the model, all from their initial state."""
    before = measured(metric, floats, "the float model")
    values = [("float", before), ("converted", measured(metric, converted, "the quantized model"))]
    if program is not None:
        from executorch_py.devtools.validate import as_module

        method = as_module(program).method("forward")
        if method.method.metadata.uses_state():
            method.method.reset_state()
        values.append(("runtime", measured(metric, method, "the program")))
    return [MetricRow(of, value, value - before) for of, value in values]


# -- rows


def _row(index: int, layer: Layer, pair: PairedRun) -> LayerRow:
    node, call = layer.node, layer.call
    source = source_of(call if call.op != "placeholder" else node)
    notes, broken = _notes(layer, pair)
    return LayerRow(
        index=index,
        name=node.name,
        op="input" if call.op == "placeholder" else op_name(call),
        source=f"{source.file}:{source.line}" if source.file else "",
        module_path=source.module_path,
        weight=pair.quantization_of(layer.weight),
        activation=pair.quantization_of(layer.quantize or layer.dynamic),
        difference=layer.total.result(),
        alone=layer.alone.result() if layer.alone.num_elements else None,
        weight_sqnr_db=_sqnr(layer.only_weight) if layer.weight is not None else None,
        activation_sqnr_db=_sqnr(layer.only_activation) if layer.quantize is not None or layer.dynamic else None,
        lowest=layer.total.lowest,
        highest=layer.total.highest,
        saturated=layer.saturated / max(layer.quantized_values, 1),
        network_saturated=layer.network_saturated / max(layer.quantized_values, 1),
        weight_saturated=layer.weight_saturated,
        notes=tuple(notes),
        broken=broken,
    )


def _sqnr(sums: RunningDifference) -> float | None:
    return sums.result().sqnr_db if sums.num_elements else None


def _not_finite(sums: RunningDifference) -> list[str]:
    ours, theirs = sums.not_finite
    notes = []
    if theirs:
        notes.append(f"{theirs} values of the float model are NaN or infinite")
    if ours > theirs:
        notes.append(f"{ours} values are NaN or infinite")
    return notes


def _notes(layer: Layer, pair: PairedRun) -> tuple[list[str], bool]:
    notes = _not_finite(layer.total)
    broken = layer.total.not_finite[0] > layer.total.not_finite[1]
    if layer.total.is_constant:
        notes.append(f"the float model's values are all {layer.total.lowest:.6g} on this data")
    elif layer.is_quantized and layer.total.is_actual_constant:
        notes.append("all quantized values are the same number, the float model's are not")
        broken = True
    share, in_network = (count / max(layer.quantized_values, 1) for count in (layer.saturated, layer.network_saturated))
    if share >= _SATURATED:
        notes.append(f"output saturated: {percent(share)} of the values are outside of its integers")
    elif in_network >= _SATURATED:
        notes.append(
            f"{percent(in_network)} of the values in the network leave the range, of the float model's {percent(share)}"
        )
    if layer.weight_saturated is not None and layer.weight_saturated >= _SATURATED:
        notes.append(f"weight saturated: {percent(layer.weight_saturated)} of it is outside of its integers")
    asked = layer.weight.meta.get("custom", {}).get(GROUP_SIZE) if layer.weight is not None else None
    if asked is not None:
        notes.append(f"one scale for each whole row of the weight: its columns are no multiple of {asked}")
    notes += _unused_range(layer, pair)
    if layer.is_quantized and layer.not_alone:
        notes.append(f"not run alone: {layer.not_alone}")
    return notes, broken


def _unused_range(layer: Layer, pair: PairedRun) -> list[str]:
    """A range that its values leave nearly empty: few integers are left to tell them apart."""
    says = pair.quantization_of(layer.quantize)
    sums = layer.total
    if (
        says is None
        or says.smallest_scale is None
        or says.granularity != "per tensor"
        or not math.isfinite(sums.lowest)
    ):
        return []
    if sums.is_constant or sums.is_actual_constant:
        return []
    assert says.low is not None and says.high is not None
    spread = min(sums.highest, says.high) - max(sums.lowest, says.low)
    used = spread / says.smallest_scale
    levels = says.quant_max - says.quant_min
    if levels >= 64 and 0 <= used < levels / 16:
        return [f"range too wide: the values take {used + 1:.0f} of {levels + 1} integers"]
    return []


def _unmatched(graph: str, node: fx.Node) -> Unmatched:
    source = source_of(node)
    where = f"{source.file}:{source.line}" if source.file else ""
    return Unmatched(graph, node.name, op_name(node), where, source.module_path)
