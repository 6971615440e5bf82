"""Random networks through the TOSA backend: every part is written, and the numbers are those of the plain program."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner

import executorch_py as et
from executorch_py import quantizer
from tests.tosa.random_networks import RandomNetwork

FIRST = int(os.environ.get("ET_SEED", "1")) * 1000
# `make tosa` runs more.
COUNT = int(os.environ.get("ET_TOSA_CASES", "4"))

# The gates of a recurrent step are floats, and stay outside. As one operator they would round less often than as parts.
PLAIN = et.ExecutorchBackendConfig(disabled_passes=["fuse-lstm-gates", "fuse-gru-gates", "fuse-recurrent-steps"])


def _run(program: Any, inputs: tuple[torch.Tensor, ...]) -> Any:
    return et.Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)


def _check(seed: int) -> None:
    network = RandomNetwork(seed)
    data = [tuple(torch.randn_like(x) for x in network.inputs) for _ in range(2)]
    shapes = ({0: torch.export.Dim.AUTO},) if network.dynamic else None
    exported = quantizer.quantize(network, network.inputs, "static_int8", data, dynamic_shapes=shapes)
    partitioner = TOSAPartitioner(accelerator=(None, "ethos-u55-128")[seed % 2])
    program = et.to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch(PLAIN)
    plain = et.to_edge_transform_and_lower(exported).to_executorch(PLAIN)
    assert all(partitioner.refusals.values()), network.text
    for given in (network.inputs, tuple(torch.randn_like(x) * 2 for x in network.inputs)):
        for got, wanted in zip(_run(program, given), _run(plain, given), strict=True):
            assert torch.equal(got, wanted), network.text


# Seeds 0 and 10: an average over a series, which is left, between moves of elements, which were taken.
@pytest.mark.parametrize("seed", [0, 10, *range(FIRST, FIRST + COUNT)])
def test_random_networks(seed: int) -> None:
    _check(seed)
