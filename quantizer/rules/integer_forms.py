"""Operators without a form on integers, written with those that have one, where nothing beside the NPU computes.

Weights of interpolation become those of a convolution or linear layer. Norms of groups become layer norms, and their
factors a depthwise convolution of one pixel, so that each channel keeps a scale of its own.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import fx
from torch.nn import functional as F

from executorch_py.graphs.nodes import arguments_of

from .hidden_scores import FORMS_OF_MASKS
from .matching import has_running_statistics, is_constant, is_float32

aten = torch.ops.aten

_VARIANCES = (aten.var.default, aten.var.dim, aten.var.correction)
_DEVIATIONS = (aten.std.default, aten.std.dim, aten.std.correction)

#: What an operator is replaced by, called like it.
Formula = Callable[..., torch.Tensor]


def _prelu(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    above = torch.relu(x)
    if weight.numel() == 1:
        return above - weight * torch.relu(-x)  # a function of x: one table
    return above + weight.reshape(1, -1, *(1,) * (x.dim() - 2)) * (x - above)


def _group_norm(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> torch.Tensor:
    rows = x.reshape(x.shape[0], groups, -1)
    normalised = F.layer_norm(rows, rows.shape[2:], eps=eps).reshape(x.shape)
    if weight is None:
        return normalised
    pixels = normalised.reshape(*x.shape[:2], -1)
    return F.conv1d(pixels, weight.reshape(-1, 1, 1), bias, groups=x.shape[1]).reshape(x.shape)


def _instance_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    _mean: None,
    _variance: None,
    _own: bool,
    _momentum: float,
    eps: float,
    *_: Any,
) -> torch.Tensor:
    return _group_norm(x, x.shape[1], weight, bias, eps)


def _log_softmax(x: torch.Tensor, dim: int, *_: Any, **__: Any) -> torch.Tensor:
    """The largest share is one divided by the sum of powers of what the others are below the largest element."""
    return (x - x.amax(dim, True)) + x.softmax(dim).amax(dim, True).log()


def _rms_norm(
    x: torch.Tensor, shape: list[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    dims = list(range(x.dim() - len(shape), x.dim()))
    mean = (x * x).mean(dims, keepdim=True)
    scaled = x * (mean + (torch.finfo(x.dtype).eps if eps is None else eps)).rsqrt()
    return scaled if weight is None else scaled * weight


def _variance(x: torch.Tensor, dims: list[int], less: float, keepdim: bool) -> torch.Tensor:
    distances = x - x.mean(dims, keepdim=True)
    count = math.prod(x.shape[d] for d in dims)
    return (distances * distances).mean(dims, keepdim=keepdim) * (count / (count - less))


def _largest(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return x.amax(dim, keepdim), x


def _smallest(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return x.amin(dim, keepdim), x


def _sum(x: torch.Tensor, **_: Any) -> torch.Tensor:
    return x.sum(tuple(range(x.dim())))


def _mean(x: torch.Tensor, **_: Any) -> torch.Tensor:
    return x.mean(tuple(range(x.dim())))


def _channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


def _roll(x: torch.Tensor, shifts: list[int], dims: list[int]) -> torch.Tensor:
    for shift, dim in zip(shifts, dims, strict=True):
        first = -shift % x.shape[dim]
        x = torch.cat([x.narrow(dim, first, x.shape[dim] - first), x.narrow(dim, 0, first)], dim) if first else x
    return x


def _bordered(x: torch.Tensor, pad: list[int], mode: str) -> torch.Tensor:
    """Elements of a tensor itself around it: ``pad`` has pairs, from the last dim on."""
    for i in range(0, len(pad), 2):
        dim, (before, behind) = x.dim() - 1 - i // 2, pad[i : i + 2]
        size = x.shape[dim]
        if mode == "reflect":
            sides = x.narrow(dim, 1, before).flip(dim), x.narrow(dim, size - 1 - behind, behind).flip(dim)
        else:
            ends = x.narrow(dim, 0, 1), x.narrow(dim, size - 1, 1)
            sides = ends[0].repeat_interleave(before, dim), ends[1].repeat_interleave(behind, dim)
        x = torch.cat([part for part in (sides[0], x, sides[1]) if part.shape[dim]], dim)
    return x


def _of_padding(node: fx.Node) -> Formula | None:
    given = arguments_of(node)
    if given["mode"] not in ("reflect", "replicate") or min(given["pad"]) < 0:
        return None
    return lambda x, pad, mode, *_: _bordered(x, pad, mode)


def _of_instance_norm(node: fx.Node) -> Formula | None:
    return None if has_running_statistics(node) else _instance_norm


def _full(constant: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A constant with the rank of what it stands beside, so that images need not be turned for it."""
    return constant.reshape(*(1,) * (like.dim() - constant.dim()), *constant.shape)


def _of_quotient(node: fx.Node) -> Formula | None:
    """A product with the divisor's reciprocal, which is a function of it."""
    divisor = node.args[1]
    if not is_float32(divisor):
        return None
    return (lambda x, by: x * _full(by.reciprocal(), x)) if is_constant(divisor) else lambda x, by: x * by.reciprocal()


def _of_spread(node: fx.Node) -> Formula | None:
    """A variance or deviation, where more elements are averaged than its correction takes off."""
    shape = cast(fx.Node, node.args[0]).meta["val"].shape
    given = arguments_of(node)
    dims = [d % len(shape) for d in given.get("dim") or range(len(shape))]
    correction = given.get("correction")
    less = float(given.get("unbiased", True) if correction is None else correction)
    if not all(isinstance(shape[d], int) for d in dims) or math.prod(shape[d] for d in dims) <= less:
        return None
    keepdim, is_root = bool(given.get("keepdim")), node.target in _DEVIATIONS

    def spread(x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        variance = _variance(x, dims, less, keepdim)
        return variance.sqrt() if is_root else variance

    return spread


def _of_extreme(formula: Callable[..., Any]) -> Callable[[fx.Node], Formula | None]:
    """Where nothing reads the places."""
    return lambda node: formula if all(user.args[1] == 0 or not user.users for user in node.users) else None


def _of_product(node: fx.Node) -> Formula | None:
    ranks = [cast(fx.Node, x).meta["val"].dim() if is_float32(x) and is_constant(x) else None for x in node.args]
    rank = node.meta["val"].dim()
    if ranks[1] is not None and 0 < ranks[1] < rank:
        return lambda x, by: x * _full(by, x)
    return (lambda by, x: _full(by, x) * x) if ranks[0] is not None and 0 < ranks[0] < rank else None


def _matrix(size: int, to: int, align_corners: bool, factor: float | None) -> torch.Tensor:
    """Weights of ``size`` elements for each of ``to`` results of linear interpolation, as torch has them."""
    rows = aten.upsample_linear1d.vec(
        torch.eye(size)[None], None if factor else [to], align_corners, [factor] if factor else None
    )
    return rows[0].T.contiguous()


def _phases(factor: int) -> torch.Tensor:
    """Weights of three neighbours for the ``factor`` results that the middle one becomes."""
    at = (torch.arange(factor) + 0.5) / factor - 0.5
    return torch.stack([(-at).clamp(min=0), 1 - at.abs(), at.clamp(min=0)], 1)


def _of_bilinear(node: fx.Node) -> Formula | None:
    """Whole factors: a convolution whose channels are the pixels that one becomes. Others: a matrix for each side."""
    image = cast(fx.Node, node.args[0])
    (height, width), (to_height, to_width) = (one.meta["val"].shape[2:] for one in (image, node))
    sizes = (height, width, to_height, to_width)
    if not all(isinstance(size, int) for size in sizes):
        return None
    given = arguments_of(node)
    align_corners, factors = bool(given["align_corners"]), given["scale_factors"] or (None, None)
    factor = to_height // height
    if not align_corners and factor > 1 and (to_height, to_width) == (height * factor, width * factor):
        kernel = torch.einsum("ph,qw->pqhw", _phases(factor), _phases(factor)).reshape(-1, 1, 3, 3)
        channels = int(image.meta["val"].shape[1])
        weight = kernel.repeat(channels, 1, 1, 1)

        def enlarged(x: torch.Tensor, *_: Any) -> torch.Tensor:
            pixels = F.conv2d(_bordered(x, [1, 1, 1, 1], "replicate"), weight, groups=channels)
            return F.pixel_shuffle(pixels, factor)

        return enlarged
    rows = _matrix(height, to_height, align_corners, factors[0])
    columns = _matrix(width, to_width, align_corners, factors[1])

    def resized(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return F.linear(F.linear(x, columns).transpose(2, 3), rows).transpose(2, 3)

    return resized


def _of_einsum(node: fx.Node) -> Formula | None:
    """Of two activations."""
    given: Any = node.args[1]
    return torch.einsum if len(given) == 2 and all(is_float32(x) and not is_constant(x) for x in given) else None


#: Operator -> what a node of it is replaced by; None: it stays.
INTEGER_FORMS: dict[Any, Callable[[fx.Node], Formula | None]] = {
    aten.prelu.default: lambda node: _prelu if is_constant(node.args[1]) else None,
    aten.group_norm.default: lambda _: _group_norm,
    aten.instance_norm.default: _of_instance_norm,
    aten.log_softmax.int: lambda _: _log_softmax,
    aten.rms_norm.default: lambda node: _rms_norm if all(map(is_constant, node.all_input_nodes[1:])) else None,
    **dict.fromkeys((*_VARIANCES, *_DEVIATIONS), _of_spread),
    aten.max.dim: _of_extreme(_largest),
    aten.min.dim: _of_extreme(_smallest),
    aten.sum.default: lambda _: _sum,
    aten.mean.default: lambda _: _mean,
    aten.channel_shuffle.default: lambda _: _channel_shuffle,
    aten.roll.default: lambda node: _roll if arguments_of(node)["dims"] else None,
    aten.pad.default: _of_padding,
    aten.upsample_bilinear2d.vec: _of_bilinear,
    aten.einsum.default: _of_einsum,
    **FORMS_OF_MASKS,
    aten.mul.Tensor: _of_product,
    aten.div.Tensor: _of_quotient,
}
