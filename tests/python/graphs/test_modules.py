"""Programs as modules, of models whose names no GraphModule can have."""

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.devtools import first_divergence
from executorch_py.graphs.modules import module_of, with_free_names

#: Attributes of a GraphModule, of the class and of its objects; set behind its constructor; what source cannot have.
NAMES = ["code", "graph", "meta", "recompile", "shape_env", "_graph", "_in_spec", "_guards_fn", "class", "a'b", "a\nb"]


class Head(nn.Module):
    """A layer under this name, with one beside it that has the name it would be given first."""

    def __init__(self, name):
        super().__init__()
        self.add_module(name, nn.Linear(4, 4))
        self.name = name
        self.code_ = nn.BatchNorm1d(4)
        self.inner = nn.ModuleDict({"code": nn.Linear(4, 3)})

    def forward(self, x):
        return self.inner["code"](torch.relu(self.code_(self._modules[self.name](x))))


def exported(name, train=False):
    torch.manual_seed(0)
    model = Head(name).train(train)
    return model, torch.export.export(model, (torch.randn(2, 4),))


@pytest.mark.parametrize("name", NAMES)
def test_the_module_computes_and_writes_what_the_model_does(name):
    model, program = exported(name, train=True)
    module = module_of(program)
    x = torch.randn(2, 4)
    before = model.code_.running_mean.clone()
    torch.testing.assert_close(module(x), model(x), rtol=0, atol=1e-6)
    assert not torch.equal(model.code_.running_mean, before)
    assert {id(p) for p in module.parameters()} == {id(p) for p in program.parameters()}
    assert {"code_.weight", "inner.code.weight"} <= {path for path, _ in module.named_parameters()}
    torch.export.export(module, (x,)).module()  # PyTorch can


def test_programs_with_free_names_stay():
    _, program = exported("x1-0")
    assert with_free_names(program) is program
    assert with_free_names(renamed := with_free_names(exported("code")[1])) is renamed


@pytest.mark.parametrize("name", ["code", "shape_env", "class"])
def test_tools_take_such_models(name):
    model, program = exported(name)
    data = [(torch.randn(2, 4),) for _ in range(3)]
    assert et.count_macs(program, data[0]).total == 2 * 4 * 7
    lowered = et.to_edge_transform_and_lower(program).to_executorch()
    assert first_divergence(lowered, model, data[0]) is None
    quantized = quantizer.quantize(program, None, "static_int8", data)
    et.quantization_report(program, quantized, data)
    compiled = et.to_edge_transform_and_lower(quantized).to_executorch()
    expected = quantized.module()(*data[0])
    torch.testing.assert_close(et.load(compiled.buffer)(*data[0]), expected, rtol=0, atol=0.05)
