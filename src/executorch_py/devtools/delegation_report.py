"""``et.delegation_report(edge)``: what went to which backend, what did not and why, operator by operator.

>>> edge = et.to_edge_transform_and_lower(exported, partitioner=[MyPartitioner()])  # doctest: +SKIP
>>> print(et.delegation_report(edge))  # doctest: +SKIP
"""

from __future__ import annotations

from executorch_py.export.importer.programs import import_programs
from executorch_py.lowering.delegation_report import report_of
from executorch_py.lowering.delegation_table import DelegationReport
from executorch_py.lowering.edge import EdgeProgramManager


def delegation_report(edge: EdgeProgramManager) -> DelegationReport:
    """What a lowered Edge program gives to which backend, and why it keeps the rest.

    Args:
        edge: What ``to_edge_transform_and_lower`` or ``to_backend`` returned.

    Example:
        >>> report = et.delegation_report(edge)  # doctest: +SKIP
        >>> [row.source for row in report.refused()]  # doctest: +SKIP
    """
    programs = {name: edge.exported_program(name) for name in sorted(edge.methods)}
    return report_of(programs, {name: edge.delegation_tags(name) for name in programs}, import_programs(programs))
