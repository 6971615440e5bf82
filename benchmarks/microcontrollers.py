"""Firmware of four networks on three cores, beside the peers' figures: docs/reference/microcontroller_figures.md.

    python -m benchmarks.microcontrollers                     # measures all rows and writes the page: minutes
    python -m benchmarks.microcontrollers ds_cnn cortex-m55   # measures one row and prints it

For: the table that a firmware engineer compares. Not for: budgets, which tests/targets holds. Instructions are counted
in QEMU; they are no cycles, and nothing here measures energy.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import FirmwareReport, write_firmware
from tests.models.zoo import autoencoder, ds_cnn, settle

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "microcontroller_figures.md"
TARGETS = ("cortex-m55", "cortex-m4", "cortex-m3")


class MobileNetV1(nn.Module):
    """MobileNetV1: depthwise-separable blocks; `width` scales the channels."""

    def __init__(self, width: float = 0.25, classes: int = 2) -> None:
        super().__init__()
        before = int(32 * width)
        layers = [nn.Conv2d(3, before, 3, stride=2, padding=1), nn.BatchNorm2d(before), nn.ReLU6()]
        rest = [(512, 1)] * 5
        for channels, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *rest, (1024, 2), (1024, 1)]:
            after = int(channels * width)
            layers += [nn.Conv2d(before, before, 3, stride, 1, groups=before), nn.BatchNorm2d(before), nn.ReLU6()]
            layers += [nn.Conv2d(before, after, 1), nn.BatchNorm2d(after), nn.ReLU6()]
            before = after
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(before, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(image).flatten(1))


class Lstm(nn.Module):
    """A gesture from 16 readings of ten sensors: one LSTM layer and a classifier over its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(10, 32, batch_first=True)
        self.classifier = nn.Linear(32, 4)

    def forward(self, readings: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.recurrent(readings)[0][:, -1])


Network = tuple[nn.Module, tuple[int, ...]]  # a module and the shape of its input


def _of_zoo(make: Callable[[], dict]) -> Network:
    method = make()["forward"]
    return method.module, tuple(method.inputs[0].shape)


def _mobilenet() -> Network:
    torch.manual_seed(0)
    return settle(MobileNetV1()), (1, 3, 96, 96)


def _lstm() -> Network:
    torch.manual_seed(0)
    return Lstm().eval(), (1, 16, 10)


#: Name -> what makes it.
NETWORKS: dict[str, Callable[[], Network]] = {
    "ds_cnn": lambda: _of_zoo(ds_cnn),
    "autoencoder": lambda: _of_zoo(autoencoder),
    "mobilenet": _mobilenet,
    "lstm": _lstm,
}


def lowered(name: str) -> bytes:
    """The int8 file of a network, with int8 at both ends."""
    module, shape = NETWORKS[name]()
    torch.manual_seed(0)
    samples = [torch.randn(shape) for _ in range(4)]
    quantized = quantizer.quantize(module.eval(), (samples[0],), "static_int8", samples)
    config = et.ExecutorchBackendConfig(quantized_io=True)
    return bytes(et.to_edge_transform_and_lower(quantized).to_executorch(config).buffer)
