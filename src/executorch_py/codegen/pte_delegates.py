"""The payloads of a `.pte`: what its delegates were compiled to.

Example:
    >>> [(one.backend_id, len(one.payload)) for one in delegates_of(Path("model.pte").read_bytes())]  # doctest: +SKIP
    [('MyBackend', 5120)]

Standard library only. Slots are those of program.fbs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .flatbuffer import DamagedError, Table, read_root

__all__ = ["DelegatePayload", "delegates_of"]


@dataclass(frozen=True)
class DelegatePayload:
    """A delegate of a method: who runs it, its bytes, and what its partitioner gave along."""

    method: str
    backend_id: str
    payload: bytes
    compile_specs: dict[str, bytes]


def delegates_of(data: bytes) -> list[DelegatePayload]:
    """All delegates of a program, method by method.

    Raises:
        DamagedError: The bytes are not a program.
    """
    root = read_root(data, b"ET12")
    return [
        DelegatePayload(
            plan.text(0),
            delegate.text(0),
            _payload(data, root, delegate.table(1)),
            {spec.text(0): spec.raw(1) for spec in delegate.tables(2)},
        )
        for plan in root.tables(1)
        for delegate in plan.tables(7)
    ]


def _payload(data: bytes, root: Table, place: Table | None) -> bytes:
    if place is None:
        raise DamagedError("a delegate without a payload")
    index, in_segment = place.scalar(1, "I"), place.scalar(0, "b") == 1
    found = root.tables(4 if in_segment else 3)
    if index >= len(found):
        raise DamagedError(f"a delegate's payload is number {index} of {len(found)}")
    if not in_segment:
        return found[index].raw(0)
    if data[8:12] != b"eh00":
        raise DamagedError("a payload in a segment of a file without a header")
    start = struct.unpack_from("<Q", data, 24)[0] + found[index].scalar(0, "Q")
    end = start + found[index].scalar(1, "Q")
    if end > len(data):
        raise DamagedError(f"a payload at bytes {start} to {end} in a file of {len(data)}")
    return bytes(data[start:end])
