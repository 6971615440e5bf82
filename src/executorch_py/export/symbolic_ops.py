"""Arithmetic on symbolic numbers: Python's and torch's functions as the primitive operators that a runtime supplies."""

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

if TYPE_CHECKING:
    from .importer import MethodImporter

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
    round: "round.Scalar",
}


def is_symbolic(target: Any) -> bool:
    """Whether a node's target computes numbers, not tensors."""
    return target in _DIRECT or target in _COMPOSED if _is_hashable(target) else False


def emit_symbolic(importer: "MethodImporter", node: fx.Node) -> Any:
    """Writes the primitive operators for ``node``; returns the IR value of its result."""
    arguments = [_argument(importer, argument) for argument in node.args]
    composed = _COMPOSED.get(node.target)
    if composed is not None:
        return composed(importer, node, arguments)
    return _emit(importer, node, _DIRECT[node.target], arguments)


def emit_check(importer: "MethodImporter", node: fx.Node) -> None:
    """Writes the check that ``torch._check`` and its kin left, unless the bounds of the inputs answer it already.

    A failed one ends the call with its message. torch's own text names a node of its graph; here it is the condition.
    """
    given = node.args[0]
    message = node.args[1] if len(node.args) > 1 else "an assertion failed"
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


def _argument(importer: "MethodImporter", argument: Any) -> Any:
    if isinstance(argument, fx.Node):
        return importer.value(argument)
    if isinstance(argument, (list, tuple)):
        return [_argument(importer, item) for item in argument]
    return argument


def _emit(importer: "MethodImporter", node: fx.Node, op: str, arguments: list[Any], kind: Any = None) -> Any:
    kind = kind if kind is not None else importer.type_of(node, node.meta["val"])
    return importer.emit(node, _PRIM + op, arguments, [kind])[0]


def _not_equal(importer: "MethodImporter", node: fx.Node, arguments: list[Any]) -> Any:
    return _emit(importer, node, "sym_not.Scalar", [_emit(importer, node, "eq.Scalar", arguments, "bool")])


def _and(importer: "MethodImporter", node: fx.Node, arguments: list[Any]) -> Any:
    return _emit(importer, node, "sym_ite.Scalar", [arguments[0], arguments[1], False])


def _or(importer: "MethodImporter", node: fx.Node, arguments: list[Any]) -> Any:
    return _emit(importer, node, "sym_ite.Scalar", [arguments[0], True, arguments[1]])


def _sum(importer: "MethodImporter", node: fx.Node, arguments: list[Any]) -> Any:
    items = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
    total = items[0]
    for item in items[1:]:
        total = _emit(importer, node, "add.Scalar", [total, item])
    return total


def _power(importer: "MethodImporter", node: fx.Node, arguments: list[Any]) -> Any:
    base, exponent = arguments
    if not isinstance(exponent, int) or not 1 <= exponent <= 16:
        return importer.refuse(node, "a power of a symbolic size with an exponent that is no constant from 1 to 16")
    product = base
    for _ in range(exponent - 1):
        product = _emit(importer, node, "mul.Scalar", [product, base])
    return product


def _floor(importer: "MethodImporter", node: fx.Node, arguments: list[Any]) -> Any:
    """-ceil(-x): floordiv(x, 1) of a float would be a float."""
    negated = _emit(importer, node, "neg.Scalar", arguments, "double")
    kind = importer.type_of(node, node.meta["val"])
    return _emit(importer, node, "neg.Scalar", [_emit(importer, node, "ceil.Scalar", [negated], kind)], kind)


def _absolute(importer: "MethodImporter", node: fx.Node, arguments: list[Any]) -> Any:
    kind = importer.type_of(node, node.meta["val"])
    negated = _emit(importer, node, "neg.Scalar", arguments, kind)
    return _emit(importer, node, "sym_max.Scalar", [arguments[0], negated], kind)


_COMPOSED: dict[Any, Callable[["MethodImporter", fx.Node, list[Any]], Any]] = {
    operator.ne: _not_equal,
    operator.and_: _and,
    operator.or_: _or,
    torch.sym_sum: _sum,
    operator.pow: _power,
    math.floor: _floor,
    operator.abs: _absolute,
}
