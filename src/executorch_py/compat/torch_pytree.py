"""``extension.pytree``: torch's own pytree under the published names, and strings of structures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._pytree import (
    TreeSpec,
    register_pytree_node,
    tree_flatten,
    tree_map,
    tree_unflatten,
    treespec_dumps,
    treespec_loads,
)
from torch.utils._pytree import _broadcast_to_and_flatten as broadcast_to_and_flatten

__all__ = [
    "TreeSpec",
    "broadcast_to_and_flatten",
    "from_str",
    "register_custom",
    "tree_flatten",
    "tree_map",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
]


def from_str(text: str) -> TreeSpec:
    """The structure that ``treespec_dumps`` wrote."""
    return treespec_loads(text)


def register_custom(
    kind: type[Any],
    flatten: Callable[[Any], tuple[list[Any], Any]],
    unflatten: Callable[[Any, Any], Any],
    **options: Any,
) -> None:
    """Makes a class a container: how it is taken apart and put together.

    Options as of torch's ``register_pytree_node``.
    """
    register_pytree_node(kind, flatten, lambda children, context: unflatten(children, context), **options)
