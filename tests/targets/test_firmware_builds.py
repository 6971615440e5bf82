"""One project, built in other ways: without the verifier, by clang, and with a serial line in the debugger's place."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import TARGETS, FirmwareReport, write_firmware
from executorch_py.firmware.build import build, image_of, missing_tools, run
from executorch_py.firmware.project import Project

pytestmark = pytest.mark.mcu

UART = Path(__file__).parent / "cortex_m" / "uart_board.cpp"
TARGET = TARGETS["cortex-m4"]


@pytest.fixture(scope="module")
def lowered() -> et.ExecutorchProgramManager:
    if missing := missing_tools(TARGET):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(160, 5)
    )
    samples = [(torch.randn(1, 1, 10, 8),) for _ in range(4)]
    program = quantizer.quantize(model.eval(), samples[0], "static_int8", samples)
    return et.to_edge_transform_and_lower(program).to_executorch(et.ExecutorchBackendConfig(quantized_io=True))


@pytest.fixture(scope="module")
def report(lowered: et.ExecutorchProgramManager, tmp_path_factory: pytest.TempPathFactory) -> FirmwareReport:
    return write_firmware(lowered, tmp_path_factory.mktemp("builds"), TARGET.name)


@pytest.fixture(scope="module")
def project(report: FirmwareReport) -> Project:
    return Project(report.folder, TARGET)


def symbols(elf: Path) -> str:
    return subprocess.run(["arm-none-eabi-nm", "-C", elf], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def trusting(project: Project) -> Path:
    """The image without the verifier."""
    return build(project, ["-DEXECUTORCH_VERIFIER=OFF"], "build-trusting")


def test_a_core_without_floats_computes_none(tmp_path: Path) -> None:
    """Convolutions, means and linear layers: an operation of floats, or a division of 64 bits, links 0.4 to 0.9 KB."""
    target = TARGETS["cortex-m3"]
    if missing := missing_tools(target):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, groups=8), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(8, 5),
    ).eval()  # fmt: skip
    samples = [(torch.randn(1, 1, 8, 8),) for _ in range(4)]
    program = quantizer.quantize(model, samples[0], "static_int8", samples)
    config = et.ExecutorchBackendConfig(quantized_io=True)
    report = write_firmware(et.to_edge_transform_and_lower(program).to_executorch(config), tmp_path, target.name)
    assert report.run is not None and report.run.matches and not report.run.plain_kernels
    linked = set(re.findall(r"__aeabi_\w+", symbols(tmp_path / "build" / target.program)))
    assert "__aeabi_d2f" in linked, "the library's names of floats"
    assert not [
        name
        for name in sorted(linked)
        if re.match(
            r"__aeabi_(d(add|sub|mul|div|cmp)|f(add|sub|mul|div|cmp)|[iul]+2[fd]|[fd]2(u?[il]z)|u?ldivmod)", name
        )
    ]


def test_an_image_without_the_verifier_is_smaller_and_computes_the_same(
    report: FirmwareReport, project: Project, trusting: Path
) -> None:
    assert report.image is not None and report.run is not None
    found = run(project, trusting)
    assert found.matches and found.load_instructions < report.run.load_instructions
    assert image_of(trusting, TARGET).code < report.image.code - 4000
    verifiers = ("TableVerifier", "::Verifier")
    assert not [name for name in verifiers if name in symbols(trusting)]


def test_an_image_without_the_verifier_refuses_a_model_that_is_damaged_in_flash(trusting: Path, tmp_path: Path) -> None:
    image = bytearray(trusting.read_bytes())
    start = image.index(b"ET12eh00") - 4
    for place in (start + 5, start + 17, start + 300):
        image[place] ^= 0x10
        damaged = tmp_path / "damaged.elf"
        damaged.write_bytes(image)
        image[place] ^= 0x10
        done = subprocess.run([*TARGET.emulator(), damaged], capture_output=True, text=True, timeout=60, check=False)
        said = done.stdout + done.stderr
        assert "the model's checksum differs" in said and "InvalidProgram" in said and done.returncode == 35, said


def test_an_image_with_the_texts_of_errors_computes_the_same(project: Project) -> None:
    elf = build(project, ["-DEXECUTORCH_MESSAGES=ON"], "build-messages")
    assert run(project, elf).matches and "format_known" in symbols(elf)


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_an_image_that_clang_compiles_computes_the_same(
    target: str, lowered: et.ExecutorchProgramManager, tmp_path: Path
) -> None:
    """Without a warning, and where the core has no instruction for what std::atomic does."""
    if shutil.which("clang++") is None:
        pytest.skip("clang++ is not installed (make fuzz installs it)")
    write_firmware(lowered, tmp_path, target, measure=False)
    project = Project(tmp_path, TARGETS[target])
    elf = build(project, ["-DTOOLCHAIN=clang", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"], "build-clang")
    assert run(project, elf).matches
    comment = subprocess.run(["arm-none-eabi-readelf", "-p", ".comment", elf], capture_output=True, text=True)
    assert "clang" in comment.stdout


def replaced(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


def test_a_serial_line_takes_the_place_of_the_debugger(report: FirmwareReport, tmp_path: Path) -> None:
    """Semihosting is off: one instruction of it would be a fault."""
    folder = tmp_path / "uart"
    shutil.copytree(report.folder, folder, ignore=shutil.ignore_patterns("build*"))
    shutil.copy(UART, folder / "board" / "uart.cpp")
    replaced(folder / "CMakeLists.txt", ("board/cortex_m.cpp", "board/cortex_m.cpp board/uart.cpp"))
    replaced(
        folder / "board" / "cortex_m.cpp",
        ('#include "board.h"', '#include "board.h"\n#include "platform/platform.h"\n#include "platform/ports/board.h"'),
        ("semihost(0x04, text);", "for (; *text != 0; ++text) et_board_put(*text);"),
        ("const uint32_t arguments[2] = {0x20026, static_cast<uint32_t>(status)};",
         "et::platform::current().write(et::LogLevel::kInfo, status == 0 ? \"status 0\" : \"status other\", 8);"),
        ("semihost(0x20, arguments);", "et::platform::current().abort();"),
    )  # fmt: skip
    replaced(
        folder / "main.cpp",
        ('#include "trace.h"', '#include "platform/platform.h"\n#include "trace.h"'),
        ("int main() {", "int main() {\n  if (et::platform::start() != et::Error::Ok) return 1;\n "),
    )
    elf = build(Project(folder, TARGET), ["-DEXECUTORCH_PORT=uart"])
    command = ["qemu-system-arm", "-M", TARGET.machine, "-nographic", "-monitor", "none", "-serial", "stdio",
               "-no-reboot", "-icount", "shift=5", "-kernel", str(elf)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert re.search(r"output 0: as on the host\n.*status 0\r?\n", done.stdout, re.DOTALL), done.stdout + done.stderr
    assert "fault" not in done.stdout
