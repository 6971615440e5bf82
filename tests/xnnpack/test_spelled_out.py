"""Functions that a model spells out stay one operator where a delegate would cut them or compute them in steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et

torch.set_num_threads(1)
ROOT = math.sqrt(2 / math.pi)


class Between(nn.Module):
    """Two layers with a function between them."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.function, self.first, self.second = function, first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.function(self.first(x)))


def bert(x: torch.Tensor) -> torch.Tensor:
    """The difference from the mean is computed twice, as the delegate sees it."""
    u = x.mean(-1, keepdim=True)
    return (x - u) / torch.sqrt((x - u).pow(2).mean(-1, keepdim=True) + 1e-5)


def bloom(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


#: Name -> function, the operators that run between two calls of the delegate; none: one call.
FORMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[str]]] = {
    "gpt2": (lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0)))), ["aten::gelu.out"]),
    "bloom": (bloom, ["aten::gelu.out"]),
    "erf": (lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), ["aten::gelu.out"]),
    "rms": (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), ["et::rms_norm.out"]),
    "bert": (bert, ["aten::native_layer_norm.out"]),
    "hardswish": (lambda x: x * F.relu6(x + 3) / 6, ["aten::hardswish.out"]),
    "silu": (lambda x: x * torch.sigmoid(x), ["aten::silu.out"]),
    "other": (lambda x: x * 0.5 * (1.0 + torch.tanh(x)), []),
}


def lowered(model: nn.Module, x: torch.Tensor, **options: bool) -> et.ExecutorchProgramManager:
    program = torch.export.export(model.eval(), (x,))
    return et.to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner(**{"largest": True, **options})]
    ).to_executorch()


def calls(program: et.ExecutorchProgramManager) -> list[str]:
    """Names of the kernels that a program calls, "delegate" for a call of one."""
    lines = [
        line.split(" = ", 1)[1] for line in program.dump().splitlines() if line.startswith("  %") and " = " in line
    ]
    names = [line.replace("@", "(").split("(")[0].strip() for line in lines]
    return [name for name in names if "::" in name or name == "delegate"]


def run(program: et.ExecutorchProgramManager, x: torch.Tensor) -> torch.Tensor:
    return et.Runtime.get().load_program(program.buffer).load_method("forward").execute((x,))[0]


@pytest.mark.parametrize("name", FORMS)
def test_stays_in_one_piece_between_linear_layers(name: str) -> None:
    torch.manual_seed(0)
    function, between = FORMS[name]
    model = Between(function, nn.Linear(8, 24), nn.Linear(24, 8))
    x = torch.randn(64, 50, 8)
    program = lowered(model, x)
    assert calls(program) == (["delegate", *between, "delegate"] if between else ["delegate"])
    torch.testing.assert_close(run(program, x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bloom", "hardswish", "silu"])
def test_of_few_elements_costs_less_than_a_border(name: str) -> None:
    torch.manual_seed(0)
    model = Between(FORMS[name][0], nn.Linear(8, 24), nn.Linear(24, 8))
    x = torch.randn(2, 5, 8)
    program = lowered(model, x)
    assert calls(program) == ["delegate"]
    torch.testing.assert_close(run(program, x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "options"), [("bloom", {"always": True}), ("hardswish", {"always": True})])
def test_stays_in_the_delegate_when_told_to(name: str, options: dict[str, bool]) -> None:
    torch.manual_seed(0)
    model = Between(FORMS[name][0], nn.Linear(8, 24), nn.Linear(24, 8))
    x = torch.randn(2, 5, 8)
    program = lowered(model, x, **options)
    assert calls(program) == ["delegate"]
    torch.testing.assert_close(run(program, x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bloom", "hardswish"])
def test_of_images_stays_in_the_delegate(name: str) -> None:
    torch.manual_seed(0)
    model = Between(FORMS[name][0], nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3))
    x = torch.randn(1, 3, 9, 9)
    program = lowered(model, x)
    assert calls(program) == ["delegate"]
    torch.testing.assert_close(run(program, x), model(x), rtol=1e-4, atol=1e-5)
