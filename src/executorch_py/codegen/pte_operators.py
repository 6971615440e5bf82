"""Which kernels a `.pte` file calls, and with which element types. For select_ops.py, at build time, and `etpy ops`.

Reads only operators, instructions and the element types of tensors, with the standard library. Every offset is checked:
a damaged file is an error, not a crash. Slots are positions of fields in src/cpp/schema/program.fbs.
Not for: looking into a file (pte_dump, `etpy inspect`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .ops_yaml import DTYPES, TableError

_DTYPE_NAMES = {number: name for name, number in DTYPES.items()}

# Members of the unions of program.fbs.
_TENSOR, _TENSOR_LIST, _OPTIONAL_TENSOR_LIST = 5, 10, 11
_KERNEL_CALL = 1


@dataclass(frozen=True)
class _Table:
    """A FlatBuffers table: `data` and the position of its start."""

    data: bytes
    position: int

    def _read(self, fmt: str, at: int) -> int:
        size = struct.calcsize(fmt)
        if at < 0 or at + size > len(self.data):
            raise TableError(f"an offset leads to byte {at}, the file has {len(self.data)}")
        return struct.unpack_from("<" + fmt, self.data, at)[0]

    def _field(self, slot: int) -> int:
        """Position of the field in `slot`; 0 when it is absent."""
        vtable = self.position - self._read("i", self.position)
        entry = 4 + 2 * slot
        offset = self._read("H", vtable + entry) if entry < self._read("H", vtable) else 0
        return self.position + offset if offset else 0

    def scalar(self, slot: int, fmt: str) -> int:
        """A number; 0 when absent."""
        at = self._field(slot)
        return self._read(fmt, at) if at else 0

    def table(self, slot: int) -> _Table | None:
        """A table or the value of a union."""
        at = self._field(slot)
        return _Table(self.data, at + self._read("I", at)) if at else None

    def _vector(self, slot: int) -> tuple[int, int]:
        at = self._field(slot)
        if not at:
            return 0, 0
        start = at + self._read("I", at)
        count = self._read("I", start)
        if count > len(self.data):
            raise TableError(f"a list of {count} items in a file of {len(self.data)} bytes")
        return start + 4, count

    def text(self, slot: int) -> str:
        """A string; empty when absent."""
        start, count = self._vector(slot)
        return self.data[start : start + count].decode("utf-8", "replace")

    def numbers(self, slot: int) -> list[int]:
        """A list of int32."""
        start, count = self._vector(slot)
        return [self._read("i", start + 4 * i) for i in range(count)]

    def tables(self, slot: int) -> list[_Table]:
        """A list of tables."""
        start, count = self._vector(slot)
        return [_Table(self.data, start + 4 * i + self._read("I", start + 4 * i)) for i in range(count)]


def _tensor_dtypes(values: list[_Table], index: int) -> set[str]:
    """Element types of the tensors that value `index` holds."""
    if not 0 <= index < len(values):
        raise TableError(f"value {index} of {len(values)}")
    kind, content = values[index].scalar(0, "B"), values[index].table(1)
    if content is None:
        return set()
    if kind == _TENSOR:
        return {_DTYPE_NAMES[content.scalar(0, "b")]} if content.scalar(0, "b") in _DTYPE_NAMES else set()
    if kind in (_TENSOR_LIST, _OPTIONAL_TENSOR_LIST):
        return set().union(*(_tensor_dtypes(values, item) for item in content.numbers(0) if item >= 0))
    return set()


@dataclass(frozen=True)
class KernelCall:
    """One instruction that calls a kernel."""

    method: str
    instruction: int
    kernel: str
    dtypes: frozenset[str]  # element types of its tensors


def read_pte_calls(data: bytes) -> list[KernelCall]:
    """The kernel calls of all methods of a program, in order.

    Raises:
        TableError: The bytes are not a program.
    """
    if data[4:8] != b"ET12":
        raise TableError("not a .pte file (no ET12 at byte 4)")
    program = _Table(data, struct.unpack_from("<I", data, 0)[0])
    calls: list[KernelCall] = []
    for plan in program.tables(1):
        method = plan.text(0)
        values = plan.tables(2)
        names = [op.text(0) + (f".{op.text(1)}" if op.text(1) else "") for op in plan.tables(6)]
        for chain in plan.tables(5):
            for position, instruction in enumerate(chain.tables(2)):
                call = instruction.table(1)
                if instruction.scalar(0, "B") != _KERNEL_CALL or call is None:
                    continue
                index = call.scalar(0, "i")
                if not 0 <= index < len(names):
                    raise TableError(f"operator {index} of {len(names)}")
                dtypes = frozenset().union(*(_tensor_dtypes(values, argument) for argument in call.numbers(1)))
                calls.append(KernelCall(method, position, names[index], dtypes))
    return calls


def read_pte_operators(data: bytes) -> dict[str, set[str]]:
    """Kernel name → element types of its tensors, over all methods of a program.

    Raises:
        TableError: The bytes are not a program.
    """
    kernels: dict[str, set[str]] = {}
    for call in read_pte_calls(data):
        kernels.setdefault(call.kernel, set()).update(call.dtypes)
    return kernels
