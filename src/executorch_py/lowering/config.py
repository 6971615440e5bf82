"""Options of lowering, under their published names. Fields that steer nothing here are accepted and say so."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py import _arguments
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotFoundError, NotSupportedError
from executorch_py.exir.dynamic_shape import DynamicMemoryPlanningMode
from executorch_py.exir.passes.fixed_passes import ConstraintBasedSymShapeEvalPass, PropagateDeviceConfig, ToOutVarPass
from executorch_py.exir.passes.memory_planning_pass import MemoryPlanningPass, require_power_of_two


def _require_flags(config: Any, *names: str) -> None:
    for name in names:
        _arguments.flag(name, getattr(config, name))


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
        decompose_ops: Operators that Edge would keep whole and that are decomposed all the same, for a backend or a
            quantizer that wants their parts: ``(torch.ops.aten.lstm.input,)`` unrolls an LSTM into its products and
            gates.
        _check_ir_validity: Check the result against the Edge dialect.
        _core_aten_ops_exception_list: Operators outside Core ATen that the check lets pass.
        _use_edge_ops: Accepted; operators are always named by ``torch.ops``.
        _skip_type_promotion: Accepted; kernels promote types as PyTorch does.
        _skip_dim_order: Accepted; Edge tensors are row-major.
    """

    _check_ir_validity: bool = True
    _skip_dim_order: bool = False
    _core_aten_ops_exception_list: Sequence[OpOverload] = ()
    preserve_ops: Sequence[OpOverload] = ()
    decompose_ops: Sequence[OpOverload] = ()
    _use_edge_ops: bool = True
    _skip_type_promotion: bool = False

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


#: A rule for external constants: the node of a constant, or its fully qualified name and the tensor -> name of its
#: ``.ptd`` file; None or "" keeps it in the program.
ExternalRule = Callable[[fx.Node], str | None] | Callable[[str, torch.Tensor], str]


@dataclass
class ExecutorchBackendConfig:
    """How an Edge program becomes a file.

    Attributes:
        compatible: Use only operators of the official runtime, so that it loads the file.
        quantized_io: Inputs and outputs that are quantized with one scale are tensors of integers, without quantization
            at the border. The constant methods ``forward.input.0``, ``forward.output.0`` and so on of the file return
            scale, zero point, smallest and largest integer of each.
        passes: Users' passes on the fx programs, just before they are imported.
        disabled_passes: Names of compiler passes (``etpy passes`` lists them) that are left out.
        target_kernels: Names of kernels that the target has and this process has not ("my::op.out"), or True for all;
            their operators are lowered without a check.
        memory_planning_pass: A MemoryPlanningPass, another pass that sets the places of specs, or one for each method
            by name.
        propagate_device_config: Accepted; all tensors lie in the processor's memory.
        to_out_var_pass: Its ``ignore_to_out_var_failure`` is the same as ``target_kernels=True``.
        dynamic_memory_planning_mode: Memory is planned for the largest sizes; there is no other mode.
        segment_alignment: Bytes, of segments of 4 KB and more; a power of two of at least 16.
        constant_tensor_alignment: Bytes, of each constant in its segment; a power of two of at least 16, the default.
        delegate_alignment: Bytes, of payloads: segments are aligned to this at least.
        sym_shape_eval_pass: Accepted; bounds of sizes are those of ``dynamic_shapes``.
        remove_view_copy: Views share memory where they can; False: each is a copy.
        extract_delegate_segments: Payloads are segments of the file; False: they stand inline.
        external_constants: True moves all constants to a ``.ptd``, those of delegates too; a function of the constant's
            node (as in the published package), or of its name and tensor, names a file for each
            (docs/how-to/external_weights.md).
        external_mutable_weights: True moves the weights that a training method trains to the default ``.ptd``.
        sparse_weights: Store weights of linear layers and convolutions without their zeros, when at least 40 % of their
            elements are zero; a number: at least this part; False: never. Float kernels run sparse where that is faster
            and dense elsewhere; int8 weights and those of delegates are unpacked at load (docs/how-to/pruning.md).
            ``compatible`` leaves all dense.
        debug_info: Write names, module paths and source lines of the instructions into the file.
        emit_mutable_buffer_names: Accepted; names of mutable buffers are always written.
        emit_stacktrace: Accepted; see ``debug_info``.
        do_quant_fusion_and_const_prop: Accepted; both are always done.
        run_reinplace_pass: Accepted; results are made in place wherever that is right.
        enable_non_cpu_memory_planning: Accepted, as ``propagate_device_config``.
        reinplace_extra_ops: None; which kernels may work in place is said where they are registered.
    """

    passes: Sequence[Callable[..., Any]] = ()
    memory_planning_pass: MemoryPlanningPass | Callable[..., Any] | Mapping[str, Any] = field(
        default_factory=MemoryPlanningPass
    )
    propagate_device_config: PropagateDeviceConfig = field(default_factory=PropagateDeviceConfig)
    to_out_var_pass: ToOutVarPass = field(default_factory=ToOutVarPass)
    dynamic_memory_planning_mode: DynamicMemoryPlanningMode = DynamicMemoryPlanningMode.UPPER_BOUND
    emit_stacktrace: bool = False
    extract_delegate_segments: bool = True
    segment_alignment: int = 128
    constant_tensor_alignment: int | None = None
    delegate_alignment: int | None = None
    sym_shape_eval_pass: Any = field(default_factory=ConstraintBasedSymShapeEvalPass)
    remove_view_copy: bool = True
    external_constants: bool | ExternalRule = False
    external_mutable_weights: bool = False
    emit_mutable_buffer_names: bool = True
    do_quant_fusion_and_const_prop: bool = False
    run_reinplace_pass: bool = False
    enable_non_cpu_memory_planning: bool = True
    reinplace_extra_ops: Collection[Any] | None = None
    compatible: bool = False
    quantized_io: bool = False
    disabled_passes: Sequence[str] = ()
    target_kernels: bool | Collection[str] = ()
    sparse_weights: bool | float = True
    debug_info: bool = True

    def __post_init__(self) -> None:
        self.require_valid()

    def require_valid(self) -> None:
        """Checks every field; lowering does so again, because fields can be assigned to.

        Raises:
            InvalidTypeError: A field is of another kind than it must be.
            InvalidArgumentError: A value is out of bounds.
        """
        _require_flags(self, "compatible", "quantized_io", "extract_delegate_segments", "debug_info")
        _require_flags(
            self, "emit_mutable_buffer_names", "emit_stacktrace", "remove_view_copy", "external_mutable_weights"
        )
        _require_flags(self, "do_quant_fusion_and_const_prop", "run_reinplace_pass", "enable_non_cpu_memory_planning")
        self._require_published()
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
        require_power_of_two("segment_alignment", self.segment_alignment, 16)
        for name in ("constant_tensor_alignment", "delegate_alignment"):
            if getattr(self, name) is not None:
                require_power_of_two(name, getattr(self, name), 16 if name == "constant_tensor_alignment" else 1)
        plans = self.memory_planning_pass
        for plan in plans.values() if isinstance(plans, Mapping) else [plans]:
            if isinstance(plan, MemoryPlanningPass):
                plan.require_valid()
            elif isinstance(plan, type) or not (callable(plan) or callable(getattr(plan, "run", None))):
                raise InvalidTypeError(
                    f"memory_planning_pass is {plan!r:.80}, must be a MemoryPlanningPass, or a pass with run() or a "
                    "call"
                )

    def _require_published(self) -> None:
        """Fields of the published class that can only have some of their values here.

        Raises:
            NotSupportedError: One has another; says what to do instead.
            InvalidTypeError: It is of another kind.
        """
        _arguments.instance(
            "propagate_device_config", self.propagate_device_config, PropagateDeviceConfig, "a PropagateDeviceConfig"
        )
        mode = self.dynamic_memory_planning_mode
        _arguments.instance(
            "dynamic_memory_planning_mode", mode, DynamicMemoryPlanningMode, "a DynamicMemoryPlanningMode"
        )
        if mode is not DynamicMemoryPlanningMode.UPPER_BOUND:
            raise NotSupportedError(
                f"dynamic_memory_planning_mode is {mode.name}; memory is planned for the largest sizes: take "
                "UPPER_BOUND, or give dynamic sizes no max, so that their memory comes at run time"
            )
        if type(self.to_out_var_pass) is not ToOutVarPass:
            raise NotSupportedError(
                f"to_out_var_pass is {self.to_out_var_pass!r:.80}; the compiler chooses kernels itself: register a "
                "kernel for the operator, or rewrite nodes in `passes`"
            )
        passes = self.sym_shape_eval_pass
        for one in passes.values() if isinstance(passes, Mapping) else [passes]:
            if type(one) is not ConstraintBasedSymShapeEvalPass:
                raise NotSupportedError(
                    f"sym_shape_eval_pass is {one!r:.80}; bounds of sizes come from dynamic_shapes of torch.export "
                    "alone: take ConstraintBasedSymShapeEvalPass()"
                )
        if self.reinplace_extra_ops:
            raise NotSupportedError(
                "reinplace_extra_ops is given; a kernel that may write over its argument says so when it is registered"
            )

    def planning_for(self, method: str) -> Any:
        """The memory planning of one method: a MemoryPlanningPass, or another pass that sets the places of specs."""
        if isinstance(self.memory_planning_pass, Mapping):
            return self.memory_planning_pass.get(method, MemoryPlanningPass())
        return self.memory_planning_pass
