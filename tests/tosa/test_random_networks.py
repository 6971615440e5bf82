"""Random networks through the TOSA backend: every part is written, and the numbers are those of the plain program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner, reference

import executorch_py as et
from executorch_py import quantizer
from executorch_py.codegen.pte_delegates import delegates_of
from tests.tosa.alone import as_program, inputs_of
from tests.tosa.random_networks import RandomNetwork
from tests.tosa.tools import tosa_python

FIRST = int(os.environ.get("ET_SEED", "1")) * 1000
# `make tosa` runs more.
COUNT = int(os.environ.get("ET_TOSA_CASES", "4"))

# The gates of a recurrent step are floats, and stay outside. As one operator they would round less often than as parts.
PLAIN = et.ExecutorchBackendConfig(disabled_passes=["fuse-lstm-gates", "fuse-gru-gates", "fuse-recurrent-steps"])


def _run_bytes(file: bytes, inputs: Sequence[Any]) -> Any:
    return et.Runtime.get().load_program(file).load_method("forward").execute(tuple(inputs))


def _run(program: Any, inputs: tuple[torch.Tensor, ...]) -> Any:
    return _run_bytes(program.buffer, inputs)


def _exported(network: RandomNetwork, config: Any) -> torch.export.ExportedProgram:
    data = [tuple(torch.randn_like(x) for x in network.inputs) for _ in range(2)]
    shapes = ({0: torch.export.Dim.AUTO},) if network.dynamic else None
    return quantizer.quantize(network, network.inputs, config, data, dynamic_shapes=shapes)


def _check(seed: int) -> None:
    network = RandomNetwork(seed)
    exported = _exported(network, "static_int8")
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


_CONFIGURATIONS = (
    ("TOSA-1.0+INT", lambda: quantizer.get_symmetric_quantization_config(is_per_channel=True)),
    ("TOSA-1.0+INT+int16", quantizer.get_symmetric_a16w8_quantization_config),
    ("TOSA-1.0+INT+int4", quantizer.get_symmetric_a8w4_quantization_config),
)


@pytest.mark.tosa
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_the_reference_model_gives_the_same_integers(seed: int) -> None:
    """Each part, over all integers of its inputs' types."""
    network = RandomNetwork(seed)
    spec, configuration = _CONFIGURATIONS[seed % len(_CONFIGURATIONS)]
    exported = _exported(network, quantizer.TOSAQuantizer(spec).set_global(configuration()))
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner(spec)])
    rng = np.random.default_rng(seed)
    for part in delegates_of(bytes(edge.to_executorch(PLAIN).buffer)):
        inputs = [
            rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
            for dtype, shape in inputs_of(part.payload)
        ]
        wanted = reference.run(part.payload, inputs, tosa_python())
        file = as_program(part.payload, inputs, wanted)
        for got, want in zip(_run_bytes(file, inputs), wanted, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=f"{spec}, {network.text}")
