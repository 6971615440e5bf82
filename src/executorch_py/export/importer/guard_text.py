"""Guards that a program carries as text: a program that was saved and loaded has them in no other form.

torch writes ``(3*L['x'].size()[0]) % 4 == 0``: Python over the sizes of the inputs. Here that is read, not run.
"""

import ast
import operator
import re
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions

from .numbers import FLOAT_FUNCTIONS


def _quotient(a: Any, b: Any) -> Any:
    return functions.IntTrueDiv(a, b) if a.is_integer and b.is_integer else functions.FloatTrueDiv(a, b)


def _power(a: Any, b: Any) -> Any:
    return functions.PowByNatural(a, b) if a.is_integer and b.is_integer else functions.FloatPow(a, b)


def _rounded(a: Any, decimals: Any = None) -> Any:
    return functions.RoundToInt(a) if decimals is None else functions.RoundDecimal(a, decimals)


_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.FloorDiv: functions.FloorDiv,
    ast.Mod: functions.Mod,
    ast.Pow: _power,
    ast.BitAnd: functions.BitwiseFn_bitwise_and,
    ast.BitOr: functions.BitwiseFn_bitwise_or,
    ast.BitXor: functions.BitwiseFn_bitwise_xor,
}
_COMPARISONS = {
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}
_CALLS = {
    "abs": sympy.Abs,
    "max": functions.Max,
    "min": functions.Min,
    "round": _rounded,
    "math.ceil": functions.CeilToInt,
    "math.floor": functions.FloorToInt,
    "math.trunc": functions.TruncToInt,
    "torch.sym_float": functions.ToFloat,
    **{f"torch._sym_{name}": getattr(functions, f"OpaqueUnaryFn_{name}") for name in FLOAT_FUNCTIONS},
}


def written_guards(program: ExportedProgram, values: list[Any]) -> tuple[list[sympy.Basic], list[str]]:
    """The guards of a program as conditions on its symbols, and the texts that could not be read.

    Args:
        program: Whose guards are wanted.
        values: The fake values of its user inputs, in order.
    """
    texts = list(getattr(program, "_guards_code", ()))
    if not texts:
        return [], []
    inputs = _inputs_by_path(program, values)
    conditions: list[sympy.Basic] = []
    unread: list[str] = []
    for text in texts:
        try:
            conditions.append(_condition(ast.parse(text, mode="eval").body, inputs))
        except (KeyError, IndexError, TypeError, ValueError, SyntaxError, AttributeError):
            unread.append(text)
    return conditions, unread


def _inputs_by_path(program: ExportedProgram, values: list[Any]) -> dict[tuple[Any, ...], Any]:
    """The inputs by what the texts call them: ``L['x'][1].keys`` is ("x", 1, "keys").

    Steps are those that pytree tells of a container, since a user's own one may have others than its attributes.
    """
    spec = program.call_spec.in_spec
    if spec is None or spec.num_leaves != len(values):
        return {}
    args, kwargs = pytree.tree_unflatten(values, spec)
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    names = list(getattr(signature, "forward_arg_names", None) or ())
    named: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
    for name in names:  # forward(*rest), whose arguments are rest_0, rest_1, …
        if (numbered := re.fullmatch(r"(.+)_0", name)) is not None:
            rest = [n for n in names if re.fullmatch(re.escape(numbered[1]) + r"_\d+", n)]
            named.setdefault(numbered[1], [named.get(n) for n in rest])
    named.setdefault("args", args)  # forward(*args)
    named.setdefault("flat_args", values)
    return {tuple(map(_step, path)): value for path, value in pytree.tree_flatten_with_path(named)[0]}


def _step(key: Any) -> Any:
    """One key of a path: an index, a key of a dict or the name of an attribute."""
    if isinstance(key, pytree.SequenceKey):
        return key.idx
    return key.key if isinstance(key, pytree.MappingKey) else getattr(key, "name", key)


def _condition(node: ast.expr, inputs: dict[tuple[Any, ...], Any]) -> Any:
    """One node of the text as sympy. KeyError and its kin: not of this small language."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, bool)):
        return sympy.sympify(node.value)
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_condition(node.left, inputs), _condition(node.right, inputs))
    if isinstance(node, ast.BoolOp):
        join = sympy.And if isinstance(node.op, ast.And) else sympy.Or
        return join(*(_condition(value, inputs) for value in node.values))
    if isinstance(node, ast.UnaryOp):
        inner = _condition(node.operand, inputs)
        return sympy.Not(inner) if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.Compare):
        operands = [_condition(item, inputs) for item in (node.left, *node.comparators)]
        parts = [_COMPARISONS[type(op)](a, b) for op, a, b in zip(node.ops, operands, operands[1:], strict=False)]
        return sympy.And(*parts) if len(parts) > 1 else parts[0]
    if isinstance(node, ast.Call) and (called := ast.unparse(node.func)) in _CALLS:
        return _CALLS[called](*(_condition(item, inputs) for item in node.args))
    found = _input(node, inputs)
    return found.node.expr if isinstance(found, torch.SymInt) else sympy.sympify(int(found))


def _input(node: ast.expr, inputs: dict[tuple[Any, ...], Any]) -> Any:
    """``L['x'].size()[0]``, ``L['x'][1]['key'].stride()[0]``, ``L['n']``: what such a text leads to."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and isinstance(node.slice, ast.Constant):
        call = node.value
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("size", "stride"):
            tensor = inputs[_path(call.func.value)]
            return (tensor.size() if call.func.attr == "size" else tensor.stride())[node.slice.value]
    return inputs[_path(node)]


def _path(node: ast.expr) -> tuple[Any, ...]:
    if isinstance(node, ast.Name) and node.id == "L":
        return ()
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return (*_path(node.value), node.slice.value)
    if isinstance(node, ast.Attribute):
        return (*_path(node.value), node.attr)
    raise ValueError(ast.dump(node))
