"""The element types of programs: numbers and names. Python's one list of them, equal to C++'s (base/dtype.def)."""

from __future__ import annotations

import enum

__all__ = ["ScalarType", "torch_name"]


class ScalarType(enum.IntEnum):
    """Element types; the numbers are PyTorch's and the file format's."""

    Byte = 0
    Char = 1
    Short = 2
    Int = 3
    Long = 4
    Half = 5
    Float = 6
    Double = 7
    ComplexFloat = 9
    ComplexDouble = 10
    Bool = 11
    BFloat16 = 15
    UInt16 = 27
    UInt32 = 28
    UInt64 = 29

    # The same under their published names.
    BYTE = 0
    CHAR = 1
    SHORT = 2
    INT = 3
    LONG = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    BFLOAT16 = 15
    UINT16 = 27
    UINT32 = 28
    UINT64 = 29


#: Torch's names of the element types whose name in lower case is another one.
_TORCH_NAMES = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}


def torch_name(dtype: ScalarType) -> str:
    """Torch's name of an element type, which is numpy's as well where numpy has the type."""
    return _TORCH_NAMES.get(dtype.name, dtype.name.lower())
