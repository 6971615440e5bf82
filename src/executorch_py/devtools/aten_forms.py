"""Operators that ATen does not have, written with ATen's own: what kernels of ours are held against.

Products are made in float64. Integer operators dequantize, compute and quantize again, so a step of the result may
differ. ``FORMS`` has a function for each, with the arguments of the operator's schema by name.

Example:
    >>> import torch
    >>> FORMS["et::swish"](self=torch.zeros(2), beta=1.0)
    tensor([0., 0.])
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["FORMS", "PRIMS"]

_Function = Callable[..., Any]


def _clamped(x: Tensor, low: float | None, high: float | None) -> Tensor:
    return x if low is None and high is None else x.clamp(low, high)


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None, min: Any = None, max: Any = None) -> Tensor:
    return _clamped(F.linear(input, weight, bias), min, max)


def _convolution(input: Tensor, weight: Tensor, bias: Tensor | None, **rest: Any) -> Tensor:
    low, high = rest.pop("min", None), rest.pop("max", None)
    return _clamped(torch.ops.aten.convolution.default(input, weight, bias, *rest.values()), low, high)


def _separable(input: Tensor, weight: Tensor, project_weight: Tensor, **rest: Any) -> Tensor:
    x = input
    if rest["expand_weight"] is not None:
        expanded = F.conv2d(x, rest["expand_weight"], rest["expand_bias"])
        x = _clamped(expanded, rest["expand_min"], rest["expand_max"])
    x = F.conv2d(x, weight, rest["bias"], rest["stride"], rest["padding"], groups=len(weight))
    x = F.conv2d(_clamped(x, rest["min"], rest["max"]), project_weight, rest["project_bias"])
    return _clamped(x, rest["project_min"], rest["project_max"])


def _lstm_gates(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, -1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * after.tanh(), after


def _gru_gates(input: Tensor, hidden: Tensor, state: Tensor) -> Tensor:
    (ir, iz, i_n), (hr, hz, hn) = input.chunk(3, -1), hidden.chunk(3, -1)
    new = (i_n + (ir + hr).sigmoid() * hn).tanh()
    return ((state - new) * (iz + hz).sigmoid() + new).reshape(state.shape)


def _real(x: Tensor, scale: float, zero_point: int) -> Tensor:
    return (x.double() - zero_point) * scale


def _steps(x: Tensor, given: dict[str, Any]) -> Tensor:
    """A real result as the integers that the operator gives."""
    steps = (x / given["output_scale"]).round() + given["output_zero_point"]
    return steps.nan_to_num(0).clamp(given["output_min"], given["output_max"])


def _on_integers(name: str, function: Callable[[Tensor, dict[str, Any]], Tensor]) -> _Function:
    """Dequantizes the first argument, computes and quantizes."""

    def form(**given: Any) -> Tensor:
        zero = given.get(f"{name}_zero_point", 0)
        return _steps(function(_real(given[name], given[f"{name}_scale"], zero), given), given)

    return form


def _other(given: dict[str, Any], name: str) -> Tensor:
    return _real(given[name], given[f"{name}_scale"], given[f"{name}_zero_point"])


def _unpacked(weight: Tensor, columns: int) -> Tensor:
    """Rows of an integer weight; bytes without a sign hold two columns each, the first in the low half, plus 8."""
    if weight.dtype != torch.uint8:
        return weight.double()
    halves = torch.stack([weight & 15, weight >> 4], -1).flatten(-2)[..., :columns]
    return halves.double() - 8


def _filters(weight: Tensor, channels: int) -> Tensor:
    """An integer filter; bytes without a sign hold two neighbours of the first dimension."""
    if weight.dtype != torch.uint8:
        return weight.double()
    return _unpacked(weight.flatten(1).T, channels).T.reshape(channels, *weight.shape[1:])


def _num_filters(given: dict[str, Any]) -> int:
    """How many a filter has in its first dimension, where a byte may hold two of them."""
    if given["transposed"]:
        return int(given["input"].shape[1])
    told = [len(one) for one in (given["bias"], given["weight_scales"]) if one is not None and len(one) > 1]
    return told[0] if told else 2 * len(given["weight"])


def _arguments_behind_bias(given: dict[str, Any]) -> list[Any]:
    return [given[name] for name in ("stride", "padding", "dilation", "transposed", "output_padding", "groups")]


def _integer_convolution(x: Tensor, given: dict[str, Any]) -> Tensor:
    weight = _filters(given["weight"], _num_filters(given))
    steps = (x / given["input_scale"]).round()
    sums = torch.ops.aten.convolution.default(steps, weight, None, *_arguments_behind_bias(given))
    shape = [-1] + [1] * (sums.dim() - 2)
    if given["bias"] is not None:
        sums = sums + given["bias"].double().reshape(shape)
    return sums * (given["weight_scales"].double() * given["input_scale"]).reshape(shape)


def _weight_only_convolution(**given: Any) -> Tensor:
    weight, zeros, bias = _filters(given["weight"], _num_filters(given)), given["weight_zero_points"], given["bias"]
    axis = int(given["transposed"])
    shape = [-1 if dim == axis else 1 for dim in range(weight.dim())]
    real = (weight - (0 if zeros is None else zeros.double().reshape(shape))) * given["weight_scales"].reshape(shape)
    numbers = (given["input"].double(), real.double(), None if bias is None else bias.double())
    sums = torch.ops.aten.convolution.default(*numbers, *_arguments_behind_bias(given))
    return _clamped(sums, given["min"], given["max"])


def _quantized_at_the_call(given: dict[str, Any]) -> Tensor:
    """The input as the real numbers of its integers: one scale for all of it, or one for each row."""
    q, x, dtype = torch.ops.quantized_decomposed, given["input"].float(), torch.int8
    low, high = given["quant_min"], given["quant_max"]
    choose: _Function
    if given.get("per_token"):
        choose = q.choose_qparams_per_token if given["symmetric"] else q.choose_qparams_per_token_asymmetric
        scale, zero = choose(x, dtype)
        steps = q.quantize_per_token(x, scale.double(), zero.long(), low, high, dtype)
        return (steps.double() - zero) * scale.double()
    choose = q.choose_qparams_symmetric.tensor if given["symmetric"] else q.choose_qparams.tensor
    scale, zero = choose(x, low, high, given["eps"], dtype)
    return (q.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype).double() - zero) * scale


def _dynamic_convolution(**given: Any) -> Tensor:
    real = _quantized_at_the_call(given)
    return _weight_only_convolution(
        **{**given, "input": real, "weight_zero_points": None, "transposed": False, "output_padding": [0]}
    )


def _dynamic_linear(**given: Any) -> Tensor:
    real = _quantized_at_the_call(given)
    weight = _grouped(given["weight"], given["weight_scales"], None, real.shape[-1], given["group_size"])
    return F.linear(real, weight, None if given["bias"] is None else given["bias"].double())


def _integer_linear(x: Tensor, given: dict[str, Any]) -> Tensor:
    sums = F.linear((x / given["input_scale"]).round(), _unpacked(given["weight"], x.shape[-1]))
    if given["bias"] is not None:
        sums = sums + given["bias"].double()
    return sums * (given["weight_scales"].double() * given["input_scale"])


def _grouped(weight: Tensor, scales: Tensor, zeros: Tensor | None, columns: int, group: int) -> Tensor:
    """The real numbers of a weight with a scale a row, or a group of columns."""
    rows = _unpacked(weight, columns)
    grouped = rows.reshape(len(rows), -1, group or columns)
    shape = (-1, grouped.shape[1], 1) if scales.numel() > 1 else (1, 1, 1)
    if zeros is not None:
        grouped = grouped - zeros.double().reshape(shape)
    return (grouped * scales.double().reshape(shape)).reshape(rows.shape)


def _weight_only_linear(**given: Any) -> Tensor:
    x, bias = given["input"].double(), given["bias"]
    weight = _grouped(
        given["weight"], given["weight_scales"], given["weight_zero_points"], x.shape[-1], given["group_size"]
    )
    return F.linear(x, weight, None if bias is None else bias.double())


def _embedding(**given: Any) -> Tensor:
    scales, zeros = given["weight_scales"], given["weight_zero_points"]
    return F.embedding(
        given["indices"], _grouped(given["weight"], scales, zeros, given["columns"], given["group_size"])
    )


def _integer_attention(query: Tensor, given: dict[str, Any]) -> Tensor:
    mask = given["attn_mask"]
    return F.scaled_dot_product_attention(
        query,
        _other(given, "key"),
        _other(given, "value"),
        mask if mask is None or mask.dtype == torch.bool else mask.double(),
        is_causal=given["is_causal"],
        scale=given["scale"],
        enable_gqa=given["enable_gqa"],
    )


def _integer_mean(x: Tensor, given: dict[str, Any]) -> Tensor:
    return x.mean(given["dim"] or None, keepdim=given["keepdim"])


def _integer_pool(x: Tensor, given: dict[str, Any]) -> Tensor:
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
    return F.avg_pool2d(x, *(given[name] for name in names))


def _integer_norm(x: Tensor, given: dict[str, Any]) -> Tensor:
    weight, bias = (None if given[name] is None else given[name].double() for name in ("weight", "bias"))
    return F.layer_norm(x, given["normalized_shape"], weight, bias, given["eps"])


def _table(self: Tensor, table: Tensor) -> Tensor:
    return table[self.long() - torch.iinfo(self.dtype).min]


#: Name of an operator -> the same by ATen, as a function of the schema's arguments.
FORMS: dict[str, _Function] = {
    "dim_order_ops::_clone_dim_order": lambda self, **_: self.clone(),
    "dim_order_ops::_to_dim_order_copy": lambda self, dtype, **_: self.to(dtype),
    "et_copy::_d2h_copy": lambda self: self.clone(),
    "et_copy::_h2d_copy": lambda self: self.clone(),
    "et::addmm_clamp": lambda min, max, **rest: _clamped(torch.addmm(**rest), min, max),
    "et::convolution_clamp": _convolution,
    "et::dynamic_convolution": _dynamic_convolution,
    "et::dynamic_linear": _dynamic_linear,
    "et::gru_gates": _gru_gates,
    "et::linear_clamp": _linear,
    "et::lstm_gates": _lstm_gates,
    "et::quantized_adaptive_avg_pool2d": _on_integers("self", lambda x, g: F.adaptive_avg_pool2d(x, g["output_size"])),
    "et::quantized_add": _on_integers("self", lambda x, g: x + _other(g, "other")),
    "et::quantized_attention": _on_integers("query", _integer_attention),
    "et::quantized_avg_pool2d": _on_integers("self", _integer_pool),
    "et::quantized_convolution": _on_integers("input", _integer_convolution),
    "et::quantized_embedding": _embedding,
    "et::quantized_layer_norm": _on_integers("input", _integer_norm),
    "et::quantized_linear": _on_integers("input", _integer_linear),
    "et::quantized_matmul": _on_integers("self", lambda x, g: x @ _other(g, "mat2")),
    "et::quantized_mean": _on_integers("self", _integer_mean),
    "et::quantized_mul": _on_integers("self", lambda x, g: x * _other(g, "other")),
    "et::quantized_softmax": _on_integers("self", lambda x, g: x.softmax(g["dim"])),
    "et::quantized_sub": _on_integers("self", lambda x, g: x - _other(g, "other")),
    "et::quantized_table": _table,
    "et::rms_norm": lambda input, weight, eps: F.rms_norm(input, input.shape[-1:], weight, eps),
    "et::separable_convolution": _separable,
    "et::swish": lambda self, beta: self * torch.sigmoid(self * beta),
    "et::weight_only_convolution": _weight_only_convolution,
    "et::weight_only_linear": _weight_only_linear,
}

#: Name of a kernel on numbers -> the same in Python.
PRIMS: dict[str, _Function] = {
    f"executorch_prim::{name}": function
    for names, function in (
        (("add.Scalar",), operator.add),
        (("ceil.Scalar",), math.ceil),
        (("eq.Scalar",), operator.eq),
        (("floordiv.Scalar", "floordiv.int"), operator.floordiv),
        (("ge.Scalar",), operator.ge),
        (("gt.Scalar",), operator.gt),
        (("le.Scalar",), operator.le),
        (("lt.Scalar",), operator.lt),
        (("mod.Scalar", "mod.int"), operator.mod),
        (("mul.Scalar",), operator.mul),
        (("neg.Scalar",), operator.neg),
        (("round.Scalar",), round),
        (("sub.Scalar",), operator.sub),
        (("sym_float.Scalar",), float),
        (("sym_int.Scalar", "trunc.Scalar"), math.trunc),
        (("sym_max.Scalar",), max),
        (("sym_min.Scalar",), min),
        (("sym_not.Scalar",), operator.not_),
        (("truediv.Scalar",), operator.truediv),
    )
    for name in names
}
