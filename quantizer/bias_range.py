"""Weights whose bias would not fit 32 bits get a coarser scale.

Integer kernels add the bias to the sums, in steps of ``input scale * weight scale``. Where a channel's weights are (nearly) zero,
as those of dead channels, that step is so small that an ordinary bias becomes a number beyond int32. Next to such a bias the
weights of the channel count for nothing, so a scale that makes the bias fit loses nothing that the result's integers could show.
"""

from typing import Any

import torch
from torch import fx

from .lifting import constant_value
from .matching import CONV, CONV_TRANSPOSE, LINEAR, is_constant
from .pt2e import UniformQuantizationObserverBase
from .weight_observers import PerChannelMSEObserver

#: Largest integer of a bias that is aimed at; lowering takes up to twice as much, and the rest of int32 is for the sum.
LARGEST = 2**29


def fit_biases(prepared: fx.GraphModule) -> None:
    """Widens the observed range of weights, in place, whose bias has more than LARGEST steps."""
    modules = dict(prepared.named_modules(remove_duplicate=False))
    values: dict[fx.Node, Any] = {}
    for node in prepared.graph.nodes:
        if node.op != "call_function" or node.target not in CONV | CONV_TRANSPOSE | LINEAR:
            continue
        bias = node.args[2] if len(node.args) > 2 else None
        x, weight = (_observer(modules, argument) for argument in node.args[:2])
        if x is None or weight is None or not isinstance(bias, fx.Node) or not is_constant(bias):
            continue
        _fit(x, weight, constant_value(prepared, bias, values))


def _observer(modules: dict[str, Any], node: Any) -> Any:
    """What chooses fixed parameters; None for everything else."""
    module = modules.get(str(node.target)) if isinstance(node, fx.Node) and node.op == "call_module" else None
    inner = getattr(module, "activation_post_process", module)
    known = isinstance(inner, (PerChannelMSEObserver, UniformQuantizationObserverBase)) and not inner.is_dynamic
    return inner if known and getattr(inner, "quant_max", None) is not None else None


def _fit(x: Any, weight: Any, bias: torch.Tensor) -> None:
    scales = weight.calculate_qparams()[0].detach().double().reshape(-1)
    largest = bias.detach().abs().double().reshape(-1) if scales.numel() > 1 else bias.detach().abs().max().double()
    if scales.numel() != largest.numel():
        return  # of groups of columns, which no integer sums go over
    least = largest / (float(x.calculate_qparams()[0].detach().max()) * LARGEST)
    if bool((scales >= least).all()):
        return
    if isinstance(weight, PerChannelMSEObserver):
        weight.least_scales = least.float()
    else:
        end = (least * (weight.quant_max - weight.quant_min) / 2).float().reshape(weight.max_val.shape)
        weight.max_val.copy_(torch.maximum(weight.max_val, end))
