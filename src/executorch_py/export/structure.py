"""The structure of a method's inputs and outputs as text for the file (torch's pytree JSON)."""

from typing import Any

from torch.utils import _pytree

from executorch_py import pytree
from executorch_py.errors import InvalidTypeError, NotSupportedError


def structure_text(spec: _pytree.TreeSpec | None, what: str) -> str:
    """JSON of ``spec``; empty when there is none.

    Raises:
        NotSupportedError: A container has no serialised name; says how to register one.
    """
    if spec is None:
        return ""
    try:
        return pytree.dumps(_plain(spec))
    except InvalidTypeError as error:
        raise NotSupportedError(f"{what}: {error}") from error


def _plain(spec: Any) -> Any:
    """``spec`` with torch's own result types (of ``max``, ``sort``, ``topk``, …) as plain tuples.

    They have no serialised name, and a program is to run where torch is not installed.
    """
    if spec.is_leaf():
        return spec
    children = [_plain(child) for child in spec.children()]
    if spec.type.__module__ == "torch.return_types":
        return _pytree.TreeSpec(tuple, None, children)
    return _pytree.TreeSpec(spec.type, spec.context, children)
