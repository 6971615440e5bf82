#!/usr/bin/env python3
"""Makes the layouts of a schema's tables, which schema/table_verifier.h looks through, from flatc's binary schema.

    gen_table_layouts.py program.bfbs program_layout.h

A layout is one array of fields and one of the tables' first fields; table 0 is the root. Members of a union follow each
other. Not for: schemas with vectors of unions, which are refused.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from executorch_py.codegen.flatbuffer import Table, read_root

# Base types of reflection.fbs, and bytes of the numbers among them.
_UNION_TYPE, _STRING, _VECTOR, _OBJECT, _UNION = 1, 13, 14, 15, 16
_NUMBER_BYTES = {1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2, 7: 4, 8: 4, 9: 8, 10: 8, 11: 4, 12: 8}


class Layouts:
    """The tables that the root of a schema leads to."""

    def __init__(self, schema: Table) -> None:
        """`schema`: the root of a binary schema."""
        self._objects = schema.tables(0)
        self._unions = schema.tables(1)
        root = schema.table(4)
        assert root is not None
        self.identifier = schema.text(2)
        self.name = root.text(0)
        self.tables: list[str] = [self.name]
        self.fields: list[list[str]] = []
        for name in self.tables:  # grows while it is read
            self.fields.append(self._fields_of(name))

    def _number(self, name: str) -> int:
        if name not in self.tables:
            self.tables.append(name)
        return self.tables.index(name)

    def _fields_of(self, name: str) -> list[str]:
        table = next(one for one in self._objects if one.text(0) == name)
        fields = sorted(table.tables(1), key=lambda field: field.scalar(2, "H"))
        return ["{{FieldKind::k{}, {}}}".format(*self._field(field)) for field in fields]

    def _field(self, field: Table) -> tuple[str, int]:
        kind = field.table(1)
        assert kind is not None
        base, element, index = kind.scalar(0, "b"), kind.scalar(1, "b"), kind.scalar(2, "i", -1)
        if base == _UNION_TYPE:
            return "UnionType", len(self._members(index))
        if base == _UNION:
            members = [self._number(member) for member in self._members(index)]
            if members != list(range(members[0], members[0] + len(members))):
                raise ValueError(f"{field.text(0)}: a member of the union stands in another place, too")
            return "Union", members[0]
        if base == _STRING or (base == _VECTOR and element == _STRING):
            return "String" if base == _STRING else "Strings", 0
        if _OBJECT in (base, element):
            return self._of_object(self._objects[index], base == _VECTOR)
        number = _NUMBER_BYTES.get(element if base == _VECTOR else base)
        if number is None:
            raise ValueError(f"{field.text(0)}: a field of this kind is not known here")
        return "Vector" if base == _VECTOR else "Number", number

    def _of_object(self, target: Table, is_vector: bool) -> tuple[str, int]:
        if not target.scalar(2, "?", False):
            return "Tables" if is_vector else "Table", self._number(target.text(0))
        if not is_vector:
            raise ValueError(f"{target.text(0)}: a struct as a field is not known here")
        return "Vector", target.scalar(4, "i")

    def _members(self, index: int) -> list[str]:
        """Tables of a union by their value, which counts from 1."""
        values = sorted(self._unions[index].tables(1), key=lambda value: value.scalar(1, "q"))
        members = [value.table(3) for value in values if value.scalar(1, "q") != 0]
        return [self._objects[member.scalar(2, "i", -1)].text(0) for member in members if member is not None]

    def header(self, source: str) -> str:
        """The generated header."""
        *namespaces, name = self.name.split(".")
        starts = [0]
        for fields in self.fields:
            starts.append(starts[-1] + len(fields))
        rows = "".join(
            f"    {', '.join(fields)}{',' if fields else ''}  // {table}\n"
            for table, fields in zip(self.tables, self.fields, strict=True)
        )
        return f"""// Generated from {source} by tools/gen_table_layouts.py.
#pragma once

#include "schema/table_verifier.h"

namespace {"::".join(namespaces)} {{

inline constexpr FieldLayout k{name}Fields[] = {{
{rows}}};
inline constexpr uint8_t k{name}FirstFields[] = {{{", ".join(map(str, starts))}}};
inline constexpr TableLayouts k{name}Layouts = {{k{name}Fields, k{name}FirstFields, "{self.identifier}"}};

}}  // namespace {"::".join(namespaces)}
"""


def main() -> int:
    source, target = map(Path, sys.argv[1:3])
    target.write_text(Layouts(read_root(source.read_bytes(), b"BFBS")).header(source.stem + ".fbs"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
