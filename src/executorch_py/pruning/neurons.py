"""Neuron pruning: channels and attention heads are taken out of a model, and a smaller dense one is left.

Which layers depend on each other (through additions, concatenations, batch norms, reshapes, groups) is found by the library
Torch-Pruning on a trace of the model; ``pip install --no-deps torch-pruning`` brings it.

>>> smaller = prune_neurons(model, (image,), 0.5, keep=("classifier",))  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import copy
import fnmatch
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError, NotSupportedError

from .heads import remove_heads
from .masks import masked_parameters

#: loss(model, batch) -> a scalar that can be differentiated.
Loss = Callable[[nn.Module, Any], torch.Tensor]

#: Held while the library works: it keeps the dimension that it prunes in objects that all of its pruners share, and
#: _indices_checked replaces a method of it.
_LIBRARY_LOCK = threading.RLock()


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


@torch.inference_mode(False)  # the library follows gradients, whatever stands around
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

    Layers that give the model's outputs keep their channels, and so do those whose channels are the width of a residual
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
        InvalidArgumentError: A wrong argument, a name that fits nothing, a loss that is no finite scalar, a weight that is
            NaN (the message names its layer).
        InvalidStateError: A mask of weight pruning is still on; torch-pruning is not installed.
        InvalidTypeError: The model is no module.
        NotSupportedError: The smaller model does not run: its code has sizes of its own. Channels that cannot be followed, as
            where they are shuffled and taken apart again.
    """
    tp = _library()
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
    frozen = [p for p in smaller.parameters() if not p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(True)  # the library follows gradients
    kept = _modules(smaller, keep, "keep")
    ratios = {module: value for name, value in (layers or {}).items() for module in _modules(smaller, [name], "layers")}
    score = _score(tp, smaller, importance, loss, data)
    widths = _widths(smaller)
    skipped: dict[str, str] = {}
    ignored = [*kept, *_outputs(smaller, example_inputs)]
    if amount or ratios:
        names = {module: name for name, module in smaller.named_modules()}
        with _LIBRARY_LOCK, warnings.catch_warnings(), _indices_checked(tp, names):
            warnings.simplefilter("ignore")
            pruner = tp.pruner.BasePruner(
                smaller,
                tuple(example_inputs),
                importance=score,
                pruning_ratio=_rounded(amount),
                pruning_ratio_dict={module: _rounded(value) for module, value in ratios.items()} or None,
                ignored_layers=ignored,
                round_to=round_to if round_to > 1 else None,
                global_pruning=scope == "global",
            )
            for group in pruner.step(interactive=True):
                reason = _fixed_width(group)
                if reason:
                    skipped[names.get(group[0].dep.target.module, "")] = reason
                else:
                    group.prune()
    gone = remove_heads(smaller, heads, lambda a: a not in kept, importance) if heads else {}
    _require_running(model, smaller, example_inputs)
    for parameter in smaller.parameters():
        parameter.grad = None
    smaller.train(training)
    after = _widths(smaller)
    channels = {n: (widths[n], after[n]) for n in widths if n in after and widths[n] != after[n]}
    for name, module in smaller.named_modules():
        part = ratios.get(module, amount)
        is_whole = scope == "layer" and name in after and name not in channels and module not in ignored
        if is_whole and part > 0:
            is_all = int(widths[name] * (1 - _rounded(part))) == 0
            skipped.setdefault(
                name,
                f"none of its {widths[name]} channels would stay with an amount of {part:g}"
                if is_all
                else "no smaller number of channels fits round_to, groups, or layers that keep theirs",
            )
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


def _library() -> Any:
    try:
        import torch_pruning
    except ImportError as error:
        raise InvalidStateError("neuron pruning needs Torch-Pruning: pip install --no-deps torch-pruning") from error
    return torch_pruning


def _require_module(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InvalidTypeError(
            f"model is {type(model).__name__}; it must be a module (torch.nn.Module), which is pruned before it is exported"
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


def _rounded(amount: float) -> float:
    """The library keeps ``int(channels * (1 - amount))``: 0.8 of 10 leave 2, although 1 - 0.8 is a little less than 0.2."""
    return max(amount - 1e-9, 0.0)


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


def _score(tp: Any, model: nn.Module, importance: str, loss: Loss | None, data: Iterable[Any] | None) -> Any:
    if importance != "taylor":
        return tp.importance.GroupMagnitudeImportance(p=1 if importance == "l1" else 2)
    assert loss is not None and data is not None
    model.zero_grad()
    batches = 0
    for batches, batch in enumerate(data, 1):
        value = loss(model, batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
            raise InvalidArgumentError(
                f"the loss of batch {batches - 1} is no scalar tensor that can be differentiated: {type(value).__name__}"
            )
        if not bool(value.isfinite()):
            raise InvalidArgumentError(f"the loss of batch {batches - 1} is {value.item()}")
        value.backward()
    if not batches:
        raise InvalidArgumentError("data is empty; importance='taylor' needs at least one batch")
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
            raise InvalidArgumentError(f"the loss has a gradient that is NaN or infinite at '{name}'")
    return tp.importance.GroupTaylorImportance()


def _widths(model: nn.Module) -> dict[str, int]:
    """Layer -> its output channels."""
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.conv._ConvNd):
            found[name] = module.out_channels
        elif isinstance(module, nn.Linear):
            found[name] = module.out_features
    return found


def _outputs(model: nn.Module, example_inputs: Iterable[Any]) -> list[nn.Module]:
    """Layers whose channels are the model's outputs: those that gradients of the outputs meet first."""
    owners: dict[torch.Tensor, nn.Module] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[parameter] = module
    result = model(*copy.deepcopy(tuple(example_inputs)))
    tensors = [
        t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.grad_fn is not None
    ]
    found: list[nn.Module] = []
    seen: set[Any] = set()
    # Breadth first, and not beyond a product: its output channels are those of the result.
    front = [t.grad_fn for t in tensors]
    while front:
        node = front.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        weights = [owners[p.variable] for p, _ in _deep(node) if hasattr(p, "variable") and p.variable in owners]
        products = [m for m in weights if isinstance(m, (nn.Linear, nn.modules.conv._ConvNd, nn.modules.rnn.RNNBase))]
        if products:
            found += products
            continue
        front += [follower for follower, _ in node.next_functions]
    return found


def _deep(node: Any) -> list[tuple[Any, int]]:
    """What feeds a node, and what feeds the views of weights among it (linear transposes its weight)."""
    direct = [pair for pair in node.next_functions if pair[0] is not None]
    views = ("TBackward", "PermuteBackward", "TransposeBackward", "ToCopyBackward", "ViewBackward")
    behind = [
        pair
        for follower, _ in direct
        if type(follower).__name__.startswith(views)
        for pair in follower.next_functions
        if pair[0] is not None and hasattr(pair[0], "variable")
    ]
    return [*direct, *behind]


@contextlib.contextmanager
def _indices_checked(tp: Any, names: dict[nn.Module, str]) -> Iterator[None]:
    """While active, a channel that a layer has not is an error.

    The library follows channels by their indices. Where it loses them (channel shuffles behind parts of a tensor, transposed
    tokens) they leave the layers' range, multiply at each reshape, and it never comes back. Groups are made by the library
    alone, from its constructor on, so their method is replaced, for the layers of ``names``; callers hold _LIBRARY_LOCK.
    """
    group_type = tp.dependency.Group
    add = group_type.add_dep

    def checked(group: Any, dep: Any, idxs: Any) -> None:
        module = dep.target.module
        side = "in" if "_in_" in getattr(dep.handler, "__name__", "") else "out"
        width = getattr(module, f"{side}_{'features' if isinstance(module, nn.Linear) else 'channels'}", None)
        if module in names and width is not None and any(int(getattr(i, "idx", i)) >= width for i in idxs):
            root = module if not len(group) else group[0].dep.target.module
            name, other = (names.get(one, type(one).__name__) for one in (root, module))
            raise NotSupportedError(
                f"the channels of '{name}' cannot be followed through the model: by way of a reshape or transposition they "
                f"become channels that '{other}' has not; keep the layer with keep=['{name}']"
            )
        add(group, dep, idxs)

    group_type.add_dep = checked
    try:
        yield
    finally:
        group_type.add_dep = add


def _fixed_width(group: Any) -> str:
    """Why the channels of a group must stay; empty when they need not."""
    for dependency, _ in group:
        module = dependency.target.module
        if isinstance(module, nn.Parameter):
            return "they are the size of a parameter of the model"
        if isinstance(module, nn.Embedding):
            return "they are the size of an embedding"
        if isinstance(module, nn.MultiheadAttention):
            return "they are the width of an attention layer"
    return ""


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
                f"output {index} has become {list(second.shape)} instead of {list(first.shape)}; keep the layer that gives "
                "it with keep=[…]"
            )
