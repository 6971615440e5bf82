"""Models that go both ways in integers: small ones of each architecture of the zoo, quick for the official exporter,
and the zoo.

A case is named "model-mode"; the mode is the word that peer.py's quantize knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.models.zoo import ZOO, settle

Model = tuple[nn.Module, tuple[Any, ...]]

#: Mode -> our preset.
PRESETS = {"channel": "static_int8", "dynamic": "dynamic_int8", "groups": "dynamic_int4"}


def mobilenet() -> Model:
    """Two inverted residuals.

    Means of 7 x 7 pixels: of an even number they may be half a step, which runtimes round apart.
    """
    from torchvision.models import MobileNetV2

    blocks = [[1, 16, 1, 1], [6, 24, 1, 2]]
    model = MobileNetV2(num_classes=10, width_mult=0.5, inverted_residual_setting=blocks)
    return settle(model), (torch.rand(1, 3, 28, 28),)


def resnet() -> Model:
    """A stem, a block that halves the image, and a classifier."""
    from torchvision.models.resnet import BasicBlock, conv1x1

    shorter = nn.Sequential(conv1x1(8, 16, 2), nn.BatchNorm2d(16))
    stem = (nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return settle(nn.Sequential(*stem, BasicBlock(8, 16, 2, shorter), *head)), (torch.rand(1, 3, 40, 40),)


class Skip(nn.Module):
    """One level of a U-Net: down by max pooling, up by a transposed convolution, joined along the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.bottom = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.head = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.first(image))
        bottom = torch.relu(self.bottom(nn.functional.max_pool2d(first, 2)))
        return self.head(torch.cat([self.up(bottom), first], 1))


def unet() -> Model:
    """One level of a U-Net."""
    return Skip().eval(), (torch.rand(1, 3, 16, 16),)


def vit() -> Model:
    """One layer of a vision transformer."""
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(
        image_size=32, patch_size=16, num_layers=1, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10
    )
    return settle(model), (torch.rand(1, 3, 32, 32),)


def layers() -> Model:
    """Linear layers alone."""
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32, bias=False)).eval(), (torch.randn(5, 64),)


def recurrent(kind: type[nn.RNNBase]) -> Model:
    """One layer, two steps, and a classifier."""
    return Last(kind(16, 8, batch_first=True)).eval(), (torch.rand(2, 2, 16),)


class Last(nn.Module):
    """What a classifier makes of a recurrent layer's last output."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[0][:, -1])


def _zoo(name: str) -> Callable[[], Model]:
    def make() -> Model:
        method = ZOO[name]()["forward"]
        return method.module, method.inputs

    return make


SMALL: dict[str, Callable[[], Model]] = {
    "mobilenet-channel": mobilenet,
    "resnet-channel": resnet,
    "unet-channel": unet,
    "layers-channel": layers,
    "layers-dynamic": layers,
    "layers-groups": layers,
    "vit-dynamic": vit,
    "lstm-dynamic": lambda: recurrent(nn.LSTM),
    "gru-channel": lambda: recurrent(nn.GRU),
}

WHOLE: dict[str, Callable[[], Model]] = {
    f"{name}-{mode}": _zoo(name)
    for name, modes in {
        "mobilenet_v2": ("channel",),
        "mobilenet_v3_small": ("channel",),
        "resnet18": ("channel",),
        "ds_cnn": ("channel",),
        "unet": ("channel",),
        "autoencoder": ("channel", "dynamic"),
        "detection_head": ("channel",),
        "vit_small": ("channel", "dynamic"),
        "minilm": ("dynamic",),
        "lstm": ("channel", "dynamic"),
        "gru": ("channel", "dynamic"),
    }.items()
    for mode in modes
}
