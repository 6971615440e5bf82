"""The runtime alone stays small enough for a microcontroller."""

import importlib.util
import platform
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the budget is one of x86-64 code")
def test_runtime_alone_is_within_its_budget():
    spec = importlib.util.spec_from_file_location("size_report", ROOT / "tools/size_report.py")
    size_report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(size_report)
    total, parts = size_report.measure()
    assert set(parts) == set(size_report.PARTS), "the probe must hold all of the runtime"
    assert total < size_report.BUDGET
