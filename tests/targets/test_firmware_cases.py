"""Firmware that checks itself: the test cases of bundled programs, and the ETDump of the runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

import executorch_py as et
from executorch_py.cli import main
from executorch_py.devtools import BundledProgram, Inspector, MethodTestCase, MethodTestSuite, TimeScale
from executorch_py.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
from executorch_py.errors import InvalidArgumentError, InvalidProgramError
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import build, missing_tools
from executorch_py.firmware.project import Project

pytestmark = pytest.mark.mcu


class Two(torch.nn.Module):
    """Two methods; dynamic sizes, a number beside the tensor, and a state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor, scale: float) -> tuple[torch.Tensor, int]:
        return torch.tanh(x) * scale, x.shape[0]

    def add(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


class _Add(torch.nn.Module):
    def __init__(self, model: Two) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model.add(x)


def need(target: str) -> None:
    if missing := missing_tools(TARGETS[target]):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")


@pytest.fixture(scope="module")
def program() -> Any:
    model = Two()
    rows = Dim("rows", min=1, max=6)
    methods = {
        "forward": torch.export.export(model, (torch.randn(3, 4), 2.0), dynamic_shapes=({0: rows}, None)),
        "add": torch.export.export(_Add(model), (torch.randn(3),)),
    }
    return et.to_edge_transform_and_lower(methods).to_executorch()


def bundle(program: Any, change: float = 0.0) -> BundledProgram:
    """Three cases for each method; `change` is added to one element of one expected output."""
    torch.manual_seed(3)
    rows = [torch.randn(n, 4) for n in (6, 1, 3)]
    forward = [MethodTestCase((x, 2.0), (torch.tanh(x) * 2, x.shape[0])) for x in rows]
    forward[1].expected_outputs[0][0, 2] += change
    values = [torch.randn(3) for _ in range(3)]
    add = [MethodTestCase((x,), x * 2) for x in values]  # each case begins with the first state
    return BundledProgram(program, [MethodTestSuite("forward", forward), MethodTestSuite("add", add)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One, so that the host's runtime is compiled once."""
    need("host")
    return tmp_path_factory.mktemp("host")


@pytest.mark.parametrize("method", ["forward", "add"])
def test_a_bundles_cases_run_here(method: str, program: Any, folder: Path) -> None:
    report = write_firmware(bundle(program), folder, "host", method=method)
    assert report.run is not None and report.run.matches, report.run
    assert report.num_cases == 3 and "as expected in 3 test cases" in str(report)
    assert [line for line in report.run.text.splitlines() if line.startswith("case")] == [
        f"case {i}: as expected" for i in range(3)
    ]


def test_another_output_than_expected_is_named(program: Any, folder: Path) -> None:
    report = write_firmware(bundle(program, change=0.01), folder, "host")
    assert report.run is not None and not report.run.matches and "NOT as expected" in str(report)
    assert "case 1: 1 elements differ, first element 2 of output 0\n" in report.run.text
    assert "case 2: as expected" in report.run.text
    report = write_firmware(bundle(program, change=0.01), folder, "host", tolerance=(0.0, 0.02))
    assert report.run is not None and report.run.matches, report.run


@pytest.mark.parametrize("target", ["host", "cortex-m0"])
def test_the_inspector_reads_what_the_target_recorded(target: str, program: Any, folder: Path, tmp_path: Path) -> None:
    need(target)
    report = write_firmware(bundle(program), folder if target == "host" else tmp_path, target, etdump=True)
    assert report.run is not None and report.run.matches and report.etdump is not None, report.run
    assert report.pools.events == report.run.event_bytes > 0
    cycles = {"source_time_scale": TimeScale.CYCLES, "target_time_scale": TimeScale.CYCLES}
    blocks = Inspector(str(report.etdump), **cycles).event_blocks
    runs = [block for block in blocks if block.name == "Execute"]
    assert [block.bundled_input_index for block in runs] == [0, 1, 2]
    for block in runs:
        times = {event.name: event.perf_data.raw[0] for event in block.events if event.perf_data}
        parts = sum(time for name, time in times.items() if name.startswith("native_call"))
        assert 0 < parts < times["Method::execute"]
        assert {"native_call_tanh.out", "native_call_mul.out"} & set(times)
    if report.image is not None:
        assert report.run.instructions >= max(t.perf_data.raw[0] for b in runs for t in b.events if t.perf_data)
        pools = report.pools
        assert 0 <= report.image.data - pools.method - pools.temp - pools.events - sum(pools.arenas) < 200


def test_a_small_event_buffer_is_told_by_how_much(program: Any, folder: Path) -> None:
    report = write_firmware(bundle(program), folder, "host", etdump=True)
    memory = report.folder / "memory.h"
    wanted = f"kEventBytes = {report.pools.events};"
    assert wanted in memory.read_text()
    memory.write_text(memory.read_text().replace(wanted, f"kEventBytes = {report.pools.events - 64};"))
    done = subprocess.run([build(Project(folder, TARGETS["host"]))], capture_output=True, text=True, check=False)
    assert "event buffer lacks 64 bytes\netdump: OutOfResources" in done.stdout and done.returncode > 0


def test_the_command_takes_a_bundle(program: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "model.bpte"
    file.write_bytes(serialize_from_bundled_program_to_flatbuffer(bundle(program)))
    assert main(["firmware", str(file), "-o", str(folder), "--target", "host", "--etdump"]) == 0
    assert "run.etdp" in capsys.readouterr().out
    assert main(["profile", str(folder / "run.etdp"), "--by", "event", "--unit", "cycles"]) == 0
    assert "avg (cycles)" in capsys.readouterr().out


def test_bundles_that_cannot_be_checked(program: Any, tmp_path: Path) -> None:
    whole = bundle(program)
    only_add = BundledProgram(program, whole.method_test_suites[1:])
    with pytest.raises(InvalidArgumentError, match=r"no test case for method 'forward'; it has some for add"):
        write_firmware(only_add, tmp_path, "host")
    no_outputs = BundledProgram(program, [MethodTestSuite("add", [MethodTestCase((torch.ones(3),))])])
    with pytest.raises(InvalidArgumentError, match="test case 0 of method 'add' expects no outputs"):
        write_firmware(no_outputs, tmp_path, "host", method="add")
    with pytest.raises(InvalidArgumentError, match="inputs of its own"):
        write_firmware(whole, tmp_path, "host", inputs=[np.zeros((3, 4), np.float32), 2.0])
    data = serialize_from_bundled_program_to_flatbuffer(whole)
    with pytest.raises(InvalidProgramError, match="no bundled program"):
        write_firmware(data[: len(data) // 3], tmp_path, "host")
    assert not any(tmp_path.iterdir())
