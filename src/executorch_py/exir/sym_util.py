"""Upper bounds of symbolic sizes, under their published names."""

from collections.abc import Iterable
from typing import Any

import torch

from executorch_py.errors import InvalidArgumentError

__all__ = ["eval_expr", "eval_shape", "eval_shape_upper_bound", "eval_upper_bound"]


def eval_upper_bound(size: Any) -> int:
    """The largest value that ``size`` can have.

    Raises:
        InvalidArgumentError: It has no bound.
    """
    if isinstance(size, int):
        return size
    node = size.node
    bound = node.shape_env.bound_sympy(node.expr).upper
    if not getattr(bound, "is_Integer", False) and not isinstance(bound, int):
        raise InvalidArgumentError(f"the size {size} has no upper bound; give its Dim a max")
    return int(bound)


def eval_shape_upper_bound(shape: Iterable[Any]) -> list[int]:
    """The largest value of each size."""
    return [eval_upper_bound(size) for size in shape]


def eval_expr(size: Any) -> int | None:
    """The value that ``size`` had at export; None when it had none."""
    if isinstance(size, int):
        return size
    hint = size.node.hint if isinstance(size, torch.SymInt) else None
    return None if hint is None else int(hint)


def eval_shape(shape: Iterable[Any]) -> list[int | None]:
    """The value that each size had at export."""
    return [eval_expr(size) for size in shape]
