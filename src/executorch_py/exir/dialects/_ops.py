"""``ops.edge.aten.add.Tensor``: names of operators as partitioners and passes for Edge write them.

fx keeps plain ``torch.ops`` targets, so ``ops.edge.X`` is ``torch.ops.X`` itself and compares equal with a node's
target. The same is true of ``ops.backend.X``.

    >>> from executorch_py.exir.dialects._ops import ops as exir_ops
    >>> exir_ops.edge.aten.add.Tensor is torch.ops.aten.add.Tensor
    True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

__all__ = ["EdgeOpOverload", "EdgeOpOverloadPacket", "bind_pattern_to_op", "ops"]

#: Operators of Edge are those of torch.
EdgeOpOverload = torch._ops.OpOverload
EdgeOpOverloadPacket = torch._ops.OpOverloadPacket

_Pattern = TypeVar("_Pattern", bound=Callable[..., Any])


class _DimOrderOps:
    """``ops.edge.dim_order_ops``: published variants that name an order of dimensions, torch's operators here."""

    _of_torch = {"_clone_dim_order": "clone", "_empty_dim_order": "empty", "_to_dim_order_copy": "_to_copy"}  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        other = self._of_torch.get(name)
        return getattr(torch.ops.aten, other) if other else getattr(torch.ops.dim_order_ops, name)


class _Namespace:
    """``ops.edge`` and ``ops.backend``."""

    dim_order_ops = _DimOrderOps()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops, name)


class _Ops:
    """``ops``: ``ops.edge``, ``ops.backend`` and, as ``torch.ops``, everything else."""

    def __init__(self) -> None:
        self.edge = _Namespace()
        self.backend = _Namespace()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops, name)


ops = _Ops()


def bind_pattern_to_op(library: torch.library.Library, schema_or_name: str) -> Callable[[_Pattern], _Pattern]:
    """A decorator: the function becomes the operator's kernel, for tracing and for eager mode.

    Args:
        library: Where the operator is defined.
        schema_or_name: "name(Tensor x) -> Tensor" defines it as well; "name" or "namespace::name" was defined before.
    """

    def bind(pattern: _Pattern) -> _Pattern:
        name = schema_or_name.split("(", 1)[0].strip()
        if "(" in schema_or_name:
            library.define(schema_or_name)
        library.impl(name, pattern, "CompositeExplicitAutograd")
        return pattern

    return bind
