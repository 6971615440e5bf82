"""Operators between convolutions that keep a network in one part, with its layout changed at its ends only; beside
eager.

Lines are images of height 1: a 1-D network with pooling changes its layout no oftener than one of images. Pixels that
are repeated are joined with themselves, so that the neck of a detector is no border between parts.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from tests.xnnpack.payload import Graph, read_payloads


class Neck(nn.Module):
    """Features of two resolutions, joined at the higher one."""

    def __init__(self, times: tuple[int, int], by_size: bool) -> None:
        super().__init__()
        self.times, self.by_size = times, by_size
        self.fine = nn.Conv2d(3, 6, 3, padding=1)
        self.coarse = nn.Conv2d(6, 8, times, times)
        self.last = nn.Conv2d(14, 5, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = torch.relu(self.fine(x))
        coarse = torch.relu(self.coarse(fine))
        if self.by_size:
            coarse = F.interpolate(coarse, size=fine.shape[2:])
        else:
            coarse = F.interpolate(coarse, scale_factor=tuple(float(t) for t in self.times))
        return self.last(torch.cat([fine, coarse], 1))


class Mean(nn.Module):
    """A line read by convolutions, then one number a channel."""

    def __init__(self, keepdim: bool) -> None:
        super().__init__()
        self.keepdim = keepdim
        self.layers = nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.AvgPool1d(2), nn.Conv1d(8, 8, 3))
        self.head = nn.Linear(1 if keepdim else 8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean(-1, keepdim=self.keepdim))


class Scores(nn.Module):
    """A class for each pixel, or each step of a line."""

    def __init__(self, conv: nn.Module, dim: int) -> None:
        super().__init__()
        self.conv, self.dim = conv, dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.conv(x), self.dim)


def _line() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(3, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 3), nn.PReLU(8),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


class Case(NamedTuple):
    module: nn.Module
    sizes: tuple[int, ...]
    transposes: int  # of float32
    node: str = "Conv2d"  # one that stands in the payload


IMAGE = (2, 3, 8, 12)
CASES = {
    "neck": Case(Neck((2, 2), False), IMAGE, 2, "Concatenate2"),
    "neck_by_size": Case(Neck((2, 3), True), IMAGE, 2, "Concatenate3"),
    "neck_one_way": Case(Neck((1, 4), True), IMAGE, 2, "Concatenate4"),
    "line": Case(_line(), (2, 3, 24), 1, "GlobalAvgPooling2d"),
    "mean": Case(Mean(False), (2, 3, 24), 1, "GlobalAvgPooling2d"),
    "mean_kept": Case(Mean(True), (2, 3, 24), 1, "GlobalAvgPooling2d"),
    "scores": Case(Scores(nn.Conv2d(3, 5, 1), 1), IMAGE, 2, "Softmax"),
    "scores_of_lines": Case(Scores(nn.Conv1d(3, 5, 3), -2), (2, 3, 9), 2, "Softmax"),
}


def _lower(program: torch.export.ExportedProgram, **options: bool) -> tuple[bytes, list[Graph]]:
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(**{"largest": True, **options})])
    file = edge.to_executorch().buffer
    return file, read_payloads(file)


def _run(file: bytes, x: torch.Tensor) -> torch.Tensor:
    return et.Runtime.get().load_program(file).load_method("forward").execute((x,))[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("preset", [None, "static_int8"])
@pytest.mark.parametrize("name", CASES)
def test_one_part(name: str, preset: str | None) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    module, x = case.module.eval(), torch.randn(case.sizes)
    program = torch.export.export(module, (x,))
    if preset is not None:
        program = quantizer.quantize(program, config_or_quantizer=preset, calibration_data=[(x,)])
    file, (payload,) = _lower(program)
    assert case.node in payload.nodes
    assert payload.count("StaticTranspose") == case.transposes
    with torch.no_grad():
        expected = program.module()(x)
    assert (_run(file, x) - expected).abs().max() <= (1e-5 if preset is None else 0.02) * expected.abs().max()


@pytest.mark.parametrize("name", ["neck", "line", "scores"])
def test_batches_of_any_size(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    module, x = case.module.eval(), torch.randn(case.sizes)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: Dim("batch", max=5)},))
    file, _ = _lower(program)
    method = et.Runtime.get().load_program(file).load_method("forward")
    for batch in (2, 5, 1, 3):
        images = torch.randn(batch, *case.sizes[1:])
        with torch.no_grad():
            torch.testing.assert_close(method.execute((images,))[0], module(images), rtol=1e-5, atol=1e-5)


def test_slopes_of_lines_of_any_number_and_length() -> None:
    """Both sizes are open, which no reshape can say: channels are turned innermost without one."""
    torch.manual_seed(0)
    module = nn.PReLU(3).eval()
    nn.init.uniform_(module.weight)
    shapes = ({0: Dim("batch", max=4), 2: Dim("length", max=9)},)
    file, (payload,) = _lower(torch.export.export(module, (torch.randn(2, 3, 5),), dynamic_shapes=shapes), always=True)
    assert payload.nodes == ("StaticTranspose", "PReLU", "StaticTranspose")
    for sizes in ((4, 3, 9), (2, 3, 2), (3, 3, 7)):
        x = torch.randn(sizes)
        assert torch.equal(_run(file, x), module(x))


ACTIVATIONS = (nn.Hardswish(), nn.GELU(), nn.ELU(0.7), nn.LeakyReLU(0.1))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("function", ACTIVATIONS, ids=lambda function: type(function).__name__)
def test_activations_between_integers(function: nn.Module) -> None:
    """A table of 256 bytes, with no conversion at either side; the library's leaky ReLU is too coarse and stays with
    floats.
    """
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Conv2d(3, 8, 3), function, nn.Conv2d(8, 4, 1)).eval(), torch.randn(4, 3, 12, 12)
    program = quantizer.quantize(module, (x,), "static_int8", [(x,)])
    file, (payload,) = _lower(program)
    assert payload.count("Convert") == (4 if isinstance(function, nn.LeakyReLU) else 2)
    kernels = et.to_edge_transform_and_lower(program, partitioner=[]).to_executorch().buffer
    assert torch.equal(_run(file, x), _run(kernels, x))
