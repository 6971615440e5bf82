"""The XNNPACK delegate's payload is hostile bytes: damaged ones are refused with a clear error, never a crash."""

import random

import pytest
import torch
from executorch_py.backends.conformance import InvertedResidual
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.backends.xnnpack.conformance import Call, Classifier, Heads
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py.errors import ExecutorchError, InvalidProgramError

ROUNDS = 400


def _many(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    resized = F.interpolate(x, scale_factor=2, mode="bilinear")
    return torch.cat([x, x * 2], 1), x[:, 1:3], F.pad(x, (1, 1)), resized, F.elu(x), x.reshape(1, -1)


MODELS = {
    "block": (InvertedResidual, (torch.randn(1, 8, 6, 6),)),
    "classifier": (Classifier, (torch.randn(1, 3, 16, 16),)),
    "heads": (Heads, (torch.randn(2, 5, 16),)),
    "many": (lambda: Call(_many), (torch.randn(1, 4, 6, 6),)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (torch.randn(1, 4, 5, 5),)),
}


@pytest.fixture(scope="module", params=MODELS)
def file(request):
    """A program with one delegate, where its graph begins and how long it is, and inputs."""
    torch.manual_seed(0)
    make, inputs = MODELS[request.param]
    exported = torch.export.export(make().eval(), inputs)
    data = (
        et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )
    header = data.index(b"XH00") - 4
    size = int.from_bytes(data[header + 14 : header + 18], "little")
    return data, header, 32 + size, inputs


def _run(data, inputs):
    return et.Runtime.get().load_program(bytes(data)).load_method("forward").execute(inputs)


def test_wrong_identifiers(file):
    data, header, _, inputs = file
    for offset in (4, 32 + 4):
        damaged = bytearray(data)
        damaged[header + offset] ^= 1
        with pytest.raises(ExecutorchError, match="XnnpackBackend"):
            _run(damaged, inputs)


def test_truncated_header(file):
    data, header, _, inputs = file
    damaged = bytearray(data)
    damaged[header + 14 : header + 18] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(InvalidProgramError, match="XnnpackBackend"):
        _run(damaged, inputs)


def test_damaged_payloads_never_crash(file):
    data, header, size, inputs = file
    generator = random.Random(0)
    outcomes = {"refused": 0, "ran": 0}
    for _ in range(ROUNDS):
        damaged = bytearray(data)
        for _ in range(generator.choice((1, 1, 1, 2, 8))):
            damaged[header + generator.randrange(size)] = generator.choice(
                (0, 1, 2, 3, 4, 7, 16, 0x7F, 0x80, 0xFF, generator.randrange(256))
            )
        try:
            _run(damaged, inputs)
            outcomes["ran"] += 1
        except ExecutorchError as error:
            assert str(error)
            outcomes["refused"] += 1
    assert outcomes["refused"] > ROUNDS // 10 and outcomes["ran"] > ROUNDS // 10, outcomes
