"""torchao's own functions with a quantizer of this package treat batch norms as ours do (flow/pt2e_flow.py).

torchao folds before it calls the quantizer, and in the wrong way where another node reads the layer's
result or its weight. While a model trains, and each time that it goes to evaluation or back, its norms get an eps and a
momentum of torchao's. So torchao's steps look first whose quantizer is at work, or who prepared the module. With
quantizers of others they are as they were.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import fx

from ..rules.loops import given_to_bodies, scan
from ..spec.pt2e import FakeQuantizeBase, convert_prepared, mode_switches
from . import batch_norm, fake_quantization
from .prepared_graphs import OURS, closed, prepare_bodies

_PACKAGE = __name__.rsplit(".", 2)[0]


def _is_ours(quantizer: Any) -> bool:
    """Whether this package has the quantizer's class or one that it builds on, or that of a part of a composed one."""
    return any(one.__module__.startswith(_PACKAGE) for one in type(quantizer).__mro__) or any(
        _is_ours(part) for part in getattr(quantizer, "quantizers", ())
    )


def _by_quantizer(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A step of preparing, as ours where the function that calls it has a quantizer of ours."""

    @functools.wraps(theirs)
    def step(*args: Any, **kwargs: Any) -> Any:
        chosen = ours if _is_ours(sys._getframe(1).f_locals.get("quantizer")) else theirs
        return chosen(*args, **kwargs)

    return step


def _by_module(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A step behind preparing, as ours where a module was prepared with a quantizer of ours."""

    @functools.wraps(theirs)
    def step(model: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        return (ours if model.meta.get(OURS) else theirs)(model, *args, **kwargs)

    return step


def _nothing(model: fx.GraphModule, *_: Any, **__: Any) -> fx.GraphModule:
    return model


def _prepared(model: fx.GraphModule, *args: Any, is_qat: bool, **kwargs: Any) -> fx.GraphModule:
    prepared = _their_prepare(model, *args, is_qat=is_qat, **kwargs)
    prepared.meta[OURS] = True
    prepare_bodies(prepared, sys._getframe(2).f_locals["quantizer"], is_qat, (scan,))
    fake_quantization.as_converted(prepared)
    return prepared


def _with_modes(model: fx.GraphModule) -> fx.GraphModule:
    if not any(isinstance(module, FakeQuantizeBase) for module in model.modules()):
        return _their_modes(model)
    batch_norm.let_train_and_eval_work(model)
    return model


def _converted(prepared: fx.GraphModule) -> fx.GraphModule:
    options = sys._getframe(2).f_locals
    with closed(prepared, options["use_reference_representation"], options["fold_quantize"]):
        converted = _their_convert(prepared)
    batch_norm.shown(converted)
    given_to_bodies(converted)
    converted.meta[OURS] = True
    return converted


def _switched(model: fx.GraphModule, train_to_eval: bool) -> None:
    batch_norm.switch(model, not train_to_eval)
    # torchao does nothing for the mode that it remembers, and train() and eval() change it, too.
    vars(model).pop(mode_switches._EXPORTED_TRAINING_ATTR, None)


_flow = sys.modules[convert_prepared.__module__]
_their_prepare, _their_modes = _flow.prepare, _flow._disallow_eval_train
_their_convert = _flow._convert_to_reference_decomposed_fx
_STEPS: tuple[tuple[ModuleType, str, Callable[..., Any], Callable[..., Any]], ...] = (
    (_flow, "_fuse_conv_bn_", _by_quantizer, batch_norm.fold),
    (_flow, "_fuse_linear_bn_", _by_quantizer, batch_norm.fold),
    (_flow, "_fuse_conv_bn_qat", _by_quantizer, batch_norm.open_for_training),
    (_flow, "prepare", _by_quantizer, _prepared),
    (_flow, "_disallow_eval_train", _by_module, _with_modes),
    (_flow, "_convert_to_reference_decomposed_fx", _by_module, _converted),
    (_flow, "_fold_conv_bn_qat", _by_module, _nothing),
    (mode_switches, "_replace_dropout", _by_module, _nothing),
    (mode_switches, "_replace_batchnorm", _by_module, _switched),
)
for _module, _name, _choice, _step in _STEPS:
    setattr(_module, _name, _choice(getattr(_module, _name), _step))
