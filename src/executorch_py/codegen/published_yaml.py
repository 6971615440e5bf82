"""Reads the published tables of kernels, ``functions.yaml`` and ``custom_ops.yaml``, beside our own (ops_yaml.py).

An entry names an operator of ATen (``op``) or brings its schema (``func``), and lists its kernels:

    - op: add.out
      type_alias:
        T0: [Double, Float]
      dim_order_alias:
        D0: [[0, 1, 2, 3]]
      kernels:
        - arg_meta: null
          kernel_name: mine::add_out
        - arg_meta:
            self: [T0, D0]
            out: [T0, D0]
          kernel_name: mine::add_float_out

``mine::add_out`` is the function ``mine::native::add_out``. A kernel without ``arg_meta`` takes every call. An entry
may name the functional variant (``op: add.Tensor``, or ``func`` without out arguments): it stands for its out variant,
which is what programs call; without kernels it only declares the operator for export. Uses the standard library only,
as ops_yaml.py does. Not for: tables in our own format.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .element_types import ELEMENT_TYPES
from .kernel_form import KernelForm
from .ops_yaml import Op, Schema, Specialisation, TableError, parse_schema, read_table

#: torch's names of element types in ``type_alias`` -> ours.
_DTYPE_OF = {one.name: one.text for one in ELEMENT_TYPES}
_KEYS = {"line", "op", "func", "kernels", "type_alias", "dim_order_alias", "variants", "tags", "cpp_no_default_args"}


@dataclass(frozen=True)
class PublishedKernel:
    """One kernel: the operator, the C++ function with its namespaces, and what it is for (None: every call)."""

    schema: Schema
    function: str
    specialisation: Specialisation | None = None


def is_published(text: str) -> bool:
    """Whether a table is in the published form: its first entry has ``op`` or ``func``, and a list of kernels."""
    return bool(re.search(r"^- (op|func):", text, re.MULTILINE)) and bool(
        re.search(r"^\s+kernels:", text, re.MULTILINE)
    )


def operator_name(entry: Mapping[str, Any]) -> str:
    """The full name of an entry's operator, "aten::add.out"."""
    if ("op" in entry) == ("func" in entry):
        raise TableError(f"line {entry['line']}: an entry has 'op', a name, or 'func', a schema")
    text = str(entry.get("op") or entry["func"]).strip()
    text = text if "::" in text.partition("(")[0] else f"aten::{text}"
    return out_variant_of(text) if "op" in entry else _out_form(text).name


@functools.cache
def operator_table() -> list[Op]:
    """The operator table of this package."""
    return read_table(_operators())


@functools.cache
def _out_variants() -> dict[str, str]:
    """Functional operators of ATen -> what programs call, ``aten::add.Tensor`` -> ``aten::add.out``."""
    return {op.schema.name: op.out.name for op in operator_table() if op.out}


def out_variant_of(name: str) -> str:
    """What programs call for an operator of ATen; the name itself when it is that, or is not known."""
    return _out_variants().get(name, name)


def _out_form(text: str) -> Schema:
    """A schema with out arguments: the given one, or that of the out variant of a functional operator."""
    schema = parse_schema(text)
    is_named_out = re.search(r"\.(\w+_)?out$", schema.name)
    if is_named_out or any(argument.mutated for argument in schema.arguments):
        return schema
    return KernelForm.of(schema).schema


def _is_declaration(entry: Mapping[str, Any]) -> bool:
    """Whether an entry declares a functional operator and brings no kernel."""
    return "func" in entry and "kernels" not in entry and "!" not in str(entry["func"])


def read_published(path: Path) -> list[PublishedKernel]:
    """The kernels of a table, those for every call before those for certain ones.

    Raises:
        TableError: It is not well formed; names the file and the line.
    """
    found: dict[str, list[PublishedKernel]] = {}
    try:
        for entry in read_entries(path.read_text(encoding="utf-8")):
            name = operator_name(entry)
            if _is_declaration(entry):
                continue
            if name in found:
                raise TableError(f"line {entry['line']}: {name} has an entry already")
            found[name] = _kernels_of(entry, name)
    except TableError as error:
        raise TableError(f"{path.name}: {error}") from None
    except UnicodeDecodeError as error:
        raise TableError(f"{path.name}: is no text in UTF-8: {error}") from None
    return [kernel for kernels in found.values() for kernel in kernels]


def selected(entries: Iterable[Mapping[str, Any]]) -> dict[str, set[str] | None]:
    """The operators that a table selects, each with its element types; None: all."""
    found: dict[str, set[str] | None] = {}
    for entry in entries:
        name = operator_name(entry)
        if name not in found or not _is_declaration(entry):
            found[name] = dtypes_of(entry)
    return found


def dtypes_of(entry: Mapping[str, Any]) -> set[str] | None:
    """The element types that an entry's kernels are for; None: all."""
    kernels = entry.get("kernels") or []
    if not kernels or any(one.get("arg_meta") is None for one in kernels):
        return None
    aliases = {alias for one in kernels for alias, _ in one["arg_meta"].values()}
    return {dtype for alias in aliases for dtype in _types(entry, alias)}


def _kernels_of(entry: Mapping[str, Any], name: str) -> list[PublishedKernel]:
    where = f"line {entry['line']}: {name}"
    if unknown := set(entry) - _KEYS:
        raise TableError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    schema = _schema_of(entry, name)
    if not any(argument.is_out for argument in schema.arguments):
        raise TableError(f"{where}: a kernel writes its results into out arguments; '{schema.text}' has none")
    kernels = entry.get("kernels")
    if not isinstance(kernels, list) or not kernels:
        raise TableError(f"{where}: 'kernels' must be a list of arg_meta and kernel_name")
    rows = [row for one in kernels for row in _rows_of(entry, schema, one, where)]
    rows.sort(key=lambda row: row.specialisation is not None)
    demands = [row.specialisation and frozenset(row.specialisation.demands) for row in rows]
    if len(set(demands)) < len(demands):
        raise TableError(f"{where}: two of its kernels are for the same calls")
    return rows


def _schema_of(entry: Mapping[str, Any], name: str) -> Schema:
    if "func" in entry:
        text = str(entry["func"]).strip()
        return _out_form(text if "::" in text.partition("(")[0] else f"aten::{text}")
    known = {op.out.name: op.out for op in operator_table() if op.out}
    if name not in known:
        raise TableError(f"line {entry['line']}: {name} is no operator of ops.yaml; give its schema, with 'func'")
    return known[name]


def _operators() -> Path:
    installed = Path(__file__).parents[1] / "share" / "ops.yaml"
    return installed if installed.is_file() else Path(__file__).resolve().parents[2] / "cpp" / "ops" / "ops.yaml"


def _rows_of(entry: Mapping[str, Any], schema: Schema, kernel: Any, where: str) -> Iterable[PublishedKernel]:
    if not isinstance(kernel, dict) or set(kernel) != {"arg_meta", "kernel_name"}:
        raise TableError(f"{where}: a kernel has arg_meta (null, or the types of tensors) and kernel_name")
    *spaces, function = str(kernel["kernel_name"]).split("::")
    if not spaces or not all(re.fullmatch(r"[A-Za-z_]\w*", part) for part in (*spaces, function)):
        raise TableError(f"{where}: '{kernel['kernel_name']}' is no function in a namespace, such as mine::add_out")
    function = "::".join((*spaces, "native", function))
    pairs = kernel["arg_meta"]
    if pairs is None:
        return [PublishedKernel(schema, function)]
    tensors = {argument.name for argument in schema.arguments if argument.letter in "Ttvw"}
    if not isinstance(pairs, dict):
        raise TableError(f"{where}: arg_meta is '{pairs}', must be null or the types of tensors")
    for name, pair in pairs.items():
        if name not in tensors or not isinstance(pair, list) or len(pair) != 2:
            raise TableError(f"{where}: '{name}: {pair}' must be a tensor of the schema and [type alias, order alias]")
    aliases = sorted({pair[0] for pair in pairs.values()}), sorted({pair[1] for pair in pairs.values()})
    choices = [_types(entry, one) for one in aliases[0]], [_orders(entry, one) for one in aliases[1]]
    rows = []
    for dtypes in itertools.product(*choices[0]):
        for orders in itertools.product(*choices[1]):
            chosen = {**dict(zip(aliases[0], dtypes, strict=True)), **dict(zip(aliases[1], orders, strict=True))}
            demands = tuple((name, (chosen[t],), chosen[d]) for name, (t, d) in pairs.items())
            rows.append(PublishedKernel(schema, function, Specialisation(function, demands)))
    return rows


def _types(entry: Mapping[str, Any], alias: str) -> list[str]:
    named = (entry.get("type_alias") or {}).get(alias)
    if not isinstance(named, list) or not named or set(named) - set(_DTYPE_OF):
        wrong = named if named is None else ", ".join(map(str, set(named) - set(_DTYPE_OF)))
        raise TableError(
            f"line {entry['line']}: the type_alias {alias} must list types of torch (Float, Long), got {wrong}"
        )
    return [_DTYPE_OF[name] for name in named]


def _orders(entry: Mapping[str, Any], alias: str) -> list[str]:
    named = (entry.get("dim_order_alias") or {}).get(alias)
    orders = []
    for one in named if isinstance(named, list) else []:
        order = [int(dim) for dim in one] if isinstance(one, list) and all(str(dim).isdigit() for dim in one) else []
        if order == list(range(len(order))) and order:
            orders.append("contiguous")
        elif order == [0, *range(2, len(order)), 1]:
            orders.append("channels_last")
        else:
            raise TableError(f"line {entry['line']}: {one} of {alias} is neither row-major nor channels last")
    if not orders:
        raise TableError(f"line {entry['line']}: the dim_order_alias {alias} must list orders such as [0, 1, 2, 3]")
    return list(dict.fromkeys(orders))


# --------------------------------------------------------------------------------------------------------------- YAML


def read_entries(text: str) -> list[dict[str, Any]]:
    """Parses a list of mappings with mappings and lists inside: as much of YAML as these tables use.

    Raises:
        TableError: Names the line.
    """
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        if "\t" in line:
            raise TableError(f"line {number}: a tab; YAML is indented with blanks")
        if line and line != "---":
            lines.append((number, len(line) - len(line.lstrip()), line.lstrip()))
    found, rest = _block(lines, 0)
    if rest or not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        number = rest[0][0] if rest else 1
        raise TableError(f"line {number}: the table must be a list of entries, '- op: name' and what belongs to it")
    begins = [number for number, indent, content in lines if indent == lines[0][1] and content.startswith("- ")]
    return [{"line": number, **entry} for number, entry in zip(begins, found, strict=True)]


_Lines = list[tuple[int, int, str]]


def _block(lines: _Lines, indent: int) -> tuple[Any, _Lines]:
    """What stands at ``indent`` or deeper, and the lines behind it."""
    if not lines or lines[0][1] < indent:
        return None, lines
    indent = lines[0][1]
    if lines[0][2].startswith("- "):
        items: list[Any] = []
        while lines and lines[0][1] == indent and lines[0][2].startswith("- "):
            number, _, content = lines[0]
            inner = content[2:].lstrip()
            item, lines = _block([(number, indent + len(content) - len(inner), inner), *lines[1:]], indent + 1)
            items.append(item)
        return items, lines
    entries: dict[str, Any] = {}
    while lines and lines[0][1] == indent:
        number, _, content = lines[0]
        match = re.fullmatch(r"(\w+):(?:\s+(.+))?", content)
        if not match or match[1] in entries:
            raise TableError(f"line {number}: expected 'key: value' with another key, got {content!r}")
        value, lines = (_flow(match[2], number), lines[1:]) if match[2] else _block(lines[1:], indent + 1)
        entries[match[1]] = value
    if lines and lines[0][1] > indent:
        raise TableError(f"line {lines[0][0]}: is indented deeper than what it belongs to")
    return entries, lines


def _flow(text: str, number: int) -> Any:
    if text in ("null", "~"):
        return None
    if text[0] in "\"'":
        if len(text) < 2 or text[-1] != text[0]:
            raise TableError(f"line {number}: a quoted text must end on its line")
        return text[1:-1]
    if text[0] != "[":
        return text
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[\[\]]|[^\[\],\s][^\[\],]*", text):
        if token == "[":
            stack.append([])
        elif token != "]":
            stack[-1].append(token.strip())
        elif len(stack) > 1:
            stack[-2].append(stack.pop())
        else:
            break
    if len(stack) != 1 or len(stack[0]) != 1:
        raise TableError(f"line {number}: a list must end on its line")
    return stack[0][0]
