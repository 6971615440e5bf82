"""Runs memory planners that are written in Python, and hands their plans to the compiler.

The compiler runs twice: once to see what memory a method needs when all passes are done, and, when each planner has set
the places of its method's specs, once more with these places. The second run checks them like any other plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from executorch_py import _core
from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from executorch_py.exir.passes.memory_planning_pass import MAX_ARENAS, MemoryPlanningPass

from .planned_graph import PlannedGraph, Request, read_method

#: Value -> memory id and offset.
Places = dict[str, tuple[int, int]]


def options_of(plan: Any, algorithm: Any) -> dict[str, Any]:
    """A method's planning options of the compiler."""
    return {
        "algorithm": algorithm,
        "alloc_graph_input": getattr(plan, "alloc_graph_input", True),
        "alloc_graph_output": getattr(plan, "alloc_graph_output", True),
        "overlap_inputs": getattr(plan, "overlap_inputs", False),
        "alignment": getattr(plan, "alignment", 16),
        "capacities": dict(getattr(plan, "memory_capacities", {})),
    }


def plan_in_python(
    planners: Mapping[str, Any], signatures: Mapping[str, Any], program: Any, options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Lets each planner plan its method.

    Args:
        planners: Method -> a MemoryPlanningPass, or another pass over a graph.
        signatures: Method -> the signature of its exported program.
        program: The imported program, which this uses up.
        options: Those of the compiler.

    Returns:
        The planning options of these methods, with the places.

    Raises:
        InvalidArgumentError: A planner left a tensor without a place, or named an arena that cannot be.
    """
    texts: dict[str, str] = {}
    requests: dict[str, list[Request]] = {}
    recording = {
        name: options_of(plan, _recorder(requests, name)) | {"capacities": {}} for name, plan in planners.items()
    }
    _core.compile(
        program,
        {
            **options,
            "planning": {**options["planning"], **recording},
            "on_pass": lambda _, method, __, text: texts.__setitem__(method, text),
        },
    )
    graphs = {name: read_method(texts[name], requests[name]) for name in planners}
    for name, planner in planners.items():
        _call(planner, graphs[name], signatures[name])
    for planner in {id(one): one for one in planners.values()}.values():
        if callable(getattr(planner, "run_multimethod", None)):
            planner.run_multimethod()
    return {
        name: _with_places(name, planner, _places(name, planner, graphs[name], requests[name]))
        for name, planner in planners.items()
    }


def _recorder(requests: dict[str, list[Request]], method: str) -> Callable[..., list[tuple[int, int]]]:
    """A planner that remembers what it is called with and gives each tensor memory of its own."""

    def record(wanted: list[Request], arenas: list[tuple[str, int]]) -> list[tuple[int, int]]:
        requests[method] = wanted
        places, offset = [], 0
        for request in wanted:
            places.append((1, offset))
            offset += request[3]
        return places

    return record


def _call(planner: Any, graph: PlannedGraph, signature: Any) -> None:
    """Calls what the planner overrides: ``run``, else ``__call__`` or ``call``; around it ``requires`` and
    ``ensures``.
    """
    kind = type(planner)
    if not isinstance(planner, MemoryPlanningPass):
        planner.run(graph.module, signature) if callable(getattr(planner, "run", None)) else planner(graph.module)
        return
    if kind.__call__ is not MemoryPlanningPass.__call__:
        planner(graph.module)
        return
    planner.requires(graph.module)
    if kind.call is not MemoryPlanningPass.call and kind.run is MemoryPlanningPass.run:
        planner.call(graph.module)
    else:
        planner.run(graph.module, signature)
    planner.ensures(graph.module)


def _places(method: str, planner: Any, graph: PlannedGraph, requests: list[Request]) -> Places:
    places: Places = {}
    for request in requests:
        spec = graph.specs[request[0]]
        name = getattr(planner, "__name__", type(planner).__name__)
        where = f"the memory planner {name}, method '{method}', '{request[0]}'"
        if spec.mem_offset is None:
            raise InvalidArgumentError(f"{where}: the tensor has no place; set mem_id and mem_offset of its spec")
        memory_id = 1 if spec.mem_id is None else spec.mem_id
        for what, value in (("mem_id", memory_id), ("mem_offset", spec.mem_offset)):
            if not isinstance(value, int):
                raise InvalidTypeError(f"{where}: {what} is {value!r:.60}, must be an int")
        if not 1 <= memory_id <= MAX_ARENAS or spec.mem_offset < 0:
            raise InvalidArgumentError(
                f"{where}: mem_id is {memory_id} and mem_offset {spec.mem_offset}; ids are 1 to {MAX_ARENAS}, offsets "
                "from 0"
            )
        places[request[0]] = (memory_id, spec.mem_offset)
    return places


def _with_places(method: str, planner: Any, places: Places) -> dict[str, Any]:
    options = options_of(planner, lambda requests, arenas: [places[request[0]] for request in requests])
    last = max((memory_id for memory_id, _ in places.values()), default=1)
    options["capacities"].setdefault(last, 0)
    return options
