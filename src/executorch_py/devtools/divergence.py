"""``first_divergence``: the first layer whose value leaves the eager one, its line, and what did it.

Three sets of values are held against each other, node by node of the Edge program: the eager model's, those of the Edge
program in PyTorch, and those of the compiled program in the runtime. Where the second leaves the first, quantization or
the exported program did it. Where the third leaves the second, the runtime did: the program is then compiled again
without fusion, or with the values inside a delegate as outputs, to tell fusion from a kernel.

Example:
    >>> print(first_divergence(program, model, inputs))  # doctest: +SKIP
    sin_1 (aten.sin.default) leaves the eager model: a kernel, native_call_sin.out
      model.py:17 in second, SQNR 3.1 dB, max error 0.5, expected values up to 0.98
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils._pytree import tree_unflatten

from executorch_py._shown import Told
from executorch_py.devtools.comparison import Comparison, Tolerance, compare
from executorch_py.devtools.inspector.events import AROUND_A_DELEGATE, AROUND_A_KERNEL, Event
from executorch_py.devtools.inspector.inspector import Inspector
from executorch_py.devtools.inspector.record_map import nodes_by_handle
from executorch_py.devtools.inspector.reference import Pair, pairs_of, placeholders_of, values_of
from executorch_py.devtools.quantization.matching import match_graphs
from executorch_py.devtools.validate import as_module, load_compiled
from executorch_py.errors import ExecutorchError, InvalidTypeError, OutOfResourcesError
from executorch_py.exir.backend.compiled_part import get_lowered_backend_modules
from executorch_py.graphs.modules import module_of
from executorch_py.graphs.nodes import arguments_of, kind_of
from executorch_py.graphs.sources import source_of
from executorch_py.lowering.delegated import Delegated
from executorch_py.lowering.delegation import to_backend
from executorch_py.lowering.edge import to_edge
from executorch_py.lowering.program import ExecutorchProgramManager, compile_methods
from executorch_py.lowering.taps import with_outputs
from executorch_py.runtime import Runtime

__all__ = ["Divergence", "first_divergence"]

#: The runtime against PyTorch, by dtype: what another order of additions gives.
_KERNEL = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
#: A quantized layer is told when its signal-to-noise ratio in the network is below this.
QUANTIZED_DB = 15.0
#: A scale fits badly when nearly all values are within so many of its steps.
_FEW_STEPS = 4
#: The ratio, in dB, that roundings to the next integer leave in a quantized network.
_STEPS_DB = 30.0
_FUSING = ("fuse-", "fold-", "recognise-", "propagate-dequantize", "quantize-borders")


@dataclass(frozen=True, repr=False)
class Divergence(Told):
    """Where a program leaves its model.

    Attributes:
        node: Name of the node in the Edge program.
        operator: Its operator.
        where: "file:line" of the user's Python.
        module_path: Path of its module.
        cause: ``export`` (the exported program is another one), ``quantization``, ``fusion``, ``kernel`` or
            ``delegate``.
        what: The kernel, the backend or the fused operators.
        comparison: The value beside the expected one.
        note: What more is known.
    """

    node: str
    operator: str
    where: str
    module_path: str
    cause: str
    what: str
    comparison: Comparison
    note: str = ""

    def __str__(self) -> str:
        found = self.comparison
        place = f"{self.where or 'an unknown line'}{f' in {self.module_path}' if self.module_path else ''}"
        figures = found.note or f"SQNR {found.sqnr_db:.1f} dB, max error {found.max_error:.3g}"
        words = _WORDS[self.cause] + (f", {self.what}" if self.what else "")
        lines = [f"{self.node} ({self.operator}) leaves the eager model: {words}", f"  {place}, {figures}"]
        return "\n".join([*lines, *([f"  {self.note}"] if self.note else [])])


_WORDS = {
    "export": "the exported program is of another model",
    "quantization": "quantization",
    "fusion": "fusion",
    "kernel": "a kernel",
    "delegate": "a delegate",
}


def first_divergence(
    program: ExecutorchProgramManager,
    model: Callable[..., Any] | ExportedProgram,
    inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    method: str = "forward",
    tolerance: Tolerance | None = None,
    quantized_db: float = QUANTIZED_DB,
) -> Divergence | None:
    """Finds the first layer whose value leaves the eager one; ``None`` when none does.

    Args:
        program: What ``to_executorch`` returned; a file has no graphs to compare with.
        model: The eager model, or its ExportedProgram; for a quantized program the float one.
        inputs: Positional arguments of one call.
        kwargs: Keyword arguments of the call.
        method: Name of the method.
        tolerance: What the runtime's values may differ from PyTorch's; by dtype otherwise (1e-3 of the largest for
            float32).
        quantized_db: Smallest signal-to-noise ratio of a quantized layer in the network, in dB.

    Raises:
        InvalidArgumentError: An input has sizes that the program does not take; names it and both sides.
        InvalidTypeError: ``program`` is a file or a loaded program; an input is of another dtype.
        NotFoundError: There is no such method.
    """
    if not isinstance(program, ExecutorchProgramManager):
        raise InvalidTypeError(
            f"program is {program!r:.60}, must be what to_executorch() returned: a file has no graphs"
        )
    program.exported_program(method)  # NotFoundError
    leaves = as_module(program).method(method)._flatten(tuple(inputs), dict(kwargs or {}))
    search = _Search(program, method, leaves, tolerance)
    eager = _eager_values(model, leaves, search.edge)
    for node in search.edge.graph.nodes:
        pair = search.pairs.get(node)
        if pair is not None and (found := search.outside(node, pair.actual, pair.expected)) is not None:
            return search.explained(pair, found)
        if node in eager and (left := _left_eager(search, node, eager[node], quantized_db)) is not None:
            return left
    return None


def _left_eager(search: _Search, node: fx.Node, expected: Any, quantized_db: float) -> Divergence | None:
    """Whether the Edge program itself, in PyTorch, leaves the eager model at a node."""
    value = search.values[node]
    quantized = node in search.behind_integers
    limit = Tolerance(min_sqnr_db=quantized_db) if quantized else Tolerance(relative_to_max=_limit(value))
    found = compare(value, expected, limit)
    if found.passed:
        return None
    if not quantized:
        return _divergence(node, "export", "", found)
    for one in node.all_input_nodes:
        if (told := _outlier(search, one)) is not None:
            layer, note = told
            note = f"{note}; it shows in {node.name} behind it"
            return replace(_divergence(layer, "quantization", "an outlier", found), note=note)
    return _divergence(node, "quantization", "", found)


def _outlier(search: _Search, node: fx.Node) -> tuple[fx.Node, str] | None:
    """The layer whose result a node gives back from integers, when one scale does not fit nearly all of its values."""
    value = search.values.get(node)
    scale = arguments_of(node).get("scale") if kind_of(node) == "dequantize" else None
    if not isinstance(scale, float) or not isinstance(value, torch.Tensor):
        return None
    steps = value.abs().reshape(-1).sort().values / scale
    nearly_all = float(steps[int(0.9 * (steps.numel() - 1))]) if steps.numel() else 0.0
    if not steps.numel() or nearly_all > _FEW_STEPS or float(steps[-1]) < 16 * _FEW_STEPS:
        return None
    layer = node
    while kind_of(layer) and isinstance(layer.args[0], fx.Node):
        layer = layer.args[0]
    figures = f"it reaches {float(value.abs().max()):.3g}, 90 % of its values are within {nearly_all:.0f} steps of zero"
    return layer, figures


class _Search:
    """A method's graph, its values in PyTorch, and those of the runtime."""

    def __init__(
        self, program: ExecutorchProgramManager, method: str, leaves: list[Any], tolerance: Tolerance | None
    ) -> None:
        self._program, self._method, self._leaves, self._tolerance = program, method, leaves, tolerance
        ran = _ran(program, method, leaves)  # says which input does not fit, before PyTorch meets it
        self.edge = program.get_etrecord().edge_programs()[method]
        self.values = values_of(self.edge, _copies(leaves))
        self.behind_integers = _behind_integers(self.edge.graph)
        self._told_inside: set[int | None] = set()  # delegates that tell values inside, by their instructions
        self.pairs = {pair.node: pair for pair in self._pairs(ran)}

    def _pairs(self, ran: Inspector) -> list[Pair]:
        events = [
            event
            for block in ran.event_blocks
            for event in block.events
            if event.name != AROUND_A_KERNEL and event._instruction_id is not None
        ]
        self._told_inside |= {one._instruction_id for one in events if _tells_inside(one)}
        return pairs_of(self.edge, self.values, events)

    def _limit_of(self, node: fx.Node, expected: Any) -> Tolerance:
        """What passes. Where integers stand before a node, one that rounds to the next one moves others behind it."""
        if self._tolerance is not None:
            return self._tolerance
        if node in self.behind_integers:
            return Tolerance(min_sqnr_db=_STEPS_DB)
        return Tolerance(relative_to_max=_limit(expected), absolute=1e-7)

    def outside(self, node: fx.Node, actual: Any, expected: Any) -> Comparison | None:
        """How a value of the runtime compares, when it is not what PyTorch gives."""
        if not expected.dtype.is_floating_point:
            difference = (actual.reshape(-1).double() - expected.reshape(-1).double()).abs()
            if not expected.numel() or difference.max() <= 1:
                return None
            found = compare(actual.reshape(expected.shape), expected, self._limit_of(node, expected))
            return None if found.passed and node in self.behind_integers else found
        found = compare(actual.reshape(expected.shape), expected, self._limit_of(node, expected))
        return None if found.passed else found

    def explained(self, pair: Pair, found: Comparison) -> Divergence:
        """Tells fusion from a kernel, and a layer inside a delegate from the delegate."""
        members = self._members(pair.event)
        if pair.event.is_delegated_op:
            names = (pair.event.name, pair.event.delegate_backend_name)
            return _divergence(pair.node, "delegate", " of ".join(name for name in names if name), found)
        if pair.event.name == AROUND_A_DELEGATE and pair.event._instruction_id in self._told_inside:
            note = "the values inside of it that it tells are right up to here"
            return replace(_divergence(pair.node, "delegate", pair.event.delegate_backend_name or "", found), note=note)
        if pair.event.name == AROUND_A_DELEGATE:
            return self._inside_delegate(pair, found, members)
        if len(members) == 1:
            return _divergence(pair.node, "kernel", pair.event.name, found)
        operators = " + ".join(_operator(node) for node in members)
        try:
            config = replace(self._program.backend_config, disabled_passes=_without_fusion(self._program))
            unfused = compile_methods(self._program._recorded.methods, {}, config, self._program._recorded)
            pairs = {one.node: one for one in self._pairs(_ran(unfused, self._method, self._leaves))}
        except ExecutorchError as error:
            note = f"fusion or its kernel: the operators do not run one by one here ({str(error).splitlines()[0]:.100})"
            return replace(_divergence(pair.node, "fusion", operators, found), note=note)
        for node in members:
            one = pairs.get(node)
            if one is not None and (wrong := self.outside(node, one.actual, one.expected)) is not None:
                return _divergence(node, "kernel", one.event.name, wrong)
        return _divergence(pair.node, "fusion", operators, found)

    def _inside_delegate(self, pair: Pair, found: Comparison, members: list[fx.Node]) -> Divergence:
        """The first wrong value inside: the delegate is compiled again with its values as outputs."""
        method = self._program._recorded.methods[self._method]
        known = {node.name for node in method.program.graph.nodes if node.meta.get("delegation_tag")}
        inner = [one for one in members if one.name in known and isinstance(self.values[one], torch.Tensor)]
        tags = (method.tags.get(node.meta.get("delegation_tag", "")) for node in method.program.graph.nodes)
        backend = pair.event.delegate_backend_name or next((one.backend_id for one in tags if one), "")
        whole = replace(_divergence(pair.node, "delegate", backend, found), note=_one_call(members))
        if not inner:
            return self._inside_compiled_part(pair, whole, members)
        if len(members) == 1:
            return _divergence(pair.node, "delegate", backend, found)
        try:
            tapped = compile_methods(
                {self._method: with_outputs(method, [one.name for one in inner])}, {}, self._program.backend_config
            )
            running = load_compiled(tapped).load_method(self._method)
            outputs = running.execute(_copies(self._leaves))[-len(inner) :]
        except ExecutorchError as error:
            return replace(whole, note=f"its values cannot be had one by one: {str(error).splitlines()[0]:.100}")
        for node, value in zip(inner, outputs, strict=True):
            if (wrong := self.outside(node, value, self.values[node])) is not None:
                note = "found with the delegate's values as outputs"
                return replace(_divergence(node, "delegate", backend, wrong), note=note)
        operators = " + ".join(_operator(node) for node in members)
        note = f"{backend} is right when its values are outputs: it fuses them otherwise"
        return replace(_divergence(pair.node, "fusion", operators, found), note=note)

    def _inside_compiled_part(self, pair: Pair, whole: Divergence, members: list[fx.Node]) -> Divergence:
        """The first wrong value inside a part that was compiled in Python: it is compiled again, with them as outputs.

        The part runs alone, on the values that PyTorch has at its inputs.
        """
        lowered = get_lowered_backend_modules(self._program._recorded.methods[self._method].program.graph_module)
        parts = [one for one in lowered if pair.node.name in {node.name for node in one.original_module.graph.nodes}]
        if len(members) == 1 or len(parts) != 1:
            return whole
        original = parts[0].original_module
        returned = [node.name for node in next(reversed(original.graph.nodes)).all_input_nodes]
        names = {node.name for node in original.graph.nodes} - set(returned)
        inner = [one for one in members if one.name in names and isinstance(self.values[one], torch.Tensor)]
        known = placeholders_of(self.edge, _copies(self._leaves)) | {one.name: v for one, v in self.values.items()}
        try:
            tapped = with_outputs(Delegated(original), [one.name for one in inner]).program
            alone = to_backend(parts[0].backend_id, tapped, parts[0].compile_specs)
            inputs = [known[name] for name in tapped.graph_signature.user_inputs]
            outputs = Runtime.get().load_program(alone.buffer()).load_method("forward").execute(inputs)
        except Exception as error:  # a backend in Python raises what it likes
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            return replace(whole, note=f"{whole.note}; it does not run with its values as outputs: {reason:.100}")
        values = dict(zip(tapped.graph_signature.user_outputs, outputs, strict=True))
        for node in members:
            if node.name in values and (wrong := self.outside(node, values[node.name], self.values[node])) is not None:
                note = "found with the part compiled again, its values as outputs"
                return replace(_divergence(node, "delegate", whole.what, wrong), note=note)
        return replace(whole, note=f"{whole.note}; it is right when its values are outputs")

    def _members(self, event: Event) -> list[fx.Node]:
        by_handle = nodes_by_handle(self.edge)
        handles = [event.debug_handles] if isinstance(event.debug_handles, int) else event.debug_handles or ()
        members = {node for handle in handles for node in by_handle.get(handle, ())}
        return [node for node in self.edge.graph.nodes if node in members and node in self.values]


def _behind_integers(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that quantize or dequantize, and all behind them."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if kind_of(node) or any(one in found for one in node.all_input_nodes):
            found.add(node)
    return found


def _tells_inside(event: Event) -> bool:
    """Whether a backend told a value inside of a delegate."""
    return bool(event.is_delegated_op and event.debug_data)


def _ran(program: ExecutorchProgramManager, method: str, leaves: list[Any]) -> Inspector:
    """Runs a program once and records all values, in a buffer that grows until they fit."""
    size = 1 << 22
    while True:
        loaded = load_compiled(program, enable_etdump=True, debug_buffer_size=size)
        loaded.load_method(method).execute(_copies(leaves))
        try:
            return Inspector.of(loaded, program.get_etrecord())
        except OutOfResourcesError:
            if size >= 1 << 33:
                raise
            size *= 8


def _eager_values(
    model: Callable[..., Any] | ExportedProgram, leaves: list[Any], edge: ExportedProgram
) -> dict[fx.Node, Any]:
    """Node of the Edge program -> the value that the eager model has there, where the two can be matched."""
    if not isinstance(model, ExportedProgram):
        if not isinstance(model, torch.nn.Module):
            raise InvalidTypeError(f"model is {model!r:.60}, must be a torch.nn.Module or its ExportedProgram")
        spec = edge.call_spec.in_spec
        args, kwargs = tree_unflatten(leaves, spec) if spec is not None else (tuple(leaves), {})
        model = torch.export.export(model, args, kwargs)
    floats = to_edge(model).exported_program()
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "The tensor attributes", UserWarning
        )  # weights of a recurrent layer are several names
        own, theirs = module_of(edge), module_of(floats)
    match = match_graphs(theirs, own)
    values = {node.name: value for node, value in values_of(floats, _copies(leaves)).items()}
    counterparts = {node.name: other.name for node, other in match.values.items()}
    return {
        node: values[counterparts[node.name]]
        for node in edge.graph.nodes
        if node.name in counterparts and isinstance(values.get(counterparts[node.name]), torch.Tensor)
    }


def _without_fusion(program: ExecutorchProgramManager) -> list[str]:
    from executorch_py import _core

    names = [name for name, _ in _core.list_passes() if name.startswith(_FUSING)]
    return sorted({*program.backend_config.disabled_passes, *names})


def _limit(value: torch.Tensor) -> float:
    return _KERNEL.get(value.dtype, 1e-3)


def _copies(leaves: Sequence[Any]) -> list[Any]:
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def _operator(node: fx.Node) -> str:
    return str(node.target).removeprefix("aten.").removesuffix(".default")


def _divergence(node: fx.Node, cause: str, what: str, found: Comparison) -> Divergence:
    return Divergence(node.name, str(node.target), _where(node), source_of(node).module_path, cause, what, found)


def _where(node: fx.Node) -> str:
    source = source_of(node)
    return f"{source.file}:{source.line}" if source.file else ""


def _one_call(members: Sequence[fx.Node]) -> str:
    """What is known of a delegate that tells no value inside: the fault is one of its operators, and their lines."""
    lines = [line for line in dict.fromkeys(map(_where, members)) if line]
    more = f" and {len(lines) - 8} more" if len(lines) > 8 else ""
    return f"its operators are one call, of {', '.join(lines[:8])}{more}" if lines else "its operators are one call"
