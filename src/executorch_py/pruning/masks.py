"""Masks: computing them, keeping them while a model is trained, and multiplying them into the weights for good.

A mask is a parametrization (``torch.nn.utils.parametrize``) that this package adds, or what ``torch.nn.utils.prune``
left: ``weight_orig`` and ``weight_mask``. Both are found and made permanent here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from executorch_py.errors import InvalidArgumentError


class Mask(nn.Module):
    """Parametrization: weight = original * mask. Gradients pass where the mask is one only."""

    mask: torch.Tensor

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The masked weight."""
        return weight * self.mask

    def right_inverse(self, weight: torch.Tensor) -> torch.Tensor:
        """What is kept when a weight is assigned: the weight."""
        return weight


def smallest_zero(scores: Sequence[torch.Tensor], count: int) -> list[torch.Tensor]:
    """Masks that are zero where the ``count`` smallest of all scores are; of equal ones the first.

    Args:
        scores: One tensor a weight, of any shapes.
        count: Elements that become zero, over all of them.

    Returns:
        Boolean masks of the same shapes.
    """
    flat = torch.cat([score.reshape(-1) for score in scores])
    keep = torch.ones(flat.numel(), dtype=torch.bool, device=flat.device)
    keep[torch.sort(flat, stable=True).indices[:count]] = False
    parts = keep.split([score.numel() for score in scores])
    return [part.view(score.shape) for part, score in zip(parts, scores, strict=True)]


def zero_in_groups(score: torch.Tensor, keep: int, group: int) -> torch.Tensor:
    """A mask that keeps the ``keep`` largest of each ``group`` neighbours along dim 1, the inputs.

    Args:
        score: [out, in, …] with ``in`` a multiple of ``group``.
        keep: Elements of a group that stay.
        group: Elements of a group.
    """
    last = score.movedim(1, -1)
    groups = last.reshape(*last.shape[:-1], -1, group)
    order = torch.sort(groups, dim=-1, descending=True, stable=True).indices
    mask = torch.zeros_like(groups, dtype=torch.bool).scatter_(-1, order[..., :keep], True)
    return mask.view(last.shape).movedim(-1, 1)


def mask_of(module: nn.Module, parameter: str) -> Mask | None:
    """The mask of this package on a parameter, if it has one."""
    if not parametrize.is_parametrized(module, parameter):
        return None
    found = [p for p in module.parametrizations[parameter] if isinstance(p, Mask)]  # type: ignore[union-attr, index]
    return found[0] if found else None


def masked_parameters(model: nn.Module) -> dict[str, str]:
    """Parameters whose mask was not made permanent -> "parametrization" or "torch.nn.utils.prune".

    Example:
        >>> layer = prune.l1_unstructured(nn.Linear(4, 4), "weight", amount=0.5)
        >>> masked_parameters(layer)
        {'weight': 'torch.nn.utils.prune'}
    """
    found: dict[str, str] = {}
    for prefix, module in model.named_modules():
        dot = f"{prefix}." if prefix else ""
        if isinstance(module, parametrize.ParametrizationList):
            continue
        if parametrize.is_parametrized(module):
            for name, chain in module.parametrizations.items():  # type: ignore[union-attr, operator]
                if any(isinstance(p, Mask) for p in chain):
                    found[f"{dot}{name}"] = "parametrization"
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, prune.BasePruningMethod):
                found[f"{dot}{hook._tensor_name}"] = "torch.nn.utils.prune"
    return found


def make_permanent(model: nn.Module, parameters: Collection[str] | None = None) -> list[str]:
    """Multiplies masks into their weights and removes them; the model computes the same. Works in place.

    Masks of ``torch.nn.utils.prune`` are taken, too; parametrizations that are no masks stay.

    Args:
        model: Changed in place.
        parameters: Names of those whose masks go; by default all.

    Returns:
        Names of the parameters that had a mask.

    Raises:
        InvalidArgumentError: A parameter has a mask and another parametrization, and it is not clear what is left.
    """
    masked = masked_parameters(model)
    names = [(name, kind) for name, kind in masked.items() if parameters is None or name in parameters]
    for name, kind in names:
        path, _, parameter = name.rpartition(".")
        module = model.get_submodule(path)
        if kind == "torch.nn.utils.prune":
            prune.remove(module, parameter)
            continue
        if len(module.parametrizations[parameter]) != 1:  # type: ignore[union-attr, index, arg-type]
            raise InvalidArgumentError(
                f"'{name}' has a mask and other parametrizations; remove those first (torch.nn.utils.parametrize)"
            )
        # torch takes the property off the module's class, which copies of the module share: it gets one of its own
        # first.
        shared = type(module)
        module.__class__ = type(shared.__name__, shared.__bases__, dict(shared.__dict__))
        parametrize.remove_parametrizations(module, parameter, leave_parametrized=True)
    return [name for name, _ in names]


@dataclass(frozen=True)
class LayerSparsity:
    """Zeros of one parameter.

    Attributes:
        name: Its full name.
        elements: How many it has.
        zeros: How many are zero.
    """

    name: str
    elements: int
    zeros: int

    @property
    def fraction(self) -> float:
        """Part of the elements that are zero."""
        return self.zeros / self.elements if self.elements else 0.0


def sparsity(model: nn.Module) -> list[LayerSparsity]:
    """Zeros of each parameter as the model computes with it, masks applied.

    Example:
        >>> sparsity(nn.Linear(2, 2, bias=False).requires_grad_(False).apply(lambda m: m.weight.zero_()))
        [LayerSparsity(name='weight', elements=4, zeros=4)]
    """
    masked = masked_parameters(model)
    names = [name for name, _ in model.named_parameters() if not _belongs_to_mask(name, masked)]
    rows = []
    for name in [*names, *masked]:
        path, _, parameter = name.rpartition(".")
        tensor = getattr(model.get_submodule(path), parameter).detach()
        rows.append(LayerSparsity(name, tensor.numel(), int((tensor == 0).sum())))
    return sorted(rows, key=lambda row: row.name)


def _belongs_to_mask(name: str, masked: dict[str, str]) -> bool:
    """True for the parameter behind a mask: ``a.weight_orig``, ``a.parametrizations.weight.original``."""
    for whole in masked:
        path, _, parameter = whole.rpartition(".")
        dot = f"{path}." if path else ""
        if name in (f"{dot}{parameter}_orig", f"{dot}parametrizations.{parameter}.original"):
            return True
    return False
