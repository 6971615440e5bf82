"""et.delegation_report: every operator once, with its backend, its part or the reason, and its source line."""

import json
import zlib

import pytest
import torch
from executorch_py.backends.example import ExamplePartitioner
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py.errors import InvalidProgramError
from executorch_py.lowering.delegation_table import KEY, DelegatedOperator, DelegationReport


class Model(nn.Module):
    """Two parts with an operator between them that the backend has not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.tanh(x)
        return self.second(x)


@pytest.fixture(scope="module")
def edge() -> et.EdgeProgramManager:
    exported = torch.export.export(Model().eval(), (torch.randn(1, 3, 6, 6),))
    return et.to_edge_transform_and_lower(exported, partitioner=[ExamplePartitioner()])


def test_rows(edge):
    rows = et.delegation_report(edge).methods["forward"]
    assert [row.op for row in rows] == [
        "aten.convolution.default",
        "aten.relu.default",
        "aten.tanh.default",
        "aten.convolution.default",
    ]
    assert [(row.backend, row.part) for row in rows] == [
        ("ExampleBackend", 0),
        ("ExampleBackend", 0),
        ("", -1),
        ("ExampleBackend", 1),
    ]
    assert rows[2].reason == "the device has no such operator"
    assert (rows[0].module_path == "first" and rows[0].source.startswith("test_delegation_report.py:")) or rows[
        0
    ].source
    assert all(not row.reason for row in rows if row.backend)


def test_text(edge):
    report = et.delegation_report(edge)
    text = str(report)
    assert "method forward: 3 of 4 operators are delegated, in 2 parts" in text
    assert "not delegated: 1 operator: the device has no such operator" in text
    assert (
        len({line.index("ExampleBackend") for line in report.table().splitlines() if "part" in line}) == 1
    )  # a column
    assert "relu" not in report.table(only_refused=True) and "tanh" in report.table(only_refused=True)


def test_without_a_partitioner():
    exported = torch.export.export(nn.ReLU(), (torch.randn(2),))
    (row,) = et.delegation_report(et.to_edge(exported)).methods["forward"]
    assert row.reason == "no partitioner looked at it"


def test_travels_in_the_program(edge):
    program = et.Runtime.get().load_program(edge.to_executorch().buffer)
    assert DelegationReport.from_bytes(program.read_named_data(KEY)) == et.delegation_report(edge)
    silent = edge.to_executorch(et.ExecutorchBackendConfig(debug_info=False)).buffer
    assert KEY not in et.Runtime.get().load_program(silent).named_data()


def rows_of(names: list[str]) -> list[DelegatedOperator]:
    return [DelegatedOperator(name, "aten.add.Tensor", "m.py:1", "a", "", -1, {"B": "no"}) for name in names]


ODD = [
    "add",
    "add_1",
    "add_2",
    "add_007",
    "add_0",
    "add_5",
    "add",
    "_3",
    "3",
    "mul_",
    "",
    "x_9999999999",
    "ä\n_1",
    "add_1_2",
]


@pytest.mark.parametrize("names", [[], ODD, ODD[::-1], [f"mul_{i}" for i in range(5000)]])
def test_round_trip(names):
    report = DelegationReport({"forward": rows_of(names), "empty": []})
    assert DelegationReport.from_bytes(report.to_bytes()) == report


def test_rows_that_count_up_take_few_bytes():
    """Steps of a recurrent layer: 15 KB of 3,841 names once stood in a file whose weights take 34 KB."""
    assert len(DelegationReport({"forward": rows_of([f"mul_{i}" for i in range(5000)])}).to_bytes()) < 400


def test_reads_reports_of_earlier_versions():
    rows = [
        ["add", "aten.add.Tensor", "m.py:1", "a", "B", 0, {}],
        ["mul", "aten.mul.Tensor", "", "", "", -1, {"B": "no"}],
    ]
    data = zlib.compress(json.dumps({"forward": rows}).encode())
    assert DelegationReport.from_bytes(data).methods == {"forward": [DelegatedOperator(*row) for row in rows]}


def packed(**columns: object) -> bytes:
    whole = {"steps": [0], "values": [["add"], *[[""]] * 6], "positions": [[0]] * 7}
    return zlib.compress(json.dumps({"forward": {**whole, **columns}}).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        b"x\x9cK\x04\x00\x00b\x00b",
        zlib.compress(b'{"forward": {}}'),
        packed(steps=[]),
        packed(steps=["1"]),
        packed(positions=[[1]] * 7),
        packed(positions=[["a"]] * 7),
        packed(positions=[[0]] * 6),
        packed(values=[[[]], *[[""]] * 6]),
        packed(values=[[""]] * 8, positions=[[0]] * 8),
    ],
)
def test_damaged(data):
    with pytest.raises(InvalidProgramError, match="damaged"):
        DelegationReport.from_bytes(data)


class Branching(nn.Module):
    """A branch whose nodes have the names of nodes outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        x = torch.cond(flag, lambda x: torch.relu(x) * 2, lambda x: torch.relu(x) - 1, (x,))
        return torch.relu(self.layer(x))


def test_nodes_of_a_branch_are_not_mistaken_for_those_outside():
    inputs = (torch.randn(3, 4), torch.tensor(True))
    model = Branching().eval()
    edge = et.to_edge_transform_and_lower(
        torch.export.export(model, inputs), partitioner=[XnnpackPartitioner(largest=True)]
    )
    rows = et.delegation_report(edge).methods["forward"]
    names = [row.name for row in rows if row.op == "aten.relu.default"]
    assert len(names) == 3 and len(set(names)) == 1, "torch names them alike"
    outside = [row for row in rows if row.backend]
    assert [row.op for row in outside] == ["aten.linear.default", "aten.relu.default"]
    assert all(row.reason for row in rows if not row.backend)
    method = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
    for flag in (True, False):
        arguments = (inputs[0], torch.tensor(flag))
        torch.testing.assert_close(method.execute(list(arguments))[0], model(*arguments), rtol=1e-5, atol=1e-6)
