"""The rows of the comparison with the peers: models that the peers page lists, and the zoo of the tests.

A row has one method without state, so that every engine can run it. Weights are random with a fixed seed where the
model has no published ones; speed does not depend on them.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.peers.large import LARGE
from benchmarks.peers.row import Model
from tests.models.zoo import ZOO, SentenceEncoder


def tiny_autoencoder() -> Model:
    """64-32-8-32-64 on one row: what remains is the cost of a call."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise((64, 32, 8, 32, 64)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return Model(nn.Sequential(*layers[:-1]).eval(), (torch.rand(1, 64),))


def minilm_128() -> Model:
    """The sentence encoder on 128 tokens."""
    torch.manual_seed(0)
    tokens = torch.randint(1000, 20000, (1, 128))
    return Model(SentenceEncoder().eval(), (tokens, torch.ones(1, 128, dtype=torch.int64)))


class ConvolutionStack(nn.Module):
    """A feature extractor over raw audio as in wav2vec2 (Baevski et al. 2020, section 2), at a quarter of its width."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 1
        for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
            layers += [nn.Conv1d(before, width, kernel, stride, bias=False), nn.GELU()]
            before = width
        layers.insert(1, nn.GroupNorm(width, width))
        self.layers = nn.Sequential(*layers)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        return self.layers(wave)


def conv1d_stack() -> Model:
    """Seven 1-D convolutions over one second of audio."""
    torch.manual_seed(0)
    return Model(ConvolutionStack().eval(), (torch.randn(1, 1, 16000),))


def _of_the_zoo(name: str) -> Callable[[], Model]:
    def make() -> Model:
        method = ZOO[name]()["forward"]
        return Model(method.module, method.inputs)

    return make


def _of_large(name: str, samples: int) -> Callable[[], Model]:
    return lambda: LARGE[name](samples)


#: Rows of the zoo and of the peers page.
SMALL: tuple[str, ...] = ("tiny_autoencoder", "minilm_128", "conv1d_stack", *(name for name in ZOO if name != "llama"))
#: A third of all rows, of every kind: what `make bench` runs.
CHOSEN: tuple[str, ...] = (
    "tiny_autoencoder", "ds_cnn", "mobilenet_v2", "resnet18", "minilm", "lstm", "mobilenet_v3_large", "convnext_tiny",
    "resnet50", "distilbert", "gpt2", "separator", "tagger", "detector",
)  # fmt: skip

#: Name -> function that makes the model. `resnet50` has one sample, `resnet50_x8` eight.
MODELS: dict[str, Callable[[], Model]] = {
    "tiny_autoencoder": tiny_autoencoder,
    "minilm_128": minilm_128,
    "conv1d_stack": conv1d_stack,
    **{name: _of_the_zoo(name) for name in SMALL if name in ZOO},
    **{name: _of_large(name, 1) for name in LARGE},
    **{f"{name}_x8": _of_large(name, 8) for name in LARGE},
}
