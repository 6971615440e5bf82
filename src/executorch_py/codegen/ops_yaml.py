"""Reads the operator table (src/cpp/ops/ops.yaml and tables in the same format of backends and users).

For: tools/gen_tables.py, kernel_library.py and the tests. Uses the standard library only, because it runs at configure
time on machines that have nothing but Python. The table keeps to a small part of YAML, which `read_yaml` parses
strictly (a test checks that a full YAML parser reads the same). Not for: general YAML.

Example:
    >>> op = parse_schema("aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)")
    >>> op.name, [a.letter for a in op.arguments], kernel_function(op.name)
    ('aten::add.out', ['T', 'T', 'n', 'T'], 'add_out')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .element_types import ELEMENT_TYPES

#: The element types a kernel may be built for, in the order of the tables; value = PyTorch's ScalarType.
DTYPES = {one.text: one.number for one in ELEMENT_TYPES}


def _texts(words: str) -> list[str]:
    """The types whose name in torch fits a regular expression."""
    return [one.text for one in ELEMENT_TYPES if re.fullmatch(words, one.word)]


_INTEGERS, _FLOATS = _texts("int.*|uint8"), _texts("b?float.*")

#: Short names for sets of element types that many operators share.
DTYPE_GROUPS = {
    "any": ["bool", *_INTEGERS, *_FLOATS],
    "real": [*_INTEGERS, *_FLOATS],
    "float": _FLOATS,
    "integral": _INTEGERS,
    "integral_bool": ["bool", *_INTEGERS],
    "complex": _texts("complex.*"),
    "unsigned": _texts("uint16|uint32"),
}


def dtype_mask(dtypes: Iterable[str]) -> int:
    """Bit = ScalarType's value, as C++ has sets of element types."""
    return sum(1 << DTYPES[d] for d in set(dtypes))


# What an operator is, beyond its schema. C++: ops::Tag in ops/op_table.h, in this order.
TAGS = [
    "core",  # member of Core ATen
    "pointwise",  # each output element depends on the input elements at its (broadcast) position only
    "reduction",  # an output element depends on many input elements
    "view",  # the functional form returns an alias of its first argument; lowered to the copying out variant
    "mutates",  # writes one of its arguments
    "random",  # draws from the generator: two equal calls differ
    "data_dependent",  # output sizes depend on the values of the inputs
    "symbolic",  # computes numbers, not tensors; run by kernels/prim
    "fused",  # our own operator, made by a pass or kept whole by the importer
    "irreducible",  # decompositions end here: torch's next step would be one that no kernel computes as well
    "cheap",  # makes its result in the time it takes to write it, so that a large constant need not be stored
    "clamps",  # limits elements to a range of numbers
    "same_type",  # returns its first argument where the result has that argument's type, beside `moves: reshape`
    "commutative",  # its first two arguments may change places
    "uninitialised",  # allocates without saying what is in it
    "run_time_scale",  # quantizes by a scale that is computed at run time, or computes one
    "quantizes",  # makes integers of floats
    "dequantizes",  # makes floats of integers
    "composite",  # torch takes it apart before Edge: models say it, the compiler's table does not hold it
    "fresh",  # although torch takes it apart, its result is new memory for sure, never that of an argument
    "activation",  # a function of one tensor that stands behind layers; not those of gates, which multiply a state
    "uniform",  # makes a tensor of one number: of its argument `fill_value` or `s`, or of zeros
    "probabilities",  # its largest results are what it says: near 1, nearly all others near 0
    "dropout",  # gives its first argument back where its third, `train`, is false
]

#: How an operator's results come from the elements of its first argument. C++: ops::Moves, in this order.
MOVES = [
    "reshape",  # all of them in their order, whatever the sizes
    "permute",  # each once, in another order
    "part",  # some of them
    "repeat",  # each any number of times
    "gather",  # those that an index tensor names
    "pad",  # all of them, those at the borders repeated
    "pool",  # the largest of each window
    "largest",  # the largest or smallest along dims
    "mask",  # each at its place, or zero
]

#: Orders in memory that an operator on images wants or takes. C++: ops::Layout, in this order.
LAYOUTS = ["any", "channels_last"]

#: How far results reach beyond what goes in, for types of a small range. Where nothing is said, they are bounded anew.
REACHES = [
    "same",  # no further, or by a factor that the model writes
    "mean",  # no further, since as many elements divide the sum
    "sum",  # as many times as elements are added up
    "far",  # any number of times: powers, products, exponentials
]

#: Who calls the kernel of an operator that torch's table takes apart and that Edge does not keep whole.
CALLERS = [
    "export",  # exports all the same: torch's decomposition declines these calls
    "published",  # files of the official exporter
    "preserve",  # exports with EdgeCompileConfig(preserve_ops=...), and partitioners that want the operator whole
]

#: Folders of src/cpp/kernels whose kernels the table names: the first by the file alone, others with "<folder>/" before
#: it.
KERNEL_LIBRARIES = ("portable", "quantized")

# Schema type → signature letter of a required and of an optional argument (see runtime/unboxing.h). A file holds None
# for a Generator, Layout or Device.
_LETTERS = {
    "Tensor": "Tt", "int": "iI", "SymInt": "iI", "float": "dD", "bool": "bB", "Scalar": "nN", "str": "sS",
    "ScalarType": "yY", "Generator": "iI", "Layout": "iI", "MemoryFormat": "iI", "Device": "iI", "SymBool": "bB",
    "SymFloat": "dD",
    "int[]": "lL", "SymInt[]": "lL", "float[]": "fF", "bool[]": "m?", "Tensor[]": "v?", "Tensor?[]": "w?",
}  # fmt: skip


class TableError(ValueError):
    """The table is not well formed; the message names the line or the operator."""


@dataclass(frozen=True)
class Argument:
    """One parameter of a schema."""

    name: str
    type: str  # as written, without the alias annotation: "SymInt[2]", "Tensor?"
    letter: str  # signature letter, as in runtime/unboxing.h
    default: str | None  # as written, None when the argument is required
    kwarg_only: bool
    mutated: bool  # has an annotation with "!"
    is_out: bool  # mutated and keyword-only: an output of an out variant


@dataclass(frozen=True)
class Schema:
    """A parsed operator schema."""

    text: str
    name: str  # with namespace, and overload after a dot when there is one
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]  # types, without names


@dataclass(frozen=True)
class Specialisation:
    """A kernel for certain element types and memory orders: `blur_nhwc_out self=f32/channels_last`."""

    function: str
    demands: tuple[tuple[str, tuple[str, ...], str], ...]  # argument, element types (none: any), memory order

    @property
    def text(self) -> str:
        """The demands as they are written, for tools."""
        return " ".join(
            f"{name}={'/'.join(filter(None, ('|'.join(dtypes), order)))}" for name, dtypes, order in self.demands
        )


@dataclass
class Op:
    """One entry of the table."""

    schema: Schema
    out: Schema | None = None
    kernel: str | None = None  # file in kernels/portable, or "<folder>/<file>" in another of KERNEL_LIBRARIES
    dtypes: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    in_place: tuple[str, ...] = ()  # tensor arguments whose memory the output may reuse
    overlaps: tuple[str, ...] = ()  # tensor arguments that the output may overlap in kernels/cortex_m
    keep: str = ""  # why Edge keeps it whole; "" = torch's choice
    copy: str = ""  # of a view: the operator that stands for it in Edge
    moves: str = ""  # one of MOVES
    joins: tuple[str, ...] = ()  # arguments that hold the elements of the result
    integers: str = ""  # the operator on integers; or the one that it becomes, which has such a form
    layout: str = ""  # one of LAYOUTS
    reach: str = ""  # one of REACHES
    work: str = ""  # the kind of work that decides what a call costs, of ops/work.def
    caller: str = ""  # one of CALLERS
    notes: str = ""
    specialised: tuple[Specialisation, ...] = ()  # of kernel libraries: tried before the kernel itself, in this order
    line: int = field(default=0, compare=False)

    @property
    def library(self) -> str:
        """The folder of src/cpp/kernels that has the kernel."""
        folder, separator, _ = (self.kernel or "").partition("/")
        return folder if separator else KERNEL_LIBRARIES[0]

    @property
    def kernel_schema(self) -> Schema:
        """The schema a kernel implements: the out variant, or the operator itself when it has none."""
        return self.out or self.schema

    @property
    def in_place_bits(self) -> int:
        """Bit i: the output may reuse the memory of argument i of the kernel's schema."""
        return sum(1 << i for i, a in enumerate(self.kernel_schema.arguments) if a.name in self.in_place)

    @property
    def overlaps_bits(self) -> int:
        """Bit i: the output may overlap argument i of the kernel's schema in kernels/cortex_m."""
        return sum(1 << i for i, a in enumerate(self.kernel_schema.arguments) if a.name in self.overlaps)

    @property
    def joins_bits(self) -> int:
        """Bit i: argument i of the functional schema holds elements of the result."""
        return sum(1 << i for i, a in enumerate(self.schema.arguments) if a.name in self.joins)

    @property
    def is_composite(self) -> bool:
        """No row of the compiler's table."""
        return "composite" in self.tags


def _split_top_level(text: str) -> list[str]:
    """Splits at commas that are not inside brackets or quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _letter(type_text: str) -> str:
    base = re.sub(r"\[\d+\]", "[]", type_text)
    optional = base.endswith("?")
    letters = _LETTERS.get(base[:-1] if optional else base)
    if letters is None or letters[optional] == "?":
        known = ", ".join(t for t in _LETTERS if not t.startswith("Sym"))
        raise TableError(f"unknown type '{type_text}'; there are {known}, and optional ones (Tensor?, int?)")
    return letters[optional]


def parse_schema(text: str) -> Schema:
    """Parses `ns::name.overload(arguments) -> returns`.

    Raises:
        TableError: The text is not a schema, or has a type that kernels cannot take.
    """
    match = re.fullmatch(r"(\w+::\w+(?:\.\w+)?)\((.*)\) -> (.+)", text)
    if not match:
        raise TableError(f"not an operator schema: {text!r}")
    name, arguments_text, returns_text = match.groups()
    arguments: list[Argument] = []
    kwarg_only = False
    for part in _split_top_level(arguments_text):
        if part == "*":
            kwarg_only = True
            continue
        declaration, separator, default = part.partition("=")
        type_text, _, argument_name = declaration.rpartition(" ")
        mutated = "!" in type_text
        type_text = re.sub(r"\([^)]*\)", "", type_text)
        if not re.fullmatch(r"[A-Za-z_]\w*", argument_name) or (separator and not default):
            raise TableError(f"{name}: {part!r} is no argument; it is written 'type name' or 'type name=default'")
        if argument_name in {a.name for a in arguments}:
            raise TableError(f"{name}: two arguments are named '{argument_name}'")
        try:
            letter = _letter(type_text)
        except TableError as error:
            raise TableError(f"{name}: argument '{argument_name}': {error}") from None
        arguments.append(
            Argument(argument_name, type_text, letter, default or None, kwarg_only, mutated, mutated and kwarg_only)
        )
    if returns_text.startswith("("):
        items = _split_top_level(returns_text[1:-1])
    else:
        items = [returns_text]
    returns = tuple(re.sub(r"\([^)]*\)", "", item).split(" ")[0] for item in items)
    return Schema(text, name, tuple(arguments), returns)


def kernel_function(name: str) -> str:
    """The C++ function of a kernel: `aten::_softmax.out` → `softmax_out`, `aten::eq.Scalar_out` → `eq_scalar_out`."""
    base, _, overload = name.split("::")[1].partition(".")
    return base.lstrip("_") + (f"_{overload.lower()}" if overload else "")


def _scalar(text: str, line: int) -> str | list[str]:
    if text.startswith("["):
        if not text.endswith("]"):
            raise TableError(f"line {line}: a list must end on its line, and a comment has a line of its own")
        return [item.strip() for item in text[1:-1].split(",") if item.strip()]
    if text.startswith('"'):
        if len(text) < 2 or not text.endswith('"'):
            raise TableError(f"line {line}: a quoted text must end on its line, and a comment has a line of its own")
        return text[1:-1].replace('\\"', '"')
    if any(c in text for c in "\"'{}[]#&*!|>%@`") or ": " in text:
        raise TableError(f"line {line}: put {text!r} in double quotes")
    return text


def read_yaml(text: str) -> list[dict]:
    """Parses a list of flat mappings: `- key: value` and `  key: value` lines, comments, `[a, b]` lists, "texts"."""
    entries: list[dict] = []
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        match = re.fullmatch(r"(- |  )(\w+): (.+?)\s*", raw)
        if not match:
            raise TableError(
                f"line {number}: expected '- key: value' or '  key: value' (lists are written [a, b]), got {raw!r}"
            )
        lead, key, value = match.groups()
        if lead == "- ":
            entries.append({"line": number})
        elif not entries:
            raise TableError(f"line {number}: an entry begins with '- '")
        if key in entries[-1]:
            raise TableError(f"line {number}: '{key}' twice in one entry")
        entries[-1][key] = _scalar(value, number)
    return entries


_KEYS = {
    "line", "schema", "out", "kernel", "dtypes", "tags", "in_place", "notes", "specialised",
    "keep", "copy", "moves", "joins", "integers", "layout", "reach", "work", "caller",
    "overlaps",
}  # fmt: skip

#: Orders of a tensor in memory that a specialised kernel may require.
MEMORY_ORDERS = ("contiguous", "channels_last")


def parse_specialisation(text: str) -> Specialisation:
    """Parses `function argument=types/order …`; types is one, a group or several with `|`; either may be left out.

    Raises:
        TableError: The text is not well formed, or names an element type or order that does not exist.
    """
    function, *rest = text.split()
    demands: list[tuple[str, tuple[str, ...], str]] = []
    for part in rest:
        match = re.fullmatch(r"(\w+)=([\w|]*)(?:/(\w+))?", part)
        if not match or not re.fullmatch(r"[A-Za-z_]\w*", function):
            raise TableError(f"{text!r} is not 'function argument=types/order …'")
        name, types, order = match.groups()
        if name in {demand[0] for demand in demands}:
            raise TableError(f"{text!r} names {name} twice; several types are written {name}=f32|f64")
        if types in MEMORY_ORDERS and order is None:
            types, order = "", types
        dtypes = [d for item in types.split("|") if item for d in DTYPE_GROUPS.get(item, [item])]
        if set(dtypes) - set(DTYPES):
            raise TableError(f"{text!r}: unknown dtype {', '.join(sorted(set(dtypes) - set(DTYPES)))}")
        if order is not None and order not in MEMORY_ORDERS:
            raise TableError(f"{text!r}: unknown order {order}; there are {', '.join(MEMORY_ORDERS)}")
        demands.append((name, tuple(dict.fromkeys(dtypes)), order or ""))
    if not demands:
        raise TableError(f"{text!r} asks for nothing: a specialised kernel names an element type or an order")
    return Specialisation(function, tuple(demands))


def _as_list(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _one_text(entry: dict, key: str) -> str:
    if not isinstance(entry[key], str):
        raise TableError(f"'{key}' is a list, must be one text")
    return entry[key]


def _make_op(entry: dict) -> Op:
    where = f"line {entry['line']}"
    unknown = set(entry) - _KEYS
    if unknown:
        raise TableError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    if "schema" not in entry:
        raise TableError(f"{where}: the entry has no schema")
    try:
        schema = parse_schema(_one_text(entry, "schema"))
        out = parse_schema(_one_text(entry, "out")) if "out" in entry else None
        specialised = tuple(parse_specialisation(text) for text in _as_list(entry.get("specialised", [])))
    except TableError as error:
        raise TableError(f"{where}: {error}") from None
    dtypes: list[str] = []
    for item in _as_list(entry.get("dtypes", [])):
        dtypes += DTYPE_GROUPS.get(item, [item])
    tags = frozenset(_as_list(entry.get("tags", [])))
    joins = tuple(_as_list(entry.get("joins", [])))
    for what, bad in (
        ("dtype", set(dtypes) - set(DTYPES)),
        ("tag", tags - set(TAGS)),
        ("kind of moving", {entry["moves"]} - set(MOVES) if "moves" in entry else set()),
        ("layout", {entry["layout"]} - set(LAYOUTS) if "layout" in entry else set()),
        ("reach", {entry["reach"]} - set(REACHES) if "reach" in entry else set()),
        ("caller", {entry["caller"]} - set(CALLERS) if "caller" in entry else set()),
        ("argument that it joins", set(joins) - {a.name for a in schema.arguments}),
    ):
        if bad:
            raise TableError(f"{where}: unknown {what} {', '.join(sorted(bad))} of {schema.name}")
    kernel = entry.get("kernel", "")
    if "/" in kernel and kernel.partition("/")[0] not in KERNEL_LIBRARIES:
        raise TableError(f"{where}: {kernel} is in no folder of {', '.join(KERNEL_LIBRARIES)}")
    if out and not any(a.is_out for a in out.arguments):
        raise TableError(f"{where}: {out.name} has no output argument")
    if "in_place" in entry:
        in_place = _as_list(entry["in_place"])
    elif "pointwise" in tags and out:
        in_place = [a.name for a in out.arguments if a.letter in "Tt" and not a.is_out]
    else:
        in_place = []
    names = {a.name for a in (out or schema).arguments if a.letter in "Tt" and not a.is_out}
    overlaps = _as_list(entry.get("overlaps", []))
    for what, listed in (("in_place", in_place), ("overlaps", overlaps)):
        if set(listed) - names:
            raise TableError(f"{where}: {what} names no tensor that {schema.name} is given: {listed}")
    facts = {
        key: entry.get(key, "")
        for key in ("keep", "copy", "moves", "integers", "layout", "reach", "work", "caller", "notes")
    }
    return Op(schema, out, entry.get("kernel"), tuple(dict.fromkeys(dtypes)), tags, tuple(in_place), tuple(overlaps),
              joins=joins, specialised=specialised, line=entry["line"], **facts)  # fmt: skip


def integer_form(op: Op, table: dict[str, Op]) -> str:
    """The operator on integers, by way of the operator that ``op`` becomes before; "" = none."""
    return op.integers and (table[op.integers].integers or op.integers)


def _check_integers(op: Op, table: dict[str, Op]) -> None:
    """The form exists, and each of its arguments is one of ``op``, or says how that one or the result is held."""
    if not op.integers:
        return
    form = table.get(op.integers)
    if form is None:
        raise TableError(f"line {op.line}: {op.schema.name} becomes {op.integers}, which is not in the table")
    if form.integers:
        if table[form.integers].integers:
            raise TableError(
                f"line {op.line}: {op.schema.name} becomes {form.schema.name}, which has no form of its own"
            )
        return
    own = {a.name for a in op.schema.arguments}
    first = tuple(a.name for a in op.schema.arguments[:3])
    if any(a.name == "weight_scales" for a in form.schema.arguments) and first != ("input", "weight", "bias"):
        raise TableError(f"line {op.line}: {form.schema.name} has weight_scales: {op.schema.name} must begin with "
                         "input, weight and bias")  # fmt: skip
    for a in form.schema.arguments:
        of = re.sub("_(scale|zero_point|scales)$", "", a.name)
        if not {a.name, of} & (own | {"output", "output_min", "output_max"}):
            raise TableError(
                f"line {op.line}: {form.schema.name} takes '{a.name}', which {op.schema.name} does not have"
            )


def read_table(path: Path) -> list[Op]:
    """Reads and checks a table. Raises TableError that names the file and the line."""
    try:
        ops = [_make_op(entry) for entry in read_yaml(path.read_text(encoding="utf-8"))]
        seen: dict[str, int] = {}
        for op in ops:
            if op.schema.name in seen:
                raise TableError(f"line {op.line}: {op.schema.name} is on line {seen[op.schema.name]} already")
            seen[op.schema.name] = op.line
        for op in ops:
            _check_integers(op, {one.schema.name: one for one in ops})
    except TableError as error:
        raise TableError(f"{path.name}: {error}") from None
    except UnicodeDecodeError as error:
        raise TableError(f"{path.name}: is no text in UTF-8: {error}") from None
    return ops
