"""To what a tensor is quantized, as data. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Quantization"]


@dataclass(frozen=True)
class Quantization:
    """To what a tensor is quantized.

    Attributes:
        dtype: "int8", "uint8", "int16", "int4" ….
        granularity: "per tensor", "per channel", "per group of 32", "per token".
        dynamic: Parameters are computed at run time; scales and limits are None then.
        smallest_scale: Smallest scale of all channels or groups.
        largest_scale: Largest one.
        low: Smallest value that can be represented.
        high: Largest value that can be represented.
        quant_min: Smallest integer.
        quant_max: Largest integer.
    """

    dtype: str
    granularity: str
    dynamic: bool = False
    smallest_scale: float | None = None
    largest_scale: float | None = None
    low: float | None = None
    high: float | None = None
    quant_min: int = -128
    quant_max: int = 127

    def __str__(self) -> str:
        if self.dynamic:
            return f"{self.dtype} {self.granularity}, dynamic"
        if self.granularity == "per tensor" and self.low is not None and self.high is not None:
            return f"{self.dtype} [{self.low:.3g}, {self.high:.3g}]"
        return f"{self.dtype} {self.granularity}"
