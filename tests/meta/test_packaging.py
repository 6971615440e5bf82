"""The wheel: what is in it, and that it works where only numpy is."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_wheel_works_in_a_clean_environment(tmp_path):
    pytest.importorskip("scikit_build_core", reason="the tools of the build are not in this environment")
    import executorch_py._core

    tree = Path(executorch_py._core.__file__).parents[2]
    if not (tree / "CMakeCache.txt").exists():
        pytest.skip("the package is installed, there is no build tree to pack from")
    command = [sys.executable, ROOT / "tools/wheel_smoke.py", "--keep", tmp_path, "--tree", tree]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(list(tmp_path.glob("executorch_py-*.whl"))) == 1


def test_source_release_has_what_git_has(tmp_path, monkeypatch):
    build = pytest.importorskip("scikit_build_core.build", reason="the tools of the build are not in this environment")
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as tar:
        packed = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    left_out = (".ci/", ".github/", "notebooks/", "tests/")
    assert [name for name in tracked if name not in packed and not name.startswith(left_out)] == []


def test_import_needs_no_torch_and_no_numpy():
    code = "import sys, executorch_py; executorch_py.__dir__(); print({'torch', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stdout + result.stderr
