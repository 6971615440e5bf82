"""Passes that are arguments of the published configuration and always run in the compiler here: names to configure
with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult

__all__ = [
    "CSEPass",
    "ConstPropPass",
    "ConstraintBasedSymShapeEvalPass",
    "FoldRedundantDequantizeQuantizePass",
    "HintBasedSymShapeEvalPass",
    "InTheCompiler",
    "InitializedMutableBufferPass",
    "PropagateDeviceConfig",
    "QuantFusionPass",
    "ReplaceViewCopyWithViewPass",
    "ToOutVarPass",
]


class InTheCompiler(PassBase):
    """Run on a graph it changes nothing: what it is named for happens on the IR (``etpy passes``)."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        """The graph as it is."""
        return PassResult(graph_module, False)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))


class ToOutVarPass(InTheCompiler):
    """Operators become kernels that write into given memory.

    Attributes:
        ignore_to_out_var_failure: Lower operators that have no such kernel in this process.
    """

    def __init__(self, ignore_to_out_var_failure: bool = False) -> None:
        self.ignore_to_out_var_failure = ignore_to_out_var_failure


class CSEPass(InTheCompiler):
    """Equal calls become one: the compiler's ``eliminate-common-subexpressions``."""


class ConstPropPass(InTheCompiler):
    """Calls on constants alone become constants: the compiler's ``fold-constants``."""

    def __init__(self, propogate_quant: bool = False) -> None:
        self.propogate_quant = propogate_quant


class FoldRedundantDequantizeQuantizePass(InTheCompiler):
    """What is dequantized and quantized as before stays in integers: the compiler's ``fold-quantize-dequantize``."""


class QuantFusionPass(InTheCompiler):
    """Operators between dequantize and quantize become kernels on integers: the compiler's ``fuse-quantized``."""

    def __init__(self, _fix_node_meta_val: bool = False, node_value_dict: object = None) -> None:
        """The arguments change nothing."""


class ReplaceViewCopyWithViewPass(InTheCompiler):
    """Views share memory: the compiler's ``remove-views``."""


class ConstraintBasedSymShapeEvalPass(InTheCompiler):
    """Memory is planned for the bounds of ``dynamic_shapes``."""


class HintBasedSymShapeEvalPass(InTheCompiler):
    """Memory is planned for the sizes of the example, which the published package is about to drop; refused when
    configured.
    """


@dataclass
class PropagateDeviceConfig:
    """Where copies between devices would be left out. There is one device.

    Attributes:
        skip_h2d_for_method_inputs: True, False, or one of them by method.
        skip_d2h_for_method_outputs: Likewise.
    """

    skip_h2d_for_method_inputs: bool | dict[str, bool] = field(default=False)
    skip_d2h_for_method_outputs: bool | dict[str, bool] = field(default=False)


class InitializedMutableBufferPass(InTheCompiler):
    """State begins with the buffers' values: that of all buffers does here, whatever ``patterns`` says."""

    def __init__(self, patterns: list[str]) -> None:
        self.patterns = list(patterns)
