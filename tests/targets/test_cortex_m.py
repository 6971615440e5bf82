"""The runtime, the portable kernels and a small model on a Cortex-M55, in QEMU, against the host and eager PyTorch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py.codegen.pte_operators import read_pte_operators

pytestmark = pytest.mark.mcu

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mcu"
QEMU = [
    "qemu-system-arm",
    "-M",
    "mps3-an547",
    "-cpu",
    "cortex-m55",
    "-nographic",
    "-monitor",
    "none",
    "-serial",
    "stdio",
]


class KeywordSpotter(torch.nn.Module):
    """A small convolutional network with what such networks use: conv, depthwise conv, pooling, linear, softmax."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.ReLU6(),
            torch.nn.Conv2d(8, 12, 1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.classifier = torch.nn.Linear(12, 4)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.classifier(self.features(spectrogram).flatten(1)), 1)


def run(command: list[object], what: str) -> str:
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600, check=False)
    output = result.stdout + result.stderr
    assert result.returncode == 0, f"{what} ended with {result.returncode}:\n{output[-3000:]}"
    return output


class InverseErf(torch.nn.Module):
    """A function whose kernel takes more temporary memory for many elements than the target has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erfinv(x)


Case = tuple[Path, torch.Tensor, torch.Tensor]  # the `.pte` file, its input and eager's output


def save(module: torch.nn.Module, x: torch.Tensor, path: Path, compatible: bool = False) -> Case:
    config = et.ExecutorchBackendConfig(compatible=compatible)
    et.to_edge_transform_and_lower(torch.export.export(module.eval(), (x,))).to_executorch(config).save(path)
    return path, x, module(x).detach()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Case:
    spectrogram = torch.linspace(-1, 1, 49 * 10).sin().reshape(1, 1, 49, 10)
    path = tmp_path_factory.mktemp("cortex_m") / "model.pte"
    # One vocabulary that both sides have: no fused operators of the host's kernel libraries.
    return save(KeywordSpotter(), spectrogram, path, compatible=True)


@pytest.fixture(scope="module")
def inverse(tmp_path_factory: pytest.TempPathFactory) -> Case:
    x = torch.linspace(-0.9, 0.9, 128 * 128).reshape(128, 128)
    return save(InverseErf(), x, tmp_path_factory.mktemp("cortex_m") / "inverse.pte")


@pytest.fixture(scope="module")
def firmware(model: Case, inverse: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cortex_m_runner.elf with the kernels that the models need."""
    for tool in ("arm-none-eabi-g++", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (make mcu installs it)")
    operators = {**read_pte_operators(model[0].read_bytes()), **read_pte_operators(inverse[0].read_bytes())}
    selection = tmp_path_factory.mktemp("cortex_m") / "operators.txt"
    selection.write_text("".join(f"{name} {' '.join(sorted(dtypes))}\n" for name, dtypes in operators.items()))
    configure = ["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja",
                 f"-DPython_EXECUTABLE={sys.executable}",
                 f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/toolchains/cortex-m55.cmake'}",
                 f"-DET_SELECT_OPS={selection}"]  # fmt: skip
    run(configure, "cmake")
    run(["cmake", "--build", BUILD, "--target", "cortex_m_runner"], "the build")
    return BUILD / "bin" / "cortex_m_runner.elf"


def emulate(firmware: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    config = "enable=on,target=native," + ",".join(f"arg={a}" for a in (firmware.name, *arguments))
    return subprocess.run(
        [*QEMU, "-semihosting-config", config, "-kernel", str(firmware)],
        capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_outputs_are_those_of_the_host(firmware: Path, model: Case, tmp_path: Path) -> None:
    path, spectrogram, eager = model
    (tmp_path / "input.bin").write_bytes(spectrogram.numpy().tobytes())
    result = emulate(firmware, path, tmp_path / "input.bin", "--", tmp_path / "output.bin")
    assert result.returncode == 0, result.stdout + result.stderr
    target = np.fromfile(tmp_path / "output.bin", np.float32).reshape(eager.shape)
    host = et.load(path)(spectrogram).numpy()
    np.testing.assert_allclose(target, host, rtol=2e-6, atol=1e-7)  # exp() is the C library's on both sides
    np.testing.assert_allclose(target, eager.numpy(), rtol=1e-5, atol=1e-6)


def test_a_kernel_does_without_temporary_memory_that_is_not_there(
    firmware: Path, inverse: Case, tmp_path: Path
) -> None:
    path, x, eager = inverse
    (tmp_path / "input.bin").write_bytes(x.numpy().tobytes())
    result = emulate(firmware, path, tmp_path / "input.bin", "--", tmp_path / "output.bin")
    assert result.returncode == 0, result.stdout + result.stderr
    target = np.fromfile(tmp_path / "output.bin", np.float32).reshape(eager.shape)
    np.testing.assert_allclose(target, eager.numpy(), rtol=1e-6, atol=1e-7)


def test_a_damaged_model_is_an_error_and_not_a_fault(firmware: Path, model: Case, tmp_path: Path) -> None:
    damaged = bytearray(model[0].read_bytes())
    damaged[:4] = b"\xff\xff\xff\x7f"  # root table far outside the file
    (tmp_path / "damaged.pte").write_bytes(damaged)
    result = emulate(firmware, tmp_path / "damaged.pte", "--")
    assert result.returncode == 0x23, result.stdout + result.stderr  # InvalidProgram
