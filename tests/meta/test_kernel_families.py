"""Builds that leave families of vector kernels out: what is configured then."""

import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder without AMX and dense linear algebra; nothing is compiled."""
    folder = tmp_path_factory.mktemp("build")
    options = [f"-DET_BUILD_{part}=OFF" for part in ("AMX", "COMPILER", "PYTHON", "TOOLS")]
    options.append("-DET_KERNEL_FAMILIES=vec;pointwise;move;attention;amx;matmul;conv;pool;quantized")
    command = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DET_BACKENDS=", *options]
    done = subprocess.run([*command, f"-DPython_EXECUTABLE={sys.executable}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder


def test_families_are_left_out(tree: Path) -> None:
    """No source of theirs is compiled and no table of theirs is registered, so portable kernels take the calls."""
    commands = (tree / "compile_commands.json").read_text()
    assert "kernels/optimized/matmul/gemm.cpp" in commands
    assert "kernels/optimized/linalg/" not in commands
    assert "kernels/optimized/amx/none.cpp" in commands and "kernels/optimized/amx/tiles.cpp" not in commands
    tables = (tree / "generated/kernels/optimized/tables.inc").read_text()
    assert "&matmul::matmul_kernels" in tables
    assert "linalg::" not in tables


def test_a_whole_build_has_each_table() -> None:
    """Every source that defines a table is one of its family's TABLES."""
    for path in (ROOT / "src/cpp/kernels/optimized").glob("*/*.cpp"):
        if f"ET_KERNEL_TABLE({path.stem}," in path.read_text():
            lists = (path.parent / "CMakeLists.txt").read_text()
            assert path.stem in lists.partition("SRCS")[0].split(), path
