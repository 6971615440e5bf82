"""Passes that make chosen inputs and outputs integers: the file's numbers are those of the float border, quantized."""

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x, y):
        return self.a(x).relu(), self.b(y)


INPUTS = (torch.randn(3, 8), torch.randn(3, 8))


def edge():
    torch.manual_seed(0)
    return et.to_edge(quantizer.quantize(Two().eval(), INPUTS, "static_int8", [INPUTS]))


def run(manager, name="forward", inputs=()):
    program = et.Runtime.get().load_program(manager.to_executorch().buffer)
    return program.load_method(name).execute(inputs)


def steps(manager, value, prefix):
    told = {key: run(manager, f"{prefix}_{key}")[0] for key in ("scale", "zp", "quant_min", "quant_max", "dtype")}
    assert told["dtype"] == 1  # int8
    rounded = torch.round(value / told["scale"]) + told["zp"]
    return rounded.clamp(told["quant_min"], told["quant_max"]).to(torch.int8)


@pytest.mark.parametrize("chosen", [[0], [1], [0, 1]])
def test_chosen_inputs_and_outputs_are_integers(chosen):
    plain = run(edge(), inputs=INPUTS)
    manager = edge()
    manager = manager.transform([QuantizeInputs(manager, chosen), QuantizeOutputs(manager, chosen)])
    inputs = [steps(manager, x, f"input{i}") if i in chosen else x for i, x in enumerate(INPUTS)]
    got = run(manager, inputs=inputs)
    for i, (one, want) in enumerate(zip(got, plain, strict=True)):
        want = steps(manager, want, f"output{i}") if i in chosen else want
        assert torch.equal(one, want), i


def test_numbers_can_be_given():
    torch.manual_seed(0)
    model = Two().eval()
    manager = et.to_edge(torch.export.export(model, INPUTS))
    numbers = {"scale": 0.05, "zp": 3, "quant_min": -128, "quant_max": 127, "dtype": torch.int8}
    manager = manager.transform([QuantizeInputs(manager, {1: numbers}, "forward")])
    integers = steps(manager, INPUTS[1], "forward_input1")
    want = model(INPUTS[0], (integers.float() - 3) * 0.05)
    for one, other in zip(run(manager, inputs=[INPUTS[0], integers]), want, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("make", [QuantizeInputs, QuantizeOutputs])
@pytest.mark.parametrize("index", [0, 2, -1])
def test_what_is_not_quantized_is_refused(make, index):
    manager = et.to_edge(torch.export.export(Two().eval(), INPUTS))
    with pytest.raises(et.InvalidArgumentError, match=r"must|there is no"):
        manager.transform([make(manager, [index])])
