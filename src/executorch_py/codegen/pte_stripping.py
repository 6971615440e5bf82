"""Takes out of a `.pte` what only tools and messages read: debug information, the delegation report, names of inputs.

What is executed stays as it is, byte by byte, and so do the alignments of segments. Tables are changed in place, so
that fields of later versions of the format survive. Standard library only. Slots are those of program.fbs and
shapes.fbs.

Example:
    >>> smaller, removed = stripped(Path("model.pte").read_bytes())  # doctest: +SKIP
    >>> removed  # doctest: +SKIP
    {'executorch_py.debug': 12804, 'executorch_py.delegation': 7010}
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from .flatbuffer import DamagedError, Table, read_root

__all__ = ["stripped"]

_TOOLS_ONLY = ("executorch_py.debug", "executorch_py.delegation")
_SHAPES = "executorch_py.shapes"
_LARGE = 4096  # bytes from which on a segment stands at a multiple of the file's own alignment


@dataclass
class _Segment:
    """A table DataSegment and its bytes."""

    table: Table
    offset: int
    size: int
    data: bytes
    is_dropped: bool = False


def stripped(data: bytes) -> tuple[bytes, dict[str, int]]:
    """The program without debug information, and what went: name -> bytes.

    Raises:
        DamagedError: The bytes are not a program.
    """
    out = bytearray(data)
    root = read_root(memoryview(out), b"ET12")
    removed: dict[str, int] = {}
    if traces := sum(_empty(out, chain, 3) for plan in root.tables(1) for chain in plan.tables(5)):
        removed["stack traces"] = traces
    if out[8:12] != b"eh00":
        return bytes(out), removed  # without a header there are no segments
    base = struct.unpack_from("<Q", out, 24)[0]
    segments = [_segment(out, base, table) for table in root.tables(4)]
    entries = [(table.text(0), table.scalar(1, "I"), table) for table in root.tables(7)]
    dropped = set(_TOOLS_ONLY)
    for key, index, _ in entries:
        if index >= len(segments):
            raise DamagedError(f"named data '{key}' is in segment {index} of {len(segments)}")
        if key == _SHAPES:
            blanked, has_symbols, count = _without_names(segments[index].data)
            segments[index].data = blanked
            removed |= {"names of inputs and outputs": count} if count else {}
            dropped |= set() if has_symbols else {key}
    kept = {index for key, index, _ in entries if key not in dropped}
    for key, index, _ in entries:
        if key in dropped and index not in kept:
            segments[index].is_dropped = True
            removed |= {key: segments[index].size} if key in _TOOLS_ONLY else {}
    _drop_entries(out, root, [table for key, _, table in entries if key in dropped])
    return _laid_out(out, base, segments), removed


def _segment(out: bytearray, base: int, table: Table) -> _Segment:
    offset, size = table.scalar(0, "Q"), table.scalar(1, "Q")
    if base + offset + size > len(out):
        raise DamagedError(f"a segment of {size} bytes at byte {base + offset} in a file of {len(out)}")
    return _Segment(table, offset, size, bytes(out[base + offset : base + offset + size]))


def _empty(out: bytearray, table: Table, slot: int) -> int:
    """Empties a vector of offsets; how many bytes that was."""
    places = table._items(slot)
    if places:
        struct.pack_into("<I", out, places.start - 4, 0)
    return 4 * len(places)


def _blank(out: bytearray, table: Table, slot: int) -> int:
    """Writes zeros over a string; how many bytes it had."""
    start, count = table._vector(slot, 1)
    out[start : start + count] = bytes(count)
    return count


def _drop_entries(out: bytearray, root: Table, entries: list[Table]) -> None:
    """Takes entries out of the list of named data, and writes zeros over their keys."""
    for table in entries:
        _blank(out, table, 0)
    gone = {table.position for table in entries}
    places, kept = root._items(7), [one.position for one in root.tables(7) if one.position not in gone]
    for place, position in zip(places, kept):
        struct.pack_into("<I", out, place, position - place)
    if places:
        struct.pack_into("<I", out, places.start - 4, len(kept))


def _without_names(shapes: bytes) -> tuple[bytes, bool, int]:
    """The entry without names of inputs and outputs, whether it says anything else, and how long the names were."""
    out, count, has_symbols = bytearray(shapes), 0, False
    for method in read_root(memoryview(out), b"EPSH").tables(1):
        has_symbols = has_symbols or bool(method.tables(1))
        for slot in (4, 5):
            for place in method._items(slot):
                text = place + struct.unpack_from("<I", out, place)[0]
                length = struct.unpack_from("<I", out, text)[0]
                if text + 4 + length > len(out):
                    raise DamagedError(f"a name of {length} bytes at byte {text} of '{_SHAPES}'")
                out[text + 4 : text + 4 + length] = bytes(length)
                count += length
            _remove_field(out, method, slot)
    return bytes(out), has_symbols, count


def _remove_field(out: bytearray, table: Table, slot: int) -> None:
    vtable = table.position - struct.unpack_from("<i", out, table.position)[0]
    if 4 + 2 * slot < struct.unpack_from("<H", out, vtable)[0]:
        struct.pack_into("<H", out, vtable + 4 + 2 * slot, 0)


def _laid_out(out: bytearray, base: int, segments: Iterable[_Segment]) -> bytes:
    """The tables, and behind them the segments that are kept, each at a multiple of what it stood at before."""
    kept = sorted((one for one in segments if not one.is_dropped), key=lambda one: (one.offset, one.size))
    aligned = {
        large: _alignment(base, [one for one in kept if (one.size >= _LARGE) == large]) for large in (True, False)
    }
    end = shift = old_end = 0
    body = bytearray()
    for one in kept:
        if one.offset >= old_end:  # otherwise it lies in the bytes of the one before
            alignment = aligned[one.size >= _LARGE]
            place = end + -(base + end) % alignment
            shift = one.offset - place
        place = one.offset - shift
        body += bytes(max(place + one.size - len(body), 0))
        body[place : place + one.size] = one.data
        _set(out, one.table, place, one.size)
        end, old_end = max(end, place + one.size), max(old_end, one.offset + one.size)
    for one in segments:
        if one.is_dropped:
            _set(out, one.table, 0, 0)
    if base and struct.unpack_from("<I", out, 12)[0] >= 32:
        struct.pack_into("<Q", out, 32, len(body))
    return bytes(out[:base] if base else out) + bytes(body)


def _alignment(base: int, segments: list[_Segment]) -> int:
    """The largest power of two that the places of all these segments are multiples of, at most 64 KiB."""
    places = 1 << 16
    for one in segments:
        places |= base + one.offset
    return places & -places


def _set(out: bytearray, table: Table, offset: int, size: int) -> None:
    for slot, value in ((0, offset), (1, size)):
        if at := table._field(slot):
            struct.pack_into("<Q", out, at, value)
