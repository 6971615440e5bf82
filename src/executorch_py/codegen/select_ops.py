"""Reads which kernels a build keeps (-DET_SELECT_OPS=file): a list, a table in the format of ops.yaml, or a `.pte` file.

A list has one kernel a line, with the element types it is wanted for when not all are: `aten::add.out f32 i64`.
A .yaml file has entries `- op: aten::add.out` with an optional `dtypes: [f32, i64]`, or is a published table of kernels
(published_yaml.py), which selects the operators that it names.
Operators are named as programs call them, or by their functional variant, aten::add.Tensor.
A .pte file selects the kernels that it calls, for the element types of the tensors that it calls them with.
"""

from __future__ import annotations

from pathlib import Path

from .ops_yaml import DTYPE_GROUPS, DTYPES, TableError, read_yaml
from .pte_operators import read_pte_operators
from .published_yaml import is_published, out_variant_of, read_entries, selected


class Selection:
    """The kernels and element types of a build. Without entries: everything."""

    def __init__(self, entries: dict[str, set[str] | None] | None = None) -> None:
        """`entries`: kernel name → element types, None = all of them. `entries=None` selects every kernel."""
        self._entries = entries

    def has(self, name: str) -> bool:
        """True when the kernel called `name` is part of the build."""
        return self._entries is None or name in self._entries

    def dtypes(self, name: str) -> set[str] | None:
        """Element types that kernel `name` is built for; None = all."""
        return None if self._entries is None else self._entries.get(name)


def _expand(items: list[str], where: str) -> set[str] | None:
    dtypes: set[str] = set()
    for item in items:
        dtypes.update(DTYPE_GROUPS.get(item, [item]))
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
    if path.suffix == ".pte":
        try:
            return Selection(dict(read_pte_operators(path.read_bytes())))
        except TableError as error:
            raise TableError(f"{path.name}: {error}") from None
    entries: dict[str, set[str] | None] = {}
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".yaml", ".yml") and is_published(text):
        try:
            entries = selected(read_entries(text))
        except TableError as error:
            raise TableError(f"{path.name}: {error}") from None
    elif path.suffix in (".yaml", ".yml"):
        for entry in read_yaml(text):
            where = f"{path.name}: line {entry['line']}"
            if set(entry) - {"line", "op", "dtypes"} or "op" not in entry:
                raise TableError(f"{where}: an entry has 'op' and, when not all are wanted, 'dtypes'")
            dtypes = entry.get("dtypes", [])
            entries[out_variant_of(entry["op"])] = _expand(dtypes if isinstance(dtypes, list) else [dtypes], where)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split()
            if words:
                entries[out_variant_of(words[0])] = _expand(words[1:], f"{path.name}: line {number}")
    return Selection(entries)
