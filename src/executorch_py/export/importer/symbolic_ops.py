"""Arithmetic on symbolic numbers: Python's and torch's functions as the primitive operators that a runtime supplies."""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from .builder import Builder
from .numbers import FLOAT_FUNCTIONS, NumberWriter

_PRIM = "executorch_prim::"

#: Function -> primitive operator with the same arguments.
_DIRECT: dict[Any, str] = {
    operator.add: "add.Scalar",
    operator.sub: "sub.Scalar",
    operator.mul: "mul.Scalar",
    operator.floordiv: "floordiv.Scalar",
    operator.truediv: "truediv.Scalar",
    operator.mod: "mod.Scalar",
    operator.neg: "neg.Scalar",
    operator.eq: "eq.Scalar",
    operator.lt: "lt.Scalar",
    operator.le: "le.Scalar",
    operator.gt: "gt.Scalar",
    operator.ge: "ge.Scalar",
    torch.sym_max: "sym_max.Scalar",
    torch.sym_min: "sym_min.Scalar",
    torch.sym_not: "sym_not.Scalar",
    torch.sym_ite: "sym_ite.Scalar",
    torch.sym_float: "sym_float.Scalar",
    torch.sym_int: "sym_int.Scalar",
    operator.not_: "sym_not.Scalar",
    math.ceil: "ceil.Scalar",
    math.trunc: "trunc.Scalar",
}


def is_symbolic(target: Any) -> bool:
    """Whether a node's target computes numbers, not tensors."""
    return target in _DIRECT or target in _COMPOSED if _is_hashable(target) else False


def emit_symbolic(importer: Builder, node: fx.Node) -> Any:
    """Writes the primitive operators for ``node``; returns the IR value of its result."""
    arguments = [_argument(importer, argument) for argument in node.args]
    composed = _COMPOSED.get(node.target)
    if composed is not None:
        return composed(importer, node, arguments)
    return _emit(importer, node, _DIRECT[node.target], arguments)


def emit_check(importer: Builder, node: fx.Node) -> None:
    """Writes the check that ``torch._check`` and its kin left, unless the bounds of the inputs answer it already.

    A failed one ends the call with its message. torch's own text names a node of its graph; here it is the condition.
    """
    given, message = (*node.args, "an assertion failed")[:2]
    value = given.meta.get("val") if isinstance(given, fx.Node) else given
    if value is True:
        return
    if isinstance(value, torch.SymBool):
        if importer.symbols.is_proven(value.node.expr):
            return
        if isinstance(message, str) and message.startswith("Runtime assertion failed for expression"):
            message = importer.symbols.text(value.node.expr)
    condition = _argument(importer, given)
    if isinstance(value, torch.Tensor):
        condition = importer.emit(node, "aten::_local_scalar_dense", [condition], ["bool"])[0]
    importer.emit(node, f"{_PRIM}assert.Scalar", [condition, message], [])


def _is_hashable(target: Any) -> bool:
    return getattr(target, "__hash__", None) is not None


def _argument(importer: Builder, argument: Any) -> Any:
    if isinstance(argument, fx.Node):
        return importer.value(argument)
    if isinstance(argument, (list, tuple)):
        return [_argument(importer, item) for item in argument]
    return argument


def _emit(importer: Builder, node: fx.Node, op: str, arguments: list[Any], kind: Any = None) -> Any:
    kind = kind if kind is not None else importer.type_of(node, node.meta["val"])
    return importer.emit(node, _PRIM + op, arguments, [kind])[0]


def _not_equal(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    return _emit(importer, node, "sym_not.Scalar", [_emit(importer, node, "eq.Scalar", arguments, "bool")])


def _and(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    return _emit(importer, node, "sym_ite.Scalar", [arguments[0], arguments[1], False])


def _or(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    return _emit(importer, node, "sym_ite.Scalar", [arguments[0], True, arguments[1]])


def _sum(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    items = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
    total = items[0]
    for item in items[1:]:
        total = _emit(importer, node, "add.Scalar", [total, item])
    return total


def _power(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    kind = importer.type_of(node, node.meta["val"])
    writer = NumberWriter(importer, node)
    return writer.float_power(*arguments) if kind == "double" else writer.int_power(kind, *arguments)


def _round(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    value, decimals = (*arguments, None)[:2]
    kind = importer.type_of(node, node.meta["val"])
    writer = NumberWriter(importer, node)
    if decimals is None:
        return writer.primitive("round", kind, value)
    if kind != "double" or not writer.can_round_to(decimals):
        return importer.refuse(
            node, "a number that only the run knows is rounded to none or 0 to 15 decimals, as a float"
        )
    return writer.round_decimals(value, decimals)


def _floor(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    return NumberWriter(importer, node).floor(importer.type_of(node, node.meta["val"]), *arguments)


def _absolute(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
    return NumberWriter(importer, node).absolute(importer.type_of(node, node.meta["val"]), *arguments)


def _float_function(name: str) -> Callable[[Builder, fx.Node, list[Any]], Any]:
    return lambda importer, node, arguments: NumberWriter(importer, node).float_function(name, *arguments)


def _bit_function(name: str) -> Callable[[Builder, fx.Node, list[Any]], Any]:
    """Of ints; of bools where these have another form."""
    of_bools = {"bitwise_and": _and, "bitwise_or": _or, "bitwise_xor": _not_equal}.get(name)

    def write(importer: Builder, node: fx.Node, arguments: list[Any]) -> Any:
        kind = importer.type_of(node, node.meta["val"])
        if kind == "bool" and of_bools is not None:
            return of_bools(importer, node, arguments)
        return NumberWriter(importer, node).bit_function(name, kind, *arguments)

    return write


_COMPOSED: dict[Any, Callable[[Builder, fx.Node, list[Any]], Any]] = {
    operator.ne: _not_equal,
    operator.and_: _bit_function("bitwise_and"),
    operator.or_: _bit_function("bitwise_or"),
    operator.xor: _bit_function("bitwise_xor"),
    operator.lshift: _bit_function("bitwise_left_shift"),
    operator.rshift: _bit_function("bitwise_right_shift"),
    torch.sym_sum: _sum,
    operator.pow: _power,
    math.floor: _floor,
    operator.abs: _absolute,
    round: _round,
    **{
        getattr(torch, f"_sym_{name}"): _float_function(name)
        for name in FLOAT_FUNCTIONS
        if hasattr(torch, f"_sym_{name}")  # not each, in each version of torch
    },
}
