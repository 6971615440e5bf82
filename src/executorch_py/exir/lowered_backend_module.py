"""LoweredBackendModule: a part of a graph that a backend has compiled, and the operator that calls it."""

from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram

from executorch_py.export.state import TensorVersion

from .backend.backend_details import PreprocessResult, named_data_of
from .backend.compile_spec_schema import CompileSpec


def _versions_of(program: ExportedProgram) -> list[TensorVersion]:
    """The weights that go into a payload, as they are now."""
    held = {**program.state_dict, **program.constants}
    return [TensorVersion.of(name, value) for name, value in held.items() if isinstance(value, torch.Tensor)]


class LoweredBackendModule(torch.nn.Module):
    """What stands in a graph where a backend took nodes over.

    Calling it in eager mode runs the original part, so a lowered program can still be checked in Python.

    Attributes:
        named_data: Data that the payload refers to by key, shared by delegates.
        versions: The weights that went into the payload, as they were.
        meta: ``debug_handle_map`` of the backend, if it gave one.
    """

    def __init__(
        self,
        edge_program: ExportedProgram,
        backend_id: str,
        processed_bytes: bytes,
        compile_specs: list[CompileSpec],
        named_data_store_output: Any = None,
        debug_handle_map: Any = None,
    ) -> None:
        super().__init__()
        self._original_exported_program = edge_program
        self._backend_id = backend_id
        self._processed_bytes = processed_bytes
        self._compile_specs = compile_specs
        self.named_data = named_data_of(PreprocessResult(data_store_output=named_data_store_output))
        self.meta = {"debug_handle_map": debug_handle_map}
        self.versions = _versions_of(edge_program)

    @property
    def backend_id(self) -> str:
        """Which backend runs the payload."""
        return self._backend_id

    @property
    def processed_bytes(self) -> bytes:
        """The payload."""
        return self._processed_bytes

    @property
    def compile_specs(self) -> list[CompileSpec]:
        """What the partitioner told the backend."""
        return self._compile_specs

    @property
    def original_module(self) -> ExportedProgram:
        """The part as the backend got it."""
        return self._original_exported_program

    @property
    def named_data_store_output(self) -> dict[str, bytes]:
        """Data that the payload refers to by key."""
        return dict(self.named_data)

    def buffer(
        self,
        extract_delegate_segments: bool = False,
        segment_alignment: int = 128,
        constant_tensor_alignment: int | None = None,
        delegate_alignment: int | None = None,
        memory_planning: Any = None,
    ) -> bytes:
        """A file whose method ``forward`` calls this part and nothing else. Arguments are those of the configuration."""
        return self._alone(
            memory_planning,
            extract_delegate_segments=extract_delegate_segments,
            segment_alignment=segment_alignment,
            constant_tensor_alignment=constant_tensor_alignment,
            delegate_alignment=delegate_alignment,
        ).buffer

    def program(self, emit_stacktrace: bool = False, memory_planning: Any = None) -> Any:
        """That program, as ``to_executorch`` gives one."""
        return self._alone(memory_planning, emit_stacktrace=emit_stacktrace)

    def _alone(self, memory_planning: Any, **options: Any) -> Any:
        from executorch_py.lowering.config import ExecutorchBackendConfig
        from executorch_py.lowering.cut import whole_as_call
        from executorch_py.lowering.edge import EdgeProgramManager

        if memory_planning is not None:
            options["memory_planning_pass"] = memory_planning
        edge = EdgeProgramManager(whole_as_call(self._original_exported_program, self))
        return edge.to_executorch(ExecutorchBackendConfig(**options))

    def fill(self, processed_bytes: bytes, named_data: dict[str, bytes], debug_handle_map: Any) -> None:
        """Sets what the backend's preprocess made of the part."""
        self._processed_bytes = processed_bytes
        self.named_data = named_data
        self.meta["debug_handle_map"] = debug_handle_map

    def forward(self, *args: Any) -> Any:
        """Runs the original part."""
        return executorch_call_delegate(self, *args)

    def __deepcopy__(self, memo: dict[int, Any]) -> "LoweredBackendModule":
        """Compiled parts are immutable; copies of a graph share them."""
        return self


def get_lowered_submodules(graph_module: fx.GraphModule) -> list[tuple[str, LoweredBackendModule, fx.Node]]:
    """Name, compiled part and node of each part that the graph holds."""
    found = []
    for node in graph_module.graph.nodes:
        held = getattr(graph_module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(held, LoweredBackendModule):
            found.append((str(node.target), held, node))
    return found


def get_lowered_backend_modules(graph_module: fx.GraphModule) -> list[LoweredBackendModule]:
    """The compiled parts of a graph."""
    return [part for _, part, _ in get_lowered_submodules(graph_module)]


__all__ = [
    "LoweredBackendModule",
    "executorch_call_delegate",
    "get_lowered_backend_modules",
    "get_lowered_submodules",
]
