"""Observers: what torchao's minimum and maximum do not say of a tensor.

Activations stream through a histogram of fixed size (constant memory, whatever the number of samples). A range is
chosen, and from the range scale and zero point, by torchao's own arithmetic. Observers of weights: weight_observers.py.

class                    chooses the range
MinMax, MovingAverage    torchao's; they count magnitudes beside it, so that outliers are known
HistogramObserver        that loses least to clipping and rounding together, each end by itself
PercentileObserver       that leaves out a fixed share of the values at each end
MSEObserver              with the least squared error of the rounded values; both ends shrink together
HalfObserver             none: float16 has its own, and the observer knows whether the values are in it
"""

from abc import abstractmethod
from typing import Any

import torch

from .pt2e import MinMaxObserver, MovingAverageMinMaxObserver, PlaceholderObserver, UniformQuantizationObserverBase

#: Shares of the full range that are tried as ranges, largest first.
_SHRINKS = torch.linspace(1.0, 0.3, 71)


#: Values of one tensor that are counted at most, about. As many as torch works on in one thread.
_MOST_COUNTED = 1 << 15


def _some_of(x: torch.Tensor) -> torch.Tensor:
    """An even selection of the elements of [n], where there are many."""
    return x[:: x.numel() // _MOST_COUNTED | 1] if x.numel() > _MOST_COUNTED else x  # odd: not in step with rows


#: Of a float's bits what is left out: below the sign and the exponent, but for two digits behind the point.
_DIGITS_LEFT_OUT = 21


class _CountsMagnitudes(MinMaxObserver):
    """Counts how large values are, four bins for each power of two, whatever the range: bits of the floats are the
    bins.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register_buffer("magnitudes", torch.zeros(1 << (31 - _DIGITS_LEFT_OUT), dtype=torch.int64))

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Counts ``x_orig`` (any shape, floating point) and returns it."""
        bits = _some_of(x_orig.detach().reshape(-1).float()).view(torch.int32)
        places = (bits & 0x7FFFFFFF) >> _DIGITS_LEFT_OUT
        self.magnitudes += torch.bincount(places, minlength=len(self.magnitudes))
        return super().forward(x_orig)

    def share_within(self, distance: float) -> float:
        """Share of the values other than zero that are nearer to zero than ``distance``, rounded down to a bin's
        edge.
        """
        end = int(torch.tensor(distance, dtype=torch.float32).view(torch.int32)) >> _DIGITS_LEFT_OUT
        return float(self.magnitudes[1:end].sum() / self.magnitudes[1:].sum().clamp(min=1))


class MinMax(_CountsMagnitudes):
    """torchao's MinMaxObserver that counts magnitudes."""


class MovingAverage(_CountsMagnitudes, MovingAverageMinMaxObserver):
    """torchao's MovingAverageMinMaxObserver that counts magnitudes."""


class HalfObserver(PlaceholderObserver):
    """Says that a tensor becomes float16, and how far from zero its finite values were."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.largest = 0.0

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Looks at ``x_orig`` (any shape, floating point) and returns it."""
        if x_orig.numel():
            self.largest = max(self.largest, float(x_orig.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()))
        return x_orig


class _StreamingHistogram(UniformQuantizationObserverBase):
    """Counts values in ``bins`` bins over [-limit, limit], beside their exact minimum and maximum.

    When a value lies outside, the limit doubles and two old bins become one new: nothing is estimated. Of large tensors
    an even selection is counted; minimum and maximum are those of all values. Zeros are counted apart, because every
    affine quantization has them exactly.
    """

    def __init__(self, bins: int = 4096, **options: Any) -> None:
        super().__init__(**options)
        if bins < 64 or bins % 4:
            raise ValueError(f"bins is {bins}, must be a multiple of 4 and at least 64")
        self.bins = bins
        self.register_buffer("min_val", torch.tensor(float("inf")))
        self.register_buffer("max_val", torch.tensor(float("-inf")))
        self.register_buffer("limit", torch.tensor(0.0))
        self.register_buffer("histogram", torch.zeros(bins, dtype=torch.float64))
        self.register_buffer("zeros", torch.zeros((), dtype=torch.float64))
        self._chosen: tuple[float, float] | None = None

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Counts ``x_orig`` (any shape, floating point) and returns it."""
        x = x_orig.detach().reshape(-1).float()
        if x.numel() == 0:
            return x_orig
        self._chosen = None
        low, high = torch.aminmax(x)
        # NaN stays in min_val and max_val, where checks.py finds it.
        self.min_val.copy_(torch.minimum(self.min_val, low))
        self.max_val.copy_(torch.maximum(self.max_val, high))
        largest = float(torch.maximum(high, -low))
        if not 0 < largest < float("inf"):
            self.zeros += x.numel() if largest == 0 else 0
            return x_orig
        self._grow_to(largest)
        limit = float(self.limit)
        x = _some_of(x)
        places = ((x + limit) * (self.bins / (2 * limit))).long().clamp_(0, self.bins - 1)
        self.histogram += torch.bincount(places, minlength=self.bins)
        self.zeros += (x == 0).sum()
        return x_orig

    def _grow_to(self, largest: float) -> None:
        limit = float(self.limit)
        if limit == 0:
            limit = largest
            if limit < 1e-30:  # below, bins cannot be told apart in float32
                limit = 1e-30
        while limit < largest:
            merged = self.histogram.reshape(-1, 2).sum(1)
            quarter = self.bins // 4
            self.histogram.zero_()
            self.histogram[quarter : 3 * quarter] = merged
            limit *= 2
        self.limit.fill_(limit)

    def _content(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Middles of the bins and how many values other than zero lie in each, both [bins], float64."""
        width = 2 * float(self.limit) / self.bins
        centers = (torch.arange(self.bins, dtype=torch.float64) + 0.5) * width - float(self.limit)
        counts = self.histogram.clone()
        middle = self.bins // 2
        counts[middle] = max(0.0, float(counts[middle] - self.zeros))  # 0 falls into the bin that it begins
        used = counts > 0
        return centers[used].clamp(float(self.min_val), float(self.max_val)), counts[used]

    def _load_from_state_dict(self, *args: Any) -> None:
        self._chosen = None
        super()._load_from_state_dict(*args)

    @abstractmethod
    def _range(self) -> tuple[float, float]:
        """Lowest and highest number that the integers shall stand for."""

    def share_within(self, distance: float) -> float:
        """Share of the values other than zero that are nearer to zero than ``distance``."""
        centers, counts = self._content()
        return float(counts[centers.abs() < distance].sum() / counts.sum().clamp(min=1))

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        """Scale and zero point, each of shape [1]."""
        if not torch.isfinite(self.min_val) or not torch.isfinite(self.max_val) or float(self.limit) == 0:
            return self._calculate_qparams(self.min_val, self.max_val)
        if self._chosen is None:
            self._chosen = self._range()
        low, high = self._chosen
        return self._calculate_qparams(torch.tensor(low), torch.tensor(high))

    @property
    def _is_symmetric(self) -> bool:
        return self.qscheme == torch.per_tensor_symmetric

    @property
    def _steps(self) -> int:
        return int(self.quant_max) - int(self.quant_min)

    def _ends(self) -> tuple[float, float]:
        """The range of the values, made to hold zero; symmetric when the scheme is."""
        low, high = min(0.0, float(self.min_val)), max(0.0, float(self.max_val))
        return (-max(-low, high), max(-low, high)) if self._is_symmetric else (low, high)


class HistogramObserver(_StreamingHistogram):
    """The range that loses least, by the histogram.

    A value inside loses the square of a step / 12 on average, one outside the square of its distance. Each end is moved
    while the other stands still, twice.

    Attributes:
        keeps_ends: The range is the whole one (calibration/outputs.py says where). Set before the first tensor.
    """

    keeps_ends = False

    def _range(self) -> tuple[float, float]:
        low, high = self._ends()
        if self.keeps_ends:
            return low, high
        centers, counts = self._content()
        total = counts.sum()
        above, below = _Tail(centers, counts), _Tail(-centers.flip(0), counts.flip(0))
        shrinks = _SHRINKS.double()
        if self._is_symmetric:
            ends = high * shrinks
            loss = above.loss(ends) + below.loss(ends) + (2 * ends / self._steps).square() / 12 * total
            best = float(ends[int(loss.argmin())])
            return -best, best
        for _ in range(2):
            ends = high * shrinks
            loss = above.loss(ends) + ((ends - low) / self._steps).square() / 12 * total
            new_high = float(ends[int(loss.argmin())])
            ends = -low * shrinks
            loss = below.loss(ends) + ((new_high + ends) / self._steps).square() / 12 * total
            low, high = -float(ends[int(loss.argmin())]), new_high
        return low, high


class _Tail:
    """What values above an end lose when they become that end: sums of squares, from sums behind each bin."""

    def __init__(self, centers: torch.Tensor, counts: torch.Tensor) -> None:
        self._centers = centers
        behind = [(counts * centers**power).flip(0).cumsum(0).flip(0) for power in range(3)]
        self._sums = [torch.cat([sums, sums.new_zeros(1)]) for sums in behind]

    def loss(self, ends: torch.Tensor) -> torch.Tensor:
        """For each end, the sum of (value - end)^2 over the values above it."""
        first = torch.searchsorted(self._centers, ends, right=True)
        count, total, squares = (sums[first] for sums in self._sums)
        return (squares - 2 * ends * total + ends.square() * count).clamp(min=0)


class PercentileObserver(_StreamingHistogram):
    """Leaves ``100 - percentile`` percent of the values out at each end.

    Args:
        percentile: In (50, 100]; 100 is the minimum and maximum.
        options: As in torchao's observers.
    """

    def __init__(self, percentile: float = 99.99, **options: Any) -> None:
        super().__init__(**options)
        if not 50 < percentile <= 100:
            raise ValueError(f"percentile is {percentile}, must lie above 50 and be at most 100")
        self.percentile = percentile

    def _range(self) -> tuple[float, float]:
        low, high = self._ends()
        if self.percentile == 100:
            return low, high
        cumulative = torch.cumsum(self.histogram, 0) / self.histogram.sum()
        width = 2 * float(self.limit) / self.bins
        share = self.percentile / 100
        above = int(torch.searchsorted(cumulative, share)) + 1
        below = int(torch.searchsorted(cumulative, 1 - share))
        high = min(high, max(0.0, above * width - float(self.limit)))
        low = max(low, min(0.0, below * width - float(self.limit)))
        return (-max(-low, high), max(-low, high)) if self._is_symmetric else (low, high)


class MSEObserver(_StreamingHistogram):
    """The share of the full range with the least mean squared error of the values as they come back from integers."""

    def _range(self) -> tuple[float, float]:
        low, high = self._ends()
        centers, counts = self._content()
        lows, highs = low * _SHRINKS.double(), high * _SHRINKS.double()
        steps = ((highs - lows) / self._steps).unsqueeze(1)
        first = torch.round(lows.unsqueeze(1) / steps)
        rounded = torch.minimum(torch.maximum(torch.round(centers / steps), first), first + self._steps) * steps
        loss = ((rounded - centers).square() * counts).sum(1)
        best = float(_SHRINKS[int(loss.argmin())])
        return low * best, high * best
