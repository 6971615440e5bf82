"""Buffers and inputs that a model writes: measuring leaves them as they are, and converted programs write them too."""

import copy

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer

GENERATOR = torch.Generator().manual_seed(12)


def rand(*sizes):
    return torch.randn(*sizes, generator=GENERATOR)


class Counting(nn.Module):
    """A buffer that each call writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.calls += 1
        return self.linear(x) + self.calls


def test_calibration_leaves_the_models_state():
    model, data = Counting().eval(), [rand(2, 4) for _ in range(5)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    assert model.calls == 0
    assert program.state_dict["calls"] == 0
    run = et.load(et.to_edge_transform_and_lower(program).to_executorch().buffer)
    first, second = run(data[0]).clone(), run(data[0])
    torch.testing.assert_close(second, first + 1)


class Remembering(nn.Module):
    """A recurrent state and a counter that the model writes and returns, and an input that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 4))
        self.register_buffer("calls", torch.tensor(0))
        self.linear = nn.Linear(4, 4)

    def forward(self, x, seen):
        self.state.copy_(torch.tanh(self.linear(x + self.state)))
        self.calls += 1
        return self.state, self.calls, seen.add_(1)


@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "fp16"])
def test_state_that_is_returned(preset):
    model, data = Remembering().eval(), [(rand(2, 4), torch.zeros(1)) for _ in range(5)]
    program = quantizer.quantize(model, data[0], preset, data)
    run, converted = et.load(et.to_edge_transform_and_lower(program).to_executorch().buffer), program.module()
    for call, (x, seen) in enumerate(data):
        state, calls, changed = run(x, seen)
        torch.testing.assert_close(state, converted(x, torch.zeros(1))[0], atol=0.02, rtol=0)
        assert calls == call + 1 and seen == 1 and changed == 1


class Adapting(nn.Module):
    """A mean that moves with each call, and an input that is counted up."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x, seen):
        self.mean.mul_(0.5).add_(x.mean(0))
        return self.linear(x) + self.mean, seen.add_(1)


def test_measuring_leaves_state_and_data():
    """The float model, its quantized forms and the user's own module share their buffers; none may see another's
    calls.
    """
    model, data = Adapting().eval(), [(rand(2, 4), torch.zeros(1)) for _ in range(6)]

    def size(run):
        return float(run(data[0][0], torch.zeros(1))[0].abs().mean())

    program = quantizer.quantize(model, data[0], "static_int8", data)
    lowered = et.to_edge(program).to_executorch()
    report = et.quantization_report(model, program, data, program=lowered, metric=size)
    of = {row.of: row for row in report.outputs if row.output == "[0]"}
    assert of["runtime to converted"].difference.sqnr_db > 40
    assert of["runtime"].difference.sqnr_db == pytest.approx(of["converted"].difference.sqnr_db, abs=1)
    float_size, converted_size, runtime_size = (row.value for row in report.metrics)
    assert float_size == size(Adapting.forward.__get__(copy.deepcopy(model)))
    assert runtime_size == pytest.approx(converted_size, abs=0.02)
    sweep = quantizer.sensitivity(model, data[0], "static_int8", data)
    assert all(row.sqnr_db > 15 for row in sweep.rows)
    quantizer.quantize_to_accuracy(model, data[0], "static_int8", data, metric=size, max_drop=1.0)
    assert not model.mean.any() and not any(seen for _, seen in data)
