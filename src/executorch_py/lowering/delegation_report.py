"""What of Edge programs went to which backend, what did not and why, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py import _core
from executorch_py.exir.backend.utils import refusals_of
from executorch_py.export.importer.programs import Imported
from executorch_py.graphs.nodes import module_attribute
from executorch_py.graphs.sources import source_of

from .delegation_table import DelegatedOperator, DelegationReport

_TAG = "delegation_tag"


def report_of(
    programs: Mapping[str, ExportedProgram], backends: Mapping[str, Mapping[str, str]], imported: Imported
) -> DelegationReport:
    """The report of Edge programs by method.

    Args:
        programs: Method -> program.
        backends: Method -> delegation tag -> backend id.
        imported: The programs in the IR, before any pass.
    """
    parts: dict[str, dict[fx.Node, int]] = {name: {} for name in programs}
    for method, groups in _core.delegate_parts(imported.program).items():
        for number, handles in enumerate(groups):
            parts[method].update({imported.nodes[handle]: number for handle in handles})
    methods: dict[str, list[DelegatedOperator]] = {}
    for name, program in programs.items():
        rows = methods[name] = []
        _graph(program.graph_module, backends[name], parts[name], rows)
    return DelegationReport(methods)


def _graph(
    module: fx.GraphModule, backends: Mapping[str, str], parts: Mapping[fx.Node, int], rows: list[DelegatedOperator]
) -> None:
    """Rows of a graph, of the parts that Python backends cut out of it, and of the bodies of its control flow."""
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            rows.append(_row(node, backends.get(node.meta.get(_TAG, ""), ""), parts.get(node, -1)))
        elif node.op == "get_attr":
            held = module_attribute(module, node.target)
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
    notes = refusals_of(node)
    refusals = {backend: notes[backend]} if backend in notes else {} if backend else notes
    return DelegatedOperator(node.name, str(node.target), where, source.module_path, backend, part, refusals)
