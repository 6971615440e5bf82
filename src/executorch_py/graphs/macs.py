"""Multiply-accumulates of a graph, operator by operator, and in which numbers they are done.

>>> count = et.count_macs(converted, example_inputs)  # doctest: +SKIP
>>> count.share("integer")  # doctest: +SKIP
0.93
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx import Interpreter
from torch.utils import _pytree

from executorch_py._shown import Told
from executorch_py.errors import InvalidTypeError
from executorch_py.text_table import aligned

from .modules import module_of
from .nodes import REARRANGING, constant_nodes, is_value_preserving, kind_of, named_arguments, op_name
from .sources import source_of
from .state import state_kept

__all__ = ["LayerMacs", "MacCount", "count_macs", "macs_of"]


@dataclass(frozen=True)
class LayerMacs:
    """One operator.

    Attributes:
        name: Name of the fx node; behind that of the body, in a loop: "scan_combine_graph_0.linear".
        op: "conv2d".
        source: "model.py:12".
        module_path: Path of its module.
        macs: Multiply-accumulates of one call.
        numbers: ``integer`` (both factors are), ``weight-only`` (one is, and it is constant) or ``float``.
    """

    name: str
    op: str
    source: str
    module_path: str
    macs: int
    numbers: str


@dataclass(frozen=True, repr=False)
class MacCount(Told):
    """What :func:`count_macs` found; ``print`` it."""

    layers: tuple[LayerMacs, ...]

    @property
    def total(self) -> int:
        """Of all layers."""
        return sum(row.macs for row in self.layers)

    def share(self, numbers: str = "integer") -> float:
        """Share of the multiply-accumulates that are done in ``numbers``; 0 for a graph without any."""
        return sum(row.macs for row in self.layers if row.numbers == numbers) / self.total if self.total else 0.0

    def __str__(self) -> str:
        head = ("layer", "operator", "source", "module", "MACs", "share", "numbers")
        rows = [
            (
                row.name,
                row.op,
                row.source,
                row.module_path,
                f"{row.macs:,}",
                f"{row.macs / self.total:.1%}",
                row.numbers,
            )
            for row in self.layers
        ]
        first = f"{self.total:,} MACs, {self.share():.1%} of them between integers"
        return "\n".join([first, *aligned(head, rows, right=(4, 5))])


def count_macs(model: Any, example_inputs: Sequence[Any], example_kwargs: dict[str, Any] | None = None) -> MacCount:
    """Counts the multiply-accumulates of convolutions, products, attention and recurrent layers for inputs of these
    sizes.

    Args:
        model: An ExportedProgram or GraphModule, float or quantized.
        example_inputs: Positional arguments of one call; the graph is run once on them.
        example_kwargs: Keyword arguments.
    """
    if isinstance(model, ExportedProgram):
        model = module_of(model)
    if not isinstance(model, fx.GraphModule):
        raise InvalidTypeError(f"model is an ExportedProgram or a GraphModule, not {type(model).__name__}")
    counter = _Counter(model)
    leaves = _pytree.tree_leaves((tuple(example_inputs), dict(example_kwargs or {})))
    leaves = [
        leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]  # the model may write to them
    with torch.no_grad(), state_kept(model):
        counter.run(*leaves, enable_io_processing=False)
    return MacCount(tuple(counter.rows))


def macs_of(node: fx.Node) -> int:
    """Multiply-accumulates of one call of a node, from the shapes of the example; 0 for operators without any."""
    rule = _RULES.get(op_name(node)) if node.op == "call_function" else None
    if rule is None:
        return 0
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta.get("val"))
    macs = rule(args, kwargs, node.meta.get("val"))
    return macs if isinstance(macs, int) else int(macs.node.hint or 0)


class _Counter(Interpreter):
    def __init__(
        self, module: fx.GraphModule, constants: Collection[fx.Node] = (), turns: int = 1, prefix: str = ""
    ) -> None:
        super().__init__(module)
        self._prefix = prefix
        self.rows: list[LayerMacs] = []
        self._constants = {*constant_nodes(module), *constants}
        self._turns = turns
        for node in module.graph.nodes if constants else ():
            if node.op == "call_function" and node.all_input_nodes and self._constants.issuperset(node.all_input_nodes):
                self._constants.add(node)

    def _run_loop(self, n: fx.Node) -> Any:
        """Counts the body of a scan once, for all turns."""
        body, initial, scanned, captured = self.fetch_args_kwargs_from_env(n)[0]
        turns = scanned[0].shape[0]
        if turns > 0:
            inputs = [node for node in body.graph.nodes if node.op == "placeholder"][len(initial) + len(scanned) :]
            sources: Any = n.args[3]
            known = [one for one, source in zip(inputs, sources, strict=True) if source in self._constants]
            reference: Any = n.args[0]
            inner = _Counter(body, known, self._turns * turns, f"{self._prefix}{reference.target}.")
            inner.run(*initial, *(one[0] for one in scanned), *captured)
            self.rows += inner.rows
        return super().run_node(n)

    def run_node(self, n: fx.Node) -> Any:
        if n.target is torch.ops.higher_order.scan:
            return self._run_loop(n)
        rule = _RULES.get(op_name(n)) if n.op == "call_function" else None
        if rule is None:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        result = super().run_node(n)
        macs = rule(args, kwargs, result) * self._turns
        source = source_of(n)
        where = f"{source.file}:{source.line}" if source.file else ""
        name = self._prefix + n.name
        self.rows.append(LayerMacs(name, op_name(n), where, source.module_path, macs, self._numbers(n)))
        return result

    def _numbers(self, node: fx.Node) -> str:
        """Of the two factors: an ``addmm`` or ``baddbmm`` has its bias in front of them."""
        name = op_name(node)
        if _RULES[name] is _recurrent:
            factors = [node.args[0], node.args[2]] if isinstance(node.args[2], (list, tuple)) else [node.args[0]]
        elif name in _BIAS_FIRST:
            factors = list(node.args[1:3])
        else:
            factors = list(node.args[:2])
        integer = [self._is_integer(factor) for factor in factors]
        if all(integer):
            return "integer"
        constant = [isinstance(factor, fx.Node) and factor in self._constants for factor in factors]
        return "weight-only" if any(a and b for a, b in zip(integer, constant, strict=True)) else "float"

    def _is_integer(self, value: Any) -> bool:
        """Whether the values come from integers, through nothing but rearrangements."""
        if isinstance(value, (list, tuple)):
            return bool(value) and any(self._is_integer(item) for item in value)
        while isinstance(value, fx.Node):
            if kind_of(value) == "dequantize":
                return True
            if not (is_value_preserving(value) or op_name(value) in REARRANGING) or not value.all_input_nodes:
                return False
            value = value.all_input_nodes[0]
        return False


_BIAS_FIRST = frozenset(("addmm", "baddbmm"))

_Rule = Callable[[Any, Any, Any], int]


def _convolution(args: Any, kwargs: Any, result: torch.Tensor) -> int:
    transposed = named_arguments(torch.ops.aten.convolution.default, args, kwargs)["transposed"]
    return _transposed(args, kwargs, result) if transposed else _direct(args, kwargs, result)


def _direct(args: Any, kwargs: Any, result: torch.Tensor) -> int:
    return result.numel() * math.prod(args[1].shape[1:])  # weight [out, in / groups, ...kernel]


def _transposed(args: Any, kwargs: Any, result: torch.Tensor) -> int:
    return args[0].numel() * math.prod(args[1].shape[1:])  # weight [in, out / groups, ...kernel]


def _linear(args: Any, kwargs: Any, result: torch.Tensor) -> int:
    return result.numel() * args[1].shape[-1]


def _matmul(args: Any, kwargs: Any, result: torch.Tensor) -> int:
    return result.numel() * args[0].shape[-1]


def _biased(args: Any, kwargs: Any, result: torch.Tensor) -> int:
    return result.numel() * args[1].shape[-1]


def _attention(args: Any, kwargs: Any, result: Any) -> int:
    query, key, value = args[:3]  # [..., tokens, width]
    rows = query.numel() // query.shape[-1]
    return rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _recurrent(args: Any, kwargs: Any, result: Any) -> int:
    x, _, weights = args[:3]
    if not isinstance(weights, (list, tuple)):
        return 0
    steps = x.numel() // x.shape[-1]
    return steps * sum(weight.numel() for weight in weights if weight.dim() == 2)


def _cell(args: Any, kwargs: Any, result: Any) -> int:
    x, _, *weights = args[:4]
    return (x.numel() // x.shape[-1]) * sum(weight.numel() for weight in weights)


_RULES: dict[str, _Rule] = {
    "conv1d": _direct,
    "conv2d": _direct,
    "conv3d": _direct,
    "convolution": _convolution,
    "conv_transpose1d": _transposed,
    "conv_transpose2d": _transposed,
    "conv_transpose3d": _transposed,
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "mv": _matmul,
    "dot": _matmul,
    "addmm": _biased,
    "baddbmm": _biased,
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), _cell),
}
