"""The file format's numbers of torch's dtypes."""

import torch

from executorch_py.element_types import ScalarType, torch_name

_DTYPES: dict[int, torch.dtype] = {one.value: getattr(torch, torch_name(one)) for one in ScalarType}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


def dtype_code(dtype: torch.dtype) -> int | None:
    """The format's number of a dtype; None when it has none."""
    return _CODES.get(dtype)


def dtype_of(code: int) -> torch.dtype:
    """The dtype of one of the format's numbers; KeyError when there is none."""
    return _DTYPES[code]
