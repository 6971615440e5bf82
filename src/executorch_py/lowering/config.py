"""Options of lowering, under their published names. Fields that steer nothing here are accepted and say so."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

from executorch_py.errors import InvalidArgumentError


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


#: A rule for external constants: (fully qualified name, tensor) -> name of its .ptd file; "" keeps it in the program.
ExternalRule = Callable[[str, torch.Tensor], str]


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
        segment_alignment: Bytes; a power of two of at least 16.
        extract_delegate_segments: Payloads are segments of the file; False: they stand inline.
        external_constants: True moves all constants to a ``.ptd``; a function decides for each.
        sparse_weights: Store weights of linear layers and convolutions without their zeros, when at least 40 % of their
            elements are zero; a number: at least this part; False: never. Kernels run sparse where that is faster and
            dense elsewhere (docs/pruning.md). ``compatible`` and weights in a delegate's payload leave them dense.
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
        if isinstance(self.target_kernels, str):
            raise InvalidArgumentError(
                f"target_kernels is '{self.target_kernels}'; it must be a list of names, or True"
            )
        if not isinstance(self.sparse_weights, bool) and not 0 < self.sparse_weights <= 1:
            raise InvalidArgumentError(
                f"sparse_weights is {self.sparse_weights}; it must be a bool, or the part of zeros above which a weight is "
                "stored without them, in (0, 1]"
            )
        alignment = self.segment_alignment
        if alignment < 16 or alignment & (alignment - 1):
            raise InvalidArgumentError(f"segment_alignment is {alignment}; it must be a power of two of at least 16")

    def planning_for(self, method: str) -> MemoryPlanningPass:
        """The memory planning of one method."""
        if isinstance(self.memory_planning_pass, Mapping):
            return self.memory_planning_pass.get(method, MemoryPlanningPass())
        return self.memory_planning_pass
