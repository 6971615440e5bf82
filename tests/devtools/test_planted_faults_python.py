"""Faults planted in a backend written in Python: tools name the operator and its line inside of the delegate."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py.devtools import Inspector, first_divergence
from tests.python.delegation.test_delegation import NUMPY, JsonBackend, JsonRuntime, TagTargets

aten = torch.ops.aten
TAKEN = (aten.mul.Tensor, aten.add.Tensor, aten.relu.default)


class PlantedBackend(JsonBackend):
    """The list of steps, for a runtime that computes one of them wrong."""


class PlantedRuntime(JsonRuntime):
    """Computes the step whose number is ``wrong`` with an error of a tenth."""

    wrong = -1

    def execute(self, context, handle, args):
        count = len(handle["inputs"])
        values = dict(zip(handle["inputs"], args[:count], strict=True))
        values |= {name: np.array(data, np.float32) for name, data in handle["constants"].items()}
        for number, (op, names, result) in enumerate(handle["steps"]):
            values[result] = NUMPY[op](*(values[one] if isinstance(one, str) else one for one in names))
            if number == self.wrong:
                values[result] = values[result] * np.float32(1.1)
        for index, name in enumerate(handle["outputs"]):
            context.resize(count + index, values[name].shape)[...] = values[name]


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, x, y):
        scaled = x * self.scale
        moved = scaled + y
        return torch.relu(moved)


class Gates(torch.nn.Module):
    """A part for the backend, an operator that it does not take, and a part again."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Gate(), Gate()

    def forward(self, x, y):
        return self.second(torch.sigmoid(self.first(x, y)), y)


STEPS = ("scaled = x * self.scale", "moved = scaled + y", "return torch.relu(moved)")


@pytest.fixture
def planted():
    PlantedRuntime.wrong = -1
    et.Runtime.get().register_backend("PlantedBackend", PlantedRuntime)
    torch.manual_seed(0)
    model, inputs = Gates().eval(), (torch.rand(2, 3) + 1, torch.rand(2, 3) + 8)

    def made(*taken):
        partitioner = TagTargets(*taken, backend="PlantedBackend", separate=True)
        exported = torch.export.export(model, inputs)
        return et.to_edge_transform_and_lower(exported, partitioner=[partitioner], generate_etrecord=True)

    yield lambda *taken: made(*taken or TAKEN).to_executorch(), model, inputs
    PlantedRuntime.wrong = -1


def source_line(where):
    file, _, number = where.rpartition(":")
    assert file and Path(__file__).as_posix().endswith(file), where
    return Path(inspect.getsourcefile(Gate)).read_text().splitlines()[int(number) - 1].strip()


def gaps_of(program, inputs):
    record = program.get_etrecord()
    record.update_representative_inputs(list(inputs))
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True, debug_buffer_size=1 << 16)
    loaded.load_method("forward").execute(inputs)
    return Inspector.of(loaded, record).calculate_numeric_gap("MSE")


def test_no_fault_no_report(planted):
    pytest.importorskip("pandas")
    made, model, inputs = planted
    program = made()
    assert first_divergence(program, model, inputs) is None
    assert max(gap for (gap,) in gaps_of(program, inputs)["gap"]) < 1e-9


@pytest.mark.parametrize("step", range(3))
def test_first_divergence_names_the_step(planted, step):
    """A part of one operator has one line."""
    made, model, inputs = planted
    PlantedRuntime.wrong = 0
    found = first_divergence(made(TAKEN[step]), model, inputs)
    assert found.cause == "delegate" and "PlantedBackend" in found.what, str(found)
    assert found.module_path == "first" and source_line(found.where) == STEPS[step], str(found)


@pytest.mark.parametrize("step", range(3))
def test_first_divergence_names_the_line_inside_a_part(planted, step):
    """Such a backend tells no value inside of a part: the part is compiled again, with its values as outputs."""
    made, model, inputs = planted
    PlantedRuntime.wrong = step
    found = first_divergence(made(), model, inputs)
    assert found.cause == "delegate" and found.what == "PlantedBackend", str(found)
    assert found.module_path == "first" and source_line(found.where) == STEPS[step], str(found)


def test_a_part_that_has_one_output_only(planted, monkeypatch):
    """A backend that refuses such a part: all of its lines are named, its result's first, and why no more is known."""
    made, model, inputs = planted
    PlantedRuntime.wrong = 1
    program, preprocess = made(), PlantedBackend.preprocess

    def refusing(edge_program, compile_specs):
        if len(edge_program.graph_signature.user_outputs) > 1:
            raise NotImplementedError("parts have one output")
        return preprocess(edge_program, compile_specs)

    monkeypatch.setattr(PlantedBackend, "preprocess", staticmethod(refusing))
    found = first_divergence(program, model, inputs)
    assert found.cause == "delegate" and found.module_path == "first" and source_line(found.where) == STEPS[2]
    lines, _, reason = found.note.partition("one call, of ")[2].partition("; ")
    assert [source_line(line) for line in lines.split(", ")] == list(STEPS), str(found)
    assert reason == "it does not run with its values as outputs: parts have one output"


@pytest.mark.parametrize("step", range(3))
def test_the_numeric_gap_names_the_part(planted, step):
    """Values inside of this backend are not recorded: the first gap stands at the part's result, with its lines."""
    pytest.importorskip("pandas")
    made, _, inputs = planted
    PlantedRuntime.wrong = step
    table = gaps_of(made(), inputs)
    wrong = [index for index, (gap,) in enumerate(table["gap"]) if gap > 1e-6]
    assert wrong[:1] == [0]
    lines = " ".join(map(str, table["stacktraces"][0].values()))
    assert STEPS[2] in lines and Path(__file__).name in lines
