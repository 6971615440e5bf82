"""float16 ends at 65504: what a float16 configuration keeps in float32, by the form of the model and by the samples."""

import copy
import warnings

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.calibration.checks import QuantizationWarning
from torch import nn

import executorch_py as et
from executorch_py import quantizer


class Formula(nn.Module):
    """A function between layers."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.gain, self.first, self.last = nn.Parameter(torch.rand(48) + 0.5), nn.Linear(48, 48), nn.Linear(48, 8)

    def forward(self, x):
        return self.last(self.function(self, x))


def centred(x):
    return x - x.mean(-1, keepdim=True)


NORMS = {
    "rms": lambda s, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * s.gain,
    "rms of a layer": lambda s, x: s.first(x) * torch.rsqrt(s.first(x).pow(2).mean(-1, keepdim=True) + 1e-6) * s.gain,
    "rms with float()": lambda s, x: (
        (x.float() * torch.rsqrt((x.float() * x.float()).mean(-1, keepdim=True) + 1e-6)).type_as(x) * s.gain
    ),
    "rms by a root": lambda s, x: x / torch.sqrt(x.square().sum(-1, keepdim=True) / 48 + 1e-6) * s.gain,
    "layer norm": lambda s, x: centred(x) / torch.sqrt((centred(x) ** 2).mean(-1, keepdim=True) + 1e-5) * s.gain,
    "variance": lambda s, x: centred(x) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * s.gain,
    "deviation": lambda s, x: centred(s.first(x)) / (s.first(x).std(-1, keepdim=True) + 1e-5),
    "length": lambda s, x: s.first(x) / s.first(x).norm(2, -1, keepdim=True),
    "normalize": lambda s, x: nn.functional.normalize(s.first(x), dim=-1),
    "logsumexp": lambda s, x: (
        s.first(x) - (s.first(x) - s.first(x).amax(-1, keepdim=True)).exp().sum(-1, keepdim=True).log()
    ),
    "softmax": lambda s, x: (s.first(x) / 400).exp() / (s.first(x) / 400).exp().sum(-1, keepdim=True),
    "cosine": lambda s, x: (
        s.first(x)
        * (
            (s.first(x) * x.flip(-1)).sum(-1, keepdim=True)
            / (s.first(x).norm(dim=-1, keepdim=True) * x.norm(dim=-1, keepdim=True))
        )
    ),
    "gelu by tanh": lambda s, x: 0.5 * x * (1 + torch.tanh(0.797 * (x + 0.044 * x**3))),
}
FAR = {
    "gate": lambda s, x: (s.first(x) * s.first(x.flip(-1))) * 1e-4,
    "sum": lambda s, x: s.first(x) * 200 + s.first(x) * 200,
    "small": lambda s, x: (s.first(x * 1e-9) * s.gain * 1e-7 + s.first(x) * 1e-10) * 1e9,
}


def decibels(got, want):
    return float(10 * torch.log10(want.double().square().sum() / (got.double() - want.double()).square().sum()))


def run(program, x, delegated):
    partitioner = [XnnpackPartitioner(largest=True)] if delegated else []
    edge = et.to_edge_transform_and_lower(copy.deepcopy(program), partitioner=partitioner)
    return et.load(edge.to_executorch().buffer)(x)


@pytest.mark.parametrize("scale", [1.0, 900.0])
@pytest.mark.parametrize("name", NORMS)
def test_norms_that_a_model_writes_out_need_no_samples(name, scale):
    torch.manual_seed(0)
    model, x = Formula(NORMS[name]).eval(), torch.randn(4, 48) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuantizationWarning)
        program = quantizer.quantize(model, (x,), "fp16")
    expected = model(x).detach()
    assert decibels(program.module()(x), expected) > 50
    for delegated in (False, True):
        assert decibels(run(program, x, delegated), expected) > 45


@pytest.mark.parametrize("name", FAR)
def test_samples_show_what_is_out_of_range_and_a_warning_names_it(name):
    torch.manual_seed(0)
    model, x = Formula(FAR[name]).eval(), torch.randn(4, 48) * 900
    with pytest.warns(QuantizationWarning, match=r"float32 stays.*65504.*\n.*test_half_range\.py:\d+\) reaches"):
        program = quantizer.quantize(model, (x,), "fp16", [x])
    for delegated in (False, True):
        assert decibels(run(program, x, delegated), model(x).detach()) > 45


def test_what_is_in_range_becomes_float16():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 8)).eval(), torch.randn(4, 48)
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuantizationWarning)
        shown = quantizer.quantize(model, (x,), "fp16", [x])
    assert shown.graph_module.code == quantizer.quantize(model, (x,), "fp16").graph_module.code
    assert "float16" in shown.graph_module.code
