"""The first layer that leaves the model, its line and its cause: planted mistakes of each kind, and none."""

import inspect

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import quantizer
from executorch_py.devtools import compare, divergence, first_divergence
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from tests.devtools.models import two_blocks


class Recurrent(torch.nn.Module):
    """An LSTM and a layer behind it."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(8, 16, 2, batch_first=True)
        self.out = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


class Activated(torch.nn.Module):
    """A layer whose activation the compiler fuses into it."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.cos(torch.relu(self.lin(x)))


#: Where Activated's operators stand.
LINE = f"tests/devtools/test_divergence.py:{inspect.getsourcelines(Activated.forward)[1] + 1}"
PARTITIONERS = [None, [XnnpackPartitioner(largest=True)]]


def lowered(model, inputs, partitioner=None):
    return et.to_edge_transform_and_lower(torch.export.export(model, inputs), partitioner=partitioner).to_executorch()


def changed(program, old, new):
    """The program with other bytes in its file, as a wrong kernel or a damaged weight would compute."""
    assert len(old) == len(new) and program.buffer.count(old) >= 1
    program.__dict__["buffer"] = program.buffer.replace(old, new)
    return program


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize(
    "make",
    [
        two_blocks,
        lambda: (Recurrent().eval(), (torch.randn(2, 5, 8),)),
        lambda: (Activated().eval(), (torch.randn(3, 16),)),
    ],
)
def test_none_where_nothing_is_wrong(make, partitioner):
    model, inputs = make()
    assert first_divergence(lowered(model, inputs, partitioner), model, inputs) is None


def test_a_wrong_kernel():
    model, inputs = two_blocks()
    found = first_divergence(changed(lowered(model, inputs), b"aten::cos", b"aten::tan"), model, inputs)
    assert (found.cause, found.node, found.what) == ("kernel", "cos", "native_call_tan.out")
    assert found.where.endswith("models.py:28") and "models.py:28" in str(found) and "a kernel" in str(found)
    found = first_divergence(changed(lowered(model, inputs), b"aten::sin", b"aten::tan"), model, inputs)
    assert (found.cause, found.node, found.module_path) == ("kernel", "sin", "first")


def weight_bytes(model):
    return model.lin.weight.detach().numpy().tobytes()


def test_fusion():
    """The file's weight is wrong, and the program that is compiled anew without fusion is right."""
    model, inputs = Activated().eval(), (torch.randn(3, 16),)
    program = lowered(model, inputs)
    assert len(program.debug_handle_map["forward"]) < 3, "nothing is fused"
    old = weight_bytes(model)
    found = first_divergence(changed(program, old, old[::-1]), model, inputs)
    assert found.cause == "fusion" and "linear + relu" in found.what and found.where == LINE


def test_a_layer_inside_a_delegate():
    """XNNPACK tells the values inside; its linear layer has the relu in it."""
    model, inputs = Activated().eval(), (torch.randn(3, 16),)
    old = weight_bytes(model)
    program = changed(lowered(model, inputs, [XnnpackPartitioner(largest=True)]), old, old[::-1])
    found = first_divergence(program, model, inputs)
    assert (found.cause, found.node) == ("delegate", "relu") and "XnnpackBackend" in found.what
    assert found.where == LINE


def test_a_delegate_that_tells_nothing_inside(monkeypatch):
    """Its part is compiled anew with the values as outputs."""
    model, inputs = Activated().eval(), (torch.randn(3, 16),)
    old = weight_bytes(model)
    program = changed(lowered(model, inputs, [XnnpackPartitioner(largest=True)]), old, old[::-1])
    real_pairs = divergence.pairs_of
    monkeypatch.setattr(
        divergence,
        "pairs_of",
        lambda edge, values, events: real_pairs(edge, values, [one for one in events if not one.is_delegated_op]),
    )
    monkeypatch.setattr(divergence, "_tells_inside", lambda event: False)
    found = first_divergence(program, model, inputs)
    assert found.cause == "fusion" and "XnnpackBackend is right" in found.note  # compiled anew it is right
    real = divergence.compile_methods
    monkeypatch.setattr(divergence, "compile_methods", lambda *args: changed(real(*args), old, old[::-1]))
    found = first_divergence(program, model, inputs)
    assert (found.cause, found.node, found.what) == ("delegate", "linear", "XnnpackBackend")
    assert found.where == LINE and found.module_path == "lin"


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_another_model(partitioner):
    model, inputs = two_blocks()
    program = lowered(model, inputs, partitioner)
    other, _ = two_blocks()
    with torch.no_grad():
        other.second.lin.weight[0] *= 3
    found = first_divergence(program, other, inputs)
    assert (found.cause, found.node, found.module_path) == ("export", "linear_1", "second.lin")


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_a_quantized_layer_with_an_outlier(partitioner):
    torch.manual_seed(2)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
    ).eval()
    samples = [(torch.randn(4, 16),) for _ in range(20)]
    good = quantizer.quantize(model, samples[0], "static_int8", samples)
    assert first_divergence(lowered_exported(good, partitioner), model, samples[0]) is None
    with torch.no_grad():
        model[2].bias[5] = 3000.0
    bad = quantizer.quantize(model, samples[0], "static_int8", samples)
    found = first_divergence(lowered_exported(bad, partitioner), model, samples[0], quantized_db=90)
    assert found.cause == "quantization" and found.module_path in ("0", "2")


def lowered_exported(exported, partitioner):
    return et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch()


def test_what_is_no_program():
    model, inputs = two_blocks()
    program = lowered(model, inputs)
    with pytest.raises(InvalidTypeError, match="a file has no graphs"):
        first_divergence(program.buffer, model, inputs)
    with pytest.raises(InvalidTypeError, match=r"must be a torch\.nn\.Module"):
        first_divergence(program, lambda x: x, inputs)
    with pytest.raises(InvalidArgumentError, match="there are forward"):
        first_divergence(program, model, inputs, method="decode")


def test_compare_two_programs(tmp_path):
    model, inputs = two_blocks()
    plain, delegated = lowered(model, inputs), lowered(model, inputs, [XnnpackPartitioner(largest=True)])
    plain.save(tmp_path / "plain.pte")
    found = compare(tmp_path / "plain.pte", delegated, inputs, runs=3)
    sizes = {one.name: (one.a, one.b) for one in found.sizes}
    assert sizes["file"] == (len(plain.buffer), len(delegated.buffer)) and sizes["instructions"] == (8, 1)
    operators = {one.name: (one.a, one.b) for one in found.operators}
    assert operators["aten::linear.out"] == (2, 0) and operators["delegate of XnnpackBackend"] == (0, 1)
    assert len(found.times[0]) == len(found.times[1]) == 3 and found.speedup > 0
    assert found.outputs[0].passed and not found.is_equal
    assert "aten::linear.out" in repr(found) and found.as_dict()["operators"]["aten::sin.out"] == [2, 0]
    same = compare(plain, plain.buffer, inputs)
    assert same.is_equal and same.outputs[0].max_error == 0
    with pytest.raises(NotFoundError, match="a has no method 'decode'"):
        compare(plain, plain, method="decode")
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        compare(plain, plain, inputs, runs=0)


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_inputs_that_the_program_does_not_take(partitioner):
    """The runtime's words, which name the input and both sides, before those of PyTorch."""
    model, inputs = two_blocks()
    program = lowered(model, inputs, partitioner)
    for wrong in ((torch.randn(5, 16),), (torch.randn(4, 17),), (torch.randn(16),)):
        with pytest.raises(InvalidArgumentError, match=r"input 0 \('x'\): .* the method takes"):
            first_divergence(program, model, wrong)
    with pytest.raises(InvalidArgumentError, match="takes 1 positional arguments and no keywords, as at export; got 2"):
        first_divergence(program, model, (*inputs, *inputs))
    with pytest.raises(InvalidTypeError, match=r"torch\.float64"):
        first_divergence(program, model, (inputs[0].double(),))
    rows = torch.export.Dim("rows", min=2, max=8)
    exported = torch.export.export(model, inputs, dynamic_shapes=({0: rows},))
    dynamic = lowered_exported(exported, partitioner)
    assert first_divergence(dynamic, exported, (torch.randn(7, 16),)) is None
    with pytest.raises(InvalidArgumentError, match="9"):
        first_divergence(dynamic, exported, (torch.randn(9, 16),))
