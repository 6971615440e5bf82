"""``et.delegation_report(edge)``: what went to which backend, what did not and why, operator by operator.

>>> edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])  # doctest: +SKIP
>>> print(et.delegation_report(edge))  # doctest: +SKIP
method forward: 51 of 53 operators are delegated, in 1 part
  XnnpackBackend  51 operators in 1 part
<BLANKLINE>
  operator                  source       module  goes to
  aten.convolution.default  model.py:12  conv1   XnnpackBackend, part 0
  aten.native_layer_norm.…  model.py:15  norm    the runtime's kernels: XNNPACK has no such operator, …
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py import _core
from executorch_py.exir.backend.utils import refusals_of
from executorch_py.export.importer import import_programs
from executorch_py.export.sources import source_of
from executorch_py.lowering.edge import EdgeProgramManager

_TAG = "delegation_tag"
_WIDEST = 44  # of a column; longer texts are cut in the middle


@dataclass(frozen=True)
class DelegatedOperator:
    """One operator of an Edge program.

    Attributes:
        name: Name of the fx node.
        op: "aten.convolution.default".
        source: "model.py:12", empty when it is not known.
        module_path: Path of the module that it comes from.
        backend: Id of the backend that takes it; empty = the runtime's kernels do.
        part: Number of its part in the method; -1 when it is not delegated.
        refusals: Backend id -> why that backend did not take it.
    """

    name: str
    op: str
    source: str
    module_path: str
    backend: str = ""
    part: int = -1
    refusals: dict[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Why it is not delegated, in one line; empty when it is."""
        if self.backend:
            return ""
        if not self.refusals:
            return "no partitioner looked at it"
        if len(self.refusals) == 1:
            return next(iter(self.refusals.values()))
        return "; ".join(f"{backend}: {reason}" for backend, reason in sorted(self.refusals.items()))


@dataclass(frozen=True)
class DelegationReport:
    """What ``delegation_report`` found: method -> its operators in order. ``print`` it, or read the rows."""

    methods: dict[str, list[DelegatedOperator]]

    def delegated(self, method: str = "forward") -> list[DelegatedOperator]:
        """The operators that backends take."""
        return [row for row in self.methods[method] if row.backend]

    def refused(self, method: str = "forward") -> list[DelegatedOperator]:
        """The operators that stay with the runtime's kernels."""
        return [row for row in self.methods[method] if not row.backend]

    def summary(self) -> str:
        """A few lines a method: how much goes where, and the reasons for the rest."""
        return "\n".join(line for method in self.methods for line in self._summary(method))

    def table(self, only_refused: bool = False) -> str:
        """All operators in order (or only those that no backend took), a line each."""
        blocks = []
        for method in self.methods:
            rows = self.refused(method) if only_refused else self.methods[method]
            lines = [(row.op, row.source, row.module_path, _destination(row)) for row in rows]
            blocks.append(
                "\n".join([f"method {method}", *_aligned(("operator", "source", "module", "goes to"), lines)])
            )
        return "\n\n".join(blocks)

    def __str__(self) -> str:
        return f"{self.summary()}\n\n{self.table()}"

    def _summary(self, method: str) -> Iterator[str]:
        rows = self.methods[method]
        taken = self.delegated(method)
        parts = len({(row.backend, row.part) for row in taken})
        yield f"method {method}: {len(taken)} of {len(rows)} operators are delegated, in {_counted(parts, 'part')}"
        for backend, count in sorted(Counter(row.backend for row in taken).items()):
            own = len({row.part for row in taken if row.backend == backend})
            yield f"  {backend}: {_counted(count, 'operator')} in {_counted(own, 'part')}"
        for reason, count in Counter(row.reason for row in self.refused(method)).most_common():
            yield f"  not delegated: {_counted(count, 'operator')}: {reason}"


def delegation_report(edge: EdgeProgramManager) -> DelegationReport:
    """What a lowered Edge program gives to which backend, and why it keeps the rest.

    Args:
        edge: What ``to_edge_transform_and_lower`` or ``to_backend`` returned.

    Example:
        >>> report = et.delegation_report(edge)  # doctest: +SKIP
        >>> [row.source for row in report.refused()]  # doctest: +SKIP
    """
    programs = {name: edge.exported_program(name) for name in sorted(edge.methods)}
    parts = _parts(programs)
    methods: dict[str, list[DelegatedOperator]] = {}
    for name, program in programs.items():
        rows = methods[name] = []
        _graph(program.graph_module, edge.delegation_tags(name), parts[name], rows)
    return DelegationReport(methods)


def _parts(programs: dict[str, ExportedProgram]) -> dict[str, dict[str, int]]:
    """Method -> name of a node -> number of its part, as the compiler cuts them."""
    imported = import_programs(programs)
    found: dict[str, dict[str, int]] = {name: {} for name in programs}
    for method, parts in _core.delegate_parts(imported.program).items():
        for number, handles in enumerate(parts):
            found[method].update({imported.handles[handle][1]: number for handle in handles})
    return found


def _graph(
    module: fx.GraphModule, backends: dict[str, str], parts: dict[str, int], rows: list[DelegatedOperator]
) -> None:
    """Rows of a graph, of the parts that Python backends cut out of it, and of the bodies of its control flow."""
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            rows.append(_row(node, backends.get(node.meta.get(_TAG, ""), ""), parts.get(node.name, -1)))
        elif node.op == "get_attr":
            held = _attribute(module, node.target)
            if hasattr(held, "original_module") and hasattr(held, "backend_id"):
                number = 1 + max((row.part for row in rows), default=max(parts.values(), default=-1))
                for inner in held.original_module.graph.nodes:
                    if inner.op == "call_function" and isinstance(inner.target, OpOverload):
                        rows.append(_row(inner, held.backend_id, number))
            elif isinstance(held, fx.GraphModule):
                _graph(held, backends, parts, rows)


def _row(node: fx.Node, backend: str, part: int) -> DelegatedOperator:
    source = source_of(node)
    where = f"{source.file}:{source.line}" if source.file else ""
    refusals = {} if backend else refusals_of(node)
    return DelegatedOperator(node.name, str(node.target), where, source.module_path, backend, part, refusals)


def _attribute(module: fx.GraphModule, path: str) -> Any:
    held: Any = module
    for name in path.split("."):
        held = getattr(held, name)
    return held


def _destination(row: DelegatedOperator) -> str:
    return f"{row.backend}, part {row.part}" if row.backend else f"the runtime's kernels: {row.reason}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST // 2 - 1]}…{text[-_WIDEST // 2 :]}"


def _aligned(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Columns of equal width; the last one as long as it is."""
    cells = [head, *((*map(_shortened, row[:-1]), row[-1]) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head) - 1)]
    lines = []
    for row in cells:
        padded = [text.ljust(width) for text, width in zip(row[:-1], widths, strict=True)]
        lines.append(("  " + "  ".join([*padded, row[-1]])).rstrip())
    return lines
