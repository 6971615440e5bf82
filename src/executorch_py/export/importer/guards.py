"""What torch.export assumed about the sizes of inputs, beyond the bounds of each dim, as checks at the start of a
method.

Tracing a model compares sizes: is ``x.shape[0] % 2 == 0``, is ``x.shape[0] > 3``? The answers became part of the graph,
which is wrong for inputs that would answer otherwise. Bounds, equal dims and derived dims need no check here: the
file's table of shapes has them. A guard that follows from the bounds costs nothing, either.
"""

import functools
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.printers import PythonPrinter

from .builder import Builder
from .guard_text import written_guards
from .numbers import BIT_FUNCTIONS, FLOAT_FUNCTIONS, NumberWriter


def import_guards(importer: Builder, placeholders: list[fx.Node]) -> None:
    """Writes a check for each guard that the bounds of the inputs do not imply.

    Args:
        importer: With the method's inputs made.
        placeholders: Those of user inputs.
    """
    sizes = _InputSizes(importer, placeholders)
    if not sizes.symbols:
        return
    writer = _ConditionWriter(importer, placeholders[0])
    done: set[sympy.Basic] = set()
    for condition in _guards(importer, placeholders):
        known = condition in done or not condition.free_symbols <= sizes.symbols
        done.add(condition)
        if known or importer.symbols.is_proven(condition):
            continue
        text = sizes.text(condition)
        try:
            value = sympy_interp(writer, sizes, condition)
        except (AttributeError, KeyError, NotImplementedError):
            _refuse(importer, placeholders[0], text)
        message = f"the sizes of the inputs must satisfy {text}, which torch.export found in the model"
        importer.emit(placeholders[0], "executorch_prim::assert.Scalar", [value, message], [])


def _guards(importer: Builder, placeholders: list[fx.Node]) -> list[sympy.Basic]:
    values = [node.meta.get("val") for node in placeholders]
    conditions, unread = written_guards(importer.program, values)
    environment = _shape_environment(placeholders)
    guards = [guard.expr for guard in environment.guards] if environment is not None else []
    if unread and not guards:  # else the guards say what the texts say
        _refuse(importer, placeholders[0], unread[0])
    if environment is not None:
        conditions = [guard.xreplace(environment.replacements) for guard in [*guards, *conditions]]
    return conditions


def _refuse(importer: Builder, node: fx.Node, text: str) -> None:
    importer.refuse(
        node,
        f"torch.export assumes {text} of the inputs, which cannot be checked at run time; without the check other "
        "inputs would get wrong results. Give these dims a fixed size, or compute what depends on them from tensors",
    )


def _shape_environment(placeholders: list[fx.Node]) -> Any:
    for node in placeholders:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return value.node.shape_env
            environment = getattr(getattr(value, "fake_mode", None), "shape_env", None)
            if environment is not None:
                return environment
    return None


class _Printer(PythonPrinter):
    """A condition as Python writes it, floats with no more digits than they need."""

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))


class _InputSizes(dict[sympy.Symbol, Any]):
    """Symbol -> IR value of a number, made when it is first needed; and how messages call it."""

    def __init__(self, importer: Builder, placeholders: list[fx.Node]) -> None:
        super().__init__()
        self._importer = importer
        self._makers: dict[sympy.Symbol, Callable[[], Any]] = {}
        self._names: dict[sympy.Symbol, sympy.Symbol] = {}
        derived: list[tuple[fx.Node, Any, int | None]] = []
        for node in placeholders:
            value = node.meta.get("val")
            sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
            for dim, size in sizes:
                if not isinstance(size, torch.SymInt):
                    continue
                if isinstance(size.node.expr, sympy.Symbol):
                    self._add(size.node.expr, node, size, dim)
                else:
                    derived.append((node, size, dim))
        for node, size, dim in derived:
            self._add_derived(node, size, dim)

    @property
    def symbols(self) -> set[sympy.Symbol]:
        return set(self._makers)

    def text(self, condition: sympy.Basic) -> str:
        """The condition in the words of the inputs: ``x.shape[0] % 2 == 0``."""
        return _Printer().doprint(condition.xreplace(self._names))

    def get(self, symbol: Any, default: Any = None) -> Any:
        if symbol not in self._makers:
            return default
        if symbol not in self:
            self[symbol] = self._makers[symbol]()
        return self[symbol]

    def _add(self, symbol: sympy.Symbol, node: fx.Node, size: torch.SymInt, dim: int | None) -> None:
        if symbol not in self._makers:
            name = node.name if dim is None else f"{node.name}.shape[{dim}]"
            self._names[symbol] = sympy.Symbol(name, integer=True)
            self._makers[symbol] = lambda: self._read(node, size, dim)

    def _add_derived(self, node: fx.Node, size: torch.SymInt, dim: int | None) -> None:
        """A symbol that no input has by itself, from a size that is scale * symbol + offset."""
        expression = size.node.expr
        for symbol in expression.free_symbols - self.symbols:
            offset = expression.xreplace({symbol: sympy.Integer(0)})
            scale = expression.xreplace({symbol: sympy.Integer(1)}) - offset
            if scale.is_Integer and scale > 0 and sympy.expand(expression - scale * symbol - offset) == 0:
                name = f"{node.name}.shape[{dim}]" if dim is not None else node.name
                less = f"({name} - {offset})" if offset > 0 else f"({name} + {-offset})" if offset < 0 else name
                self._names[symbol] = sympy.Symbol(less if scale == 1 else f"({less} // {scale})", integer=True)
                self._makers[symbol] = functools.partial(self._solved, node, size, dim, int(scale), int(offset))

    def _solved(self, node: fx.Node, size: torch.SymInt, dim: int | None, scale: int, offset: int) -> Any:
        writer = _ConditionWriter(self._importer, node)
        return writer.floordiv(writer.add(self._read(node, size, dim), -offset), scale)

    def _read(self, node: fx.Node, size: torch.SymInt, dim: int | None) -> Any:
        value = self._importer.value(node)
        if dim is None:
            return value
        return self._importer.emit(node, "aten::sym_size.int", [value, dim], [self._importer.type_of(node, size)])[0]


class _ConditionWriter:
    """The operators of a condition as operators of the IR; torch's ``sympy_interp`` calls these methods by name."""

    def __init__(self, importer: Builder, origin: fx.Node) -> None:
        self._numbers = NumberWriter(importer, origin)
        for name in FLOAT_FUNCTIONS:
            setattr(self, name, functools.partial(self._numbers.float_function, name))
        for name in BIT_FUNCTIONS:
            setattr(self, name, functools.partial(self._numbers.bit_function, name, _NUMBER))

    def _call(self, op: str, kind: Any, *arguments: Any) -> Any:
        return self._numbers.primitive(op, kind, *arguments)

    def constant(self, value: Any, dtype: torch.dtype) -> Any:
        return bool(value) if dtype == torch.bool else int(value) if dtype == torch.int64 else float(value)

    def add(self, a: Any, b: Any) -> Any:
        return self._call("add", _NUMBER, a, b)

    def sym_sum(self, terms: Any) -> Any:
        return functools.reduce(self.add, terms)

    def mul(self, a: Any, b: Any) -> Any:
        return self._call("mul", _NUMBER, a, b)

    def floordiv(self, a: Any, b: Any) -> Any:
        return self._call("floordiv", _NUMBER, a, b)

    def mod(self, a: Any, b: Any) -> Any:
        return self._call("mod", _NUMBER, a, b)

    python_mod = mod

    def modular_indexing(self, base: Any, divisor: Any, modulus: Any) -> Any:
        return self.mod(self.floordiv(base, divisor), modulus)

    def pow_by_natural(self, base: Any, exponent: Any) -> Any:
        return self._numbers.int_power(_NUMBER, base, exponent)

    def pow(self, base: Any, exponent: Any) -> Any:
        return self._numbers.float_power(base, exponent)

    def abs(self, a: Any) -> Any:
        return self._numbers.absolute(_NUMBER, a)

    def trunc_to_int(self, a: Any, dtype: torch.dtype) -> Any:
        return self._call("trunc", _NUMBER, a)

    def floor_to_int(self, a: Any, dtype: torch.dtype) -> Any:
        return self._numbers.floor(_NUMBER, a)

    def ceil_to_int(self, a: Any, dtype: torch.dtype) -> Any:
        return self._call("ceil", _NUMBER, a)

    def round_to_int(self, a: Any, dtype: torch.dtype) -> Any:
        return self._call("round", _NUMBER, a)

    def round_decimal(self, a: Any, decimals: Any) -> Any:
        if not self._numbers.can_round_to(decimals):
            raise NotImplementedError
        return self._numbers.round_decimals(a, decimals)

    def trunc(self, a: Any) -> Any:
        return self._call("sym_float", "double", self._call("trunc", _NUMBER, a))

    def minimum(self, a: Any, b: Any) -> Any:
        return self._call("sym_min", _NUMBER, a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        return self._call("sym_max", _NUMBER, a, b)

    def identity(self, a: Any) -> Any:
        return a

    def int_truediv(self, a: Any, b: Any) -> Any:
        return self._call("truediv", "double", a, b)

    truediv = int_truediv

    def to_dtype(self, a: Any, dtype: torch.dtype) -> Any:
        if dtype != torch.float64:
            raise NotImplementedError
        return self._call("sym_float", "double", a)

    def eq(self, a: Any, b: Any) -> Any:
        return self._call("eq", "bool", a, b)

    def ne(self, a: Any, b: Any) -> Any:
        return self.not_(self.eq(a, b))

    def lt(self, a: Any, b: Any) -> Any:
        return self._call("lt", "bool", a, b)

    def le(self, a: Any, b: Any) -> Any:
        return self._call("le", "bool", a, b)

    def gt(self, a: Any, b: Any) -> Any:
        return self._call("gt", "bool", a, b)

    def ge(self, a: Any, b: Any) -> Any:
        return self._call("ge", "bool", a, b)

    def not_(self, a: Any) -> Any:
        return self._call("sym_not", "bool", a)

    def and_(self, a: Any, b: Any) -> Any:
        return self._call("sym_ite", "bool", a, b, False)

    def or_(self, a: Any, b: Any) -> Any:
        return self._call("sym_ite", "bool", a, True, b)


#: A number whose expression nobody needs.
_NUMBER = ("int", ("guard", -(2**62), None))
