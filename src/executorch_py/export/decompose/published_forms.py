"""Calls that eager takes and the official runtime's kernels do not, in a form that they take.

For: files of the official runtime (``ExecutorchBackendConfig(compatible=True)``), after delegation; nodes that a
backend takes are left out. Its kernels check more than eager does (a linear layer wants rows, ``where`` one element
type), some end the process when a result has no elements, and a few compute something else
(``tests/interop/test_strict_inputs.py``).

A rule is as in rewrites.py: it returns the new value, or None where the node may stay.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from .rule import Rule, Writer, bind

aten = torch.ops.aten

_RULES: dict[OpOverload, Rule] = {}


def rewrite(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The form of a call that the official runtime takes; None where that is the call itself."""
    if node.meta.get("delegation_tag") or not isinstance(node.target, OpOverload):
        return None
    if (nothing := _without_elements(self, node)) is not None:
        return nothing
    rule = _RULES.get(node.target)
    return None if rule is None else rule(self, node, args, kwargs)


def _rule(*ops: OpOverload) -> Any:
    def register(function: Rule) -> Rule:
        for op in ops:
            _RULES[op] = function
        return function

    return register


#: Of these a result without elements is no different from another.
_MAKES_ANYTHING = frozenset({aten.full.default, aten.view_copy.default, aten.empty.memory_format})


def _without_elements(self: Writer, node: fx.Node) -> Any:
    """A result that has no elements, whatever the inputs, needs no kernel that computes them."""
    value = node.meta.get("val")
    results = [value] if isinstance(value, torch.Tensor) else value
    if node.target in _MAKES_ANYTHING or not isinstance(results, (list, tuple)) or not results:
        return None
    if not all(isinstance(result, torch.Tensor) and _is_nothing(result) for result in results):
        return None
    made = [
        self.emit(node, aten.full.default, (list(result.shape), 0), result, {"dtype": result.dtype})
        for result in results
    ]
    return made[0] if isinstance(value, torch.Tensor) else made


def _is_nothing(result: torch.Tensor) -> bool:
    static = all(isinstance(size, int) for size in result.shape)
    return static and 0 in result.shape and not result.dtype.is_complex


def _view(self: Writer, node: fx.Node, source: fx.Node, sizes: list[Any]) -> fx.Node:
    return self.emit(node, aten.view_copy.default, (source, sizes), self.empty_like(source.meta["val"], sizes))


def _converted(self: Writer, node: fx.Node, source: fx.Node, dtype: torch.dtype) -> fx.Node:
    value = source.meta["val"]
    if value.dtype == dtype:
        return source
    return self.emit(
        node, aten._to_copy.default, (source,), self.empty_like(value, value.shape, dtype), {"dtype": dtype}
    )


@_rule(aten.linear.default)
def _linear(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """One vector is a row, as its input and as its weight."""
    x, weight, bias = bind(node.target, args, kwargs)
    value, columns, result = x.meta["val"], weight.meta["val"], node.meta["val"]
    if columns.dim() == 1 and bias is None:
        one = _view(self, node, weight, [1, columns.shape[0]])
        rows = x if value.dim() > 1 else _view(self, node, x, [1, value.shape[0]])
        sizes = [*rows.meta["val"].shape[:-1], 1]
        product = self.emit(node, node.target, (rows, one, None), self.empty_like(result, sizes))
        return _view(self, node, product, list(result.shape))
    if value.dim() != 1 or columns.dim() != 2:
        return None
    rows = _view(self, node, x, [1, value.shape[0]])
    product = self.emit(node, aten.linear.default, (rows, weight, bias), self.empty_like(result, (1, result.shape[0])))
    return _view(self, node, product, list(result.shape))


@_rule(aten.sum.dim_IntList, aten.cumsum.default)
def _along_no_dim(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Eager takes dim 0 of a number."""
    x, dims = bind(node.target, args, kwargs)[:2]
    value, result = x.meta["val"], node.meta["val"]
    if value.dim() != 0 or dims is None or dims == []:
        return None
    line = _view(self, node, x, [1])
    dtype = {"dtype": result.dtype}
    if node.target is aten.sum.dim_IntList:
        return self.emit(node, node.target, (line, [0], False), result, dtype)
    summed = self.emit(node, node.target, (line, 0), self.empty_like(result, (1,)), dtype)
    return _view(self, node, summed, [])


@_rule(aten.roll.default)
def _roll(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Without dims all elements are one line."""
    x, shifts, dims = bind(node.target, args, kwargs)
    value = x.meta["val"]
    if dims:
        return None
    count = value.numel()
    line = _view(self, node, x, [count])
    rolled = self.emit(node, aten.roll.default, (line, list(shifts), [0]), self.empty_like(value, (count,)))
    return _view(self, node, rolled, list(value.shape))


@_rule(aten.constant_pad_nd.default)
def _pad(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Less than no padding is a slice."""
    x, padding, number = bind(node.target, args, kwargs)
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    if not any(isinstance(p, int) and p < 0 for p in padding):
        return None
    for back, (low, high) in enumerate(pairs):
        value = x.meta["val"]
        dim = value.dim() - 1 - back
        size = value.shape[dim]
        if (low >= 0 and high >= 0) or not isinstance(size, int):
            continue
        start, end = max(-low, 0), size - max(-high, 0)
        sizes = [*value.shape[:dim], end - start, *value.shape[dim + 1 :]]
        x = self.emit(node, aten.slice_copy.Tensor, (x, dim, start, end), self.empty_like(value, sizes))
    rest = [max(p, 0) for p in padding]
    return self.emit(node, node.target, (x, rest, number), node.meta["val"]) if any(rest) else x


@_rule(aten.where.self)
def _where(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Both sides have the element type of the result."""
    condition, *sides = args
    result = node.meta["val"]
    if all(side.meta["val"].dtype == result.dtype for side in sides):
        return None
    converted = [_converted(self, node, side, result.dtype) for side in sides]
    return self.emit(node, node.target, (condition, *converted), result)


@_rule(aten._log_softmax.default)
def _log_softmax(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """float32 and float16 only: others by its definition."""
    x, dim, _ = bind(node.target, args, kwargs)
    value = node.meta["val"]
    if value.dtype != torch.float64 or value.dim() == 0:
        return None
    kept = self.empty_like(value, [1 if d == dim % value.dim() else size for d, size in enumerate(value.shape)])
    largest = self.emit(node, aten.amax.default, (x, [dim], True), kept)
    shifted = self.emit(node, aten.sub.Tensor, (x, largest), value)
    total = self.emit(
        node, aten.sum.dim_IntList, (self.emit(node, aten.exp.default, (shifted,), value), [dim], True), kept
    )
    return self.emit(node, aten.sub.Tensor, (shifted, self.emit(node, aten.log.default, (total,), kept)), value)


@_rule(aten.hardtanh.default)
def _hardtanh(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Of bytes a clamp, whose bounds are bytes."""
    x, low, high = bind(node.target, args, kwargs)
    value = node.meta["val"]
    if value.dtype != torch.uint8:
        return None
    return self.emit(node, aten.clamp.default, (x, int(low), int(high)), value)


@_rule(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar)
def _sums(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Bools are numbers before a number is added; alpha is multiplied in where the first operand broadcasts.

    There its kernels exchange the operands, and multiply the wrong one.
    """
    a, b, alpha = bind(node.target, args, kwargs)
    result = node.meta["val"]
    if not isinstance(b, fx.Node):
        if a.meta["val"].dtype != torch.bool:
            return None
        return self.emit(node, node.target, (_converted(self, node, a, result.dtype), b, alpha), result)
    if alpha == 1 or a.meta["val"].shape == result.shape:
        return None
    b = _converted(self, node, b, result.dtype)
    scaled = self.emit(node, aten.mul.Tensor, (b, alpha), b.meta["val"])
    return self.emit(node, node.target, (a, scaled), result)


@_rule(aten.cat.default)
def _cat(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Its kernel copies bytes: all parts have the element type of the result."""
    parts, dim = bind(node.target, args, kwargs)
    result = node.meta["val"]
    if all(part.meta["val"].dtype == result.dtype for part in parts):
        return None
    return self.emit(node, node.target, ([_converted(self, node, part, result.dtype) for part in parts], dim), result)


@_rule(aten.logit.default)
def _logit(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """float32 and float64 only."""
    x, eps = bind(node.target, args, kwargs)
    value = node.meta["val"]
    if value.dtype not in (torch.float16, torch.bfloat16):
        return None
    wide = _converted(self, node, x, torch.float32)
    return _converted(
        self,
        node,
        self.emit(node, node.target, (wide, eps), self.empty_like(value, value.shape, torch.float32)),
        value.dtype,
    )


@_rule(aten.remainder.Tensor, aten.remainder.Scalar)
def _remainder(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Of integers its kernel gives the sign of the dividend: what a division that rounds down leaves has the
    divisor's.
    """
    a, b = args
    result = node.meta["val"]
    if result.dtype.is_floating_point:
        return None
    if not isinstance(b, fx.Node):
        b = self.emit(
            node, aten.full.default, ([], b), self.empty_like(result, (), result.dtype), {"dtype": result.dtype}
        )
    a, b = (_converted(self, node, operand, result.dtype) for operand in (a, b))
    floor = self.emit(node, aten.div.Tensor_mode, (a, b), result, {"rounding_mode": "floor"})
    product = self.emit(node, aten.mul.Tensor, (floor, b), result)
    return self.emit(node, aten.sub.Tensor, (a, product), result)


@_rule(aten.masked_select.default)
def _masked_select(self: Writer, node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Tensor and mask have equal sizes."""
    shapes = [operand.meta["val"].shape for operand in args]
    if shapes[0] == shapes[1]:
        return None
    sizes = list(torch.broadcast_shapes(*shapes))
    operands = [
        operand
        if list(shape) == sizes
        else self.emit(node, aten.expand_copy.default, (operand, sizes), self.empty_like(operand.meta["val"], sizes))
        for operand, shape in zip(args, shapes, strict=True)
    ]
    return self.emit(node, node.target, tuple(operands), node.meta["val"])


#: Operators with a rule, for tests.
OPERATORS: Mapping[OpOverload, Rule] = _RULES
