"""Numbers at the edges of what integers hold: large biases, small activations, dtypes and ranges that the delegate has
not.
"""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.spec.pt2e import MinMaxObserver
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer

GENERATOR = torch.Generator().manual_seed(11)


def rand(*sizes):
    return torch.randn(*sizes, generator=GENERATOR)


def sqnr(actual, expected) -> float:
    noise = (actual - expected).detach().double().square().mean()
    return float(10 * torch.log10(expected.detach().double().square().mean() / noise))


def lowered(program, delegated):
    """The program on the runtime, and the lines of its method that convert between integers and floats."""
    manager = et.to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else None
    ).to_executorch()
    body = manager.dump().split("method @forward")[1].splitlines()
    return et.load(manager.buffer), [line for line in body if "quantized_decomposed" in line]


def dead_channel():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval()
    with torch.no_grad():
        model[0].weight[1], model[0].bias[1] = 0, 5.0
    return model, [torch.rand(1, 3, 8, 8, generator=GENERATOR) for _ in range(4)]


def small_weights():
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        model[0].weight *= 1e-4
        model[0].bias.copy_(torch.tensor([1.0, 2.0, 3.0, -4.0]))
    return model, [rand(3, 8) * 0.01 for _ in range(4)]


@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
@pytest.mark.parametrize("options", [{}, {"per_channel": False}, {"weight_observer": "mse"}], ids=str)
@pytest.mark.parametrize("case", [dead_channel, small_weights])
def test_biases_that_are_large_beside_their_weights(case, options, delegated):
    """As integers they were beyond int32: the layer gave another number in silence."""
    model, data = case()
    program = quantizer.quantize(model, (data[0],), quantizer.quantization_config(**options), data)
    run, conversions = lowered(program, delegated)
    assert len(conversions) <= 2, conversions
    assert sqnr(run(data[0]), program.module()(data[0])) > 40
    assert sqnr(run(data[0]), model(data[0])) > 30


@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
def test_biases_of_other_quantizers_stay_in_float(delegated, monkeypatch):
    monkeypatch.setattr("executorch_py.quantizer.flow.flow.fit_biases", lambda prepared: None)
    model, data = dead_channel()
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    run, _ = lowered(program, delegated)
    assert sqnr(run(data[0]), program.module()(data[0])) > 40


@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8"])
def test_small_activations(preset, delegated):
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 2, 1, bias=False)).eval()
    data = [rand(1, 3, 8, 8) * 1e-3 for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), preset, data)
    run, _ = lowered(program, delegated)
    assert sqnr(run(data[0]), model(data[0])) > 30


@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "dynamic_int4", "int4_weight_only"])
@pytest.mark.parametrize("factor", [1e-6, 1e-12])
def test_numbers_that_are_tiny_throughout(factor, preset, delegated):
    """They were all zero, in silence."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU(), nn.Linear(32, 64, bias=False)).eval()
    with torch.no_grad():
        model[0].weight *= factor
    data = [rand(2, 64) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), preset, data)
    run, _ = lowered(program, delegated)
    assert sqnr(run(data[0]) / factor, model(data[0]) / factor) > (15 if "int4" in preset else 30)


def test_tiny_numbers_that_a_configuration_rounds_away_are_named():
    model = nn.Sequential(nn.Linear(8, 4, bias=False), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        model[0].weight *= 1e-4
    data = [rand(3, 8) for _ in range(4)]
    observer = MinMaxObserver.with_args(eps=2**-12)
    with pytest.warns(quantizer.QuantizationWarning, match=r"linear.default \(0, .* reaches .*, a step is 0.000244"):
        quantizer.quantize(model, (data[0],), quantizer.quantization_config(observer=observer), data)


def test_results_that_are_far_smaller_than_their_sums():
    """The delegate cannot scale sums by 256 and more; it said so only when the program was loaded."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval()
    with torch.no_grad():
        model[0].weight.abs_().mul_(30)
        model[0].bias.fill_(-1e5)
    data = [torch.rand(1, 3, 8, 8, generator=GENERATOR) * 255 for _ in range(3)]
    with pytest.warns(quantizer.QuantizationWarning, match="always 0"):
        program = quantizer.quantize(model, (data[0],), "static_int8", data)
    run, _ = lowered(program, True)
    torch.testing.assert_close(run(data[0]), program.module()(data[0]))


class Mixed(nn.Module):
    """Products, sums, a concatenation, pooling: what the delegate would take in float between integers that it has
    not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.c, self.d = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Linear(4, 3)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = self.b(a)
        both = torch.cat([F.relu(a + b), a * b], 1)
        c = F.relu6(self.c(b))
        return F.max_pool2d(both, 2), self.d(c.mean((2, 3))), F.pad(both, (1, 1, 1, 1)).permute(0, 2, 3, 1)


NARROW = quantizer.get_symmetric_quantization_config(is_per_channel=True, act_qmin=-127, act_qmax=127)


@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
@pytest.mark.parametrize("activations", ["uint8", "int16", "narrow"])
def test_integers_that_the_delegate_has_not(activations, delegated):
    """Convolutions of them were given to the delegate, which could not be loaded."""
    torch.manual_seed(2)
    model, data = Mixed().eval(), [rand(2, 3, 8, 8) for _ in range(4)]
    config = NARROW if activations == "narrow" else quantizer.quantization_config(activations)
    program = quantizer.quantize(model, (data[0],), config, data)
    run, conversions = lowered(program, delegated)
    assert len(conversions) == 4, conversions  # one at the input, one for each output
    for ours, expected, exact in zip(run(data[0]), program.module()(data[0]), model(data[0]), strict=True):
        assert sqnr(ours, expected) >= 40
        assert sqnr(ours, exact) >= (45 if activations == "int16" else 30)


@pytest.mark.parametrize("left", ["static_quant", None])
def test_delegate_that_is_told_to_leave_integers(left):
    from executorch_py.backends.xnnpack.preprocess import Precision

    torch.manual_seed(2)
    model, data = Mixed().eval(), [rand(2, 3, 8, 8) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    taken = [precision for precision in Precision if precision.value != left]
    manager = et.to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner(config_precisions=taken)]
    ).to_executorch()
    for ours, expected in zip(et.load(manager.buffer)(data[0]), program.module()(data[0]), strict=True):
        assert sqnr(ours, expected) >= 40


def test_scales_of_small_numbers_have_all_bits():
    model, data = nn.Sequential(nn.Linear(16, 16)).eval(), [rand(4, 16) * 0.1 for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), quantizer.quantization_config("int16"), data)
    (scale,) = {
        node.args[1]
        for node in program.graph.nodes
        if "quantize_per_tensor" in str(node.target) and node.args[0].op == "placeholder"
    }
    largest = max(float(x.abs().max()) for x in data)
    assert scale == pytest.approx(largest / 32767, rel=0.1)
