"""Memory planning in Python, under the published names: algorithms over TensorSpecs, and what they need of a graph.

An algorithm is a function ``(alignment, specs, graph_module, graph_signature, extra_padding) -> MemoryAlgoResult``. A
``MemoryPlanningPass`` takes one, or a ``MemoryPlanningAlgorithmSuite`` of several, of which the smallest plan wins.
Where a plan comes from makes no difference: the compiler checks it (``planning/overlap.h``) before a byte is written.

Without a planner of your own the compiler's greedy one plans, which is better and faster than ``greedy`` here
(docs: memory planning).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from executorch_py.errors import InternalError, InvalidTypeError
from executorch_py.exir.tensor import TensorSpec, calculate_aligned_num_bytes

__all__ = [
    "MemoryAlgoResult",
    "MemoryPlanningAlgorithmSuite",
    "SpecAllocResult",
    "Verifier",
    "apply_algo",
    "collect_specs_from_nodes",
    "filter_nodes",
    "get_graph_input_tensors",
    "get_graph_output_tensors",
    "get_node_tensor_specs",
    "greedy",
    "naive",
    "update_all_tensors_lifetime",
]


@dataclass
class SpecAllocResult:
    """Where a tensor lies.

    Attributes:
        mem_id: Arena, from 1.
        mem_obj_id: Number of the piece of memory.
        mem_offset: Byte in the arena.
    """

    mem_id: int
    mem_obj_id: int
    mem_offset: int


@dataclass
class MemoryAlgoResult:
    """What an algorithm decided.

    Attributes:
        spec_dict: Spec -> its place.
        bufsizes: Bytes of each arena; the first entry is not used.
    """

    spec_dict: dict[TensorSpec, SpecAllocResult]
    bufsizes: list[int]


@dataclass
class _Arena:
    """What lies in an arena so far."""

    placed: list[tuple[int, int, TensorSpec]] = field(default_factory=list)  # first byte, byte behind the last, whose
    nbytes: int = 0

    def lowest_gap(self, spec: TensorSpec, nbytes: int, allow_overlap: bool) -> int:
        """The lowest offset at which nothing that lives at the same time lies."""
        offset = 0
        for start, end, other in sorted(self.placed, key=lambda one: one[0]):
            alive = not allow_overlap or Verifier.lifetime_overlap(spec, other)
            if alive and start < offset + nbytes and end > offset:
                offset = end
        return offset


def greedy(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: fx.GraphModule,
    graph_signature: Any,
    extra_padding: int = 0,
    *,
    allow_overlapping_allocations: bool = True,
) -> MemoryAlgoResult:
    """The largest tensor first, each at the lowest offset that is free while it lives.

    Args:
        alignment: Bytes.
        specs: Tensors with lifetimes. A ``mem_id`` that is set is kept; others lie in arena 1.
        graph_module: Not needed.
        graph_signature: Not needed.
        extra_padding: Bytes more for each arena.
        allow_overlapping_allocations: False: each tensor has memory of its own.
    """
    order = sorted(specs, key=lambda spec: (-spec.allocated_memory, spec.lifetime[0] or 0))
    return _placed(order, alignment, extra_padding, allow_overlapping_allocations)


def naive(
    alignment: int,
    specs: Iterable[TensorSpec],
    graph_module: fx.GraphModule,
    graph_signature: Any,
    extra_padding: int = 0,
) -> MemoryAlgoResult:
    """Each tensor has memory of its own. Arguments as of ``greedy``."""
    return _placed(list(specs), alignment, extra_padding, False)


def _placed(specs: Sequence[TensorSpec], alignment: int, padding: int, allow_overlap: bool) -> MemoryAlgoResult:
    arenas: dict[int, _Arena] = {}
    places: dict[TensorSpec, SpecAllocResult] = {}
    objects: dict[tuple[int, int], int] = {}
    for spec in specs:
        memory_id = spec.mem_id or 1
        arena = arenas.setdefault(memory_id, _Arena())
        nbytes = calculate_aligned_num_bytes(spec.nbytes(), alignment)
        offset = arena.lowest_gap(spec, nbytes, allow_overlap)
        arena.placed.append((offset, offset + nbytes, spec))
        arena.nbytes = max(arena.nbytes, offset + nbytes)
        places[spec] = SpecAllocResult(memory_id, objects.setdefault((memory_id, offset), len(objects)), offset)
    sizes = [0] * (max(arenas, default=1) + 1)
    for memory_id, arena in arenas.items():
        sizes[memory_id] = arena.nbytes + padding
    return MemoryAlgoResult(places, sizes)


class MemoryPlanningAlgorithmSuite:
    """Runs several algorithms and takes the plan with the fewest bytes in all arenas; the first of equal ones."""

    def __init__(self, algo_list: list[Callable[..., MemoryAlgoResult]] | None = None) -> None:
        self.algo_list: list[Callable[..., MemoryAlgoResult]] = [greedy] if algo_list is None else list(algo_list)

    def __call__(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: fx.GraphModule,
        graph_signature: Any,
        extra_padding: int = 0,
    ) -> list[int]:
        """Sets the place of each spec; returns the bytes of each arena."""
        specs = list(specs)
        plans = [
            _result(algorithm, algorithm(alignment, specs, graph_module, graph_signature, extra_padding), specs)
            for algorithm in self.algo_list
        ]
        return _apply(min(plans, key=lambda plan: sum(plan.bufsizes)))


def _result(algorithm: Any, result: Any, specs: Sequence[TensorSpec]) -> MemoryAlgoResult:
    name = getattr(algorithm, "__name__", type(algorithm).__name__)
    if not isinstance(result, MemoryAlgoResult):
        raise InvalidTypeError(
            f"the memory planning algorithm {name} returned {result!r:.80}, must return a MemoryAlgoResult"
        )
    if missing := [spec for spec in specs if spec not in result.spec_dict]:
        raise InvalidTypeError(f"the memory planning algorithm {name} gave no place for {missing[0]}")
    return result


def _apply(plan: MemoryAlgoResult) -> list[int]:
    for spec, place in plan.spec_dict.items():
        spec.mem_id, spec.mem_obj_id, spec.mem_offset = place.mem_id, place.mem_obj_id, place.mem_offset
    return plan.bufsizes


def apply_algo(
    algo: Callable[..., Any],
    graph_module: fx.GraphModule,
    alignment: int,
    graph_signature: Any = None,
    alloc_graph_input: bool = True,
    alloc_graph_output: bool = True,
    alloc_mutable_buffers: bool = True,
    enable_non_cpu_memory_planning: bool = False,
) -> list[int]:
    """Runs an algorithm, or a suite, over a method with its branches and bodies; returns the bytes of each arena.

    ``enable_non_cpu_memory_planning`` changes nothing: all memory is the processor's.

    Raises:
        InvalidTypeError: The algorithm returned neither a MemoryAlgoResult nor, with the places set, a list of sizes.
    """
    update_all_tensors_lifetime(graph_module, graph_signature)
    specs = list(
        collect_specs_from_nodes(
            itertools.chain.from_iterable(_graphs(graph_module)),
            graph_signature,
            ignore_graph_input=not alloc_graph_input,
            ignore_graph_output=not alloc_graph_output,
            ignore_mutable_buffers=not alloc_mutable_buffers,
        )
    )
    for spec in specs:
        spec.realign(alignment)
    given = algo(alignment, specs, graph_module, graph_signature, 0)
    if isinstance(given, MemoryAlgoResult):
        return _apply(_result(algo, given, specs))
    if not isinstance(given, list) or not all(isinstance(one, int) for one in given):
        name = getattr(algo, "__name__", type(algo).__name__)
        raise InvalidTypeError(
            f"the memory planning algorithm {name} returned {given!r:.80}, must return a MemoryAlgoResult, or the "
            "bytes of each arena when it has set the places"
        )
    return given


def _graphs(graph_module: fx.GraphModule) -> Iterator[Iterable[fx.Node]]:
    for module in graph_module.modules():
        if isinstance(module, fx.GraphModule):
            yield module.graph.nodes


def filter_nodes(inputs: Iterable[Any]) -> Iterable[fx.Node]:
    """The nodes among some arguments, those in lists as well."""
    for one in inputs:
        if isinstance(one, fx.Node):
            yield one
        elif isinstance(one, (list, tuple)):
            yield from filter_nodes(one)


def get_node_tensor_specs(node: fx.Node) -> list[TensorSpec]:
    """The specs of a node's results; none where they are no tensors."""
    specs = node.meta.get("spec")
    several = specs if isinstance(specs, (list, tuple)) else [specs]
    return [spec for spec in several if isinstance(spec, TensorSpec)]


def get_graph_input_tensors(nodes: Iterable[fx.Node], graph_signature: Any = None) -> set[TensorSpec]:
    """Specs of the inputs that the caller gives; buffers that the method writes are none."""
    return {
        spec
        for node in nodes
        if node.op == "placeholder"
        for spec in get_node_tensor_specs(node)
        if not _is_state(node)
    }


def get_graph_output_tensors(nodes: Iterable[fx.Node]) -> set[TensorSpec]:
    """Specs of what the method returns."""
    outputs = [node for node in nodes if node.op == "output"]
    return {spec for node in filter_nodes(outputs[0].args if outputs else ()) for spec in get_node_tensor_specs(node)}


def _is_state(node: fx.Node) -> bool:
    return bool(node.meta.get("is_state"))


def collect_specs_from_nodes(
    nodes: Iterable[fx.Node],
    graph_signature: Any = None,
    ignore_graph_input: bool = False,
    ignore_graph_output: bool = False,
    ignore_mutable_buffers: bool = False,
    ignore_const: bool = True,
    ignore_out_var_node: bool = True,
    dedup: bool = True,
    do_assertion: bool = True,
    ignore_dynamic_unbound_tensor: bool = True,
) -> Iterable[TensorSpec]:
    """The specs of nodes, in their order.

    Args:
        nodes: Nodes of one or several graphs.
        graph_signature: Not needed: nodes say what they are.
        ignore_graph_input: Leave out what the caller gives.
        ignore_graph_output: Leave out what the method returns.
        ignore_mutable_buffers: Leave out state.
        ignore_const: Leave out weights.
        ignore_out_var_node: Not needed: a node and the memory it fills have one spec.
        dedup: Each spec once.
        do_assertion: A call of an operator without a spec is an error.
        ignore_dynamic_unbound_tensor: Leave out tensors whose memory comes at run time.

    Raises:
        InternalError: ``do_assertion``, and a node has no spec.
    """
    nodes = list(nodes)
    inputs = get_graph_input_tensors(nodes) if ignore_graph_input else set()
    outputs = get_graph_output_tensors(nodes) if ignore_graph_output else set()
    seen: set[TensorSpec] = set()
    for node in nodes:
        if node.op not in ("placeholder", "call_function") or (ignore_mutable_buffers and _is_state(node)):
            continue
        if do_assertion and node.op == "call_function" and "spec" not in node.meta:
            raise InternalError(f"node '{node.name}' has no spec")
        for spec in get_node_tensor_specs(node):
            skipped = (ignore_const and spec.const) or (
                ignore_dynamic_unbound_tensor and spec.is_dynamic_unbound_tensor
            )
            if skipped or spec in inputs or spec in outputs or (dedup and spec in seen):
                continue
            seen.add(spec)
            yield spec


def update_all_tensors_lifetime(graph_module: fx.GraphModule, graph_signature: Any = None) -> set[TensorSpec]:
    """Gives each spec that has no lifetime the first and last node that has it; returns all specs.

    Specs that the compiler made have their lifetimes already, in steps of the method: they know of views and loops.
    """
    nodes = list(graph_module.graph.nodes)
    lifetimes: dict[TensorSpec, list[int]] = {}
    for index, node in enumerate(nodes):
        for one in (node, *filter_nodes([*node.args, *node.kwargs.values()])):
            for spec in get_node_tensor_specs(one):
                lifetimes.setdefault(spec, [index, index])[1] = index
    for spec, (first, last) in lifetimes.items():
        if spec.lifetime[0] is None:
            spec.lifetime = [first, last]
    return set(lifetimes)


class Verifier:
    """Looks for specs of a graph that share memory while both live."""

    def __init__(
        self,
        graph_module: fx.GraphModule,
        alloc_graph_input: bool,
        alloc_graph_output: bool,
        alloc_mutable_buffers: bool,
        graph_signature: Any = None,
    ) -> None:
        self.graph_module = graph_module
        self.alloc_graph_input = alloc_graph_input
        self.alloc_graph_output = alloc_graph_output
        self.alloc_mutable_buffers = alloc_mutable_buffers
        self.graph_signature = graph_signature

    @staticmethod
    def has_overlap(lhs_ivl: Sequence[Any], rhs_ivl: Sequence[Any]) -> bool:
        """Whether two closed intervals meet; one without bounds meets none."""
        if None in (*lhs_ivl, *rhs_ivl):
            return False
        return lhs_ivl[0] <= rhs_ivl[1] and rhs_ivl[0] <= lhs_ivl[1]

    @staticmethod
    def lifetime_overlap(lhs_spec: TensorSpec, rhs_spec: TensorSpec) -> bool:
        """Whether both live at some step."""
        return Verifier.has_overlap(lhs_spec.lifetime, rhs_spec.lifetime)

    @staticmethod
    def storage_overlap(lhs_spec: TensorSpec, rhs_spec: TensorSpec) -> bool:
        """Whether both have a byte in common."""
        if lhs_spec.mem_id != rhs_spec.mem_id or lhs_spec.mem_offset is None or rhs_spec.mem_offset is None:
            return False
        if not lhs_spec.nbytes() or not rhs_spec.nbytes():
            return False
        left, right = lhs_spec.mem_offset, rhs_spec.mem_offset
        return left < right + rhs_spec.allocated_memory and right < left + lhs_spec.allocated_memory

    @staticmethod
    def mem_obj_id_match(lhs_spec: TensorSpec, rhs_spec: TensorSpec, accept_both_none: bool = True) -> bool:
        """Whether both are the same piece of memory."""
        if lhs_spec.mem_obj_id is None and rhs_spec.mem_obj_id is None:
            return accept_both_none
        return lhs_spec.mem_id == rhs_spec.mem_id and lhs_spec.mem_obj_id == rhs_spec.mem_obj_id

    def verify_storage_reuse(self, allow_lifetime_and_storage_overlap: bool = False) -> int:
        """The number of pairs that share memory.

        Raises:
            InternalError: Two of them live at the same time, which ``allow_lifetime_and_storage_overlap`` permits.
        """
        specs = list(
            collect_specs_from_nodes(
                itertools.chain.from_iterable(_graphs(self.graph_module)),
                self.graph_signature,
                ignore_graph_input=not self.alloc_graph_input,
                ignore_graph_output=not self.alloc_graph_output,
                ignore_mutable_buffers=not self.alloc_mutable_buffers,
                do_assertion=False,
            )
        )
        pairs = [pair for pair in itertools.combinations(specs, 2) if self.storage_overlap(*pair)]
        for left, right in pairs:
            if not allow_lifetime_and_storage_overlap and self.lifetime_overlap(left, right):
                raise InternalError(f"two tensors share memory while both live: {left} and {right}")
        return len(pairs)

    def verify_graph_input_output(self) -> None:
        """Checks that inputs and outputs have places exactly where they are to have them.

        Raises:
            InternalError: One has none, or has one that it must not have.
        """
        nodes = list(self.graph_module.graph.nodes)
        for what, specs, wanted in (
            ("input", get_graph_input_tensors(nodes), self.alloc_graph_input),
            ("output", get_graph_output_tensors(nodes), self.alloc_graph_output),
        ):
            for spec in specs:
                if not spec.const and not spec.is_dynamic_unbound_tensor and (spec.mem_offset is not None) != wanted:
                    raise InternalError(f"an {what} has {'no' if wanted else 'a'} place in planned memory: {spec}")
