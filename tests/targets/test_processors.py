"""Small networks on another processor: 32-bit Arm in QEMU. `make targets` runs them on all of processors/targets.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.targets.processors import page
from tests.targets.processors.networks import Case
from tests.targets.processors.run import ABSENT, FAIL, PASS, Outcome, build, differences, networks, run_networks
from tests.targets.processors.targets import SUITES, TARGETS

ARMHF = TARGETS["armhf"]


@pytest.fixture(scope="module")
def cases() -> dict[str, list[Case]]:
    return networks()


@pytest.fixture(scope="module")
def programs(cases: dict[str, list[Case]]) -> Path:
    if missing := ARMHF.build.missing():
        pytest.skip(f"{', '.join(missing)} is not installed (make armhf-setup installs it)")
    return build(ARMHF.build, cases, ["executor_runner"])


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_outputs_are_those_of_this_machine(kind: str, cases: dict[str, list[Case]], programs: Path) -> None:
    outcome = run_networks(ARMHF, programs, cases[kind], exactly=kind == "int8")
    assert outcome.word == PASS, outcome.told


def test_another_output_is_seen(cases: dict[str, list[Case]], programs: Path, tmp_path: Path) -> None:
    for kind, change in (("float32", 1e-3), ("int8", 1e-6)):
        case = cases[kind][0]
        expected = np.load(case.outputs[0])
        expected.flat[3] += change
        np.save(tmp_path / "changed.npy", expected)
        changed = replace(case, outputs=(tmp_path / "changed.npy",))
        assert differences(ARMHF, programs, changed, exactly=kind == "int8"), kind


def test_a_suite_that_was_not_run_keeps_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "targets.md"
    page.write("armhf", {"int8": Outcome(PASS, "8"), "xnnpack": Outcome(ABSENT, "no such library")}, path)
    page.write("wasm32", {"tests": Outcome(FAIL, "a | b\nc")}, path)
    page.write("armhf", {"float32": Outcome(PASS, "12")}, path)
    rows = page.rows_of(path.read_text())
    assert rows["armhf"][:-1] == [
        "not run",
        "pass (12)",
        "pass (8)",
        *[f"*not available here*: {ARMHF.absent['xnnpack']}"] * 2,
    ]
    assert rows["wasm32"][0] == "fail (a / b c)" and len(rows["wasm32"]) == len(SUITES) + 1
