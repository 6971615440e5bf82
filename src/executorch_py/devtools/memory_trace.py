"""What lies where in planned memory, step by step, as a file for chrome://tracing.

A row is a step of the method. Along it lie the tensors that are alive, each as long as its bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from executorch_py.errors import NotFoundError
from executorch_py.exir.tensor import TensorSpec
from executorch_py.lowering.planned_graph import Origin, read_method

__all__ = ["Allocation", "MemoryTimeline", "create_tensor_allocation_info", "generate_memory_trace", "planned_graph"]


@dataclass
class Allocation:
    """A tensor in planned memory.

    Attributes:
        name: Of the value.
        op_name: Operator that makes it.
        memory_id: Arena.
        memory_offset: Byte in the arena.
        size_bytes: Bytes.
        fqn: Path of the module.
        file_and_line_num: The user's line.
    """

    name: str
    op_name: str
    memory_id: int
    memory_offset: int
    size_bytes: int
    fqn: str = ""
    file_and_line_num: str = ""


@dataclass
class MemoryTimeline:
    """A step of a method: the tensors that are alive."""

    allocations: list[Allocation] = field(default_factory=list)


def planned_graph(program: Any, method_name: str = "forward") -> fx.GraphModule:
    """A method of a compiled program as a graph of kernels, with the place of each tensor in ``node.meta["spec"]``.

    Raises:
        NotFoundError: There is no such method.
    """
    if method_name not in program.methods:
        raise NotFoundError(f"there is no method '{method_name}'; there are {', '.join(sorted(program.methods))}")
    return read_method(program.dump(), name=method_name).module


def create_tensor_allocation_info(graph: fx.Graph) -> list[MemoryTimeline]:
    """A timeline with a step for each node of a planned graph."""
    nodes = list(graph.nodes)
    life: dict[int, list[Any]] = {}
    for step, node in enumerate(nodes):
        for one in (node, *node.all_input_nodes):
            specs = one.meta.get("spec")
            for spec in specs if isinstance(specs, tuple) else [specs]:
                if isinstance(spec, TensorSpec) and spec.mem_offset is not None and not spec.const:
                    life.setdefault(id(spec), [spec, one, step, step])[3] = step
    timelines = [MemoryTimeline() for _ in nodes]
    for spec, node, first, last in life.values():
        origin = getattr(spec, "origin", None)
        if origin is None:
            target = getattr(node.target, "__name__", str(node.target))
            origin = Origin(node.name, "input" if node.op == "placeholder" else target)
        place = (spec.mem_id, spec.mem_offset, spec.nbytes())
        one = Allocation(origin.value, origin.operator, *place, origin.module_path, origin.line)
        for step in range(first, last + 1):
            timelines[step].allocations.append(one)
    return timelines


def generate_memory_trace(
    executorch_program_manager: Any,
    chrome_trace_filename: str,
    enable_memory_offsets: bool = False,
    method_name: str = "forward",
    ommit_metadata: bool = False,
) -> None:
    """Writes the trace of a compiled program.

    Args:
        executorch_program_manager: What ``to_executorch`` returned.
        chrome_trace_filename: Where to.
        enable_memory_offsets: Show each tensor at its place, instead of one behind the other.
        method_name: Which method.
        ommit_metadata: Leave out what the viewer shows of a tensor beside its name.
    """
    events = []
    for step, timeline in enumerate(
        create_tensor_allocation_info(planned_graph(executorch_program_manager, method_name).graph)
    ):
        ends: dict[int, int] = {}
        for one in sorted(timeline.allocations, key=lambda one: (one.memory_id, one.memory_offset)):
            start = one.memory_offset if enable_memory_offsets else ends.get(one.memory_id, 0)
            ends[one.memory_id] = start + one.size_bytes
            event: dict[str, Any] = {
                "name": one.name,
                "cat": "memory_allocation",
                "ph": "X",
                "ts": start,
                "dur": one.size_bytes,
                "pid": one.memory_id,
                "tid": step,
            }
            if not ommit_metadata:
                event["args"] = {
                    "op_name": one.op_name,
                    "size_bytes": one.size_bytes,
                    "offset": one.memory_offset,
                    "fqn": one.fqn,
                    "file_and_line_num": one.file_and_line_num,
                }
            events.append(event)
    with open(chrome_trace_filename, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)
