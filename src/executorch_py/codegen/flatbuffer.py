"""FlatBuffers without a schema compiler: reading with every offset checked, and writing. Standard library only.

A field has a slot, its place among the fields of its table in the .fbs file. A damaged file is an error, not a crash.

Example:
    >>> data = encode(b"TEST", {0: Scalar("I", 7), 1: "name", 2: [{0: Scalar("q", -1)}]})
    >>> root = read_root(data, b"TEST")
    >>> root.scalar(0, "I"), root.text(1), [one.scalar(0, "q") for one in root.tables(2)]
    (7, 'name', [-1])
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Aligned", "DamagedError", "Numbers", "Scalar", "Table", "encode", "read_root"]


class DamagedError(ValueError):
    """The bytes are not what they should be; the text says where."""


@dataclass(frozen=True)
class Table:
    """A table: ``data`` and the position of its start."""

    data: bytes | memoryview
    position: int

    def _read(self, fmt: str, at: int) -> Any:
        size = struct.calcsize(fmt)
        if at < 0 or at + size > len(self.data):
            raise DamagedError(f"an offset leads to byte {at}, the file has {len(self.data)}")
        return struct.unpack_from("<" + fmt, self.data, at)[0]

    def _field(self, slot: int) -> int:
        """Position of the field in `slot`; 0 when it is absent."""
        vtable = self.position - self._read("i", self.position)
        entry = 4 + 2 * slot
        offset = self._read("H", vtable + entry) if entry < self._read("H", vtable) else 0
        return self.position + offset if offset else 0

    def scalar(self, slot: int, fmt: str, default: Any = 0) -> Any:
        """A number in the format of ``struct``; ``default`` when absent."""
        at = self._field(slot)
        return self._read(fmt, at) if at else default

    def table(self, slot: int) -> Table | None:
        """A table or the value of a union."""
        at = self._field(slot)
        return Table(self.data, at + self._read("I", at)) if at else None

    def _vector(self, slot: int, item_size: int) -> tuple[int, int]:
        at = self._field(slot)
        if not at:
            return 0, 0
        start = at + self._read("I", at)
        count = self._read("I", start)
        if start + 4 + count * item_size > len(self.data):
            raise DamagedError(f"a list of {count} items at byte {start} in a file of {len(self.data)} bytes")
        return start + 4, count

    def raw(self, slot: int) -> bytes:
        """A vector of bytes; empty when absent."""
        start, count = self._vector(slot, 1)
        return bytes(self.data[start : start + count])

    def text(self, slot: int) -> str:
        """A string; empty when absent."""
        return self.raw(slot).decode("utf-8", "replace")

    def texts(self, slot: int) -> list[str]:
        """A vector of strings."""
        places = [(at + self._read("I", at)) for at in self._items(slot)]
        return [bytes(self.data[at + 4 : at + 4 + self._read("I", at)]).decode("utf-8", "replace") for at in places]

    def numbers(self, slot: int, fmt: str = "i") -> list[Any]:
        """A vector of numbers."""
        start, count = self._vector(slot, struct.calcsize(fmt))
        return list(struct.unpack_from(f"<{count}{fmt}", self.data, start))

    def structs(self, slot: int, fmt: str) -> list[tuple[Any, ...]]:
        """A vector of structs, each with these members."""
        start, count = self._vector(slot, struct.calcsize(f"<{fmt}"))
        return list(struct.iter_unpack(f"<{fmt}", self.data[start : start + count * struct.calcsize(f"<{fmt}")]))

    def tables(self, slot: int) -> list[Table]:
        """A vector of tables."""
        return [Table(self.data, at + self._read("I", at)) for at in self._items(slot)]

    def _items(self, slot: int) -> range:
        start, count = self._vector(slot, 4)
        return range(start, start + 4 * count, 4)


def read_root(data: bytes | memoryview, identifier: bytes, start: int = 0) -> Table:
    """The root table of a buffer that begins at byte ``start``: 4 after the size of a size-prefixed one.

    Raises:
        DamagedError: The buffer is too short, or carries another identifier.
    """
    found = bytes(data[start + 4 : start + 8])
    if found != identifier:
        raise DamagedError(f"it has {found!r} at byte {start + 4}, where {identifier!r} must stand")
    return Table(data, start + struct.unpack_from("<I", data, start)[0])


@dataclass(frozen=True)
class Scalar:
    """A number to write, in the format of ``struct``."""

    fmt: str
    value: int | float


@dataclass(frozen=True)
class Numbers:
    """A vector of numbers to write."""

    fmt: str
    values: Sequence[int | float]


@dataclass(frozen=True)
class Aligned:
    """A vector of bytes to write, whose first byte stands at a multiple of ``alignment``."""

    data: bytes
    alignment: int = 1


#: Slot -> what stands there. ``None`` leaves the field out.
Fields = Mapping[int, Any]


def encode(identifier: bytes, root: Fields) -> bytes:
    """A buffer with this root table.

    Args:
        identifier: Four bytes.
        root: Fields of the root: Scalar, Numbers, Aligned, ``str``, a table (a dict of fields) or a list of tables.
    """
    out = bytearray(b"\0\0\0\0" + identifier)
    pending: list[tuple[int, Any]] = [(0, root)]  # where the offset to an object is to be written, and the object
    for place, value in pending:
        struct.pack_into("<I", out, place, _put(out, value, pending) - place)
    return bytes(out)


def _put(out: bytearray, value: Any, pending: list[tuple[int, Any]]) -> int:
    """Appends an object; what it points to is appended later. Returns its position."""
    if isinstance(value, Mapping):
        return _put_table(out, value, pending)
    if isinstance(value, str):
        value = Aligned(value.encode() + b"\0")
        start = _put_vector(out, len(value.data) - 1, 1)
        out += value.data
    elif isinstance(value, Aligned):
        start = _put_vector(out, len(value.data), value.alignment)
        out += value.data
    elif isinstance(value, Numbers):
        start = _put_vector(out, len(value.values), struct.calcsize(value.fmt))
        out += struct.pack(f"<{len(value.values)}{value.fmt}", *value.values)
    else:
        start = _put_vector(out, len(value), 4)
        pending += [(start + 4 + 4 * i, one) for i, one in enumerate(value)]
        out += bytes(4 * len(value))
    return start


def _put_vector(out: bytearray, count: int, alignment: int) -> int:
    """Appends the count of a vector so that its first item is aligned."""
    out += bytes(-(len(out) + 4) % max(alignment, 4))
    out += struct.pack("<I", count)
    return len(out) - 4


def _put_table(out: bytearray, fields: Fields, pending: list[tuple[int, Any]]) -> int:
    present = {slot: value for slot, value in sorted(fields.items()) if value is not None}
    offsets, size = {}, 4
    for slot, value in present.items():
        width = struct.calcsize(value.fmt) if isinstance(value, Scalar) else 4
        size += -size % width
        offsets[slot] = size
        size += width
    slots = max(present, default=-1) + 1
    out += bytes(-len(out) % 2)
    vtable = len(out)
    out += struct.pack(f"<{2 + slots}H", 4 + 2 * slots, size, *(offsets.get(slot, 0) for slot in range(slots)))
    out += bytes(-len(out) % 8)
    start = len(out)
    out += struct.pack("<i", start - vtable) + bytes(size - 4)
    for slot, value in present.items():
        if isinstance(value, Scalar):
            struct.pack_into("<" + value.fmt, out, start + offsets[slot], value.value)
        else:
            pending.append((start + offsets[slot], value))
    return start
