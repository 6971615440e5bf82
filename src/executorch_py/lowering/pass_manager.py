"""Managers that run several passes, under their published names; torch's own does the work for graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.infra import pass_manager
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.errors import ExecutorchError
from executorch_py.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult

__all__ = ["ExportedProgramPassManager", "PassManager", "PassType"]

PassType = ExportedProgramPassBase | Callable[[fx.GraphModule], PassResult | None]


def _flat(passes: Iterable[Any] | None) -> list[Any]:
    """Passes in one list; the published managers take lists of lists."""
    return [one for item in passes or [] for one in (item if isinstance(item, (list, tuple)) else [item])]


class PassManager(pass_manager.PassManager):
    """Runs passes over a graph, with checks between them.

    Args:
        passes: Passes, or lists of passes.
        run_checks_after_each_pass: Run the checks of ``add_checks`` after each pass, not only at the end.
        suppress_check_failures: A pass that fails is noted and left out.
        steps: How often all passes run, at most: until none changes anything.
    """

    def __init__(
        self,
        passes: Sequence[Any] | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
        steps: int = 1,
    ) -> None:
        super().__init__(
            passes=_flat(passes),
            run_checks_after_each_pass=run_checks_after_each_pass,
            suppress_check_failures=suppress_check_failures,
            steps=steps,
        )


class ExportedProgramPassManager(ExportedProgramPassBase):
    """Runs passes over a whole program: those over programs and those over graphs, in one order.

    Arguments of PassManager.
    """

    def __init__(
        self,
        passes: Sequence[Any] | None = None,
        constraints: list[Callable[[Any, Any], bool]] | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
        steps: int = 1,
    ) -> None:
        ordered = pass_manager.PassManager(_flat(passes), constraints)
        ordered.solve_constraints()
        self.passes = ordered.passes
        self.checks: list[Callable[[fx.GraphModule], None]] = []
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self.steps = steps

    def add_pass(self, one: Any) -> None:
        """Adds a pass at the end."""
        self.passes.append(one)

    def add_checks(self, check: Callable[[fx.GraphModule], None]) -> None:
        """Adds a check, which raises when a graph is not as it must be."""
        self.checks.append(check)

    def check(self, exported_program: ExportedProgram) -> None:
        """Runs the checks."""
        for one in self.checks:
            one(exported_program.graph_module)

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Runs all passes, up to ``steps`` times, until none changes anything."""
        from executorch_py.lowering.passes import run_passes

        program, modified = exported_program, False
        for _ in range(self.steps):
            before = program
            for one in self.passes:
                try:
                    program = run_passes(program, [one])
                    if self.run_checks_after_each_pass:
                        self.check(program)
                except ExecutorchError:
                    if not self.suppress_check_failures:
                        raise
            if str(before.graph) == str(program.graph):
                break
            modified = True
        self.check(program)
        return ExportedProgramPassResult(program, modified)
