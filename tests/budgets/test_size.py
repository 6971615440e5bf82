"""The runtime alone stays small enough for a microcontroller; `make size` says what changed."""

import importlib.util
import platform
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def size_report():
    spec = importlib.util.spec_from_file_location("size_report", ROOT / "tools/size_report.py")
    module = sys.modules["size_report"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86-64", "cortex-m55", "cortex-m4", "cortex-m3"])
def test_runtime_alone_is_within_its_budget(size_report, target):
    if target == "x86-64" and platform.machine() != "x86_64":
        pytest.skip("the budget is one of x86-64 code")
    compiler = f"{size_report.TARGETS[target].tools}g++"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed (make mcu-setup installs it)")
    total, parts = size_report.measure(target=target)
    assert set(parts) == set(size_report.PARTS), "the probe must hold all of the runtime"
    assert total < size_report.TARGETS[target].budget


def test_the_table_tells_what_changed(size_report):
    now = (1000, Counter({"loading a method": 600, "running a method": 300}))
    before = (1100, Counter({"loading a method": 700, "running a method": 300}))
    text = size_report.table_of("cortex-m4", now, before)
    lines = {line[:40].strip(): line[40:].split() for line in text.splitlines()}
    assert lines == {
        "cortex-m4": ["bytes", "change"],
        "loading a method": ["600", "-100"],
        "running a method": ["300", "+0"],
        "everything else": ["100", "+0"],
        "runtime, text + data": ["1,000", "-100"],
    }
    assert size_report.table_of("cortex-m4", now, None).splitlines()[-1].split()[-1] == "-"


def test_the_sources_of_a_revision_are_those_of_the_commit(size_report):
    folder = size_report.sources_of("HEAD")
    assert (folder / "src/cpp/runtime/program.cpp").is_file() and not (folder / ".git").exists()
