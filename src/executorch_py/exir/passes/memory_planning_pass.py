"""MemoryPlanningPass: how a method's memory is planned, and the class to derive from for a planner of your own.

class Pools(MemoryPlanningPass):
    def run(self, graph_module, graph_signature=None):
        for node in graph_module.graph.nodes:
            if node.target is torch.ops.aten.add.out:
                node.meta["spec"].mem_id = 2
        return super().run(graph_module, graph_signature)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py import _arguments
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotSupportedError
from executorch_py.exir import memory_planning
from executorch_py.exir.tensor import TensorSpec

__all__ = ["MemoryPlanningPass", "is_own_planner"]

#: Names of planners; "best" is another name of the default.
_PLANNERS = ("greedy", "naive", "best")

#: Arenas that a plan may name (the bindings refuse more).
MAX_ARENAS = 16

#: 2 MiB, the largest page that a file is mapped with; more is a mistake that fills the file with zeros.
MAX_ALIGNMENT = 2**21


def require_power_of_two(what: str, value: Any, lowest: int) -> None:
    """A number of bytes that things can be aligned to.

    Raises:
        InvalidArgumentError: It is none.
    """
    number = _arguments.integer(what, value, lowest, MAX_ALIGNMENT)
    if number & (number - 1):
        raise InvalidArgumentError(f"{what} is {number}, must be a power of two")


@dataclass
class MemoryPlanningPass:
    """How memory is planned.

    A subclass that overrides ``run`` plans itself: it gets the method after all passes, in the published form, with
    ``node.meta["spec"]`` at each node. It sets ``mem_id`` and ``mem_offset`` of the specs, or sets ``mem_id`` and calls
    ``run`` of this class. The compiler checks the plan and writes it into the file as it is.

    Attributes:
        memory_planning_algo: "greedy", "naive", "best"; a function ``(requests, arenas) -> places``; an algorithm or a
            suite of the published kind (``exir.memory_planning``); None takes the default.
        allow_lifetime_and_storage_overlap: ``run`` does not look for tensors that share memory while both live. The
            compiler does in any case.
        alloc_graph_input: Inputs are copied into planned memory; False: the caller's memory is used.
        alloc_graph_output: Outputs live in planned memory; False: the caller gives memory before the call.
        alloc_mutable_buffers: True; state always has planned memory.
        share_mutable_buffers: Accepted; methods always share the state that has one name, in an arena of its own.
        alignment: Bytes.
        memory_capacities: Memory id -> bytes, for machines with several memories (id 1 is the first arena).
        overlap_inputs: For microcontrollers: integer convolutions may write over their own input. Only the kernels of
            firmware work so; others refuse the file at load.
    """

    memory_planning_algo: str | Callable[..., Any] | None = None
    allow_lifetime_and_storage_overlap: bool = False
    alloc_graph_input: bool = True
    alloc_graph_output: bool = True
    alloc_mutable_buffers: bool = True
    share_mutable_buffers: bool = False
    alignment: int = 16
    memory_capacities: Mapping[int, int] = field(default_factory=dict)
    overlap_inputs: bool = False

    def __post_init__(self) -> None:
        self.require_valid()

    def require_valid(self) -> None:
        """Checks every field; lowering does so again, because fields can be assigned to.

        Raises:
            InvalidTypeError: A field is of another kind than it must be.
            InvalidArgumentError: A value is out of bounds.
            NotSupportedError: State is to have no planned memory.
        """
        algorithm = self.memory_planning_algo
        if isinstance(algorithm, str):
            if algorithm not in _PLANNERS:
                raise InvalidArgumentError(
                    f"memory_planning_algo is '{algorithm}', must be {', '.join(_PLANNERS)} or a function"
                )
        elif algorithm is not None and not callable(algorithm):
            raise InvalidTypeError(f"memory_planning_algo is {algorithm!r:.80}, must be a name or a function")
        else:
            _kind_of(algorithm)
        for name in _FLAGS:
            _arguments.flag(name, getattr(self, name, False))
        if not self.alloc_mutable_buffers:
            raise NotSupportedError(
                "alloc_mutable_buffers is False; state always has planned memory here: leave it True"
            )
        require_power_of_two("alignment", self.alignment, 1)
        capacities = _arguments.instance("memory_capacities", self._capacities(), Mapping, "a dict of id and bytes")
        for memory_id, capacity in capacities.items():
            _arguments.integer("a memory id", memory_id, 1, MAX_ARENAS)
            _arguments.integer(f"the capacity of memory {memory_id}", capacity, 0, 2**63 - 1)

    def _capacities(self) -> Any:
        return getattr(self, "memory_capacities", {})  # a subclass whose __init__ does not call this class's has none

    # -------------------------------------------------------------------------------------------- the published methods

    def run(self, graph_module: fx.GraphModule, graph_signature: Any = None) -> PassResult:
        """Places each spec of the method with the algorithm. Specs whose ``mem_id`` is set stay in that arena."""
        sizes = memory_planning.apply_algo(
            self._algorithm(),
            graph_module,
            self.alignment,
            graph_signature,
            self.alloc_graph_input,
            self.alloc_graph_output,
            self.alloc_mutable_buffers,
        )
        graph_module.meta["non_const_buffer_sizes"] = sizes
        memory_planning.Verifier(
            graph_module, self.alloc_graph_input, self.alloc_graph_output, self.alloc_mutable_buffers, graph_signature
        ).verify_storage_reuse(self.allow_lifetime_and_storage_overlap)
        return PassResult(graph_module, True)

    def run_multimethod(self) -> None:
        """Called once, when ``run`` has planned all methods that share this object. Nothing to do in this class."""

    def requires(self, graph_module: fx.GraphModule) -> None:
        """Called before the plan is made; a subclass may raise."""

    def ensures(self, graph_module: fx.GraphModule) -> None:
        """Called when the plan is made; a subclass may raise."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        """The same as ``run``."""
        return self.run(graph_module)

    def __call__(self, graph_module: fx.GraphModule) -> PassResult:
        """Plans a graph, as other passes run on one."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def _algorithm(self) -> Callable[..., Any]:
        algorithm = self.memory_planning_algo
        if algorithm is None or algorithm in ("greedy", "best"):
            return memory_planning.MemoryPlanningAlgorithmSuite()
        if algorithm == "naive":
            return memory_planning.naive
        assert callable(algorithm)
        return algorithm if _kind_of(algorithm) == "published" else _over_specs(algorithm)


_FLAGS = (
    "allow_lifetime_and_storage_overlap",
    "alloc_graph_input",
    "alloc_graph_output",
    "alloc_mutable_buffers",
    "share_mutable_buffers",
    "overlap_inputs",
)

_OWN = ("run", "call", "__call__", "requires", "ensures", "run_multimethod", "_algorithm")


def is_own_planner(plan: Any) -> bool:
    """Whether a user's code plans: a subclass that overrides a method, another kind of pass, or a published
    algorithm.
    """
    if not isinstance(plan, MemoryPlanningPass):
        return True
    if any(getattr(type(plan), name) is not getattr(MemoryPlanningPass, name) for name in _OWN):
        return True
    return core_algorithm(plan) is None and _kind_of(plan.memory_planning_algo) == "published"


def core_algorithm(plan: MemoryPlanningPass) -> Any:
    """What the compiler's own planners do as well, and better: a name, a function of requests and arenas; else None."""
    algorithm = plan.memory_planning_algo
    suite = isinstance(algorithm, memory_planning.MemoryPlanningAlgorithmSuite)
    alone = algorithm.algo_list[0] if suite and len(algorithm.algo_list) == 1 else algorithm  # type: ignore[union-attr]
    if alone is memory_planning.greedy or algorithm is None:
        return "greedy"
    if alone is memory_planning.naive:
        return "naive"
    return algorithm if isinstance(algorithm, str) or _kind_of(algorithm) == "requests" else None


def _kind_of(algorithm: Any) -> str:
    """Which of the two kinds of functions an algorithm is, by what it can be called with.

    Raises:
        InvalidTypeError: It is none of both.
    """
    if algorithm is None or isinstance(algorithm, str):
        return "requests"
    return _KINDS[_arguments.count_taken("memory_planning_algo", algorithm, _FORMS)]


#: Number of arguments -> how they are written, and the kind.
_FORMS = {
    2: "(requests, arenas)",
    5: "(alignment, specs, graph_module, graph_signature, extra_padding), as published algorithms do",
}
_KINDS = {2: "requests", 5: "published"}


def _over_specs(planner: Callable[..., Any]) -> Callable[..., Any]:
    """A function of requests and arenas, as an algorithm over specs."""

    def algorithm(
        alignment: int, specs: Sequence[TensorSpec], module: fx.GraphModule, signature: Any, padding: int
    ) -> Any:
        requests = [
            (f"spec {index}", *spec.lifetime, spec.allocated_memory, 1, spec.mem_id or 0)
            for index, spec in enumerate(specs)
        ]
        arenas = [("", 0)] * max([spec.mem_id or 1 for spec in specs], default=1)
        places = planner(requests, arenas)
        sizes = [0] * (max((place[0] for place in places), default=1) + 1)
        for spec, (memory_id, offset) in zip(specs, places, strict=True):
            sizes[memory_id] = max(sizes[memory_id], offset + spec.allocated_memory)
        decided = {s: memory_planning.SpecAllocResult(m, o, o) for s, (m, o) in zip(specs, places, strict=True)}
        return memory_planning.MemoryAlgoResult(decided, sizes)

    return algorithm
