"""prepare_pt2e, prepare_qat_pt2e and convert_pt2e, as torchao has them, with the batch norms folded by batch_norm.py.

torchao folds a batch norm without asking who else reads the layer's result or its weight. These readers then get other numbers.
It fails at transposed convolutions in groups. While a model trains, its norms have an eps and a momentum of torchao's.

>>> prepared = prepare_pt2e(torch.export.export(model, example).module(), quantizer)  # doctest: +SKIP
>>> prepared(*sample)  # doctest: +SKIP
>>> converted = convert_pt2e(prepared)  # doctest: +SKIP
"""

import contextlib
import types
from collections.abc import Iterator

from executorch_py.quantizer.calibration import batch_norm, fake_quantization
from executorch_py.quantizer.calibration.insertion import insert_observers, replace_by_quantization
from executorch_py.quantizer.calibration.torchao_folding import OURS, close
from executorch_py.quantizer.rules.lifting import LazyGraphModule
from executorch_py.quantizer.rules.loops import BODIES, bodies_of, held_in_bodies, scan
from executorch_py.quantizer.spec.pt2e import Quantizer, convert_prepared, node_name_to_scope
from torch import fx, nn

from executorch_py.errors import InvalidStateError


def prepare_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """An exported module with observers, to be shown samples, then :func:`convert_pt2e`; ``model`` is used up.

    Args:
        model: ``torch.export.export(…).module()`` of a model in evaluation mode.
        quantizer: Says what is observed.
    """
    return _written(prepare_graph(model, quantizer))


def prepare_graph(model: fx.GraphModule, quantizer: Quantizer, is_body: bool = False) -> fx.GraphModule:
    """As :func:`prepare_pt2e`, or a part of it; the code of the module is written when it first runs."""
    batch_norm.fold(model)
    return _without_modes(_prepared(model, quantizer, is_qat=False, is_body=is_body))


def prepare_qat_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """An exported module with fake quantization and folded batch norms, to be trained; ``model`` is used up.

    ``train()`` and ``eval()`` work on it.

    Args:
        model: ``torch.export.export(…).module()`` of a model in training mode.
        quantizer: Says what is quantized; with a configuration for training.
    """
    prepared = _prepared(model, quantizer, is_qat=True)
    fake_quantization.as_converted(prepared)
    batch_norm.let_train_and_eval_work(prepared)
    return _written(prepared)


def convert_pt2e(
    model: fx.GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> fx.GraphModule:
    """A prepared module with quantize and dequantize nodes in place of its observers; ``model`` is used up.

    Args:
        model: What :func:`prepare_pt2e` or :func:`prepare_qat_pt2e` made, or torchao's functions of these names.
        use_reference_representation: As in torchao: integer arithmetic in place of the nodes.
        fold_quantize: Weights are stored as integers.
    """
    return _written(convert_graph(model, use_reference_representation, fold_quantize))


def convert_graph(
    model: fx.GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> fx.GraphModule:
    """As :func:`convert_pt2e`; the code of the module is written when it first runs."""
    if not model.meta.get(OURS):
        return convert_prepared(model, use_reference_representation, fold_quantize)
    close(model)
    for node, body in bodies_of(model):
        converted_body = convert_graph(body, use_reference_representation, fold_quantize)
        setattr(model, str(node.args[BODIES[node.target]].target), converted_body)
    with _nested_bodies_kept(model), batch_norm.hidden_from_torchao(model):
        converted = replace_by_quantization(model, use_reference_representation, fold_quantize)
    batch_norm.shown(converted)
    return _without_modes(converted)


def _written(module: fx.GraphModule) -> fx.GraphModule:
    """A module whose code stands, since torch.export refuses to look into one that writes it when it runs."""
    LazyGraphModule.force_recompile(module)
    return module


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


def _prepared(model: fx.GraphModule, quantizer: Quantizer, is_qat: bool, is_body: bool = False) -> fx.GraphModule:
    meta, scopes = dict(model.meta), node_name_to_scope(model)
    model = quantizer.transform_for_annotation(model)
    if not is_qat:
        held_in_bodies(model)
    quantizer.annotate(model)
    if not is_body:
        quantizer.validate(model)
    if is_qat:
        batch_norm.open_for_training(model)
    prepared = insert_observers(model, scopes, is_qat=is_qat, obs_or_fq_callback=quantizer.prepare_obs_or_fq_callback)
    prepared.meta.update({**meta, OURS: True})
    if not is_qat:
        for node, body in bodies_of(prepared):
            prepared_body = prepare_graph(body, quantizer, is_body=True)
            setattr(prepared, str(node.args[BODIES[node.target]].target), prepared_body)
            _share_observers(prepared, node, prepared_body)
    return prepared


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


@contextlib.contextmanager
def _nested_bodies_kept(module: fx.GraphModule) -> Iterator[None]:
    """While active, bodies of control flow inside of bodies are attributes, not submodules.

    torch's ``delete_all_unused_submodules``, which torchao calls, looks for users in the outermost graph only and drops them.
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
