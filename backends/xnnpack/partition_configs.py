"""Configurations of single operators, under their published names: which operators ``XnnpackPartitioner(configs=[…])``
may take.

What of an operator the delegate can do is the compiler's to say (compiler/op_support.cpp); these classes name the
operator.
"""

from __future__ import annotations

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py.graphs.rewriting import copied

from .operator_config import OperatorConfig, is_meant, operators_of
from .partitioner import XnnpackPartitioner
from .preprocess import Precision


class XNNPartitionerConfig(OperatorConfig):
    """An operator. ``XnnpackPartitioner`` takes classes, not objects."""

    def __init__(self, **kwargs: object) -> None:
        self.enabled_precision_types = list(Precision)

    def supported_precision_types(self) -> list[Precision]:
        """All; the compiler says which an operator has."""
        return list(Precision)

    def set_enabled_precision_types(self, precision_types: list[Precision] | None) -> None:
        """Sets the precisions of ``check_constraints``; None: all."""
        self.enabled_precision_types = list(precision_types or Precision)

    def get_original_aten(self) -> OpOverload | None:
        """None: what is to stay whole is one list for all (``export/dialect/operators.py``)."""
        return None

    def check_common_constraints(self, node: fx.Node, ep: ExportedProgram) -> bool:
        """Whether ``node`` calls this operator."""
        return node.op == "call_function" and is_meant(node, operators_of([type(self)]))

    def check_constraints(self, node: fx.Node, ep: ExportedProgram) -> bool:
        """Whether ``node`` calls this operator and the delegate can do it alone."""
        if not self.check_common_constraints(node, ep):
            return False
        asked = XnnpackPartitioner(config_precisions=self.enabled_precision_types, always=True)
        asked.partition(copied(ep))
        return node.name not in asked.refusals

    def get_node_and_deps(self, node: fx.Node, ep: ExportedProgram) -> list[fx.Node]:
        """The node."""
        return [node]


class AbsConfig(XNNPartitionerConfig):
    target_name = "abs.default"


class AddConfig(XNNPartitionerConfig):
    target_name = "add.Tensor"


class AddmmConfig(XNNPartitionerConfig):
    target_name = "addmm.default"


class AvgPoolingConfig(XNNPartitionerConfig):
    target_name = "avg_pool2d.default"


class BMMConfig(XNNPartitionerConfig):
    target_name = "bmm.default"


class BatchNormConfig(XNNPartitionerConfig):
    target_name = "_native_batch_norm_legit_no_training.default"


class CatConfig(XNNPartitionerConfig):
    target_name = "cat.default"


class CeilConfig(XNNPartitionerConfig):
    target_name = "ceil.default"


class ChooseQParamsAffineConfig(XNNPartitionerConfig):
    target_name = "choose_qparams_affine.default"


class ClampConfig(XNNPartitionerConfig):
    target_name = "clamp.default"


class CloneConfig(XNNPartitionerConfig):
    target_name = "clone.default"


class CloneDimOrderConfig(XNNPartitionerConfig):
    target_name = "_clone_dim_order.default"


class ConstantPadConfig(XNNPartitionerConfig):
    target_name = "constant_pad_nd.default"


class ConvolutionConfig(XNNPartitionerConfig):
    target_name = "convolution.default"


class CosConfig(XNNPartitionerConfig):
    target_name = "cos.default"


class DeQuantizeAffineConfig(XNNPartitionerConfig):
    target_name = "dequantize_affine.default"


class DeQuantizedPerTensorConfig(XNNPartitionerConfig):
    target_name = "dequantize_per_tensor.default"


class DivConfig(XNNPartitionerConfig):
    target_name = "div.Tensor"


class ExpConfig(XNNPartitionerConfig):
    target_name = "exp.default"


class FloorConfig(XNNPartitionerConfig):
    target_name = "floor.default"


class GeluConfig(XNNPartitionerConfig):
    target_name = "gelu.default"


class HardswishConfig(XNNPartitionerConfig):
    target_name = "hardswish.default"


class HardtanhConfig(XNNPartitionerConfig):
    target_name = "hardtanh.default"


class LeakyReLUConfig(XNNPartitionerConfig):
    target_name = "leaky_relu.default"


class LinearConfig(XNNPartitionerConfig):
    target_name = "linear.default"


class LogConfig(XNNPartitionerConfig):
    target_name = "log.default"


class MMConfig(XNNPartitionerConfig):
    target_name = "mm.default"


class MaxDimConfig(XNNPartitionerConfig):
    target_name = "max.dim"


class MaxPool2dConfig(XNNPartitionerConfig):
    target_name = "max_pool2d.default"


class MaximumConfig(XNNPartitionerConfig):
    target_name = "maximum.default"


class MeanDimConfig(XNNPartitionerConfig):
    target_name = "mean.dim"


class MinimumConfig(XNNPartitionerConfig):
    target_name = "minimum.default"


class MulConfig(XNNPartitionerConfig):
    target_name = "mul.Tensor"


class NegConfig(XNNPartitionerConfig):
    target_name = "neg.default"


class PermuteConfig(XNNPartitionerConfig):
    target_name = "permute_copy.default"


class PowConfig(XNNPartitionerConfig):
    target_name = "pow.Tensor_Scalar"


class PreluConfig(XNNPartitionerConfig):
    target_name = "prelu.default"


class QuantizeAffineConfig(XNNPartitionerConfig):
    target_name = "quantize_affine.default"


class QuantizedPerTensorConfig(XNNPartitionerConfig):
    target_name = "quantize_per_tensor.default"


class ReLUConfig(XNNPartitionerConfig):
    target_name = "relu.default"


class ReciprocalSquareRootConfig(XNNPartitionerConfig):
    target_name = "rsqrt.default"


class SigmoidConfig(XNNPartitionerConfig):
    target_name = "sigmoid.default"


class SinConfig(XNNPartitionerConfig):
    target_name = "sin.default"


class SliceCopyConfig(XNNPartitionerConfig):
    target_name = "slice_copy.Tensor"


class SoftmaxConfig(XNNPartitionerConfig):
    target_name = "_softmax.default"


class SquareRootConfig(XNNPartitionerConfig):
    target_name = "sqrt.default"


class SubConfig(XNNPartitionerConfig):
    target_name = "sub.Tensor"


class TanhConfig(XNNPartitionerConfig):
    target_name = "tanh.default"


class ToDimOrderCopyConfig(XNNPartitionerConfig):
    target_name = "_to_dim_order_copy.default"


class UnsqueezeCopyConfig(XNNPartitionerConfig):
    target_name = "unsqueeze_copy.default"


class UpsampleBilinear2dConfig(XNNPartitionerConfig):
    target_name = "upsample_bilinear2d.vec"


class ViewCopyConfig(XNNPartitionerConfig):
    target_name = "view_copy.default"


ALL_PARTITIONER_CONFIGS: list[type[XNNPartitionerConfig]] = XNNPartitionerConfig.__subclasses__()
