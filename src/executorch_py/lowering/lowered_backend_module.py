"""LoweredBackendModule: a compiled part of a graph that can be made a program of its own."""

from typing import Any

from executorch_py.exir.backend.compiled_part import CompiledPart

from .config import ExecutorchBackendConfig
from .delegated import Delegated
from .extraction import whole_as_call
from .program import ExecutorchProgramManager, compile_methods


class LoweredBackendModule(CompiledPart):
    """What stands in a graph where a backend took nodes over."""

    def buffer(
        self,
        extract_delegate_segments: bool = False,
        segment_alignment: int = 128,
        constant_tensor_alignment: int | None = None,
        delegate_alignment: int | None = None,
        memory_planning: Any = None,
    ) -> bytes:
        """A file whose method ``forward`` calls this part alone. Arguments are those of the configuration."""
        return self._alone(
            memory_planning,
            extract_delegate_segments=extract_delegate_segments,
            segment_alignment=segment_alignment,
            constant_tensor_alignment=constant_tensor_alignment,
            delegate_alignment=delegate_alignment,
        ).buffer

    def program(self, emit_stacktrace: bool = False, memory_planning: Any = None) -> ExecutorchProgramManager:
        """That program, as ``to_executorch`` gives one."""
        return self._alone(memory_planning, emit_stacktrace=emit_stacktrace)

    def _alone(self, memory_planning: Any, **options: Any) -> ExecutorchProgramManager:
        if memory_planning is not None:
            options["memory_planning_pass"] = memory_planning
        config = ExecutorchBackendConfig(**options)
        config.require_valid()
        return compile_methods({"forward": Delegated(whole_as_call(self.original_module, self))}, {}, config)
