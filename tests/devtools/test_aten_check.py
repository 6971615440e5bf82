"""compare_with_aten: what it computes again, what it leaves out, and the line of a kernel that differs."""

import json
from dataclasses import replace

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import _core, quantizer
from executorch_py.cli import main
from executorch_py.devtools import aten_check, compare_with_aten
from executorch_py.devtools.aten_forms import FORMS, PRIMS
from executorch_py.devtools.comparison import Tolerance
from tests.devtools.models import two_blocks
from tests.models.zoo import ZOO

FLOWS = ("float", "published", "static_int8", "dynamic_int8", "int4_weight_only", "fp16")
CASES = [(name, flow) for name in ZOO for flow in FLOWS]
#: Flows that refuse a model, with the words of the error.
REFUSED: dict[tuple[str, str], str] = {}


def lowered(exported, **options):
    return et.to_edge_transform_and_lower(exported).to_executorch(et.ExecutorchBackendConfig(**options))


def reports(name, flow):
    methods = ZOO[name]()
    if flow in ("float", "published"):
        exported = {key: method.export() for key, method in methods.items()}
    else:
        exported = {
            key: quantizer.quantize(method.module.eval(), method.inputs, flow, [method.inputs])
            for key, method in methods.items()
        }
    program = lowered(exported, compatible=flow == "published")
    return {key: compare_with_aten(program, method.inputs, method=key) for key, method in methods.items()}


def check(name, flow):
    for key, report in reports(name, flow).items():
        assert report.passed, str(report)
        instructions = sum(sum(one.values()) for one in report.not_compared.values())
        assert len(report.rows) > instructions, f"{key}: {report}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "flow"),
    [("llama", "float"), ("lstm", "published"), ("detection_head", "float"), ("autoencoder", "static_int8")],
)
def test_some_models(name, flow):
    check(name, flow)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "flow"), CASES)
def test_every_instruction_of_the_zoo(name, flow):
    check(name, flow)


def test_a_kernel_that_differs_is_told_with_its_line(monkeypatch):
    """The other side is changed: the kernel of `sin` and ATen's then disagree as they would were the kernel wrong."""
    model, inputs = two_blocks()
    program = lowered(torch.export.export(model, inputs))
    assert compare_with_aten(program, inputs).passed
    right = aten_check._reference

    def wrong(kernel):
        found = right(kernel)
        return replace(found, call=lambda self: self.sin() + 1e-3) if kernel == "aten::sin.out" else found

    monkeypatch.setattr(aten_check, "_reference", wrong)
    report = compare_with_aten(program, inputs)
    assert [row.module_path for row in report.differing] == ["first", "second"], str(report)
    first = report.differing[0]
    assert first.where.startswith("tests/devtools/models.py:") and first.operator == "aten::sin.out"
    assert first.comparison.max_error == pytest.approx(1e-3, rel=1e-3) and "2 differ" in str(report)
    assert compare_with_aten(program, inputs, tolerance=Tolerance(relative_to_max=1e-2)).passed
    assert len(report.rows) == len(compare_with_aten(program, inputs).rows), "what follows is not blamed"


def test_what_is_not_compared_is_counted():
    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.relu(x @ x) + torch.rand_like(x)

    inputs = (torch.randn(4, 4),)
    exported = torch.export.export(Net(), inputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)])
    report = compare_with_aten(edge.to_executorch(), inputs)
    assert report.not_compared["a delegate"]["XnnpackBackend"] >= 1
    assert report.not_compared["random numbers"] == {"aten::rand_like.out": 1}


def test_state_and_loops():
    """Buffers that a method writes, and an instruction that runs several times."""

    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total.add_(x.sum(0))
            _, steps = torch._higher_order_ops.scan(lambda c, r: (c + r, (c * r).sin()), torch.zeros(3), x)
            return steps + self.total

    inputs = (torch.randn(5, 3),)
    report = compare_with_aten(lowered(torch.export.export(Counter(), inputs)), inputs)
    assert report.passed, str(report)
    assert {"aten::sin.out", "aten::copy_"} <= {row.operator for row in report.rows}, str(report)


def test_every_own_operator_has_a_form_or_is_listed():
    """Those without a form are recurrent layers on integers, and weights that are stored without their zeros."""
    own = {name for name, *_ in _core.operator_table() if name.startswith("et::")}
    left = {name for name in own - {*FORMS} if "lstm" not in name and "gru" not in name}
    assert left == {"et::sparse_convolution", "et::sparse_linear"}
    assert {*FORMS} <= {name for name, *_ in _core.operator_table()}
    assert {*PRIMS} <= {*_core.operator_names()}


def test_an_observer_that_raises_ends_the_call_and_the_method_goes_on():
    model, inputs = two_blocks()
    method = et.Runtime.get().load_program(lowered(torch.export.export(model, inputs)).buffer).load_method("forward")

    def observer(number, *_):
        if number == 1:
            raise ValueError("enough")
        with pytest.raises(et.InvalidStateError):
            method.execute(inputs)

    for _ in range(2):
        with pytest.raises(ValueError, match="enough"):
            method._core.execute_observed(list(inputs), observer)
    torch.testing.assert_close(method.execute(inputs)[0], model(*inputs))
    with pytest.raises(et.InvalidArgumentError, match="takes 1 inputs"):
        method._core.execute_observed([], observer)
    seen = []
    outputs = method._core.execute_observed(list(inputs), lambda *told: seen.append(told))
    torch.testing.assert_close(outputs[0], model(*inputs))
    assert [one[0] for one in seen] == sorted({one[0] for one in seen}) and all(one[3] for one in seen)


def test_the_command(tmp_path, capsys):
    model, inputs = two_blocks()
    path = tmp_path / "model.pte"
    lowered(torch.export.export(model, inputs)).save(path)
    assert main(["validate", str(path), "--aten"]) == 0
    assert "computed again by ATen, all agree" in capsys.readouterr().out
    assert main(["validate", str(path), "tests.devtools.models:two_blocks", "--aten", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True
    assert main(["validate", str(path)]) == 2
    assert "--aten compares kernels without one" in capsys.readouterr().err
