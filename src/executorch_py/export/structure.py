"""The structure of a method's inputs and outputs as text for the file (torch's pytree JSON)."""

import json
import warnings
from typing import Any

from torch.utils import _pytree as pytree

from executorch_py.errors import NotSupportedError


def structure_text(spec: pytree.TreeSpec | None, what: str) -> str:
    """JSON of ``spec``; empty when there is none.

    Raises:
        NotSupportedError: A container has no serialised name; says how to register one.
    """
    if spec is None:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pytree.treespec_dumps(_plain(spec))
    except (NotImplementedError, TypeError, ValueError) as error:
        names = sorted({f"{kind.__module__}.{kind.__qualname__}" for kind in _containers(spec)})
        raise NotSupportedError(
            f"{what} hold a container that cannot be written down ({', '.join(names)}): {error}. Register it with "
            "torch.utils._pytree.register_pytree_node(..., serialized_type_name=...) or return a dict"
        ) from error


def _plain(spec: Any) -> Any:
    """``spec`` with torch's own result types (of ``max``, ``sort``, ``topk``, …) as plain tuples: they have no serialised
    name, and a program is to run where torch is not installed."""
    if spec.is_leaf():
        return spec
    children = [_plain(child) for child in spec.children()]
    if spec.type.__module__ == "torch.return_types":
        return pytree.TreeSpec(tuple, None, children)
    return pytree.TreeSpec(spec.type, spec.context, children)


def _containers(spec: Any) -> set[type]:
    found: set[type] = set()
    if spec.is_leaf():
        return found
    if spec.type not in (tuple, list, dict):
        found.add(spec.type)
    for child in spec.children():
        found |= _containers(child)
    return found


def same_structure(first: str, second: str) -> bool:
    """Whether two structure texts mean the same."""
    return first == second or json.loads(first or "null") == json.loads(second or "null")
