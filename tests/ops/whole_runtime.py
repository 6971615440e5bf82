"""Functions of tensors through the whole runtime: exported, lowered, loaded and executed; and compared with eager."""

from __future__ import annotations

from collections.abc import Callable

import torch

import executorch_py as et


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def run(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    """What our runtime makes of the first output."""
    program = et.to_edge(torch.export.export(Function(function), inputs)).to_executorch().buffer
    return et.Runtime.get().load_program(program).load_method("forward").execute(inputs)[0]


def check(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, tolerance: float = 0.0) -> None:
    """Equal to eager, NaN where eager has it."""
    actual = run(function, *inputs)
    torch.testing.assert_close(actual, function(*inputs), rtol=tolerance, atol=tolerance, equal_nan=True)
