"""The sweep over operators: what it takes from a network, and what its report counts."""

import math

import pytest
import torch
from torch import nn

from benchmarks import operators
from benchmarks.operators import Row, cases_of, report
from benchmarks.peers.models import MODELS
from benchmarks.peers.row import Model


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.code = nn.Conv2d(3, 8, 3)  # a name that GraphModule has, too
        self.norm = nn.BatchNorm2d(8)
        self.words = nn.Embedding(50, 4)

    def forward(self, image: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.code(image)).relu_()
        x = x + x.flip(3)
        return x.flatten(1).sum(1) + self.words(words).flatten(1).sum(1)


INPUTS = (torch.randn(1, 3, 8, 8), torch.randint(0, 50, (1, 7)))


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "small", lambda: Model(Network().eval(), INPUTS))


def test_operators_are_taken_as_they_stand_in_the_network(network):
    cases = {case.name: (case, count) for case, count in cases_of("small", 0.0)}
    names = {name.split("(")[0]: name for name in cases}
    assert names["conv2d"] == "conv2d(1x3x8x8,8x3x3x3,8)"
    assert names["embedding"] == "embedding(50x4,int64:1x7)"
    assert not {name for name in names if "batch_norm" in name or "flatten" in name or "view" in name}
    assert "relu" in names and "flip" in names and sum("sum" in name for name in cases) == 2
    for case, count in cases.values():
        module, inputs = case.module()
        assert count == 1 and len(inputs) == (2 if "add" in case.name else 1)
        result = module(*inputs)  # alone, it is what the operator gives: weights are its own, inputs are given
        leaves = iter(inputs)
        args = [arg if place in case.constants else next(leaves) if isinstance(arg, torch.Tensor) else arg
                for place, arg in enumerate(case.args)]  # fmt: skip
        torch.testing.assert_close(result, case.target(*args, **case.kwargs))


def test_ours_and_eager_are_measured(network, tmp_path, capsys):
    out = tmp_path / "rows.json"
    assert (
        operators.main(["--models", "small", "--rounds", "1", "--block", "1", "--least", "0.0001", "--out", str(out)])
        == 0
    )
    said = capsys.readouterr().out
    assert "fp32: " in said and "int8: " in said and "small" in said and out.stat().st_size > 200
    assert "not measured" not in said


def test_the_report_ranks_by_what_a_row_costs_its_network():
    large = Row("conv2d(large)", "fp32", 6.0, 5.0, 4.0, networks={"a": 2, "b": 1})
    small = Row("add(small)", "fp32", 0.4, 0.1, 0.2, networks={"a": 1})
    fast = Row("relu(fast)", "fp32", 3.6, 7.2, networks={"a": 1})
    assert large.ratio == 1.5 and small.ratio == 4 and fast.ratio == 0.5
    text = report([small, large, fast])
    assert "3 rows" in text and "2 above" in text and text.index("conv2d(large)") < text.index("add(small)")
    assert "a 26.9%, b 33.3%" in text and "relu" not in text  # 2 x 2 + 0.3 of 16; 2 of 6
    assert "fp32 broken: why" in report([Row("broken", "fp32", math.nan, math.nan, reason="why")])


def test_int8_is_held_to_the_peer_that_has_it():
    assert Row("conv2d", "int8", 1.0, 0.5, 2.0).ratio == 0.5
    assert Row("conv2d", "int8", 1.0, 0.5).ratio == 2.0
