"""Base classes of users' passes over fx graphs, under their published names.

A pass is a callable ``graph_module -> PassResult`` (or None, for "changed in place"). ``ExportPass`` re-traces the graph
operator by operator, so that a pass overrides ``call_operator`` and gets right metadata for free.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._export.pass_base import ProxyValue
from torch._export.pass_base import _ExportPassBaseDeprecatedDoNotUse as _TracingPass
from torch._export.pass_infra.node_metadata import NodeMetadata
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.errors import InvalidTypeError

#: The error of a pass over operators.
from torch._export.pass_base import ExportPassBaseError  # isort: skip


class ExportPass(_TracingPass):
    """A pass that overrides ``call_operator(op, args, kwargs, meta)`` and the like."""


@dataclass
class ExportedProgramPassResult:
    """What a pass over a whole program made.

    Attributes:
        exported_program: The program after it.
        modified: Whether it differs.
    """

    exported_program: ExportedProgram
    modified: bool


class ExportedProgramPassBase(ABC):
    """A pass that sees the whole program, with its weights and its signature, and may change the signature."""

    def __call__(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Runs ``requires``, ``call`` and ``ensures``.

        Raises:
            InvalidTypeError: ``call`` returned something else than an ExportedProgramPassResult.
        """
        self.requires(exported_program)
        result = self.call(exported_program)
        if not isinstance(result, ExportedProgramPassResult):
            raise InvalidTypeError(
                f"the pass {type(self).__name__} returned {result!r:.60}; it must return an ExportedProgramPassResult"
            )
        self.ensures(result.exported_program)
        return result

    @abstractmethod
    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """The pass itself."""

    def requires(self, exported_program: ExportedProgram) -> None:  # noqa: B027  overriding it is a choice
        """Called before ``call``; may raise."""

    def ensures(self, exported_program: ExportedProgram) -> None:  # noqa: B027
        """Called after ``call``; may raise."""


def map_args(
    op: OpOverload, fn: Callable[[Any, Any], Any], args: Any, kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call of ``op`` after ``fn(value, argument of the schema)`` at each; those not given stay not given."""
    positional, named = list(args), dict(kwargs)
    for index, argument in enumerate(op._schema.arguments):
        if argument.name in named:
            named[argument.name] = fn(named[argument.name], argument)
        elif not argument.kwarg_only and index < len(positional):
            positional[index] = fn(positional[index], argument)
    return tuple(positional), named


__all__ = [
    "ExportPass",
    "ExportPassBaseError",
    "ExportedProgramPassBase",
    "ExportedProgramPassResult",
    "NodeMetadata",
    "PassBase",
    "PassResult",
    "ProxyValue",
    "map_args",
]
