"""`XnnpackPartitioner(config_precisions=...)`: what is left out is refused with that reason, and the file runs and is
right.
"""

from __future__ import annotations

import pytest
import torch
from executorch_py.backends.xnnpack import Precision, XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from tests.xnnpack.payload import read_payloads

#: What a program's numbers are -> what is said of them when they are left out.
REASONS = {
    Precision.FP32: "float32, which the partitioner was told to leave",
    Precision.FP16: "float16, which the partitioner was told to leave",
    Precision.STATIC_QUANT: "static quantization, which the partitioner was told to leave",
    Precision.DYNAMIC_QUANT: "dynamic quantization, which the partitioner was told to leave",
}
#: A product between conversions that are refused has this reason, and they have theirs.
BETWEEN = "it stands between integers that the backend does not take"
PRODUCTS = ("aten.convolution.default", "aten.linear.default", "aten.addmm.default")


class Network(nn.Module):
    """A convolution with a clamp, a sum, a pooling, a flattening and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.Linear(72, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = nn.functional.max_pool2d(torch.relu(x + self.second(x)), 2)
        return self.head(x.flatten(1))


def _program(numbers: Precision) -> tuple[torch.export.ExportedProgram, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    module, x = Network().eval(), torch.randn(2, 3, 8, 8)
    if numbers is Precision.FP16:
        module, x = module.half(), x.half()
    program = torch.export.export(module, (x,))
    if numbers is Precision.STATIC_QUANT:
        program = quantizer.quantize(program, config_or_quantizer="static_int8", calibration_data=[(x,)])
    elif numbers is Precision.DYNAMIC_QUANT:
        program = quantizer.quantize(program, config_or_quantizer="dynamic_int8")
    return program, (x,)


def _lower(numbers: Precision, chosen: list[Precision]) -> tuple[bytes, dict[str, str]]:
    """The file, after a look at what it computes, and operator -> reason of the products that are not delegated."""
    program, inputs = _program(numbers)
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(config_precisions=chosen)])
    reasons = {row.op: row.reason for row in et.delegation_report(edge).refused()}
    file = edge.to_executorch().buffer
    (actual,) = et.Runtime.get().load_program(file).load_method("forward").execute(inputs)
    with torch.no_grad():
        expected = program.module()(*inputs)
    # Static: a step of the output, 1/150. Dynamic: a scale a row in the delegate, one for the tensor in eager.
    tolerance = {
        Precision.FP32: 1e-5,
        Precision.FP16: 1e-2,
        Precision.STATIC_QUANT: 1e-2,
        Precision.DYNAMIC_QUANT: 2e-2,
    }
    assert (actual - expected).abs().max() <= tolerance[numbers] * expected.abs().max()
    return file, reasons


@pytest.mark.parametrize("numbers", Precision)
def test_what_is_left_out_is_refused(numbers: Precision) -> None:
    file, reasons = _lower(numbers, [other for other in Precision if other is not numbers])
    assert REASONS[numbers] in reasons.values()
    assert {reason for op, reason in reasons.items() if op in PRODUCTS} <= {REASONS[numbers], BETWEEN}
    assert any(op in PRODUCTS for op in reasons)
    products = {"Conv2d", "FullyConnected"}
    assert not any(products & set(graph.nodes) for graph in read_payloads(file))


@pytest.mark.parametrize("numbers", Precision)
def test_one_precision_alone(numbers: Precision) -> None:
    """Integers are no float32, although the graph has float32 between their conversions."""
    file, reasons = _lower(numbers, [numbers])
    nodes = [node for graph in read_payloads(file) for node in graph.nodes]
    assert nodes.count("Conv2d") == 2 and nodes.count("FullyConnected") == 1
    assert not any(op in PRODUCTS for op in reasons)
    if numbers is not Precision.DYNAMIC_QUANT:  # where the sum and the pooling are float32
        assert "MaxPooling2d" in nodes and "Add" in nodes and not set(REASONS.values()) & set(reasons.values())
    else:
        assert "MaxPooling2d" not in nodes and REASONS[Precision.FP32] in reasons.values()


#: A dynamically quantized program has float32 numbers, too.
OTHERS = [
    (a, b) for a in Precision for b in Precision if a is not b and (a, b) != (Precision.DYNAMIC_QUANT, Precision.FP32)
]


@pytest.mark.parametrize(("numbers", "left"), OTHERS)
def test_others_stay(numbers: Precision, left: Precision) -> None:
    """Leaving out a precision that a program has not changes nothing."""
    file, _ = _lower(numbers, [other for other in Precision if other is not left])
    everything, _ = _lower(numbers, list(Precision))
    assert [graph.nodes for graph in read_payloads(file)] == [graph.nodes for graph in read_payloads(everything)]
