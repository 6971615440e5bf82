"""What the profile FP of TOSA must take, for the suite that runs over all backends (tests/conformance).

Integers are compared with the kernels bit for bit (tests/tosa); floats with eager here.
"""

from collections.abc import Callable
from functools import partial

import torch
from executorch_py.backends.conformance import Case, Function, InvertedResidual, Suite
from torch import nn
from torch.nn import functional as F

from .partitioner import TOSAPartitioner

_ROWS, _OTHER, _IMAGE = torch.randn(2, 5, 12), torch.randn(5, 1), torch.randn(2, 6, 9, 11)
_POSITIVE, _MASK = torch.rand(3, 7) + 0.1, torch.randn(2, 5, 12) > 0

#: Functions of one tensor.
_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs, "ceil": torch.ceil, "cos": torch.cos, "erf": torch.erf, "exp": torch.exp, "exp2": torch.exp2,
    "floor": torch.floor, "neg": torch.neg, "reciprocal": torch.reciprocal, "relu": F.relu, "relu6": F.relu6,
    "sigmoid": torch.sigmoid, "sin": torch.sin, "square": torch.square, "tan": torch.tan, "tanh": torch.tanh,
    "trunc": torch.trunc, "gelu": F.gelu, "gelu_tanh": partial(F.gelu, approximate="tanh"), "silu": F.silu,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "elu": F.elu, "elu_scaled": partial(F.elu, alpha=0.7),
    "selu": F.selu, "celu": partial(F.celu, alpha=0.6), "leaky_relu": partial(F.leaky_relu, negative_slope=0.2),
    "softplus": F.softplus, "softplus_steep": partial(F.softplus, beta=3, threshold=1), "mish": F.mish,
    "softmax": partial(F.softmax, dim=-1), "softmax_of_columns": partial(F.softmax, dim=0),
    "log_softmax": partial(F.log_softmax, dim=1), "softmin": partial(F.softmin, dim=-1),
    "clamp": lambda x: x.clamp(-0.5, 0.7), "clamp_min": lambda x: x.clamp(min=0.1),
    "add_number": lambda x: x + 2.5, "add_alpha": lambda x: torch.add(x, x.flip(0), alpha=0.3),
    "sub_number": lambda x: x - 1.5, "rsub": lambda x: torch.rsub(x, 2.0, alpha=3), "mul_number": lambda x: x * -0.3,
    "div_number": lambda x: x / 3, "floor_div": lambda x: torch.div(x, 0.7, rounding_mode="floor"),
    "trunc_div": lambda x: torch.div(x, 0.7, rounding_mode="trunc"),
    "cube": lambda x: x**3, "power_4": lambda x: x**4, "inverse": lambda x: x**-1,
    "above": lambda x: torch.where(x > 0.2, x, 0.5 * x), "below": lambda x: torch.where(x < 0.2, x, -x),
    "at_least": lambda x: (x >= 0).float() * x, "equal": lambda x: torch.where(x == x.flip(0), x, x * 2),
    "not_equal": lambda x: torch.where(x != 0.5, x, x * 2), "at_most": lambda x: x.masked_fill(x <= 0, 0.25),
    "both": lambda x: torch.where((x > -1) & (x < 1) & ~(x > 0.5), x, x * 0.1),
    "either": lambda x: torch.where(torch.logical_or(x > 1, x < -1), x, x * 0.1),
    "any": lambda x: torch.where((x > 1).any(-1, keepdim=True), x, -x),
    "all": lambda x: torch.where((x > -1).all(-1, keepdim=True), x, -x),
    "sum_of_rows": lambda x: x.sum(-1), "sum_kept": lambda x: x.sum((0, 2), keepdim=True),
    "mean_of_rows": lambda x: x.mean(-1, keepdim=True), "var": lambda x: x.var(-1),
    "std": lambda x: x.std(1, correction=0), "amax": lambda x: x.amax(1), "amin": lambda x: x.amin((0, 1)),
    "prod": lambda x: x.prod(1), "lerp": lambda x: torch.lerp(x, x.flip(0), 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x.flip(0), value=0.2),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.exp() + 1, value=0.2),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), "cat": lambda x: torch.cat([x, x * 2, x], 1),
    "stack": lambda x: torch.stack([x, x.tanh()], 1), "split": lambda x: torch.cat(x.split(2, 1)[::-1], 1),
    "narrow": lambda x: x[:, 1:4, -5:], "select": lambda x: x.select(1, 2), "flip": lambda x: x.flip(0, 2),
    "permute": lambda x: x.permute(2, 0, 1), "flatten": lambda x: x.flatten(1),
    "expand": lambda x: x[:, :1].expand(2, 5, 12),
    "unbind": lambda x: x.unbind(1)[0] + x.unbind(1)[3], "repeat": lambda x: x.repeat(2, 1, 1),
    "scores": lambda x: x @ x.transpose(1, 2), "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "causal": lambda x: F.scaled_dot_product_attention(x, x.flip(1), x, is_causal=True, scale=0.2),
}  # fmt: skip
#: Functions of positive numbers, and sums of all, which are not near 0 then.
_POSITIVE_ONLY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": torch.sum, "mean": torch.mean,
    "log": torch.log, "log1p": torch.log1p, "log2": torch.log2, "log10": torch.log10,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "power": lambda x: x**1.7, "root": lambda x: x**0.5, "inverse_root": lambda x: x**-0.5,
    "power_of_number": lambda x: torch.pow(1.7, x), "power_of_tensor": lambda x: torch.pow(x, x.flip(0)),
}  # fmt: skip
_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": lambda x, y: x / (y.abs() + 0.5),
    "maximum": torch.maximum, "minimum": torch.minimum, "clamp_to_tensors": lambda x, y: x.clamp(-y.abs(), y.abs()),
}  # fmt: skip
_IMAGES: dict[str, Callable[[], nn.Module]] = {
    "conv": lambda: nn.Conv2d(6, 8, 3, padding=1), "conv_stride": lambda: nn.Conv2d(6, 4, (2, 3), 3, (0, 1)),
    "conv_dilated": lambda: nn.Conv2d(6, 4, 3, dilation=2, bias=False),
    "conv_groups": lambda: nn.Conv2d(6, 4, 3, groups=2),
    "depthwise": lambda: nn.Conv2d(6, 12, 3, groups=6), "transposed": lambda: nn.ConvTranspose2d(6, 4, 3, 2, 1, 1),
    "transposed_groups": lambda: nn.ConvTranspose2d(6, 4, 3, 2, 1, groups=2),
    "max_pool": lambda: nn.MaxPool2d(3, 2, 1), "max_pool_ceil": lambda: nn.MaxPool2d(2, 2, ceil_mode=True),
    "avg_pool": lambda: nn.AvgPool2d(3, 2), "avg_pool_padded": lambda: nn.AvgPool2d(3, 2, 1),
    "avg_pool_ceil": lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True),
    "avg_pool_inside": lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "avg_pool_divisor": lambda: nn.AvgPool2d(3, 2, 1, divisor_override=5),
    "adaptive_pool": lambda: nn.AdaptiveAvgPool2d((3, 1)), "global_pool": lambda: nn.AdaptiveAvgPool2d(1),
    **{
        f"{mode}_{to[0]}_{to[1]}{'_corners' * bool(corners)}": partial(nn.Upsample, to, None, mode, corners)
        for to in ((18, 33), (7, 15), (4, 5), (1, 22), (12, 11))
        for mode, corners in (("nearest", None), ("bilinear", False), ("bilinear", True))
        if to[0] > 1 or not corners
    },
    "batch_norm": lambda: nn.BatchNorm2d(6), "group_norm": lambda: nn.GroupNorm(3, 6),
    "layer_norm": lambda: nn.LayerNorm((9, 11)), "prelu": lambda: nn.PReLU(6),
}  # fmt: skip

SUITE = Suite(
    backend="tosa",
    partitioner=partial(TOSAPartitioner, "TOSA-1.0+FP"),
    tolerance=1e-5,
    cases=(
        *(Case(name, partial(Function, function), (_ROWS,), 1) for name, function in _UNARY.items()),
        *(Case(name, partial(Function, function), (_POSITIVE,), 1) for name, function in _POSITIVE_ONLY.items()),
        *(Case(name, partial(Function, function), (_ROWS, _OTHER), 1) for name, function in _BINARY.items()),
        *(Case(name, make, (_IMAGE,), 1) for name, make in _IMAGES.items()),
        Case("linear", lambda: nn.Linear(12, 7), (_ROWS,), 1),
        Case("matrices", lambda: Function(torch.mm), (torch.randn(3, 4), torch.randn(4, 5)), 1),
        Case("batches", lambda: Function(torch.bmm), (torch.randn(2, 3, 4), torch.randn(2, 4, 5)), 1),
        Case("conv1d", lambda: nn.Conv1d(5, 4, 3, padding=1), (_ROWS,), 1),
        Case("layer_norm_of_rows", lambda: nn.LayerNorm(12), (_ROWS,), 1),
        Case("masked", lambda: Function(lambda x, m: x.masked_fill(m, 0.5)), (_ROWS, _MASK), 1),
        Case("block", partial(InvertedResidual, bias=True), (torch.randn(1, 8, 8, 8),), 1),
    ),
    refused=(
        Case("double", lambda: Function(torch.relu), (_ROWS.double(),), 0),
        Case("integers", lambda: Function(torch.add), (torch.arange(4), torch.arange(4)), 0),
        Case("cumsum", lambda: Function(lambda x: x.cumsum(1)), (_ROWS,), 0),
        Case("rank_7", lambda: Function(torch.relu), (torch.randn(1, 2, 1, 2, 1, 2, 2),), 0),
        Case("computed_filter", lambda: Function(F.conv2d), (_IMAGE, torch.randn(2, 6, 3, 3)), 0),
        Case("dynamic", lambda: Function(torch.relu), (_ROWS,), 0, dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),)),
    ),
)
