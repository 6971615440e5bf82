"""What the XNNPACK delegate must do, for the suite that runs over all backends (tests/conformance)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from executorch_py.backends.conformance import Case, Function, InvertedResidual, Suite
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .partitioner import XnnpackPartitioner


class Call(nn.Module):
    """A function as a module, behind a convolution so that the part is worth a call."""

    def __init__(self, function: Callable[..., Any], channels: int = 4) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> Any:
        return self.function(self.conv(x), *more)


class Classifier(nn.Module):
    """Convolutions, pooling, a flattening and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU6(), nn.MaxPool2d(3, 2, 1))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(self.head(self.features(x).mean((2, 3))), -1)


class Heads(nn.Module):
    """Attention from its parts: products, permutations, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).split(16, -1)
        scores = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.25, -1)
        return self.out(torch.bmm(scores, v))


class Permuted(nn.Module):
    """Permutations to channels-last and back are only other names of what is there."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.linear(self.conv(x).permute(0, 2, 3, 1))
        return self.conv(rows.permute(0, 3, 1, 2))


class Shared(nn.Module):
    """One weight in two places, one of them with a clamp; outputs that are names of one another."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.linear(x)
        z = F.relu(self.linear(y))
        return y, z, z.reshape(2, 2, 8)


def _many(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Elementwise operators on what a convolution made."""
    positive = x * x + 0.5
    return (
        F.elu(x), F.gelu(x), F.leaky_relu(x, 0.1), F.hardswish(x), F.hardsigmoid(x), F.silu(x), torch.sigmoid(x),
        torch.tanh(x), torch.exp(x), torch.log(positive), torch.sqrt(positive), torch.rsqrt(positive), x.abs(), -x,
        torch.floor(x), torch.ceil(x), torch.sin(x), torch.cos(x), x**2, x.clamp(-0.3, 0.4), x.clamp(min=0.1),
        torch.maximum(x, y), torch.minimum(x, y), x + y, x - y, x / positive, 2 - x, x * 3, x / 7, F.relu(x + y),
    )  # fmt: skip


def _pooled_over_the_edge(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Windows that reach beyond the padding, which counts in means or does not."""
    return (
        F.max_pool2d(x, 2, ceil_mode=True), F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.max_pool2d(x, (3, 4), 3, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 1, (1, 0)), F.avg_pool2d(x, 2, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    )  # fmt: skip


_X = torch.randn(1, 4, 8, 8)
_SIZE = {"x": {0: Dim("batch", max=4), 2: Dim("height", min=4, max=20), 3: Dim("width", min=2, max=9)}}


def _image(*sizes: int) -> tuple[torch.Tensor]:
    return (torch.randn(*sizes),)


def _sequential(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*layers)


SUITE = Suite(
    backend="xnnpack",
    partitioner=partial(XnnpackPartitioner, largest=True),
    tolerance=1e-5,
    cases=(
        Case("linear", lambda: nn.Linear(8, 4), _image(3, 8), 1),
        Case("linear_of_vector", lambda: nn.Linear(8, 4, bias=False), _image(8), 1),
        Case("linear_of_batches", _sequential(nn.Linear(8, 4), nn.ReLU()), _image(2, 3, 5, 8), 1),
        Case("block", InvertedResidual, _image(1, 8, 7, 9), 1),
        Case("classifier", Classifier, _image(2, 3, 17, 23), 1),
        Case("classifier_float16", lambda: Classifier().half(), (torch.randn(1, 3, 16, 16).half(),), 1, tolerance=2e-2),
        Case("heads", Heads, _image(2, 5, 16), 1),
        Case("permuted", Permuted, (_X,), 1),
        Case("shared", Shared, _image(4, 8), 1),
        Case("elementwise", lambda: Call(_many), (_X, torch.randn(1, 4, 8, 8)), 1),
        Case("elementwise_float16", lambda: Call(_many).half(), (_X.half(), _X.half() * 2), 1, tolerance=2e-2),
        Case("broadcast", lambda: Call(lambda x, y: (x + y, x * y[:, :1], x - y.mean((2, 3), True))), (_X, _X), 1),
        Case("broadcast_rows", lambda: Call(lambda x, y: x.permute(0, 2, 3, 1) + y), (_X, torch.randn(4)), 1),
        Case("conv1d", _sequential(nn.Conv1d(4, 6, 3, 1, 2, 2), nn.ReLU(), nn.Conv1d(6, 2, 1)), _image(2, 4, 20), 1),
        Case("grouped", _sequential(nn.Conv2d(4, 8, 3, groups=2), nn.Conv2d(8, 16, 3, groups=8)), (_X,), 1),
        Case("depthwise_dilated", _sequential(nn.Conv2d(4, 4, 3, 2, 2, 2, groups=4)), (_X,), 1),
        Case("transposed", _sequential(nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), nn.ReLU()), (_X,), 1),
        Case("transposed_grouped", _sequential(nn.ConvTranspose2d(4, 6, (3, 2), 2, groups=2)), (_X,), 1),
        Case("pooling", _sequential(nn.MaxPool2d(2), nn.AvgPool2d(2, 1)), (_X,), 1),
        Case("pooling_over_the_edge", lambda: Call(_pooled_over_the_edge), _image(2, 4, 7, 10), 1),
        Case("pooling_padded", _sequential(nn.AvgPool2d(3, 2, 1, count_include_pad=False)), (_X,), 1),
        Case("resize", lambda: Call(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")), (_X,), 1),
        Case("resize_corners", lambda: Call(lambda x: F.interpolate(x, (5, 13), mode="bilinear", align_corners=True)),
             (_X,), 1),
        Case("concatenate", lambda: Call(lambda x: torch.cat([x, x * 2, x + 1, -x, x * x, x.abs(), x - 3], 1)), (_X,),
             1),
        Case("slices", lambda: Call(lambda x: (x[:, 1:3], x[:, :, 2:-1], x[:, 3], *x.split((1, 3), 1))), (_X,), 1),
        Case("padded", lambda: Call(lambda x: F.pad(x, (1, 2, 3, 0), value=1.5)), (_X,), 1),
        Case("prelu", _sequential(nn.Conv2d(4, 4, 1), nn.PReLU(4)), (_X,), 1),
        Case("norm_alone", lambda: Call(nn.BatchNorm2d(4).eval()), (_X,), 1),
        Case("input_returned", lambda: Call(lambda x: (x.permute(0, 2, 3, 1), x)), (_X,), 1),
        Case("many_rows", lambda: nn.Linear(8, 4), _image(2, 8), 1, dynamic_shapes=({0: Dim("rows", max=64)},),
             more_inputs=(_image(64, 8), _image(1, 8), _image(33, 8))),
        Case("block_dynamic", InvertedResidual, _image(2, 8, 16, 6), 1, dynamic_shapes=_SIZE,
             more_inputs=(_image(4, 8, 20, 9), _image(1, 8, 4, 2), _image(3, 8, 11, 9), _image(1, 8, 20, 2))),
        Case("gray_dynamic", _sequential(nn.Conv2d(1, 1, 3, padding=1), nn.Sigmoid()), _image(2, 1, 8, 9), 1,
             dynamic_shapes=({0: Dim("batch", max=4), 2: Dim("height", min=4, max=20)},),
             more_inputs=(_image(4, 1, 20, 9), _image(1, 1, 4, 9))),
        Case("heads_dynamic", Heads, _image(2, 5, 16), 1, dynamic_shapes=({1: Dim("tokens", min=2, max=40)},),
             more_inputs=(_image(2, 40, 16), _image(2, 2, 16), _image(2, 21, 16))),
        Case("flattened_dynamic", _sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 3)), _image(2, 3, 8, 8),
             1,
             dynamic_shapes=({0: Dim("batch", max=9)},), more_inputs=(_image(9, 3, 8, 8), _image(1, 3, 8, 8))),
    ),
    refused=(
        Case("cheap", lambda: Function(lambda x, y: torch.relu(x + y)), (_X, _X), 0),
        Case("double", lambda: nn.Linear(8, 4).double(), (torch.randn(2, 8).double(),), 0),
        Case("computed_filter", lambda: Function(F.conv2d), (_X, torch.randn(2, 4, 3, 3)), 0),
        Case("conv3d", lambda: nn.Conv3d(2, 2, 2), _image(1, 2, 4, 4, 4), 0),
        Case("layer_norm", lambda: nn.LayerNorm(8), _image(2, 8), 0),
        Case("pool_indices", lambda: nn.MaxPool2d(2, return_indices=True), (_X,), 0),
        Case("embedding", lambda: nn.Embedding(5, 3), (torch.tensor([1, 4]),), 0),
    ),
)  # fmt: skip
