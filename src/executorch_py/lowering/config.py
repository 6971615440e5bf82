"""Options of lowering, under their published names. Fields that steer nothing here are accepted and say so."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py import _arguments
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotFoundError

#: Names of planners; "best" is the published name of the default.
_PLANNERS = ("greedy", "naive", "best")

#: Arenas that a plan may name (the bindings refuse more).
_MAX_ARENAS = 16

#: 2 MiB, the largest page that a file is mapped with; more is a mistake that fills the file with zeros.
_MAX_ALIGNMENT = 2**21


def _require_flags(config: Any, *names: str) -> None:
    for name in names:
        _arguments.flag(name, getattr(config, name))


def _require_power_of_two(what: str, value: Any, lowest: int) -> None:
    number = _arguments.integer(what, value, lowest, _MAX_ALIGNMENT)
    if number & (number - 1):
        raise InvalidArgumentError(f"{what} is {number}, must be a power of two")


def _listed(what: str, value: Any) -> Collection[Any]:
    """``value``, a collection of several things; a string is one of characters and never meant."""
    if isinstance(value, str) or not isinstance(value, Collection):
        raise InvalidTypeError(f"{what} is {value!r:.80}, must be a list")
    return value


def require_known_methods(what: str, by_method: Collection[Any], methods: Collection[str]) -> None:
    """What is given by method must be given for methods that exist.

    Raises:
        NotFoundError: Names those that do not.
    """
    unknown = sorted(map(str, set(by_method) - set(methods)))
    if unknown:
        raise NotFoundError(
            f"{what} are given for the methods {', '.join(unknown)}, which do not exist; there are "
            f"{', '.join(sorted(methods))}"
        )


@dataclass
class EdgeCompileConfig:
    """How an exported program becomes an Edge program.

    Attributes:
        preserve_ops: Operators that are not decomposed, beside those that Edge keeps whole.
        decompose_ops: Operators that Edge would keep whole and that are decomposed all the same, for a backend or a quantizer
            that wants their parts: ``(torch.ops.aten.lstm.input,)`` unrolls an LSTM into its products and gates.
        _check_ir_validity: Check the result against the Edge dialect.
        _core_aten_ops_exception_list: Operators outside Core ATen that the check lets pass.
        _use_edge_ops: Accepted; operators are always named by ``torch.ops``.
        _skip_type_promotion: Accepted; kernels promote types as PyTorch does.
        _skip_dim_order: Accepted; Edge tensors are row-major.
    """

    preserve_ops: Sequence[OpOverload] = ()
    decompose_ops: Sequence[OpOverload] = ()
    _check_ir_validity: bool = True
    _core_aten_ops_exception_list: Sequence[OpOverload] = ()
    _use_edge_ops: bool = True
    _skip_type_promotion: bool = False
    _skip_dim_order: bool = False

    def __post_init__(self) -> None:
        self.require_valid()

    def require_valid(self) -> None:
        """Checks every field; lowering does so again, because fields can be assigned to.

        Raises:
            InvalidTypeError: A field is of another kind than it must be.
        """
        _require_flags(self, "_check_ir_validity", "_use_edge_ops", "_skip_type_promotion", "_skip_dim_order")
        for name in ("preserve_ops", "decompose_ops", "_core_aten_ops_exception_list"):
            for op in _listed(name, getattr(self, name)):
                _arguments.instance(f"an item of {name}", op, OpOverload, "an overload (torch.ops.aten.relu.default)")


@dataclass
class MemoryPlanningPass:
    """How memory is planned.

    Attributes:
        memory_planning_algo: "greedy", "naive", "best" or a function ``(problem) -> offsets``; None takes the default.
        alloc_graph_input: Inputs are copied into planned memory; False: the caller's memory is used.
        alloc_graph_output: Outputs live in planned memory; False: the caller gives memory before the call.
        alloc_mutable_buffers: Accepted; mutable buffers always have planned memory.
        alignment: Bytes.
        memory_capacities: Memory id -> bytes, for machines with several memories (id 1 is the first arena).
    """

    memory_planning_algo: str | Callable[..., Any] | None = None
    alloc_graph_input: bool = True
    alloc_graph_output: bool = True
    alloc_mutable_buffers: bool = True
    alignment: int = 16
    memory_capacities: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.require_valid()

    def require_valid(self) -> None:
        """Checks every field; lowering does so again, because fields can be assigned to.

        Raises:
            InvalidTypeError: A field is of another kind than it must be.
            InvalidArgumentError: A value is out of bounds.
        """
        algorithm = self.memory_planning_algo
        if isinstance(algorithm, str):
            if algorithm not in _PLANNERS:
                raise InvalidArgumentError(
                    f"memory_planning_algo is '{algorithm}', must be {', '.join(_PLANNERS)} or a function"
                )
        elif algorithm is not None and not callable(algorithm):
            raise InvalidTypeError(f"memory_planning_algo is {algorithm!r:.80}, must be a name or a function")
        _require_flags(self, "alloc_graph_input", "alloc_graph_output", "alloc_mutable_buffers")
        _require_power_of_two("alignment", self.alignment, 1)
        capacities = _arguments.instance("memory_capacities", self.memory_capacities, Mapping, "a dict of id and bytes")
        for memory_id, capacity in capacities.items():
            _arguments.integer("a memory id", memory_id, 1, _MAX_ARENAS)
            _arguments.integer(f"the capacity of memory {memory_id}", capacity, 0, 2**63 - 1)


#: A rule for external constants: the node of a constant, or its fully qualified name and the tensor -> name of its
#: ``.ptd`` file; None or "" keeps it in the program.
ExternalRule = Callable[[fx.Node], str | None] | Callable[[str, torch.Tensor], str]


@dataclass
class ExecutorchBackendConfig:
    """How an Edge program becomes a file.

    Attributes:
        compatible: Use only operators of the official runtime, so that it loads the file.
        quantized_io: Inputs and outputs that are quantized with one scale are tensors of integers, without quantization at
            the border. The constant methods ``forward.input.0``, ``forward.output.0`` and so on of the file return scale,
            zero point, smallest and largest integer of each.
        passes: Users' passes on the fx programs, just before they are imported.
        disabled_passes: Names of compiler passes (``etpy passes`` lists them) that are left out.
        target_kernels: Names of kernels that the target has and this process has not ("my::op.out"), or True for all; their
            operators are lowered without a check.
        memory_planning_pass: A MemoryPlanningPass, or one for each method by name.
        segment_alignment: Bytes, of segments of 4 KB and more; a power of two of at least 16.
        extract_delegate_segments: Payloads are segments of the file; False: they stand inline.
        external_constants: True moves all constants to a ``.ptd``, those of delegates too; a function of the constant's
            node (as in the published package), or of its name and tensor, names a file for each
            (docs/how-to/external_weights.md).
        sparse_weights: Store weights of linear layers and convolutions without their zeros, when at least 40 % of their
            elements are zero; a number: at least this part; False: never. Float kernels run sparse where that is faster
            and dense elsewhere; int8 weights and those of delegates are unpacked at load (docs/how-to/pruning.md). ``compatible``
            leaves all dense.
        debug_info: Write names, module paths and source lines of the instructions into the file.
        emit_mutable_buffer_names: Accepted; names of mutable buffers are always written.
        emit_stacktrace: Accepted; see ``debug_info``.
    """

    compatible: bool = False
    quantized_io: bool = False
    passes: Sequence[Callable[..., Any]] = ()
    disabled_passes: Sequence[str] = ()
    target_kernels: bool | Collection[str] = ()
    memory_planning_pass: MemoryPlanningPass | Mapping[str, MemoryPlanningPass] = field(
        default_factory=MemoryPlanningPass
    )
    segment_alignment: int = 128
    extract_delegate_segments: bool = True
    external_constants: bool | ExternalRule = False
    sparse_weights: bool | float = True
    debug_info: bool = True
    emit_mutable_buffer_names: bool = True
    emit_stacktrace: bool = False

    def __post_init__(self) -> None:
        self.require_valid()

    def require_valid(self) -> None:
        """Checks every field; lowering does so again, because fields can be assigned to.

        Raises:
            InvalidTypeError: A field is of another kind than it must be.
            InvalidArgumentError: A value is out of bounds.
        """
        _require_flags(self, "compatible", "quantized_io", "extract_delegate_segments", "debug_info")
        _require_flags(self, "emit_mutable_buffer_names", "emit_stacktrace")
        for name in _listed("disabled_passes", self.disabled_passes):
            _arguments.text("a name in disabled_passes", name)
        if not isinstance(self.target_kernels, bool):
            for name in _listed("target_kernels (where it is not True)", self.target_kernels):
                _arguments.text("a name in target_kernels", name)
        if not isinstance(self.external_constants, bool) and not callable(self.external_constants):
            raise InvalidTypeError(
                f"external_constants is {self.external_constants!r:.80}, must be a bool or a function"
            )
        sparse = self.sparse_weights
        if not isinstance(sparse, (bool, int, float)):
            raise InvalidTypeError(f"sparse_weights is {sparse!r:.80}, must be a bool or a number")
        if not isinstance(sparse, bool) and not 0 < sparse <= 1:
            raise InvalidArgumentError(
                f"sparse_weights is {sparse}; it must be a bool, or the part of zeros above which a weight is "
                "stored without them, in (0, 1]"
            )
        _require_power_of_two("segment_alignment", self.segment_alignment, 16)
        plans = self.memory_planning_pass
        for plan in plans.values() if isinstance(plans, Mapping) else [plans]:
            _arguments.instance(
                "memory_planning_pass", plan, MemoryPlanningPass, "a MemoryPlanningPass"
            ).require_valid()

    def planning_for(self, method: str) -> MemoryPlanningPass:
        """The memory planning of one method."""
        if isinstance(self.memory_planning_pass, Mapping):
            return self.memory_planning_pass.get(method, MemoryPlanningPass())
        return self.memory_planning_pass
