"""ATen mode: the portable kernels and a user's, compiled on at::Tensor, run a program and agree with eager PyTorch.

The kernels are built here, for a few families of operators, into a tree of their own. A process of its own loads them,
for they would take the place of the runtime's kernels in every test that follows.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from executorch_py import _core

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
TREE = ROOT / "build" / "aten"
OPTIONS = ("PYTHON", "TOOLS", "THREADS", "OPTIMIZED")


def build(tree: Path, targets: list[str], *more: str) -> None:
    """Configures a tree for ATen mode and makes some of it."""
    options = [f"-DET_BUILD_{name}=OFF" for name in OPTIONS] + ["-DET_BUILD_ATEN=ON", "-DET_BUILD_TESTS=ON"]
    options += ["-DET_BACKENDS=", f"-DPython_EXECUTABLE={sys.executable}", *more]
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(tree), "-G", "Ninja", *options],
        ["ninja", "-C", str(tree), *targets],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.fixture(scope="module")
def libraries() -> tuple[Path, Path]:
    """The portable kernels on at::Tensor, and a user's plug-in."""
    build(TREE, ["et_aten", "et_test_aten"], f"-DET_SELECT_OPS={HERE / 'operators.txt'}")
    return TREE / "bin/libet_aten.so", TREE / "bin/libet_test_aten.so"


def run(script: str, *arguments: object) -> str:
    """Runs Python with this package; gives what it prints."""
    packages = str(Path(_core.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([packages, str(ROOT)])}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


MODEL = """
import sys, torch, executorch_py as et
torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 12), torch.nn.Linear(12, 6)
        self.norm = torch.nn.LayerNorm(12)

    def forward(self, x):
        y = self.norm(torch.relu(self.first(x)))
        a, b = torch.split(self.second(y), 3, dim=1)
        return torch.softmax(torch.cat([a * b, torch.sigmoid(a)], 1), -1), (a + b).permute(1, 0)

model = Net().eval()
rows = torch.export.Dim("rows", min=1, max=9)
exported = torch.export.export(model, (torch.randn(4, 8),), dynamic_shapes=({0: rows},))
config = et.ExecutorchBackendConfig(compatible=True)
program = et.to_edge_transform_and_lower(exported).to_executorch(config).buffer
inputs = [torch.randn(n, 8) for n in (4, 1, 9)]
lean = et.load(program)
before = [[t.clone() for t in lean(x)] for x in inputs]
name = et.Runtime.get().load_plugin(sys.argv[1])
assert name == "aten", name
module = et.load(program)
for x, old in zip(inputs, before):
    for ours, eager, same in zip(module(x), model(x), old):
        assert ours.shape == eager.shape
        torch.testing.assert_close(ours, eager)
        torch.testing.assert_close(ours, same)
print("agrees")
"""

USER = """
import sys, numpy as np, torch, executorch_py as et
from executorch_py import _core
from tests.python.runtime.programs import compile_text

RUNTIME = et.Runtime.get()
assert RUNTIME.load_plugin(sys.argv[1]) == "test_aten"
x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)

def method(op, result):
    text = f"method @forward(%x: f32[3, 4]) stage(lowered) {{\\n"
    text += f"  %y = test_aten::{op}.out(%x) : {result}\\n  return %y\\n}}"
    return RUNTIME.load_program(compile_text(text)).load_method("forward")

y = method("softplus", "f32[3, 4]").execute([x])[0]
np.testing.assert_allclose(y, torch.nn.functional.softplus(torch.from_numpy(x)).numpy(), rtol=1e-6)
some = method("positive", "f32[u0:{0..12}]")
for sign in (1, -1, 0):
    found = some.execute([sign * x])[0]
    np.testing.assert_array_equal(found, (sign * x)[sign * x > 0])
wrong = method("wrong", "f32[3, 4]")
try:
    wrong.execute([x])
except et.InvalidArgumentError as error:
    print(error)
"""


def test_portable_kernels_on_aten_tensors(libraries: tuple[Path, Path]) -> None:
    assert run(MODEL, libraries[0]).strip() == "agrees"


def test_a_users_kernel_calls_aten(libraries: tuple[Path, Path]) -> None:
    said = run(USER, libraries[1])
    assert "mat1 and mat2 shapes cannot be multiplied" in said and "test_aten::wrong.out" in said


def test_every_portable_kernel_compiles_on_aten_tensors() -> None:
    """Types only: no code is made."""
    tree = ROOT / "build" / "aten_all"
    build(tree, ["src/cpp/aten/CMakeFiles/et_aten.dir/cmake_pch.hxx.gch"])
    commands = json.loads((tree / "compile_commands.json").read_text())
    kernels = [c for c in commands if "et_aten.dir" in c["command"] and "/kernels/portable/" in c["file"]]
    assert len(kernels) > 60

    def check(entry: dict[str, str]) -> str:
        command = [*shlex.split(entry["command"]), "-fsyntax-only"]
        done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
        return "" if done.returncode == 0 else f"{Path(entry['file']).name}\n{done.stderr[:1000]}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [said for said in pool.map(check, kernels) if said]
    assert not failures, "\n".join(failures)
