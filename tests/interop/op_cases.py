"""One small module an operator, for running files of ours in the official runtime and files of its exporter in ours.

Each case is a function of tensors and the inputs it is called with. Needs torch only. The name before the first "." is
the operator that the case is about, as the published runtime calls it; variants follow after the dot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class OpCase:
    """`function(*inputs)` is what is exported and what eager computes."""

    name: str
    function: Callable[..., object]
    inputs: tuple[torch.Tensor, ...]

    def module(self) -> torch.nn.Module:
        return _Wrapper(self.function).eval()


class _Wrapper(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def _floats(*sizes: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum((i + 1) * s for i, s in enumerate(sizes)) + 17)
    return torch.rand(sizes, generator=generator) * (high - low) + low


def _ints(*sizes: int, low: int = -9, high: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum((i + 1) * s for i, s in enumerate(sizes)) + 5)
    return torch.randint(low, high, sizes, generator=generator)


def _bools(*sizes: int) -> torch.Tensor:
    return _ints(*sizes) > 0


def cases() -> list[OpCase]:
    """All cases, in the order of their names."""
    x, y = _floats(3, 4), _floats(4, 3).t().contiguous()
    positive = _floats(3, 4, low=0.1, high=3.0)
    unit = _floats(3, 4, low=-0.99, high=0.99)
    n, m = _ints(3, 4), _ints(4, 3).t().contiguous()
    a, b = _bools(3, 4), _bools(4, 3).t().contiguous()
    image = _floats(2, 3, 8, 8)
    volume = _floats(2, 4, 6)
    index = _ints(3, 2, low=0, high=4)
    table: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
        # unary
        "abs": (torch.abs, (x,)),
        "acos": (torch.acos, (unit,)),
        "acosh": (torch.acosh, (positive + 1,)),
        "asin": (torch.asin, (unit,)),
        "asinh": (torch.asinh, (x,)),
        "atan": (torch.atan, (x,)),
        "atanh": (torch.atanh, (unit,)),
        "bitwise_not": (torch.bitwise_not, (n,)),
        "ceil": (torch.ceil, (x,)),
        "cos": (torch.cos, (x,)),
        "cosh": (torch.cosh, (x,)),
        "erf": (torch.erf, (x,)),
        "exp": (torch.exp, (x,)),
        "expm1": (torch.expm1, (x,)),
        "floor": (torch.floor, (x,)),
        "isinf": (torch.isinf, (torch.tensor([1.0, float("inf"), float("-inf"), float("nan")]),)),
        "isnan": (torch.isnan, (torch.tensor([1.0, float("inf"), float("-inf"), float("nan")]),)),
        "log": (torch.log, (positive,)),
        "log10": (torch.log10, (positive,)),
        "log1p": (torch.log1p, (positive,)),
        "log2": (torch.log2, (positive,)),
        "logical_not": (torch.logical_not, (x,)),
        "logit": (lambda t: torch.logit(t, eps=1e-3), (_floats(3, 4, low=0.01, high=0.99),)),
        "neg": (torch.neg, (x,)),
        "reciprocal": (torch.reciprocal, (positive,)),
        "relu": (torch.relu, (x,)),
        "round": (torch.round, (x * 3,)),
        "rsqrt": (torch.rsqrt, (positive,)),
        "sigmoid": (torch.sigmoid, (x,)),
        "sign": (torch.sign, (x,)),
        "sin": (torch.sin, (x,)),
        "sinh": (torch.sinh, (x,)),
        "sqrt": (torch.sqrt, (positive,)),
        "tan": (torch.tan, (unit,)),
        "tanh": (torch.tanh, (x,)),
        "trunc": (torch.trunc, (x,)),
        # activations with parameters
        "clamp": (lambda t: torch.clamp(t, -0.5, 0.75), (x,)),
        "clamp.Tensor": (lambda t, lo, hi: torch.clamp(t, lo, hi), (x, unit - 1, unit + 1)),
        "elu": (lambda t: F.elu(t, 0.7), (x,)),
        "gelu": (F.gelu, (x,)),
        "gelu.tanh": (lambda t: F.gelu(t, approximate="tanh"), (x,)),
        "glu": (F.glu, (x,)),
        "hardtanh": (lambda t: F.hardtanh(t, -0.3, 0.6), (x,)),
        "leaky_relu": (lambda t: F.leaky_relu(t, 0.2), (x,)),
        # binary
        "add": (lambda s, t: torch.add(s, t, alpha=2), (x, y)),
        "add.Scalar": (lambda s: s + 3, (n,)),
        "atan2": (torch.atan2, (x, y)),
        "bitwise_and": (torch.bitwise_and, (n, m)),
        "bitwise_and.Scalar": (lambda s: s & 5, (n,)),
        "bitwise_or": (torch.bitwise_or, (n, m)),
        "bitwise_or.Scalar": (lambda s: s | 5, (n,)),
        "bitwise_xor": (torch.bitwise_xor, (a, b)),
        "bitwise_xor.Scalar": (lambda s: s ^ 5, (n,)),
        "bitwise_left_shift": (torch.bitwise_left_shift, (n.abs(), m.abs())),
        "bitwise_right_shift": (torch.bitwise_right_shift, (n * 100, m.abs())),
        "div": (torch.div, (x, positive)),
        "div.int": (torch.div, (n, m.abs() + 1)),
        "div.floor": (lambda s, t: torch.div(s, t, rounding_mode="floor"), (n, m.abs() + 1)),
        "div.trunc": (lambda s, t: torch.div(s, t, rounding_mode="trunc"), (x, positive)),
        "div.Scalar": (lambda s: s / 3, (n,)),
        "eq": (torch.eq, (n, m)),
        "eq.Scalar": (lambda s: s == 2, (n,)),
        "floor_divide": (torch.floor_divide, (n, m.abs() + 1)),
        "fmod": (torch.fmod, (x, positive)),
        "fmod.Scalar": (lambda s: torch.fmod(s, 3), (n,)),
        "ge": (torch.ge, (x, y)),
        "ge.Scalar": (lambda s: s >= 0.5, (x,)),
        "gt": (torch.gt, (x, y)),
        "gt.Scalar": (lambda s: s > 1, (n,)),
        "le": (torch.le, (x, y)),
        "le.Scalar": (lambda s: s <= 1, (n,)),
        "logical_and": (torch.logical_and, (a, b)),
        "logical_or": (torch.logical_or, (a, b)),
        "logical_xor": (torch.logical_xor, (n, b)),
        "lt": (torch.lt, (x, y)),
        "lt.Scalar": (lambda s: s < 1, (n,)),
        "maximum": (torch.maximum, (x, y)),
        "minimum": (torch.minimum, (x, y)),
        "mul": (torch.mul, (x, y)),
        "mul.promotion": (torch.mul, (x, n)),
        "mul.Scalar": (lambda s: s * 2.5, (n,)),
        "mul.broadcast": (torch.mul, (x, _floats(3, 1))),
        "ne": (torch.ne, (n, m)),
        "ne.Scalar": (lambda s: s != 2, (n,)),
        "pow": (torch.pow, (positive, y)),
        "pow.Scalar": (lambda s: torch.pow(2.0, s), (x,)),
        "pow.Tensor_Scalar": (lambda s: s**3, (x,)),
        "remainder": (torch.remainder, (n, m.abs() + 1)),
        "remainder.Scalar": (lambda s: torch.remainder(s, -3), (n,)),
        "rsub": (lambda s: torch.rsub(s, 2), (x,)),
        "sub": (lambda s, t: torch.sub(s, t, alpha=3), (x, y)),
        "sub.Scalar": (lambda s: s - 7, (n,)),
        "where": (torch.where, (a, x, y)),
        "masked_fill": (lambda s, t: s.masked_fill(t, -1.0), (x, a)),
        # reductions
        "amax": (lambda s: torch.amax(s, 1), (x,)),
        "amin": (lambda s: torch.amin(s, 0, keepdim=True), (x,)),
        "any": (lambda s: torch.any(s), (a,)),
        "any.dim": (lambda s: torch.any(s, 1), (a,)),
        "argmax": (lambda s: torch.argmax(s, 1), (x,)),
        "argmin": (lambda s: torch.argmin(s), (x,)),
        "cumsum": (lambda s: torch.cumsum(s, 1), (x,)),
        "max.dim": (lambda s: tuple(torch.max(s, 1)), (x,)),
        "max.unary": (lambda s: torch.max(s), (x,)),
        "mean.dim": (lambda s: torch.mean(s, (0, 2)), (volume,)),
        "mean": (lambda s: torch.mean(s), (x,)),
        "min.dim": (lambda s: tuple(torch.min(s, 0)), (x,)),
        "prod": (lambda s: torch.prod(s), (positive,)),
        "prod.dim": (lambda s: torch.prod(s, 1), (positive,)),
        "sum": (lambda s: torch.sum(s, 2), (volume,)),
        "sum.int": (lambda s: torch.sum(s, 0, keepdim=True), (n,)),
        "var": (lambda s: torch.var(s, 1), (volume,)),
        "var.correction": (lambda s: torch.var(s, (0, 2), correction=0, keepdim=True), (volume,)),
        "topk": (lambda s: tuple(torch.topk(s, 2)), (x,)),
        "nonzero": (lambda s: torch.nonzero(s), (a,)),
        # normalisation and softmax
        "_softmax": (lambda s: torch.softmax(s, 1), (x,)),
        "_log_softmax": (lambda s: torch.log_softmax(s, -1), (x,)),
        "native_layer_norm": (lambda s, w, c: F.layer_norm(s, (6,), w, c), (volume, _floats(6), _floats(6, low=-1))),
        "native_group_norm": (lambda s: F.group_norm(s, 2), (volume,)),
        "_native_batch_norm_legit_no_training": (
            lambda s, mean, var: F.batch_norm(s, mean, var),
            (image, _floats(3), _floats(3, low=0.5)),
        ),
        # matrix products and convolution
        "addmm": (lambda c, s, t: torch.addmm(c, s, t, beta=0.5, alpha=2), (_floats(3, 5), x, _floats(4, 5))),
        "bmm": (torch.bmm, (volume, _floats(2, 6, 3))),
        "mm": (torch.mm, (x, _floats(4, 5))),
        "linear": (F.linear, (x, _floats(5, 4), _floats(5))),
        "convolution": (
            lambda s, w, c: F.conv2d(s, w, c, stride=2, padding=1),
            (image, _floats(4, 3, 3, 3), _floats(4)),
        ),
        "convolution.grouped": (lambda s, w: F.conv2d(s, w, groups=3, dilation=2), (image, _floats(6, 1, 3, 3))),
        "convolution.1d": (lambda s, w: F.conv1d(s, w, padding=1), (volume, _floats(5, 4, 3))),
        "convolution.transposed": (
            lambda s, w: F.conv_transpose2d(s, w, stride=2, padding=1, output_padding=1),
            (image, _floats(3, 4, 3, 3)),
        ),
        # pooling, resampling, padding
        "_adaptive_avg_pool2d": (lambda s: F.adaptive_avg_pool2d(s, (2, 3)), (image,)),
        "avg_pool2d": (lambda s: F.avg_pool2d(s, 3, 2, 1, ceil_mode=True), (image,)),
        "max_pool2d_with_indices": (lambda s: F.max_pool2d(s, 3, 2, 1, return_indices=True), (image,)),
        "upsample_nearest2d": (lambda s: F.interpolate(s, scale_factor=2.0), (image,)),
        "upsample_bilinear2d": (lambda s: F.interpolate(s, size=(5, 11), mode="bilinear"), (image,)),
        "grid_sampler_2d": (
            lambda s, g: F.grid_sample(s, g, align_corners=False),
            (image, _floats(2, 5, 5, 2, low=-1.2, high=1.2)),
        ),
        "pixel_shuffle": (lambda s: F.pixel_shuffle(s, 2), (_floats(1, 8, 3, 3),)),
        "pixel_unshuffle": (lambda s: F.pixel_unshuffle(s, 2), (_floats(1, 2, 4, 6),)),
        "constant_pad_nd": (lambda s: F.pad(s, (1, 2, 0, 1), value=0.5), (image,)),
        "reflection_pad1d": (lambda s: F.pad(s, (2, 1), mode="reflect"), (volume,)),
        "reflection_pad2d": (lambda s: F.pad(s, (2, 1, 1, 3), mode="reflect"), (image,)),
        "replication_pad2d": (lambda s: F.pad(s, (2, 1, 1, 3), mode="replicate"), (image,)),
        "replication_pad3d": (lambda s: F.pad(s, (1, 0, 2, 1, 0, 1), mode="replicate"), (_floats(1, 2, 3, 4, 5),)),
        # shapes and copies
        "alias_copy": (lambda s: torch.ops.aten.alias_copy(s), (x,)),
        "cat": (lambda s, t: torch.cat([s, t, s], 1), (x, y)),
        "clone": (lambda s: s.clone() + 1, (x,)),
        "diagonal_copy": (lambda s: torch.diagonal(s, 1) * 2, (x,)),
        "expand_copy": (lambda s: s.expand(2, 3, 4), (_floats(3, 1),)),
        "flip": (lambda s: torch.flip(s, [0, 2]), (volume,)),
        "permute_copy": (lambda s: s.permute(2, 0, 1), (volume,)),
        "repeat": (lambda s: s.repeat(2, 1, 3), (x,)),
        "roll": (lambda s: torch.roll(s, (1, -2), (0, 1)), (x,)),
        "select_copy": (lambda s: s.select(1, 2), (volume,)),
        "slice_copy": (lambda s: s[:, 1:4:2], (volume,)),
        "split_copy": (lambda s: torch.split(s, 2, 1), (volume,)),
        "split_with_sizes_copy": (lambda s: torch.split(s, [1, 3], 1), (volume,)),
        "squeeze_copy": (lambda s: s.squeeze(1), (_floats(3, 1, 4),)),
        "stack": (lambda s, t: torch.stack([s, t], 1), (x, y)),
        "t_copy": (lambda s: s.t(), (x,)),
        "transpose_copy": (lambda s: s.transpose(0, 2), (volume,)),
        "tril": (lambda s: torch.tril(s, 1), (x,)),
        "triu": (lambda s: torch.triu(s), (x,)),
        "unbind_copy": (lambda s: torch.unbind(s, 1), (volume,)),
        "unfold_copy": (lambda s: s.unfold(2, 3, 2), (volume,)),
        "unsqueeze_copy": (lambda s: s.unsqueeze(1), (x,)),
        "view_copy": (lambda s: s.view(4, 3), (x,)),
        # indexing
        "embedding": (lambda w, i: F.embedding(i, w), (_floats(7, 4), _ints(2, 3, low=0, high=7))),
        "gather": (lambda s, i: torch.gather(s, 1, i), (x, index)),
        "index.Tensor": (lambda s, i: s[:, i], (x, _ints(5, low=0, high=4))),
        "index_put": (lambda s, i, v: torch.index_put(s, (i,), v), (x, torch.tensor([2, 0]), _floats(2, 4))),
        "index_select": (lambda s, i: torch.index_select(s, 1, i), (x, _ints(5, low=0, high=4))),
        "masked_scatter": (lambda s, k, v: torch.masked_scatter(s, k, v), (x, a, y)),
        "masked_select": (lambda s, k: torch.masked_select(s, k), (x, a)),
        "repeat_interleave": (
            lambda s: torch.repeat_interleave(s, repeats=torch.tensor([1, 2, 3]), dim=0, output_size=6),
            (x,),
        ),
        "scatter.src": (
            lambda s, i, v: torch.scatter(s, 1, i, v),
            (x, torch.tensor([[0, 2], [1, 3], [2, 0]]), _floats(3, 2)),
        ),
        "scatter.value": (lambda s, i: torch.scatter(s, 1, i, 9.0), (x, index)),
        "scatter_add": (lambda s, i, v: torch.scatter_add(s, 1, i, v), (x, index, _floats(3, 2))),
        "select_scatter": (lambda s, v: torch.select_scatter(s, v, 0, 1), (x, _floats(4))),
        "slice_scatter": (lambda s, v: torch.slice_scatter(s, v, 1, 1, 3), (x, _floats(3, 2))),
        # creation and conversion
        "_to_copy": (lambda s: s.to(torch.int32), (x * 5,)),
        "_to_copy.half": (lambda s: s.to(torch.float16), (x,)),
        "arange": (lambda s: torch.arange(0, 12, 2) + s, (_ints(6),)),
        "full": (lambda s: torch.full((3, 4), 2.5) + s, (x,)),
        "full_like": (lambda s: torch.full_like(s, 1.5) + s, (x,)),
        "ones": (lambda s: torch.ones(3, 4) + s, (x,)),
        "scalar_tensor": (lambda s: torch.scalar_tensor(3.0) * s, (x,)),
        "zeros": (lambda s: torch.zeros(3, 4) - s, (x,)),
        "fill": (lambda s: torch.fill(s, 4) + s, (x,)),
        # distance and complex views
        "_cdist_forward": (lambda s, t: torch.cdist(s, t), (x, _floats(5, 4))),
        "_pdist_forward": (lambda s: torch.pdist(s), (x,)),
    }
    return [OpCase(name, function, inputs) for name, (function, inputs) in sorted(table.items())]


def operators() -> set[str]:
    """The operators that the cases are about."""
    return {case.name.split(".")[0] for case in cases()}
