"""The replay is deterministic, and finds a difference that is planted."""

import json
import shutil

import pytest
import torch

from tests.conformance.random_graphs import Graph
from tests.replay import cases
from tests.replay.__main__ import _report
from tests.replay.compare import cases_of, compare
from tests.replay.record import record

CASES = "graphs/00"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay") / "first"
    record(folder, quick=True, only=CASES)
    return folder


def test_stages_of_a_case(recorded):
    stages = [name for name, _ in cases_of(recorded)[f"{CASES}/float/delegate"]]
    assert stages[0] == "edge" and stages[-3:] == ["final", "pte", "outputs"]
    assert "fold-constants@forward" in stages and len(stages) == len(set(stages))


def test_a_second_record_is_equal(recorded, tmp_path):
    record(tmp_path, quick=True, only=CASES)
    assert cases_of(recorded) and compare(recorded, tmp_path) == []
    assert _report(recorded, tmp_path, 12) == 0


def test_a_planted_difference_is_found_at_its_stage(recorded, tmp_path, monkeypatch, capsys):
    def planted(strategy, count, drawn=cases._drawn):
        values = drawn(strategy, count)
        for value in values:
            if isinstance(value, Graph):
                value.forward = lambda *inputs, run=value.forward: [torch.neg(x) for x in run(*inputs)]
        return values

    monkeypatch.setattr(cases, "_drawn", planted)
    record(tmp_path, quick=True, only=CASES)
    differences = compare(recorded, tmp_path)
    assert len(differences) == 2 and all("differs from edge" in text for text in differences)
    assert "+" in differences[0] and "aten::neg" in differences[0]
    assert _report(recorded, tmp_path, 12) == 1
    assert "2 of 2 cases differ" in capsys.readouterr().out


@pytest.mark.parametrize("stage", ["pte", "outputs"])
def test_bytes_and_outputs_count_too(recorded, tmp_path, stage):
    changed = tmp_path / "changed"
    shutil.copytree(recorded, changed)
    index = cases_of(changed)
    for entry in index[f"{CASES}/float/kernels"]:
        if entry[0] == stage:
            entry[1] = "other"
    (changed / "index.json").write_text(json.dumps(index))
    (difference,) = compare(recorded, changed)
    assert f"differs from {stage}" in difference and f"{stage} differs" in difference


def test_a_case_that_went_is_a_difference(recorded, tmp_path):
    index = cases_of(recorded)
    del index[f"{CASES}/float/kernels"]
    (tmp_path / "index.json").write_text(json.dumps(index))
    (difference,) = compare(recorded, tmp_path)
    assert f"only in {recorded}" in difference
