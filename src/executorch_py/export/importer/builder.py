"""What the importer's parts need of the method that they write into; programs.py has the one class of this kind."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import fx
from torch.export import ExportedProgram

from .symbols import SymbolTable


class Builder(Protocol):
    """One method on its way into the IR.

    Attributes:
        name: Of the method.
        program: The Edge program that is imported.
        builder: The ``_core.MethodBuilder`` behind it.
        symbols: The sizes that only a run knows.
    """

    name: str
    program: ExportedProgram
    builder: Any
    symbols: SymbolTable

    def value(self, node: fx.Node) -> Any:
        """The IR value (or list of values) of an fx node."""

    def set_value(self, node: fx.Node, value: Any) -> None:
        """Binds an fx node (the input of a region, say) to an IR value."""

    def emit(self, node: fx.Node, op: str, arguments: list[Any], kinds: list[Any]) -> list[Any]:
        """Adds an IR node that stands for (a part of) ``node``; returns its results."""

    def import_nodes(self, graph: fx.Graph) -> Sequence[Any]:
        """Imports the body of a region, whose placeholders have values already; returns its outputs."""

    def type_of(self, node: fx.Node, value: Any) -> Any:
        """The IR type of a fake value."""

    def refuse(self, node: fx.Node, reason: str) -> Any:
        """Raises NotSupportedError with the node's operator, source line and module path."""
