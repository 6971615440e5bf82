"""A program after partitioning: what delegation hands to the compiler."""

from dataclasses import dataclass, field

from torch.export import ExportedProgram

from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner


@dataclass
class Delegated:
    """A program after partitioning.

    Attributes:
        program: Parts of Python backends are calls; nodes for C++ backends carry tags.
        tags: Tag -> who compiles its nodes; only tags of C++ backends.
        partitioners: Those that tagged nodes for C++ backends, each with its tags.
    """

    program: ExportedProgram
    tags: dict[str, DelegationSpec] = field(default_factory=dict)
    partitioners: tuple[tuple[Partitioner, frozenset[str]], ...] = ()
