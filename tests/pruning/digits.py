"""scikit-learn's handwritten digits: 897 images to train on, 900 held out, and a small network for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class DigitsCnn(nn.Module):
    """[n, 1, 8, 8] -> [n, 10]: three convolutions with batch norm, two poolings, two linear layers."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width)
        self.conv3, self.norm3 = nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width)
        self.hidden = nn.Linear(2 * width * 4, 64)
        self.classifier = nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm1(self.conv1(image)))
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        x = F.max_pool2d(F.relu(self.norm3(self.conv3(x))), 2)
        return self.classifier(F.relu(self.hidden(x.flatten(1))))


@functools.cache
def images(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training images and labels, held-out images and labels; the seed decides the split."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1)[order] / 16
    y = torch.tensor(data.target)[order]
    return x[900:], y[900:], x[:900], y[:900]


def train(
    model: nn.Module, seed: int, epochs: int, rate: float = 2e-3, after_step: Callable[[], Any] = int
) -> nn.Module:
    """Trains in place with shifts of up to a pixel; ``after_step`` runs after each of the optimizer's steps."""
    torch.set_num_threads(1)  # batches this small lose more to waiting than they win
    x, y, _, _ = images(seed)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-3)
    steps = epochs * -(-len(x) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(64):
            down, right = torch.randint(0, 3, (2,), generator=generator).tolist()
            shifted = F.pad(x[batch], (1, 1, 1, 1))[:, :, down : down + 8, right : right + 8]
            optimizer.zero_grad()
            F.cross_entropy(model(shifted), y[batch], label_smoothing=0.05).backward()
            optimizer.step()
            schedule.step()
            after_step()
    return model.eval()


@functools.cache
def trained(seed: int, epochs: int = 50) -> nn.Module:
    """A trained network; do not change it, copy it."""
    torch.manual_seed(seed)
    return train(DigitsCnn(), seed, epochs)


def accuracy(run: Callable[[torch.Tensor], torch.Tensor], seed: int) -> float:
    """Part of the 900 held-out images that are told right, one call each (a program has one batch size)."""
    _, _, x, y = images(seed)
    right = sum(int(run(x[i : i + 1]).argmax()) == int(y[i]) for i in range(len(x)))
    return right / len(x)
