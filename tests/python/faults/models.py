"""Small models for tests of faults: what they are, and how their files are made."""

from collections.abc import Callable
from pathlib import Path

import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export.experimental import _export_forward_backward

import executorch_py as et
from executorch_py import quantizer


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Counter(nn.Module):
    """State that calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("total", torch.zeros(1, 8))

    def forward(self, x):
        self.total.add_(self.linear(x).sum(0, keepdim=True))
        return self.total + x


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Conv2d(8, 16, 1), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5), nn.Softmax(-1),
    )  # fmt: skip


ROWS, IMAGES, WORDS = torch.randn(4, 8), torch.randn(2, 3, 12, 12), torch.randn(2, 5, 16)


def dynamic(x: torch.Tensor, name: str = "n") -> tuple[dict[int, torch.export.Dim]]:
    return ({0: torch.export.Dim(name, min=1, max=len(x))},)


def lower(
    module: nn.Module, x: torch.Tensor, delegate: bool, flow: str = "", config=None
) -> et.ExecutorchProgramManager:
    torch.manual_seed(0)
    module = module.eval()
    if flow:
        program = quantizer.quantize(module, (x,), flow, [(x,)], dynamic_shapes=dynamic(x))
    else:
        program = torch.export.export(module, (x,), dynamic_shapes=dynamic(x))
    partitioner = [XnnpackPartitioner(always=True)] if delegate else None
    return et.to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch(config)


def methods() -> et.ExecutorchProgramManager:
    programs = {
        "forward": torch.export.export(Counter().eval(), (ROWS,), dynamic_shapes=dynamic(ROWS)),
        "other": torch.export.export(mlp().eval(), (ROWS,), dynamic_shapes=dynamic(ROWS)),
    }
    return et.to_edge_transform_and_lower(programs).to_executorch()


MODELS: dict[str, Callable[[], et.ExecutorchProgramManager]] = {
    "mlp": lambda: lower(mlp(), ROWS, False),
    "conv": lambda: lower(conv_net(), IMAGES, False),
    "lstm": lambda: lower(Lstm(), torch.randn(2, 5, 8), False),
    "attention": lambda: lower(Attention(), WORDS, False),
    "conv_xnnpack": lambda: lower(conv_net(), IMAGES, True),
    "attention_xnnpack": lambda: lower(Attention(), WORDS, True),
    "transposed_xnnpack": lambda: lower(nn.ConvTranspose2d(3, 6, 3, 2, 1), IMAGES, True),
    "dynamic_conv_xnnpack": lambda: lower(nn.Conv2d(3, 6, 3, padding=1), IMAGES, True, "dynamic_int8"),
    "static_int8_xnnpack": lambda: lower(conv_net(), IMAGES, True, "static_int8"),
    "static_int8": lambda: lower(conv_net(), IMAGES, False, "static_int8"),
    "dynamic_int8_xnnpack": lambda: lower(mlp(), ROWS, True, "dynamic_int8"),
    # Weights of more than a megabyte: the delegate packs them by all threads.
    "large_xnnpack": lambda: lower(
        nn.Sequential(nn.Linear(512, 384), nn.ReLU(), nn.Linear(384, 512)), torch.randn(4, 512), True
    ),
    "external_weights": lambda: lower(mlp(), ROWS, True, config=et.ExecutorchBackendConfig(external_constants=True)),
    "methods": methods,
    "wide_mlp": lambda: lower(
        nn.Sequential(nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 32)), torch.randn(64, 128), False
    ),
}


def write(name: str, folder: Path) -> list[Path]:
    """Model `name` as files: the program first, then its `.ptd` files."""
    program = MODELS[name]()
    program.save(folder / f"{name}.pte")
    if name == "external_weights":
        program.write_tensor_data_to_file(folder)
    return [folder / f"{name}.pte", *sorted(folder.glob("*.ptd"))]


class Loss(nn.Module):
    """What training lowers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        return (self.layers(x) - 1).square().mean()


def write_training(folder: Path, width: int = 8, rows: int = 4) -> Path:
    """A program whose `forward` gives gradients."""
    torch.manual_seed(0)
    joint = _export_forward_backward(torch.export.export(Loss(width).train(), (torch.randn(rows, width),)))
    et.to_edge({"forward": joint}).to_executorch().save(folder / "train.pte")
    return folder / "train.pte"
