"""Small models whose layers have names and lines, for the developer tools."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """A layer, and what follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.lin(x)).relu()


class TwoBlocks(nn.Module):
    """Two layers that are called one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) + torch.cos(x)


def two_blocks() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The model and its inputs, the same in each process."""
    torch.manual_seed(0)
    return TwoBlocks().eval(), (torch.randn(4, 16),)
