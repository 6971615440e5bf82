"""Why a partitioner left a node alone: for a log, for a table, and for ``et.delegation_report``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.passes.operator_support import OperatorSupportBase

__all__ = ["ReportRejected", "WhyNoPartition", "WhyNoPartitionReporter"]


def _scope(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return list(stack.values())[-1][0] if stack else ""


class WhyNoPartition:
    """Logs, at the level DEBUG, why a node is left alone.

    >>> why = WhyNoPartition(logging.getLogger("mine"))
    >>> why(node, "the weight is no constant")  # doctest: +SKIP
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger
        self.node: fx.Node | None = None
        self.reason = ""

    def __call__(self, node: fx.Node, reason: str) -> None:
        """Notes one refusal."""
        self.node, self.reason = node, reason
        self.logger.debug("%s", self)

    def __str__(self) -> str:
        if self.node is None:
            return "WhyNoPartition: no node was refused yet"
        target = getattr(self.node.target, "__name__", self.node.target)
        place = f" in {_scope(self.node)}" if _scope(self.node) else ""
        return f"WhyNoPartition: node {self.node.name} ({target}){place} was left alone: {self.reason}"


class WhyNoPartitionReporter:
    """Collects refusals and shows them as one table. The first reason of a node stays."""

    def __init__(self) -> None:
        self._reasons: dict[fx.Node, str] = {}

    def report_reject(self, node: fx.Node, reason: str) -> None:
        """Notes why ``node`` is left alone."""
        self._reasons.setdefault(node, reason)

    def wrap_check(self, operator_support: OperatorSupportBase, message: str) -> OperatorSupportBase:
        """``operator_support``, which notes ``message`` for each node that it does not accept."""
        return ReportRejected(operator_support, self, message)

    def get_table_report(self) -> str:
        """A line a node: its name, operator, module and the reason."""
        rows = [("node", "operator", "module", "reason")]
        for node, reason in self._reasons.items():
            rows.append((node.name, str(node.target), _scope(node), reason))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip() for row in rows
        )


class ReportRejected(OperatorSupportBase):
    """An operator support that notes what another one does not accept."""

    def __init__(self, operator_support: OperatorSupportBase, reporter: WhyNoPartitionReporter, message: str) -> None:
        self.operator_support = operator_support
        self.reporter = reporter
        self.message = message

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> Any:
        """The answer of the other."""
        accepted = self.operator_support.is_node_supported(submodules, node)
        if not accepted and node.op == "call_function":
            self.reporter.report_reject(node, self.message)
        return accepted
