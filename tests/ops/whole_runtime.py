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


def outputs(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> list[torch.Tensor]:
    """What our runtime makes of a function."""
    program = et.to_edge(torch.export.export(Function(function), inputs)).to_executorch().buffer
    return et.Runtime.get().load_program(program).load_method("forward").execute(inputs)


def run(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    """The first output."""
    return outputs(function, *inputs)[0]


def check(
    function: Callable[..., torch.Tensor],
    *inputs: torch.Tensor,
    tolerance: float = 0.0,
    exact: torch.Tensor | None = None,
) -> None:
    """Equal to eager, or to ``exact``; NaN where that has it."""
    expected = function(*inputs) if exact is None else exact
    torch.testing.assert_close(run(function, *inputs), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
