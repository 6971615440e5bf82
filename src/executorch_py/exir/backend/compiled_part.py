"""CompiledPart: a part of a graph that a backend has compiled, and how a graph's parts are found."""

from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram

from executorch_py.graphs.program_state import TensorVersion

from .backend_details import PreprocessResult, named_data_of
from .compile_spec_schema import CompileSpec


def _versions_of(program: ExportedProgram) -> list[TensorVersion]:
    """The weights that go into a payload, as they are now."""
    held = {**program.state_dict, **program.constants}
    return [TensorVersion.of(name, value) for name, value in held.items() if isinstance(value, torch.Tensor)]


class CompiledPart(torch.nn.Module):
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

    def fill(self, processed_bytes: bytes, named_data: dict[str, bytes], debug_handle_map: Any) -> None:
        """Sets what the backend's preprocess made of the part."""
        self._processed_bytes = processed_bytes
        self.named_data = named_data
        self.meta["debug_handle_map"] = debug_handle_map

    def forward(self, *args: Any) -> Any:
        """Runs the original part."""
        return executorch_call_delegate(self, *args)

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledPart":
        """Compiled parts are immutable; copies of a graph share them."""
        return self


def get_lowered_submodules(graph_module: fx.GraphModule) -> list[tuple[str, CompiledPart, fx.Node]]:
    """Name, compiled part and node of each part that the graph holds."""
    found = []
    for node in graph_module.graph.nodes:
        held = getattr(graph_module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(held, CompiledPart):
            found.append((str(node.target), held, node))
    return found


def get_lowered_backend_modules(graph_module: fx.GraphModule) -> list[CompiledPart]:
    """The compiled parts of a graph."""
    return [part for _, part, _ in get_lowered_submodules(graph_module)]
