"""The XNNPACK delegate both ways: our delegated files in the official runtime, the official exporter's in ours.

float32: the zoo and the small models, within 1e-4 of the largest value of eager's outputs. int8: modules that the
official quantizer quantized, lowered by both sides. Integers may fall to the other side of a rounding, so one step of
the output's scale is allowed, and the two files must agree with one another.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py.exir import ExecutorchBackendConfig
from tests.models.zoo import ZOO

from . import small_models
from .compare import flat

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

NAMES = [*ZOO, *small_models.cases()]
TOLERANCE = 1e-4

# What the official exporter cannot delegate in this version of it, and why.
PEER_CANNOT_LOWER: dict[str, str] = {}


def _make(name: str) -> tuple[nn.Module, tuple[object, ...]]:
    if name in ZOO:
        method = next(iter(ZOO[name]().values()))
        return method.module, method.inputs
    return small_models.cases()[name]


def quantizable() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(5)
    convolutions = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, groups=8), nn.ReLU6(),
        nn.MaxPool2d(2), nn.Conv2d(16, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    image = (torch.randn(2, 3, 12, 14),)
    rows = (torch.randn(6, 32),)
    made = {}
    for mode in ("static", "channel"):
        made[f"convolutions-{mode}"] = (convolutions.eval(), image)
        made[f"layers-{mode}"] = (layers.eval(), rows)
        made[f"residual-{mode}"] = (Residual().eval(), (torch.randn(1, 8, 9, 9),))
    made["layers-dynamic"] = (layers.eval(), rows)
    return made


class Residual(nn.Module):
    """Integers through an addition with a clamp."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x) + x)


QUANTIZED = list(quantizable())


def _lower(exported: torch.export.ExportedProgram) -> et.ExecutorchProgramManager:
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)])
    return edge.to_executorch(ExecutorchBackendConfig(compatible=True))


@pytest.fixture(scope="module")
def exchanged(
    tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None], chosen: Callable[[str], set[str]]
) -> tuple[Path, Path]:
    """Two folders: files of the official exporter; ours with the official runtime's outputs."""
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    by_them = chosen("test_their_file_runs_in_our_runtime")
    for name in sorted(by_them | chosen("test_our_file_runs_in_their_runtime")):
        module, inputs = _make(name)
        with torch.no_grad():
            exported = torch.export.export(module, inputs)
        if name in by_them:
            torch.export.save(exported, theirs / f"{name}.pt2")
        torch.save([flat(inputs)], ours / f"{name}.inputs.pt")
        _lower(exported).save(ours / f"{name}.pte")
    peer("delegate", theirs)
    peer("run", ours)
    return theirs, ours


@pytest.fixture(scope="module")
def quantized(
    tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None], chosen: Callable[[str], set[str]]
) -> tuple[Path, Path]:
    """As `exchanged`, of modules that the official quantizer quantized."""
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    names = chosen("test_quantized_files_go_both_ways")
    for name, (module, inputs) in quantizable().items():
        if name not in names:
            continue
        torch.export.save(torch.export.export(module, inputs), theirs / f"{name}.float")
        for folder in (theirs, ours):
            torch.save([list(inputs)], folder / f"{name}.inputs.pt")
    peer("quantize", theirs)
    for name in sorted(names):
        _lower(torch.export.load(theirs / f"{name}.pt2")).save(ours / f"{name}.pte")
    peer("delegate", theirs)
    peer("run", ours)
    return theirs, ours


def _eager(name: str) -> list[torch.Tensor]:
    module, inputs = _make(name)
    with torch.no_grad():
        return flat(module(*inputs))


def _assert_close(actual: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float) -> None:
    assert len(actual) == len(expected)
    for ours, eager in zip(actual, expected, strict=True):
        assert ours.shape == eager.shape and ours.dtype == eager.dtype
        if eager.is_floating_point() and eager.numel():
            assert (ours - eager).abs().max() <= tolerance * eager.abs().max()
        else:
            assert torch.equal(ours, eager)


def _runs(path: Path, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return et.Runtime.get().load_program(path).load_method("forward").execute(inputs)


@pytest.mark.parametrize("name", NAMES)
def test_their_file_runs_in_our_runtime(name: str, exchanged: tuple[Path, Path]) -> None:
    error = exchanged[0] / f"{name}.error"
    if name in PEER_CANNOT_LOWER:
        assert error.exists(), f"the official exporter delegates {name} now: take it off the list"
        pytest.skip(PEER_CANNOT_LOWER[name])
    assert not error.exists(), error.read_text()
    outputs = _runs(exchanged[0] / f"{name}.pte", flat(_make(name)[1]))
    _assert_close(outputs, _eager(name), TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_our_file_runs_in_their_runtime(name: str, exchanged: tuple[Path, Path]) -> None:
    error = exchanged[1] / f"{name}.error"
    assert not error.exists(), error.read_text()
    _assert_close(torch.load(exchanged[1] / f"{name}.outputs.pt")[0], _eager(name), TOLERANCE)


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_files_go_both_ways(name: str, quantized: tuple[Path, Path]) -> None:
    theirs, ours = quantized
    for folder in quantized:
        error = folder / f"{name}.error"
        assert not error.exists(), error.read_text()
    inputs = torch.load(ours / f"{name}.inputs.pt")[0]
    eager = torch.load(theirs / f"{name}.eager.pt")
    results = {
        "their file, our runtime": _runs(theirs / f"{name}.pte", inputs),
        "our file, their runtime": torch.load(ours / f"{name}.outputs.pt")[0],
        "our file, our runtime": _runs(ours / f"{name}.pte", inputs),
    }
    for what, outputs in results.items():
        for output, expected in zip(outputs, eager, strict=True):
            assert (output - expected).abs().max() <= 0.02 * expected.abs().max(), what
    _assert_close(results["our file, our runtime"], results["our file, their runtime"], 1e-5)
