"""The example backend's payload is hostile bytes: damaged ones are refused with a clear error, never a crash."""

import random

import pytest
import torch
from executorch_py.backends.example import ExamplePartitioner
from executorch_py.backends.example.conformance import Residual

import executorch_py as et
from executorch_py.errors import ExecutorchError, InvalidProgramError

INPUTS = (torch.randn(1, 4, 8, 8),)
IDENTIFIER = b"EXA1"


@pytest.fixture(scope="module")
def file():
    """A program with one delegate, and where its payload begins."""
    torch.manual_seed(0)
    exported = torch.export.export(Residual().eval(), INPUTS)
    data = et.to_edge_transform_and_lower(exported, partitioner=[ExamplePartitioner()]).to_executorch().buffer
    assert data.count(IDENTIFIER) == 1
    return data, data.index(IDENTIFIER) - 4


def _run(data):
    return et.Runtime.get().load_program(bytes(data)).load_method("forward").execute(INPUTS)


def test_wrong_identifier(file):
    data, start = file
    damaged = bytearray(data)
    damaged[start + 4] ^= 1
    with pytest.raises(InvalidProgramError, match="ExampleBackend"):
        _run(damaged)


def test_damaged_payloads_never_crash(file):
    data, start = file
    generator = random.Random(0)
    outcomes = {"refused": 0, "ran": 0}
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(generator.choice((1, 1, 2, 8))):
            # Mostly the tables behind the header, where ids, sizes and offsets stand; the weights come later.
            position = min(start + generator.randrange(generator.choice((64, 400, 4000))), len(data) - 1)
            damaged[position] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))
        try:
            _run(damaged)
            outcomes["ran"] += 1
        except ExecutorchError as error:
            assert str(error)
            outcomes["refused"] += 1
    assert outcomes["refused"] > 100 and outcomes["ran"] > 100, outcomes
