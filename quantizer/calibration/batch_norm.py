"""Batch norms are folded into the convolution or linear layer before them; others become convolutions.

After training: ``fold`` puts them into the weights, before anything is observed. What stands behind no layer (joined
tensors, as in DenseNet, or a sum) is a number to multiply by and one to add for each channel. ``as_convolutions``
writes it as a convolution of 1x1 with a filter a channel, which integers, quantizers and backends know. Its weight has
no error: the weight of a channel is the largest integer times the scale of that channel.

While training: ``open_for_training`` writes a convolution and its batch norm so that what is quantized is the folded
weight,

    y = conv(x, quantized(weight * scale)) * (1 / scale) + bias      scale = gamma / sqrt(running variance + eps)
    z = batch_norm(y)                                                in training mode, statistics follow

and ``close_after_training`` leaves conv(x, weight * scale) with the folded bias. eps and momentum are the model's own,
and it does not matter whether a quantizer has annotated the convolution's result or the batch norm's. torchao's own
folding has eps 1e-5 and momentum 0.1 written into it, and leaves out, without a word, convolutions whose result is
annotated.
"""

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from executorch_py.quantizer.rules.loops import graphs_of
from executorch_py.quantizer.rules.matching import (
    BATCH_NORM,
    CONV,
    CONV_TRANSPOSE,
    LINEAR,
    form_of,
    has_running_statistics,
    is_constant,
    is_float32,
    ops,
    tagged,
)
from executorch_py.quantizer.spec.pt2e import ANNOTATION, DerivedQuantizationSpec, SharedQuantizationSpec
from torch import fx, nn

from executorch_py.graphs.nodes import arguments_of, set_argument

from .fake_quantization import follow

aten = torch.ops.aten

_DROPOUT = tagged("dropout")
_INSTANCE_NORM = ops("instance_norm.default")
_ATTENTION = ops("scaled_dot_product_attention.default")
#: Layers that a batch norm behind them is folded into.
_FOLDING = CONV | CONV_TRANSPOSE | LINEAR
#: What a batch norm over lines and over images is written as.
_CONV_OF_RANK = {3: aten.conv1d.default, 4: aten.conv2d.default}
#: In ``Node.meta``: the dropout of an attention, which has no argument that says whether it trains.
_SHARE = "executorch_py.dropout_share"


class _BatchNorm(NamedTuple):
    """The arguments of aten.batch_norm; the first four beside the input are nodes or None."""

    x: fx.Node
    weight: Any
    bias: Any
    mean: Any
    variance: Any
    training: bool
    momentum: float
    eps: float
    cudnn: bool

    @classmethod
    def of(cls, node: fx.Node) -> "_BatchNorm":
        return cls(*arguments_of(node).values())

    def values(self, model: fx.GraphModule) -> tuple[torch.Tensor, ...]:
        """gamma, beta, running mean and running variance, ones and zeros where there are none."""
        mean, variance = _attribute(model, self.mean), _attribute(model, self.variance)
        gamma = torch.ones_like(mean) if self.weight is None else _attribute(model, self.weight)
        beta = torch.zeros_like(mean) if self.bias is None else _attribute(model, self.bias)
        return gamma, beta, mean, variance


def fold(model: fx.GraphModule) -> None:
    """Folds batch norms in evaluation mode, in place.

    A layer whose result is read beside the norm keeps its numbers, and the norm stays. A weight that other layers read,
    too, is not written to: the layer gets one of its own, which it shares with calls of the same layer before the same
    norm.
    """
    changed = False
    known: dict[Any, dict[str, fx.Node]] = {}
    for node in list(model.graph.nodes):
        if node.target not in BATCH_NORM or not _folds(node):
            continue
        norm = _BatchNorm.of(node)
        layer = norm.x
        weight = arguments_of(layer)["weight"]
        _fold_into(model, layer, weight, _attribute(model, weight), norm, known=known)
        node.replace_all_uses_with(layer)
        model.graph.erase_node(node)
        changed = True
    if changed:
        model.graph.eliminate_dead_code()
        model.recompile()


def as_convolutions(model: fx.GraphModule, wanted: Callable[[fx.Node], bool]) -> fx.GraphModule:
    """Writes batch norms in evaluation mode over lines and images as convolutions, in place, where ``wanted(node)``.

    The node stays, with its name, module and source line. Not for the first operator of a model: its input would be
    rounded once more, and no integers come before it.
    """
    changed = False
    for node in model.graph.nodes:
        target = _CONV_OF_RANK.get(node.meta["val"].dim()) if node.target in BATCH_NORM else None
        if target is None or not _stands_alone(node) or _folds(node) or not wanted(node):
            continue
        norm = _BatchNorm.of(node)
        gamma, beta, mean, variance = norm.values(model)
        with torch.no_grad():
            scale = gamma / torch.sqrt(variance + norm.eps)
            tensors = {"weight": scale.reshape(-1, *[1] * (node.meta["val"].dim() - 1)), "bias": beta - mean * scale}
        new = []
        with model.graph.inserting_before(node):
            for part, tensor in tensors.items():
                name = f"_folded_{node.name}_{part}"
                model.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
                new.append(model.graph.get_attr(name))
                with norm.mean.meta["val"].fake_mode:
                    new[-1].meta["val"] = torch.empty_like(tensor)
        spatial = node.meta["val"].dim() - 2
        node.target = target
        node.args, node.kwargs = (norm.x, *new, [1] * spatial, [0] * spatial, [1] * spatial, gamma.numel()), {}
        changed = True
    if changed:
        model.graph.eliminate_dead_code()
        model.recompile()
    return model


def open_for_training(model: fx.GraphModule) -> None:
    """Writes the form above, in place, after the quantizer has annotated the graph."""
    for node in list(model.graph.nodes):
        if node.target not in BATCH_NORM or not _fits(node, CONV | CONV_TRANSPOSE):
            continue
        norm = _BatchNorm.of(node)
        layer, graph = norm.x, model.graph
        _, weight, bias, *_ = arguments_of(layer).values()
        rank = weight.meta["val"].dim()
        by_channel = [1, -1] + [1] * (rank - 2)
        with graph.inserting_before(layer):
            deviation = _call(layer, aten.sqrt.default, _call(layer, aten.add.Tensor, norm.variance, norm.eps))
            inverse = _call(layer, aten.reciprocal.default, deviation)
            scale = inverse if norm.weight is None else _call(layer, aten.mul.Tensor, inverse, norm.weight)
            factor = _for_filter(scale, layer, weight.meta["val"].shape, functools.partial(_call, layer))
            scaled = _call(layer, aten.mul.Tensor, weight, factor)
        set_argument(layer, "weight", scaled)
        set_argument(layer, "bias", None)
        with graph.inserting_before(node):
            # Dividing the images would take their gradient three passes more.
            back = _call(layer, aten.reciprocal.default, _call(layer, aten.reshape.default, scale, by_channel))
            result = _call(layer, aten.mul.Tensor, layer, back)
            if bias is not None:
                result = _call(layer, aten.add.Tensor, result, _call(layer, aten.reshape.default, bias, by_channel))
        set_argument(node, "input", result)
        _move_annotation(graph, layer, node, weight, scaled, bias)
    model.recompile()


def close_after_training(prepared: fx.GraphModule) -> None:
    """Folds what ``open_for_training`` has opened, with the statistics as they are now, in place."""
    graph = prepared.graph
    if not any(node.target in (*BATCH_NORM, aten.add_.Tensor) for node in graph.nodes):
        return
    for node in list(graph.nodes):
        if node.target in BATCH_NORM and (found := _opened(prepared, node)) is not None:
            layer, weight, bias = found
            _fold_into(prepared, layer, weight, _attribute(prepared, weight.args[0]), _BatchNorm.of(node), bias)
            node.replace_all_uses_with(layer)
            graph.erase_node(node)
    for node in reversed(graph.nodes):  # the count of batches, which training mode keeps: once for each call of a norm
        if node.target is aten.add_.Tensor and _counts_batches(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    graph.eliminate_dead_code()
    prepared.recompile()


@contextlib.contextmanager
def hidden_from_torchao(module: fx.GraphModule) -> Iterator[None]:
    """While active, batch norms that are left are calls of a function that torchao does not know; ``shown`` brings them
    back.

    Where torchao's conversion sees one (in front of its convolution, say), it exports 96 patterns of its own training
    to look for them, which takes half a minute. What is folded is folded before.
    """
    _exchange(module, aten.batch_norm.default, _batch_norm)
    try:
        yield
    except BaseException:
        shown(module)
        raise


def shown(module: fx.GraphModule) -> None:
    """Brings back what ``hidden_from_torchao`` has hidden, in place."""
    _exchange(module, _batch_norm, aten.batch_norm.default)


def _batch_norm(*args: Any) -> Any:
    return aten.batch_norm.default(*args)


def _exchange(module: fx.GraphModule, old: Any, new: Any) -> None:
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            for node in part.graph.nodes:
                if node.op == "call_function" and node.target is old:
                    node.target = new
            part.recompile()


def is_in_training(node: fx.Node) -> bool:
    """Whether a norm with running statistics or a dropout computes as it does while a model trains."""
    name = _mode_of(node)
    return bool(name) and arguments_of(node)[name] is True


def _mode_of(node: fx.Node) -> str:
    """The argument that says whether a norm with running statistics or a dropout trains; empty for others."""
    if node.target in BATCH_NORM | _INSTANCE_NORM:
        return ("training" if node.target in BATCH_NORM else "use_input_stats") if has_running_statistics(node) else ""
    return "train" if node.target in _DROPOUT else ""


def _share_of(attention: fx.Node) -> Any:
    """The dropout of an attention while it trains."""
    return attention.meta.setdefault(_SHARE, arguments_of(attention)["dropout_p"])


def let_train_and_eval_work(prepared: fx.GraphModule) -> None:
    """Gives an exported module ``train`` and ``eval``: its batch norms, dropouts and fake quantizers are told which it
    is.

    torchao's own way puts other batch norms in their place, with its eps and momentum.
    """
    prepared.train = types.MethodType(switch, prepared)  # type: ignore[method-assign]
    prepared.eval = types.MethodType(lambda self: self.train(False), prepared)  # type: ignore[method-assign]


def switch(prepared: fx.GraphModule, mode: bool = True) -> fx.GraphModule:
    """Has a module with fake quantization train, or be evaluated, from here on."""
    set_training(prepared, mode)
    follow(prepared, mode)
    return prepared


def set_training(model: fx.GraphModule, mode: bool) -> None:
    """Says to norms with running statistics, dropouts and attentions of a module and its loops whether it trains."""
    for graph in graphs_of(model):
        for node in graph.graph.nodes:
            if name := _mode_of(node):
                set_argument(node, name, mode)
            elif node.target in _ATTENTION and (share := _share_of(node)):
                set_argument(node, "dropout_p", share if mode else 0.0)
        graph.recompile()


def _fits(node: fx.Node, layers: frozenset[Any]) -> bool:
    """Whether a batch norm is the only reader of a layer, and the numbers of both are attributes that the model never
    writes.

    In training mode the statistics are written, by the norm itself.
    """
    layer = node.args[0]
    if not isinstance(layer, fx.Node) or layer.target not in layers or len(layer.users) != 1:
        return False
    norm, (_, weight, bias, *_) = _BatchNorm.of(node), arguments_of(layer).values()
    needed, optional = [weight, norm.mean, norm.variance], [bias, norm.weight, norm.bias]
    held = needed + [one for one in optional if one is not None]
    if not all(isinstance(one, fx.Node) and one.op == "get_attr" for one in held):
        return False
    return norm.training is True or all(is_constant(one) for one in held)


def _folds(node: fx.Node) -> bool:
    """Whether ``fold`` takes a batch norm: behind a linear layer, both must work along one dimension."""
    norm = _BatchNorm.of(node)
    is_flat = norm.x.target not in LINEAR or norm.x.meta["val"].dim() == 2
    return is_flat and not norm.training and _fits(node, _FOLDING)


def _stands_alone(node: fx.Node) -> bool:
    """Whether a batch norm in evaluation mode with numbers of the module takes what an operator of the graph has
    computed.
    """
    norm = _BatchNorm.of(node)
    if norm.training or norm.x.op != "call_function" or not is_float32(norm.x):
        return False
    state = [one for one in norm[1:5] if one is not None]
    return isinstance(norm.mean, fx.Node) and all(one.op == "get_attr" and is_constant(one) for one in state)


def _fold_into(
    model: fx.GraphModule,
    layer: fx.Node,
    old: fx.Node,
    weight: torch.Tensor,
    norm: _BatchNorm,
    bias: Any = None,
    known: dict[Any, dict[str, fx.Node]] | None = None,
) -> None:
    """Puts a batch norm into a layer: ``old`` is the node that the folded weight stands for, ``known`` what was folded
    before.
    """
    if bias is None:
        bias = arguments_of(layer)["bias"]
    key = (old, bias, form_of(layer), norm[1:])
    new = {} if known is None else known.setdefault(key, {})
    if not new:
        gamma, beta, mean, variance = norm.values(model)
        before = 0 if bias is None else _attribute(model, bias)
        with torch.no_grad():
            # To the bit as in training: the largest int4 is a tie.
            scale = torch.sqrt(variance + norm.eps).reciprocal() * gamma
            folded = {
                "weight": weight * _for_filter(scale, layer, weight.shape, _run),
                "bias": beta + (before - mean) * scale,
            }
        with model.graph.inserting_before(old):
            for part, tensor in folded.items():
                name = f"_folded_{layer.name}_{part}"
                model.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
                new[part] = model.graph.get_attr(name)
                like = old if part == "weight" else norm.mean
                new[part].meta = {key: value for key, value in like.meta.items() if key in ("val", "tensor_meta")}
    set_argument(layer, "bias", new["bias"])
    if old in layer.all_input_nodes:
        set_argument(layer, "weight", new["weight"])
    else:  # fake quantization stands between
        old.replace_all_uses_with(new["weight"])


def _for_filter(scale: Any, layer: fx.Node, shape: Any, run: Callable[..., Any]) -> Any:
    """A factor for each output channel in the shape that a filter is multiplied by; ``run(operator, *arguments)``
    computes it.
    """
    transposed, groups = form_of(layer)
    spatial = [1] * (len(shape) - 2)
    if (
        transposed and groups != 1
    ):  # along the first dimension lie the inputs of all groups, along the second a group's outputs
        scale = run(aten.reshape.default, scale, [groups, 1, -1])
        scale = run(aten.expand.default, scale, [groups, shape[0] // groups, -1])
        return run(aten.reshape.default, scale, [shape[0], -1, *spatial])
    return run(aten.reshape.default, scale, [1, -1, *spatial] if transposed else [-1, 1, *spatial])


def _run(operator: Any, *args: Any) -> Any:
    return operator(*args)


def _counts_batches(node: fx.Node) -> bool:
    counted: Any = node
    while isinstance(counted, fx.Node) and counted.target is aten.add_.Tensor:
        counted = counted.args[0]
    return isinstance(counted, fx.Node) and str(counted.target).endswith("num_batches_tracked")


def _opened(prepared: fx.GraphModule, node: fx.Node) -> tuple[fx.Node, fx.Node, fx.Node | None] | None:
    """The layer, the scaled weight and the bias of an opened batch norm."""
    result, bias = node.args[0], None
    if result.target is aten.add.Tensor and result.args[1].target is aten.reshape.default:
        bias = result.args[1].args[0]
        result = result.args[0]
    layer = result.args[0] if result.target is aten.mul.Tensor else None
    if not isinstance(layer, fx.Node) or layer.target not in CONV | CONV_TRANSPOSE:
        return None
    scaled = arguments_of(layer)["weight"]
    if scaled.op == "call_module":
        scaled = scaled.args[0]
    return (layer, scaled, bias) if scaled.target is aten.mul.Tensor else None


def _move_annotation(
    graph: fx.Graph, layer: fx.Node, norm: fx.Node, weight: fx.Node, scaled: fx.Node, bias: fx.Node | None
) -> None:
    """The spec of the weight becomes that of the folded one, and what was said of the result is said of the batch
    norm's.
    """
    annotation = layer.meta.get(ANNOTATION)
    if annotation is None:
        return
    specs = annotation.input_qspec_map
    annotation.input_qspec_map = {scaled if n is weight else n: spec for n, spec in specs.items() if n is not bias}
    if annotation.output_qspec is not None:
        behind = norm.meta.get(ANNOTATION)
        if behind is None or behind.output_qspec is None:
            norm.meta[ANNOTATION] = type(annotation)(output_qspec=annotation.output_qspec, _annotated=True)
        annotation.output_qspec = None
    moved = {(weight, layer): (scaled, layer), layer: norm}
    for node in graph.nodes:
        other = node.meta.get(ANNOTATION)
        if other is not None:
            other.input_qspec_map = {n: _moved(spec, moved) for n, spec in other.input_qspec_map.items()}
            other.output_qspec = _moved(other.output_qspec, moved)


def _moved(spec: Any, moved: dict[Any, Any]) -> Any:
    """A spec that refers to others, with what it refers to in its new place."""
    if isinstance(spec, SharedQuantizationSpec):
        return SharedQuantizationSpec(moved.get(spec.edge_or_node, spec.edge_or_node))
    if isinstance(spec, DerivedQuantizationSpec):
        fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
        return DerivedQuantizationSpec(**{**fields, "derived_from": [moved.get(one, one) for one in spec.derived_from]})
    return spec


def _call(like: fx.Node, target: Any, *args: Any) -> fx.Node:
    """A new call with a value and the place of ``like``."""
    new = like.graph.call_function(target, args)
    fakes = fx.map_arg(args, lambda node: node.meta["val"])
    with like.meta["val"].fake_mode, torch.no_grad():
        new.meta = {"val": target(*fakes)}
    for key in ("nn_module_stack", "stack_trace", "source_fn_stack"):
        if key in like.meta:
            new.meta[key] = like.meta[key]
    return new


def _attribute(model: fx.GraphModule, node: fx.Node) -> torch.Tensor:
    value: Any = model
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value
