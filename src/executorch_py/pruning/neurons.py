"""Neuron pruning: channels and attention heads are taken out of a model, and a smaller dense one is left.

channels.py finds which channels go together: through additions, halves of a gate, concatenations, norms, reshapes,
groups. The smaller model computes what the whole one does when no layer reads the channels that went. That is checked
on the example.

>>> smaller = prune_neurons(model, (image,), 0.5, keep=("classifier",))  # doctest: +SKIP
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError, NotSupportedError

from .channels import Channels, follow
from .fewer_channels import chosen, masked_copy, remove, rounded, scores
from .heads import remove_heads
from .masks import masked_parameters

#: loss(model, batch) -> a scalar that can be differentiated.
Loss = Callable[[nn.Module, Any], torch.Tensor]


@dataclass(frozen=True)
class NeuronPruning:
    """What was taken out.

    Attributes:
        model: The smaller model.
        channels: Layer -> (channels before, channels after), where that changed.
        heads: Attention layer -> (heads before, heads after).
        skipped: Layer -> why its channels stayed, for layers that nobody asked to keep.
    """

    model: nn.Module
    channels: dict[str, tuple[int, int]]
    heads: dict[str, tuple[int, int]]
    skipped: dict[str, str]


@torch.inference_mode(False)  # "taylor" follows gradients, whatever stands around
@torch.enable_grad()
def prune_neurons(
    model: nn.Module,
    example_inputs: tuple[Any, ...],
    amount: float = 0.5,
    *,
    keep: Iterable[str] = (),
    layers: Mapping[str, float] | None = None,
    scope: str = "layer",
    importance: str = "l2",
    loss: Loss | None = None,
    data: Iterable[Any] | None = None,
    round_to: int = 1,
    heads: float = 0.0,
) -> NeuronPruning:
    """Takes the least important channels out of a copy of a model, with everything that depends on them.

    Layers that give the model's outputs keep their channels. So do those whose channels are the width of a residual
    stream that a parameter, an embedding or an attention layer is part of: its size is written into such models.

    Args:
        model: Stays as it is.
        example_inputs: Positional arguments of one call.
        amount: Part of the channels that go, of each group of dependent layers, in [0, 1).
        keep: Names of layers (with * and ?; a name stands for what is in it) whose output channels stay.
        layers: Name -> amount for these layers.
        scope: "layer", or "global": channels are ranked over the whole model.
        importance: "l1" or "l2" norm of a channel's weights, over all layers that depend on it; "taylor": how much the
            loss would change, to first order, on ``data``.
        loss: For "taylor": loss(model, batch), a scalar.
        data: For "taylor": the batches.
        round_to: Channels that stay are a multiple of this, where a layer has at least as many.
        heads: Part of the heads that go from each nn.MultiheadAttention, in [0, 1).

    Returns:
        The smaller model and what went.

    Raises:
        InvalidArgumentError: A wrong argument, a name that fits nothing, a loss that is no finite scalar, a weight that
            is NaN (the message names its layer).
        InvalidStateError: A mask of weight pruning is still on.
        InvalidTypeError: The model is no module.
        NotSupportedError: The smaller model does not run, or computes something else, because its code has sizes of its
            own. The model is none for torch.export.
    """
    _require_module(model)
    _check(amount, scope, importance, loss, data, round_to, heads, layers)
    masked = masked_parameters(model)
    if masked:
        raise InvalidStateError(f"'{next(iter(masked))}' has a mask; call pruning.make_permanent(model) first")
    if not isinstance(example_inputs, (tuple, list)):
        raise InvalidArgumentError(
            f"example_inputs is {type(example_inputs).__name__}; it must be the tuple of a call's arguments"
        )
    for name, tensor in model.named_parameters():
        if tensor.is_floating_point() and not bool(tensor.detach().isfinite().all()):
            raise InvalidArgumentError(f"'{name}' has elements that are NaN or infinite; it cannot be ranked")
    smaller = copy.deepcopy(model)
    training = smaller.training
    smaller.eval()
    names = {module: name for name, module in smaller.named_modules()}
    kept = _modules(smaller, keep, "keep")
    ratios = {module: value for name, value in (layers or {}).items() for module in _modules(smaller, [name], "layers")}
    own = {names[module]: value for module, value in ratios.items()}
    widths = _widths(smaller)
    skipped: dict[str, str] = {}
    if amount or ratios:
        found = follow(smaller, tuple(copy.deepcopy(tuple(example_inputs))))
        for name in {names[module] for module in kept} & found.rows.keys():
            found.fix(found.rows[name].tolist(), "")
        gradients = _gradients(smaller, loss, data) if importance == "taylor" else None
        score = scores(found, smaller, importance, gradients)
        labels = chosen(found, score, amount, own, scope == "global", round_to)
        whole = masked_copy(found, smaller, labels)
        remove(found, smaller, labels)
        _require_equal(found, labels, whole, smaller, example_inputs)
        stayed = [name for name, width in _widths(smaller).items() if name in found.rows and width == widths[name]]
        parts = {name: own.get(name, amount) if scope == "layer" else 0.0 for name in stayed}
        skipped = {n: why for n, part in parts.items() if (why := _reason(found.rows[n], found, part))}
    gone = remove_heads(smaller, heads, lambda a: a not in kept, importance) if heads else {}
    _require_running(model, smaller, example_inputs)
    smaller.train(training)
    after = _widths(smaller)
    channels = {n: (widths[n], after[n]) for n in widths if n in after and widths[n] != after[n]}
    return NeuronPruning(smaller, channels, gone, skipped)


def prune_heads(
    model: nn.Module, amount: float = 0.5, *, keep: Iterable[str] = (), importance: str = "l2"
) -> NeuronPruning:
    """Takes the least important heads out of a copy of a model: of each ``nn.MultiheadAttention``.

    Args:
        model: Stays as it is.
        amount: Part of the heads of each layer that go, in [0, 1); at least one stays.
        keep: Names of layers whose heads stay.
        importance: "l1" or "l2" norm of a head's weights.

    Raises:
        InvalidArgumentError: A wrong argument, or a name that fits nothing.
        NotSupportedError: The model has no such layer, or one with settings that have no smaller form.
    """
    _require_module(model)
    _check(0.0, "layer", importance, None, (), 1, amount, None)
    smaller = copy.deepcopy(model)
    kept = _modules(smaller, keep, "keep")
    if not any(isinstance(module, nn.MultiheadAttention) for module in smaller.modules()):
        raise NotSupportedError(f"{type(model).__name__} has no nn.MultiheadAttention")
    return NeuronPruning(smaller, {}, remove_heads(smaller, amount, lambda a: a not in kept, importance), {})


def _require_module(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InvalidTypeError(
            f"model is {type(model).__name__}; it must be a module (torch.nn.Module), which is pruned before it is "
            "exported"
        )


def _check(
    amount: float,
    scope: str,
    importance: str,
    loss: Loss | None,
    data: Any,
    round_to: int,
    heads: float,
    layers: Any,
) -> None:
    if layers is not None and not isinstance(layers, Mapping):
        raise InvalidArgumentError(f"layers is {type(layers).__name__}; it must be a dict of names and amounts")
    own = {f"layers[{name!r}]": value for name, value in (layers or {}).items()}
    for name, value in {"amount": amount, "heads": heads, **own}.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            remedy = "; layers that stay whole go in keep=[…]" if name in own else ""
            raise InvalidArgumentError(f"{name} is {value!r}; it must be the part that goes, from 0 to below 1{remedy}")
    if scope not in ("layer", "global"):
        raise InvalidArgumentError(f"scope is {scope!r}; it must be 'layer' or 'global'")
    if importance not in ("l1", "l2", "taylor"):
        raise InvalidArgumentError(f"importance is {importance!r}; it must be 'l1', 'l2' or 'taylor'")
    if importance == "taylor" and (loss is None or data is None):
        raise InvalidArgumentError(
            "importance='taylor' needs loss=, a function of model and batch, and data=, the batches"
        )
    if data is not None and not isinstance(data, Iterable):
        raise InvalidArgumentError(f"data is {type(data).__name__}; it must be an iterable of batches")
    if isinstance(round_to, bool) or not isinstance(round_to, int) or round_to < 1:
        raise InvalidArgumentError(f"round_to is {round_to!r}; it must be a whole number from 1 on")


def _modules(model: nn.Module, patterns: Iterable[str], argument: str) -> list[nn.Module]:
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        what = f"the text '{patterns}'" if isinstance(patterns, str) else repr(patterns)
        raise InvalidArgumentError(f"{argument} is {what}; it must be a list of names")
    found: list[nn.Module] = []
    for pattern in patterns:
        fits = [
            module
            for name, module in model.named_modules()
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*")
        ]
        if not fits:
            some = ", ".join(name for name, module in model.named_modules() if not any(module.children()))
            raise InvalidArgumentError(f"{argument}: '{pattern}' fits no layer; there are {some[:300]}")
        found += fits
    return found


def _gradients(model: nn.Module, loss: Loss | None, data: Iterable[Any] | None) -> dict[str, torch.Tensor]:
    """The gradients of the summed loss, of parameters that have one."""
    assert loss is not None and data is not None
    frozen = [p for p in model.parameters() if p.is_floating_point() and not p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(True)
    model.zero_grad()
    batches = 0
    for batches, batch in enumerate(data, 1):
        value = loss(model, batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
            raise InvalidArgumentError(
                f"the loss of batch {batches - 1} is no scalar tensor that can be differentiated: "
                f"{type(value).__name__}"
            )
        if not bool(value.isfinite()):
            raise InvalidArgumentError(f"the loss of batch {batches - 1} is {value.item()}")
        value.backward()
    if not batches:
        raise InvalidArgumentError("data is empty; importance='taylor' needs at least one batch")
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
            raise InvalidArgumentError(f"the loss has a gradient that is NaN or infinite at '{name}'")
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    for parameter in model.parameters():
        parameter.grad = None
    for parameter in frozen:
        parameter.requires_grad_(False)
    return found


def _widths(model: nn.Module) -> dict[str, int]:
    """Layer -> its output channels."""
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.conv._ConvNd):
            found[name] = module.out_channels
        elif isinstance(module, nn.Linear):
            found[name] = module.out_features
    return found


def _reason(rows: torch.Tensor, found: Channels, amount: float) -> str:
    """Why a layer has all its channels; "" where nobody needs to be told."""
    reasons = [found.why_fixed(label) for label in rows.tolist()]
    if None not in reasons:
        return next((reason for reason in reasons if reason), "")
    if amount == 0:
        return ""
    if int(len(rows) * (1 - rounded(amount))) == 0:
        return f"none of its {len(rows)} channels would stay with an amount of {amount:g}"
    return "no smaller number of channels fits round_to, groups, or layers that keep theirs"


def _places(found: Channels, gone: set[int]) -> str:
    """Layers whose channels the model's code takes by their places, as the argument that keeps them."""
    pruned = {n: rows for n, rows in found.rows.items() if any(found.find(one) in gone for one in rows.tolist())}
    moved = [n for n, rows in pruned.items() if found.placed & set(rows.tolist())]
    return f"keep={moved or list(pruned)}"


def _require_equal(
    found: Channels, gone: set[int], masked: nn.Module, smaller: nn.Module, example_inputs: Iterable[Any]
) -> None:
    """The smaller model runs, and computes what the whole one does that does not read the channels that went."""
    leaves = torch.utils._pytree.tree_leaves
    with torch.no_grad():
        expected = leaves(masked(*copy.deepcopy(tuple(example_inputs))))
        try:
            actual = leaves(smaller(*copy.deepcopy(tuple(example_inputs))))
        except Exception as error:
            raise NotSupportedError(
                "the smaller model does not run, because its code has sizes of its own: "
                f"{type(error).__name__}: {str(error).splitlines()[0]}. Keep the layers before that place: "
                f"{_places(found, gone)}"
            ) from error
    if {found.find(label) for label in found.mixed} & gone:
        return  # a norm or a mean over channels is another one over fewer
    for index, (first, second) in enumerate(zip(expected, actual, strict=True)):
        if not isinstance(first, torch.Tensor) or not first.is_floating_point():
            continue
        if first.shape != second.shape or not torch.allclose(
            first, second, rtol=1e-2, atol=1e-3 * float(first.abs().max())
        ):
            raise NotSupportedError(
                f"output {index} of the smaller model is another one, because its code takes channels by their places, "
                f"where those that stay cannot be told: {_places(found, gone)} keeps them"
            )


def _require_running(model: nn.Module, smaller: nn.Module, example_inputs: Iterable[Any]) -> None:
    with torch.no_grad():
        expected = copy.deepcopy(model).eval()(*copy.deepcopy(tuple(example_inputs)))
        try:
            actual = smaller.eval()(*copy.deepcopy(tuple(example_inputs)))
        except Exception as error:
            raise NotSupportedError(
                "the smaller model does not run, because its code has sizes of its own: "
                f"{type(error).__name__}: {str(error).splitlines()[0]}. Keep the layers before that place with keep=[…]"
            ) from error
    leaves = torch.utils._pytree.tree_leaves
    for index, (first, second) in enumerate(zip(leaves(expected), leaves(actual), strict=True)):
        if isinstance(first, torch.Tensor) and first.shape != second.shape:
            raise NotSupportedError(
                f"output {index} has become {tuple(second.shape)} instead of {tuple(first.shape)}; keep the layer that "
                "gives it with keep=[…]"
            )
