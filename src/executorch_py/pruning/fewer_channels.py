"""Chooses channels that go, by what channels.py says of a model, and takes them out.

>>> gone = chosen(found, scores(found, model, "l2"), 0.5)  # doctest: +SKIP
>>> remove(found, model, gone)  # doctest: +SKIP
"""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Mapping

import torch
from torch import nn

from .channels import FIXED, Channels


def rounded(amount: float) -> float:
    """``int(channels * (1 - amount))`` stay: 0.8 of 10 leave 2, although 1 - 0.8 is a little less than 0.2."""
    return max(amount - 1e-9, 0.0)


def scores(
    found: Channels, model: nn.Module, importance: str, gradients: Mapping[str, torch.Tensor] | None = None
) -> dict[int, float]:
    """How much each channel counts: the norms of its rows and columns in all weights, or weights times
    ``gradients``.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    totals: dict[int, float] = defaultdict(float)
    for name, cuts in found.cuts.items():
        if name not in parameters or name.endswith("bias"):
            continue
        weight = parameters[name].detach().float()
        if gradients is not None:
            weight = weight * gradients.get(name, torch.zeros_like(weight))
        sizes = weight.square() if importance == "l2" else weight.abs()
        for dim, labels in cuts.items():
            by_index = sizes.movedim(dim, 0).reshape(len(labels), -1).sum(1)
            for label, score in zip(labels.tolist(), by_index.tolist(), strict=True):
                totals[found.find(label)] += score
    return totals


def chosen(
    found: Channels,
    score: Mapping[int, float],
    amount: float,
    by_layer: Mapping[str, float] | None = None,
    everywhere: bool = False,
    round_to: int = 1,
) -> set[int]:
    """The labels that go.

    Channels that touch the same layers are ranked together, each layer by its own amount; or all of them, relative to
    the mean of those, with ``everywhere``.
    """
    gone: set[int] = set()
    ranked: list[tuple[float, int, int, int]] = []  # score, channels, label, where
    left: list[int] = []
    steps: list[int] = []
    for layers, labels in _alike(found).items():
        ordered = sorted(labels, key=lambda one: score.get(one, 0.0))
        step = math.lcm(*(round_to // math.gcd(round_to, count) for _, count in layers))
        own = [value for name, _ in layers if (value := (by_layer or {}).get(name)) is not None]
        if everywhere and not own:
            mean = sum(score.get(one, 0.0) for one in labels) / len(labels) or 1.0
            size = sum(count for _, count in layers)
            ranked += [(score.get(one, 0.0) / mean, size, one, len(left)) for one in ordered]
            left.append(len(labels))
            steps.append(step)
            continue
        stay = int(len(labels) * (1 - rounded(own[0] if own else amount)))
        stay = -(-stay // step) * step
        if 0 < stay < len(labels):
            gone.update(ordered[: len(labels) - stay])
    return gone | _lowest(ranked, left, steps, amount)


def _lowest(ranked: list[tuple[float, int, int, int]], left: list[int], steps: list[int], amount: float) -> set[int]:
    """Of all channels those with the lowest scores; of those that touch the same layers, a multiple of a step stays."""
    wanted = sum(size for _, size, _, _ in ranked) * rounded(amount)
    order: list[list[int]] = [[] for _ in left]
    for _, size, label, where in sorted(ranked):
        if size <= wanted + 1e-6 and len(order[where]) + 1 < left[where]:
            order[where].append(label)
            wanted -= size
    gone: set[int] = set()
    for labels, count, step in zip(order, left, steps, strict=True):
        stay = -(-(count - len(labels)) // step) * step
        gone.update(labels[: max(count - stay, 0)])
    return gone


def _alike(found: Channels) -> dict[tuple[tuple[str, int], ...], list[int]]:
    """Layers, with how many of their channels go at a time -> the labels that touch these, without those that stay."""
    touched: dict[int, Counter[str]] = defaultdict(Counter)
    for layer, rows in found.rows.items():
        for label in rows.tolist():
            touched[found.find(label)][layer] += 1
    alike: dict[tuple[tuple[str, int], ...], list[int]] = defaultdict(list)
    for label, layers in touched.items():
        if label != FIXED and found.why_fixed(label) is None:
            alike[tuple(sorted(layers.items()))].append(label)
    return alike


def masked_copy(found: Channels, model: nn.Module, gone: set[int]) -> nn.Module:
    """The whole model whose layers do not read the channels that go."""
    masked = copy.deepcopy(model)
    parameters = dict(masked.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, dim in found.columns.items():
            for place in _places(found, found.cuts[name][dim], gone):
                parameters[name].select(dim, place).zero_()
    return masked


def remove(found: Channels, model: nn.Module, gone: set[int]) -> None:
    """Takes channels out of a model, in place."""
    changed: dict[int, torch.Tensor] = {}
    known = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    tensors = dict(known)
    for name, cuts in found.cuts.items():
        value = tensors[name].detach()
        for dim, labels in cuts.items():
            value = value.index_select(dim, _kept(found, labels, gone, value.device))
        if value.shape != tensors[name].shape:
            changed[id(tensors[name])] = value
    depthwise = {
        n: m.groups == m.in_channels for n, m in model.named_modules() if isinstance(m, nn.modules.conv._ConvNd)
    }
    for name, tensor in known:
        if id(tensor) in changed:
            path, _, last = name.rpartition(".")
            new = changed[id(tensor)]
            if isinstance(tensor, nn.Parameter):
                new = nn.Parameter(new, requires_grad=tensor.requires_grad)
            setattr(model.get_submodule(path), last, new)
    for name, module in model.named_modules():
        _say_sizes(found, name, module, gone, depthwise.get(name, False))


def _say_sizes(found: Channels, name: str, module: nn.Module, gone: set[int], depthwise: bool) -> None:
    """Attributes of layers that repeat the sizes of their parameters."""
    if isinstance(module, nn.modules.conv._ConvNd):
        row, column = module.weight.shape[:2]
        if depthwise and module.groups > 1:
            module.groups = row if module.transposed else row // (module.out_channels // module.groups)
        module.in_channels, module.out_channels = (
            (row, column * module.groups) if module.transposed else (column * module.groups, row)
        )
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, nn.modules.batchnorm._NormBase):
        sizes = [t for t in (module.weight, module.running_mean) if t is not None]
        module.num_features = sizes[0].numel() if sizes else module.num_features
    elif isinstance(module, nn.GroupNorm) and module.weight is not None:
        module.num_channels = module.weight.numel()
    elif isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and name in found.shapes:
        shape = list(module.normalized_shape)
        for dim, labels in found.shapes[name].items():
            shape[dim] -= len(_places(found, labels, gone))
        module.normalized_shape = tuple(shape)
    elif isinstance(module, nn.PReLU):
        module.num_parameters = module.weight.numel()


def _places(found: Channels, labels: torch.Tensor, gone: set[int]) -> list[int]:
    return [i for i, label in enumerate(labels.tolist()) if found.find(label) in gone]


def _kept(found: Channels, labels: torch.Tensor, gone: set[int], device: torch.device) -> torch.Tensor:
    leaves = set(_places(found, labels, gone))
    return torch.tensor([i for i in range(len(labels)) if i not in leaves], dtype=torch.int64, device=device)
