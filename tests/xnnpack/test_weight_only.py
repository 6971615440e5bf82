"""Products of floats with integer weights: left to the kernels, delegated in files for the official runtime."""

from __future__ import annotations

import pytest
import torch
from executorch_py.backends.xnnpack import Precision, XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.exir import ExecutorchBackendConfig
from tests.xnnpack.payload import read_payloads

CONFIGURATIONS = {
    "int8": quantizer.quantization_config(None, "int8"),
    "int4": quantizer.quantization_config(None, "int4"),
}
DATATYPES = {"int8": "qcint8", "int4": "qcint4"}


def _quantized(bits: str, bias: bool = True, rows: int = 5) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Two layers, the first with a clamp; what the quantized program computes is the reference."""
    torch.manual_seed(2)
    layers = nn.Sequential(nn.Linear(64, 48, bias=bias), nn.ReLU(), nn.Linear(48, 33, bias=bias)).eval()
    inputs = (torch.randn(rows, 64),)
    return quantizer.quantize(layers, inputs, CONFIGURATIONS[bits]), inputs


def _lower(program, compatible: bool, **options) -> et.ExecutorchProgramManager:
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(**{"largest": True, **options})])
    return edge.to_executorch(ExecutorchBackendConfig(compatible=compatible))


@pytest.mark.parametrize("options", [{}, {"always": True}, {"per_op_mode": True}], ids=str)
@pytest.mark.parametrize("bits", CONFIGURATIONS)
def test_stays_with_the_kernels(bits, options):
    program, _ = _quantized(bits)
    graphs = read_payloads(_lower(program, False, **options).buffer)
    assert not any(graph.count("FullyConnected") for graph in graphs)


@pytest.mark.parametrize("rows", [1, 2, 17])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bits", CONFIGURATIONS)
def test_files_for_the_official_runtime_have_it_in_the_delegate(bits, bias, rows):
    program, inputs = _quantized(bits, bias, rows)
    manager = _lower(program, True)
    (graph,) = read_payloads(manager.buffer)
    assert graph.nodes == ("FullyConnected", "FullyConnected")  # the clamp is part of the first
    weights = [value for value in graph.values.values() if value.datatype == DATATYPES[bits]]
    assert [weight.dims for weight in weights] == [(48, 64), (33, 48)]
    (actual,) = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)
    with torch.no_grad():
        expected = program.module()(*inputs)
    assert (actual - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize("options", [{"always": True}, {"per_op_mode": True}], ids=str)
def test_whatever_the_partitioner_was_told(options):
    program, _ = _quantized("int8")
    graphs = read_payloads(_lower(program, True, **options).buffer)
    assert sum(graph.count("FullyConnected") for graph in graphs) == 2


def test_only_where_float32_may_be_taken():
    program, _ = _quantized("int8")
    assert not read_payloads(_lower(program, True, config_precisions=Precision.STATIC_QUANT).buffer)
