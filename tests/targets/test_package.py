"""The CMake package on a microcontroller: components, selections at configure time, and sources without a model."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import TARGETS, write_firmware
from executorch_py.firmware.build import missing_tools

pytestmark = pytest.mark.mcu

ROOT = Path(__file__).resolve().parents[2]
TARGET = TARGETS["cortex-m4"]
FIND = "find_package(executorch_py CONFIG REQUIRED COMPONENTS runtime kernels_cortex_m)"


def run(*command: object, status: int = 0) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode == 0) == (status == 0), (done.stdout + done.stderr)[-4000:]
    return " ".join((done.stdout + done.stderr).split())


def lowered(model: torch.nn.Module, shape: tuple[int, ...], path: Path) -> Path:
    torch.manual_seed(0)
    samples = [(torch.randn(shape),) for _ in range(4)]
    program = quantizer.quantize(model.eval(), samples[0], "static_int8", samples)
    et.to_edge_transform_and_lower(program).to_executorch().save(path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if missing := missing_tools(TARGET):
        pytest.skip(f"{', '.join(missing)} is not installed (make mcu-setup installs it)")
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(320, 5)
    )
    return lowered(network, (1, 1, 8, 5), tmp_path_factory.mktemp("package") / "model.pte")


@pytest.fixture(scope="module")
def project(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware project, whose runtime and kernels the tests exchange."""
    folder = tmp_path_factory.mktemp("firmware")
    write_firmware(model, folder, TARGET.name, measure=False)
    return folder


def installed(model: Path, folder: Path, *options: str) -> Path:
    """The package for Cortex-M4 with the kernels that the model calls."""
    run("cmake", "-S", ROOT, "-B", folder / "build", "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/tests/targets/cortex_m/cortex-m4.cmake",
        f"-DET_SELECT_OPS={model}", *options)  # fmt: skip
    run("cmake", "--build", folder / "build", "--target", "et_sdk")
    run("cmake", "--install", folder / "build", "--component", "sdk", "--prefix", folder / "prefix")
    return folder / "prefix"


@pytest.fixture(scope="module")
def prefix(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(model, tmp_path_factory.mktemp("bare"))


def with_libraries(project: Path, folder: Path, lines: str, libraries: str, registering: str = "") -> Path:
    """A copy of the project that gets its runtime and kernels elsewhere."""
    folder.mkdir()
    lists = (project / "CMakeLists.txt").read_text()
    lists = lists.replace("add_subdirectory(executorch)", lines).replace("PRIVATE executorch)", f"PRIVATE {libraries})")
    lists = lists.replace("${CMAKE_CURRENT_SOURCE_DIR}", str(project)).replace("${EXECUTORCH_LTO}", "OFF")
    start = lists.index("add_executable(firmware ")
    end = lists.index(")", start)
    sources = [name if name == "kernels.cpp" else str(project / name) for name in lists[start:end].split()[1:]]
    lists = f"{lists[:start]}add_executable(firmware {' '.join(sources)}{lists[end:]}"
    (folder / "kernels.cpp").write_text(registering or (project / "kernels.cpp").read_text())
    options = (
        f"target_include_directories(firmware PRIVATE {project})\ntarget_compile_features(firmware PRIVATE cxx_std_17)"
    )
    options += "\ntarget_compile_options(firmware PRIVATE -Os -fno-exceptions -fno-rtti -fno-threadsafe-statics)\n"
    (folder / "CMakeLists.txt").write_text(lists + options)
    return folder


def configure(folder: Path, prefix: Path, *options: str, status: int = 0) -> str:
    return run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
               f"-DPython3_EXECUTABLE={sys.executable}", *options, status=status)  # fmt: skip


def emulate(folder: Path) -> None:
    run("cmake", "--build", folder / "build")
    assert "as on the host" in run(*TARGET.emulator(), folder / "build" / "firmware.elf")


LIBRARIES = " ".join(f"executorch_py::kernels_{name}" for name in ("cortex_m", "quantized", "portable"))


def test_components_run_a_model_on_the_board(project: Path, prefix: Path, tmp_path: Path) -> None:
    folder = with_libraries(project, tmp_path / "firmware", FIND, LIBRARIES)
    configure(folder, prefix)
    emulate(folder)


def test_components_that_clang_compiles_run_it_too(project: Path, model: Path, tmp_path: Path) -> None:
    if shutil.which("clang++") is None:
        pytest.skip("clang++ is not installed (make fuzz installs it)")
    prefix = installed(model, tmp_path, "-DTOOLCHAIN=clang")
    folder = with_libraries(project, tmp_path / "firmware", FIND, LIBRARIES)
    configure(folder, prefix, "-DTOOLCHAIN=clang")
    emulate(folder)


def test_a_component_that_is_not_there_is_named(project: Path, prefix: Path, tmp_path: Path) -> None:
    lines = "find_package(executorch_py CONFIG REQUIRED COMPONENTS runtime extension)"
    said = configure(with_libraries(project, tmp_path / "firmware", lines, ""), prefix, status=1)
    assert "it has no component extension; it has base" in said and "kernels_cortex_m" in said


REGISTER = """#include "chosen/register.h"

#include "kernels.h"
#include "runtime/kernel.h"

et::Error firmware::register_kernels(et::runtime::KernelRegistry& registry) {
  return chosen::register_kernels(registry);
}
"""


def test_a_selection_at_configure_time(project: Path, model: Path, prefix: Path, tmp_path: Path) -> None:
    lines = f"{FIND}\nexecutorch_py_select(chosen FILES {model})"
    folder = with_libraries(project, tmp_path / "firmware", lines, "chosen", REGISTER)
    configure(folder, prefix)
    emulate(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aten::addd.out f16", "ops.txt calls aten::addd.out for float16, for which there is no kernel"),
        ("dim_order_ops::_clone_dim_order.out\net::quantized_linear.out",
         "model.pte calls et::quantized_convolution.out for float32 int32 int8, which is not"),
        ("dim_order_ops::_clone_dim_order.out\net::quantized_convolution.out f32 i32 i16\net::quantized_linear.out",
         "model.pte calls et::quantized_convolution.out for int8, which is not selected"),
    ],
)  # fmt: skip
def test_what_a_selection_lacks_stops_the_configuration(
    text: str, message: str, project: Path, model: Path, prefix: Path, tmp_path: Path
) -> None:
    (tmp_path / "ops.txt").write_text(text)
    lines = f"{FIND}\nexecutorch_py_select(chosen FILES {tmp_path / 'ops.txt'} REQUIRE {model})"
    said = configure(with_libraries(project, tmp_path / "firmware", lines, "chosen", REGISTER), prefix, status=1)
    assert message in said, said


def test_sources_without_a_model_build_alone(project: Path, model: Path, tmp_path: Path) -> None:
    """One folder for several models, with a kernel that none of them calls; no Python and no package at build time."""
    (tmp_path / "more.txt").write_text("aten::add.out f32 i32\n")
    drop = tmp_path / "drop"
    run(sys.executable, "-m", "executorch_py", "select", model, tmp_path / "more.txt", "--sources", drop,
        "--name", "chosen")  # fmt: skip
    assert not list(drop.rglob("model*")) and "find_package" not in (drop / "CMakeLists.txt").read_text()
    lines = f"add_subdirectory({drop} executorch)"
    folder = with_libraries(project, tmp_path / "firmware", lines, "executorch", REGISTER)
    run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja",
        "-DEXECUTORCH_LTO=OFF")  # fmt: skip
    emulate(folder)


MAIN = """#include "base/error.h"
#include "base/name_log.h"
#include "platform/platform.h"

int main() {
  if (et::platform::start() != et::Error::Ok) {
    return 2;
  }
  const uintptr_t outer = et::platform::current().enter_critical();
  et::platform::current().leave_critical(et::platform::current().enter_critical());
  uint32_t mask;
  __asm volatile("mrs %0, primask" : "=r"(mask));
  if (mask != 1) {
    return 3;  // the inner section must not end the outer one
  }
  et::platform::current().leave_critical(outer);
  __asm volatile("mrs %0, primask" : "=r"(mask));
  const char text[] = "a message that is longer than the port's buffer of sixty-four bytes, so it goes in two parts";
  et::platform::current().write(et::LogLevel::kError, text, sizeof(text) - 1);
  et::log_name("through the hook");
  return mask == 0 && et::platform::current().allocate == nullptr ? 0 : 4;
}
"""


def test_the_port_for_bare_metal_keeps_its_contract(project: Path, prefix: Path, tmp_path: Path) -> None:
    lines = "find_package(executorch_py CONFIG REQUIRED COMPONENTS platform platform_semihosting platform_uart)"
    folder = with_libraries(project, tmp_path / "firmware", lines, "executorch_py::platform_semihosting")
    (folder / "main.cpp").write_text(MAIN)
    lists = (folder / "CMakeLists.txt").read_text()
    for name in ("cases.cpp", "report.cpp", "model.cpp", "backends.cpp"):
        lists = lists.replace(f" {project / name}", "")
    lists = lists.replace(f" {project / 'main.cpp'}", f" {folder / 'main.cpp'}").replace(" kernels.cpp", "")
    (folder / "CMakeLists.txt").write_text(lists)
    configure(folder, prefix)
    run("cmake", "--build", folder / "build")
    said = run(*TARGET.emulator(), folder / "build" / "firmware.elf")
    assert "of sixty-four bytes, so it goes in two parts through the hook" in said
