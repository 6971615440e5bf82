"""Networks of 3x3 convolutions, which run by Winograd's filtering, against eager in float64: errors as documented in
docs/design/kernels.md, dynamic sizes, methods that share weights."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn

import executorch_py as et

# Largest |ours - exact| / largest |exact|. Direct convolution has about 5e-7 on the same networks.
LIMIT = 5e-6


def network(channels: list[int], padding: int = 1) -> nn.Module:
    torch.manual_seed(sum(channels))
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, padding=padding), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


def relative_error(actual: torch.Tensor, model: nn.Module, x: torch.Tensor) -> float:
    with torch.inference_mode():
        exact = copy.deepcopy(model).double()(x.double())
    assert actual.shape == exact.shape
    return float((actual.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize(
    ("channels", "size", "batch", "padding"),
    [
        ([16, 16, 16, 16], (33, 47), 1, 1),
        ([32, 48, 24, 5], (20, 21), 3, 0),
        ([64, 64, 64], (15, 14), 2, 2),
        ([128, 128, 128], (28, 28), 1, 1),
        ([256, 256, 256], (14, 14), 1, 1),
        ([40, 512, 512], (7, 9), 1, 1),
    ],
    ids=str,
)
def test_errors_against_float64(
    channels: list[int], size: tuple[int, int], batch: int, padding: int, threads: int
) -> None:
    model = network(channels, padding)
    x = torch.randn(batch, channels[0], *size)
    data = et.to_edge(torch.export.export(model, (x,))).to_executorch().buffer
    before = et.Runtime.get().num_threads
    et.set_num_threads(threads)
    try:
        method = et.Runtime.get().load_program(data).load_method("forward")
        for scale in (1.0, 1e-20, 1e20):
            (actual,) = method.execute((x * scale,))
            assert relative_error(actual, model, x * scale) <= LIMIT
    finally:
        et.set_num_threads(before)


def test_dynamic_sizes_between_calls() -> None:
    model = network([24, 32, 32, 16])
    batch, height, width = (torch.export.Dim(name, min=1, max=most) for name, most in (("b", 4), ("h", 50), ("w", 60)))
    exported = torch.export.export(
        model, (torch.randn(2, 24, 20, 30),), dynamic_shapes=({0: batch, 2: height, 3: width},)
    )
    method = et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer).load_method("forward")
    for shape in ((1, 50, 60), (4, 1, 1), (2, 3, 59), (1, 17, 4), (4, 50, 60), (3, 2, 2)):
        x = torch.randn(shape[0], 24, *shape[1:])
        (actual,) = method.execute((x,))
        assert relative_error(actual, model, x) <= LIMIT, shape


def test_methods_share_weights() -> None:
    model = network([32, 32, 32])
    inputs = {"small": (torch.randn(1, 32, 14, 14),), "large": (torch.randn(1, 32, 56, 56),)}
    exported = {name: torch.export.export(model, x) for name, x in inputs.items()}
    program = et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer)
    methods = {name: program.load_method(name) for name in inputs}
    for name in ("small", "large", "small"):
        (actual,) = methods[name].execute(inputs[name])
        assert relative_error(actual, model, inputs[name][0]) <= LIMIT
