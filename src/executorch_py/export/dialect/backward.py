"""Decompositions of backward operators that PyTorch's table lacks, for training methods.

Each computes what the operator of its name does, with operators that the runtime has; decompositions.py collects them.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten


def _at_maxima(grad: Tensor, self: Tensor, indices: Tensor, rank: int) -> Tensor:
    """Sums gradients at the places in the last ``rank`` dimensions that a pool took its maxima from."""
    flat = torch.zeros_like(self).flatten(-rank)
    return flat.scatter_add(-1, indices.flatten(-rank), grad.flatten(-rank)).reshape(self.shape)


def _adaptive_max_pool2d(grad: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    return _at_maxima(grad, self, indices, 2)


def _adaptive_max_pool3d(grad: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    return _at_maxima(grad, self, indices, 3)


def _max_pool3d(grad: Tensor, self: Tensor, *arguments: Any) -> Tensor:
    return _at_maxima(grad, self, arguments[-1], 3)


def _weight_norm(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Of ``v * (g / norm of v)``, with a norm for each index of ``dim``."""
    norms = norms.reshape(g.shape)
    others = [other for other in range(v.dim()) if other != dim % v.dim()]
    grad_g = (grad * v).sum(others, keepdim=True).reshape(g.shape) / norms
    return (grad - v * (grad_g / norms)) * (g / norms), grad_g


def _cdist(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Points that coincide pull in no direction."""
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    grad, distance = grad.unsqueeze(-1), cdist.unsqueeze(-1)
    if p == 0:
        return torch.zeros_like(x1)
    if p == 1:
        pulls = difference.sign()
    elif math.isinf(p):
        pulls = difference.sign() * (difference.abs() == distance)
    else:
        is_apart = (distance != 0) & (difference != 0)
        length = torch.where(is_apart, distance, 1)
        pulls = difference.sign() * torch.where(is_apart, difference.abs(), 1).pow(p - 1) / length.pow(p - 1) * is_apart
    return (grad * pulls).sum(-2).sum_to_size(x1.shape)


def _replication_pad(grad: Tensor, self: Tensor, padding: Sequence[int]) -> Tensor:
    for place, before in enumerate(padding[::2]):
        dim = self.dim() - 1 - place
        size = self.shape[dim]
        source = (torch.arange(grad.shape[dim]) - before).clamp(0, size - 1)
        shape = [size if other == dim else grad.shape[other] for other in range(grad.dim())]
        grad = grad.new_zeros(shape).index_add(dim, source, grad)
    return grad


def _place(at: Tensor, size: int, padding_mode: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Where a coordinate from -1 to 1 reads along a dimension, and the derivative of that."""
    span = size - 1 if align_corners else size
    place, slope = ((at + 1) * span - (0 if align_corners else 1)) / 2, torch.full_like(at, span / 2)
    if padding_mode == 2:
        low = 0.0 if align_corners else -0.5
        if span == 0:
            return torch.zeros_like(at), torch.zeros_like(at)
        distance = (place - low).abs()
        is_even = torch.floor(distance / span) % 2 == 0
        rest = torch.fmod(distance, span)
        slope = slope * torch.where(place < low, -1, 1) * torch.where(is_even, 1, -1)
        place = torch.where(is_even, rest, span - rest) + low
    if padding_mode:
        slope = slope * ((place > 0) & (place < size - 1))
        place = place.clamp(0, size - 1)
    return place, slope


def _grid_sampler(
    grad: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> Any:
    """Of linear and nearest sampling, in any number of dimensions."""
    if interpolation_mode == 2:
        return NotImplemented
    sizes, (batch, channels) = input.shape[2:], input.shape[:2]
    rank = len(sizes)
    # The grid names the last dimension first.
    along = [_place(grid[..., rank - 1 - dim], sizes[dim], padding_mode, align_corners) for dim in range(rank)]
    flat, values = grad.flatten(2), input.flatten(2)
    grad_input, grad_places = torch.zeros_like(values), [torch.zeros_like(grid[..., 0]) for _ in range(rank)]
    is_linear = interpolation_mode == 0
    for corner in itertools.product((0, 1), repeat=rank) if is_linear else [(0,) * rank]:
        places = [torch.floor(place) + step if is_linear else torch.round(place)
                  for (place, _), step in zip(along, corner, strict=True)]  # fmt: skip
        shares = [1 - (place - at).abs() if is_linear else torch.ones_like(at)
                  for (place, _), at in zip(along, places, strict=True)]  # fmt: skip
        inside, index = torch.ones_like(places[0], dtype=torch.bool), torch.zeros_like(places[0], dtype=torch.long)
        for at, size in zip(places, sizes, strict=True):
            inside = inside & (at >= 0) & (at < size)
            index = index * size + at.clamp(0, size - 1).long()
        index = index.reshape(batch, 1, -1).expand(batch, channels, -1)
        share = math.prod(shares[1:], start=shares[0]) * inside
        grad_input = grad_input.scatter_add(2, index, flat * share.reshape(batch, 1, -1))
        if is_linear and output_mask[1]:
            pull = (flat * values.gather(2, index)).sum(1).reshape(inside.shape) * inside
            for dim, step in enumerate(corner):
                others = math.prod(shares[:dim] + shares[dim + 1 :], start=pull)
                grad_places[dim] = grad_places[dim] + (others if step else -others)
    slopes = [grad_place * slope for grad_place, (_, slope) in zip(grad_places, along, strict=True)]
    return grad_input.reshape(input.shape), torch.stack(slopes[::-1], -1)


#: Operator -> function that computes the same.
BACKWARD_DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool2d,
    aten.adaptive_max_pool3d_backward.default: _adaptive_max_pool3d,
    aten.max_pool3d_with_indices_backward.default: _max_pool3d,
    aten._weight_norm_interface_backward.default: _weight_norm,
    aten._cdist_backward.default: _cdist,
    aten.replication_pad1d_backward.default: _replication_pad,
    aten.replication_pad2d_backward.default: _replication_pad,
    aten.replication_pad3d_backward.default: _replication_pad,
    aten.grid_sampler_2d_backward.default: _grid_sampler,
    aten.grid_sampler_3d_backward.default: _grid_sampler,
}
