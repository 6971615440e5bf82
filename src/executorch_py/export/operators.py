"""Which operators stay whole in the Edge dialect, and how views become copies. Tables only.

Edge is Core ATen in its functional form: views are ``*_copy`` operators, nothing is mutated. Beyond Core ATen it keeps a
few operators whole for which the runtime has one good kernel, because a backend or a kernel library wants them as one
operator and because a decomposition would cost several passes over the data. ``ExecutorchBackendConfig(compatible=True)``
decomposes those of them that the official runtime lacks.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from .decompositions import OWN_DECOMPOSITIONS
from .overloads import OVERLOAD_DECOMPOSITIONS

aten = torch.ops.aten

#: Recurrent layers. Decomposed they are unrolled over time, so that the graph grows with the sequence and only fits its length.
RECURRENT: tuple[OpOverload, ...] = (
    aten.lstm.input,
    aten.lstm.data,
    aten.gru.input,
    aten.gru.data,
    aten.rnn_tanh.input,
    aten.rnn_tanh.data,
    aten.rnn_relu.input,
    aten.rnn_relu.data,
)

#: Not Core ATen, kept whole by default.
KEPT_WHOLE: tuple[OpOverload, ...] = (
    aten.scaled_dot_product_attention.default,  # fused: the matrix of weights never exists as a whole
    aten.linear.default,  # one product with packed weights; as addmm the transpose of the weight would stand in the way
    aten.scaled_dot_product_attention.default,  # one pass, without the matrix of scores
    aten.max_pool2d.default,  # without the indices, which inference never reads
    aten.hardswish.default,  # one pass over the data instead of four
    aten.hardsigmoid.default,
    aten.silu.default,
    aten.mish.default,
    aten.softplus.default,
    aten.hardshrink.default,
    aten.softshrink.default,
    aten.lerp.Scalar,
    aten.lerp.Tensor,
    aten.nan_to_num.default,
    aten.pixel_shuffle.default,  # one copy instead of three
    aten.pixel_unshuffle.default,
    aten.channel_shuffle.default,
    aten.im2col.default,  # rows are copied; decomposed, every element has an index
    aten.upsample_nearest2d.vec,  # Core ATen in the .vec overload
    aten.upsample_bilinear2d.vec,
    aten.index_select.default,
    aten.masked_fill.Scalar,
    aten.square.default,
    aten.stack.default,
    aten.glu.default,
    aten.baddbmm.default,
    aten.roll.default,
    aten.rot90.default,  # one copy instead of a reversed and a transposed one
    aten.block_diag.default,  # each element is written once; matrices of one element type
    aten.repeat_interleave.Tensor,
    aten.logit.default,
    aten.huber_loss.default,  # one pass whatever the reduction; decomposed, one for each step of the formula
    aten.mse_loss.default,
    aten.smooth_l1_loss.default,
    aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default,
    aten._native_batch_norm_legit_functional.default,  # batch norm of training
    aten.round.decimals,
    aten.frac.default,
    aten.floor_divide.default,
    aten.std.correction,  # the root of a variance that a float does not hold
    aten.var_mean.correction,
    aten.zeros.default,
    aten.ones.default,
    aten.split.Tensor,
    aten.unbind.int,
    aten.unfold.default,
    aten.tril.default,
    aten.triu.default,
    aten.rsub.Scalar,
    aten.cumprod.default,
    aten.dot.default,  # one pass instead of a product and its sum
    aten.mv.default,
    aten.trace.default,
    aten.linalg_vector_norm.default,  # one pass; order 2 of floats only
    aten.median.default,
    aten.median.dim,
    aten._prelu_kernel.default,
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest3d.vec,
    aten._upsample_nearest_exact1d.vec,  # rows are copied; decomposed, every element has an index
    aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.vec,
    aten.upsample_linear1d.vec,
    aten.upsample_trilinear3d.vec,
    aten.upsample_bicubic2d.vec,
    aten.index_add.default,
    aten.index_copy.default,
    aten.masked_fill.Tensor,
    aten.addcdiv.default,
    aten.addcmul.default,
    aten.adaptive_max_pool2d.default,
    aten.max_unpool2d.default,  # one pass instead of arithmetic on the indices
    aten.max_unpool3d.default,
    aten.replication_pad1d.default,  # rows are copied; decomposed, every element has an index
    aten.digamma.default,
    aten.erfinv.default,
    aten.erfc.default,
    aten.exp2.default,
    aten.lgamma.default,
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.copysign.Tensor,
    aten.gcd.default,
    aten.hypot.default,
    aten.nextafter.default,
    aten.diagonal_scatter.default,
    aten.tril_indices.default,
    aten.triu_indices.default,
    aten.bucketize.Tensor,
    *RECURRENT,
)


def is_whole(node: fx.Node) -> bool:
    """False for a call of an operator in KEPT_WHOLE that its kernel does not cover.

    That is attention that drops weights at random, or whose query, key and value have batch dims that broadcast;
    recurrent layers that drop states at random or mix dtypes; norms of other orders, other dtypes or dims that are apart;
    block diagonals of several dtypes; standard deviations of complex numbers; linear layers whose bias broadcasts.
    """
    if node.target is aten.linear.default:
        return _has_plain_bias(node)
    if node.target in RECURRENT:
        return _is_plain_recurrent(node)
    if node.target is aten.linalg_vector_norm.default:
        return _is_plain_norm(node)
    if node.target is aten.std.correction:
        return not node.args[0].meta["val"].is_complex()
    if node.target is aten.block_diag.default:
        return len({tensor.meta["val"].dtype for tensor in node.args[0]}) == 1
    if node.target is not aten.scaled_dot_product_attention.default:
        return True
    if node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0):
        return False
    query, key, value = (argument.meta["val"].shape[:-2] for argument in node.args[:3])
    grouped = node.kwargs.get("enable_gqa", False)
    return bool(grouped) or (query == key and key == value)


def _is_plain_recurrent(node: fx.Node) -> bool:
    arguments = dict(zip((a.name for a in node.target._schema.arguments), node.args, strict=False)) | node.kwargs
    tensors = [value.meta["val"] for name, value in _flat(arguments) if name != "batch_sizes"]
    return not (arguments["train"] and arguments["dropout"]) and len({tensor.dtype for tensor in tensors}) == 1


def _has_plain_bias(node: fx.Node) -> bool:
    bias = node.args[2] if len(node.args) > 2 else node.kwargs.get("bias")
    if bias is None:
        return True
    weight = node.args[1].meta["val"]
    return bool(weight.dim() != 2 or tuple(bias.meta["val"].shape) == (weight.shape[0],))


def _is_plain_norm(node: fx.Node) -> bool:
    arguments = dict(zip((a.name for a in node.target._schema.arguments), node.args, strict=False)) | node.kwargs
    value = arguments["self"].meta["val"]
    dims = arguments.get("dim")
    dims = [dims] if isinstance(dims, int) else sorted(d % max(value.dim(), 1) for d in dims or ())
    return bool(
        arguments.get("ord", 2) == 2
        and arguments.get("dtype") is None
        and value.dtype in {torch.float16, torch.bfloat16, torch.float32, torch.float64}
        and all(next_dim == dim + 1 for dim, next_dim in itertools.pairwise(dims))
    )


def _flat(arguments: Mapping[str, Any]) -> Iterator[tuple[str, fx.Node]]:
    for name, value in arguments.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, fx.Node):
                yield name, item


#: Of these, what the official runtime has a kernel for; the rest is decomposed for files that it is to load.
PUBLISHED_WHOLE: tuple[OpOverload, ...] = (
    aten.linear.default,
    aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default,
    aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.vec,
    aten.index_select.default,
    aten.masked_fill.Scalar,
    aten.stack.default,
    aten.glu.default,
    aten.roll.default,
    aten.repeat_interleave.Tensor,
    aten.logit.default,
    aten.floor_divide.default,
    aten.var_mean.correction,
    aten.zeros.default,
    aten.ones.default,
    aten.split.Tensor,
    aten.unbind.int,
    aten.unfold.default,
    aten.tril.default,
    aten.rsub.Scalar,
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
)

#: Core ATen operators that torch's table would decompose further although kernels exist for them.
CORE_KEPT: tuple[OpOverload, ...] = (
    aten.avg_pool1d.default,
    aten.adaptive_avg_pool1d.default,
    aten.col2im.default,
    aten.fill.Scalar,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
    aten.select_scatter.default,
    aten.sym_size.int,
    aten.sym_stride.int,
    aten.sym_is_contiguous.default,
    aten.squeeze.dim,
    aten.var.dim,
)

#: Operators with a kernel whose decomposition is one of torch's internal operators: other operators are written with them.
REFERENCES_IN_PRIMS: tuple[OpOverload, ...] = (
    aten.fmax.default,
    aten.fmin.default,
    aten.i0.default,
    aten.igamma.default,
    aten.igammac.default,
    aten.special_bessel_j0.default,
    aten.special_bessel_j1.default,
    aten.special_erfcx.default,
    aten.special_i0e.default,
    aten.special_i1.default,
    aten.special_i1e.default,
    aten.special_ndtri.default,
    aten.special_spherical_bessel_j0.default,
    aten.special_zeta.default,
)

#: A view of Core ATen and the copy that stands for it in Edge.
VIEW_TO_COPY: dict[OpOverload, OpOverload] = {
    aten.as_strided.default: aten.as_strided_copy.default,
    aten._conj.default: aten._conj_physical.default,
    aten.diagonal.default: aten.diagonal_copy.default,
    aten.expand.default: aten.expand_copy.default,
    aten.permute.default: aten.permute_copy.default,
    aten.select.int: aten.select_copy.int,
    aten.slice.Tensor: aten.slice_copy.Tensor,
    aten.split.Tensor: aten.split_copy.Tensor,
    aten.split_with_sizes.default: aten.split_with_sizes_copy.default,
    aten.squeeze.dim: aten.squeeze_copy.dim,
    aten.squeeze.dims: aten.squeeze_copy.dims,
    aten.unbind.int: aten.unbind_copy.int,
    aten.unfold.default: aten.unfold_copy.default,
    aten.unsqueeze.default: aten.unsqueeze_copy.default,
    aten.view.default: aten.view_copy.default,
    aten.view.dtype: aten.view_copy.dtype,
    aten.view_as_real.default: aten.view_as_real_copy.default,
    aten.view_as_complex.default: aten.view_as_complex_copy.default,
}

COPY_TO_VIEW: dict[OpOverload, OpOverload] = {copy: view for view, copy in VIEW_TO_COPY.items()}

#: Statements that torch.export leaves in the graph and that types and range constraints say as well.
DROPPED: frozenset[OpOverload] = frozenset(
    {
        aten._assert_tensor_metadata.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
    }
)

#: Checks of values that only a run knows (``torch._check``): they have no result and stay all the same.
CHECKS: frozenset[OpOverload] = frozenset(
    {aten._assert_async.msg, aten._assert_async.default, aten._assert_scalar.default}
)


@functools.lru_cache(maxsize=8)
def decomposition_table(kept: frozenset[OpOverload] = frozenset()) -> Mapping[OpOverload, Any]:
    """Torch's decompositions to Core ATen, without those that would undo what Edge keeps.

    Operators that torch's own choice leaves although they are neither core nor composite are decomposed, too, where torch
    knows how.

    Args:
        kept: operators that stay whole.
    """
    table = dict(torch._decomp.core_aten_decompositions().items())
    for op, function in torch._decomp.decomposition_table.items():
        if isinstance(op, OpOverload) and torch.Tag.core not in op.tags and not op._schema.is_mutable:
            table.setdefault(op, function)
    table.update(OWN_DECOMPOSITIONS)
    table.update(OVERLOAD_DECOMPOSITIONS)
    for op in (*CORE_KEPT, *COPY_TO_VIEW, *kept):
        table.pop(op, None)
    for op in REFERENCES_IN_PRIMS:
        table.pop(op, None)
    table.pop(aten.convolution_overrideable.default, None)
    table.pop(aten._upsample_bilinear2d_aa.default, None)
    return table


@functools.lru_cache(maxsize=4096)
def is_composite(op: OpOverload) -> bool:
    """Whether PyTorch implements ``op`` by other operators only (CompositeImplicitAutograd)."""
    return bool(op._can_decompose()) and torch._C._dispatch_has_kernel_for_dispatch_key(
        op.name(), torch._C.DispatchKey.CompositeImplicitAutograd
    )
