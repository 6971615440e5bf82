"""While a model trains quantized: what is trained is what is converted, and evaluating it changes nothing.

>>> as_converted(prepared)  # fake quantization rounds with the parameters that convert will write  # doctest: +SKIP
>>> follow(prepared, mode=False)  # activations keep their parameters until it trains again  # doctest: +SKIP
"""

from torch import fx

from .checks import is_weight, observers_of
from .pt2e import FakeQuantize, FakeQuantizeBase, FusedMovingAvgObsFakeQuantize

#: Attribute of a fake quantizer that was told to stand still while the model is evaluated.
_PAUSED = "executorch_py_paused"


class _AsConverted(FusedMovingAvgObsFakeQuantize):
    """torch's fused operator has other scales for symmetric integers (of int4, a seventh of the largest instead of 2/15) than
    its observer has, whose scales a conversion writes. This one rounds with the observer's.
    """

    forward = FakeQuantize.forward


def as_converted(prepared: fx.GraphModule) -> None:
    """Makes fused fake quantizers round as the converted model will, in place, whoever's quantizer put them there."""
    for module in prepared.modules():
        if type(module) is FusedMovingAvgObsFakeQuantize:
            module.__class__ = _AsConverted


def follow(prepared: fx.GraphModule, mode: bool) -> None:
    """Activations' parameters follow the data in training mode only, in place.

    Those that have seen nothing yet follow in any mode, those that a user has stopped stay stopped. Weights are what they are.
    """
    for node, module in observers_of(prepared):
        if not isinstance(module, FakeQuantizeBase) or is_weight(node):
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
