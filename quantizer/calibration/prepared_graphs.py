"""Graphs whose annotations became observers, or whose observers became integers, with the bodies of their loops."""

import contextlib
import types
from collections.abc import Collection, Iterator
from typing import Any

from executorch_py.quantizer.rules.loops import (
    BODIES,
    bodies_of,
    body_name,
    held_in_bodies,
    known_in_bodies,
    run_by,
    scan,
    turns,
)
from executorch_py.quantizer.spec.pt2e import Quantizer, convert_prepared, node_name_to_scope
from torch import fx, nn

from executorch_py.errors import InvalidStateError

from . import batch_norm, fake_quantization
from .half_range import keep_far_values_in_float
from .insertion import insert_observers, replace_by_quantization
from .observer_calls import observers_of
from .outputs import keep_ends_of_outputs

#: In ``GraphModule.meta``: this package has folded its batch norms, or will.
OURS = "executorch_py.norms_are_ours"


def prepare_graph(model: fx.GraphModule, quantizer: Quantizer, is_body: bool = False) -> fx.GraphModule:
    """A graph with observers; ``model`` is used up. The code of the module is written when it first runs."""
    batch_norm.fold(model)
    return _without_modes(_prepared(model, quantizer, is_qat=False, is_body=is_body))


def prepare_graph_for_training(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """A graph with fake quantization; ``model`` is used up."""
    prepared = _prepared(model, quantizer, is_qat=True)
    fake_quantization.as_converted(prepared)
    batch_norm.let_train_and_eval_work(prepared)
    return prepared


def _prepared(model: fx.GraphModule, quantizer: Quantizer, is_qat: bool, is_body: bool = False) -> fx.GraphModule:
    meta, scopes = dict(model.meta), node_name_to_scope(model)
    model = quantizer.transform_for_annotation(model)
    quantizer.annotate(model)
    if not is_body:
        quantizer.validate(model)
    if is_qat:
        batch_norm.open_for_training(model)
    prepared = insert_observers(model, scopes, is_qat=is_qat, obs_or_fq_callback=quantizer.prepare_obs_or_fq_callback)
    prepared.meta.update({**meta, OURS: True})
    if not is_body:
        keep_ends_of_outputs(prepared)
    prepare_bodies(prepared, quantizer, is_qat, (scan,) if is_qat else BODIES)  # no gradients go through while_loop
    return prepared


def prepare_bodies(prepared: fx.GraphModule, quantizer: Quantizer, is_qat: bool, loops: Collection[Any]) -> None:
    """Puts observers into the bodies of ``loops``, in place, which the graph runs turn by turn from here on.

    A model that trains keeps its parameters where they are; bodies read them as operands.
    """
    known_in_bodies(prepared)
    if not is_qat:
        held_in_bodies(prepared)
    for node, body in bodies_of(prepared):
        if node.target not in loops:
            continue
        prepared_body = (
            _prepared(body, quantizer, is_qat=True, is_body=True)
            if is_qat
            else prepare_graph(body, quantizer, is_body=True)
        )
        setattr(prepared, body_name(node), prepared_body)
        _share_observers(prepared, node, prepared_body)
    run_by(prepared, turns)


def _share_observers(prepared: fx.GraphModule, loop: fx.Node, body: fx.GraphModule) -> None:
    """What goes through a loop item by item has the scale that it has as a whole."""
    if loop.target is not scan:
        return
    _, initial, scanned, _ = loop.args
    inputs = [node for node in body.graph.nodes if node.op == "placeholder"]
    for whole, item in zip(scanned, inputs[len(initial) :], strict=False):
        if whole.op != "call_module":
            continue
        observer = prepared.get_submodule(whole.target)
        for reader in item.users:
            if reader.op == "call_module" and _is_like(body.get_submodule(reader.target), observer):
                setattr(body, reader.target, observer)


def _is_like(observer: nn.Module, other: nn.Module) -> bool:
    """Whether two observers choose scales in one way."""
    names = ("dtype", "quant_min", "quant_max", "qscheme", "is_dynamic")
    return type(observer) is type(other) and all(
        getattr(observer, name, None) == getattr(other, name, None) for name in names
    )


def convert_graph(
    model: fx.GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> fx.GraphModule:
    """A prepared graph with quantize and dequantize nodes; its loops hold what their bodies read. Uses ``model`` up."""
    if not model.meta.get(OURS):
        return convert_prepared(model, use_reference_representation, fold_quantize)
    with closed(model, use_reference_representation, fold_quantize):
        converted = replace_by_quantization(model, use_reference_representation, fold_quantize)
    batch_norm.shown(converted)
    return _without_modes(converted)


@contextlib.contextmanager
def closed(model: fx.GraphModule, use_reference_representation: bool, fold_quantize: bool) -> Iterator[None]:
    """Makes a prepared graph ready for the conversion of its own nodes, which runs inside.

    Its norms are folded, it does not train, and the bodies of its loops are converted. ``batch_norm.shown`` follows.
    """
    batch_norm.close_after_training(model)
    batch_norm.set_training(model, False)
    keep_far_values_in_float(model)
    held_in_bodies(model)
    for node, body in bodies_of(model):
        if any(True for _ in observers_of(body)):
            converted_body = convert_graph(body, use_reference_representation, fold_quantize)
            setattr(model, body_name(node), converted_body)
    run_by(model, scan)
    with _nested_bodies_kept(model), batch_norm.hidden_from_torchao(model):
        yield


def _without_modes(module: fx.GraphModule) -> fx.GraphModule:
    """Has a module stay in evaluation mode, which is part of its graph."""

    def train(self: fx.GraphModule, mode: bool = True) -> fx.GraphModule:
        if mode:
            raise InvalidStateError(
                "the module was exported as the model evaluates, and train() cannot change that; prepare_qat (or "
                "prepare_qat_pt2e) prepares a model for training"
            )
        return self

    module.train = types.MethodType(train, module)  # type: ignore[method-assign]
    module.eval = types.MethodType(lambda self: self, module)  # type: ignore[method-assign]
    return module


@contextlib.contextmanager
def _nested_bodies_kept(module: fx.GraphModule) -> Iterator[None]:
    """While active, bodies of control flow inside of bodies are attributes, not submodules.

    torch's ``delete_all_unused_submodules``, which torchao calls, looks for users in the outermost graph only and drops
    them.
    """
    hidden: list[tuple[nn.Module, str, nn.Module]] = []

    def hide(body: fx.GraphModule) -> None:
        for name, inner in [*body.named_children()]:
            if isinstance(inner, fx.GraphModule):
                hide(inner)
                del body._modules[name]
                object.__setattr__(body, name, inner)
                hidden.append((body, name, inner))

    for body in module.children():
        if isinstance(body, fx.GraphModule):
            hide(body)
    try:
        yield
    finally:
        for body, name, inner in hidden:
            object.__delattr__(body, name)
            body.add_module(name, inner)
