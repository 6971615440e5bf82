"""Sizes that grow and shrink from call to call: every kind of node, every size that may change, every precision.

A network of a family has each of its layers side by side, so that a part keeps what all of them have sized. Each call
is compared with the program that was lowered, run by torch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from tests.xnnpack.payload import read_payloads


class Beside(nn.Module):
    """Layers that read one input."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


class Call(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Heads(nn.Module):
    """Attention from its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).split(32, -1)
        return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.2, -1), v)


def _image_products() -> nn.Module:
    return Beside(
        nn.Conv2d(8, 6, 3, padding=1), nn.Conv2d(8, 6, 3), nn.Conv2d(8, 12, 1), nn.Conv2d(8, 8, 5, 2, 2, groups=2),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 16, 3, 2, 1, groups=8), nn.Conv2d(8, 6, 3, 1, 4, 3),
        nn.ConvTranspose2d(8, 6, 3, padding=1), nn.ConvTranspose2d(8, 6, 3, 2, 1, 1), nn.ConvTranspose2d(8, 6, 2, 2),
        nn.Sequential(nn.Conv2d(8, 4, 3, 1, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, 1, 1), nn.ConvTranspose2d(4, 2, 3, 2)),
    )  # fmt: skip


def _line_products() -> nn.Module:
    return Beside(
        nn.Conv1d(8, 6, 3, padding=1), nn.Conv1d(8, 6, 1), nn.Conv1d(8, 8, 5, 2, 2, groups=2),
        nn.Conv1d(8, 8, 3, groups=8), nn.ConvTranspose1d(8, 6, 3, 2, 1),
        nn.Sequential(nn.Conv1d(8, 8, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv1d(8, 4, 3)),
    )  # fmt: skip


def _row_products() -> nn.Module:
    return Beside(
        nn.Linear(32, 24), nn.Linear(32, 1, bias=False), nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    )


def _image_operators() -> nn.Module:
    return Beside(
        nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        Call(lambda x: x.mean((2, 3), keepdim=True)), Call(lambda x: F.pad(x, (1, 2, 3, 0), value=0.5)), nn.PReLU(8),
        Call(lambda x: torch.cat([x, x * 2, x + 1], 1)), Call(lambda x: x[:, 2:5]), nn.BatchNorm2d(8),
        Call(lambda x: x.permute(0, 2, 3, 1)), nn.Sequential(nn.Conv2d(8, 8, 1), nn.Hardswish(), nn.MaxPool2d(2)),
    )  # fmt: skip


def _row_operators() -> nn.Module:
    unary = (
        torch.abs, torch.exp, torch.tanh, torch.sigmoid, torch.sin, torch.cos, torch.ceil, torch.floor, torch.neg,
        F.elu, F.gelu, F.hardswish, F.relu, lambda x: x * x, lambda x: F.leaky_relu(x, 0.1),
        lambda x: x.clamp(-0.4, 0.3), lambda x: torch.log(x * x + 0.5), lambda x: torch.sqrt(x.abs()),
        lambda x: torch.rsqrt(x * x + 0.5), lambda x: torch.softmax(x, -1), lambda x: x / (x * x + 1),
        lambda x: torch.maximum(x, -x), lambda x: torch.minimum(x, x * 2), lambda x: x - x[..., :1],
        lambda x: x.transpose(1, 2), lambda x: x.unsqueeze(1),
    )  # fmt: skip
    return Beside(Heads(), *(Call(function) for function in unary))


@dataclass(frozen=True)
class Family:
    """Layers, and what of their input may change."""

    module: Callable[[], nn.Module]
    sizes: tuple[int, ...]
    largest: dict[int, int]  # dimension -> its largest size
    nodes: set[str]  # that its payloads have in float32
    presets: tuple[str, ...] = ("float", "half")

    def calls(self) -> Iterator[tuple[int, ...]]:
        """Sizes of calls: one grows, shrinks and grows more; one grows while others shrink; any."""
        least = {dim: min(4, size) if dim > 1 else 1 for dim, size in self.largest.items()}
        for dim, size in self.largest.items():
            for part in (2, 7, 3, 12, 16, 1, 15):
                yield self._with({**least, dim: max(least[dim], size * part // 16)})
            yield self._with({**self.largest, dim: least[dim]})
        yield self._with(self.largest)
        yield self._with(least)
        draw = random.Random(0)
        for _ in range(12):
            yield self._with({dim: draw.randint(least[dim], size) for dim, size in self.largest.items()})

    def _with(self, changed: dict[int, int]) -> tuple[int, ...]:
        return tuple(changed.get(dim, size) for dim, size in enumerate(self.sizes))


PRODUCTS = ("float", "half", "static_int8", "dynamic_int8", "fp16")
OF_ROWS = (*PRODUCTS, "dynamic_int4", "int8_weight_only", "int4_weight_only")
#: The preset of int4 weights has scales in groups, which the delegate has not beside floats.
CONFIGURATIONS = {"int4_weight_only": quantizer.quantization_config(None, "int4")}
CONVOLUTIONS = {"Conv2d", "DepthwiseConv2d", "ConvTranspose2d"}
FAMILIES = {
    "products of images": Family(_image_products, (2, 8, 9, 10), {0: 20, 2: 24, 3: 17}, CONVOLUTIONS, PRODUCTS),
    "products of images, batch": Family(_image_products, (2, 8, 6, 7), {0: 40}, CONVOLUTIONS, PRODUCTS),
    "products of lines, batch": Family(_line_products, (2, 8, 11), {0: 20}, CONVOLUTIONS, PRODUCTS),
    "products of lines, length": Family(_line_products, (2, 8, 12), {2: 70}, CONVOLUTIONS, PRODUCTS),
    "products of rows": Family(_row_products, (3, 32), {0: 64}, {"FullyConnected"}, OF_ROWS),
    "products of rows in batches": Family(_row_products, (2, 5, 32), {0: 9, 1: 21}, {"FullyConnected"}, OF_ROWS),
    "operators on images": Family(
        _image_operators, (2, 8, 9, 10), {0: 9, 2: 24, 3: 17},
        {"MaxPooling2d", "AvgPooling2d", "StaticConstantPad", "PReLU", "StaticSlice", "StaticTranspose", "Hardswish"},
        ("float", "half", "static_int8"),
    ),
    "operators on rows": Family(
        _row_operators, (2, 5, 32), {0: 9, 1: 21},
        {"BatchMatrixMultiply", "Softmax", "Abs", "Exp", "Tanh", "Sigmoid", "Sin", "Cos", "Ceiling", "Floor", "Negate",
         "ELU", "Gelu", "Clamp", "LeakyReLU", "Log", "SquareRoot", "ReciprocalSquareRoot", "Div", "Maximum", "Minimum",
         "Subtract"},
        ("float", "half", "static_int8"),
    ),
}  # fmt: skip
#: Least signal to noise in decibels, of each output of each call; in floats it is rounding alone.
#: Dynamic quantization has a scale for each row or image in the delegate, and one for the tensor in torch.
LEAST = {"float": 100, "half": 45, "fp16": 45, "static_int8": 25, "dynamic_int8": 25, "dynamic_int4": 22}


@torch.no_grad()
@pytest.mark.parametrize(
    ("family", "preset"), [(name, preset) for name, family in FAMILIES.items() for preset in family.presets]
)
def test_sizes_that_change(family: str, preset: str) -> None:
    torch.manual_seed(0)
    kind = FAMILIES[family]
    dims = {dim: torch.export.Dim(f"s{dim}", min=1 if dim < 2 else 4, max=size) for dim, size in kind.largest.items()}
    shapes = ({dim: dims[dim] for dim in dims},)
    dtype = torch.half if preset == "half" else torch.float
    module, x = kind.module().eval().to(dtype), torch.randn(kind.sizes, dtype=dtype)
    program = torch.export.export(module, (x,), dynamic_shapes=shapes)
    if preset not in ("float", "half"):
        samples = [(torch.randn(kind._with(kind.largest)),) for _ in range(4)]
        program = quantizer.quantize(
            program, config_or_quantizer=CONFIGURATIONS.get(preset, preset), calibration_data=samples
        )
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(always=True)])
    # Products of floats with integer weights are delegated in files for the official runtime only.
    config = et.ExecutorchBackendConfig(compatible=preset.endswith("weight_only"))
    file = edge.to_executorch(config).buffer
    nodes = {node for graph in read_payloads(file) for node in graph.nodes}
    assert nodes >= kind.nodes if preset == "float" else nodes & kind.nodes
    method = et.Runtime.get().load_program(file).load_method("forward")
    eager = program.module()
    for sizes in kind.calls():
        x = torch.randn(sizes, dtype=dtype)
        for i, (actual, expected) in enumerate(zip(method.execute([x]), eager(x), strict=True)):
            assert actual.shape == expected.shape
            noise = (actual.double() - expected.double()).norm()
            signal = expected.double().norm().clamp_min(1e-9)
            decibels = float(20 * torch.log10(signal / noise.clamp_min(1e-12)))
            assert decibels > LEAST.get(preset, 60), f"output {i} of an input of {sizes}: {decibels:.1f} dB"
