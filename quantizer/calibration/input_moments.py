"""What goes into layers whose weights are rounded by their output: sums of x x^T over the samples of a calibration.

>>> with recorded_moments(prepared):  # doctest: +SKIP
...     prepared(*sample)  # the observers of weights in groups have their moments afterwards

The sums have a fixed size, whatever the number of samples: for a layer with n inputs n x n floats, and at most n x
2048.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from executorch_py.quantizer.rules.matching import LINEAR
from executorch_py.quantizer.spec.weight_observers import GroupwiseObserver
from torch import fx, nn

from .observer_calls import is_weight, observers_of

#: Columns that are solved for together at most: wider layers have sums for blocks of columns.
_WIDEST = 2048


class _Moments(nn.Module):
    """Adds up x x^T of the rows that it is called with, [blocks, width, width]."""

    def __init__(self, columns: int, group_size: int) -> None:
        super().__init__()
        width = next(w for w in range(min(columns, _WIDEST), 0, -1) if columns % w == 0 and w % group_size == 0)
        self.sum = torch.zeros(columns // width, width, width)
        self.num_rows = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.detach().reshape(-1, self.sum.shape[0], self.sum.shape[1]).transpose(0, 1).float()
        self.sum += rows.transpose(1, 2) @ rows
        self.num_rows += rows.shape[1]
        return x


def wants_moments(prepared: fx.GraphModule) -> bool:
    """Whether a weight of a prepared module can be rounded by its layer's output."""
    return any(True for _ in _layers(prepared))


@contextmanager
def recorded_moments(prepared: fx.GraphModule) -> Iterator[None]:
    """While it lasts, samples that run through the module are added up; then the observers of weights get the sums."""
    recorders: dict[fx.Node, _Moments] = {}
    calls: list[fx.Node] = []
    readers: list[tuple[GroupwiseObserver, list[_Moments]]] = []
    for observer, layers in _layers(prepared):
        for layer in layers:
            x = layer.args[0]
            if x not in recorders:
                recorders[x] = _Moments(layer.args[1].args[0].meta["val"].shape[1], observer.group_size)
                name = f"_moments_{len(recorders)}"
                layer.graph.owning_module.add_submodule(name, recorders[x])
                with layer.graph.inserting_before(layer):
                    calls.append(layer.graph.call_module(name, (x,)))
        readers.append((observer, [recorders[layer.args[0]] for layer in layers]))
    prepared.recompile()
    try:
        yield
    finally:
        for call in calls:
            call.graph.owning_module.delete_submodule(str(call.target))
            call.graph.erase_node(call)
        prepared.recompile()
    for observer, found in readers:
        total = torch.stack([moments.sum for moments in found]).sum(0)
        if torch.isfinite(total).all() and total.any():
            observer.moments = total if observer.moments is None else observer.moments + total
            observer.num_rows += sum(moments.num_rows for moments in found)


def _layers(prepared: fx.GraphModule) -> Iterator[tuple[GroupwiseObserver, list[Any]]]:
    """Observers of weights in groups, each with the linear layers that read its weight, where nothing else does."""
    for node, observer in observers_of(prepared):
        if not isinstance(observer, GroupwiseObserver) or not is_weight(node):
            continue
        weight = node.args[0].meta.get("val")
        layers = list(node.users)
        if (
            isinstance(weight, torch.Tensor)
            and weight.dim() == 2
            and weight.shape[1] % observer.group_size == 0
            and layers
            and all(layer.target in LINEAR and layer.args[1] is node for layer in layers)
        ):
            yield observer, layers
