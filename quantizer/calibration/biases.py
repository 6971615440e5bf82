"""Biases as integer kernels add them: numbers of steps of ``input scale * weight scale``, in 32 bits.

``fit_biases`` sees to it that they fit. Where a channel's weights are (nearly) zero, as those of dead channels, that
step is so small that an ordinary bias becomes a number beyond int32. Next to such a bias the weights of the channel
count for nothing, so a scale that makes the bias fit loses nothing that the result's integers could show.

``round_biases`` gives a converted graph the biases that are a whole number of steps, so that what ``program.module()``
computes in eager PyTorch is what the integer kernels compute. With biases in full precision a result that lies near the
middle between two integers falls to the other side in one of some thousand places, and a deep network makes much of
that (docs/reference/numerics.md).
"""

from collections import Counter
from typing import Any

import torch
from executorch_py.quantizer.rules.lifting import constant_value
from executorch_py.quantizer.rules.matching import CONV, CONV_TRANSPOSE, LINEAR, is_constant
from executorch_py.quantizer.spec.pt2e import UniformQuantizationObserverBase
from executorch_py.quantizer.spec.weight_observers import PerChannelMSEObserver
from torch import fx

from executorch_py.graphs.nodes import arguments_of, module_attribute

#: Largest integer of a bias that is aimed at. Lowering takes up to twice as much (kLargestBias of
#: src/cpp/passes/quantized_values.h), and the rest of int32 is for the sum.
LARGEST = 2**29

_decomposed = torch.ops.quantized_decomposed


def fit_biases(prepared: fx.GraphModule) -> None:
    """Widens the observed range of weights, in place, whose bias has more than LARGEST steps."""
    modules = dict(prepared.named_modules(remove_duplicate=False))
    values: dict[fx.Node, Any] = {}
    for node in prepared.graph.nodes:
        if node.op != "call_function" or node.target not in CONV | CONV_TRANSPOSE | LINEAR:
            continue
        given = arguments_of(node)
        x, weight, bias = _observer(modules, given["input"]), _observer(modules, given["weight"]), given["bias"]
        if x is None or weight is None or not isinstance(bias, fx.Node) or not is_constant(bias):
            continue
        _fit(x, weight, constant_value(prepared, bias, values))


def round_biases(converted: fx.GraphModule) -> None:
    """Rounds the constant biases of products of integers to whole steps, in place.

    Those of products that stay in float (weights alone, inputs quantized at run time, a bias beyond 32 bits) keep their
    bits. The model's own parameters are not written to: a rounded bias is a new one.
    """
    values: dict[fx.Node, Any] = {}
    readers = Counter(node.target for node in converted.graph.nodes if node.op == "get_attr")
    for node in list(converted.graph.nodes):
        if node.op != "call_function" or node.target not in CONV | CONV_TRANSPOSE | LINEAR:
            continue
        x, weight, bias, *_ = arguments_of(node).values()
        if not isinstance(bias, fx.Node) or bias.op != "get_attr":
            continue
        before = constant_value(converted, bias, values)
        step = _step(converted, x, weight)
        if step is None or step.numel() not in (1, before.numel()) or before.dtype != torch.float32:
            continue
        steps = (before.detach().double() / step).round()
        if not bool((steps.abs() <= 2 * LARGEST).all()):
            continue
        alone = readers[bias.target] == 1 and len(bias.users) == 1
        name = str(bias.target) if alone else f"_bias_of_{node.name}"
        _replace(converted, node, bias, (steps * step).float(), name)
    converted.recompile()


def _step(converted: fx.GraphModule, x: Any, weight: Any) -> torch.Tensor | None:
    """What one unit of the sum stands for, float64 [1] or [rows]; None where the product is none of integers."""
    if not isinstance(x, fx.Node) or not isinstance(weight, fx.Node):
        return None
    if x.target is not _decomposed.dequantize_per_tensor.default:
        return None
    if weight.target is _decomposed.dequantize_per_tensor.default:
        scales = torch.tensor([arguments_of(weight)["scale"]], dtype=torch.float64)
    elif weight.target is _decomposed.dequantize_per_channel.default:
        scales = constant_value(converted, arguments_of(weight)["scales"]).detach().double().reshape(-1)
    else:
        return None
    return scales * float(arguments_of(x)["scale"])


def _replace(converted: fx.GraphModule, node: fx.Node, bias: fx.Node, value: torch.Tensor, name: str) -> None:
    """Gives ``node`` a bias of its own: under the name of the one before, or under a new one where others read that."""
    if name != bias.target:
        while hasattr(converted, name):
            name += "_"
        converted.register_buffer(name, value)
        with converted.graph.inserting_before(node):
            new = converted.graph.get_attr(name)
        new.meta = dict(bias.meta)
        node.replace_input_with(bias, new)
        return
    owner, _, last = name.rpartition(".")
    is_parameter = isinstance(module_attribute(converted, name), torch.nn.Parameter)
    setattr(
        converted.get_submodule(owner), last, torch.nn.Parameter(value, requires_grad=False) if is_parameter else value
    )


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
