"""Variants of one quantized model, each with other layers left in float: what sweeps and accuracy control choose from.

The model is prepared, calibrated and converted once. A variant is a copy of the graph in which the edges of some layers
go around their quantize and dequantize nodes and take the float weight; weights and calibration are shared. So a
variant costs milliseconds, has the very scales of the full model, and can be lowered like any converted model.

>>> candidates = Candidates.of(model, example_inputs, "static_int8", calibration_data)  # doctest: +SKIP
>>> module = candidates.module(float_layers=["head"])  # doctest: +SKIP
>>> program = candidates.program(float_layers=["head"])  # doctest: +SKIP
>>> program = candidates.program(float_layers=["head"], instead="dynamic_int8")  # see fallbacks.py  # doctest: +SKIP

A *layer* is what a quantizer annotates as a unit, such as a convolution with its relu. It is named by its module path
("layer1.0.conv1") or, where the model has no module of its own for it, by its node ("add_3"). What stands in one module
and is no module itself is one layer. Operators that only hand on quantized values (pooling, views) follow the layer
before them. Nodes in the body of a loop have the names that ``count_macs`` gives them ("scan_combine_graph_0.linear").
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from executorch_py.quantizer.calibration.biases import round_biases
from executorch_py.quantizer.flow import flow
from executorch_py.quantizer.rules.input_parts import share_input_scales
from executorch_py.quantizer.rules.lifting import constant_value, copied, lift
from executorch_py.quantizer.rules.loops import (
    bodies_of,
    body_name,
    given_to_bodies,
    held_in_bodies,
    known_in_bodies,
    run_by,
    turns,
)
from executorch_py.quantizer.rules.matching import is_constant
from executorch_py.quantizer.spec.pt2e import ANNOTATION, SharedQuantizationSpec
from torch import fx
from torch.export import ExportedProgram

from executorch_py.devtools.quantization.report import quantization_report
from executorch_py.devtools.quantization.table import QuantizationReport
from executorch_py.devtools.quantization.task_metric import Metric
from executorch_py.errors import InternalError, InvalidArgumentError
from executorch_py.graphs.macs import count_macs
from executorch_py.graphs.nodes import (
    constant_nodes,
    iterate_arguments,
    kind_of,
    op_name,
)
from executorch_py.graphs.sources import source_of
from executorch_py.graphs.state import own_state

from .fallbacks import Fallback, can_be_dynamic, has_8_bits, in_half, is_narrow, quantized_at_run_time, with_8_bits

__all__ = ["Candidates", "Layer", "float_filter", "layer_name"]


def layer_name(node: fx.Node) -> str:
    """Name of the layer that a node belongs to: its module's path, or its own name at the top of the model."""
    return source_of(node).module_path or node.name


def float_filter(names: Collection[str]) -> Callable[[fx.Node], bool]:
    """For ``XNNPACKQuantizer.set_filter_function``: leaves the named layers in float.

    >>> quantizer.set_filter_function(float_filter(report.most_sensitive(3)))  # doctest: +SKIP
    """
    chosen = frozenset(names)
    return lambda node: layer_name(node) not in chosen


@dataclass
class Layer:
    """What is quantized or left in float as one.

    Attributes:
        name: See the head of this file; or the name of a group.
        nodes: Names of its nodes in the quantized graph.
        operators: "conv2d, relu".
        source: "model.py:12" of its first node.
        macs: Multiply-accumulates of one call.
    """

    name: str
    nodes: list[str] = field(default_factory=list)
    operators: str = ""
    source: str = ""
    macs: int = 0


@dataclass
class _Annotated:
    """What the quantizer said of a node, by names: the graph that it said it of is gone after conversion."""

    operator: str
    layer: str
    source: str
    inputs: frozenset[str]  # operands that it wants quantized, in its own graph
    is_output_quantized: bool
    follows: list[str]  # nodes whose layer decides, for operators that only hand values on
    weights: dict[str, tuple[str, Any]] = field(default_factory=dict)  # observer -> constant behind it, its value


class Candidates:
    """See the head of this file."""

    def __init__(
        self,
        base: fx.GraphModule,
        program: ExportedProgram,
        annotated: dict[str, _Annotated],
        layer_of: dict[str, str],
        layers: list[Layer],
        integer_macs: dict[str, int],
        total_macs: int,
    ) -> None:
        self._base, self._float_program = base, program
        self._annotated, self._layer_of = annotated, layer_of
        self.layers = layers
        self._dequantized: dict[str, Any] = {}  # name of a weight's dequantize -> its result
        self._integer_macs, self.total_macs = integer_macs, total_macs
        weighted = {name: node for name, node in _nodes(base) if name in annotated and annotated[name].weights}
        self._products = set(weighted)
        #: Fallback -> for which of these it makes a difference.
        self._fitting: dict[Fallback, set[str]] = {
            "float32": set(),
            "dynamic_int8": {name for name, node in weighted.items() if can_be_dynamic(node)},
            "int8_weight_only": {name for name, node in weighted.items() if is_narrow(node.args[1])},
            "float16": self._products,
        }

    @classmethod
    def of(
        cls,
        model: Any,
        example_inputs: tuple[Any, ...] = (),
        config_or_quantizer: Any = "static_int8",
        calibration_data: Iterable[Any] | None = None,
        *,
        example_kwargs: dict[str, Any] | None = None,
        dynamic_shapes: Any = None,
        transform: Callable[[Any], Any] | None = None,
        groups: Mapping[str, str | Sequence[str]] | None = None,
        progress: bool = False,
    ) -> Candidates:
        """Quantizes a model; arguments and errors as in :func:`executorch_py.quantizer.quantize`.

        Args:
            model: The float model or its exported program.
            example_inputs: As in ``quantize``.
            config_or_quantizer: As in ``quantize``.
            calibration_data: As in ``quantize``.
            example_kwargs: As in ``quantize``.
            dynamic_shapes: As in ``quantize``.
            transform: As in ``quantize``.
            groups: Name -> patterns of layer names (``"encoder.0.*"``) that are one layer together; the first that fits
                counts.
            progress: As in ``quantize``.

        Raises:
            InvalidArgumentError: A group's pattern fits no layer; nothing is quantized to integers.
        """
        prepared = flow.prepare(
            model, example_inputs, config_or_quantizer, example_kwargs=example_kwargs, dynamic_shapes=dynamic_shapes
        )
        program = prepared.meta[flow.PROGRAM]
        if flow.needs_data(prepared) or (calibration_data is not None and flow.wants_moments(prepared)):
            if calibration_data is None:
                raise InvalidArgumentError("static quantization measures activations: give calibration_data")
            flow.calibrate(prepared, calibration_data, transform=transform, progress=progress)
        annotated = _annotations(prepared)
        base = lift(*flow.converted_graph(prepared)).module(check_guards=False)
        assert isinstance(base, fx.GraphModule)
        known_in_bodies(base)
        held_in_bodies(base)
        nodes = dict(_nodes(base))
        for name, says in annotated.items():
            if name not in nodes or op_name(nodes[name]) != says.operator:
                raise InternalError(f"node {name} of the prepared graph is not in the converted one")
        layer_of = _layers_of(annotated, groups or {})
        inputs = (
            program.example_inputs if program.example_inputs is not None else (example_inputs, example_kwargs or {})
        )
        macs = count_macs(base, *inputs)
        layers: dict[str, Layer] = {}
        for name, layer in layer_of.items():
            entry = layers.setdefault(layer, Layer(layer, source=annotated[name].source))
            entry.nodes.append(name)
        for entry in layers.values():
            entry.operators = ", ".join(dict.fromkeys(annotated[name].operator for name in entry.nodes))
            entry.macs = sum(row.macs for row in macs.layers if layer_of.get(row.name) == entry.name)
        integer = {row.name: row.macs for row in macs.layers if row.numbers == "integer"}
        found = cls(base, program, annotated, layer_of, list(layers.values()), integer, macs.total)
        if not layers or not any(kind_of(node) for node in nodes.values()):
            raise InvalidArgumentError("the configuration makes no integers, so there is nothing to choose between")
        return found

    @property
    def names(self) -> list[str]:
        """Names of the layers, in the order of the graph."""
        return [layer.name for layer in self.layers]

    def integer_share(self, float_layers: Collection[str] = (), instead: Fallback = "float32") -> float:
        """Share of the multiply-accumulates between integers, 0 to 1."""
        done = 0
        for name, macs in self._integer_macs.items():
            is_dynamic = instead == "dynamic_int8" and name in self._fitting[instead]
            done += macs if is_dynamic or self._layer_of.get(name) not in float_layers else 0
        return done / self.total_macs if self.total_macs else 0.0

    def can_be(self, float_layers: Collection[str], instead: Fallback) -> bool:
        """Whether ``instead`` makes a difference for one of these layers."""
        return any(self._layer_of.get(name) in float_layers for name in self._fitting[instead])

    def module(self, float_layers: Collection[str] = (), instead: Fallback = "float32") -> fx.GraphModule:
        """The converted graph with these layers in float; all of ``names`` gives the float model.

        Args:
            float_layers: Names of layers.
            instead: What convolutions and linear layers among them compute in (fallbacks.py); the others are in
                float32.

        Raises:
            InvalidArgumentError: A name is no layer.
        """
        module = self._variant(float_layers, instead)
        given_to_bodies(module)
        return module

    def _variant(self, float_layers: Collection[str], instead: Fallback) -> fx.GraphModule:
        """As :meth:`module`, with the constants of loops in their bodies."""
        unknown = sorted(set(float_layers) - set(self.names))
        if unknown:
            raise InvalidArgumentError(
                f"{unknown[0]!r} is no layer of the model; layers are {', '.join(self.names[:20])}, …"
            )
        module = _copied(self._base)
        for prefix, graph in _graphs(module):
            _Rewiring(self, graph, prefix, frozenset(float_layers), instead).run()
        share_input_scales(module)
        for _, graph in _graphs(module):
            round_biases(graph)
        return module

    def runnable(self, float_layers: Collection[str] = (), instead: Fallback = "float32") -> fx.GraphModule:
        """:meth:`module` for many calls: weights are dequantized once, for all variants together, not at each call.

        The results are those of ``module``, bit for bit; the weights are in memory once more, in float.
        """
        module = own_state(self._variant(float_layers, instead))
        for prefix, graph in _graphs(module):
            self._dequantize_once(prefix, graph)
            run_by(graph, turns)
        return module

    def _dequantize_once(self, prefix: str, module: fx.GraphModule) -> None:
        constants = constant_nodes(module)
        for node in list(module.graph.nodes):
            if node not in constants or kind_of(node) != "dequantize" or not node.users:
                continue
            if prefix + node.name not in self._dequantized:
                self._dequantized[prefix + node.name] = constant_value(module, node)
            name = f"_dequantized_{node.name}"
            module.register_buffer(name, self._dequantized[prefix + node.name], persistent=False)
            with module.graph.inserting_before(node):
                made = module.graph.get_attr(name)
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
        module.graph.eliminate_dead_code()
        module.recompile()

    def program(self, float_layers: Collection[str] = (), instead: Fallback = "float32") -> ExportedProgram:
        """The same as a program, for ``to_edge_transform_and_lower``."""
        return lift(self._variant(float_layers, instead), self._float_program)

    def report(
        self,
        data: Iterable[Any],
        float_layers: Collection[str] = (),
        *,
        transform: Callable[[Any], Any] | None = None,
        program: Any = None,
        metric: Metric | None = None,
    ) -> QuantizationReport:
        """:func:`et.quantization_report` of this configuration.

        The float model is in the form that the quantizer gave it (recurrent layers as loops, attention taken apart), so
        that every layer has its counterpart.

        Args:
            data: Inputs, as there.
            float_layers: Layers that are left in float.
            transform: As there.
            program: As there.
            metric: As there.
        """
        floats, quantized = self.module(self.names), self.module(float_layers)
        return quantization_report(floats, quantized, data, transform=transform, program=program, metric=metric)

    @property
    def float_program(self) -> ExportedProgram:
        """The exported model before quantization."""
        return self._float_program


def _graphs(module: fx.GraphModule, prefix: str = "") -> Iterator[tuple[str, fx.GraphModule]]:
    """A module and the bodies of its loops, each with what stands in front of its nodes' names."""
    yield prefix, module
    for node, body in bodies_of(module):
        yield from _graphs(body, f"{prefix}{body_name(node)}.")


def _nodes(module: fx.GraphModule) -> Iterator[tuple[str, fx.Node]]:
    for prefix, graph in _graphs(module):
        for node in graph.graph.nodes:
            yield prefix + node.name, node


def _copied(module: fx.GraphModule) -> fx.GraphModule:
    """A module with graphs of its own, and the same constants."""
    result = fx.GraphModule(module, copied(module.graph))
    for node, body in bodies_of(module):
        setattr(result, body_name(node), _copied(body))
    return result


def _annotations(prepared: fx.GraphModule) -> dict[str, _Annotated]:
    """What the quantizer said of each node of a prepared module."""
    found: dict[str, _Annotated] = {}
    for prefix, graph in _graphs(prepared):
        inside = _annotations_of(graph, prefix)
        _join_chains(graph, prefix, inside)
        found.update(inside)
    return found


def _annotations_of(graph: fx.GraphModule, prefix: str) -> dict[str, _Annotated]:
    found: dict[str, _Annotated] = {}
    values: dict[fx.Node, Any] = {}
    alive = _alive(graph.graph)
    for node in graph.graph.nodes:
        says = node.meta.get(ANNOTATION)
        if node.op != "call_function" or says is None or node not in alive:
            continue
        wanted = {key.name for key, spec in says.input_qspec_map.items() if spec is not None}
        source = source_of(node)
        entry = _Annotated(
            operator=op_name(node),
            layer=layer_name(node),
            source=f"{source.file}:{source.line}" if source.file else "",
            inputs=frozenset(wanted),
            is_output_quantized=says.output_qspec is not None,
            follows=[prefix + name for name in _followed(says)],
        )
        for index, argument in enumerate(iterate_arguments(node)):
            behind = argument
            while behind.op == "call_module":
                behind = behind.args[0]
            if behind is not argument and is_constant(behind):
                entry.weights[str(index)] = (behind.name, constant_value(graph, behind, values))
        if entry.inputs or entry.is_output_quantized or entry.weights:
            found[prefix + node.name] = entry
        elif getattr(says, "_annotated", False):
            found[prefix + node.name] = entry  # inside a chain
    return found


def _alive(graph: fx.Graph) -> set[fx.Node]:
    """What the outputs depend on, and writes with what they depend on: conversion drops the rest."""
    found: set[fx.Node] = set()
    waiting = [node for node in graph.nodes if node.op == "output" or (node.op == "call_function" and node.is_impure())]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(node.all_input_nodes)
    return found


def _followed(says: Any) -> list[str]:
    """Nodes that decide about one which only hands values on."""
    result, inputs = says.output_qspec, says.input_qspec_map
    if _is_shared(result):
        edge = result.edge_or_node
        return [key.name for key in inputs] or [edge[0].name if isinstance(edge, tuple) else edge.name]
    hands_on = result is None and inputs and all(_is_shared(spec) for spec in inputs.values())
    return [key.name for key in inputs] if hands_on else []


def _is_shared(spec: Any) -> bool:
    return isinstance(spec, SharedQuantizationSpec)


def _join_chains(graph: fx.GraphModule, prefix: str, found: dict[str, _Annotated]) -> None:
    """A chain (convolution, relu) takes the name of its first node."""
    for node in graph.graph.nodes:
        says = found.get(prefix + node.name)
        if says is None or says.is_output_quantized or len(node.users) != 1:
            continue
        user = next(iter(node.users))
        after = found.get(prefix + user.name)
        if after is not None and node.name not in after.inputs and not after.inputs:
            after.layer = says.layer


def _layers_of(annotated: dict[str, _Annotated], groups: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """Node -> layer. Followers belong to the layer of the first operand that has one; see ``_Rewiring.is_active``."""
    layer_of: dict[str, str] = {}
    used: set[str] = set()
    for name, says in annotated.items():
        leaders = [layer_of[other] for other in says.follows if other in layer_of]
        if leaders:
            layer_of[name] = leaders[0]
            continue
        layer = says.layer
        for group, patterns in groups.items():
            chosen = [patterns] if isinstance(patterns, str) else list(patterns)
            fitting = [pattern for pattern in chosen if fnmatch.fnmatchcase(layer, pattern)]
            if fitting:
                used.update(fitting)
                layer = group
                break
        layer_of[name] = layer
    for group, patterns in groups.items():
        chosen = [patterns] if isinstance(patterns, str) else list(patterns)
        if not used.intersection(chosen):
            names = ", ".join(list(dict.fromkeys(says.layer for says in annotated.values()))[:12])
            raise InvalidArgumentError(f"no layer fits the patterns of group {group!r}; layers are {names}, …")
    return layer_of


class _Rewiring:
    """Lets edges of a converted graph, a model's or a body's, go around their q/dq nodes."""

    def __init__(
        self, candidates: Candidates, module: fx.GraphModule, prefix: str, floats: frozenset[str], instead: Fallback
    ) -> None:
        self._all, self._module, self._graph, self._floats = candidates, module, module.graph, floats
        self._prefix = prefix
        self._instead = instead
        self._at_run_time: dict[fx.Node, fx.Node] = {}
        self._wide: dict[str, fx.Node] = {}
        self._constants = constant_nodes(module)
        self._active: dict[str, bool] = {}

    def run(self) -> None:
        for name in self._all._annotated:
            self._active[name] = self._is_active(name)
        nodes = [node for node in self._graph.nodes if node.op in ("call_function", "output") and not kind_of(node)]
        for node in nodes:
            self._rewire(node)
        for node in nodes:
            self._fall_back(node)
        self._graph.eliminate_dead_code()
        self._module.recompile()

    def _name(self, node: fx.Node) -> str:
        return self._prefix + node.name

    def _is_dynamic(self, node: fx.Node) -> bool:
        """Whether a node outside of the quantized layers takes integers made at run time."""
        return (
            self._instead == "dynamic_int8"
            and self._name(node) in self._all._fitting["dynamic_int8"]
            and not self._active.get(self._name(node), True)
        )

    def _fall_back(self, node: fx.Node) -> None:
        if self._is_dynamic(node):
            x = node.args[0]
            assert isinstance(x, fx.Node)
            if x not in self._at_run_time:
                self._at_run_time[x] = quantized_at_run_time(x, node)
            node.args = (self._at_run_time[x], *node.args[1:])
        elif (
            self._instead == "float16" and (name := self._name(node)) in self._all._products and not self._active[name]
        ):
            in_half(node)

    def _is_active(self, name: str) -> bool:
        """Whether a node is computed between integers."""
        says = self._all._annotated[name]
        leaders = [self._active[other] for other in says.follows if other in self._active]
        return any(leaders) if leaders else self._all._layer_of[name] not in self._floats

    def _rewire(self, node: fx.Node) -> None:
        position = -1

        def changed(argument: fx.Node) -> fx.Node:
            nonlocal position
            position += 1
            if kind_of(argument) != "dequantize":
                return argument
            if argument in self._constants and self._is_weight(node, str(position)):
                return self._weight(node, str(position), argument)
            return self._activation(node, argument)

        node.args = fx.node.map_arg(node.args, changed)
        node.kwargs = fx.node.map_arg(node.kwargs, changed)

    def _is_weight(self, node: fx.Node, position: str) -> bool:
        says = self._all._annotated.get(self._name(node))
        return says is not None and position in says.weights

    def _weight(self, node: fx.Node, position: str, argument: fx.Node) -> fx.Node:
        if self._active[self._name(node)] or self._is_dynamic(node):
            return argument
        name, value = self._all._annotated[self._name(node)].weights[position]
        if self._instead == "int8_weight_only":
            if has_8_bits(argument):
                return argument
            if is_narrow(argument):
                if name not in self._wide:
                    self._wide[name] = with_8_bits(self._module, name, value, node)
                return self._wide[name]
        attribute = f"_float_{name}".replace(".", "_")
        if not hasattr(self._module, attribute):
            self._module.register_buffer(attribute, value.detach())  # the same storage in all variants
        with self._graph.inserting_before(node):
            made = self._graph.get_attr(attribute)
        made.meta = {
            key: value for key, value in argument.meta.items() if key in ("val", "nn_module_stack", "stack_trace")
        }
        return made

    def _activation(self, node: fx.Node, argument: fx.Node) -> fx.Node:
        """What ``node`` takes instead of a dequantized value; the value itself where no layer wants it in integers."""
        chain = []  # dequantize nodes from the operand to the value
        value = argument
        while kind_of(value) == "dequantize":
            chain.append(value)
            quantize = value.args[0]
            assert isinstance(quantize, fx.Node)
            if kind_of(quantize) != "quantize":
                return argument  # integers that come from elsewhere
            value = quantize.args[0]  # type: ignore[assignment]
        maker, taker = (self._all._annotated.get(self._name(one)) for one in (value, node))
        for_taker = taker is not None and self._active[self._name(node)] and value.name in taker.inputs
        for_maker = maker is not None and self._active[self._name(value)] and maker.is_output_quantized
        if len(chain) == 1:
            return argument if for_taker or for_maker else value
        inner = chain[-1] if for_maker else value
        if not for_taker:
            return inner
        outer = chain[-2].args[0]
        assert isinstance(outer, fx.Node)
        outer.replace_input_with(chain[-1], inner)
        return argument
