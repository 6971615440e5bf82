"""One scale for the model's own input and its parts, so that the input itself may be integers.

A part of an input (a slice, a chunk, its positive values) is measured by the layer that takes it, and stands in floats
before:

    x ─▶ quantize(W)                          x ─▶ quantize(W) ─▶ dequantize(W)
    x ─▶ slice ─▶ quantize(A)        =>       … ─▶ slice ─▶ quantize(W)

W is how a layer takes the whole input, or what covers all parts where none does. A part that would lose more than one
of its bits keeps its floats, and the input with it: with the scale of values a thousand times larger, nothing would be
left of it.

Run on converted graphs, in which all ranges are known. Those of training are left: what a network was trained with
stays.
"""

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from executorch_py.graphs.nodes import arguments_of

from .matching import JOIN, MAX_POOL, MOVEMENT, PAD, SPLIT, elements_of, is_float32

#: How many times the step of a part the common step may be: a bit, and what ends of ranges differ by.
_COARSEST = 2.25

_decomposed = torch.ops.quantized_decomposed
_QUANTIZE = _decomposed.quantize_per_tensor.default
_DEQUANTIZE = _decomposed.dequantize_per_tensor.default
_MOVES = JOIN | MAX_POOL | MOVEMENT | PAD | SPLIT | {operator.getitem}


@dataclass(frozen=True)
class _Integers:
    """Affine parameters, in the order of the operators' arguments."""

    scale: float
    zero_point: int
    quant_min: int
    quant_max: int
    dtype: torch.dtype

    @classmethod
    def of(cls, quantize: fx.Node) -> "_Integers":
        given = arguments_of(quantize)
        return cls(**{name: given[name] for name in cls.__dataclass_fields__})

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.scale, self.zero_point, self.quant_min, self.quant_max, self.dtype

    @property
    def low(self) -> float:
        return (self.quant_min - self.zero_point) * self.scale

    @property
    def high(self) -> float:
        return (self.quant_max - self.zero_point) * self.scale

    def holds(self, other: "_Integers") -> bool:
        """Whether the other's range lies within this one, up to half a step."""
        return other.low >= self.low - self.scale / 2 and other.high <= self.high + self.scale / 2


def share_input_scales(converted: fx.GraphModule) -> None:
    """See the head of this file; in place."""
    changed = False
    for x in [node for node in converted.graph.nodes if node.op == "placeholder" and is_float32(node)]:
        found = _taken_as_integers(x)
        if found is None:
            continue
        moves, ends = found
        whole = _common([_Integers.of(end) for end in ends if end.args[0] is x], [_Integers.of(end) for end in ends])
        if whole is not None and all(whole.scale <= _COARSEST * _Integers.of(end).scale for end in ends):
            _share(x, moves, ends, whole)
            changed = True
    if changed:
        converted.recompile()


def _taken_as_integers(x: fx.Node) -> tuple[list[fx.Node], list[fx.Node]] | None:
    """What moves elements of an input, and the quantize nodes behind; None where floats are read, or nothing moves."""
    moves: list[fx.Node] = []
    ends: list[fx.Node] = []
    elements = {x}
    for node in x.graph.nodes:
        if elements.isdisjoint(node.all_input_nodes):
            continue
        if node.target is _QUANTIZE:
            ends.append(node)
        elif node.target is operator.getitem and not is_float32(node):
            continue  # places of the largest
        elif node.target in _MOVES and all(one in elements for one in elements_of(node) if isinstance(one, fx.Node)):
            moves.append(node)
            elements.add(node)
        elif node.target is not torch.ops.aten.sym_size.int:
            return None
    return (moves, ends) if moves and ends else None


def _common(of_whole: list[_Integers], of_all: list[_Integers]) -> _Integers | None:
    """What the input gets: as its whole is taken, or the least range that holds all; None where they are of several
    kinds.
    """
    first = of_all[0]
    kinds = {(one.quant_min, one.quant_max, one.dtype) for one in of_all}
    if len(kinds) > 1 or len(set(of_whole)) > 1:
        return None
    if of_whole or len(set(of_all)) == 1:
        return (of_whole or of_all)[0]
    if all(one.zero_point == first.zero_point for one in of_all):
        return max(of_all, key=lambda one: one.scale)
    low, high = min(one.low for one in of_all), max(one.high for one in of_all)
    scale = (high - low) / (first.quant_max - first.quant_min)
    zero_point = first.quant_min - round(low / scale)
    return _Integers(scale, zero_point, first.quant_min, first.quant_max, first.dtype)


def _share(x: fx.Node, moves: list[fx.Node], ends: list[fx.Node], whole: _Integers) -> None:
    for end in ends:  # one whose range is wider was measured with something else, too
        if whole.holds(_Integers.of(end)) and all(user.target is _DEQUANTIZE for user in end.users):
            for node in (end, *end.users):
                node.args = (node.args[0], *whole.arguments, *node.args[6:])
    for value in (x, *moves):
        readers = [move for move in moves if value in elements_of(move)]
        if readers and is_float32(value):
            _through_integers(value, readers, whole)


def _through_integers(value: fx.Node, readers: list[fx.Node], whole: _Integers) -> None:
    """``readers`` get the value as integers give it back."""
    first = readers[0]
    with value.graph.inserting_before(first):
        integers = value.graph.call_function(_QUANTIZE, (value, *whole.arguments))
        floats = value.graph.call_function(_DEQUANTIZE, (integers, *whole.arguments))
    for new in (integers, floats):
        new.meta = {key: first.meta[key] for key in ("nn_module_stack", "stack_trace") if key in first.meta}
    for reader in readers:
        reader.replace_input_with(value, floats)
