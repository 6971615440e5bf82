"""Functions that models spell out operator by operator are one instruction each, and mean the same."""

from __future__ import annotations

import copy
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
    "quick_gelu": ("swish", lambda x: x * torch.sigmoid(1.702 * x)),
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
    is_other |= dtype == torch.float64 and name == "quick_gelu"  # no fast kernel
    assert (instructions(program) == [f"{'et' if op == 'swish' else 'aten'}::{op}.out"]) != is_other
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
    "sigmoid of a sum": lambda x: x * torch.sigmoid(1.702 * x + 1),
    "sigmoid of a square": lambda x: x * torch.sigmoid(x * x),
    "terms that cancel": lambda x: (1e10 * x + x - 1e10 * x) * torch.sigmoid(x),
    "terms that cancel to 0": lambda x: (x - x + 1) * x * torch.sigmoid(x),
    "times 0": lambda x: x * torch.sigmoid(x + 0 * x),
    "factors too large": lambda x: x * torch.sigmoid(1e30 * x * 1e30),
    "factors too small": lambda x: x * torch.sigmoid(1e-30 * x * 1e-30),
    "bounds": lambda x: x * torch.clamp(x + 3, 0, 5) / 6,
    "two sixths": lambda x: x * F.relu6(x + 3) / 3,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_stay(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 41) * 3
    x[0, :2] = torch.tensor([0, math.inf])
    program = lowered(Written(OTHERS[name]), (x,))
    found = {"et::swish.out"} | {f"aten::{op}.out" for op in ("gelu", "silu", "mish", "hardswish", "hardsigmoid")}
    assert not found & set(instructions(program))
    torch.testing.assert_close(load(program)(x), OTHERS[name](x), rtol=1e-5, atol=2e-6, equal_nan=True)


class Norm(nn.Module):
    """A function of (module, tensor) with a weight and a bias for each column."""

    def __init__(self, function: Callable[[Norm, torch.Tensor], torch.Tensor], columns: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.rand(columns) + 0.5)
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def llama(self: Norm, x: torch.Tensor) -> torch.Tensor:
    h = x.to(torch.float32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return self.weight * h.to(x.dtype)


def t5(self: Norm, x: torch.Tensor) -> torch.Tensor:
    h = x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + 1e-6)
    return self.weight * (h.to(self.weight.dtype) if self.weight.dtype in {torch.float16, torch.bfloat16} else h)


def gemma(self: Norm, x: torch.Tensor) -> torch.Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * (1.0 + self.weight.float())).type_as(x)


def annotated(self: Norm, x: torch.Tensor) -> torch.Tensor:
    """The weight stands before the division."""
    centred = x - x.mean(-1, keepdim=True)
    return self.weight * centred / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) + self.bias


def bert(self: Norm, x: torch.Tensor) -> torch.Tensor:
    u = x.mean(-1, keepdim=True)
    s = (x - u).pow(2).mean(-1, keepdim=True)
    return self.weight * ((x - u) / torch.sqrt(s + 1e-5)) + self.bias


def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    e = torch.exp(x - x.max(dim, keepdim=True).values)
    return e / e.sum(dim, keepdim=True)


NORMS: dict[str, tuple[str, Callable[[Norm, torch.Tensor], torch.Tensor]]] = {
    "llama": ("et::rms_norm", llama),
    "t5": ("et::rms_norm", t5),
    "gemma": ("et::rms_norm", gemma),
    "torch": ("et::rms_norm", lambda self, x: F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)),
    "no_weight": ("et::rms_norm", lambda _, x: x / torch.sqrt(1e-5 + torch.mean(x * x, -1, keepdim=True))),
    "annotated": ("aten::native_layer_norm", annotated),
    "bert": ("aten::native_layer_norm", bert),
    "softmax": ("aten::_softmax", lambda _, x: softmax(x, -1)),
    "softmax_rows": ("aten::_softmax", lambda _, x: softmax(x, 0)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_norm_is_one_instruction(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    op, function = NORMS[name]
    model = Norm(function, 641).to(dtype)
    x = (torch.randn(3, 641) * 3 + 1).to(dtype)
    program = lowered(model, (x,))
    # Doubles that are cast to float are another function.
    is_other = dtype == torch.float64 and name in {"llama", "t5", "gemma"}
    assert (instructions(program) == [f"{op}.out"]) != is_other
    exact = copy.deepcopy(model).double()(x.double())
    result = load(program)(x)
    if is_other:
        torch.testing.assert_close(result, exact, rtol=1e-5, atol=1e-5)
    else:
        compare_with_exact(result, exact)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_norm_of_extremes(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    _, function = NORMS[name]
    model = Norm(function, 37).to(dtype)
    x = torch.randn(6, 37).to(dtype)
    x[0], x[1, 3], x[2, 5], x[3, 7] = 0, math.nan, math.inf, -math.inf
    x[4] *= 1e-3
    expected = model(x)
    result = load(lowered(model, (x,)))(x)
    limit = {torch.float16: 0.01, torch.bfloat16: 0.05}.get(dtype, 1e-5)
    torch.testing.assert_close(result, expected, rtol=limit, atol=limit, equal_nan=True)


@pytest.mark.parametrize("name", ["llama", "bert", "softmax", "torch"])
def test_norm_of_dynamic_shape(name: str) -> None:
    op, function = NORMS[name]
    model = Norm(function, 7)
    rows = torch.export.Dim("rows", min=1, max=9)
    program = lowered(model, (torch.randn(4, 7),), dynamic_shapes=({0: rows},))
    assert instructions(program) == [f"{op}.out"]
    call = load(program)
    for count in (1, 5, 9):
        x = torch.randn(count, 7)
        compare_with_exact(call(x), copy.deepcopy(model).double()(x.double()))


def test_rms_norm_of_a_dynamic_last_size() -> None:
    columns = torch.export.Dim("columns", min=2, max=99)
    program = lowered(Written(lambda x: x * torch.rsqrt(x.square().mean(-1, True) + 1e-6)), (torch.randn(2, 9),),
                      dynamic_shapes=({1: columns},))  # fmt: skip
    assert instructions(program) == ["et::rms_norm.out"]
    call = load(program)
    for count in (2, 33, 99):
        x = torch.randn(2, count)
        compare_with_exact(call(x), F.rms_norm(x.double(), (count,), None, 1e-6))


OTHER_NORMS: dict[str, Function] = {
    "eps outside": lambda x: (x - x.mean(-1, True)) / (x.var(-1, unbiased=False, keepdim=True).sqrt() + 1e-5),
    "corrected": lambda x: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
    "other dim": lambda x: x * torch.rsqrt(x.pow(2).mean(0, True) + 1e-6),
    "sum": lambda x: x * torch.rsqrt(x.pow(2).sum(-1, True) + 1e-6),
    "no keepdim": lambda x: x[:, :3] * torch.rsqrt(x[:, :3].pow(2).mean(-1) + 1e-6),
    "third power": lambda x: x * torch.rsqrt(x.abs().pow(3).mean(-1, True) + 1e-6),
    "other mean": lambda x: (x - x.mean(-1, True)) * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6),
    "subtracted from mean": lambda x: (
        (x.mean(-1, True) - x) * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + 1e-6)
    ),
    "softmax over another dim": lambda x: (lambda e: e / e.sum(0, True))(torch.exp(x - x.amax(-1, True))),
    "exponentials": lambda x: (lambda e: e / e.sum(-1, True))(torch.exp(x)),
}


@pytest.mark.parametrize("name", OTHER_NORMS)
def test_other_norms_stay(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 41)
    program = lowered(Written(OTHER_NORMS[name]), (x,))
    assert not {"et::rms_norm.out", "aten::native_layer_norm.out", "aten::_softmax.out"} & set(instructions(program))
    torch.testing.assert_close(load(program)(x), OTHER_NORMS[name](x), rtol=1e-5, atol=2e-6)


#: Element types of x and of the weight, what a compatible file has.
MIXED: dict[str, tuple[torch.dtype, torch.dtype, list[str]]] = {
    "half weight": (torch.float32, torch.float16, ["aten::native_layer_norm.out", "aten::mul.out"]),
    "float weight": (
        torch.float16,
        torch.float32,
        [
            "dim_order_ops::_to_dim_order_copy.out",
            "aten::native_layer_norm.out",
            "dim_order_ops::_to_dim_order_copy.out",
        ],
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_compatible_layer_norm_has_one_element_type(name: str) -> None:
    """The official kernel refuses others."""
    dtype, weight, expected = MIXED[name]

    def function(self: Norm, x: torch.Tensor) -> torch.Tensor:
        h = x.float()
        h = h - h.mean(-1, keepdim=True)
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight).to(dtype)

    model = Norm(function, 8)
    model.weight = nn.Parameter(model.weight.detach().to(weight))
    x = torch.randn(3, 8).to(dtype)
    edge = et.to_edge(torch.export.export(model, (x,)))
    program = edge.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    assert instructions(program) == expected
    torch.testing.assert_close(load(program)(x), model(x), rtol=1e-3, atol=1e-5)
    assert instructions(lowered(model, (x,))) == ["aten::native_layer_norm.out"]


def test_normalize_repeats_no_norm() -> None:
    x = torch.randn(5, 33)
    x[2] = 0
    program = lowered(Written(lambda x: F.normalize(x, dim=-1)), (x,))
    assert instructions(program) == ["aten::linalg_vector_norm.out", "aten::clamp.out", "aten::div.out"]
    torch.testing.assert_close(load(program)(x), F.normalize(x, dim=-1))


def test_norm_whose_mean_is_returned_stays() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            mean = x.pow(2).mean(-1, keepdim=True)
            return x * torch.rsqrt(mean + 1e-6), mean

    assert "et::rms_norm.out" not in instructions(lowered(Both(), (torch.randn(3, 41),)))
