"""Products of floats with integer weights in files for the official runtime: both runtimes compute what eager does.

Weights with a scale for each output channel go to the delegate, others and convolutions to portable operators. Both
libraries scale the bias along with the sums of integers, so the file has it divided by the scales; a release that does
not would show here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.exir import ExecutorchBackendConfig
from tests.xnnpack.payload import read_payloads

from .compare import assert_close

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::UserWarning")]

CONFIGURATIONS = {
    "int8": quantizer.quantization_config(None, "int8"),
    "int4": quantizer.quantization_config(None, "int4"),
    "int4_groups": quantizer.quantization_config(None, "int4", group_size=32),
}


def _layers(bias: bool) -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96, bias=bias), nn.ReLU(), nn.Linear(96, 33, bias=bias))


def _image(bias: bool) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, bias=bias), nn.ReLU(), nn.Flatten(2), nn.Linear(16, 12, bias=bias))


CASES: dict[str, tuple[str, nn.Module, torch.Tensor, int]] = {
    f"{bits}-{'bias' if bias else 'plain'}-{rows}": (bits, _layers(bias), torch.randn(rows, 64), delegated)
    for bits, delegated in (("int8", 2), ("int4", 2), ("int4_groups", 0))
    for bias in (True, False)
    for rows in (1, 3, 16)
}
CASES["int8-image"] = ("int8", _image(True), torch.randn(2, 3, 6, 6), 1)
CASES["int8-vector"] = ("int8", _layers(True), torch.randn(64), 2)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, peer: Callable[[str, Path], None]) -> Path:
    """A folder with our files, what eager makes of them and what the official runtime does."""
    folder = tmp_path_factory.mktemp("weight_only")
    for name, (bits, module, x, _) in CASES.items():
        program = quantizer.quantize(module.eval(), (x,), CONFIGURATIONS[bits])
        edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)])
        edge.to_executorch(ExecutorchBackendConfig(compatible=True)).save(folder / f"{name}.pte")
        with torch.no_grad():
            torch.save([program.module()(x)], folder / f"{name}.eager.pt")
        torch.save([[x]], folder / f"{name}.inputs.pt")
    peer("run", folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_both_runtimes(name: str, ran: Path) -> None:
    error = ran / f"{name}.error"
    assert not error.exists(), error.read_text()
    file = (ran / f"{name}.pte").read_bytes()
    assert sum(graph.count("FullyConnected") for graph in read_payloads(file)) == CASES[name][3]
    eager = torch.load(ran / f"{name}.eager.pt")
    ours = et.Runtime.get().load_program(file).load_method("forward").execute((CASES[name][2],))
    assert_close(ours, eager)
    assert_close(torch.load(ran / f"{name}.outputs.pt")[0], eager)
