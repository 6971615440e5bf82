"""``memory_report``: what lives at the peak of each arena, by line and module, and what an option would save.

Example:
    >>> print(memory_report(program))  # doctest: +SKIP
    memory of forward: arena 1 of 602,112 bytes, ...
      tensor  bytes    line         module      from  to
      conv_1  401,408  model.py:31  features.0  4     6
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from executorch_py._shown import Card, Shown, nbytes_text
from executorch_py.devtools.memory_trace import Allocation, create_tensor_allocation_info, planned_graph
from executorch_py.errors import ExecutorchError, InvalidTypeError
from executorch_py.lowering.config import ExecutorchBackendConfig, MemoryPlanningPass
from executorch_py.lowering.program import ExecutorchProgramManager, compile_methods

__all__ = ["ArenaPeak", "MemoryReport", "Saving", "memory_report"]


@dataclass(frozen=True)
class Life:
    """A tensor in planned memory and the steps in which it lives, both ends included."""

    tensor: Allocation
    first: int
    last: int


@dataclass(frozen=True)
class ArenaPeak:
    """The step at which most bytes of an arena are alive.

    Attributes:
        arena: Its number.
        nbytes: Bytes of the arena.
        live_nbytes: Bytes of the tensors that are alive at the peak.
        step: The step.
        tensors: Those tensors, the largest first.
    """

    arena: int
    nbytes: int
    live_nbytes: int
    step: int
    tensors: tuple[Life, ...]

    @property
    def by_module(self) -> dict[str, int]:
        """Module path -> bytes of its tensors at the peak, the largest first."""
        sums: dict[str, int] = {}
        for one in self.tensors:
            sums[one.tensor.fqn] = sums.get(one.tensor.fqn, 0) + one.tensor.size_bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Saving:
    """What an option would change: bytes of all arenas with it, or why it cannot be had."""

    option: str
    nbytes: int | None
    reason: str = ""


@dataclass(repr=False)
class MemoryReport(Shown):
    """Planned memory of a method.

    Attributes:
        method: Its name.
        nbytes: Bytes of all arenas.
        naive_nbytes: Bytes without reuse.
        arenas: The peak of each arena.
        lives: All tensors with their steps, for pictures.
        steps: What each step is.
        savings: What options would change.
    """

    method: str
    nbytes: int
    naive_nbytes: int
    arenas: list[ArenaPeak]
    lives: list[Life]
    steps: list[str]
    savings: list[Saving] = field(default_factory=list)

    @property
    def peak_by_module(self) -> dict[str, int]:
        """Module path -> bytes of its tensors that live at the peaks, the largest first."""
        sums: dict[str, int] = {}
        for arena in self.arenas:
            for module, nbytes in arena.by_module.items():
                sums[module] = sums.get(module, 0) + nbytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "method": self.method,
            "nbytes": self.nbytes,
            "naive_nbytes": self.naive_nbytes,
            "arenas": [
                {"arena": one.arena, "nbytes": one.nbytes, "live_nbytes": one.live_nbytes, "step": one.step}
                | {"tensors": [vars(life.tensor) | {"first": life.first, "last": life.last} for life in one.tensors]}
                for one in self.arenas
            ],
            "peak_by_module": self.peak_by_module,
            "savings": [vars(one) for one in self.savings],
        }

    def _card(self) -> Card:
        rows = []
        for peak in self.arenas:
            at = f"arena {peak.arena}, step {peak.step} of {len(self.steps)}"
            rows += [
                (
                    at,
                    one.tensor.name,
                    nbytes_text(one.tensor.size_bytes),
                    one.tensor.op_name,
                    one.tensor.file_and_line_num,
                    one.tensor.fqn,
                    f"{one.first} to {one.last}",
                )
                for one in peak.tensors
            ]
        for one in self.savings:
            name, _, effect = one.option.partition(": ")
            told = "does not fit"
            if one.nbytes is not None:
                told = f"{nbytes_text(one.nbytes)}, {one.nbytes - self.nbytes:+,} bytes"
            rows.append(("option", name, told, one.reason or effect, "", "", ""))
        for module, nbytes in list(self.peak_by_module.items())[:8]:
            rows.append(("at the peak, by module", module or "(the model)", nbytes_text(nbytes), "", "", "", ""))
        facts = [f"{nbytes_text(self.nbytes)} planned", f"{nbytes_text(self.naive_nbytes)} without reuse"]
        head = ("where", "tensor", "bytes", "operator", "line", "module", "lives in steps")
        return Card(f"memory of {self.method}", facts, head, rows)


def memory_report(
    program: ExecutorchProgramManager, method: str = "forward", *, try_options: bool = False
) -> MemoryReport:
    """What lives where in the planned memory of a compiled program.

    Args:
        program: What ``to_executorch`` returned.
        method: Which method.
        try_options: Compile again with each option that may save memory, and tell what it gives.

    Raises:
        NotFoundError: There is no such method.
    """
    if not isinstance(program, ExecutorchProgramManager):
        raise InvalidTypeError(
            f"program is {program!r:.60}, must be what to_executorch() returned: a file has no lines"
        )
    graph = planned_graph(program, method).graph
    lives, steps = _lives(graph), [node.name for node in graph.nodes]
    figures = next(one for one in program.memory_report if one["method"] == method)
    arenas = [
        _peak(arena, nbytes, [one for one in lives if one.tensor.memory_id == arena])
        for arena, nbytes in enumerate(figures["arena_sizes"])
        if nbytes
    ]
    report = MemoryReport(method, sum(figures["arena_sizes"]), figures["naive_nbytes"], arenas, lives, steps)
    if try_options:
        report.savings = [_saving(program, method, *option) for option in _OPTIONS.items()]
    return report


def _lives(graph: Any) -> list[Life]:
    found: dict[int, Life] = {}
    for step, timeline in enumerate(create_tensor_allocation_info(graph)):
        for one in timeline.allocations:
            known = found.get(id(one))
            found[id(one)] = Life(one, step, step) if known is None else replace(known, last=step)
    return list(found.values())


def _peak(arena: int, nbytes: int, lives: list[Life]) -> ArenaPeak:
    steps = {one.first for one in lives}  # the sum grows only where something begins
    alive = {step: [one for one in lives if one.first <= step <= one.last] for step in steps}
    step = max(sorted(alive), key=lambda at: sum(one.tensor.size_bytes for one in alive[at]), default=0)
    tensors = sorted(alive.get(step, ()), key=lambda one: -one.tensor.size_bytes)
    return ArenaPeak(arena, nbytes, sum(one.tensor.size_bytes for one in tensors), step, tuple(tensors))


#: What to try -> the config with it.
_OPTIONS: Mapping[str, Callable[[ExecutorchBackendConfig], ExecutorchBackendConfig]] = {
    "MemoryPlanningPass(alloc_graph_input=False): inputs stay in the caller's memory": lambda config: _planned(
        config, alloc_graph_input=False
    ),
    "MemoryPlanningPass(alloc_graph_output=False): outputs go to the caller's memory": lambda config: _planned(
        config, alloc_graph_output=False
    ),
    "quantized_io=True: inputs and outputs are integers": lambda config: replace(config, quantized_io=True),
}


def _planned(config: ExecutorchBackendConfig, **options: Any) -> ExecutorchBackendConfig:
    plan = config.memory_planning_pass
    return replace(
        config, memory_planning_pass=replace(plan, **options) if isinstance(plan, MemoryPlanningPass) else plan
    )


def _saving(
    program: ExecutorchProgramManager,
    method: str,
    option: str,
    change: Callable[[ExecutorchBackendConfig], ExecutorchBackendConfig],
) -> Saving:
    recorded = program._recorded
    try:
        other = compile_methods(recorded.methods, {}, change(program.backend_config), recorded)
    except ExecutorchError as error:
        return Saving(option, None, str(error).splitlines()[0])
    figures = next(one for one in other.memory_report if one["method"] == method)
    return Saving(option, sum(figures["arena_sizes"]))
