"""Several nodes of an fx graph that compute one thing, written as the formula that they compute.

The notation is that of ``src/cpp/ir/pattern.h``, which matches the compiler's graph; docs/how-to/add_pass.md has a
table of it.

>>> silu = Pattern("y = mul(x, sigmoid(x))")
>>> graph = torch.export.export(torch.nn.SiLU(), (torch.ones(2),)).run_decompositions().graph
>>> [match["x"].name for node in graph.nodes if (match := silu.match(node))]
['input_1']

An operator's name stands for all its overloads, for its copying form and for the one in place. Numbers are literals: a
tensor of rank 0 is none here. Sets of operators get names from whoever has them:

>>> Pattern("y = ACTIVATION(x, ...)", {"ACTIVATION": {torch.ops.aten.silu.default, torch.ops.aten.gelu.default}})
<Pattern: y = ACTIVATION(x, ...)>
"""

import itertools
import math
import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from executorch_py.operator_facts import OPERATORS

from .nodes import arguments_of

#: Operators that do the same, by one name.
_FAMILIES = {
    "cast": ("aten::_to_copy", "dim_order_ops::_to_dim_order_copy"),
    "quantize": ("quantized_decomposed::quantize_per_tensor",),
    "dequantize": ("quantized_decomposed::dequantize_per_tensor",),
}
_COMMUTATIVE = {op.name.partition(".")[0] for op in OPERATORS.values() if "commutative" in op.tags}
#: What a search tries before it gives up: sums of sums can be read in as many ways as there are subsets.
_MOST_STEPS, _MOST_NODES = 4096, 100
_DIMS = {"dim", "dims", "dim0", "dim1"}
_TOKEN = re.compile(
    r"\s*(\.\.\.|#_|#\d+|-?(?:inf\b|\d+(?:\.\d+)?(?:e-?\d+)?)|[A-Za-z_][\w:]*(?:\.\w+)?|[=|&?*(),\[\]])"
)


@dataclass(frozen=True)
class Match:
    """What a pattern found."""

    #: Of the pattern without those with &, each once, the root first.
    nodes: tuple[fx.Node, ...]
    #: Those with &, each once.
    kept: tuple[fx.Node, ...]
    captures: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The argument that a name stands for; None where its part of the pattern is not there."""
        return self.captures.get(name)


@dataclass(frozen=True)
class _Name:
    text: str


@dataclass(frozen=True)
class _Literal:
    value: Any


@dataclass(frozen=True)
class _Either:
    terms: tuple[Any, ...]


@dataclass(frozen=True)
class _Call:
    name: str
    positional: tuple[Any, ...]
    named: dict[str, Any]
    is_open: bool = False
    is_kept: bool = False
    count: str = ""
    result: int | None = 0


_ANY = _Name("_")


class Pattern:
    """A formula; the first of its definitions is the root.

    Args:
        text: The formula.
        families: Name of a set of operators, as the formula calls it -> overloads.

    Raises:
        ValueError: The text is not in the notation.
    """

    def __init__(self, text: str, families: Mapping[str, Container[Any]] | None = None) -> None:
        parser = _Parser(text)
        self._text, self._families = text.strip(), families or {}
        self._definitions, self._calls = parser.definitions(), parser.calls
        self._root = next(iter(self._definitions))
        for name in sorted(self._calls):
            if _is_rule(name) and name not in self._families:
                raise ValueError(
                    f"no set of operators is called {name}; there are {', '.join(self._families) or 'none'}"
                )
        self._may_be_root: dict[Any, bool] = {}

    def __repr__(self) -> str:
        return f"<Pattern: {self._text}>"

    def mentions(self, target: Any) -> bool:
        """Whether a node of this operator may be a part of a match."""
        return any(self._orders(name, target) for name in self._calls)

    def match(self, root: fx.Node, where: Callable[[Match], bool] | None = None, closed: bool = True) -> Match | None:
        """The first match at ``root`` that ``where`` accepts.

        Args:
            root: The node whose result the first definition is of.
            where: Refuses matches; the next one is tried.
            closed: Nodes outside of a match read the results of its root and of nodes with & only.
        """
        if not self._may_be(self._definitions[self._root], _made_by(root)[0]):
            return None
        start = _State({self._root: root})
        for state in self._term(self._definitions[self._root], root, start):
            found = Match(state.nodes, state.kept, state.names)
            if root in state.nodes and (not closed or _is_closed(found)) and (where is None or where(found)):
                return found
        return None

    def _may_be(self, term: Any, node: fx.Node | None) -> bool:
        """Whether a term may be made by a node, which rules most of them out at once."""
        target = None if node is None else node.target
        if target not in self._may_be_root:
            self._may_be_root[target] = target is not None and self._may_start(term, target)
        return self._may_be_root[target]

    def _may_start(self, term: Any, target: Any) -> bool:
        if isinstance(term, _Either):
            return any(self._may_start(one, target) for one in term.terms)
        if isinstance(term, _Name):
            return term.text not in self._definitions or self._may_start(self._definitions[term.text], target)
        return isinstance(term, _Call) and (
            bool(self._orders(term.name, target)) or (bool(term.count) and self._may_start(term.positional[0], target))
        )

    def _orders(self, name: str, target: Any) -> list[tuple[int, int]]:
        if name in self._families:
            return [(0, 1)] if target in self._families[name] else []
        return _orders(name, target)

    def _term(self, term: Any, value: Any, state: "_State") -> Iterator["_State"]:
        if next(state.steps) >= _MOST_STEPS or len(state.nodes) + len(state.kept) > _MOST_NODES:
            return
        if isinstance(term, _Either):
            for one in term.terms:
                yield from self._term(one, value, state)
        elif isinstance(term, _Call):
            yield from self._call(term, value, state)
        elif isinstance(term, _Name) and term is not _ANY:
            yield from self._named(term.text, value, state)
        elif term is _ANY or _is_literal(term.value, value):
            yield state

    def _named(self, name: str, value: Any, state: "_State") -> Iterator["_State"]:
        definition = self._definitions.get(name)
        if _is_rule(name):
            yield from self._term(definition, value, state)
            return
        if name in state.names:
            if state.names[name] is value or (not isinstance(value, fx.Node) and state.names[name] == value):
                yield state
                return
            if definition is None:
                return
        else:
            state = replace(state, names={**state.names, name: value})
        yield from [state] if definition is None else self._term(definition, value, state)

    def _call(self, call: _Call, value: Any, state: "_State") -> Iterator["_State"]:
        node, result = _made_by(value)
        if node is not None and call.result in (None, result) and (orders := self._orders(call.name, node.target)):
            if call.is_kept:
                taken = replace(state, kept=_with(state.kept, node))
            else:
                taken = replace(state, nodes=_with(state.nodes, node))
            for order in orders:
                pairs = _paired(call, node, order)
                if pairs is not None:
                    yield from self._all(pairs, taken)
        if call.count:
            yield from self._term(call.positional[0], value, state)

    def _all(self, pairs: list[tuple[Any, Any]], state: "_State") -> Iterator["_State"]:
        if not pairs:
            yield state
            return
        for inner in self._term(*pairs[0], state):
            yield from self._all(pairs[1:], inner)


@dataclass(frozen=True)
class _State:
    names: dict[str, Any]
    nodes: tuple[fx.Node, ...] = ()
    kept: tuple[fx.Node, ...] = ()
    #: Of the whole search.
    steps: Iterator[int] = field(default_factory=itertools.count)


def _is_rule(name: str) -> bool:
    """In capitals: a name that stands for its definition each time anew, and for no value."""
    return name[0].isupper()


def _with(nodes: tuple[fx.Node, ...], node: fx.Node) -> tuple[fx.Node, ...]:
    return nodes if node in nodes else (*nodes, node)


def _made_by(value: Any) -> tuple[fx.Node | None, int]:
    """The operator whose result a value is, and which of its results."""
    if not isinstance(value, fx.Node) or value.op != "call_function":
        return None, 0
    if value.target is operator.getitem:
        return value.args[0], value.args[1]  # type: ignore[return-value]
    return value, 0


def _is_closed(match: Match) -> bool:
    inside = {*match.nodes, *match.kept}
    parts = {user for node in inside for user in node.users if user.target is operator.getitem}
    inner = [*match.nodes[1:]] + [part for part in parts if part.args[0] in match.nodes[1:]]
    return all(user in inside or user in parts for node in inner for user in node.users)


def _is_literal(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(given, (list, tuple)) and list(given) == wanted
    if isinstance(given, (list, tuple)) and len(given) == 1:
        given = given[0]
    return given is None if wanted is None else not isinstance(given, fx.Node) and given == wanted


def _orders(name: str, target: Any) -> list[tuple[int, int]]:
    """In which orders a call's first two arguments may be read as those of an operator; none for another operator."""
    if not isinstance(target, torch._ops.OpOverload):
        return []
    own = target.name().removesuffix(".default")
    family = _FAMILIES.get(name, (name if "::" in name else f"aten::{name}",))
    plain, dot, overload = own.partition(".")
    base = plain.removesuffix("_copy").removesuffix("_")
    if any(full in (own, plain, base, base + dot + overload) for full in family):
        return [(0, 1), (1, 0)] if base in _COMMUTATIVE else [(0, 1)]
    return [(1, 0)] if name == "sub" and plain == "aten::rsub" else []


def _paired(call: _Call, node: fx.Node, order: tuple[int, int]) -> list[tuple[Any, Any]] | None:
    """The terms of a call with a node's arguments; None where the node has others than are written."""
    formals = node.target._schema.arguments  # type: ignore[union-attr]
    given = arguments_of(node)
    own = node.args[0] if node.args else None
    value = own.meta.get("val") if isinstance(own, fx.Node) else None
    rank = value.dim() if isinstance(value, torch.Tensor) else 0
    pairs = []
    for i, formal in enumerate(formals):
        name = formals[order[i]].name if i < 2 and order != (0, 1) else formal.name
        term = call.positional[i] if i < len(call.positional) else call.named.get(formal.name)
        if term is None:
            if not call.is_open and formal.has_default_value() and given[formal.name] != formal.default_value:
                return None
            continue
        argument, counts = given.get(name), formal.name in _DIMS and rank > 0
        again = i == 0 and call.count == "*"
        pairs.append(
            (
                call if again else _from_front(term, rank) if counts else term,
                _counted(argument, rank) if counts else argument,
            )
        )
    return pairs if len(pairs) == len(call.positional) + len(call.named) else None


def _counted(dim: Any, rank: int) -> Any:
    """Dims counted from the front; one alone stands for a list of it."""
    if isinstance(dim, (list, tuple)):
        counted = [_counted(one, rank) for one in dim]
        return counted[0] if len(counted) == 1 else counted
    return dim + rank if isinstance(dim, int) and dim < 0 else dim


def _from_front(term: Any, rank: int) -> Any:
    return _Literal(_counted(term.value, rank)) if isinstance(term, _Literal) else term


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._position = text.rstrip(), 0
        self._rules: set[str] = set()
        #: Names of operators and of sets of them.
        self.calls: set[str] = set()

    def definitions(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._peek():
            name = self._next()
            if name in found or not name.isidentifier() or not self._try("="):
                raise self._error("expected a name that is not defined yet, and '='")
            found[name] = self._either()
        if not found:
            raise self._error("a pattern has a definition")
        for name in (*found, *self._rules):
            self._check(name, found, ())
        return found

    def _check(self, name: str, found: dict[str, Any], inside: tuple[str, ...]) -> None:
        """No definition begins with itself, and all rules have one."""
        if name in inside:
            raise self._error(f"{name} begins with itself")
        if _is_rule(name) and name not in found:
            raise self._error(f"no definition of {name}")
        starts = [found[name]] if name in found else []
        for term in starts:
            if isinstance(term, _Either):
                starts.extend(term.terms)
            elif isinstance(term, _Call) and term.count:
                starts.append(term.positional[0])
            elif isinstance(term, _Name) and term is not _ANY:
                self._check(term.text, found, (*inside, name))

    def _either(self) -> Any:
        terms = [self._one()]
        while self._try("|"):
            terms.append(self._one())
        return terms[0] if len(terms) == 1 else _Either(tuple(terms))

    def _one(self) -> Any:
        is_kept = self._try("&")
        token = self._next()
        if token == "[":
            numbers = [_number(self._next())]
            while self._try(","):
                numbers.append(_number(self._next()))
            self._expect("]")
            return _Literal(numbers)
        if token[0].isdigit() or token[0] == "-" or token == "inf":
            return _Literal(_number(token))
        if not (token[0].isalpha() or token[0] == "_"):
            raise self._error(f"expected a term, found '{token}'")
        count = "?" if self._try("?") else "*" if self._try("*") else ""
        if self._try("("):
            return self._call(token, is_kept, count)
        if is_kept or count or not token.isidentifier():
            raise self._error(f"'{token}' has no arguments")
        if _is_rule(token):
            self._rules.add(token)
        return _ANY if token == "_" else _Literal(None) if token == "none" else _Name(token)

    def _call(self, name: str, is_kept: bool, count: str) -> _Call:
        self.calls.add(name)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        is_open = False
        while not self._try(")"):
            if self._try("..."):
                is_open = True
            else:
                term = self._either()
                if isinstance(term, _Name) and self._try("="):
                    named[term.text] = self._either()
                else:
                    positional.append(term)
            if self._peek() != ")":
                self._expect(",")
        result: int | None = 0
        if self._peek().startswith("#"):
            token = self._next()
            result = None if token == "#_" else int(token[1:])
        return _Call(name, tuple(positional), named, is_open, is_kept, count, result)

    def _peek(self) -> str:
        found = _TOKEN.match(self._text, self._position)
        if found is None and self._text[self._position :].strip():
            raise self._error("a character that is not in the notation")
        return found[1] if found else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise self._error("the text ends too early")
        self._position = _TOKEN.match(self._text, self._position).end()  # type: ignore[union-attr]
        return token

    def _try(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._next()
        return True

    def _expect(self, token: str) -> None:
        if not self._try(token):
            raise self._error(f"expected '{token}'")

    def _error(self, what: str) -> ValueError:
        line = self._text.count("\n", 0, self._position) + 1
        return ValueError(f"a pattern's line {line}: {what}: {self._text[self._position :].strip()[:40]!r}")


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return math.copysign(math.inf, -1 if text[0] == "-" else 1) if text.endswith("inf") else float(text)
