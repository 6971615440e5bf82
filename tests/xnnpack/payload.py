"""Reads what a file's XNNPACK payloads say: nodes and values, for tests that look at how a graph was written.

>>> for graph in read_payloads(path.read_bytes()):  # doctest: +SKIP
...     print(graph.count("StaticTranspose"))

The names of node types come from the schema. Trusts the bytes; the runtime half is what checks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flatbuffers import number_types
from flatbuffers.table import Table

_SCHEMA = (Path(__file__).parents[2] / "backends" / "xnnpack" / "schema" / "payload.fbs").read_text()
_MAGIC = b"XH00"


def _names(kind: str) -> list[str]:
    """The members of a union or enum of the schema, in order."""
    body = re.sub(r"//.*", "", re.search(kind + r"[^{]*\{([^}]*)\}", _SCHEMA)[1])  # type: ignore[index]
    return [re.split(r"[:=]", member)[0].strip() for member in body.split(",") if member.strip()]


NODES = ["NONE", *_names("union NodeUnion")]
DATATYPES = _names("enum Datatype")


@dataclass(frozen=True)
class Value:
    """A value of a graph.

    Attributes:
        datatype: As in the schema: "fp32", "qcint8".
        dims: Sizes; upper bounds of dynamic ones.
        is_constant: Whether the file holds its bytes.
        external_id: Position among the call's arguments, 2^32 - 1 for what is none.
        group_size: Of "qbint4": how many input channels share a scale.
    """

    id: int
    datatype: str
    dims: tuple[int, ...]
    is_constant: bool
    external_id: int
    group_size: int = 0


@dataclass(frozen=True)
class Graph:
    """One payload.

    Attributes:
        nodes: Types of the nodes, in the order in which they run.
        values: Id -> value.
        inputs: Ids of what the delegate is given.
        outputs: Ids of what it makes.
    """

    nodes: tuple[str, ...]
    values: dict[int, Value]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def count(self, node: str) -> int:
        """How many nodes are of a type."""
        return self.nodes.count(node)


def _offset(table: Table, field: int) -> int:
    found: int = table.Offset(4 + 2 * field)
    return found


def _number(table: Table, field: int, kind: type, otherwise: int = 0) -> int:
    found: int = table.GetSlot(4 + 2 * field, otherwise, kind)
    return found


def _child(table: Table, field: int) -> Table:
    return Table(table.Bytes, table.Indirect(table.Pos + _offset(table, field)))


def _numbers(table: Table, field: int) -> tuple[int, ...]:
    at = _offset(table, field)
    if not at:
        return ()
    start = table.Vector(at)
    return tuple(table.Get(number_types.Uint32Flags, start + 4 * i) for i in range(table.VectorLen(at)))


def _union(table: Table, field: int) -> Table:
    inside = Table(table.Bytes, 0)
    table.Union(inside, _offset(table, field))
    return inside


def _tables(table: Table, field: int) -> Iterator[Table]:
    at = _offset(table, field)
    if at:
        start = table.Vector(at)
        for i in range(table.VectorLen(at)):
            yield Table(table.Bytes, table.Indirect(start + 4 * i))


def _value(table: Table) -> Value:
    inside, group = _union(table, 1), 0
    if _number(table, 0, number_types.Uint8Flags) == 2:  # quantized
        if _number(inside, 1, number_types.Uint8Flags) == 4:  # PerChannelGroupQuant
            group = _number(_union(inside, 2), 2, number_types.Int32Flags)
        inside = _child(inside, 0)
    return Value(
        id=_number(inside, 6, number_types.Uint32Flags),
        datatype=DATATYPES[_number(inside, 0, number_types.Int16Flags)],
        dims=_numbers(inside, 2),
        is_constant=_number(inside, 3, number_types.Uint32Flags) != 0,
        external_id=_number(inside, 4, number_types.Uint32Flags),
        group_size=group,
    )


def node_types_at(file: bytes) -> list[int]:
    """Where in a file the types of its first payload's nodes stand, a byte each, for tests that write others there."""
    header = file.index(_MAGIC) - 4
    start = header + int.from_bytes(file[header + 10 : header + 14], "little")
    data = file[start:]
    root = Table(data, int.from_bytes(data[:4], "little"))
    return [start + node.Pos + _offset(node, 0) for node in _tables(root, 1)]


def read_payloads(file: bytes) -> list[Graph]:
    """The payloads of a `.pte` file, in the order in which they lie there."""
    graphs = []
    for found in re.finditer(re.escape(_MAGIC), file):
        header = found.start() - 4
        if file[header : header + 4] != bytes(4):
            continue
        offset = header + int.from_bytes(file[header + 10 : header + 14], "little")
        size = int.from_bytes(file[header + 14 : header + 18], "little")
        data = file[offset : offset + size]
        root = Table(data, int.from_bytes(data[:4], "little"))
        values = [_value(table) for table in _tables(root, 2)]
        graphs.append(
            Graph(
                nodes=tuple(NODES[_number(node, 0, number_types.Uint8Flags)] for node in _tables(root, 1)),
                values={value.id: value for value in values},
                inputs=_numbers(root, 4),
                outputs=_numbers(root, 5),
            )
        )
    return graphs
