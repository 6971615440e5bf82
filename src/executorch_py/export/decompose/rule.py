"""What a rule of the decomposition is: a function of the walk, the node and its mapped arguments.

A rule returns the new value (a node, or a list for several results), or None where the node is not its business.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py.graphs.nodes import named_arguments
from executorch_py.graphs.rewriting import GraphWriter


class Writer(Protocol):
    """The walk that calls a rule (decomposer.py).

    Attributes:
        writer: Of the new graph.
        kept: Operators that stay whole.
    """

    writer: GraphWriter
    kept: frozenset[OpOverload]

    def emit(
        self, origin: fx.Node, target: Any, args: tuple, value: Any, kwargs: dict[str, Any] | None = None
    ) -> fx.Node:
        """A new call that stands for (a part of) ``origin``."""

    def first_of(self, origin: fx.Node, target: Any, args: tuple, values: tuple) -> fx.Node:
        """A new call with several results, of which the first is wanted."""

    def empty_like(self, value: torch.Tensor, shape: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A row-major fake tensor."""


Rule = Callable[[Writer, fx.Node, tuple, dict[str, Any]], Any]


def bind(op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """All arguments of a call in schema order, defaults filled in."""
    return list(named_arguments(op, args, kwargs).values())
