"""C++ for plain values: numbers, texts and names, as generated code has them."""

from __future__ import annotations

import math
import re

from executorch_py.codegen.kernel_form import CPP_KEYWORDS
from executorch_py.element_types import ScalarType

__all__ = ["double_text", "dtype_text", "identifier", "int_text", "scalar_text", "string_text"]


def identifier(text: str) -> str:
    """A C identifier that reads like the text."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "model"
    return f"_{name}" if name[0].isdigit() else f"{name}_" if name in CPP_KEYWORDS else name


def int_text(value: int) -> str:
    """An integer of 64 bits."""
    return "INT64_MIN" if value == -(2**63) else str(value)


def double_text(value: float) -> str:
    """A double, to its last bit."""
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return f"{'-' * (value < 0)}__builtin_inf()"
    return repr(float(value))


def string_text(value: str) -> str:
    """A string with its length: it may hold any character."""
    data = value.encode()
    plain = "".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\?' else f"\\{c:03o}" for c in data)
    return f'std::string_view("{plain}", {len(data)})'


def scalar_text(value: float | bool) -> str:
    """A Scalar of the value's kind."""
    if isinstance(value, bool):
        return f"Scalar({str(value).lower()})"
    return f"Scalar(int64_t{{{int_text(value)}}})" if isinstance(value, int) else f"Scalar({double_text(value)})"


def dtype_text(number: int) -> str:
    """An element type by its number."""
    return f"ScalarType::{ScalarType(number).name}" if number in {*ScalarType} else f"static_cast<ScalarType>({number})"
