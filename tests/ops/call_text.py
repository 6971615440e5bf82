"""Arguments of a call in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def shape_text(tensor: torch.Tensor) -> str:
    """Element type and shape."""
    return f"{str(tensor.dtype)[6:]}{list(tensor.shape)}"


def value_text(tensor: torch.Tensor) -> str:
    """Element type, shape and the first elements."""
    return f"{tensor.dtype}{list(tensor.shape)}={tensor.flatten()[:64].tolist()}"


def text(value: Any, of_tensor: Callable[[torch.Tensor], str] = value_text) -> str:
    """A value as it would be written, tensors as `of_tensor` says."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(item, of_tensor) for item in value) + "]"
    return repr(value)
