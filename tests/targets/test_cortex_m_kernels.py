"""The int8 kernels of kernels/cortex_m in QEMU: outputs of the host, bit for bit, within a budget of instructions.

Instructions are counted with ``-icount shift=5``: they repeat to a few, and they are no cycles.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import executorch_py as et
from benchmarks.microcontrollers import NETWORKS
from executorch_py import quantizer
from executorch_py.codegen.pte_operators import read_pte_operators

pytestmark = pytest.mark.mcu

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Core:
    """A core, the board that has it, and the millions of instructions that an inference may take."""

    toolchain: str
    machine: str
    budgets: tuple[float, ...]  # of each of NETWORKS


CORES = {
    "m55": Core("cmake/toolchains/cortex-m55.cmake", "mps3-an547", (1.7, 0.153, 6.9, 0.34, 0.29)),
    "m4": Core("tests/targets/cortex_m/cortex-m4.cmake", "mps2-an386", (6.6, 0.51, 20.8, 0.55, 0.47)),
    "m3": Core("tests/targets/cortex_m/cortex-m3.cmake", "mps2-an385", (10.53, 0.964, 33.9, 2.85, 3.6)),
}


class OddSizes(nn.Module):
    """Convolutions whose sizes fit no register, and what stands between them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        a, b = (7, 13) if seed % 2 else (10, 67)
        self.first = nn.Conv2d(3, a, (3, 5), stride=(2, 1), padding=(1, 3))
        self.depthwise = nn.Conv2d(a, a, (5, 3), padding=(2, 2), dilation=(1, 2), groups=a)
        self.point = nn.Conv2d(a, b, 1)
        self.strided = nn.Conv2d(b, b, 3, stride=2, padding=1, groups=b)
        self.grouped = nn.Conv2d(b, 2 * b, 3, padding=2, dilation=2, groups=b)
        self.head = nn.Linear(2 * b, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = x + self.depthwise(x)
        x = self.strided(torch.sigmoid(self.point(x)))
        x = nn.functional.avg_pool2d(x * nn.functional.relu6(x), 3, 2, 1)
        return self.head(self.grouped(x).mean((2, 3)))


class Movement(nn.Module):
    """What only moves integers: another order in memory, padding, parts, concatenation; and the largest of windows."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Conv2d(3, 9, 3, padding=1)
        self.second = nn.Conv2d(18, 8, 3, stride=2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.first(x)), 3, 2, 1)
        y = nn.functional.pad(nn.functional.max_pool2d(x, 2, 1), (0, 1, 1, 0))
        x = self.second(nn.functional.pad(torch.cat([x, y], 1), (1, 1, 1, 1)))
        x = self.head(x.permute(0, 2, 3, 1))
        return torch.cat([x[:, 1:], x[:, :-1]], 1).transpose(1, 3)[:, 2]


class Sequences(nn.Module):
    """Convolutions over one dimension: any, depthwise, in groups, with strides and distances between taps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(
            nn.Conv1d(3, 10, 5, stride=2, padding=2), nn.ReLU(), nn.Conv1d(10, 10, 3, padding=2, dilation=2, groups=10),
            nn.ReLU(), nn.Conv1d(10, 66, 1), nn.ReLU(), nn.Conv1d(66, 6, 4, padding=1, groups=3),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Parts(nn.Module):
    """What cuts tensors into parts: along channels and lines, of one size and of several, and into single indices."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 11, 3, padding=1)
        self.head = nn.Linear(7, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b, c = self.first(x).split([4, 3, 4], 1)
        upper, lower, rest = (a + c).split(4, 2)
        rows = torch.cat([lower, upper, rest], 2)[:, :3].unbind(2)
        left, right = (rows[0] + rows[3]).chunk(2, 2)
        return self.head(left + right) + self.head(b.flatten(2)[:, :, :7])


@dataclass(frozen=True)
class Case:
    path: Path
    given: np.ndarray
    expected: np.ndarray


def make_case(module: nn.Module, shape: tuple[int, ...], path: Path) -> Case:
    """An int8 file for firmware with int8 at both ends, an input, and what the host makes of the one for hosts."""
    torch.manual_seed(0)
    samples = [torch.randn(shape) for _ in range(4)]
    edge = et.to_edge_transform_and_lower(quantizer.quantize(module.eval(), (samples[0],), "static_int8", samples))
    config = et.ExecutorchBackendConfig(quantized_io=True)
    apart = bytes(edge.to_executorch(config).buffer)
    config.memory_planning_pass = et.MemoryPlanningPass(overlap_inputs=True)
    edge.to_executorch(config).save(path)
    given = torch.randint(-128, 128, shape, dtype=torch.int8)
    return Case(path, given.numpy(), et.load(apart)(given).numpy())


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("cortex_m_kernels")
    made = {name: make_case(*make(), folder / f"{name}.pte") for name, make in NETWORKS.items()}
    made["movement"] = make_case(Movement(0), (1, 3, 17, 14), folder / "movement.pte")
    made["parts"] = make_case(Parts(), (1, 3, 9, 14), folder / "parts.pte")
    made["sequences"] = make_case(Sequences(), (2, 3, 39), folder / "sequences.pte")
    for seed in (1, 2):
        made[f"odd_{seed}"] = make_case(OddSizes(seed), (1, 3, 17, 14), folder / f"odd_{seed}.pte")
    return made


@pytest.fixture(scope="module", params=CORES)
def board(request: pytest.FixtureRequest, cases: dict[str, Case]) -> tuple[str, Path]:
    """A core, and count_instructions.elf for it with the kernels that the models need."""
    for tool in ("arm-none-eabi-g++", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (make mcu installs it)")
    build = ROOT / "build" / f"mcu-{request.param}"
    build.mkdir(parents=True, exist_ok=True)
    operators = {name for case in cases.values() for name in read_pte_operators(case.path.read_bytes())}
    selection = build / "operators.txt"
    selection.write_text("".join(f"{name}\n" for name in sorted(operators)))
    configure = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
                 f"-DCMAKE_TOOLCHAIN_FILE={ROOT / CORES[request.param].toolchain}",
                 f"-DET_SELECT_OPS={selection}"]  # fmt: skip
    for command in (configure, ["cmake", "--build", build, "--target", "count_instructions"]):
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1200)
        assert result.returncode == 0, (result.stdout + result.stderr)[-3000:]
    return request.param, build / "bin" / "count_instructions.elf"


def run(board: tuple[str, Path], case: Case, folder: Path) -> tuple[np.ndarray, dict[str, int]]:
    """What the board computes, and its counts; operators of one name are added up."""
    core, firmware = board
    given, got = folder / "given.bin", folder / "got.bin"
    case.given.tofile(given)
    arguments = ",".join(f"arg={word}" for word in (firmware.name, case.path, given, got))
    command = ["qemu-system-arm", "-M", CORES[core].machine, "-icount", "shift=5", "-nographic", "-monitor", "none",
               "-serial", "stdio", "-semihosting-config", f"enable=on,target=native,{arguments}",
               "-kernel", str(firmware)]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stdout + result.stderr
    counts: dict[str, int] = {}
    for line in result.stdout.splitlines():
        name, count = line.rsplit(" ", 1)
        counts[name] = counts.get(name, 0) + int(count)
    return np.fromfile(got, np.int8).reshape(case.expected.shape), counts


@pytest.mark.parametrize("name", [*NETWORKS, "movement", "parts", "sequences", "odd_1", "odd_2"])
def test_outputs_are_those_of_the_host(
    board: tuple[str, Path], cases: dict[str, Case], name: str, tmp_path: Path
) -> None:
    got, _ = run(board, cases[name], tmp_path)
    np.testing.assert_array_equal(got, cases[name].expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_inference_stays_within_its_instructions(
    board: tuple[str, Path], cases: dict[str, Case], name: str, tmp_path: Path
) -> None:
    _, counts = run(board, cases[name], tmp_path)
    budget = dict(zip(NETWORKS, CORES[board[0]].budgets, strict=True))[name]
    assert counts["total"] <= budget * 1e6, counts
