"""Model: one row of the comparison."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Model:
    """One row of the table.

    Attributes:
        module: In eval mode.
        inputs: Example inputs, also what is timed.
    """

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
