"""When outputs count as equal to eager's.

Numbers: within a tolerance of the element type, relative to each value and to the output's largest magnitude (sums lose
digits in proportion to their largest terms). Random operators: the same distribution. Uninitialised memory: shape and
type alone. Answers that are not unique (signs of singular vectors, order of equal elements): what they must satisfy
(canonical.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py.graphs.nodes import arguments_of

#: dtype of an output -> relative tolerance, tolerance relative to the output's largest magnitude
TOLERANCES = {
    torch.float64: (1e-7, 1e-9), torch.float32: (2e-5, 1e-5), torch.float16: (4e-3, 3e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
}  # fmt: skip

_UNDEFINED = frozenset(
    {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", "resize", "resize_as"}
)

#: Values that are drawn to compare two distributions, and the largest number of runs to draw them.
_DRAWS, _MOST_RUNS = 4000, 400


def difference(actual: Any, expected: Any, looser: float = 1.0) -> str:
    """Why ``actual`` is not ``expected``; "" when it is. ``looser`` multiplies the tolerances."""
    wrong_kind = _kind_difference(actual, expected)
    if wrong_kind or not isinstance(expected, torch.Tensor):
        return wrong_kind
    if not expected.numel():
        return ""
    if not expected.dtype.is_floating_point:
        wrong = actual != expected
        if not wrong.any():
            return ""
        return f"{int(wrong.sum())} of {wrong.numel()} elements differ: {_first(wrong, actual, expected)}"
    relative, absolute = TOLERANCES[expected.dtype]
    ours, eager = actual.double(), expected.double()
    largest = eager.nan_to_num(nan=0, posinf=0, neginf=0).abs().max().item()
    close = torch.isclose(
        ours, eager, rtol=relative * looser, atol=absolute * looser * max(1.0, largest), equal_nan=True
    )
    if close.all():
        return ""
    error = (ours - eager).abs().nan_to_num(nan=torch.inf)[~close].max().item()
    first = _first(~close, actual, expected)
    return f"{int((~close).sum())} of {close.numel()} elements differ by up to {error:.3g}: {first}"


def _kind_difference(actual: Any, expected: Any) -> str:
    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, torch.Tensor):
            return f"{actual!r} instead of a tensor"
        if actual.dtype != expected.dtype:
            return f"dtype {actual.dtype}, expected {expected.dtype}"
        if actual.shape != expected.shape:
            return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
        return ""
    if isinstance(expected, float) and isinstance(actual, (int, float)):
        return difference(torch.tensor(float(actual)), torch.tensor(expected))
    if isinstance(expected, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        expected = str(expected)
    return "" if actual == expected else f"{actual!r}, expected {expected!r}"


def _first(wrong: torch.Tensor, actual: torch.Tensor, expected: torch.Tensor) -> str:
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{actual[at].item()} instead of {expected[at].item()} at {list(at)}"


def _draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers: attention, dropout and recurrent layers do not without dropout or
    training.
    """
    if not isinstance(node.target, OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    values = arguments_of(node)
    return not any(values.get(name) == 0 for name in ("p", "dropout", "dropout_p", "train", "training"))


def is_random(program: ExportedProgram) -> bool:
    """Whether an operator of the program draws random numbers."""
    return any(
        _draws(node)
        for body in program.graph_module.modules()
        if isinstance(body, fx.GraphModule)
        for node in body.graph.nodes
    )


def is_undefined(program: ExportedProgram, index: int) -> bool:
    """Whether user output ``index`` shows memory that nobody wrote."""
    names = program.graph_signature.user_outputs
    nodes = {node.name: node for node in program.graph.nodes}
    node = nodes.get(names[index]) if index < len(names) else None
    while isinstance(node, fx.Node) and isinstance(node.target, OpOverload):
        if node.target._schema.name.removeprefix("aten::").rstrip("_") in _UNDEFINED:
            return True
        node = node.all_input_nodes[0] if len(node.all_input_nodes) == 1 else None
    return False


def distribution_difference(
    ours: Callable[[], list[Any]], eager: Callable[[], list[Any]], first: list[Any], expected: list[Any]
) -> str:
    """Why two random functions do not draw from one distribution; "" when they seem to."""
    for index, (mine, theirs) in enumerate(zip(first, expected, strict=True)):
        if wrong := _kind_difference(mine, theirs):
            return f"output {index}: {wrong}"
    sizes = [t.numel() for t in expected if isinstance(t, torch.Tensor) and t.numel()]
    if not sizes:
        return ""
    runs = min(_MOST_RUNS, -(-_DRAWS // min(sizes)))
    drawn = [first, *(ours() for _ in range(runs - 1))]
    reference = [expected, *(eager() for _ in range(runs - 1))]
    for index, theirs in enumerate(expected):
        if not isinstance(theirs, torch.Tensor) or not theirs.numel():
            continue
        if wrong := _far_apart(_pooled(drawn, index), _pooled(reference, index)):
            return f"output {index}: {wrong}"
    return ""


def _pooled(runs: list[list[Any]], index: int) -> torch.Tensor:
    values = torch.cat([run[index].reshape(-1).double() for run in runs])
    return values[: 20 * _DRAWS].nan_to_num(nan=3e38).sort().values


def _far_apart(ours: torch.Tensor, eager: torch.Tensor) -> str:
    """The test of Kolmogorov and Smirnov: the largest distance of two empirical distribution functions.

    Values may differ by rounding, which matters where one value has much of the weight: only what is further apart
    counts.
    """
    at = torch.cat([ours, eager])
    finite = at[at.abs() < 1e38]
    rounding = 1e-5 * (finite.abs().max().item() if finite.numel() else 1.0)

    def below(values: torch.Tensor, shift: float) -> torch.Tensor:
        return torch.searchsorted(values, at + shift, right=True).double() / values.numel()

    distance = max(
        (below(first, -rounding) - below(second, rounding)).max().item()
        for first, second in ((ours, eager), (eager, ours))
    )
    # Elements of one draw may depend on each other (a dropped channel), hence the generous factor.
    limit = 3.0 * ((ours.numel() + eager.numel()) / (ours.numel() * eager.numel())) ** 0.5 + 0.01
    return "" if distance <= limit else f"another distribution: distance {distance:.3f}, at most {limit:.3f}"
