"""mypy sees real types behind public names, those of lazy packages and of published paths, and refuses misspelt
ones.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from executorch_py import _lazy
from executorch_py.compat import stubs

ROOT = Path(__file__).resolve().parents[3]

GOOD = """
import executorch_py as et
from executorch_py import pruning
from executorch_py.exir import EdgeCompileConfig, to_edge
from executorch_py.exir.capture._config import ExecutorchBackendConfig
from executorch_py.exir.passes import MemoryPlanningPass
from executorch_py.extension.pybindings.portable_lib import _load_for_executorch

reveal_type(et.to_edge)
reveal_type(to_edge)
reveal_type(et.load("m.pte"))
reveal_type(EdgeCompileConfig().preserve_ops)
reveal_type(ExecutorchBackendConfig().segment_alignment)
reveal_type(MemoryPlanningPass().alignment)
reveal_type(_load_for_executorch("m.pte").method_names())
reveal_type(pruning.Pruner)
"""

BAD = """
import executorch_py as et
from executorch_py.exir import to_egde
from executorch_py.extension.export_util.utils import save_program

et.to_edge_and_lower
et.ExecutorchBackendConfig(segment_alignement=64)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package with its stubs in place, as type checkers see an installed one."""
    pytest.importorskip("mypy", reason="the environment has no type checker (group lint)")
    folder = tmp_path_factory.mktemp("types")
    kept = shutil.ignore_patterns("*.so", "*.cpp", "*.h", "__pycache__", "build")
    shutil.copytree(ROOT / "src/executorch_py", folder / "executorch_py", ignore=kept)
    for part in ("backends", "quantizer"):
        shutil.copytree(ROOT / part, folder / "executorch_py" / part, ignore=kept)
    stubs.write(folder / "executorch_py", ROOT / "src/executorch_py")
    return folder


def mypy(package: Path, code: str) -> str:
    (package / "used.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent", "used.py"]
    return subprocess.run(command, cwd=package, capture_output=True, text=True).stdout


def test_real_types(package):
    told = mypy(package, GOOD)
    assert "error" not in told, told
    notes = [line.split('"', 1)[1] for line in told.splitlines() if "Revealed type" in line]
    assert len(notes) == GOOD.count("reveal_type")
    assert not [note for note in notes if note.startswith("Any")], told


def test_misspelt_names_are_errors(package):
    told = mypy(package, BAD)
    for wrong in ("to_egde", "save_program", "to_edge_and_lower", "segment_alignement"):
        assert [line for line in told.splitlines() if wrong in line and "error" in line], told


@pytest.mark.parametrize("package_file", sorted(path.relative_to(ROOT) for path in ROOT.glob("src/**/__init__.pyi")))
def test_a_stub_lists_what_its_modules_have(package_file):
    """`_lazy` and type checkers read the same lines; each name is there and is the module's own object."""
    import importlib

    file = ROOT / package_file
    name = ".".join(file.parent.relative_to(ROOT / "src").parts)
    module = importlib.import_module(name)
    homes = _lazy.exports(str(file))
    assert homes and set(homes) <= set(dir(module))
    for one in homes:
        assert getattr(module, one) is not None
