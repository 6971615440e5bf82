"""Measures of how far a value of a run is from the graph's, for ``Inspector.calculate_numeric_gap``.

Example:
    >>> class Largest(NumericalComparatorBase):
    ...     def element_compare(self, a, b):
    ...         return float((a - b).abs().max())
    >>> inspector.calculate_numeric_gap(Largest())  # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from executorch_py.errors import InvalidArgumentError

__all__ = ["L1Comparator", "MSEComparator", "NumericalComparatorBase", "SNRComparator"]

#: Debug handles and the value that was seen.
Seen = tuple[tuple[int, ...], Any]


class NumericalComparatorBase:
    """A measure. Derived classes have ``element_compare``, and may change all pairs before with ``preprocessing``."""

    def __init__(self, inspector: Any | None = None) -> None:
        self._inspector = inspector

    def preprocessing(self, mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The pairs to compare: (handles, value of the graph) -> (handles, value of the run). Here: as they are."""
        return mapping

    def element_compare(self, a: Any, b: Any) -> float:
        """How far the value of the run, ``b``, is from the graph's, ``a``."""
        raise NotImplementedError(f"{type(self).__name__} has no element_compare(a, b)")

    def gaps(self, a: Any, b: Any) -> list[float]:
        """A gap for a value, or for each of several.

        Raises:
            InvalidArgumentError: One of the two is a list, or their lengths differ.
        """
        if isinstance(a, (list, tuple)) != isinstance(b, (list, tuple)):
            raise InvalidArgumentError("one value is a list and the other is not")
        if not isinstance(a, (list, tuple)):
            return [self.element_compare(a, b)]
        if len(a) != len(b):
            raise InvalidArgumentError(f"the graph gives {len(a)} values, the run {len(b)}")
        return [self.element_compare(one, other) for one, other in zip(a, b, strict=True)]


def _floats(a: Any, b: Any) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = torch.as_tensor(a).detach().double(), torch.as_tensor(b).detach().double()
    if first.shape != second.shape and first.numel() != second.numel():
        raise InvalidArgumentError(f"the graph gives shape {tuple(first.shape)}, the run {tuple(second.shape)}")
    return first.reshape(-1), second.reshape(-1)


class MSEComparator(NumericalComparatorBase):
    """Mean of the squared differences."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Mean of the squared differences."""
        first, second = _floats(a, b)
        return float((first - second).square().mean()) if first.numel() else 0.0


class L1Comparator(NumericalComparatorBase):
    """Sum of the absolute differences."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Sum of the absolute differences."""
        first, second = _floats(a, b)
        return float((first - second).abs().sum())


class SNRComparator(NumericalComparatorBase):
    """Signal-to-noise ratio in dB; infinite where nothing differs."""

    def element_compare(self, a: Any, b: Any) -> float:
        """``10 log10(mean a² / mean (a - b)²)``."""
        first, second = _floats(a, b)
        noise, signal = float((first - second).square().sum()), float(first.square().sum())
        if noise == 0.0:
            return math.inf
        return 10 * math.log10(signal / noise) if signal > 0.0 else -math.inf


#: What ``calculate_numeric_gap`` takes as a string.
COMPARATORS: dict[str, type[NumericalComparatorBase]] = {
    "MSE": MSEComparator,
    "L1": L1Comparator,
    "SNR": SNRComparator,
}
