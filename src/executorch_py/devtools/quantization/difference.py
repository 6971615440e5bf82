"""Figures of an error, added up over any number of batches: constant memory, sums in float64.

Example:
    >>> import torch
    >>> sums = RunningDifference()
    >>> sums.update(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]))
    >>> sums.result().max_error
    0.5
"""

from __future__ import annotations

import math

import torch

from .rows import Difference

__all__ = ["RunningDifference"]

_PIECE = 32768  # elements


class RunningDifference:
    """Sums over pairs of tensors.

    Positions where either side is NaN or infinite are counted and left out of the sums.
    """

    def __init__(self) -> None:
        self.num_elements = 0
        self._counted = 0  # of these, where both sides are finite
        self.not_finite = [0, 0]  # in the actual values, in the expected ones
        self.lowest, self.highest = math.inf, -math.inf  # of the expected values
        self._lowest_actual, self._highest_actual = math.inf, -math.inf
        self._noise = self._signal = self._power = self._product = self._error = 0.0
        self._max_error = 0.0

    def update(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        """Adds a pair.

        Raises:
            ValueError: The shapes differ; nothing is broadcast.
        """
        if actual.shape != expected.shape:
            raise ValueError(f"shape {tuple(actual.shape)} beside {tuple(expected.shape)}")
        # Pieces that stay in the cache, small enough that torch does not wake its threads for each sum.
        for ours, theirs in zip(
            actual.detach().reshape(-1).split(_PIECE), expected.detach().reshape(-1).split(_PIECE), strict=True
        ):
            self._add(ours.to(torch.float64), theirs.to(torch.float64))

    def _add(self, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        self.num_elements += theirs.numel()
        if theirs.numel() == 0:
            return
        limits = [float(value) for value in (*theirs.aminmax(), *ours.aminmax())]
        if not all(map(math.isfinite, limits)):
            good = torch.isfinite(ours) & torch.isfinite(theirs)
            self.not_finite[0] += int((~torch.isfinite(ours)).sum())
            self.not_finite[1] += int((~torch.isfinite(theirs)).sum())
            ours, theirs = ours[good], theirs[good]
            if theirs.numel() == 0:
                return
            limits = [float(value) for value in (*theirs.aminmax(), *ours.aminmax())]
        self._counted += theirs.numel()
        self.lowest, self.highest = min(self.lowest, limits[0]), max(self.highest, limits[1])
        self._lowest_actual, self._highest_actual = (
            min(self._lowest_actual, limits[2]),
            max(self._highest_actual, limits[3]),
        )
        error = ours - theirs  # products and sums: torch.dot wakes threads whatever the size
        self._noise += float((error * error).sum())
        self._signal += float((theirs * theirs).sum())
        self._power += float((ours * ours).sum())
        self._product += float((ours * theirs).sum())
        error.abs_()
        self._error += float(error.sum())
        self._max_error = max(self._max_error, float(error.max()))

    @property
    def sums(self) -> tuple[float, float]:
        """Sum of squared errors, sum of squared expected values."""
        return self._noise, self._signal

    @property
    def is_constant(self) -> bool:
        """All expected values are one number, and there are several."""
        return self.num_elements > 1 and self.lowest == self.highest

    @property
    def is_actual_constant(self) -> bool:
        """All actual values are one number, and there are several."""
        return self.num_elements > 1 and self._lowest_actual == self._highest_actual

    def result(self) -> Difference:
        """The figures of what has been added so far."""
        largest = max(abs(self.lowest), abs(self.highest)) if math.isfinite(self.lowest) else 0.0
        if self._counted == 0:  # nothing was compared: no figure may look like one
            return Difference(math.nan, math.nan, math.nan, math.nan, math.nan, num_elements=self.num_elements)
        norms = math.sqrt(self._signal) * math.sqrt(self._power)
        if self._noise == 0:
            sqnr = math.inf
        else:
            sqnr = 10 * math.log10(self._signal / self._noise) if self._signal > 0 else -math.inf
        return Difference(
            sqnr_db=sqnr,
            cosine=self._product / norms if norms > 0 else float(self._noise == 0),
            max_error=self._max_error,
            mean_error=self._error / self._counted,
            relative_error=self._max_error / largest if largest > 0 else (math.inf if self._max_error else 0.0),
            num_elements=self.num_elements,
        )
