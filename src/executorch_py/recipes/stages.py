"""The stages of a session: what passes between them, and in which order they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from executorch_py.errors import InvalidArgumentError, InvalidStateError

from .recipe import StageType

__all__ = ["PipelineArtifact", "Stage", "require_order"]

_PREDECESSORS = {
    StageType.QUANTIZE: (StageType.SOURCE_TRANSFORM,),
    StageType.TORCH_EXPORT: (StageType.SOURCE_TRANSFORM, StageType.QUANTIZE),
    StageType.TO_EDGE_TRANSFORM_AND_LOWER: (StageType.TORCH_EXPORT,),
    StageType.TO_EDGE: (StageType.TORCH_EXPORT,),
    StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: (StageType.TO_EDGE, StageType.TO_EDGE_TRANSFORM_AND_LOWER),
    StageType.TO_BACKEND: (StageType.TO_EDGE, StageType.EDGE_PROGRAM_MANAGER_TRANSFORM),
    StageType.TO_EXECUTORCH: (
        StageType.TO_EDGE_TRANSFORM_AND_LOWER,
        StageType.TO_EDGE,
        StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
        StageType.TO_BACKEND,
    ),
}
_STARTING = (
    StageType.SOURCE_TRANSFORM,
    StageType.QUANTIZE,
    StageType.TORCH_EXPORT,
    StageType.TO_EDGE_TRANSFORM_AND_LOWER,
    StageType.TO_EDGE,
)


@dataclass
class PipelineArtifact:
    """What passes from stage to stage.

    Attributes:
        data: Modules or programs by method, or a program manager.
        context: What the session knows: ``example_inputs``, ``dynamic_shapes``, ``constant_methods``.
    """

    data: Any
    context: dict[str, Any] = field(default_factory=dict)

    def get_context(self, key: str, default: Any = None) -> Any:
        """What is known under a key."""
        return self.context.get(key, default)

    def add_context(self, key: str, value: Any) -> None:
        """Adds to what is known."""
        self.context[key] = value

    def copy_with_new_data(self, new_data: Any) -> PipelineArtifact:
        """Other data, the same context."""
        return PipelineArtifact(new_data, dict(self.context))


class Stage:
    """A step of a session; derive from it and ``register_stage`` for one of your own.

    ``run`` gets an artifact; what it makes is ``get_artifacts()``.
    """

    def __init__(self, kind: StageType | None = None, work: Callable[[PipelineArtifact], Any] | None = None) -> None:
        self._kind, self._work = kind, work
        self._artifact: PipelineArtifact | None = None

    @property
    def stage_type(self) -> StageType | None:
        """Which step it is."""
        return self._kind

    @property
    def valid_predecessor_stages(self) -> list[StageType]:
        """What may stand before it."""
        return list(_PREDECESSORS.get(self.stage_type, ())) if self.stage_type else []

    @property
    def can_start_pipeline(self) -> bool:
        """Whether it may be the first."""
        return self.stage_type in _STARTING

    def run(self, artifact: PipelineArtifact) -> None:
        """Does the step.

        Raises:
            NotImplementedError: The stage says nothing of what it does.
        """
        if self._work is None:
            raise NotImplementedError(f"{type(self).__name__} must have a method run(artifact)")
        self._artifact = artifact.copy_with_new_data(self._work(artifact))

    def get_artifacts(self) -> PipelineArtifact:
        """What the stage made: what ``run`` put into ``_artifact``.

        Raises:
            InvalidStateError: It has not run.
        """
        if self._artifact is None:
            raise InvalidStateError("the stage has not run yet")
        return self._artifact


def require_order(order: list[StageType], stages: Mapping[StageType, Any]) -> None:
    """Each stage says what may stand before it, and whether it may be the first.

    Raises:
        InvalidArgumentError: One stands elsewhere; names both, and what may stand there.
    """
    for before, kind in zip([None, *order], order, strict=False):
        stage = stages[kind]
        own = Stage(kind)
        if before is None:
            if not getattr(stage, "can_start_pipeline", own.can_start_pipeline):
                raise InvalidArgumentError(
                    f"stage {kind.name} cannot be the first; {', '.join(one.name for one in _STARTING)} can"
                )
            continue
        allowed = getattr(stage, "valid_predecessor_stages", own.valid_predecessor_stages)
        if before not in allowed:
            names = ", ".join(one.name for one in allowed) or "nothing"
            raise InvalidArgumentError(f"stage {kind.name} cannot stand behind {before.name}, but behind {names}")
