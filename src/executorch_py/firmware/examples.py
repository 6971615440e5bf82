"""Programs and inputs as their callers give them, and as bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from executorch_py.devtools.bundled_program.serialize import encoded
from executorch_py.element_types import ScalarType, torch_name
from executorch_py.errors import InvalidArgumentError, NotSupportedError
from executorch_py.method_metadata import TensorInfo

__all__ = ["made_up", "program_bytes", "raw_bytes"]


def program_bytes(program: Any) -> bytes:
    """The bytes of a program: by its path, as bytes, or as what a lowering or bundling returned."""
    if isinstance(program, (bytes, bytearray, memoryview)):
        return bytes(program)
    if isinstance(program, (str, os.PathLike)):
        return Path(program).read_bytes()
    if hasattr(program, "serialize_to_schema"):  # a BundledProgram
        return encoded(program.serialize_to_schema())
    buffer = getattr(program, "buffer", None)
    if buffer is None:
        raise InvalidArgumentError(
            f"program is a {type(program).__name__}, must be a path, bytes, a BundledProgram or what to_executorch() "
            "returns"
        )
    return bytes(buffer)


def made_up(info: TensorInfo) -> Any:
    """An input: numbers of both signs; zeros for indices, which are always in range. Of torch for bfloat16, which numpy
    has not.
    """
    dtype = info.dtype()
    count = int(np.prod(info.sizes(), dtype=np.int64))
    wave = np.sin(np.arange(count) * 0.37).reshape(info.sizes())
    if dtype is ScalarType.BFloat16:
        try:
            import torch
        except ImportError:
            raise NotSupportedError(
                "example inputs of torch.bfloat16 are made by torch: install it, or give them"
            ) from None
        return torch.from_numpy(wave).to(torch.bfloat16)
    kind = np.dtype(torch_name(dtype))
    if kind.kind == "f":
        return wave.astype(kind)
    if kind.itemsize == 1 and kind.kind in "iu":
        limits = np.iinfo(kind)
        return ((wave + 1) / 2 * (limits.max - limits.min) + limits.min).astype(kind)
    return np.zeros(info.sizes(), kind)


def raw_bytes(value: Any, dim_order: Sequence[int]) -> bytes:
    """The bytes of a tensor as they lie in memory."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # which numpy has not
            value = value.view(sys.modules["torch"].int16)
        value = value.numpy()
    array = np.asarray(value)
    return np.ascontiguousarray(array.transpose(dim_order)).tobytes()
