"""Small networks that every target runs: lowered here, in float32 and in integers, with what this machine computes.

write(folder, "int8")     # <name>.<kind>.pte, .input<i>.npy, .output<i>.npy
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from tests.models.zoo import Method, autoencoder, ds_cnn, gru, llama, lstm

KINDS = ("float32", "int8")


@dataclass(frozen=True)
class Network:
    """One method and how it is run."""

    method: Method
    given: tuple[torch.Tensor, ...] = ()  # other inputs than the example's: of other sizes
    runs: int = 1  # calls on the same inputs; the outputs are those of the last
    kinds: tuple[str, ...] = KINDS

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        return self.given or self.method.inputs

    def lowered(self, kind: str, partitioners: list[Any] | None = None) -> bytes:
        method = self.method
        program = method.export() if kind == "float32" else self._quantized(method)
        return bytes(et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch().buffer)

    def _quantized(self, method: Method) -> torch.export.ExportedProgram:
        samples = [tuple(torch.randn_like(x) for x in method.inputs) for _ in range(4)]
        return quantizer.quantize(
            method.module, method.inputs, "static_int8", samples, dynamic_shapes=method.dynamic_shapes
        )


def _mlp() -> Network:
    layers = [nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16), nn.Sigmoid(), nn.Linear(16, 5)]
    return Network(Method(nn.Sequential(*layers).eval(), (torch.randn(3, 24),)))


class _Convolutions(nn.Module):
    """Padding, strides, dilation, groups, both poolings and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, (3, 5), stride=2, padding=(1, 2))
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 12, 3, padding=2, dilation=2, groups=4)
        self.up = nn.ConvTranspose2d(12, 6, 3, stride=2, padding=1)
        self.last = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu6(self.norm(self.first(x))), 2)
        x = F.relu(self.up(F.hardswish(self.second(x))))
        return self.last(F.adaptive_avg_pool2d(x, 1).flatten(1))


def _convolutions() -> Network:
    return Network(Method(_Convolutions().eval(), (torch.randn(2, 3, 18, 14),)))


class _Encoder(nn.Module):
    """One layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(1, -1, 2, 8).transpose(1, 2) for part in self.project(self.norm1(x)).chunk(3, -1))
        attended = F.softmax(q @ k.transpose(2, 3) / 8**0.5, -1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(1, -1, 16))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


def _transformer() -> Network:
    return Network(Method(_Encoder().eval(), (torch.randn(1, 9, 16),)))


class _AnyRows(nn.Module):
    """Sizes that are known at the call alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.hardtanh(self.layer(x))
        return torch.cat((y, y), 0)


def _any_rows() -> Network:
    rows = torch.export.Dim("rows", min=1, max=20)
    return Network(Method(_AnyRows().eval(), (torch.randn(7, 10),), ({0: rows},)), (torch.randn(4, 10),))


class _Memory(nn.Module):
    """A window over the last inputs, and their number: state that calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 5)
        self.register_buffer("window", torch.zeros(4, 3))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.window.copy_(torch.cat((self.window[1:], x), 0))
        self.calls.add_(1)
        return F.relu(self.layer(self.window.reshape(1, 12))), self.calls.clone()


def _memory() -> Network:
    return Network(Method(_Memory().eval(), (torch.randn(1, 3),)), runs=3)


def _decoder() -> Network:
    return Network(llama()["prefill"], runs=2, kinds=("float32",))


class _Arithmetic(nn.Module):
    """Elementwise operators and reductions over floats."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        p = x.abs() + 0.5
        smooth = torch.exp(x) + torch.log(p) * torch.sin(y) - torch.cos(x) / p + torch.erf(y) + torch.sqrt(p)
        steps = torch.floor(x * 3) + torch.round(y * 3) + torch.remainder(x, p) + torch.fmod(y, 0.7) + torch.sign(x)
        return (
            smooth, steps, torch.softmax(x, 1), torch.tanh(x), torch.pow(p, 1.3), F.gelu(x) + F.silu(y),
            torch.maximum(x, y).clamp(-0.5, 0.75),
            x.sum(1), x.mean((0, 2)), torch.var(x, 2), torch.amax(y, 1), torch.logsumexp(x, 2), torch.cumsum(x, 1),
        )  # fmt: skip


def _arithmetic() -> Network:
    return Network(Method(_Arithmetic(), (torch.randn(2, 5, 7), torch.randn(2, 5, 7))), kinds=("float32",))


class _Integers(nn.Module):
    """Integers of all widths, Booleans and floats of 16 bits: signs, wrapping, comparisons and conversions."""

    def forward(self, small: torch.Tensor, large: torch.Tensor) -> tuple[torch.Tensor, ...]:
        byte, short = small.to(torch.uint8), small.to(torch.int16)
        half, brain = small.to(torch.float16) / 3, small.to(torch.bfloat16) / 3
        return (
            small * small + 3, byte + byte, short * 300, large * large - small, large // 7, torch.remainder(large, 13),
            large >> 3, small & 15, ~byte, small.sum(1), large.argmax(1), (large > 5).to(torch.int8),
            small.to(torch.float32),
            half * half, half.to(torch.float32), (brain + brain).to(torch.float32),
            torch.where(small > 0, small, -small),
        )  # fmt: skip


def _integers() -> Network:
    small = torch.randint(-128, 128, (3, 11), dtype=torch.int8)
    large = torch.randint(-(2**40), 2**40, (3, 11))
    return Network(Method(_Integers(), (small, large)), kinds=("float32",))


class _Movement(nn.Module):
    """Operators that move elements, choose them by index, or order them."""

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = torch.topk(x, 3, 1)
        ordered, order = torch.sort(x, 2, descending=True)
        return (
            values, places, ordered, order, x.permute(2, 0, 1).flip(1), torch.index_select(x, 1, at), x[:, at],
            torch.gather(x, 1, at.view(1, -1, 1).expand(2, -1, 7)), F.pad(x, (1, 2, 0, 1), value=2.5),
            torch.cat((x, x * 2), 1)[:, 1:9:3], x.repeat(1, 2, 1), torch.tril(x),
            x.scatter(1, at.view(1, -1, 1).expand(2, -1, 7), 0.0),
            F.interpolate(x.unsqueeze(0), scale_factor=2.0, mode="bilinear"),
        )  # fmt: skip


def _movement() -> Network:
    return Network(Method(_Movement(), (torch.randn(2, 5, 7), torch.tensor([4, 0, 2]))), kinds=("float32",))


class _Wide(nn.Module):
    """Loops that threads share: each is worth several hand-overs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * y + 0.25, torch.tanh(x), (x - y).sum(1), torch.maximum(x, y.T)


def _wide() -> Network:
    return Network(Method(_Wide(), (torch.randn(320, 320), torch.randn(320, 320))), runs=3, kinds=("float32",))


NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp": _mlp,
    "convolutions": _convolutions,
    "ds_cnn": lambda: Network(ds_cnn()["forward"]),
    "autoencoder": lambda: Network(autoencoder()["forward"]),
    "lstm": lambda: Network(lstm()["forward"]),
    "gru": lambda: Network(gru()["forward"]),
    "transformer": _transformer,
    "any_rows": _any_rows,
    "memory": _memory,
    "decoder": _decoder,
    "arithmetic": _arithmetic,
    "integers": _integers,
    "movement": _movement,
    "wide": _wide,
}


@dataclass(frozen=True)
class Case:
    """A lowered network on disk, with its inputs and what this machine gave."""

    file: Path
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    runs: int

    @property
    def name(self) -> str:
        return self.file.stem


def write(folder: Path, kind: str, partitioners: list[Any] | None = None) -> list[Case]:
    """Writes all networks of a kind. A file whose content stays is not touched: a build follows from them."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_case(folder, name, kind, partitioners) for name in NETWORKS if kind in _made(name).kinds]


def _made(name: str) -> Network:
    torch.manual_seed(0)
    return NETWORKS[name]()


def _case(folder: Path, name: str, kind: str, partitioners: list[Any] | None) -> Case:
    network = _made(name)
    data = network.lowered(kind, partitioners)
    file = folder / f"{name}.{kind}.pte"
    if not file.exists() or file.read_bytes() != data:
        file.write_bytes(data)
    method = et.Runtime.get().load_program(data).load_method("forward")
    for _ in range(network.runs):
        results = method.execute(network.inputs)
    arrays = {"input": [x.numpy() for x in network.inputs], "output": [x.numpy() for x in results]}
    paths: dict[str, list[Path]] = {"input": [], "output": []}
    for what, values in arrays.items():
        for i, value in enumerate(values):
            paths[what].append(folder / f"{name}.{kind}.{what}{i}.npy")
            np.save(paths[what][-1], value)
    return Case(file, tuple(paths["input"]), tuple(paths["output"]), network.runs)
