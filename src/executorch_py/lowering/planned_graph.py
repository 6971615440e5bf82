"""The graph that a memory planner written in Python sees: a method after all passes, as fx, with a TensorSpec at each
node.

The compiler's text of a method (docs: IR) becomes a GraphModule in the published form: placeholders, ``memory.alloc``
nodes, and kernels that write into them. Values that share memory (views, results made in place) share one spec, so a
planner cannot tear them apart. What the planner sets goes back to the compiler by the names of values, and the compiler
checks it.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate

from executorch_py.codegen.ops_yaml import DTYPES
from executorch_py.errors import InternalError
from executorch_py.exir import memory
from executorch_py.exir.tensor import TensorShapeDynamism, TensorSpec
from executorch_py.graphs.dtypes import dtype_of

#: Name in the text form -> dtype.
_DTYPES = {text: dtype_of(code) for text, code in DTYPES.items()}

_TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\])*")|(?P<value>%[^\s(),:={}\[\]<>"]+)|(?P<mark>[()\[\]{}<>,=]|:(?!:))"""
    r"""|(?P<comment>(?<=\s)//\s.*)|(?P<word>(?:::|[^\s()\[\]{}<>,:="])+)"""
)

#: Request of the compiler: name of a value, first and last step, bytes, accesses, memory id.
Request = tuple[str, int, int, int, int, int]


@dataclass(frozen=True)
class Origin:
    """What made a value: its name in the compiler's text, the operator, the module's path and the user's line."""

    value: str
    operator: str = ""
    module_path: str = ""
    line: str = ""


#: The comment of a node: "// fx: linear, in a.lin, model.py:7 forward". A field is quoted where it would be misread.
_FIELD = r'(?:"(?:\\.|[^"\\])*"|[^,"\s]+?)'
_ORIGIN = re.compile(
    rf"//\s*fx: {_FIELD}(?=,|$)(?:, in (?P<module>{_FIELD})(?=,|$))?(?:, (?P<file>{_FIELD}):(?P<line>\d+))?"
)
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))")


class PlannedTensor(TensorSpec):
    """A spec whose bytes the compiler has counted: the largest of the values that share the memory, aligned."""

    counted_nbytes: int | None = None
    origin: Origin | None = None

    def nbytes(self) -> int:
        """Bytes that the compiler needs."""
        return super().nbytes() if self.counted_nbytes is None else self.counted_nbytes


@dataclass
class PlannedGraph:
    """A method as a planner sees it.

    Attributes:
        module: Its graph, with ``meta["spec"]`` at each node.
        specs: Name of a value -> its spec.
        places: Name of a value -> (memory id, offset), where the text says it already.
    """

    module: fx.GraphModule
    specs: dict[str, PlannedTensor]
    places: dict[str, tuple[int, int]]


def read_method(text: str, requests: Sequence[Request] = (), name: str | None = None) -> PlannedGraph:
    """Makes the graph from the text of a lowered or planned method, and gives specs the lifetimes of ``requests``.

    The text may have several methods: ``name`` says which, the first otherwise.
    """
    reader = _Reader(text)
    module = reader.method(name)
    for name, first, last, nbytes, _, memory_id in requests:
        spec = reader.specs[name]
        spec.lifetime = [first, last]
        spec.counted_nbytes = nbytes
        spec.mem_id = memory_id or None
    wanted = {id(reader.specs[request[0]]) for request in requests}
    if requests:
        for spec in reader.specs.values():
            if id(spec) not in wanted and not spec.const:
                spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_UNBOUND  # memory that is nobody's to plan
    return PlannedGraph(module, reader.specs, reader.places)


@dataclass
class _Scope:
    """A graph that is being read, its nodes by the names of values, and the graph around it."""

    graph: fx.Graph = field(default_factory=fx.Graph)
    root: torch.nn.Module = field(default_factory=torch.nn.Module)
    nodes: dict[str, fx.Node] = field(default_factory=dict)
    around: _Scope | None = None


class _Reader:
    """Reads the lines of one method."""

    def __init__(self, text: str) -> None:
        self.lines = [line for line in text.splitlines() if line.strip()]
        self.at = 0
        self.specs: dict[str, PlannedTensor] = {}
        self.places: dict[str, tuple[int, int]] = {}
        self.bounds: dict[str, int | None] = {}
        self.tokens: list[tuple[str, str]] = []
        self.comment: re.Match[str] | None = None

    # -------------------------------------------------------------------------------------------------------- tokens

    def _open(self) -> None:
        tokens = [(str(match.lastgroup), match.group()) for match in _TOKEN.finditer(self.lines[self.at])]
        self.tokens = [(kind, text) for kind, text in tokens if kind != "comment"]
        self.comment = _ORIGIN.match(tokens[-1][1]) if tokens and tokens[-1][0] == "comment" else None
        self.at += 1

    def _next(self, *expected: str) -> str:
        if not self.tokens:
            raise InternalError(f"a line of the compiler's text ends early: {self.lines[self.at - 1]}")
        _, text = self.tokens.pop(0)
        if expected and text not in expected:
            raise InternalError(
                f"the compiler's text has {text!r} instead of {expected[0]!r}: {self.lines[self.at - 1]}"
            )
        return text

    def _peek(self) -> str:
        return self.tokens[0][1] if self.tokens else ""

    def _take(self, text: str) -> bool:
        if self._peek() == text:
            self.tokens.pop(0)
            return True
        return False

    def _symbol(self) -> str:
        """A name that may hold any character; "" where none stands: ``@name`` or ``@"a name"``."""
        if not self._peek().startswith("@"):
            return ""
        text = self._next()
        return text if text != "@" else "@" + _unquoted(self._next())

    def _separated(self, end: str) -> Iterator[None]:
        """One step for each thing up to ``end``, which is taken."""
        while not self._take(end):
            yield
            self._take(",")

    # ------------------------------------------------------------------------------------------------------- methods

    def method(self, name: str | None) -> fx.GraphModule:
        found = None
        while found is None or (name is not None and found != f"@{name}"):
            self._open()
            found = self._symbol() if self._take("method") else None
        return self._graph(None)

    def _graph(self, around: _Scope | None) -> fx.GraphModule:
        scope = _Scope(around=around)
        self._next("(")
        for _ in self._separated(")"):
            name = self._next()[1:]
            self._next(":")
            spec = self._typed(name)
            scope.nodes[name] = self._placeholder(scope, name, spec)
        while True:
            self._open()
            if self._peek() == "return":
                break
            self._node(scope)
        self._next("return")
        results = [self._argument(scope) for _ in self._until_writes()]
        output = scope.graph.output(tuple(results))
        output.meta["spec"] = tuple(one.meta.get("spec") if isinstance(one, fx.Node) else None for one in results)
        self._open()
        self._next("}")
        return fx.GraphModule(scope.root, scope.graph)

    def _until_writes(self) -> Iterator[None]:
        while self.tokens and self._peek() != "writes":
            yield
            self._take(",")

    def _placeholder(self, scope: _Scope, name: str, spec: PlannedTensor | None) -> fx.Node:
        first = next(iter(scope.graph.nodes), None)
        while first is not None and first.op == "placeholder":
            first = first.next if first.next.op != "root" else None
        with (
            scope.graph.inserting_before(first)
            if first is not None
            else scope.graph.inserting_after(_last(scope.graph))
        ):
            node = scope.graph.placeholder(_identifier(name))
        node.meta["spec"] = spec
        return node

    # --------------------------------------------------------------------------------------------------------- nodes

    def _node(self, scope: _Scope) -> None:
        names = []
        if self.tokens[0][0] == "value":
            while (text := self._next()) != "=":
                names += [text[1:]] if text != "," else []
        op = self._next().strip('"')
        symbol = self._symbol()
        args = [self._argument(scope) for _ in self._separated(")")] if self._take("(") else []
        specs = []
        if self._take(":"):
            for name in names:
                specs.append(self._typed(name))
                self._take(",")
        module, file, line = map(_unquoted, self.comment.groups("") if self.comment else ("", "", ""))
        for name, spec in zip(names, specs, strict=False):
            if spec is not None and spec.origin is None:  # a view has the memory, and the origin, of what it looks at
                spec.origin = Origin(name, op, module, f"{file}:{line}" if file else "")
        has_regions = bool(self.tokens) and self.tokens[-1][1] == "{"
        regions = self._regions(scope) if has_regions else []
        if op in ("constant", "buffer"):
            for spec in specs:
                if spec is not None:
                    spec.const = op == "constant"
            scope.nodes[names[0]] = self._placeholder(scope, names[0], specs[0])
            scope.nodes[names[0]].meta["is_state"] = op == "buffer"
        elif op == "alias":
            base, viewed = args[0], specs[0]
            assert viewed is not None  # an alias is a tensor
            self._bind(scope, names, specs, scope.graph.call_function(memory.view, (base, list(viewed.shape))), [])
        else:
            target = executorch_call_delegate if op == "delegate" else _operator(op)
            allocs = [self._alloc(scope, spec) for spec in specs if spec is not None]
            out: dict[str, Any] = {"out": allocs[0] if len(allocs) == 1 else allocs} if allocs else {}
            arguments = (*regions, *([symbol] if symbol else []), *args)
            self._bind(scope, names, specs, scope.graph.call_function(target, arguments, out), regions)

    def _alloc(self, scope: _Scope, spec: PlannedTensor) -> fx.Node:
        node = scope.graph.call_function(memory.alloc, ((tuple(spec.shape), spec.dtype),))
        node.meta["spec"] = spec
        return node

    def _bind(self, scope: _Scope, names: list[str], specs: list[Any], node: fx.Node, regions: list[fx.Node]) -> None:
        node.meta["spec"] = specs[0] if len(specs) == 1 else tuple(specs)
        if len(names) == 1:
            scope.nodes[names[0]] = node
            return
        for index, name in enumerate(names):
            scope.nodes[name] = scope.graph.call_function(_getitem, (node, index))
            scope.nodes[name].meta["spec"] = specs[index]

    def _regions(self, scope: _Scope) -> list[fx.Node]:
        holders: list[fx.Node] = []
        while True:
            self._open()
            if self._take("}"):
                return holders
            self._next("region")
            self._symbol()
            module = self._graph(scope)
            name = f"region_{sum(1 for _ in scope.root.children())}"
            scope.root.add_module(name, module)
            holders.append(scope.graph.get_attr(name))

    # ----------------------------------------------------------------------------------------- arguments and types

    def _argument(self, scope: _Scope) -> Any:
        kind, text = self.tokens[0]
        self.tokens.pop(0)
        if kind == "value":
            return self._value(scope, text[1:])
        if kind == "string":
            return _unquoted(text)
        if text in ("double", "bool") and self._peek() == "[":
            text = self._next()
        if text == "[":
            return [self._argument(scope) for _ in self._separated("]")]
        words = {"none": None, "true": True, "false": False}
        return words[text] if text in words else _number(text)

    def _value(self, scope: _Scope, name: str) -> fx.Node:
        """The node of a value; one from around a region becomes an input of it."""
        if name not in scope.nodes:
            if scope.around is None:
                raise InternalError(f"the compiler's text uses %{name} before it is made")
            outer = self._value(scope.around, name)
            scope.nodes[name] = self._placeholder(scope, name, outer.meta.get("spec"))
            scope.nodes[name].meta.update(outer.meta)
        return scope.nodes[name]

    def _typed(self, name: str) -> PlannedTensor | None:
        """Type, alias and place of a value; its spec, when it is a tensor."""
        word = self._next()
        spec = None
        if word in _DTYPES and self._take("["):
            sizes = [self._dim() for _ in self._separated("]")]
            if self._take("<"):
                while not self._take(">"):
                    self._next()
            spec = PlannedTensor(_DTYPES[word], [size or 0 for size in sizes])
            if None in sizes:
                spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_UNBOUND
        elif self._take("("):
            self._dim_or_text()
        if self._take("alias"):
            self._next("(")
            base = self._next()[1:]
            self._next(")")
            spec = self.specs.get(base, spec)
        if self._take("at"):
            self._next("(")
            self.places[name] = (int(self._next()), int((self._next(","), self._next())[1]))
            self._next(")")
            if spec is not None:
                spec.mem_id, spec.mem_offset = self.places[name]
        if spec is not None:
            self.specs[name] = spec
        return spec

    def _dim_or_text(self) -> None:
        depth = 1
        while depth:
            depth += {"(": 1, ")": -1}.get(self._next(), 0)

    def _dim(self) -> int | None:
        """The largest size of a dimension; None: it has no bound."""
        parts: list[str] = []
        depth = 0
        while self.tokens and (depth or self._peek() not in (",", "]")):
            text = self._next()
            depth += {"(": 1, ")": -1}.get(text, 0)
            if text == ":":
                self._next("{")
                bounds = ""
                while not self._take("}"):
                    bounds += self._next()
                upper = bounds.partition("..")[2]
                self.bounds["".join(parts)] = int(upper) if upper else None
            else:
                parts.append(text)
        expression = "".join(parts)
        if expression.isdigit():
            return int(expression)
        if expression in self.bounds:
            return self.bounds[expression]
        return self._largest(expression)

    def _largest(self, expression: str) -> int | None:
        """An expression at the largest values of its symbols: what is planned is what the compiler counts, not this."""
        names = {name: self.bounds.get(name) for name in re.findall(r"[A-Za-z_]\w*", expression)}
        values = {name: bound for name, bound in names.items() if name not in ("min", "max")}
        if None in values.values():
            return None
        try:
            return int(eval(expression, {"__builtins__": {}, "min": min, "max": max}, values))
        except (ArithmeticError, SyntaxError):
            return None


def _identifier(name: str) -> str:
    """A name that fx can write into the code of a graph."""
    plain = re.sub(r"\W", "_", name)
    return plain if plain.isidentifier() and not keyword.iskeyword(plain) else f"_{plain}"


def _last(graph: fx.Graph) -> fx.Node:
    return graph._root.prev


def _unquoted(text: str) -> str:
    """What stands in quotes, when it does: a byte of UTF-8 that is no printable ASCII stands in hexadecimal."""
    if not text.startswith('"'):
        return text
    plain = _ESCAPED.sub(
        lambda found: bytes.fromhex(found[1].decode()) if found[1] else {b"n": b"\n"}.get(found[2], found[2]),
        text[1:-1].encode(),
    )
    return plain.decode("utf-8", "replace")


def _number(text: str) -> Any:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _getitem(values: Any, index: int) -> Any:
    return values[index]


_getitem.__name__ = "getitem"


def _operator(name: str) -> Callable[..., Any]:
    """The operator of torch that has this name; a stand-in where torch knows none (the kernels of this package)."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None) if rest else None
    found = getattr(packet, overload or "default", None) if packet is not None else None
    if found is not None:
        return found

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        raise InternalError(f"{name} runs in the compiled program only")

    stand_in.__name__ = re.sub(r"\W", "_", name)
    return stand_in
