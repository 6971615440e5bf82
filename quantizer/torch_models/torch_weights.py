"""Weights that torch has packed for its kernels, as buffers: the same integers and scales, which any exporter takes.

>>> weight = PackedWeight.of(linear._packed_params._packed_params)  # doctest: +SKIP
>>> torch.nn.functional.linear(x, weight.values(), weight.bias)  # doctest: +SKIP
"""

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from executorch_py.errors import NotSupportedError

_decomposed = torch.ops.quantized_decomposed

#: Half the integers that a table has.
_EIGHT_BITS, _FOUR_BITS = 128, 8
#: How torch's objects with packed weights name themselves; those of recurrent layers hold two of the first.
_LINEAR, _CONVOLUTIONS, _TABLE, _CELL = "Linear", ("Conv2d", "Conv3d"), "Embedding", "Cell"


def is_packed(value: Any) -> bool:
    """Whether torch keeps weights in an object that only its own kernels read."""
    return isinstance(value, torch.ScriptObject)


class PackedWeight(nn.Module):
    """A weight of integers with its scales, or of float16, and the bias beside it.

    Attributes:
        integers: [out, in, …] as torch packs it: int8 or float16. Of tables less by half their range, as int8, too.
        scales: [channels], empty for float16.
        zero_points: [channels]; integers, but for tables, where they are floats.
        axis: The dimension of the channels; None for one scale.
        bias: [out], or None.
    """

    integers: torch.Tensor
    scales: torch.Tensor
    zero_points: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        weight = weight.detach()
        self.axis: int | None = None
        self.scale, self.zero_point = 1.0, 0
        scales, zero_points = torch.ones(0), torch.zeros(0)
        if not weight.is_quantized:
            integers = weight.half()
        elif weight.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            integers, self.scale, self.zero_point = weight.int_repr(), weight.q_scale(), weight.q_zero_point()
        else:
            self.axis = weight.q_per_channel_axis()
            scales, zero_points = weight.q_per_channel_scales().float(), weight.q_per_channel_zero_points().long()
            if weight.qscheme() == torch.per_channel_affine_float_qparams:
                less = _FOUR_BITS if weight.dtype == torch.quint4x2 else _EIGHT_BITS
                integers, zero_points = _table_of(weight), weight.q_per_channel_zero_points().float() - less
            else:
                integers = weight.int_repr()
        self.register_buffer("integers", integers.contiguous())
        self.register_buffer("scales", scales)
        self.register_buffer("zero_points", zero_points)
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    @staticmethod
    def of(packed: Any, one_dimensional: bool = False) -> "PackedWeight | PackedConvolution | PackedCell":
        """What one of torch's objects holds.

        Raises:
            NotSupportedError: An object that torch's quantization of layers does not make.
        """
        name = packed._type().name().removesuffix("Base").removesuffix("PackedParams").removesuffix("Params")
        if name == _LINEAR:
            return PackedWeight(*packed.unpack())
        if name in _CONVOLUTIONS:
            return PackedConvolution(packed, one_dimensional)
        if name == _TABLE:
            return PackedWeight(torch.ops.quantized.embedding_bag_unpack(packed))
        if name == _CELL:
            return PackedCell(packed)
        raise NotSupportedError(
            f"weights in a {packed._type().name()}, which from_torch_quantized cannot read; quantize the float model "
            "with executorch_py.quantizer"
        )

    def held(self) -> tuple[torch.Tensor, ...]:
        """The tensors that ``values`` and ``bias`` are made of, such as a loop takes as operands."""
        names = ("integers",) if self.axis is None else ("integers", "scales", "zero_points")
        return tuple(getattr(self, name) for name in (*names, *(() if self.bias is None else ("bias",))))

    def holding(self, held: tuple[torch.Tensor, ...]) -> "PackedWeight":
        """The same weight with other tensors in the places of ``held``, such as the operands of a loop's body."""
        other = copy.copy(self)
        names = [name for name, value in self._buffers.items() if any(value is one for one in self.held())]
        vars(other)["_buffers"] = {**self._buffers, **dict(zip(names, held, strict=True))}
        return other

    def values(self) -> torch.Tensor:
        """The weight in float32, behind its dequantize."""
        if self.integers.dtype == torch.float16:
            return self.integers.float()
        limits = torch.iinfo(self.integers.dtype)
        bounds = (limits.min, limits.max, self.integers.dtype)
        if self.axis is None:
            return _decomposed.dequantize_per_tensor.default(self.integers, self.scale, self.zero_point, *bounds)
        if self.zero_points.is_floating_point():
            return (self.integers.float() - self.zero_points[:, None]) * self.scales[:, None]
        return _decomposed.dequantize_per_channel.default(
            self.integers, self.scales, self.zero_points, self.axis, *bounds
        )

    def rows(self, indices: torch.Tensor) -> torch.Tensor:
        """Rows of a table in float32. Only these leave their integers."""
        integers, points, scales = (x[indices] for x in (self.integers, self.zero_points, self.scales))
        return (integers.float() - points[..., None]) * scales[..., None]


class PackedConvolution(PackedWeight):
    """The weight of a convolution, and how it moves over its input."""

    def __init__(self, packed: Any, one_dimensional: bool) -> None:
        weight, bias = packed.unpack()
        super().__init__(weight, bias)
        dims = slice(1, None) if one_dimensional else slice(None)  # torch packs lines as images of one row
        if one_dimensional:
            self.integers = self.integers.squeeze(2)
        self.geometry: dict[str, Any] = {
            "stride": packed.stride()[dims],
            "padding": packed.padding()[dims],
            "dilation": packed.dilation()[dims],
            "groups": packed.groups(),
        }
        self.transposed = bool(packed.transpose())
        if self.transposed:
            self.geometry["output_padding"] = packed.output_padding()[dims]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """What the convolution gives for float32."""
        name = f"conv{'_transpose' if self.transposed else ''}{self.integers.dim() - 2}d"
        return getattr(functional, name)(x, self.values(), self.bias, **self.geometry)


class PackedCell(nn.Module):
    """Both weights of a recurrent layer: for its inputs and for its state."""

    def __init__(self, packed: Any) -> None:
        super().__init__()
        _, _, _, numbers, weights = packed.__getstate__()[0]
        self.input, self.state = (PackedWeight(*weight.unpack()) for weight in weights)
        self.reduce_range = bool(numbers[0]) if numbers else False


def _table_of(weight: torch.Tensor) -> torch.Tensor:
    """The integers of a table as int8: less by 128 than torch's, or by 8 where they have four bits."""
    if weight.dtype == torch.quint4x2:  # two in a byte
        points, scales = (x[:, None] for x in (weight.q_per_channel_zero_points(), weight.q_per_channel_scales()))
        return ((weight.dequantize() / scales + points).round() - _FOUR_BITS).to(torch.int8)
    return (weight.int_repr().to(torch.int16) - _EIGHT_BITS).to(torch.int8)
