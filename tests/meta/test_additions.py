"""What docs/how-to says about additions is true: each stands in three files, and works in a copy of the tree.

The copy is kept in build/additions, so that a second run compiles what changed. `make test` checks the texts, `make
test-all` builds and runs.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from additions import ADDITIONS, Addition
from repository import ROOT, tracked_files

#: Kernels that the scripts run beside their own.
KERNELS = """
aten::abs.out aten::add.out aten::add.Scalar_out aten::linear.out aten::mul.out aten::mul.Scalar_out
aten::logaddexp2.out et::quantized_div.out et::quantized_linear.out et::quantized_table.out et::squared_relu.out
quantized_decomposed::dequantize_per_tensor.out quantized_decomposed::quantize_per_tensor.out
quantized_decomposed::dequantize_per_channel.out
"""
CASES = pytest.mark.parametrize("addition", ADDITIONS.values(), ids=ADDITIONS)


@CASES
def test_an_addition_takes_three_files_that_its_page_names(addition: Addition) -> None:
    assert 1 <= len(addition.files) <= 3
    page = (ROOT / "docs/how-to" / addition.page).read_text()
    for file in addition.files:
        assert file in page or str(Path(file).parent) in page, f"{addition.page} does not say {file}"


def write(tree: Path, files: dict[str, bytes]) -> None:
    """Writes what differs from what is there."""
    for file, data in files.items():
        path = tree / file
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def changed_files() -> dict[str, bytes]:
    """The files that all additions together change, as they are then."""
    edits = [edit for addition in ADDITIONS.values() for edit in (*addition.edits, *addition.test)]
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file, old, _ in edits if old}
    for addition in ADDITIONS.values():
        addition.apply(texts)
    return {file: text.encode() for file, text in texts.items()}


def test_additions_fit_the_tree(tmp_path: Path) -> None:
    files = changed_files()
    write(tmp_path, files)
    for file, data in files.items():
        if file.endswith(".py"):
            compile(data, file, "exec")
    table = ["--ops", tmp_path / "src/cpp/ops/ops.yaml", "--published", ROOT / "src/cpp/ops/published_ops.txt"]
    command = [sys.executable, ROOT / "tools/gen_tables.py", *table, "--out", tmp_path / "generated"]
    subprocess.run(command, check=True)
    names = (tmp_path / "generated/ops/names.h").read_text()
    for name in ("logaddexp2", "et_squared_relu", "et_quantized_div"):
        assert re.search(rf"\b{name}\[\]", names)


@pytest.fixture(scope="module")
def clone() -> Path:
    """A built copy of the tree with all additions."""
    tree = ROOT / "build/additions"
    write(tree, {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in tracked_files()} | changed_files())
    (tree / "build").mkdir(exist_ok=True)
    (tree / "build/kernels.txt").write_text("\n".join(KERNELS.split()))
    options = ["-DET_BACKENDS=", "-DET_KERNEL_FAMILIES=vec;pointwise", "-DET_INSTRUCTION_SETS=native"]
    options += ["-DET_BUILD_TOOLS=OFF", "-DET_BUILD_TESTS=ON"]
    options += [f"-DPython_EXECUTABLE={sys.executable}", f"-DET_SELECT_OPS={tree / 'build/kernels.txt'}"]
    build = tree / "build/dev"
    for command in (
        ["cmake", "-S", tree, "-B", build, "-G", "Ninja", *options],
        ["ninja", "-C", build, "_core", "et_kernel_test", "et_test_passes"],
    ):
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return tree


def run(tree: Path, *command: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree / "build/dev/python"), "ET_BUILD_DIR": str(tree / "build/dev")}
    result = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]


@CASES
def test_an_addition_works_in_a_clone(clone: Path, addition: Addition) -> None:
    run(clone, sys.executable, "-c", addition.script)


def test_tests_that_are_there_find_an_addition(clone: Path) -> None:
    run(clone, sys.executable, "-m", "pytest", "-q", "tests/ops/every_kernel/test_samples.py", "-k", "logaddexp2]")
    run(clone, str(clone / "build/dev/bin/et_test_passes"), "--gtest_filter=*olden*")
