"""Inputs that are no tensors become part of the program: the same value goes in again, another one is refused."""

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import _core
from executorch_py.errors import InvalidArgumentError, NotSupportedError
from executorch_py.testing import lower

CASES = [
    (4, 5),
    (-4, 4),
    (2.5, 0.0),
    (float("inf"), 1.0),
    (0.0, 2.5),
    (True, False),
    (False, True),
    ("plus", ""),
    ("", "plus"),
]


class Combine(nn.Module):
    def forward(self, x, option):
        if isinstance(option, str):
            return x + 1 if option == "plus" else x - 1
        return x * option


@pytest.mark.parametrize(("value", "other"), CASES)
def test_value_of_the_export_is_the_one_that_goes(value, other):
    x = torch.randn(3)
    module = et.load(lower(Combine(), (x, value)).buffer)
    assert torch.equal(module(x, value), Combine()(x, value))
    with pytest.raises(InvalidArgumentError, match="when the model was exported"):
        module(x, other)
    assert torch.equal(module(x, value), Combine()(x, value))


def test_ranks_that_no_file_has_are_refused_at_export():
    with pytest.raises(NotSupportedError, match="17 dimensions has no form in a program"):
        lower(nn.ReLU(), (torch.ones([1] * 17),))


def test_constant_method_beside_a_parameter_of_that_name():
    exported = torch.export.export(Scaled(), (torch.ones(2),))
    edge = et.to_edge(exported, constant_methods={"sizes": torch.tensor([7.0])})
    module = et.load(edge.to_executorch().buffer)
    assert torch.equal(module.sizes(), torch.tensor([7.0]))
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 3.0))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = nn.ParameterList([nn.Parameter(torch.full((2,), 3.0))])

    def forward(self, x):
        return x * self.sizes[0]


@pytest.mark.parametrize("kind", ["double(2.5)", "double(-0.0)", "bool(true)", 'string("a \\"b\\"")', "bool"])
def test_value_survives_the_text_form(kind):
    text = _core.parse_program(f"method @forward(%x: f32[2], %option: {kind}) {{\n  return %x\n}}").text()
    assert f"%option: {kind}" in text
    assert _core.parse_program(text).text() == text


def test_nan_is_the_same_constant_as_nan():
    x = torch.ones(2)
    module = et.load(lower(Combine(), (x, float("nan"))).buffer)
    assert module(x, float("nan")).isnan().all()
    with pytest.raises(InvalidArgumentError, match=r"is 1\.0, it was nan when the model was exported"):
        module(x, 1.0)


def test_a_dynamic_int_out_of_its_bounds_is_a_value_and_no_size():
    exported = torch.export.export(Combine(), (torch.ones(2), 3), dynamic_shapes=(None, torch.export.Dim.DYNAMIC))
    module = et.load(et.to_edge(exported).to_executorch().buffer)
    assert torch.equal(module(torch.ones(2), 7), torch.full((2,), 7.0))
    with pytest.raises(
        InvalidArgumentError, match=r"'option'\): the value -5 was given, the method was exported for 0 to"
    ):
        module(torch.ones(2), -5)


class Keyed(nn.Module):
    def forward(self, x):
        return {(1, "sum"): x[0, "a"] + 1, 2: x[0, "a"]}


def test_dicts_with_tuples_as_keys():
    x = {(0, "a"): torch.ones(2)}
    result = et.load(lower(Keyed(), (x,)).buffer)(x)
    assert list(result) == [(1, "sum"), 2] and torch.equal(result[1, "sum"], torch.full((2,), 2.0))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_dtypes_that_no_program_has_are_refused_at_export(dtype):
    class Cast(nn.Module):
        def forward(self, x):
            return x.to(torch.float32)

    with pytest.raises(NotSupportedError, match=f"{dtype!s}"):
        lower(Cast(), (torch.ones(2).to(dtype),))
