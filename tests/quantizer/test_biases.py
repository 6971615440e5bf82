"""Converted graphs hold the biases that integer kernels add: whole numbers of steps of the sum."""

import re
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.calibration.biases import LARGEST
from torch import nn

import executorch_py as et
from executorch_py import quantizer


class Stack(nn.Module):
    """Forms of layers with biases, one bias read by two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.normed = nn.Sequential(nn.Conv2d(16, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.wide = nn.Conv2d(16, 16, 3, groups=16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)
        self.right.bias = self.left.bias

    def forward(self, x):
        x = self.up(self.wide(self.normed(self.first(x).relu()))).mean((2, 3))
        return self.left(x) + self.right(x.relu())


@pytest.fixture
def stack():
    torch.manual_seed(3)
    model = Stack().eval()
    model.normed[1].running_mean.uniform_(-1, 1)
    model.normed[1].bias.data.uniform_(-1, 1)
    return model, [torch.randn(2, 3, 12, 12) for _ in range(4)]


def biases(program):
    """Of each product in a program's graph: the bias, and a unit of the sum that it is added to or None."""
    values = {**program.state_dict, **program.constants}
    held = {spec.arg.name: values[spec.target] for spec in program.graph_signature.input_specs if spec.target}
    found = []
    for node in program.graph.nodes:
        if not any(name in str(node.target) for name in ("aten.conv", "aten.linear")) or len(node.args) < 3:
            continue
        x, weight, bias = node.args[:3]
        step = None
        if "dequantize_per_tensor.default" in str(x.target) and "dequantize_per_channel" in str(weight.target):
            step = x.args[1] * held[weight.args[1].name].double()
        found.append((held[bias.name], step))
    return found


def test_lowering_takes_twice_what_is_aimed_at():
    header = Path(__file__).resolve().parents[2] / "src/cpp/passes/quantized_values.h"
    (bits,) = re.findall(r"kLargestBias = 1 << (\d+);", header.read_text(encoding="utf-8"))
    assert 1 << int(bits) == 2 * LARGEST


def test_biases_are_whole_numbers_of_steps(stack):
    model, data = stack
    before = {name: value.clone() for name, value in model.state_dict().items()}
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    found = biases(program)
    assert len(found) == 6
    for bias, step in found:
        steps = bias.double() / step
        assert torch.all((steps - steps.round()).abs() <= steps.abs() * 2**-23)  # float32 holds no more of them
        assert float(steps.abs().max()) > 10
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("preset", ["dynamic_int8", "int8_weight_only"])
def test_biases_beside_sums_of_floats_stay(stack, preset):
    model, data = stack
    program = quantizer.quantize(model, (data[0],), preset)
    kept = [bias for bias, _ in biases(program)]
    for layer in (model.first, model.wide, model.up, model.left):
        assert any(bias.shape == layer.bias.shape and torch.equal(bias, layer.bias) for bias in kept)


@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
def test_eager_and_the_runtime_add_the_same(stack, delegated):
    """A bias in floats made the runtime's integers differ from those of ``program.module()`` in one of some thousand
    places.
    """
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU()) for _ in range(6)), nn.Conv2d(8, 8, 1)).eval()
    data = [torch.randn(1, 8, 64, 64, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    partitioners = [XnnpackPartitioner(largest=True)] if delegated else []
    run = et.load(et.to_edge_transform_and_lower(program, partitioner=partitioners).to_executorch().buffer)
    ours, eager = run(data[1]), program.module()(data[1])
    assert float((ours != eager).double().mean()) < 1e-4
