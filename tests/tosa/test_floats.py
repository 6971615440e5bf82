"""The profile FP: what a float model becomes is what eager computes, and what Arm's reference model accepts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
from executorch_py.backends.conformance import InvertedResidual
from executorch_py.backends.tosa import TOSAPartitioner, reference
from executorch_py.backends.tosa.conformance import SUITE
from torch import nn

import executorch_py as et
from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import InvalidArgumentError, NotSupportedError
from tests.models import zoo
from tests.tosa.alone import inputs_of
from tests.tosa.random_networks import RandomNetwork
from tests.tosa.tools import tosa_python

FP = "TOSA-1.0+FP"
FIRST = int(os.environ.get("ET_SEED", "1")) * 1000
# `make tosa` runs more.
COUNT = int(os.environ.get("ET_TOSA_CASES", "4"))

Inputs = tuple[torch.Tensor, ...]


def _lowered(model: nn.Module, inputs: Inputs, spec: str = FP, shapes: Any = None) -> tuple[bytes, TOSAPartitioner]:
    partitioner = TOSAPartitioner(spec)
    exported = torch.export.export(model.eval(), inputs, dynamic_shapes=shapes)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[partitioner])
    return bytes(edge.to_executorch().buffer), partitioner


def _payload(model: nn.Module, inputs: Inputs, spec: str = FP) -> bytes:
    """The payload of the one part that a model becomes."""
    file, partitioner = _lowered(model, inputs, spec)
    (part,) = delegates_of(file)
    assert not partitioner.refusals
    return part.payload


def _run(file: bytes, inputs: Inputs) -> list[torch.Tensor]:
    return et.Runtime.get().load_program(file).load_method("forward").execute(inputs)


def _eager(model: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    with torch.no_grad():
        outputs = model(*inputs)
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """As the reference model takes them; NumPy has no bfloat16, so that its bits stand for it."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _in_order(payload: bytes, inputs: Inputs) -> list[np.ndarray]:
    """A part's inputs stand in the order in which it reads them first; here all differ in type or shape."""
    arrays = {(x.numpy().dtype, x.shape): x.numpy() for x in inputs}
    return [arrays[np.dtype(dtype), torch.Size(shape)] for dtype, shape in inputs_of(payload)]


def _close(got: np.ndarray, wanted: torch.Tensor, tolerance: float, text: str) -> None:
    expected = wanted.double().numpy()
    assert got.shape == expected.shape, text
    assert np.abs(got.astype(np.float64) - expected).max(initial=0) <= tolerance * max(
        np.abs(expected).max(initial=0), 1e-30
    ), text


# The interpreter computes all cases in tests/conformance; the reference model starts a process for each.
@pytest.mark.tosa
@pytest.mark.parametrize("case", SUITE.cases[:: 1 if COUNT > 4 else 9], ids=lambda case: case.name)
def test_the_reference_model_gives_eagers_numbers(case: Any) -> None:
    torch.manual_seed(0)
    model = case.make().eval()
    payload = _payload(model, case.inputs)
    outputs = reference.run(payload, _in_order(payload, case.inputs), tosa_python())
    for got, wanted in zip(outputs, _eager(model, case.inputs), strict=True):
        _close(got, wanted, 1e-5, case.name)


@pytest.mark.parametrize("name", ["ds_cnn", "autoencoder", "mobilenet_v3_small", "resnet18"])
def test_networks_are_one_part(name: str) -> None:
    """As eager computes them, up to the order of sums; at sizes that take seconds."""
    method = getattr(zoo, name)()["forward"]
    torch.manual_seed(0)
    inputs = tuple(torch.randn_like(x)[..., :64, :64] if x.dim() == 4 else torch.randn_like(x) for x in method.inputs)
    model = method.module.eval()
    file, partitioner = _lowered(model, inputs)
    assert not partitioner.refusals and len(delegates_of(file)) == 1
    for got, wanted in zip(_run(file, inputs), _eager(model, inputs), strict=True):
        _close(got.numpy(), wanted, 1e-4, name)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_networks(seed: int) -> None:
    network = RandomNetwork(seed)
    shapes = ({0: torch.export.Dim.AUTO},) if network.dynamic else None
    file, partitioner = _lowered(network, network.inputs, shapes=shapes)
    assert all(partitioner.refusals.values()), network.text
    for inputs in (network.inputs, tuple(torch.randn_like(x) for x in network.inputs)):
        for got, wanted in zip(_run(file, inputs), _eager(network, inputs), strict=True):
            _close(got.numpy(), wanted, 1e-4, network.text)


@pytest.mark.tosa
@pytest.mark.parametrize(
    ("dtype", "spec", "tolerance"), [(torch.float16, FP, 4e-3), (torch.bfloat16, FP + "+bf16", 4e-2)]
)
def test_floats_of_16_bits(dtype: torch.dtype, spec: str, tolerance: float) -> None:
    """The reference model runs them; the interpreter says so."""
    torch.manual_seed(0)
    cases: list[tuple[nn.Module, Inputs]] = [
        (InvertedResidual(), (torch.randn(1, 8, 8, 8),)),
        (nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 7), nn.GELU(), nn.Softmax(-1)), (torch.randn(2, 5, 12),)),
    ]
    for model, inputs in cases:
        model, inputs = model.to(dtype).eval(), tuple(x.to(dtype) for x in inputs)
        payload = _payload(model, inputs, spec)
        (got,) = reference.run(payload, [_numbers(x) for x in inputs], tosa_python())
        if dtype == torch.bfloat16:
            got = torch.from_numpy(got.view(np.uint16)).view(dtype).float().numpy()
        (wanted,) = _eager(model, inputs)
        _close(got, wanted.float(), tolerance, str(model))
        with pytest.raises(NotSupportedError, match=r"floats of 16 bits run in Arm's reference model"):
            _run(_lowered(model, inputs, spec)[0], inputs)


def test_bfloat16_is_an_extension() -> None:
    _, partitioner = _lowered(nn.ReLU(), (torch.randn(3).bfloat16(),))
    assert "TOSA-1.0+FP+bf16" in " ".join(partitioner.refusals.values())


def test_integers_stay_outside_of_floats() -> None:
    """A quantized model is for the profile INT; each conversion says so."""
    from tests.tosa.small_networks import quantized, small_networks

    model, inputs = small_networks()["conv_relu"]
    partitioner = TOSAPartitioner(FP)
    et.to_edge_transform_and_lower(quantized(model, inputs), partitioner=[partitioner])
    assert "TOSA-1.0+INT takes what is between" in " ".join(partitioner.refusals.values())


def test_no_ethos_u_has_floats() -> None:
    with pytest.raises(InvalidArgumentError, match=r"takes integers only.*TOSA-1\.0\+INT"):
        TOSAPartitioner(FP, accelerator="ethos-u55-128")
