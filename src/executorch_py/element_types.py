"""The element types of programs: numbers and names, from the one list that C++ has, too (base/dtype.def)."""

from __future__ import annotations

from executorch_py._element_types import ITEM_SIZES, TORCH_NAMES, ScalarType

__all__ = ["ScalarType", "item_size", "torch_name"]


def torch_name(dtype: ScalarType) -> str:
    """Torch's name of an element type, which is numpy's as well where numpy has the type."""
    name: str = TORCH_NAMES[dtype]
    return name


def item_size(dtype: ScalarType) -> int:
    """Bytes of an element."""
    nbytes: int = ITEM_SIZES[dtype]
    return nbytes
