"""Base classes of users' passes over fx graphs, under their published names.

A pass is a callable ``graph_module -> PassResult`` (or None, for "changed in place"). ``ExportPass`` re-traces the
graph operator by operator, so that a pass overrides ``call_operator`` and gets right metadata for free.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._export.pass_base import ProxyValue
from torch._export.pass_base import _ExportPassBaseDeprecatedDoNotUse as _TracingPass
from torch._export.pass_infra.node_metadata import NodeMetadata
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.errors import InvalidTypeError

#: The error of a pass over operators.
from torch._export.pass_base import ExportPassBaseError  # isort: skip


class ExportPass(_TracingPass):
    """A pass that overrides ``call_operator(op, args, kwargs, meta)`` and the like.

    Bodies of branches, maps, loops and scans are passed over as well; those of delegates stay as they are.
    """

    class ExportInterpreter(_TracingPass.ExportInterpreter):
        """Gives each node to the method for its kind."""

        def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ProxyValue:
            meta = NodeMetadata(self.node.meta)
            if target is torch.ops.higher_order.while_loop:
                return self.callback.call_while(*args, *([()] * (4 - len(args))), meta)
            if target is torch.ops.higher_order.scan:
                return self.callback.call_scan(*args, *([()] * (4 - len(args))), meta)
            if target is executorch_call_delegate:
                return self.callback.call_delegate(args[0], args[1:], kwargs, meta)
            return super().call_function(target, args, kwargs)

    def call_while(
        self,
        cond_fn: fx.GraphModule,
        body_fn: fx.GraphModule,
        carried_inputs: Any,
        additional_inputs: Any,
        meta: NodeMetadata,
    ) -> ProxyValue:
        """Called for ``while_loop``."""
        inputs = (*carried_inputs, *additional_inputs)
        bodies = [self.call_submodule(one, inputs).graph_module for one in (cond_fn, body_fn)]
        loop = torch.ops.higher_order.while_loop
        return self._fx("call_function", loop, (*bodies, carried_inputs, additional_inputs), {}, meta)

    def call_scan(
        self, combine_fn: fx.GraphModule, init: Any, xs: Any, additional_inputs: Any, meta: NodeMetadata
    ) -> ProxyValue:
        """Called for ``scan``."""
        rows = [x.data.select(0, 0) for x in xs]
        body = self.call_submodule(combine_fn, (*init, *rows, *additional_inputs)).graph_module
        scan = torch.ops.higher_order.scan
        return self._fx("call_function", scan, (body, init, xs, additional_inputs), {}, meta)

    def call_delegate(
        self, lowered_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> ProxyValue:
        """Called for the call of a delegate."""
        return self._fx("call_function", executorch_call_delegate, (lowered_module, *args), kwargs, meta)


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
    """Arguments of a call of ``op`` after ``fn(value, argument of the schema)`` at each; those not given stay not
    given.
    """
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
