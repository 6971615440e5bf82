"""Complex numbers among the arguments of operators (``x * 1j``): a program has tensors of them, but no such numbers.

Each becomes a tensor without dimensions, made from its two parts, and the operator the overload that takes a tensor
there.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from executorch_py.graphs.nodes import named_arguments
from executorch_py.graphs.rewriting import inherited_meta

aten = torch.ops.aten

#: Overload with a number -> the one with a tensor at the same place.
_WITH_TENSOR: dict[Any, Any] = {
    aten.eq.Scalar: aten.eq.Tensor,
    aten.ne.Scalar: aten.ne.Tensor,
    aten.add.Scalar: aten.add.Tensor,
    aten.sub.Scalar: aten.sub.Tensor,
    aten.mul.Scalar: aten.mul.Tensor,
    aten.div.Scalar: aten.div.Tensor,
}

#: Operators that fill a tensor -> the place of the number.
_FILL = {aten.full.default: 1, aten.full_like.default: 1, aten.new_full.default: 2, aten.fill.Scalar: 1}


def write_complex_numbers(graph: fx.Graph, fake_mode: Any) -> None:
    """Replaces the complex numbers of a graph; where no overload takes a tensor they stay, and the importer refuses
    them.

    Args:
        graph: In Edge.
        fake_mode: Of its values.
    """
    for node in list(graph.nodes):
        if node.op != "call_function" or not any(
            isinstance(argument, complex) for argument in (*node.args, *node.kwargs.values())
        ):
            continue
        with graph.inserting_before(node):
            _write(node, _Calls(graph, node, fake_mode))


class _Calls:
    """New calls before ``node``, with the values that they have."""

    def __init__(self, graph: fx.Graph, node: fx.Node, fake_mode: Any) -> None:
        self._graph, self._node, self._fake_mode = graph, node, fake_mode

    def __call__(self, target: Callable, *args: Any, **kwargs: Any) -> fx.Node:
        values = fx.map_arg((args, kwargs), lambda node: node.meta["val"])
        with self._fake_mode:
            value = target(*values[0], **values[1])
        new = self._graph.call_function(target, args, kwargs)
        new.meta = inherited_meta(self._node, value)
        return new

    def number(self, value: complex, dtype: torch.dtype) -> fx.Node:
        """A complex tensor without dimensions."""
        real = torch.float64 if dtype == torch.complex128 else torch.float32
        parts = [self(aten.full.default, [1], part, dtype=real) for part in (value.real, value.imag)]
        return self(aten.view_as_complex_copy.default, self(aten.cat.default, parts))


def _write(node: fx.Node, call: _Calls) -> None:
    value, target = node.meta["val"], node.target
    args, kwargs = list(node.args), dict(node.kwargs)
    if isinstance(alpha := kwargs.get("alpha"), complex):
        del kwargs["alpha"]
        args[1] = call(aten.mul.Tensor, args[1], call.number(alpha, value.dtype))
    if target in _FILL and isinstance(number := args[_FILL[target]], complex):
        args[_FILL[target]] = 0.0
        if target is not aten.fill.Scalar:
            kwargs["dtype"] = value.dtype
        filled = call(target, *args, **kwargs)
        target, args, kwargs = aten.add.Tensor, [filled, call.number(number, value.dtype)], {}
    elif target is aten.scalar_tensor.default:
        node.replace_all_uses_with(call.number(args[0], value.dtype))
        return
    elif target is aten.rsub.Scalar and isinstance(args[1], complex):
        factor = named_arguments(target, args, kwargs)["alpha"]
        taken = args[0] if factor == 1 else call(aten.mul.Tensor, args[0], factor)
        target, args, kwargs = aten.sub.Tensor, [call.number(args[1], value.dtype), taken], {}
    else:
        target = _WITH_TENSOR.get(target, target)
        for place, number in enumerate(args):
            if isinstance(number, complex) and target in _WITH_TENSOR.values():
                other = next(a.meta["val"] for a in args if isinstance(a, fx.Node))
                args[place] = call.number(number, torch.result_type(other, number))
    node.target, node.args, node.kwargs = target, tuple(args), kwargs
