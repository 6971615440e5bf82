"""Functions that models write out operator by operator are one instruction each, and mean the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import executorch_py as et

torch.set_num_threads(1)

Function = Callable[[torch.Tensor], torch.Tensor]
ROOT = math.sqrt(2 / math.pi)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Written(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def bloom(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


def fast_gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608028654 * (1.0 + 0.044715 * x * x)))


ACTIVATIONS: dict[str, tuple[str, Function]] = {
    "gpt2": ("gelu", lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0))))),
    "products": ("gelu", lambda x: x * 0.5 * (torch.tanh(ROOT * (x + 0.044715 * x * x * x)) + 1)),
    "bloom": ("gelu", bloom),
    "fast": ("gelu", fast_gelu),
    "multiplied_out": ("gelu", lambda x: x / 2 + x / 2 * torch.tanh(ROOT * x + 0.044715 * ROOT * x.square() * x)),
    "constant_tensor": ("gelu", lambda x: 0.5 * x * (1 + torch.tanh(torch.tensor(ROOT) * (x + 0.044715 * x**3)))),
    "erf": ("gelu", lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))),
    "erf_product": ("gelu", lambda x: 0.5 * (x * (1 + torch.erf(x * 0.7071067811865476)))),
    "erf_from_one": ("gelu", lambda x: x * (0.5 - -0.5 * torch.erf(x * 0.7071067811865476))),
    "silu": ("silu", lambda x: x * torch.sigmoid(x)),
    "swish": ("silu", lambda x: x.sigmoid() * x),
    "mish": ("mish", lambda x: x * torch.tanh(F.softplus(x))),
    "mish_log1p": ("mish", lambda x: torch.tanh(torch.log1p(torch.exp(x))) * x),
    "mish_log": ("mish", lambda x: x * torch.tanh(torch.log(1 + torch.exp(x)))),
    "hardswish": ("hardswish", lambda x: x * F.relu6(x + 3) / 6),
    "hardswish_clamp": ("hardswish", lambda x: x * (torch.clamp(3 + x, 0, 6) * (1 / 6))),
    "hardsigmoid": ("hardsigmoid", lambda x: F.relu6(x + 3.0) / 6.0),
    "hardsigmoid_half": ("hardsigmoid", lambda x: torch.clamp(x / 6 + 0.5, 0, 1)),
}


def lowered(model: nn.Module, inputs: tuple[torch.Tensor, ...], **options: object) -> et.ExecutorchProgramManager:
    return et.to_edge(torch.export.export(model.eval(), inputs, **options)).to_executorch()


def instructions(program: et.ExecutorchProgramManager) -> list[str]:
    """Names of the kernels that a program calls."""
    return [
        line.split(" = ")[1].split("(")[0] for line in program.dump().splitlines() if "::" in line and " = " in line
    ]


def load(program: et.ExecutorchProgramManager) -> Callable[..., torch.Tensor]:
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    return lambda *inputs: method.execute(inputs)[0]


def compare_with_exact(result: torch.Tensor, exact: torch.Tensor) -> None:
    """Within a few units in the last place of float or double, or one of 16 bits, of what doubles give."""
    limits = {torch.float32: 1e-6, torch.float64: 1e-14, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
    limit = limits[result.dtype]
    torch.testing.assert_close(result.double(), exact, rtol=limit, atol=min(limit, 2e-6))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_one_instruction(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    op, function = ACTIVATIONS[name]
    x = (torch.randn(3, 41) * 3).to(dtype)
    program = lowered(Written(function), (x,))
    is_other = dtype == torch.float64 and name in {"bloom", "constant_tensor"}  # a root of eight digits, or of float
    assert (instructions(program) == [f"aten::{op}.out"]) != is_other
    compare_with_exact(load(program)(x), function(x.double()))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_of_extremes(name: str, dtype: torch.dtype) -> None:
    _, function = ACTIVATIONS[name]
    # 20: a whole vector of each, so that both vectors and rests are reached.
    values = [math.inf, -math.inf, math.nan, 1e4, -1e4, 100.0, -100.0, -12.0, 12.0, 0.0, -0.0] * 20
    values += [3e37, -3e37, 1e30, -1e30] * (dtype is not torch.float16)
    x = torch.tensor(values).to(dtype)
    torch.testing.assert_close(
        load(lowered(Written(function), (x,)))(x), function(x), rtol=0.01, atol=1e-3, equal_nan=True
    )


@pytest.mark.parametrize("name", ["gpt2", "erf", "silu", "mish", "hardswish"])
def test_activation_of_dynamic_shape(name: str) -> None:
    op, function = ACTIVATIONS[name]
    rows = torch.export.Dim("rows", min=1, max=9)
    program = lowered(Written(function), (torch.randn(4, 7),), dynamic_shapes=({0: rows},))
    assert instructions(program) == [f"aten::{op}.out"]
    call = load(program)
    for count in (1, 5, 9):
        x = torch.randn(count, 7)
        compare_with_exact(call(x), function(x.double()))


OTHERS: dict[str, Function] = {
    "other root": lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * x**3))),
    "other third power": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.0447 * x**3))),
    "second power": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**2))),
    "minus": lambda x: 0.5 * x * (1 - torch.erf(x / math.sqrt(2.0))),
    "no half": lambda x: x * (1 + torch.erf(x / math.sqrt(2.0))),
    "no root": lambda x: 0.5 * x * (1 + torch.erf(x)),
    "gate is read": lambda x: x * torch.sigmoid(x) + torch.sigmoid(x),
    "two values": lambda x: x * torch.sigmoid(x.flip(0)),
    "broadcast gate": lambda x: x * torch.sigmoid(x[:1]),
    "softplus of two": lambda x: x * torch.tanh(F.softplus(x, 2.0)),
    "bounds": lambda x: x * torch.clamp(x + 3, 0, 5) / 6,
    "two sixths": lambda x: x * F.relu6(x + 3) / 3,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_stay(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 41) * 3
    program = lowered(Written(OTHERS[name]), (x,))
    found = {f"aten::{op}.out" for op in ("gelu", "silu", "mish", "hardswish", "hardsigmoid")}
    assert not found & set(instructions(program))
    torch.testing.assert_close(load(program)(x), OTHERS[name](x), rtol=1e-5, atol=2e-6)
