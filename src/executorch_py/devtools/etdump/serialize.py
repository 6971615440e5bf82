"""Reads ETDumps, in the published format (src/cpp/schema/etdump.fbs). Slots are the places of the fields there.

The runtime writes them: ``load_program(..., enable_etdump=True)`` and ``write_etdump_result_to_file``.
"""

from __future__ import annotations

from executorch_py.codegen.flatbuffer import DamagedError, Table, read_root
from executorch_py.devtools.etdump import schema_flatcc as schema
from executorch_py.errors import InvalidProgramError
from executorch_py.runtime import ScalarType

__all__ = ["deserialize_from_etdump_flatcc"]

_IDENTIFIER = b"ED00"
_KINDS = ("Null", "Int", "Bool", "Float", "Double", "Tensor", "TensorList", "String")


def deserialize_from_etdump_flatcc(data: bytes, size_prefixed: bool = True) -> schema.ETDumpFlatCC:
    """An ETDump as plain data.

    Args:
        data: The bytes of the file.
        size_prefixed: The file begins with its size, as the runtimes write it.

    Raises:
        InvalidProgramError: The bytes are no whole ETDump; says why.
    """
    start = 4 if size_prefixed else 0
    try:
        size = int.from_bytes(data[:4], "little") + 4 if size_prefixed else 0
        if size > len(data) and bytes(data[8:12]) == _IDENTIFIER:
            raise DamagedError(f"it is cut off: it says it has {size} bytes, and has {len(data)}")
        root = read_root(data, _IDENTIFIER, start)
        return schema.ETDumpFlatCC(root.scalar(0, "I"), [_run(one) for one in root.tables(1)])
    except DamagedError as error:
        raise InvalidProgramError(
            f"the bytes are no ETDump: {error}. Write one with write_etdump_result_to_file of a program that was "
            "loaded with enable_etdump=True"
        ) from None


def _run(run: Table) -> schema.RunData:
    return schema.RunData(
        run.text(0),
        run.scalar(1, "i", -1),
        [schema.Allocator(one.text(0)) for one in run.tables(2)],
        [_event(one) for one in run.tables(3)],
    )


def _event(event: Table) -> schema.Event:
    found = schema.Event()
    if (one := event.table(0)) is not None:
        found.profile_event = schema.ProfileEvent(
            one.text(0) or None,
            one.scalar(1, "i"),
            one.scalar(2, "i", -1),
            one.scalar(3, "i", -1),
            one.text(4) or None,
            one.raw(5),
            one.scalar(6, "Q"),
            one.scalar(7, "Q"),
        )
    if (one := event.table(1)) is not None:
        found.allocation_event = schema.AllocationEvent(one.scalar(0, "i"), one.scalar(1, "Q"))
    if (one := event.table(2)) is not None:
        entry = one.table(2)
        found.debug_event = schema.DebugEvent(
            one.text(5) or None,
            one.scalar(0, "q"),  # written as 64 bits without a sign; -1 is meant as -1
            one.scalar(1, "i", -1),
            one.scalar(3, "i", -1),
            one.text(4) or None,
            schema.Value("Null") if entry is None else _value(entry),
        )
    return found


def _value(value: Table) -> schema.Value:
    kind = value.scalar(0, "B")
    if kind >= len(_KINDS):
        raise DamagedError(f"a value of kind {kind}, which is none")
    tensor, tensors = value.table(1), value.table(2)
    scalars = [(value.table(slot), fmt) for slot, fmt in ((3, "q"), (4, "f"), (5, "d"), (6, "?"), (7, "?"))]
    whole, single, double, truth, output = [None if one is None else one.scalar(0, fmt) for one, fmt in scalars]
    return schema.Value(
        _KINDS[kind],
        None if tensor is None else _tensor(tensor),
        None if tensors is None else schema.TensorList([_tensor(one) for one in tensors.tables(0)]),
        None if whole is None else schema.Int(whole),
        None if single is None else schema.Float(single),
        None if double is None else schema.Double(double),
        None if truth is None else schema.Bool(truth),
        None if output is None else schema.Bool(output),
    )


def _tensor(tensor: Table) -> schema.Tensor:
    code = tensor.scalar(0, "b")
    if code not in ScalarType._value2member_map_:
        raise DamagedError(f"a tensor of the element type {code}, which is none")
    return schema.Tensor(ScalarType(code), tensor.numbers(1, "q"), tensor.numbers(2, "q"), tensor.scalar(3, "q"))
