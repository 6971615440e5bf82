"""Random programs: operators put together by hypothesis, on random shapes and element types.

A graph is drawn by running it: each step takes values that are there already, applies an operator with arguments that
fit their shapes, and keeps the result when it is small and finite. Operators that jump (rounding, comparing, casting to
integers) are applied only to values that both sides compute without rounding; everything else may differ in its last
digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

Draw = Callable[[st.SearchStrategy], Any]

FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MOST_ELEMENTS, _MOST_RANK, _LARGEST = 4096, 5, 1e4


@dataclass
class Value:
    """A tensor of the graph, as eager computed it.

    Attributes:
        tensor: The value.
        exact: No rounding went into it, so that it may be compared, rounded and cast.
    """

    tensor: torch.Tensor
    exact: bool


@dataclass
class Step:
    """One operator: a function of earlier values, and what it reads as."""

    text: str
    function: Callable[..., torch.Tensor]
    operands: tuple[int, ...]


class Graph(nn.Module):
    """What was drawn, as a module that returns some of its values."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[torch.Tensor] = []
        self.steps: list[Step] = []
        self.results: list[int] = []

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values = list(inputs)
        for step in self.steps:
            values.append(step.function(*(values[i] for i in step.operands)))
        return [values[i] for i in self.results]

    def __repr__(self) -> str:
        lines = [f"  v{i} = input {str(t.dtype)[6:]}{list(t.shape)}" for i, t in enumerate(self.inputs)]
        for i, step in enumerate(self.steps, len(self.inputs)):
            lines.append(f"  v{i} = {step.text}({', '.join(f'v{o}' for o in step.operands)})")
        return "\n".join(["", *lines, f"  return {', '.join(f'v{i}' for i in self.results)}"])


@st.composite
def graphs(draw: Draw) -> Graph:
    """A module of 3 to 12 operators with its inputs."""
    graph = Graph()
    values: list[Value] = []
    base = draw(st.lists(st.integers(1, 5), min_size=0, max_size=4))
    for _ in range(draw(st.integers(1, 3))):
        tensor = _input(draw, base)
        graph.inputs.append(tensor)
        values.append(Value(tensor, True))
    for _ in range(draw(st.integers(3, 12))):
        _add_step(draw, graph, values)
    last = len(values) - 1
    graph.results = sorted({last, draw(st.integers(len(graph.inputs), last))})
    return graph


def _input(draw: Draw, base: list[int]) -> torch.Tensor:
    """Small multiples of an eighth, so that sums and products of a few are exact; sizes that broadcast with each
    other.
    """
    shape = [draw(st.sampled_from([size, size, size, 1])) for size in base]
    shape = shape[draw(st.integers(0, len(shape))) if draw(st.booleans()) else 0 :]
    if shape and draw(st.integers(0, 19)) == 0:
        shape[0] = 0
    dtype = draw(st.sampled_from((*FLOATS, *FLOATS, *INTEGERS, torch.bool)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype in INTEGERS:
        return torch.randint(0 if dtype == torch.uint8 else -6, 9, shape, generator=generator).to(dtype)
    return (torch.randint(-24, 25, shape, generator=generator) / 8).to(dtype)


def _add_step(draw: Draw, graph: Graph, values: list[Value]) -> None:
    # Later values are taken more often: chains instead of stars.
    at = len(values) - 1 - min(draw(st.integers(0, 2 * len(values))) % (len(values) + 1), len(values) - 1)
    family = draw(st.sampled_from(_FAMILIES))
    for choose in (family, _pointwise):
        chosen = choose(draw, values, at)
        if chosen is None:
            continue
        step, exact = chosen
        try:
            result = step.function(*(values[i].tensor for i in step.operands))
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            continue  # eager does not take these shapes or types
        if _is_tame(result):
            exact = exact and all(values[i].exact for i in step.operands)
            graph.steps.append(step)
            values.append(Value(result, exact or not result.is_floating_point()))
            return
    graph.steps.append(Step("clone", torch.clone, (at,)))
    values.append(Value(values[at].tensor.clone(), values[at].exact))


def _is_tame(result: Any) -> bool:
    if not isinstance(result, torch.Tensor) or result.is_complex():
        return False
    if result.numel() > _MOST_ELEMENTS or result.dim() > _MOST_RANK:
        return False
    if not result.is_floating_point() or not result.numel():
        return True
    return bool(result.isfinite().all()) and result.abs().max().item() <= _LARGEST


#: A step, and whether it computes without rounding; None where nothing fits.
Chosen = Any

_EXACT_UNARY = {
    "relu": torch.relu,
    "abs": torch.abs,
    "neg": torch.neg,
    "square": torch.square,
    "hardtanh": nn.functional.hardtanh,
}
_SMOOTH_UNARY = {
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "sin": torch.sin, "cos": torch.cos, "erf": torch.erf,
    "atan": torch.atan,
    "gelu": nn.functional.gelu, "silu": nn.functional.silu, "softplus": nn.functional.softplus,
    "elu": nn.functional.elu,
    "log1p_abs": lambda x: torch.log1p(x.abs()), "sqrt_abs1": lambda x: torch.sqrt(x.abs() + 1),
    "exp_tanh": lambda x: torch.exp(torch.tanh(x)), "reciprocal1": lambda x: torch.reciprocal(x.abs() + 1),
}  # fmt: skip
_JUMPING_UNARY = {
    "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "sign": torch.sign,
    "frac": torch.frac,
    "logical_not": torch.logical_not, "bool": lambda x: x.bool(), "to_int": lambda x: x.to(torch.int32),
}  # fmt: skip


def _pointwise(draw: Draw, values: list[Value], at: int) -> Chosen:
    exact = values[at].exact
    names = [*_EXACT_UNARY, *_SMOOTH_UNARY, *(_JUMPING_UNARY if exact else ())]
    name = draw(st.sampled_from(names))
    function = _EXACT_UNARY.get(name) or _SMOOTH_UNARY.get(name) or _JUMPING_UNARY[name]
    return Step(name, function, (at,)), name not in _SMOOTH_UNARY


def _number(draw: Draw, values: list[Value], at: int) -> Chosen:
    number = draw(st.sampled_from([2, -1, 3, 0.5, -1.25, True]))
    functions = {
        "add": lambda x: x + number, "rsub": lambda x: number - x, "mul": lambda x: x * number,
        "div": lambda x: x / number,
        "clamp": lambda x: x.clamp(-number if number > 0 else number, 4),
        "maximum": lambda x: torch.clamp_min(x, number),
        "pow2": lambda x: x**2, "leaky_relu": lambda x: nn.functional.leaky_relu(x, 0.125),
    }  # fmt: skip
    if values[at].exact:
        functions |= {"lt": lambda x: x < number, "eq": lambda x: x == number, "remainder": lambda x: x % 3}
    name = draw(st.sampled_from([*functions]))
    return Step(f"{name}[{number}]", functions[name], (at,)), name != "div"


def _binary(draw: Draw, values: list[Value], at: int) -> Chosen:
    other = draw(st.integers(0, len(values) - 1))
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
        "add_half": lambda a, b: torch.add(a, b, alpha=2), "div": lambda a, b: a / (b.abs() + 1),
        "atan2": lambda a, b: torch.atan2(a, b.abs() + 1), "hypot": torch.hypot, "logaddexp": torch.logaddexp,
    }  # fmt: skip
    if values[at].exact and values[other].exact:
        functions |= {
            "lt": torch.lt, "ge": torch.ge, "eq": torch.eq, "logical_xor": torch.logical_xor,
            "bitwise_and": torch.bitwise_and,
            "bitwise_or": torch.bitwise_or, "floor_div": lambda a, b: a // (b.abs() + 1),
        }  # fmt: skip
    name = draw(st.sampled_from([*functions]))
    return Step(name, functions[name], (at, other)), name not in ("div", "atan2", "hypot", "logaddexp")


def _where(draw: Draw, values: list[Value], at: int) -> Chosen:
    masks = [i for i, value in enumerate(values) if value.tensor.dtype == torch.bool]
    other = draw(st.integers(0, len(values) - 1))
    if not masks:
        return Step("where_positive", lambda a, b: torch.where(a > 0, a, b), (at, other)), True
    mask = draw(st.sampled_from(masks))
    if draw(st.booleans()):
        return Step("masked_fill", lambda m, a: a.masked_fill(m, 1), (mask, at)), True
    return Step("where", torch.where, (mask, at, other)), True


def _reduction(draw: Draw, values: list[Value], at: int) -> Chosen:
    rank = values[at].tensor.dim()
    if rank == 0:
        return None
    dim = draw(st.integers(-rank, rank - 1))
    keepdim = draw(st.booleans())
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "sum": lambda x: x.sum(dim, keepdim), "mean": lambda x: x.mean(dim, keepdim),
        "amax": lambda x: x.amax(dim, keepdim),
        "amin": lambda x: x.amin(dim, keepdim), "sum_all": torch.sum, "max": lambda x: x.max(dim, keepdim).values,
        "softmax": lambda x: x.softmax(dim), "log_softmax": lambda x: x.log_softmax(dim),
        "cumsum": lambda x: x.cumsum(dim),
        "logsumexp": lambda x: x.logsumexp(dim, keepdim), "var": lambda x: x.var(dim, correction=0, keepdim=keepdim),
        "norm": lambda x: torch.linalg.vector_norm(x, 2, dim, keepdim), "mean_all": torch.mean,
        "layer_norm": lambda x: nn.functional.layer_norm(x, x.shape[-1:]), "sort": lambda x: x.sort(dim).values,
    }  # fmt: skip
    if values[at].exact:
        functions |= {
            "any": lambda x: x.any(dim, keepdim), "all": lambda x: x.all(dim, keepdim),
            "count_nonzero": lambda x: x.count_nonzero(dim), "argmax": lambda x: x.argmax(dim, keepdim),
        }  # fmt: skip
    name = draw(st.sampled_from([*functions]))
    exact = name in ("amax", "amin", "max", "sum", "sum_all", "cumsum", "sort")
    return Step(f"{name}[{dim}, {keepdim}]", functions[name], (at,)), exact


def _view(draw: Draw, values: list[Value], at: int) -> Chosen:
    shape = list(values[at].tensor.shape)
    rank = len(shape)
    if rank == 0:
        return Step("unsqueeze", lambda x: x.unsqueeze(0), (at,)), True
    dim = draw(st.integers(0, rank - 1))
    order = draw(st.permutations(range(rank)))
    start, step = draw(st.integers(-2, 2)), draw(st.integers(1, 3))
    times = draw(st.integers(1, 3))
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "permute": lambda x: x.permute(order), "flatten": lambda x: x.reshape(-1),
        "unsqueeze": lambda x: x.unsqueeze(dim),
        "squeeze": lambda x: x.squeeze(), "flip": lambda x: x.flip(dim), "roll": lambda x: x.roll(start, dim),
        "slice": lambda x: x[(slice(None),) * dim + (slice(start, None, step),)],
        "select": lambda x: x.select(dim, -1), "expand": lambda x: x.unsqueeze(0).expand(times, *x.shape),
        "repeat": lambda x: x.repeat(times, *[1] * (x.dim() - 1)), "transpose": lambda x: x.transpose(dim, -1),
        "reshape": lambda x: x.reshape(x.shape[-1], -1) if x.numel() else x.clone(),
        "diagonal": lambda x: x.diagonal(0, dim, -1),
        "split": lambda x: x.split(2, dim)[-1], "chunk": lambda x: x.chunk(2, dim)[0],
        "unfold": lambda x: x.unfold(dim, 2, 1),
        "pad": lambda x: nn.functional.pad(x, [times, 1]), "tril": lambda x: torch.tril(x, start),
    }  # fmt: skip
    name = draw(st.sampled_from([*functions]))
    return Step(f"{name}[{dim}, {order}, {start}, {step}, {times}]", functions[name], (at,)), True


def _join(draw: Draw, values: list[Value], at: int) -> Chosen:
    shape = values[at].tensor.shape
    if not shape:
        return Step("stack", lambda x, y: torch.stack([x, y.sum().to(x.dtype)]), (at, at)), True
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    fitting = [i for i, v in enumerate(values) if v.tensor.shape == shape]
    other = draw(st.sampled_from(fitting))
    if draw(st.booleans()):
        return Step(f"cat[{dim}]", lambda x, y: torch.cat([x, y, x], dim), (at, other)), True
    return Step(f"stack[{dim}]", lambda x, y: torch.stack([x, y], dim), (at, other)), True


def _index(draw: Draw, values: list[Value], at: int) -> Chosen:
    shape = values[at].tensor.shape
    if not shape or 0 in shape:
        return None
    dim = draw(st.integers(0, len(shape) - 1))
    picked = draw(st.lists(st.integers(-shape[dim], shape[dim] - 1), min_size=1, max_size=4))
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "index": lambda x: x[(slice(None),) * dim + (torch.tensor(picked),)],
        "index_select": lambda x: x.index_select(dim, torch.tensor([i % x.shape[dim] for i in picked])),
        "gather": lambda x: x.gather(dim, torch.zeros_like(x, dtype=torch.int64)),
        "index_two": lambda x: x[torch.zeros(2, 1, dtype=torch.int64),
                                 torch.tensor([0, -1])] if x.dim() > 1 else x[[0, -1]],
        "index_fill": lambda x: x.index_fill(dim, torch.tensor([picked[0] % x.shape[dim]]), 1),
        "scatter": lambda x: x.scatter(dim, torch.zeros_like(x, dtype=torch.int64).narrow(dim, 0, 1), 2),
    }  # fmt: skip
    name = draw(st.sampled_from([*functions]))
    return Step(f"{name}[{dim}, {picked}]", functions[name], (at,)), True


def _product(draw: Draw, values: list[Value], at: int) -> Chosen:
    shape = values[at].tensor.shape
    if not shape:
        return None
    if len(shape) == 1:
        return Step("outer", lambda x: x.unsqueeze(1) @ x.unsqueeze(0), (at,)), False
    kind = draw(st.sampled_from(["gram", "linear", "matmul"]))
    if kind == "gram":
        return Step("gram", lambda x: x @ x.mT, (at,)), False
    if kind == "linear":
        return Step("linear", lambda x: nn.functional.linear(x, x.new_ones(3, x.shape[-1])), (at,)), False
    fitting = [i for i, v in enumerate(values) if v.tensor.dim() > 1 and v.tensor.shape[-2] == shape[-1]]
    return (Step("matmul", torch.matmul, (at, draw(st.sampled_from(fitting)))), False) if fitting else None


def _cast(draw: Draw, values: list[Value], at: int) -> Chosen:
    choices = (*FLOATS, *INTEGERS) if values[at].exact else FLOATS
    dtype = draw(st.sampled_from(choices))
    tensor = values[at].tensor
    if dtype == torch.uint8 and tensor.numel() and tensor.min().item() < 0:
        dtype = torch.int16  # a negative float has no defined value as uint8
    if tensor.is_floating_point() and dtype in INTEGERS and tensor.numel() and tensor.abs().max().item() > 127:
        dtype = torch.int64
    is_wider = dtype in (torch.float64, torch.float32) or dtype in INTEGERS
    return Step(f"to[{str(dtype)[6:]}]", lambda x: x.to(dtype), (at,)), is_wider


_FAMILIES = (
    _pointwise, _pointwise, _number, _binary, _binary, _where, _reduction, _reduction, _view, _view, _view, _join,
    _index,
    _product, _cast,
)  # fmt: skip
