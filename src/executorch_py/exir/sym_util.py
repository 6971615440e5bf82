"""Upper bounds of symbolic sizes, under their published names."""

from collections.abc import Iterable
from typing import Any

import torch

from executorch_py.errors import InvalidArgumentError

__all__ = ["eval_expr", "eval_shape", "eval_shape_upper_bound", "eval_upper_bound"]


def eval_upper_bound(maybe_symint: Any) -> int:
    """The largest value that a size can have.

    Raises:
        InvalidArgumentError: It has no bound.
    """
    if isinstance(maybe_symint, int):
        return maybe_symint
    node = maybe_symint.node
    bound = node.shape_env.bound_sympy(node.expr).upper
    if not getattr(bound, "is_Integer", False) and not isinstance(bound, int):
        raise InvalidArgumentError(f"the size {maybe_symint} has no upper bound; give its Dim a max")
    return int(bound)


def eval_shape_upper_bound(shape: Iterable[Any]) -> list[int]:
    """The largest value of each size."""
    return [eval_upper_bound(size) for size in shape]


def eval_expr(symint: Any) -> int | None:
    """The value that a size had at export; None when it had none."""
    if isinstance(symint, int):
        return symint
    hint = symint.node.hint if isinstance(symint, torch.SymInt) else None
    return None if hint is None else int(hint)


def eval_shape(shape: Iterable[Any]) -> list[int | None]:
    """The value that each size had at export."""
    return [eval_expr(size) for size in shape]
