"""Decompositions that PyTorch's table lacks, written with operators that the runtime has.

Each is an ordinary function of tensors with the operator's own arguments, which decomposer.py traces like PyTorch's.

    >>> table = {**torch._decomp.core_aten_decompositions(), **OWN_DECOMPOSITIONS}  # doctest: +SKIP
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .backward import BACKWARD_DECOMPOSITIONS

aten = torch.ops.aten

#: Operator -> function that computes the same.
OWN_DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {**BACKWARD_DECOMPOSITIONS}


def _decomposes(op: OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OWN_DECOMPOSITIONS[op] = function
        return function

    return register


@_decomposes(aten._trilinear.default)
def _trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """``nn.Bilinear``: the product of three tensors, each with new dims, summed over some dims."""
    if [*expand1, -1, *expand2, -1, *expand3, -1, *sumdim] == [1, 3, -1, 0, -1, 1, 2, -1, 2, 3]:
        # out[b, o] = sum over i and j of i1[b, i] * i2[o, i, j] * i3[b, j]: two products of matrices
        outputs, rows, columns = i2.shape
        partial = torch.nn.functional.linear(i3, i2.reshape(outputs * rows, columns))
        return torch.bmm(partial.view(i3.shape[0], outputs, rows), i1.unsqueeze(-1)).squeeze(-1)
    for dim in expand1:
        i1 = i1.unsqueeze(dim)
    for dim in expand2:
        i2 = i2.unsqueeze(dim)
    for dim in expand3:
        i3 = i3.unsqueeze(dim)
    product = i1 * i2 * i3
    return product.sum(list(sumdim), dtype=product.dtype) if sumdim else product


@_decomposes(aten.isin.Tensor_Tensor)
def _isin(elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """By search where sizes are dynamic: torch's form compares which way is faster, which would bind the sizes."""
    if all(isinstance(size, int) for size in (*elements.shape, *test_elements.shape)):
        return torch._decomp.decompositions.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)
    dtype = torch.result_type(elements, test_elements)
    searched, wanted = test_elements.to(dtype).flatten().sort().values, elements.to(dtype)
    place = torch.searchsorted(searched, wanted)
    # One element more, so that there is one to look at behind the last, and among none.
    found = (torch.cat([searched, searched.new_zeros(1)])[place] == wanted) & (place < searched.shape[0])
    return ~found if invert else found


@_decomposes(aten.addbmm.default)
def _addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """A sum of products is one product, of the matrices side by side and on top of each other."""
    batches, rows, depth = batch1.shape
    side_by_side = batch1.permute(1, 0, 2).reshape(rows, batches * depth)
    stacked = batch2.reshape(batches * depth, batch2.shape[2])
    return aten.addmm(self, side_by_side, stacked, beta=beta, alpha=alpha)


@_decomposes(aten.addr.default)
def _addr(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """One pass over the matrix, which is neither broadcast nor scaled before."""
    dtype = torch.promote_types(torch.promote_types(self.dtype, vec1.dtype), vec2.dtype)
    self, column, row = (tensor.to(dtype) for tensor in (self, vec1.unsqueeze(1), vec2))
    if dtype == torch.bool:
        outer = torch.logical_and(column, row) if alpha else torch.zeros_like(torch.logical_and(column, row))
        return torch.logical_or(self, outer) if beta else outer
    if beta == 0:  # nothing of self then, NaN included
        return column * row if alpha == 1 else column * alpha * row
    return aten.addcmul(self if beta == 1 else self * beta, column, row, value=alpha)


@_decomposes(aten.std.default)
def _std(self: Tensor, unbiased: bool = True) -> Tensor:
    return aten.std.correction(self, None, correction=int(unbiased))


@_decomposes(aten.std.dim)
def _std_dim(self: Tensor, dim: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    return aten.std.correction(self, dim, correction=int(unbiased), keepdim=keepdim)


@_decomposes(aten.std_mean.default)
def _std_mean(self: Tensor, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    return _std_mean_correction(self, correction=int(unbiased))


@_decomposes(aten.std_mean.dim)
def _std_mean_dim(
    self: Tensor, dim: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _std_mean_correction(self, dim, correction=int(unbiased), keepdim=keepdim)


@_decomposes(aten.std_mean.correction)
def _std_mean_correction(
    self: Tensor, dim: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Not by way of the variance, which may be beyond the element type where its root is not."""
    _, mean = aten.var_mean.correction(self, dim, correction=correction, keepdim=keepdim)
    return aten.std.correction(self, dim, correction=correction, keepdim=keepdim), mean


# PyTorch's forms look at what failed once the kernel has run, and a trace keeps nothing of that: the kernel is told to.
@_decomposes(aten.linalg_cholesky.default)
def _linalg_cholesky(self: Tensor, *, upper: bool = False) -> Tensor:
    return aten.linalg_cholesky_ex(self, upper=upper, check_errors=True)[0]


@_decomposes(aten.inverse.default)
@_decomposes(aten.linalg_inv.default)
def _linalg_inv(A: Tensor) -> Tensor:
    return aten.linalg_inv_ex(A, check_errors=True)[0]


@_decomposes(aten.linalg_tensorinv.default)
def _linalg_tensorinv(self: Tensor, ind: int = 2) -> Tensor:
    rows, columns = self.shape[:ind], self.shape[ind:]
    return _linalg_inv(self.reshape(math.prod(columns), math.prod(rows))).reshape(*columns, *rows)


@_decomposes(aten.linalg_solve.default)
def _linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    return aten._linalg_solve_ex(A, B, left=left, check_errors=True)[0]


@_decomposes(aten.linalg_lu_factor.default)
def _linalg_lu_factor(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    return aten.linalg_lu_factor_ex(A, pivot=pivot, check_errors=True)[:2]


@_decomposes(aten.linalg_ldl_factor.default)
def _linalg_ldl_factor(self: Tensor, *, hermitian: bool = False) -> tuple[Tensor, Tensor]:
    return aten.linalg_ldl_factor_ex(self, hermitian=hermitian, check_errors=True)[:2]


@_decomposes(aten.linalg_cross.default)
def _linalg_cross(self: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Components apart: PyTorch's decomposition gathers each pair of them anew."""
    self, other = torch.broadcast_tensors(self, other)
    a, b = self.unbind(dim), other.unbind(dim)
    products = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    return torch.stack(products, dim)


@_decomposes(aten.vdot.default)
def _vdot(self: Tensor, other: Tensor) -> Tensor:
    return torch.dot(self.conj() if self.is_complex() else self, other)


@_decomposes(aten.deg2rad.default)
def _deg2rad(self: Tensor) -> Tensor:
    return self * (math.pi / 180)


@_decomposes(aten.rad2deg.default)
def _rad2deg(self: Tensor) -> Tensor:
    return self * (180 / math.pi)


@_decomposes(aten.block_diag.default)
def _block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """Each matrix between its zeros is one copy, and all below each other another."""
    matrices = [tensor if tensor.dim() == 2 else tensor.reshape(1, -1) for tensor in tensors]
    dtype = functools.reduce(torch.promote_types, [matrix.dtype for matrix in matrices])
    columns = sum(matrix.shape[1] for matrix in matrices)
    strips = []
    start = 0
    for matrix in matrices:
        strips.append(aten.constant_pad_nd(matrix.to(dtype), [start, columns - start - matrix.shape[1]]))
        start += matrix.shape[1]
    return torch.cat(strips)


@_decomposes(aten.logaddexp2.default)
def _logaddexp2(self: Tensor, other: Tensor) -> Tensor:
    """The larger one and what the distance adds; infinities are apart by NaN."""
    dtype = torch.result_type(self, other)
    if dtype.is_complex:
        return NotImplemented
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    self, other = self.to(wide), other.to(wide)
    high = torch.maximum(self, other)
    added = torch.log1p(torch.exp2(-(self - other).abs())) * (1 / math.log(2))
    return torch.where(high.isinf(), high, high + added).to(dtype)


@_decomposes(aten.ldexp.Tensor)
def _ldexp(self: Tensor, other: Tensor) -> Tensor:
    """``self * 2**other``.

    Whole exponents by three factors, since 2**other alone may leave the range that the result is in.
    """
    if other.is_floating_point() or self.is_complex() or other.is_complex():
        return self * torch.pow(2.0, other)
    dtype = self.dtype if self.is_floating_point() else torch.get_default_dtype()
    wide = torch.promote_types(dtype, torch.float32)
    farthest = 300 if wide == torch.float32 else 2200  # from the smallest number to the largest, and beyond
    left = other.to(torch.int64).clamp(-farthest, farthest)
    result = self.to(wide)
    for parts in (3, 2, 1):
        part = torch.div(left, parts, rounding_mode="floor")
        result, left = result * torch.exp2(part.to(wide)), left - part
    return result.to(dtype)


@_decomposes(aten._is_all_true.default)
def _is_all_true(self: Tensor) -> Tensor:
    """What the arguments of a distribution are checked with."""
    return self.all()


@_decomposes(aten._is_any_true.default)
def _is_any_true(self: Tensor) -> Tensor:
    return self.any()


@_decomposes(aten.complex.default)
def _complex(real: Tensor, imag: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack(torch.broadcast_tensors(real, imag), -1))


@_decomposes(aten.polar.default)
def _polar(abs: Tensor, angle: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack([abs * angle.cos(), abs * angle.sin()], -1))


@_decomposes(aten.geometric.default)
def _geometric(self: Tensor, p: float, generator: Any = None) -> Tensor:
    """PyTorch's draws uniform numbers in the type of self, which need not be a floating one."""
    uniform = torch.rand(self.shape)
    return (torch.floor(torch.log1p(-uniform) / math.log1p(-p)) + 1).to(self.dtype)


@_decomposes(aten.randn.generator)
def _randn(size: Sequence[int], *, generator: Any, dtype: Any = None, **placement: Any) -> Tensor:
    """A generator of the user's does not leave with the program: the runtime's own draws."""
    return torch.randn(size, dtype=dtype)


@_decomposes(aten.rand.generator)
def _rand(size: Sequence[int], *, generator: Any, dtype: Any = None, **placement: Any) -> Tensor:
    return torch.rand(size, dtype=dtype)


def _few_places(self: Tensor, index: Tensor) -> list[Tensor] | None:
    """Indices into all of ``self`` as one for each dimension, where they are few: as one row an input would be copied
    first.
    """
    is_static = all(isinstance(size, int) for size in (*self.shape, *index.shape))
    if self.dim() < 2 or not is_static or index.numel() * 8 > self.numel() or self.numel() == 0:
        return None
    places: list[Tensor] = []
    for size in reversed(self.shape[1:]):  # rounded down, so that negative ones count from the end of their dim
        places.insert(0, torch.remainder(index, size))
        index = torch.div(index, size, rounding_mode="floor")
    return [index, *places]


@_decomposes(aten.put.default)
def _put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    places = _few_places(self, index)
    if places is not None:
        return aten.index_put(self, places, source.reshape(index.shape), accumulate)
    flat = aten.index_put(self.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.view(self.shape)


@_decomposes(aten.take.default)
def _take(self: Tensor, index: Tensor) -> Tensor:
    places = _few_places(self, index)
    return aten.index(self.reshape(-1), [index]) if places is None else aten.index(self, places)


@_decomposes(aten._embedding_bag_forward_only.default)
def _embedding_bag_forward_only(*args: Any, **kwargs: Any) -> Any:
    return aten._embedding_bag(*args, **kwargs)


@_decomposes(aten._batch_norm_with_update_functional.default)
def _batch_norm_with_update_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm of training, and what other devices reserve for the way back."""
    out, mean, rstd, *moved = aten._native_batch_norm_legit_functional(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return out, mean, rstd, torch.empty(0, dtype=torch.uint8), *moved


@_decomposes(aten.embedding_renorm.default)
def _embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that an index names and whose norm is above the limit are scaled down to it."""
    norms = torch.linalg.vector_norm(self, norm_type, dim=1, keepdim=True)
    named = torch.zeros(self.shape[0], 1, dtype=torch.bool)
    named = aten.index_put(named, [indices.reshape(-1)], torch.ones(1, 1, dtype=torch.bool))
    return torch.where(named & (norms > max_norm), self * (max_norm / (norms + 1e-7)), self)


@_decomposes(aten.rrelu_with_noise_functional.default)
def _rrelu(
    self: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1.0 / 3.0,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """In inference the slope is the middle of the two."""
    return NotImplemented if training else (torch.nn.functional.leaky_relu(self, (lower + upper) / 2), noise)


@_decomposes(aten.empty_permuted.default)
def _empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    """Strides are of no account: Edge tensors are row-major."""
    return torch.empty(size, dtype=dtype, device=device)


@_decomposes(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def _attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """The weights are computed again: PyTorch's decomposition of the forward pass has no logsumexp to make them
    from.
    """
    if dropout_p:
        return NotImplemented
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        rows, columns = torch.arange(query.shape[-2]), torch.arange(key.shape[-2])
        scores = torch.where(columns > rows.unsqueeze(1), -math.inf, scores)
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights = aten._safe_softmax(scores, -1)
    grad_weights = grad_out @ value.transpose(-2, -1)
    grad_scores = weights * (grad_weights - (grad_out * out).sum(-1, keepdim=True)) * factor
    return grad_scores @ key, grad_scores.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ grad_out


def _chunked_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """Chunks save memory in training; inference takes the layer as it is."""
    logits = torch.nn.functional.linear(input, linear_weight, linear_bias)
    return torch.nn.functional.cross_entropy(
        logits, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def training_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Of custom operators that PyTorch defines on first use, those that exist by now."""
    namespace = torch.ops.torch_nn
    found: dict[OpOverload, Callable[..., Any]] = {}
    if hasattr(namespace, "_linear_cross_entropy_batch_chunked"):

        def reduced(*args: Any) -> tuple[Tensor, ...]:
            loss = _chunked_cross_entropy(*args[:8])
            return (loss, *(loss.new_empty(0) for _ in range(3)))

        found[namespace._linear_cross_entropy_batch_chunked.default] = reduced
    if hasattr(namespace, "_linear_cross_entropy_batch_chunked_no_reduction"):

        def unreduced(
            input: Tensor,
            linear_weight: Tensor,
            target: Tensor,
            linear_bias: Tensor | None,
            weight: Tensor | None,
            ignore_index: int,
            *chunking: Any,
        ) -> Tensor:
            return _chunked_cross_entropy(input, linear_weight, target, linear_bias, weight, "none", ignore_index, 0.0)

        found[namespace._linear_cross_entropy_batch_chunked_no_reduction.default] = unreduced
    return found
