"""Networks whose values and weights have several readers, through every flow, beside eager.

The same ones in every run, each with some of the flows; ET_SHARED_NETWORKS=300 draws that many, with all of them.
"""

from __future__ import annotations

import copy
import os
import warnings

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidStateError
from tests.conformance.shared_networks import SharedNetwork

MANY = int(os.environ.get("ET_SHARED_NETWORKS", "0"))
SEEDS = range(MANY or 10)
#: Flow -> the least that it keeps of a network, in dB. A wrong weight leaves less than 10.
FLOWS = {
    "static_int8": 20,
    "pt2e": 20,
    "dynamic_int8": 24,
    "int8_weight_only": 28,
    "dynamic_int4": 8,
    "int4_weight_only": 8,
    "fp16": 45,
}


def decibels(got: tuple[torch.Tensor, ...], want: tuple[torch.Tensor, ...]) -> float:
    """The least of all outputs."""
    return min(
        float(10 * torch.log10(w.double().square().sum() / (g.double() - w.double()).square().sum().clamp(min=1e-30)))
        for g, w in zip(got, want, strict=True)
    )


def lowered(program: torch.export.ExportedProgram, delegated: bool):
    partitioner = [XnnpackPartitioner(largest=True)] if delegated else []
    return et.load(
        et.to_edge_transform_and_lower(copy.deepcopy(program), partitioner=partitioner).to_executorch().buffer
    )


def quantized(model: SharedNetwork, flow: str) -> torch.export.ExportedProgram:
    samples = [model.inputs, *((torch.randn_like(model.inputs[0]),) for _ in range(3))]
    if flow != "pt2e":
        return quantizer.quantize(model, model.inputs, flow, samples)
    config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
    exported = torch.export.export(model, model.inputs).module()
    prepared = quantizer.prepare_pt2e(exported, quantizer.XNNPACKQuantizer().set_global(config))
    for sample in samples:
        prepared(*sample)
    return torch.export.export(quantizer.convert_pt2e(prepared), model.inputs)


@pytest.mark.parametrize("seed", SEEDS)
def test_floats_are_those_of_eager(seed):
    model = SharedNetwork(seed).eval()
    with torch.no_grad():
        expected = model(*model.inputs)
        program = torch.export.export(model, model.inputs)
    for delegated in (False, True):
        for got, want in zip(lowered(program, delegated)(*model.inputs), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, msg=lambda m: f"{m}\n{model.text}")


@pytest.mark.parametrize("seed", SEEDS)
def test_quantized_networks_are_close_to_eager(seed):
    model = SharedNetwork(seed).eval()
    with torch.no_grad():
        expected = model(*model.inputs)
        for flow in FLOWS if MANY else list(FLOWS)[seed % len(FLOWS) :: 5]:
            torch.manual_seed(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    program = quantized(model, flow)
                except InvalidStateError as error:  # depthwise layers only, which no kernel quantizes at the call
                    assert "nothing to quantize" in str(error) and "dynamic" in flow
                    continue
            reference = program.module()(*model.inputs)
            assert decibels(reference, expected) > FLOWS[flow], f"{flow}\n{model.text}"
            for delegated in (False, True):
                got = lowered(program, delegated)(*model.inputs)
                assert decibels(got, reference) > FLOWS[flow] + 8, f"{flow}, delegated {delegated}\n{model.text}"


@pytest.mark.parametrize("seed", range(MANY or 4))
def test_what_was_trained_is_what_is_converted(seed):
    model = SharedNetwork(seed)
    prepared = quantizer.prepare_qat(model, model.inputs)
    prepared.train()
    optimizer = torch.optim.SGD(prepared.parameters(), 1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        sum(y.square().mean() for y in prepared(*model.inputs)).backward()
        optimizer.step()
    prepared.eval()
    with torch.no_grad():
        expected = prepared(*model.inputs)
        program = quantizer.convert(prepared)
        assert decibels(program.module()(*model.inputs), expected) > 30, model.text
        assert decibels(lowered(program, False)(*model.inputs), expected) > 28, model.text
