"""The file format's numbers of torch's dtypes."""

import torch

#: ScalarType numbers of the file format, which are c10's; those of the dtypes that the runtime has (base/dtype.def).
_DTYPE_CODES: dict[torch.dtype, int] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
}


def dtype_code(dtype: torch.dtype) -> int | None:
    """The format's number of a dtype; None when it has none."""
    return _DTYPE_CODES.get(dtype)


def dtype_of(code: int) -> torch.dtype:
    """The dtype of one of the format's numbers; KeyError when there is none."""
    return {number: dtype for dtype, number in _DTYPE_CODES.items()}[code]
