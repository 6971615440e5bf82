"""Weight pruning: the smallest weights become zero, at once or step by step while the caller trains.

>>> model = nn.Linear(8, 4)
>>> _ = prune_weights(model, 0.5)
>>> int((model.weight == 0).sum())
16
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.utils import parametrize

from executorch_py.errors import InvalidArgumentError, InvalidStateError

from .layers import Amount, Pattern, Weight, select_weights
from .masks import Mask, make_permanent, mask_of, smallest_zero, zero_in_groups
from .schedule import Schedule

#: Those whose masks are theirs, for as long as the caller keeps them.
_AT_WORK: weakref.WeakSet[Pruner] = weakref.WeakSet()


class Pruner:
    """Holds masks on a model's weights and tightens them by a schedule.

    The loop stays the caller's: forward, backward, ``optimizer.step()``, then :meth:`step`. What a mask has zeroed gets
    no gradient and stays zero. An optimizer that was made before works on: parameters stay the same objects. While
    masks are on, ``state_dict`` has them and the original weights; after :meth:`finish` the model is an ordinary one.

    Args:
        model: Changed in place.
        amount: Part of the elements that end as zero, or "n:m" (n of m neighbours along the input stay, "2:4"); None:
            only the layers in ``layers``.
        scope: "layer": each layer loses the amount; "global": the smallest of all layers go, however they are spread
            (for layers without an amount of their own, and not with "n:m").
        layers: Amounts by name (with * and ?; a name stands for what is in it) or by class of modules; None leaves a
            layer as it is. Of several that fit, the last decides.
        schedule: How the amount grows; None: all of it at once, now.

    Raises:
        InvalidArgumentError: A wrong amount or scope, a pattern that fits nothing, a weight that is not finite or has
            no multiple of m inputs; the message names the layer.
        InvalidStateError: Another ``Pruner`` that is not finished prunes one of the weights. Each may have layers of
            its own.
        NotSupportedError: A named layer has no weights that can be masked, or shares them with another.

    Example:
        >>> model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
        >>> pruner = Pruner(model, 0.75, layers={"2": None}, schedule=Schedule("cubic", steps=10))
        >>> for _ in range(10):
        ...     pruner.step()  # after optimizer.step()
        >>> pruner.finish()[0].weight.count_nonzero().item()
        64
    """

    def __init__(
        self,
        model: nn.Module,
        amount: float | str | None = None,
        *,
        scope: str = "layer",
        layers: Mapping[Pattern, Amount] | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        if scope not in ("layer", "global"):
            raise InvalidArgumentError(f"scope is {scope!r}; it must be 'layer' or 'global'")
        self._model = model
        self._schedule = schedule or Schedule()
        self._step = 0
        self._fraction = 0.0
        self._weights = select_weights(model, amount, layers)
        self._is_global = scope == "global"
        if self._is_global and isinstance(amount, str):
            raise InvalidArgumentError(
                f"scope='global' ranks all weights together; {amount!r} decides in each group of one"
            )
        self._masks: dict[str, Mask] = {}
        found = [mask_of(weight.module, weight.parameter) for weight in self._weights]
        for weight, mask in zip(self._weights, found, strict=True):
            if mask is not None and any(mask in other._masks.values() for other in _AT_WORK):
                raise InvalidStateError(
                    f"'{weight.name}' is pruned by another Pruner, which is not finished: call its finish() first "
                    "(what it has zeroed stays the smallest), or leave the layer to it with layers={…: None}"
                )
        for weight, mask in zip(self._weights, found, strict=True):
            if mask is None:
                mask = Mask(torch.ones_like(getattr(weight.module, weight.parameter).detach()))
                parametrize.register_parametrization(weight.module, weight.parameter, mask)
            self._masks[weight.name] = mask
        _AT_WORK.add(self)
        if schedule is None:
            self.step()

    @property
    def masks(self) -> dict[str, torch.Tensor]:
        """Parameter name -> its mask of ones and zeros."""
        return {name: mask.mask for name, mask in self._masks.items()}

    @property
    def sparsity(self) -> float:
        """Part of the pruned layers' elements that is zero now."""
        elements = sum(mask.numel() for mask in self.masks.values())
        return 1 - sum(float(mask.sum()) for mask in self.masks.values()) / elements

    def step(self) -> None:
        """One step of the schedule; call it after the optimizer's.

        Raises:
            InvalidStateError: ``finish`` was called before, or something else has removed a mask.
            InvalidArgumentError: Training has made a weight NaN or infinite.
        """
        if not self._masks:
            raise InvalidStateError("the pruner is finished; make a new one")
        self._step += 1
        self._update(self._schedule.fraction(self._step))

    def finish(self) -> nn.Module:
        """Brings the masks to the full amount, multiplies them into the weights and removes them; returns the model.

        Masks of other weights stay: those of another ``Pruner``, and of ``torch.nn.utils.prune``.
        """
        if self._masks:
            self._update(1.0)
            make_permanent(self._model, self._masks)
            self._masks = {}
        return self._model

    @torch.no_grad()
    def _update(self, fraction: float) -> None:
        for weight in self._weights:
            if mask_of(weight.module, weight.parameter) is not self._masks[weight.name]:
                raise InvalidStateError(
                    f"the mask of '{weight.name}' is gone (make_permanent removes those of all pruners): make a new "
                    "Pruner"
                )
        if fraction <= self._fraction:
            return
        self._fraction = fraction
        ranked = [w for w in self._weights if self._is_global and w.is_default]
        if ranked:
            scores = [self._score(weight) for weight in ranked]
            count = round(fraction * ranked[0].target.amount * sum(score.numel() for score in scores))
            for weight, mask in zip(ranked, smallest_zero(scores, count), strict=True):
                self._set(weight, mask)
        for weight in self._weights:
            if weight in ranked:
                continue
            score, target = self._score(weight), weight.target
            if target.group:
                keep = target.group - int(fraction * (target.group - target.keep) + 1e-9)
                self._set(weight, zero_in_groups(score, keep, target.group))
            else:
                self._set(weight, smallest_zero([score], round(fraction * target.amount * score.numel()))[0])

    def _score(self, weight: Weight) -> torch.Tensor:
        """Magnitudes; what is zero by the mask already comes first."""
        mask = self._masks[weight.name].mask
        original = weight.module.parametrizations[weight.parameter].original  # type: ignore[union-attr, index]
        score = original.detach().abs().float()
        if not bool(score.isfinite().all()):
            raise InvalidArgumentError(f"'{weight.name}' has become NaN or infinite in training; it cannot be ranked")
        return torch.where(mask.bool(), score, -1.0)

    def _set(self, weight: Weight, keep: torch.Tensor) -> None:
        mask = self._masks[weight.name].mask
        mask.copy_(keep.to(mask.dtype))


def prune_weights(
    model: nn.Module,
    amount: float | str | None = None,
    *,
    scope: str = "layer",
    layers: Mapping[Pattern, Amount] | None = None,
) -> nn.Module:
    """Prunes at once and for good, in place, and returns the model.

    Arguments and errors are those of :class:`Pruner`.
    """
    return Pruner(model, amount, scope=scope, layers=layers).finish()
