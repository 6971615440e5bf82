"""While a model trains quantized: what is trained is what is converted, and evaluating it changes nothing.

>>> as_converted(prepared)  # fake quantization rounds with the parameters that convert will write  # doctest: +SKIP
>>> follow(prepared, mode=False)  # activations keep their parameters until it trains again  # doctest: +SKIP
"""

from typing import Any

import torch
from executorch_py.quantizer.spec.pt2e import FakeQuantize, FakeQuantizeBase, FusedMovingAvgObsFakeQuantize
from torch import fx

from executorch_py.errors import InvalidArgumentError

from .observer_calls import is_weight, observed, observers_of

#: Attribute of a fake quantizer that was told to stand still while the model is evaluated.
_PAUSED = "executorch_py_paused"


class _AsConverted(FusedMovingAvgObsFakeQuantize):
    """torch's fused operator has other scales for symmetric integers (of int4, a seventh of the largest instead of
    2/15) than its observer has, whose scales a conversion writes. This one rounds with the observer's.
    """

    #: What it looks at, for messages.
    place = "a tensor"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rounds ``x``; follows its range while observers are on."""
        try:
            return FakeQuantize.forward(self, x)
        except AssertionError:
            if not bool(x.isnan().any()):
                raise
        raise InvalidArgumentError(
            f"{self.place} is NaN; no scale fits that. Does a batch hold NaN, or has the training diverged? Go back to "
            "a checkpoint from before"
        )


def as_converted(prepared: fx.GraphModule) -> None:
    """Makes fused fake quantizers round as the converted model will, in place, whoever's quantizer put them there."""
    for node, module in observers_of(prepared):
        if type(module) is FusedMovingAvgObsFakeQuantize:
            module.__class__ = _AsConverted
            module.place = observed(node)


def keep_in_checkpoints(prepared: fx.GraphModule) -> None:
    """State dicts say of fake quantizers what the user has set, in place, whichever mode they are taken or loaded in.

    One that stands still during an evaluation is stopped in the buffer that a state dict holds: a module that resumes
    from it would never follow its data again.
    """
    for _, module in observers_of(prepared):
        if isinstance(module, FakeQuantizeBase):
            module.register_state_dict_post_hook(_say_what_is_set)
            module.register_load_state_dict_post_hook(_stand_still_again)


def _say_what_is_set(module: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
    name = f"{prefix}observer_enabled"
    if getattr(module, _PAUSED, False) and name in state:
        state[name] = torch.ones_like(state[name])


def _stand_still_again(module: Any, _: Any) -> None:
    if getattr(module, _PAUSED, False):
        setattr(module, _PAUSED, bool(module.observer_enabled[0]))
        module.disable_observer()


def follow(prepared: fx.GraphModule, mode: bool) -> None:
    """Activations' parameters follow the data in training mode only, in place.

    Those that a converted model makes at run time always follow, so that an evaluation computes what it will. Those
    that have seen nothing yet follow in any mode, those that a user has stopped stay stopped. Weights are what they
    are.
    """
    for node, module in observers_of(prepared):
        if not isinstance(module, FakeQuantizeBase) or is_weight(node) or getattr(module, "is_dynamic", False):
            continue
        if mode and getattr(module, _PAUSED, False):
            module.enable_observer()
            setattr(module, _PAUSED, False)
        elif not mode and int(module.observer_enabled[0]) == 1 and _has_seen(module):
            module.disable_observer()
            setattr(module, _PAUSED, True)


def _has_seen(module: FakeQuantizeBase) -> bool:
    low = getattr(getattr(module, "activation_post_process", None), "min_val", None)
    return low is not None and low.numel() > 0 and bool((low != float("inf")).all())
