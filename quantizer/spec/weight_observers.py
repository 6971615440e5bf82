"""Observers of weights, which are there whole: nothing streams, the last tensor counts.

class                    chooses
PerChannelMinMax         torchao's, for each channel the range of all its values
PerChannelMSEObserver    for each channel the scale with the least squared error
GroupwiseObserver        for each group of a row's columns scale and zero point, and the integers: int4 weights
"""

from typing import Any

import torch
from torch import fx

from executorch_py.graphs.nodes import GROUP_SIZE

from . import smallest_scales
from .group_rounding import Grid, fit, round_by_output
from .pt2e import ObserverBase, PerChannelMinMaxObserver

#: Shares of the full range that are tried as ranges, largest first.
_SHRINKS = tuple(1.0 - 0.02 * i for i in range(36))


class PerChannelMinMax(PerChannelMinMaxObserver):
    """torchao's PerChannelMinMaxObserver in one thread for small weights: torch's ``aminmax`` of rows starts all for
    any.
    """

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Looks at ``x_orig`` (any shape, floating point) and returns it."""
        if x_orig.numel() == 0:
            return x_orig
        rows = x_orig.detach().transpose(0, self.ch_axis).to(self.min_val.dtype)
        rows = rows.reshape(rows.shape[0], -1)
        low, high = rows.amin(1), rows.amax(1)
        if self.min_val.numel():
            low, high = torch.minimum(low, self.min_val), torch.maximum(high, self.max_val)
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)
        return x_orig


class _WholeWeight(ObserverBase):
    """Base of these observers."""

    _SCHEMES: tuple[torch.qscheme, ...] = (torch.per_channel_symmetric,)

    def __init__(
        self,
        dtype: torch.dtype = torch.int8,
        qscheme: torch.qscheme = torch.per_channel_symmetric,
        quant_min: int = -127,
        quant_max: int = 127,
        ch_axis: int = 0,
        eps: float = smallest_scales.MEASURED,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        if is_dynamic or qscheme not in self._SCHEMES:
            raise ValueError(f"{type(self).__name__} is for constant weights, not for {qscheme}")
        self.qscheme, self.quant_min, self.quant_max, self.ch_axis, self.eps = (
            qscheme,
            quant_min,
            quant_max,
            ch_axis,
            eps,
        )
        self.weight: torch.Tensor | None = None

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Keeps the weight in sight; no copy."""
        self.weight = weight.detach()
        return weight

    def _rows(self) -> torch.Tensor:
        """The weight with a row for each scale, [channels, elements]."""
        if self.weight is None:
            raise RuntimeError("the observer has seen no weight")
        return self.weight.float().transpose(0, self.ch_axis).flatten(1)

    def _scales(self, rows: torch.Tensor, search: bool) -> torch.Tensor:
        """A scale for each row of [rows, elements]; ``search`` for the one with the least squared error."""
        largest = rows.abs().amax(1).clamp(min=self.eps)
        full = largest / ((self.quant_max - self.quant_min) / 2)
        if not search:
            return full
        best, least = full.clone(), torch.full_like(full, float("inf"))
        for shrink in _SHRINKS:
            scale = full * shrink
            step = scale.unsqueeze(1)
            back = torch.round(rows / step).clamp_(self.quant_min, self.quant_max).mul_(step)
            loss = back.sub_(rows).square_().sum(1)
            better = loss < least
            best, least = torch.where(better, scale, best), torch.where(better, loss, least)
        return best


class PerChannelMSEObserver(_WholeWeight):
    """For each channel of a weight the scale with the least squared error of its integers.

    Attributes:
        least_scales: Scales must not be smaller (biases.py sets them); [channels] or None.
    """

    least_scales: torch.Tensor | None = None

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        """Scales [channels] float32 and zero points [channels] int64, all zero."""
        scales = self._scales(self._rows(), search=True)
        if self.least_scales is not None:
            scales = torch.maximum(scales, self.least_scales)
        return scales, torch.zeros_like(scales, dtype=torch.int64)


class GroupwiseObserver(_WholeWeight):
    """Parameters for each ``group_size`` columns of a row: weights of linear layers and embeddings as int4.

    Scales are rounded to bfloat16, which files store those of groups in. With a symmetric scheme zero points are 0, as
    products between integers want it. With an affine one there are zero points, which lose less: for weights that are
    dequantized. A weight that is no matrix, or whose rows are no multiple of a group, gets one scale a channel.

    Args:
        group_size: Columns that share a scale.
        search: Look for the parameters with the least squared error instead of taking the whole range.
        options: ``dtype``, ``quant_min``, ``quant_max``, ``qscheme`` … as in torchao's observers.

    Attributes:
        moments: Of the layer's input, as ``round_by_output`` takes them (input_moments.py sets them); None without
            samples.
        num_rows: How many rows of inputs they are sums of.
    """

    _SCHEMES = (torch.per_channel_symmetric, torch.per_channel_affine)

    def __init__(self, group_size: int = 32, search: bool = True, **options: Any) -> None:
        # torchao hands an axis to observers with PerChannel in their name only; here it is always the first.
        super().__init__(**{"quant_min": -8, "quant_max": 7, **options, "ch_axis": 0})
        if group_size < 2:
            raise ValueError(f"group_size is {group_size}, must be at least 2")
        self.group_size, self.search = group_size, search
        self.moments: torch.Tensor | None = None
        self.num_rows = 0

    def is_grouped(self) -> bool:
        """Whether the weight can be divided into groups."""
        return self.weight is not None and self.weight.dim() == 2 and self.weight.shape[1] % self.group_size == 0

    def undivided_columns(self) -> int:
        """Columns of a matrix that share one scale although they are more than a group; 0 where they are none or
        fewer.
        """
        is_matrix = self.weight is not None and self.weight.dim() == 2 and not self.is_grouped()
        return self.weight.shape[1] if is_matrix and self.weight.shape[1] > self.group_size else 0

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        """Scales [channels, groups] or [channels], float32, and zero points of that shape, int64."""
        _, scales, zero_points = self._integers()
        return scales, zero_points

    def _integers(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Integers of the weight's shape, scales and zero points."""
        rows = self._rows()
        assert self.weight is not None
        symmetric = self.qscheme == torch.per_channel_symmetric
        grid = Grid(self.quant_min, self.quant_max, symmetric, self.search, self.eps)
        if not self.is_grouped():
            scales = self._scales(rows, self.search)
            zero_points = torch.zeros_like(scales)
            integers = grid.rounded(rows, scales, zero_points)
        elif self.moments is not None:
            integers, scales, zero_points = round_by_output(rows, self.moments, self.group_size, grid, self.num_rows)
        else:
            groups = rows.reshape(-1, self.group_size)
            scales, zero_points = fit(groups, grid)
            integers = grid.rounded(groups, scales, zero_points)
            scales, zero_points = (one.reshape(len(rows), -1) for one in (scales, zero_points))
        return integers.to(self.dtype).reshape(self.weight.shape).contiguous(), scales, zero_points.long()

    def convert(self, model: fx.GraphModule, observer_node: fx.Node) -> None:
        """Replaces the observer by the integers and their dequantize; torchao's convert calls it.

        torchao folds a constant's quantize per channel, but not one per group, so the integers are made here.
        """
        integers, scales, zero_points = self._integers()
        assert self.weight is not None
        graph = model.graph
        with graph.inserting_before(observer_node):
            nodes = [
                _attribute(model, graph, str(observer_node.target), part, value)
                for part, value in (("integers", integers), ("scales", scales), ("zero_points", zero_points))
            ]
            limits = (self.quant_min, self.quant_max, self.dtype)
            decomposed = torch.ops.quantized_decomposed
            if self.is_grouped():
                args = (*nodes, *limits, self.group_size, self.weight.dtype)
                new = graph.call_function(decomposed.dequantize_per_channel_group.default, args)
            else:
                new = graph.call_function(decomposed.dequantize_per_channel.default, (*nodes, 0, *limits))
        new.meta = {
            key: observer_node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in observer_node.meta
        }
        if self.undivided_columns():
            new.meta["custom"] = {GROUP_SIZE: self.group_size}
        observer_node.replace_all_uses_with(new)
        graph.erase_node(observer_node)


def _attribute(model: fx.GraphModule, graph: fx.Graph, owner: str, part: str, value: torch.Tensor) -> fx.Node:
    name = f"_{owner}_{part}".replace(".", "_")
    model.register_buffer(name, value)
    return graph.get_attr(name)
