"""The operators of a method's memory: they stand in the graph that a memory planner sees, under their published
names.
"""

from typing import Any

import torch

__all__ = ["alloc", "free", "view"]


def alloc(spec: Any) -> Any:
    """Memory for a result: ``((sizes), dtype)``, or a list of these."""
    if isinstance(spec, list):
        return [alloc(one) for one in spec]
    shape, dtype = spec
    return torch.empty(shape, dtype=dtype)


def free(spec: Any) -> None:
    """The end of a result's life. Nothing happens here: lifetimes say it."""


def view(base: torch.Tensor, size: list[int]) -> torch.Tensor:
    """``base``'s memory with other sizes."""
    return base.view(size)
