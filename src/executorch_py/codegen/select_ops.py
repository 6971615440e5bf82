"""Reads which kernels a build keeps (-DET_SELECT_OPS=files): lists, tables in the format of ops.yaml, `.pte` files.

A list has one kernel a line, with the element types it is wanted for when not all are: `aten::add.out float32 int64`.
The short names of ops.yaml (f32, i64) are read as well.
A .yaml file has entries `- op: aten::add.out` with an optional `dtypes: [float32, int64]`, or is a published table of
kernels (published_yaml.py), which selects the operators that it names.
Operators are named as programs call them, or by their functional variant, aten::add.Tensor.
A .pte file selects the kernels that it calls, for the element types of the tensors that it calls them with.
Several files select together. What no kernel library has, or what a model calls and the files do not select, is a
MissingError that names file, operator and element type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from .element_types import TEXTS, told
from .ops_yaml import DTYPE_GROUPS, DTYPES, Op, TableError, read_yaml
from .pte_operators import read_pte_operators
from .published_yaml import is_published, out_variant_of, read_entries, selected

#: Kernels that every runtime has (kernels/prim).
_PRIMITIVE = "executorch_prim::"


class MissingError(TableError):
    """Programs or lists call kernels that are not there."""


class Selection:
    """The kernels and element types of a build. Without entries: everything."""

    def __init__(self, entries: dict[str, set[str] | None] | None = None) -> None:
        """`entries`: kernel name → element types, None = all of them. `entries=None` selects every kernel."""
        self._entries = entries

    @property
    def entries(self) -> Mapping[str, set[str] | None]:
        """Kernel -> element types, None = all; nothing when everything is selected."""
        return self._entries or {}

    def has(self, name: str) -> bool:
        """True when the kernel called `name` is part of the build."""
        return self._entries is None or name in self._entries

    def dtypes(self, name: str) -> set[str] | None:
        """Element types that kernel `name` is built for; None = all."""
        return None if self._entries is None else self._entries.get(name)


def _expand(items: list[str], where: str) -> set[str] | None:
    dtypes: set[str] = set()
    for item in items:
        dtypes.update(DTYPE_GROUPS.get(item, [TEXTS.get(item, item)]))
    if dtypes - set(DTYPES):
        raise TableError(f"{where}: unknown element type {', '.join(sorted(dtypes - set(DTYPES)))}")
    return dtypes or None


def read_selection(path: Path | None) -> Selection:
    """Reads a selection file; None selects every kernel.

    Raises:
        TableError: The file is not well formed; the message names file and line.
    """
    if path is None:
        return Selection()
    return Selection(_entries_of(path))


def read_selections(paths: Sequence[Path], ops: Iterable[Op], others: Sequence[str] = ()) -> Selection:
    """Reads several selection files as one; none of them selects every kernel.

    Args:
        paths: Lists, tables and programs.
        ops: The operator table.
        others: Names and patterns (``my_ops::*``) of kernels that another library has.

    Raises:
        TableError: A file is not well formed.
        MissingError: A file names what no kernel is there for.
    """
    entries: dict[str, set[str] | None] = {}
    missing: list[str] = []
    table = _kernels_of(ops)
    for path in paths:
        for name, dtypes in _entries_of(path).items():
            missing += _missing_from(table, name, dtypes, path, others)
            known = entries.setdefault(name, set())
            entries[name] = None if dtypes is None or known is None else known | dtypes
    _refuse(missing)
    return Selection(entries) if paths else Selection()


def require_selected(selection: Selection, models: Sequence[Path], ops: Iterable[Op], others: Sequence[str]) -> None:
    """Checks that a selection has every kernel that programs call, for the element types they call it with.

    Raises:
        MissingError: Each call that is missing is named: program, kernel, element types.
    """
    missing: list[str] = []
    table = _kernels_of(ops)
    for path in models:
        for name, dtypes in _entries_of(path).items():
            if absent := _missing_from(table, name, dtypes, path, others):
                missing += absent
            elif name in table and not selection.has(name):
                missing.append(f"{path.name} calls {_told(name, dtypes)}, which is not selected")
            elif name in table and (kept := selection.dtypes(name)) is not None and dtypes and dtypes - kept:
                missing.append(f"{path.name} calls {name} for {_listed(dtypes - kept)}, which is not selected")
    _refuse(missing)


def _kernels_of(ops: Iterable[Op]) -> dict[str, set[str]]:
    """Kernel -> element types of its main tensor; empty: the table does not say."""
    found: dict[str, set[str]] = {}
    for op in ops:
        if op.kernel or "symbolic" in op.tags:
            found.setdefault(op.kernel_schema.name, set()).update(op.dtypes)
    return found


def _missing_from(
    table: Mapping[str, set[str]], name: str, dtypes: set[str] | None, path: Path, others: Sequence[str]
) -> list[str]:
    if name.startswith(_PRIMITIVE) or any(fnmatchcase(name, other) for other in others):
        return []
    if name not in table:
        return [f"{path.name} calls {_told(name, dtypes)}, for which there is no kernel{_meant(table, name)}"]
    if dtypes and table[name] and not dtypes & table[name]:  # of a call's tensors, one is the kernel's main one
        return [f"{path.name} calls {_told(name, dtypes)}, whose kernel is for {_listed(table[name])}"]
    return []


def _meant(table: Iterable[str], name: str) -> str:
    """The overloads of an operator that was named without one, or the kernel whose name is nearly the same."""
    near = sorted(known for known in table if known.startswith(f"{name}.")) or get_close_matches(name, table, 1, 0.8)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _told(name: str, dtypes: set[str] | None) -> str:
    return f"{name} for {_listed(dtypes)}" if dtypes else name


def _listed(dtypes: Iterable[str]) -> str:
    return " ".join(told(dtypes))


def _refuse(missing: list[str]) -> None:
    if missing:
        raise MissingError("\n".join(dict.fromkeys(missing)))


def _entries_of(path: Path) -> dict[str, set[str] | None]:
    try:
        return _read(path)
    except UnicodeDecodeError:
        raise TableError(f"{path.name} is no text: give a list, a table (.yaml) or a program (.pte)") from None
    except TableError as error:
        raise TableError(f"{path.name}: {error}") from None


def _read(path: Path) -> dict[str, set[str] | None]:
    if path.suffix == ".pte":
        return dict(read_pte_operators(path.read_bytes()))
    text = path.read_text(encoding="utf-8")
    is_table = path.suffix in (".yaml", ".yml")
    if is_table and is_published(text):
        return selected(read_entries(text))
    entries: dict[str, set[str] | None] = {}
    if is_table:
        for entry in read_yaml(text):
            where = f"line {entry['line']}"
            if set(entry) - {"line", "op", "dtypes"} or "op" not in entry:
                raise TableError(f"{where}: an entry has 'op' and, when not all are wanted, 'dtypes'")
            dtypes = entry.get("dtypes", [])
            entries[out_variant_of(entry["op"])] = _expand(dtypes if isinstance(dtypes, list) else [dtypes], where)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split()
            if words:
                entries[out_variant_of(words[0])] = _expand(words[1:], f"line {number}")
    return entries
