"""Overloads that PyTorch's table lacks or writes in internal operators: a number where another overload has a tensor.

``x >> 1``, ``torch.remainder(7, x)``, ``torch.special.hermite_polynomial_h(x, 3)``: each calls the overload that has a
kernel, with the number as a tensor of no dimension. Such a tensor says less than a number (it has an element type of
its own), so the type is the one that eager PyTorch promotes to.

    >>> table = {**torch._decomp.core_aten_decompositions(), **OVERLOAD_DECOMPOSITIONS}  # doctest: +SKIP
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten

#: Operator -> function that computes the same.
OVERLOAD_DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {}


def _decomposes(*ops: OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops:
            OVERLOAD_DECOMPOSITIONS[op] = function
        return function

    return register


def _tensor(number: Any, beside: Tensor, *, floating: bool = False) -> Tensor:
    """The number as a tensor [], in the type that it and ``beside`` are promoted to (``floating``: a floating one)."""
    dtype = torch.result_type(beside, number)
    if floating and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    return torch.full((), number, dtype=dtype)


def _number_on_either_side(op: OpOverload, left: OpOverload | None, right: OpOverload | None, floating: bool) -> None:
    if left is not None:
        OVERLOAD_DECOMPOSITIONS[left] = lambda number, other: op(_tensor(number, other, floating=floating), other)
    if right is not None:
        OVERLOAD_DECOMPOSITIONS[right] = lambda self, number: op(self, _tensor(number, self, floating=floating))


_POLYNOMIALS = (
    *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
)

for _name in _POLYNOMIALS:
    _packet = getattr(aten, f"special_{_name}")
    _number_on_either_side(_packet.default, _packet.x_scalar, _packet.n_scalar, floating=True)
_number_on_either_side(aten.special_zeta.default, aten.special_zeta.self_scalar, aten.special_zeta.other_scalar, True)
_number_on_either_side(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other, True)
_number_on_either_side(aten.xlogy.Tensor, aten.special_xlogy.self_scalar, aten.special_xlogy.other_scalar, True)
_number_on_either_side(
    aten.special_xlog1py.default, aten.special_xlog1py.self_scalar, aten.special_xlog1py.other_scalar, True
)
_number_on_either_side(aten.copysign.Tensor, None, aten.copysign.Scalar, True)
_number_on_either_side(aten.remainder.Tensor, aten.remainder.Scalar_Tensor, None, False)
_number_on_either_side(aten.bitwise_and.Tensor, aten.bitwise_and.Scalar_Tensor, None, False)
_number_on_either_side(aten.bitwise_or.Tensor, aten.bitwise_or.Scalar_Tensor, None, False)
_number_on_either_side(aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar_Tensor, None, False)


@_decomposes(aten.special_i0.default)
def _special_i0(self: Tensor) -> Tensor:
    return aten.i0(self)


def _shift(op: OpOverload, self: Any, other: Any) -> Tensor:
    dtype = torch.result_type(self, other)
    self, other = (
        value.to(dtype) if isinstance(value, Tensor) else torch.full((), value, dtype=dtype) for value in (self, other)
    )
    return op(self, other)


@_decomposes(aten.__lshift__.Scalar, aten.__lshift__.Tensor, aten.bitwise_left_shift.Scalar_Tensor)
def _left_shift(self: Any, other: Any) -> Tensor:
    return _shift(aten.bitwise_left_shift.Tensor, self, other)


@_decomposes(aten.__rshift__.Scalar, aten.__rshift__.Tensor, aten.bitwise_right_shift.Scalar_Tensor)
def _right_shift(self: Any, other: Any) -> Tensor:
    return _shift(aten.bitwise_right_shift.Tensor, self, other)


@_decomposes(aten.bucketize.Scalar)
def _bucketize(self: Any, boundaries: Tensor, **options: Any) -> Tensor:
    return aten.bucketize.Tensor(_tensor(self, boundaries), boundaries, **options)


@_decomposes(aten.searchsorted.Scalar)
def _searchsorted(sorted_sequence: Tensor, self: Any, **options: Any) -> Tensor:
    number = _tensor(self, sorted_sequence)
    return aten.searchsorted.Tensor(sorted_sequence.to(number.dtype), number, **options)


@_decomposes(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def _index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Negative indices count from the end, which ``index_copy``, PyTorch's decomposition, refuses."""
    value = value.to(self.dtype) if isinstance(value, Tensor) else torch.full((), value, dtype=self.dtype)
    if self.dim() == 0:
        return _index_fill(self.reshape(1), 0, index, value).reshape(())
    places = [*[None] * (dim % self.dim()), index.reshape(-1)]
    return aten.index_put(self, places, value)


@_decomposes(aten.scatter.value_reduce)
def _scatter(self: Tensor, dim: int, index: Tensor, value: Any, *, reduce: str) -> Tensor:
    source = torch.full(index.shape, value, dtype=self.dtype)
    return aten.scatter.reduce(self, dim, index, source, reduce=reduce)


@_decomposes(aten.range.default, aten.range.step)
def _range(start: Any, end: Any, step: Any = 1, *, dtype: Any = None, **placement: Any) -> Tensor:
    """Like ``arange`` with its end."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    count = int((end - start) / step) + 1
    wide = (
        torch.int64
        if not dtype.is_floating_point and isinstance(start, int) and isinstance(step, int)
        else torch.float64
    )
    return (torch.arange(count, dtype=wide) * step + start).to(dtype)


@_decomposes(aten.conv_tbc.default)
def _conv_tbc(self: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time of [time, batch, channels] with filters [width, in, out]."""
    out = torch.nn.functional.conv1d(self.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1)


@_decomposes(aten._int_mm.default)
def _int_mm(self: Tensor, mat2: Tensor) -> Tensor:
    return aten.mm(self.to(torch.int32), mat2.to(torch.int32))


@_decomposes(aten.bernoulli.Tensor)
def _bernoulli(self: Tensor, p: Tensor, *, generator: Any = None) -> Tensor:
    """A probability for each element, which broadcasts: ``x.bernoulli_(p)``."""
    return (torch.rand(self.shape) < p).to(self.dtype)


@_decomposes(aten.randint.generator)
def _randint(high: Any, size: Sequence[int], *, generator: Any, dtype: Any = torch.int64, **placement: Any) -> Tensor:
    """A generator of the user's does not leave with the program: the runtime's own draws."""
    return torch.randint(high, size, dtype=dtype)


@_decomposes(aten.randint.low_generator)
def _randint_low(
    low: Any, high: Any, size: Sequence[int], *, generator: Any, dtype: Any = torch.int64, **placement: Any
) -> Tensor:
    return torch.randint(low, high, size, dtype=dtype)


@_decomposes(aten.randperm.generator)
def _randperm(n: Any, *, generator: Any, dtype: Any = torch.int64, **placement: Any) -> Tensor:
    return torch.randperm(n, dtype=dtype)


def _fake_quantized(self: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> tuple[Tensor, Tensor]:
    """Rounded to integers and back, and where nothing was clipped."""
    whole = torch.round(self * (1.0 / scale)) + zero_point
    kept = (whole >= low) & (whole <= high)
    return ((whole.clamp(low, high) - zero_point) * scale).to(self.dtype), kept


@_decomposes(aten.fake_quantize_per_tensor_affine_cachemask.default)
def _fake_quantize(self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    return _fake_quantized(self, scale, zero_point, quant_min, quant_max)


@_decomposes(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default)
def _fake_quantize_by_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int
) -> Any:
    quantized, kept = _fake_quantized(self, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max)
    enabled = fake_quant_enabled.reshape(()) != 0
    return torch.where(enabled, quantized, self), torch.where(enabled, kept, True)


@_decomposes(aten.fake_quantize_per_channel_affine_cachemask.default)
def _fake_quantize_channels(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Any:
    shape = [1] * self.dim()
    shape[axis] = -1
    return _fake_quantized(self, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)
