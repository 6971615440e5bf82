"""Observers in an annotated graph, and quantize and dequantize in their place: torchao's steps, each of them once.

torchao reads the device of all of a model's parameters at each observer, counts names from zero and writes the
graph's code after each step. So its time grows with the square of the layers. What it says of annotations holds here:
which tensors share an observer (its own function decides), and where it stands.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from executorch_py.quantizer.rules.lifting import LazyGraphModule
from executorch_py.quantizer.rules.matching import place_of
from executorch_py.quantizer.spec.pt2e import (
    ANNOTATION,
    DerivedQuantizationSpec,
    DuplicateDQPass,
    EdgeOrNode,
    PortNodeMetaForQDQ,
    QuantizationSpec,
    QuantizationSpecBase,
    SharedQuantizationSpec,
    constant_fold,
    groups_of_shared,
    is_quantize,
    is_written_buffer,
    make_observer,
    reference_representation_rewrite,
    replace_observers,
    specs_in,
)
from torch import fx, nn
from torch._subclasses import FakeTensor
from torch.ao.quantization import QConfigMapping
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.fx.prepare import _save_state as save_state

from executorch_py.errors import InvalidArgumentError, NotSupportedError

#: Observers have this name and a number.
_NAME = "activation_post_process_"


def insert_observers(
    model: fx.GraphModule,
    scopes: dict[str, tuple[str, type]],
    is_qat: bool,
    obs_or_fq_callback: Callable[[fx.GraphModule, dict[EdgeOrNode, Any]], None] | None = None,
) -> fx.GraphModule:
    """A module with an observer wherever an annotation wants one; ``model`` is used up.

    Args:
        model: An annotated graph.
        scopes: Node name -> the module that it stands in, and its class.
        is_qat: The annotations mean fake quantization where they fix a scale.
        obs_or_fq_callback: Sees the observers before they are put in, and may exchange them.

    Raises:
        InvalidArgumentError: A specification that shares a scale with, or derives it from, what has none.
        NotSupportedError: A tensor that an annotated operator takes by name.
    """
    specs = specs_in(model)
    observers = _Observers(specs, is_qat).by_place
    if obs_or_fq_callback:
        obs_or_fq_callback(model, observers)
    _Insertion(model, observers).run()
    prepared = LazyGraphModule(model, model.graph)
    save_state(prepared, {}, scopes, PrepareCustomConfig(), {}, QConfigMapping(), is_qat, set())
    return prepared


def replace_by_quantization(
    model: fx.GraphModule, use_reference_representation: bool, fold_quantize: bool
) -> fx.GraphModule:
    """A module with quantize and dequantize nodes in place of observers, and a dequantize for each reader; uses
    ``model`` up.

    Args:
        model: Calibrated, without batch norms that stand open for training.
        use_reference_representation: As in torchao's convert_pt2e.
        fold_quantize: As there.
    """
    meta = model.meta
    converted = LazyGraphModule.from_graphmodule(replace_observers(model))
    DuplicateDQPass().call(converted)
    PortNodeMetaForQDQ().call(converted)
    if fold_quantize:
        constant_fold(converted, is_quantize)
    if use_reference_representation:
        converted = reference_representation_rewrite(converted)
    converted.meta.update(meta)
    return converted


class _Observers:
    """The observers of an annotated graph: one for each set of tensors that share a scale.

    Attributes:
        by_place: Node, for its result, or edge (argument, node) -> the observer.
    """

    def __init__(self, specs: dict[EdgeOrNode, QuantizationSpecBase], is_qat: bool) -> None:
        self._specs, self._is_qat = specs, is_qat
        for place in specs:
            self._root_of(place)
        self._groups: dict[EdgeOrNode, int] = groups_of_shared(specs)
        self._made: dict[int, Any] = {}
        self._waiting: list[EdgeOrNode] = []
        self.by_place: dict[EdgeOrNode, Any] = {}
        for place in specs:
            self.by_place[place] = self._at(place)

    def _root_of(self, place: EdgeOrNode) -> EdgeOrNode:
        """The place whose specification holds for one that shares it, at once or by way of others."""
        seen = [place]
        while isinstance(spec := self._specs[seen[-1]], SharedQuantizationSpec):
            if spec.edge_or_node not in self._specs:
                raise InvalidArgumentError(_leads_nowhere(seen[-1], spec.edge_or_node))
            if spec.edge_or_node in seen:
                raise InvalidArgumentError(_in_a_circle([*seen, spec.edge_or_node]))
            seen.append(spec.edge_or_node)
        return seen[-1]

    def _at(self, place: EdgeOrNode) -> Any:
        group = self._groups[place]
        if group not in self._made:
            if place in self._waiting:
                raise InvalidArgumentError(_in_a_circle([*self._waiting, place]))
            self._waiting.append(place)
            self._made[group] = self._observer(place, self._specs[self._root_of(place)])
            self._waiting.pop()
        return self._made[group]

    def _observer(self, place: EdgeOrNode, spec: QuantizationSpecBase) -> Any:
        if isinstance(spec, DerivedQuantizationSpec):
            for source in spec.derived_from:
                if source not in self._specs:
                    raise InvalidArgumentError(_leads_nowhere(place, source))
                self.by_place[source] = self._at(source)
        if not isinstance(spec, QuantizationSpec):
            return make_observer(spec, self.by_place, self._is_qat)
        options = {field.name: getattr(spec, field.name) for field in fields(spec)}
        constructor = options.pop("observer_or_fake_quant_ctr")
        kind = getattr(getattr(constructor, "p", None), "func", constructor)
        if "PerChannel" not in kind.__name__:
            del options["ch_axis"]
        return constructor.with_args(**options)()


def _leads_nowhere(place: EdgeOrNode, target: EdgeOrNode) -> str:
    return (
        f"{_described(place)} has its scale from {_described(target)}, which has no quantization specification; "
        "annotate that (the node's output_qspec, or the argument's entry in the reader's input_qspec_map), or give a "
        "QuantizationSpec here"
    )


def _in_a_circle(places: list[EdgeOrNode]) -> str:
    chain = ", which has it from ".join(_described(place) for place in places[1:])
    return (
        f"{_described(places[0])} has its scale from {chain}: a circle, in which nobody says what the scale is; give "
        "one of them a QuantizationSpec"
    )


def _described(place: EdgeOrNode) -> str:
    if isinstance(place, fx.Node):
        return f"the result of {place_of(place)}, node '{place.name}',"
    if isinstance(place, tuple) and len(place) == 2 and all(isinstance(node, fx.Node) for node in place):
        return f"the argument '{place[0].name}' of {place_of(place[1])}, node '{place[1].name}',"
    return f"{place!r:.80} (no node and no pair of an argument and its reader)"


class _Insertion:
    """One walk over a graph that puts observers in."""

    def __init__(self, model: fx.GraphModule, observers: dict[EdgeOrNode, Any]) -> None:
        self._model, self._graph, self._observers = model, model.graph, observers
        self._buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
        self._device = _device_of(model)
        self._observed: dict[fx.Node, fx.Node] = {}  # an observer's call -> what it observes
        self._modules: dict[fx.Node, Any] = {}
        self._count = 0

    def run(self) -> None:
        for node in list(self._graph.nodes):
            if node.meta.get(ANNOTATION) is None:
                continue
            for name, value in node.kwargs.items():
                if _holds_node(value):
                    raise NotSupportedError(
                        f"{place_of(node)} takes the tensor {name} by name, and annotations are of arguments by "
                        "position"
                    )
            node.args = tuple(self._taken(node, argument) for argument in node.args)
            if node in self._observers and isinstance(node.meta.get("val"), FakeTensor):
                readers = list(node.users)
                seen = self._observe(node, self._observers[node])
                seen.meta.update({key: node.meta[key] for key in ("from_node",) if key in node.meta})
                for reader in readers:
                    reader.replace_input_with(node, seen)

    def _taken(self, node: fx.Node, argument: Any) -> Any:
        """What stands for an argument: what observes it."""
        if isinstance(argument, (list, tuple)):
            return type(argument)(self._taken(node, one) for one in argument)
        if not isinstance(argument, fx.Node):
            return argument
        source = argument
        while source in self._observed:
            source = self._observed[source]
        observer = self._observers.get((source, node))
        if observer is None or observer is self._observers.get(source):
            return argument
        if is_written_buffer(node, source, self._buffers):
            return argument
        for user in argument.users:
            if self._modules.get(user) is observer:
                return user
        return self._observe(argument, observer)

    def _observe(self, node: fx.Node, observer: nn.Module) -> fx.Node:
        while hasattr(self._model, name := f"{_NAME}{self._count}"):
            self._count += 1
        self._model.add_module(name, observer if self._device is None else observer.to(self._device))
        with self._graph.inserting_after(node):
            call = self._graph.call_module(name, (node,))
        self._observed[call], self._modules[call] = node, observer
        self._count += 1
        return call


def _holds_node(value: Any) -> bool:
    found: list[fx.Node] = []
    fx.map_arg(value, found.append)
    return bool(found)


def _device_of(model: nn.Module) -> torch.device | None:
    """Where a model is; None where it has no tensors or lies on several devices."""
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    return devices.pop() if len(devices) == 1 else None
