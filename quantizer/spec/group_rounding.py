"""Integers for weights whose columns share a scale in groups: which scale and zero point, and which integer for each
weight.

Two ways, from what is known:

    fit                 of the weights alone: the scale (and zero point) with the least squared error in each group
    round_by_output     with samples of the layer's input: what the layer's *output* loses is made small. Columns are
                        rounded one after the other, and those that are still to come take over what the rounding did to
                        the output. Then every scale and every integer is looked at again, beside all others as they
                        have become.

Scales are rounded to bfloat16, which files and kernels store those of groups in, before integers are chosen.

Sources of round_by_output: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (2022), and for the formula behind it Hassibi and Stork, "Second order derivatives for network pruning"
(1992). The second look is a descent coordinate by coordinate: Behdin et al., "QuantEase: Optimization-based
Quantization for Language Models" (2023).
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from . import smallest_scales

#: Shares of the full range that are tried.
_SHRINKS = tuple(1.0 - 0.04 * i for i in range(15))
#: Added to the diagonal of the moments, as a share of its mean: inputs that are never seen apart cannot be solved for.
#: At least the first, else the second times columns / rows. Of few rows the moments are noise as much as they are
#: moments, by about columns / rows, and what is made up for on these samples is lost on others. Ledoit and Wolf, "A
#: well-conditioned estimator for large-dimensional covariance matrices", 2004, shrink by such a ratio. Sentence
#: encoder, cosine of unseen sentences: with 16 sentences 0.984 -> 0.988, with 64 0.989 -> 0.990, with 200 0.991 ->
#: 0.992; the same within 0.0007 from 0.1 to 0.4.
_DAMPING = 0.01
_DAMPING_BY_ROWS = 0.2
#: Times that scales and integers are looked at again. Sentence encoder, 64 sentences: the squared error of the layers'
#: outputs is 1, 0.90, 0.89 and 0.88 after 0, 2, 4 and 10 rounds.
_ROUNDS = 4
#: Numbers of a group of columns from which an operator on them is worth several threads. Below, threads wait for each
#: other: a weight of 1536 x 384 took 0.26 s of one core, and 6 s of two on a busy machine.
_WORTH_THREADS = 1 << 18


@dataclass(frozen=True)
class Grid:
    """What integers there are.

    Attributes:
        low: Smallest integer.
        high: Largest integer.
        symmetric: Zero points are 0, as kernels of products between integers want it.
        search: Look for the parameters with the least squared error instead of taking the whole range.
        eps: No scale is smaller than that of a range of this size.
    """

    low: int
    high: int
    symmetric: bool = True
    search: bool = True
    eps: float = smallest_scales.MEASURED

    def rounded(self, rows: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
        """The integers nearest to ``rows``, [n, columns] as float32; scale and zero point are [n]."""
        return self.nearest(rows, scale[:, None], zero_point[:, None])

    def nearest(self, weights: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
        """The integers nearest to weights of any shape that the parameters broadcast to."""
        return torch.round(weights / scale).add_(zero_point).clamp_(self.low, self.high)


def fit(rows: torch.Tensor, grid: Grid, importance: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Parameters for each row.

    Args:
        rows: Groups of weights, float32 [n, columns].
        grid: The integers.
        importance: What the square of an error counts, [columns]; 1 by default.

    Returns:
        Scales and zero points, float32 [n]; zero points hold integers.
    """
    low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
    if grid.symmetric:
        high = torch.maximum(high, -low).clamp(min=grid.eps)
        low = -high
    high = torch.maximum(high, low + grid.eps)
    best = _parameters(low, high, grid)
    if not grid.search:
        return best
    least = _loss(rows, *best, grid, importance)
    for shrink in _SHRINKS[1:]:
        best, least = _better(rows, _parameters(low * shrink, high * shrink, grid), best, least, grid, importance)
    for move in (0, -1, 1) if not grid.symmetric else (0,):
        scale, zero_point = best[0], (best[1] + move).clamp(grid.low, grid.high)
        found = (_least_squares(rows, scale, zero_point, grid, importance), zero_point)
        best, least = _better(rows, found, best, least, grid, importance)
    return best


def round_by_output(
    weight: torch.Tensor, moments: torch.Tensor, group_size: int, grid: Grid, num_rows: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Integers that keep ``weight @ x``.

    Args:
        weight: float32 [rows, columns]; groups divide the columns.
        moments: Sum of ``x x^T`` over samples, [columns, columns], or [blocks, columns / blocks, columns / blocks] of
            the blocks on its diagonal: then columns make up for those of their own block only.
        group_size: Columns that share parameters.
        grid: The integers.
        num_rows: How many ``x`` the moments are sums of.

    Returns:
        Integers [rows, columns], scales and zero points [rows, columns / group_size], all float32.
    """
    if moments.dim() == 2:
        moments = moments.unsqueeze(0)
    parts = weight.split(moments.shape[-1], 1)
    found = [_round_block(part, block, group_size, grid, num_rows) for part, block in zip(parts, moments, strict=True)]
    integers, scales, zero_points = (torch.cat(columns, 1) for columns in zip(*found, strict=True))
    return integers, scales, zero_points


def _round_block(
    weight: torch.Tensor, moments: torch.Tensor, group_size: int, grid: Grid, num_rows: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    damped = _damped(moments, num_rows)
    pull = _pull(damped)
    with _threads_for(len(weight) * group_size):
        found = _round_columns(weight, pull, group_size, grid)
        _look_again(weight, damped.float(), found, grid)
    return found


@contextlib.contextmanager
def _threads_for(numbers: int) -> Iterator[None]:
    """One thread for operators on few numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if numbers < _WORTH_THREADS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _round_columns(
    weight: torch.Tensor, pull: torch.Tensor, group_size: int, grid: Grid
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    left = weight.clone()  # what is still to be rounded, with what it makes up for
    integers = torch.empty_like(left)
    scales, zero_points = [], []
    for first in range(0, left.shape[1], group_size):
        last = first + group_size
        own = pull[first:last, first:last]
        group = left[:, first:last]
        scale, zero_point = fit(group, grid, own.diagonal().square().reciprocal())
        errors = torch.empty_like(group)
        columns = group.T.contiguous()  # a column in a line of memory: one in 1536 floats is a cache miss a number
        for i in range(group_size):
            chosen = grid.nearest(columns[i], scale, zero_point)
            error = (columns[i] - (chosen - zero_point) * scale) / own[i, i]
            integers[:, first + i], errors[:, i] = chosen, error
            columns[i + 1 :] -= torch.outer(own[i, i + 1 :], error)
        left[:, last:] -= errors @ pull[first:last, last:]
        scales.append(scale)
        zero_points.append(zero_point)
    return integers, torch.stack(scales, 1), torch.stack(zero_points, 1)


def _look_again(
    weight: torch.Tensor, moments: torch.Tensor, found: tuple[torch.Tensor, torch.Tensor, torch.Tensor], grid: Grid
) -> None:
    """Makes ``trace(E moments E^T)`` of the error ``E`` smaller, in place: never larger, but for the rounding of the
    sums.
    """
    integers, scales, zero_points = found
    group_size = integers.shape[1] // scales.shape[1]
    offsets = zero_points.repeat_interleave(group_size, 1)
    all_steps = integers - offsets
    pushed = (
        all_steps * scales.repeat_interleave(group_size, 1) - weight
    ) @ moments  # half of the slope, for each weight
    for _ in range(_ROUNDS):
        for group in range(scales.shape[1]):
            columns = slice(group * group_size, (group + 1) * group_size)
            own, slope, zero_point = moments[columns, columns], pushed[:, columns].clone(), zero_points[:, group]
            steps = all_steps[:, columns]  # changed in place
            before = steps * scales[:, group : group + 1]
            scale = _better_scale(steps, scales[:, group], own, slope)
            slope += (scale - scales[:, group])[:, None] * (steps @ own)
            scales[:, group] = scale
            slopes, chosen = slope.T.contiguous(), steps.T.contiguous()  # as in _round_columns
            for i in range(group_size):
                column = chosen[i] * scale - slopes[i] / own[i, i]
                rounded = grid.nearest(column, scale, zero_point) - zero_point
                slopes[i + 1 :] += torch.outer(own[i, i + 1 :], (rounded - chosen[i]) * scale)
                chosen[i] = rounded
            steps.copy_(chosen.T)
            pushed += (steps * scale[:, None] - before) @ moments[columns]
    integers.copy_(all_steps + offsets)


def _better_scale(steps: torch.Tensor, scale: torch.Tensor, moments: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """The scales of a group that suit its integers best; the old one where rounding to bfloat16 takes the gain away."""
    curvature, along = ((steps @ moments) * steps).sum(1), (slope * steps).sum(1)
    found = _stored(scale - along / curvature.clamp(min=1e-30))
    change = found - scale
    is_better = (found > 0) & (2 * along * change + curvature * change.square() < 0)
    return torch.where(is_better, found, scale)


def _damped(moments: torch.Tensor, num_rows: int) -> torch.Tensor:
    """Moments that can be solved for, in double, as shares of the mean on their diagonal."""
    moments = moments.double()
    unit = torch.eye(len(moments), dtype=torch.float64)
    mean = moments.diagonal().mean()
    if not mean > 0:  # the layer saw zeros only: any rounding will do
        return unit
    return moments / mean + max(_DAMPING, _DAMPING_BY_ROWS * len(moments) / max(num_rows, 1)) * unit


def _pull(damped: torch.Tensor) -> torch.Tensor:
    """How an error in one column moves those behind it: the upper Cholesky factor of the inverse moments, float32."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    return torch.linalg.cholesky(inverse, upper=True).float()


def _parameters(low: torch.Tensor, high: torch.Tensor, grid: Grid) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and zero point of a range."""
    scale = _stored((high - low) / (grid.high - grid.low))
    if grid.symmetric:
        return scale, torch.zeros_like(scale)
    return scale, (grid.low - torch.round(low / scale)).clamp(grid.low, grid.high)


def _stored(scale: torch.Tensor) -> torch.Tensor:
    """As files hold it."""
    return scale.bfloat16().float()


def _least_squares(
    rows: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, grid: Grid, importance: torch.Tensor | None
) -> torch.Tensor:
    """The best scale for the integers that a scale gives; that scale where they are all zero."""
    steps = grid.rounded(rows, scale, zero_point) - zero_point[:, None]
    counted = steps if importance is None else steps * importance
    squares = (counted * steps).sum(1)
    found = (counted * rows).sum(1) / squares.clamp(min=1e-30)
    return torch.where((squares > 0) & (found > 0), _stored(found), scale)


def _loss(
    rows: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, grid: Grid, importance: torch.Tensor | None
) -> torch.Tensor:
    back = grid.rounded(rows, scale, zero_point).sub_(zero_point[:, None]).mul_(scale[:, None])
    squares = back.sub_(rows).square_()
    return squares.sum(1) if importance is None else squares @ importance


def _better(
    rows: torch.Tensor,
    tried: tuple[torch.Tensor, torch.Tensor],
    best: tuple[torch.Tensor, torch.Tensor],
    least: torch.Tensor,
    grid: Grid,
    importance: torch.Tensor | None,
) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Of two choices the better one, row by row, and its loss."""
    loss = _loss(rows, *tried, grid, importance)
    wins = loss < least
    scale, zero_point = (torch.where(wins, new, old) for new, old in zip(tried, best, strict=True))
    return (scale, zero_point), torch.where(wins, loss, least)
