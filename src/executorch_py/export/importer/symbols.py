"""Symbolic sizes: torch's SymInt expressions as the dims of the IR, an expression with bounds.

Symbols are renamed in the order in which a method meets them (``s0``, ``s1``, and ``u0`` for sizes that only the data
decides), so that the same model gives the same file in every process.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from executorch_py.graphs.nodes import arguments_of
from executorch_py.graphs.rewriting import nodes_with_bodies

aten = torch.ops.aten

#: (expression, min, max); a max of None means that there is no bound. A constant is a plain int.
Dim = int | tuple[str, int, int | None]

_LARGE = 2**62

#: Sizes are 32 bits wide in the file; a bound beyond that is none, and nothing is planned for it.
_LARGEST_SIZE = 2**31


class SymbolTable:
    """The symbols of one method.

    Args:
        range_constraints: Bounds of symbols, as an ExportedProgram has them.
        named: Symbols to which the user gave a ``Dim``: their lower bounds hold as they are.
        least: Sizes below which the program had tensors of other shapes than it was traced with.
    """

    def __init__(
        self,
        range_constraints: Mapping[sympy.Symbol, Any],
        named: Collection[sympy.Symbol] = frozenset(),
        least: Mapping[sympy.Symbol, int] | None = None,
    ) -> None:
        self._ranges = {
            symbol: ValueRanges(r.lower if symbol in named else _let_in(r), r.upper)
            for symbol, r in range_constraints.items()
        }
        for symbol, size in (least or {}).items():
            known = self._ranges.get(symbol)
            if known is not None and known.upper >= size and not _is_unbacked(symbol):
                self._ranges[symbol] = ValueRanges(sympy.Max(known.lower, size), known.upper)
        self._names: dict[sympy.Symbol, str] = {}
        self._dims: dict[sympy.Expr, Dim] = {}
        self._counts = {"s": 0, "u": 0}
        self._numbers: set[sympy.Expr] = set()  # symbols of the data that were met as numbers: item()
        self._sizes: set[sympy.Expr] = set()  # those that were met as sizes of a result: nonzero()

    def dim(self, size: Any, *, is_size: bool = True) -> Dim:
        """The dim of an int or SymInt.

        Args:
            size: what stands in a shape.
            is_size: sizes are never negative; numbers may be.
        """
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if isinstance(expression, (int, sympy.Integer)):
            return int(expression)
        if _is_unbacked(expression):
            if is_size and expression not in self._numbers:
                self._sizes.add(expression)
            elif not is_size:
                self._numbers.add(expression)
        key = (expression, is_size)
        known = self._dims.get(key)
        if known is None:
            known = self._dims[key] = self._make(size, expression, is_size)
        return known

    def narrow(self, size: Any, low: int, high: int | None) -> None:
        """Makes known that a size which only the data decides lies within bounds, for all that follows from it."""
        if not isinstance(size, torch.SymInt) or not _is_unbacked(size.node.expr):
            return
        symbol = size.node.expr
        known = self._ranges.get(symbol) or size.node.shape_env.var_to_range.get(symbol) or ValueRanges(0, int_oo)
        lower = sympy.Max(known.lower, low)
        upper = known.upper if high is None else sympy.Min(known.upper, high)
        if lower <= upper:
            self._ranges[symbol] = ValueRanges(lower, upper)

    def is_proven(self, condition: Any) -> bool:
        """Whether a condition on sizes holds for all inputs that the method accepts.

        Of a symbol that only the data decides nothing is known but that it is not negative when it is the size of a
        result: its other bounds are what the model checks.
        """
        ranges = {}
        for symbol in condition.free_symbols:
            if symbol in self._ranges and not _is_unbacked(symbol):
                ranges[symbol] = self._ranges[symbol]
            else:
                ranges[symbol] = ValueRanges(0 if symbol in self._sizes else -int_oo, int_oo)
        try:
            bounds = bound_sympy(condition, ranges)
        except (ValueError, TypeError, NotImplementedError, AssertionError, KeyError):
            return False
        return bounds.is_singleton() and bool(bounds.lower)

    def text(self, condition: Any) -> str:
        """A condition for a message, with the names that the IR gives to symbols."""
        return str(condition.xreplace({symbol: sympy.Symbol(name) for symbol, name in self._names.items()}))

    def _make(self, size: torch.SymInt, expression: sympy.Expr, is_size: bool) -> Dim:
        unbacked = free_unbacked_symbols(size)
        for symbol in sorted(expression.free_symbols, key=str):
            self._name(symbol, symbol in unbacked)
        ranges = dict(getattr(size.node.shape_env, "var_to_range", {}))
        ranges.update(self._ranges)
        try:
            bounds = bound_sympy(expression, ranges)
            low, high = _integer(bounds.lower), _integer(bounds.upper)
        except (ValueError, TypeError, NotImplementedError, AssertionError, KeyError):
            low, high = None, None
        if low is not None and low == high:
            return low
        if is_size:
            low = max(low or 0, 0)
            high = high if high is not None and high < _LARGEST_SIZE else None
        elif low is None:
            low = -_LARGE
        return (self._text(expression), low, high)

    def _name(self, symbol: sympy.Symbol, is_unbacked: bool) -> str:
        known = self._names.get(symbol)
        if known is None:
            prefix = "u" if is_unbacked else "s"
            known = self._names[symbol] = f"{prefix}{self._counts[prefix]}"
            self._counts[prefix] += 1
        return known

    def _text(self, expression: sympy.Expr, outer: int = 0) -> str:
        """Text with + - * // % min max; parentheses by precedence (1 sum, 2 product, 3 atom)."""
        kind = type(expression).__name__
        arguments = expression.args
        if isinstance(expression, sympy.Symbol):
            return self._names[expression]
        if isinstance(expression, sympy.Integer):
            return f"({expression})" if int(expression) < 0 and outer else str(expression)
        if isinstance(expression, sympy.Add):
            level, text = 1, " + ".join(self._text(a, 1) for a in arguments).replace("+ (-1)*", "- ")
        elif isinstance(expression, sympy.Mul):
            level, text = 2, "*".join(self._text(a, 2) for a in arguments)
        elif isinstance(expression, sympy.Pow) and expression.exp.is_Integer and 1 < int(expression.exp) <= 8:
            level, text = 2, "*".join([self._text(expression.base, 2)] * int(expression.exp))
        elif kind in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
            level, text = 2, f"{self._text(arguments[0], 3)} // {self._text(arguments[1], 3)}"
        elif kind in ("Mod", "PythonMod"):
            level, text = 2, f"{self._text(arguments[0], 3)} % {self._text(arguments[1], 3)}"
        elif kind == "ModularIndexing":
            base, divisor, modulus = arguments
            level, text = 2, f"({self._text(base, 3)} // {self._text(divisor, 3)}) % {self._text(modulus, 3)}"
        elif kind in ("Max", "Min"):
            level, text = 3, f"{kind.lower()}({', '.join(self._text(a) for a in arguments)})"
        elif kind in ("TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt", "Identity", "ToFloat"):
            return self._fresh(expression)
        else:
            return self._fresh(expression)
        return f"({text})" if level < outer else text

    def _fresh(self, expression: sympy.Expr) -> str:
        """A name for what the IR's expressions cannot say; equal expressions have equal names."""
        stand_in = sympy.Symbol(f"_expression_{expression}")
        return self._name(stand_in, is_unbacked=False)


def named_symbols(program: ExportedProgram) -> set[sympy.Symbol]:
    """Symbols of inputs that were made for a ``Dim`` of the user's, rather than for ``Dim.AUTO``.

    A program that ``torch.export.load`` read has no such names.
    """
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else [value]:
            if isinstance(size, torch.SymInt):
                env = size.node.shape_env
                named = env.source_name_to_debug_name
                return {
                    symbol
                    for symbol, sources in env.var_to_sources.items()
                    if any(source.name in named for source in sources)
                }
    return set()


def least_sizes(program: ExportedProgram) -> dict[sympy.Symbol, int]:
    """Sizes that symbols have at least, although torch's program takes smaller ones, which it was not traced for.

    That is 2 where a squeeze would remove a dim of 1, and what a slice takes whose result has a constant size
    (``x[:2]``). Of a ``Dim`` that only derived ones are made of it is what the user gave.
    """
    least: dict[sympy.Symbol, int] = {}
    for symbol, size in _roots_of_derived(program):
        least[symbol] = max(least.get(symbol, 0), size)

    def demand(size: Any, at_least: int) -> None:
        if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
            least[size.node.expr] = max(least.get(size.node.expr, 0), at_least)

    for node in nodes_with_bodies(program.graph_module):
        if "aten.squeeze" not in str(node.target):
            continue
        sizes = node.args[0].meta["val"].shape
        if not sizes:
            continue  # a number takes dim 0 and has none
        dims = arguments_of(node).get("dim", range(len(sizes)))
        for dim in [dims] if isinstance(dims, int) else dims:
            demand(sizes[dim], 2)
    for node in program.graph.nodes:  # not in branches, which a call of such a size may leave out
        if node.target in (aten.slice.Tensor, aten.slice_copy.Tensor):
            source, dim, start, _, step = arguments_of(node).values()
            taken, start = node.meta["val"].shape[dim], start or 0
            if isinstance(taken, int) and taken > 0 and isinstance(start, int):
                end = start + (taken - 1) * step + 1
                demand(source.meta["val"].shape[dim], -start if start < 0 else end)
    return least


def _let_in(bounds: Any) -> Any:
    """The lower bound of a symbol: none where torch assumed 2.

    torch.export traces sizes of ``Dim.AUTO`` as if they were neither 0 nor 1, and its programs take both all the same.
    """
    return 0 if bounds.lower == 2 < bounds.upper else bounds.lower


def _roots_of_derived(program: ExportedProgram) -> Iterator[tuple[sympy.Symbol, int]]:
    """Lower bounds of symbols that are the size of no input, from those of dims that are derived from them: 2 for s
    where 2*s is at least 4. torch.export keeps the user's bounds of such a ``Dim`` with the derived dims only.
    """
    sizes = set()
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else [value]:
            if isinstance(size, torch.SymInt):
                sizes.add(size.node.expr)
    for expression, bounds in program.range_constraints.items():
        if isinstance(expression, sympy.Symbol) or len(expression.free_symbols) != 1:
            continue
        (symbol,) = expression.free_symbols
        factor, offset = expression.coeff(symbol), expression.subs(symbol, 0)
        if symbol not in sizes and factor > 0 and expression == factor * symbol + offset and bounds.lower.is_finite:
            yield symbol, int(sympy.ceiling((bounds.lower - offset) / factor))


def _is_unbacked(expression: Any) -> bool:
    return isinstance(expression, sympy.Symbol) and symbol_is_type(expression, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))


def _integer(bound: Any) -> int | None:
    """A bound as an int; None for infinity."""
    if bound is None or bound in (sympy.oo, -sympy.oo, int_oo, -int_oo) or not getattr(bound, "is_finite", True):
        return None
    try:
        value = int(bound)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if abs(value) < _LARGE else None
