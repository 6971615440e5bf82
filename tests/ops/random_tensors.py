"""Random tensors of any dtype, and the dtypes and values that tests of operators draw from."""

from __future__ import annotations

import torch

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
SMALL = [torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
#: What rounding, conversions and comparisons of floats are known to get wrong.
EDGES = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 6e-8, 65520.0, 3.4e38]


def numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Standard normal floats, truths, or integers of the whole range; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, shape, dtype=dtype, generator=generator)


def integers(dtype: torch.dtype) -> torch.Tensor:
    """Every value of a byte, more of wider types, and their ends."""
    ends = torch.iinfo(dtype)
    torch.manual_seed(0)
    some = torch.randint(max(ends.min, -40000), min(ends.max, 40000), (1001,))
    return torch.cat([torch.arange(256), some, torch.tensor([ends.min, ends.min + 1, ends.max, 0, 1])]).to(dtype)
