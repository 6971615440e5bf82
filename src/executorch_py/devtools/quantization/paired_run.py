"""Runs a float graph and the quantized graph made from it on the same inputs, and adds up the errors of each layer.

Three errors of each layer are measured, in one pass over the data and with the activations of one batch in memory:

- in the network: its value in the quantized graph beside the float one. Holds what all layers before lost.
- alone: the layer gets the float model's operands, with its own quantized weight and the quantization of its own result
  (or of its operand, when that is quantized at run time).
- alone with only the weight, and with only the activation quantized.

A static quantization of an activation belongs to the layer whose result it is, also where only the next layer wanted
it. One whose parameters are computed at run time belongs to the layer that takes it, because that layer's kernel does
it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx import Interpreter

from executorch_py.graphs.nodes import (
    REARRANGING,
    arguments_of,
    constant_nodes,
    is_dynamic,
    is_value_preserving,
    iterate_arguments,
    kind_of,
    module_attribute,
    quantization_of,
    value_source,
)
from executorch_py.graphs.quantization import Quantization

from .difference import RunningDifference
from .matching import Match, operation

__all__ = ["Layer", "PairedRun"]


class _CannotRunAlone(Exception):
    """Why a layer could not be run on the float model's operands."""


@dataclass
class Layer:
    """One row in the making.

    Attributes:
        node: The value in the quantized graph.
        call: The operator that makes it; another node than ``node`` for one of several results.
        counterpart: The value in the float graph.
        float_call: The operator in the float graph whose operands ``call`` gets when it runs alone.
        quantize: Static quantization of the value; None without.
        weight: First constant operand behind a dequantize node; None without.
        dynamic: Quantize node of an operand with parameters computed at run time; None without.
    """

    node: fx.Node
    call: fx.Node
    counterpart: fx.Node
    float_call: fx.Node
    quantize: fx.Node | None = None
    weight: fx.Node | None = None
    dynamic: fx.Node | None = None
    total: RunningDifference = field(default_factory=RunningDifference)
    alone: RunningDifference = field(default_factory=RunningDifference)
    only_weight: RunningDifference = field(default_factory=RunningDifference)
    only_activation: RunningDifference = field(default_factory=RunningDifference)
    saturated: int = 0  # of the float model's values
    network_saturated: int = 0  # of the values in the quantized graph
    quantized_values: int = 0
    weight_saturated: float | None = None
    not_alone: str = ""
    pending: dict[str, Any] = field(default_factory=dict)

    @property
    def is_quantized(self) -> bool:
        return self.quantize is not None or self.weight is not None or self.dynamic is not None


class PairedRun:
    """The two graphs, ready to run.

    Args:
        floats: The float graph.
        quantized: The converted graph.
        match: Their nodes.
    """

    def __init__(self, floats: fx.GraphModule, quantized: fx.GraphModule, match: Match) -> None:
        self._floats, self._quantized, self._match = floats, quantized, match
        self._float_constants, self._constants = constant_nodes(floats), constant_nodes(quantized)
        self._known: dict[fx.Node, Any] = {}
        self._float_known: dict[fx.Node, Any] = {}
        self.layers = [layer for node in quantized.graph.nodes if (layer := self._layer(node)) is not None]
        for layer in self.layers:
            if layer.weight is not None:
                layer.weight_saturated = self._weight_saturation(layer)
        self._float_known.clear()
        self._starts: dict[fx.Node, list[Layer]] = {}
        self._ends: dict[fx.Node, list[Layer]] = {}
        self._compared: dict[fx.Node, list[Layer]] = {}
        self._quantized_at: dict[fx.Node, list[Layer]] = {}
        for layer in self.layers:
            self._starts.setdefault(layer.float_call, []).append(layer)
            self._ends.setdefault(layer.counterpart, []).append(layer)
            at = layer.node if layer.quantize is None else _dequantize_of(layer.quantize) or layer.node
            self._compared.setdefault(at, []).append(layer)
            if layer.quantize is not None:
                self._quantized_at.setdefault(layer.quantize, []).append(layer)
        self._copies = any(
            isinstance(node.target, OpOverload) and node.target._schema.is_mutable for node in floats.graph.nodes
        )

    @torch.no_grad()
    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, Any]:
        """Runs both on flat inputs and adds up; gives the float outputs and the quantized ones, flat."""
        kept: dict[int, torch.Tensor] = {}
        expected = _FloatRun(self, kept).run(*_copied(inputs), enable_io_processing=False)
        actual = _QuantizedRun(self, kept).run(*_copied(inputs), enable_io_processing=False)
        return expected, actual

    def quantization_of(self, node: fx.Node | None) -> Quantization | None:
        """What a quantize or dequantize node of the quantized graph says."""
        return None if node is None else quantization_of(node, self.constant)

    def constant(self, node: fx.Node) -> Any:
        """Value of a constant node of the quantized graph."""
        return _evaluate(node, self._quantized, self._constants, self._known)

    def _layer(self, node: fx.Node) -> Layer | None:
        counterpart = self._match.values.get(node)
        if counterpart is None or node.op == "get_attr":
            return None
        if node.op == "placeholder":
            layer = Layer(node, node, counterpart, counterpart)
            layer.quantize = _static_quantize(node)
            return layer if layer.quantize is not None else None
        call = node
        if node.target is operator.getitem:
            call = node.args[0]  # type: ignore[assignment]
        if operation(call) in REARRANGING and not self._has_quantized_constant(call) and _static_quantize(node) is None:
            return None
        float_call = self._match.operators.get(call)
        value = node.meta.get("val")
        if float_call is None or (value is not None and not _is_float(value)):
            return None
        layer = Layer(node, call, counterpart, float_call, quantize=_static_quantize(node))
        for argument in iterate_arguments(call):
            if argument in self._constants:
                layer.weight = layer.weight or self._dequantize_in(argument)
            else:
                layer.dynamic = layer.dynamic or _dynamic_quantize_in(argument)
        if operation(call) in REARRANGING and layer.weight is None and not _changes_values(layer, self):
            return None
        return layer

    def _has_quantized_constant(self, call: fx.Node) -> bool:
        return any(
            argument in self._constants and self._dequantize_in(argument) is not None
            for argument in iterate_arguments(call)
        )

    def _dequantize_in(self, node: fx.Node) -> fx.Node | None:
        """The dequantize node among a constant and what it is computed from."""
        if kind_of(node) == "dequantize":
            return node
        for argument in iterate_arguments(node):
            found = self._dequantize_in(argument)
            if found is not None:
                return found
        return None

    def _weight_saturation(self, layer: Layer) -> float | None:
        """Share of the float weight outside of the integers' reach; None where the float weight is not known."""
        weight = layer.weight
        assert weight is not None
        position = next(
            (i for i, value in enumerate(layer.call.args) if isinstance(value, fx.Node) and value is weight), None
        )
        if position is None or position >= len(layer.float_call.args):
            return None
        other = layer.float_call.args[position]
        if not isinstance(other, fx.Node) or other not in self._float_constants:
            return None
        exact = _evaluate(other, self._floats, self._float_constants, self._float_known)
        if layer.counterpart in self._match.folded:
            exact = self._with_batch_norm(layer, exact)
        values, integers = self.constant(weight), self.constant(weight.args[0])  # type: ignore[arg-type]
        limits = quantization_of(weight, self.constant)
        if not isinstance(exact, torch.Tensor) or exact.shape != values.shape or integers.shape != values.shape:
            return None
        outside = torch.zeros_like(values, dtype=torch.bool)
        for limit, inward, sign in ((limits.quant_max, -1, 1), (limits.quant_min, 1, -1)):
            step = (self._redo(weight, integers + (inward * (integers == limit)).to(integers.dtype)) - values).abs()
            outside |= (integers == limit) & (sign * (exact - values) > 0.5001 * step)
        return float(outside.double().mean())

    def _with_batch_norm(self, layer: Layer, weight: torch.Tensor) -> torch.Tensor | None:
        """The float weight times the factors of the batch norm that was folded into it."""
        norm = layer.counterpart
        if norm.target is operator.getitem:
            norm = norm.args[0]  # type: ignore[assignment]
        says = arguments_of(norm)
        if "transpose" in operation(layer.call) or "transposed" in arguments_of(layer.call):
            return None  # output channels do not stand first
        variance, scale = (says.get("running_var"), says.get("weight"))
        if not isinstance(variance, fx.Node) or variance not in self._float_constants:
            return None
        read = lambda node: _evaluate(node, self._floats, self._float_constants, self._float_known)  # noqa: E731
        factors = torch.rsqrt(read(variance) + says["eps"])
        if isinstance(scale, fx.Node):
            factors = factors * read(scale)
        return weight * factors.reshape(-1, *[1] * (weight.dim() - 1))

    def _redo(self, dequantize: fx.Node, integers: torch.Tensor) -> torch.Tensor:
        arguments = fx.node.map_arg(dequantize.args[1:], self.constant)
        kwargs = fx.node.map_arg(dequantize.kwargs, self.constant)
        return dequantize.target(integers, *arguments, **kwargs)  # type: ignore[operator]

    # -- a layer on the float model's operands

    def start(self, layer: Layer, run: Interpreter) -> None:
        """Computes the layer's result from the float operands, which are still there when this is called."""
        layer.pending.clear()
        if layer.not_alone or not layer.is_quantized or layer.call.op == "placeholder":
            return
        try:
            if layer.weight is not None or layer.dynamic is not None:
                layer.pending["alone"] = self._call(layer, run, quantize_operand=True)
            if layer.weight is not None and layer.dynamic is not None:
                layer.pending["weight"] = self._call(layer, run, quantize_operand=False)
                if layer.counterpart not in self._match.folded:  # else the float weight is not the one that is compared
                    layer.pending["activation"] = self._call(layer, run, quantize_operand=True, own_constants=False)
        except _CannotRunAlone as reason:
            layer.not_alone = str(reason)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            layer.not_alone = str(error).strip().split("\n")[0]

    def finish(self, layer: Layer, value: torch.Tensor) -> None:
        """Compares with the float result, now that it is there."""
        if layer.not_alone or not layer.is_quantized:
            return
        pending = {name: self._part(layer, made) for name, made in layer.pending.items()}
        layer.pending.clear()
        try:
            if "alone" in pending and layer.dynamic is None and layer.weight is not None:
                layer.only_weight.update(pending["alone"], value)
            for name, sums in (("weight", layer.only_weight), ("activation", layer.only_activation)):
                if name in pending:
                    sums.update(pending[name], value)
            result = pending.get("alone", value)
            if layer.quantize is not None:
                layer.saturated += self.outside(layer, value)
                layer.only_activation.update(self._requantized(layer, value), value)
                result = self._requantized(layer, result)
            elif layer.dynamic is not None and layer.weight is None:
                layer.only_activation.update(result, value)
            layer.alone.update(result, value)
        except ValueError as error:
            layer.not_alone = str(error)

    def outside(self, layer: Layer, value: torch.Tensor) -> int:
        """How many values lie outside of what the integers of the layer's result can represent."""
        says = self.quantization_of(layer.quantize)
        if says is None or says.granularity != "per tensor" or says.low is None or says.high is None:
            return 0
        half = 0.5001 * (says.smallest_scale or 0.0)
        low, high = says.low - half, says.high + half
        if value.numel() == 0 or bool((value.min() >= low) & (value.max() <= high)):
            return 0
        return int(((value < low) | (value > high)).sum())

    def _requantized(self, layer: Layer, value: torch.Tensor) -> torch.Tensor:
        """The value through the layer's own quantize and dequantize nodes."""
        quantize = layer.quantize
        assert quantize is not None
        dequantize = _dequantize_of(quantize)
        if dequantize is None:
            return value
        for node in (quantize, dequantize):
            constant = self._constant_arguments(node)
            value = node.target(value, *constant, **self._constant_kwargs(node))  # type: ignore[operator]
        return value

    def _constant_arguments(self, node: fx.Node) -> Any:
        return fx.node.map_arg(node.args[1:], self.constant)

    def _constant_kwargs(self, node: fx.Node) -> Any:
        return fx.node.map_arg(node.kwargs, self.constant)

    @staticmethod
    def _part(layer: Layer, made: Any) -> torch.Tensor:
        return made[layer.node.args[1]] if layer.node is not layer.call else made

    def _call(self, layer: Layer, run: Interpreter, *, quantize_operand: bool, own_constants: bool = True) -> Any:
        """Runs the layer's operator; ``own_constants``: with the quantized weight, else with the float one."""

        def merged(ours: Any, theirs: Any) -> Any:
            if isinstance(ours, fx.Node):
                if ours in self._constants:
                    if own_constants:
                        return self.constant(ours)
                    if not isinstance(theirs, fx.Node):
                        raise _CannotRunAlone("its float weight is not known")
                    return run.env[theirs]
                if not isinstance(theirs, fx.Node) or theirs not in run.env:
                    raise _CannotRunAlone(f"its operand {ours.name} has no counterpart")
                value = run.env[theirs]
                return self._through(ours, value_source(ours), _copy(value), quantize_operand)
            if isinstance(ours, (list, tuple)):
                others = theirs if isinstance(theirs, (list, tuple)) else ()
                return [merged(item, others[i] if i < len(others) else None) for i, item in enumerate(ours)]
            return ours

        call, other = layer.call, layer.float_call
        padded = (*other.args, *[None] * max(0, len(call.args) - len(other.args)))
        args = [merged(ours, theirs) for ours, theirs in zip(call.args, padded, strict=False)]
        kwargs = {name: merged(value, other.kwargs.get(name)) for name, value in call.kwargs.items()}
        return call.target(*args, **kwargs)  # type: ignore[operator]

    def _through(self, node: fx.Node, source: fx.Node, value: Any, quantize: bool) -> Any:
        """``value`` of ``source`` as ``node`` has it: casts, and q/dq nodes whose parameters come from the value."""
        known: dict[fx.Node, Any] = {source: value}

        def walk(current: fx.Node) -> Any:
            if current in known:
                return known[current]
            if current in self._constants:
                return self.constant(current)
            kind = kind_of(current)
            skipped = kind in ("quantize", "dequantize") and not (quantize and is_dynamic(current))
            if skipped or (is_value_preserving(current) and operation(current).endswith("dropout")):
                made = walk(current.all_input_nodes[0])
            else:
                args = fx.node.map_arg(current.args, walk)
                made = current.target(*args, **fx.node.map_arg(current.kwargs, walk))  # type: ignore[operator]
            known[current] = made
            return made

        return walk(node)


class _FloatRun(Interpreter):
    """The float graph: layers are run alone beside it, and their values kept until the quantized graph has them."""

    def __init__(self, pair: PairedRun, kept: dict[int, torch.Tensor]) -> None:
        super().__init__(pair._floats)
        self._pair, self._kept = pair, kept

    def run_node(self, n: fx.Node) -> Any:
        for layer in self._pair._starts.get(n, ()):
            self._pair.start(layer, self)
        value = super().run_node(n)
        for layer in self._pair._ends.get(n, ()):
            if _is_float(value):
                self._pair.finish(layer, value)
                self._kept[id(layer)] = value.clone() if self._pair._copies else value
        return value


class _QuantizedRun(Interpreter):
    """The quantized graph: its values are compared with those that are kept."""

    def __init__(self, pair: PairedRun, kept: dict[int, torch.Tensor]) -> None:
        super().__init__(pair._quantized)
        self._pair, self._kept = pair, kept

    def run_node(self, n: fx.Node) -> Any:
        for layer in self._pair._quantized_at.get(n, ()):
            value = self.env[n.args[0]]  # type: ignore[index]
            layer.quantized_values += value.numel()
            layer.network_saturated += self._pair.outside(layer, value)
        value = super().run_node(n)
        for layer in self._pair._compared.get(n, ()):
            expected = self._kept.pop(id(layer), None)
            if expected is None or not isinstance(value, torch.Tensor):
                continue
            try:
                layer.total.update(value, expected)
            except ValueError as error:
                layer.not_alone = layer.not_alone or str(error)
        return value


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _copied(inputs: Sequence[Any]) -> list[Any]:
    return [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in inputs]


def _static_quantize(node: fx.Node) -> fx.Node | None:
    """The quantization of a value with fixed parameters; the first where several are."""
    for user in node.users:
        if kind_of(user) == "quantize" and not is_dynamic(user):
            return user
        if is_value_preserving(user) and (found := _static_quantize(user)) is not None:
            return found
    return None


def _dequantize_of(quantize: fx.Node) -> fx.Node | None:
    return next((user for user in quantize.users if kind_of(user) == "dequantize"), None)


def _dynamic_quantize_in(node: fx.Node) -> fx.Node | None:
    """The run-time quantization between a value and its user."""
    while kind_of(node) in ("quantize", "dequantize") or is_value_preserving(node):
        if kind_of(node) == "quantize" and is_dynamic(node):
            return node
        node = node.all_input_nodes[0]
    return None


def _changes_values(layer: Layer, run: PairedRun) -> bool:
    """Whether a rearranging operator's result is quantized otherwise than its operand."""
    if layer.quantize is None or not layer.call.all_input_nodes:
        return False
    before = layer.call.all_input_nodes[0]
    if kind_of(before) != "dequantize":
        return True
    return run.quantization_of(before) != run.quantization_of(layer.quantize)


def _evaluate(node: fx.Node, module: fx.GraphModule, constants: set[fx.Node], known: dict[fx.Node, Any]) -> Any:
    """Value of a constant node, computed once."""
    if node not in known:
        if node not in constants:
            raise _CannotRunAlone(f"{node.name} is no constant")
        if node.op == "get_attr":
            value = module_attribute(module, str(node.target))
            known[node] = value.detach() if isinstance(value, torch.Tensor) else value
        else:
            args = fx.node.map_arg(node.args, lambda item: _evaluate(item, module, constants, known))
            kwargs = fx.node.map_arg(node.kwargs, lambda item: _evaluate(item, module, constants, known))
            with torch.no_grad():
                known[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    return known[node]
