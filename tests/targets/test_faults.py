"""Faults on a Cortex-M4: memory that is refused, damaged flash, and a watchdog that resets at any instruction."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import build, missing_tools
from executorch_py.firmware.project import Project

pytestmark = pytest.mark.mcu

PROGRAMS = Path(__file__).parent / "cortex_m"
TARGET = TARGETS["cortex-m4"]


class Adding(torch.nn.Module):
    """Adds what it computes to its state."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(160, 5)
        )
        self.register_buffer("sum", torch.zeros(1, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sum.add_(self.features(x))
        return self.sum * 1.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    if missing := missing_tools(TARGET):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    torch.manual_seed(0)
    samples = [(torch.randn(1, 1, 10, 8),) for _ in range(4)]
    program = quantizer.quantize(Adding().eval(), samples[0], "static_int8", samples)
    folder = tmp_path_factory.mktemp("faults")
    write_firmware(et.to_edge_transform_and_lower(program).to_executorch(), folder, TARGET.name, measure=False)
    (folder / "main.cpp").write_text((PROGRAMS / "faults.cpp").read_text())
    return Project(folder, TARGET)


@pytest.fixture(scope="module")
def said(project: Project) -> str:
    """What faults.cpp prints."""
    done = subprocess.run(
        [*TARGET.emulator(), build(project)], capture_output=True, text=True, timeout=500, check=False
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-500:]
    return text


def number(said: str, name: str) -> int:
    found = re.search(rf"^{name} (\d+)$", said, re.MULTILINE)
    assert found is not None, said[-500:]
    return int(found[1])


def test_each_request_for_memory_may_fail(said: str) -> None:
    assert number(said, "failed loads") >= 10 and number(said, "failed executions") >= 1


def test_each_damaged_byte_is_refused(said: str) -> None:
    assert number(said, "accepted") == 1  # the model that is not damaged


def test_a_reset_at_any_instruction_leaves_what_is_documented(said: str) -> None:
    assert "\nas documented\n" in said
    assert number(said, "resets") >= 700 and number(said, "ticks") > 100_000
    assert 20 <= number(said, "executions kept") <= 500  # resets before and behind the place where state is kept


class TwoParts(Adding):
    """Between the parts that TOSA takes, its state is written in float."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sum.add_(torch.cumsum(self.features(x), 1))
        return self.head(torch.cumsum(self.sum, 1))


def test_a_delegate_that_fails_leaves_what_is_documented(tmp_path: Path) -> None:
    if missing := missing_tools(TARGET):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    torch.manual_seed(0)
    samples = [(torch.randn(1, 1, 10, 8),) for _ in range(4)]
    config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
    program = quantizer.quantize(TwoParts().eval(), samples[0], quantizer.TOSAQuantizer().set_global(config), samples)
    lowered = et.to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner()]).to_executorch()
    write_firmware(lowered, tmp_path, TARGET.name, inputs=samples[0], measure=False)
    (tmp_path / "main.cpp").write_text((PROGRAMS / "failing_delegates.cpp").read_text())
    elf = build(Project(tmp_path, TARGET))
    done = subprocess.run([*TARGET.emulator(), elf], capture_output=True, text=True, timeout=300, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and text.endswith("as documented\n"), text[-500:]
    assert number(text, "delegates") == 2 and number(text, "with state written") == 1


def test_a_model_that_was_changed_after_export_is_not_built(project: Project) -> None:
    model = project.folder / "model.cpp"
    text = model.read_text()
    model.write_text(text.replace("1, ", "2, ", 1))
    done = subprocess.run(["cmake", "--build", project.folder / "build"], capture_output=True, text=True, check=False)
    model.write_text(text)
    assert done.returncode != 0 and "model.cpp is not what `etpy firmware` wrote" in done.stdout + done.stderr


def test_the_verifier_stays_where_nobody_has_verified_the_model(project: Project, tmp_path: Path) -> None:
    for verified, status in (("ON", 0), ("OFF", 1)):
        (tmp_path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(own LANGUAGES CXX)\n"
            f"set(EXECUTORCH_MODEL_IS_VERIFIED {verified})\nadd_subdirectory({project.folder}/executorch executorch)\n"
        )
        done = subprocess.run(
            ["cmake", "-S", tmp_path, "-B", tmp_path / "build", "-DEXECUTORCH_VERIFIER=OFF"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == (status != 0), done.stderr
        assert status == 0 or "nobody has verified the model" in " ".join(done.stderr.split())
