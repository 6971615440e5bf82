"""How near results of the kernels are to eager's, whose sums run in another order, in each floating type."""

from __future__ import annotations

import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal within the tolerance of the type, exactly for others; NaN where eager has it."""
    tolerance = TOLERANCE.get(expected.dtype, 0)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
