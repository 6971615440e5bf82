"""TensorSpec: what memory planning knows of a tensor, under its published name.

A planner reads sizes and lifetime and sets ``mem_id`` and ``mem_offset``. Sizes are upper bounds where they are
dynamic.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

__all__ = [
    "TensorShapeDynamism",
    "TensorSpec",
    "calculate_aligned_num_bytes",
    "contiguous_stride_from_shape",
    "dim_order_from_stride",
    "num_bytes_from_shape_and_dtype",
    "stride_from_dim_order",
]

#: Bytes, the published default.
ALIGNMENT = 16


class TensorShapeDynamism(enum.IntEnum):
    """How much of a shape is known before the program runs."""

    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


class TensorSpec:
    """A tensor of a method, before and after its memory is planned.

    Attributes:
        scalar_type: Element type.
        shape: Sizes; upper bounds where they are dynamic.
        const: Weights: they stay in the file and need no planned memory.
        lifetime: First and last step at which the content matters.
        mem_id: Which arena, from 1; None: the planner chooses.
        mem_offset: Byte in the arena.
        mem_obj_id: Number of the piece of memory; tensors that share one have the same.
        alignment: Bytes.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        shape: Iterable[int],
        layout: torch.layout = torch.strided,
        is_sparse: bool = False,
        const: bool = False,
        requires_grad: bool = False,
        extra_tensor_info: Any = None,
    ) -> None:
        self.scalar_type = dtype
        self.shape = [_upper_bound(size) for size in shape]
        self.stride = contiguous_stride_from_shape(self.shape)
        self.dim_order = dim_order_from_stride(self.stride)
        self.layout = layout
        self.is_sparse = is_sparse
        self.const = const
        self.requires_grad = requires_grad
        self.extra_tensor_info = extra_tensor_info
        self.alignment = ALIGNMENT
        self.shape_dynamism = TensorShapeDynamism.STATIC
        self.storage: Any = None
        self.init_mem_planning_fields()

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, const: bool = False) -> TensorSpec:
        """The spec of a tensor, which may be a fake one."""
        spec = cls(tensor.dtype, tensor.shape, tensor.layout, tensor.is_sparse, const, tensor.requires_grad)
        if all(isinstance(size, int) for size in (*tensor.shape, *tensor.stride())):
            spec.stride = tuple(tensor.stride())
            spec.dim_order = dim_order_from_stride(spec.stride)
        else:
            spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_BOUND
        return spec

    def init_mem_planning_fields(self) -> None:
        """Forgets where the tensor lies and how long it lives."""
        self.lifetime: list[int | None] = [None, None]
        self.mem_id: int | None = None
        self.mem_obj_id: int | None = None
        self.mem_offset: int | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Element type."""
        return self.scalar_type

    def nbytes(self) -> int:
        """Bytes of the elements."""
        return num_bytes_from_shape_and_dtype(self.shape, self.scalar_type)

    @property
    def allocated_memory(self) -> int:
        """Bytes of the elements, up to the next multiple of the alignment."""
        return calculate_aligned_num_bytes(self.nbytes(), self.alignment)

    def realign(self, new_alignment: int) -> int:
        """Sets the alignment; returns the bytes that the tensor then takes."""
        self.alignment = new_alignment
        return self.allocated_memory

    @property
    def is_static_shape_tensor(self) -> bool:
        """All sizes are known."""
        return self.shape_dynamism == TensorShapeDynamism.STATIC

    @property
    def is_upper_bound_tensor(self) -> bool:
        """Sizes change from call to call, up to bounds."""
        return self.shape_dynamism == TensorShapeDynamism.DYNAMIC_BOUND

    @property
    def is_dynamic_shape_tensor(self) -> bool:
        """Sizes change from call to call."""
        return self.shape_dynamism != TensorShapeDynamism.STATIC

    @property
    def is_dynamic_unbound_tensor(self) -> bool:
        """Sizes have no bound: memory comes at run time."""
        return self.shape_dynamism == TensorShapeDynamism.DYNAMIC_UNBOUND

    def debug(self) -> str:
        """All fields, one a line."""
        return "TensorSpec(\n" + "".join(f"  {name}: {value}\n" for name, value in vars(self).items()) + ")"

    def __repr__(self) -> str:
        place = "" if self.mem_offset is None else f", mem_id={self.mem_id}, mem_offset={self.mem_offset}"
        return f"TensorSpec(dtype={self.scalar_type}, shape={self.shape}, lifetime={self.lifetime}{place})"


def _upper_bound(size: Any) -> int:
    if isinstance(size, int):
        return size
    from executorch_py.exir.sym_util import eval_upper_bound

    return eval_upper_bound(size)


def num_bytes_from_shape_and_dtype(shape: Iterable[int], dtype: torch.dtype) -> int:
    """Bytes of a tensor without gaps."""
    return math.prod(shape) * dtype.itemsize


def calculate_aligned_num_bytes(num: int, alignment: int) -> int:
    """``num``, up to the next multiple of ``alignment``."""
    return -(-num // alignment) * alignment


def contiguous_stride_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major tensor."""
    return tuple(stride_from_dim_order(shape, range(len(shape))))


def dim_order_from_stride(stride: Sequence[int]) -> tuple[int, ...]:
    """Dimensions from the outermost in memory to the innermost; equal strides keep their order."""
    return tuple(sorted(range(len(stride)), key=lambda dim: -stride[dim]))


def stride_from_dim_order(sizes: Sequence[int], dim_order: Sequence[int]) -> list[int]:
    """Strides of a tensor without gaps whose dimensions lie in that order."""
    strides, step = [0] * len(sizes), 1
    for dim in reversed(dim_order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return strides
