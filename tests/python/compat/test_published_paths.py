"""The table of published paths: every name resolves, what is not here says why, `import executorch` can be this
package.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from executorch_py.compat import published

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("path", sorted(published.MODULES))
def test_every_name_of_a_row_resolves(path):
    module = importlib.import_module(f"executorch_py.{path}")
    for name in published.names_of(path):
        assert getattr(module, name) is not None, name


@pytest.mark.parametrize("path", sorted(published.NOT_HERE))
def test_what_is_not_here_says_why(path):
    inner = path.replace(".", "/")
    files = (f"src/executorch_py/{inner}.py", f"src/executorch_py/{inner}", f"{inner}.py", inner)
    if published.is_module(path) or any((ROOT / file).exists() for file in files):
        return  # some of it is here; the rest of its names are checked against the published package (tests/interop)
    if any(part[:1].isupper() for part in path.split(".")[:-1]):
        return  # a member of a class, of which the published package's are compared there, too
    with pytest.raises(ImportError) as raised:
        try:
            importlib.import_module(f"executorch_py.{path}")
        except ModuleNotFoundError:
            module, _, name = path.rpartition(".")
            getattr(importlib.import_module(f"executorch_py.{module}"), name)
    assert published.NOT_HERE[path] in str(raised.value)


@pytest.mark.parametrize(
    ("module", "wrong", "meant"),
    [
        ("executorch_py", "to_egde", "to_edge"),
        ("executorch_py.exir", "EdgeCompilConfig", "EdgeCompileConfig"),
        ("executorch_py.exir.passes", "MemoryPlaningPass", "MemoryPlanningPass"),
        ("executorch_py.pruning", "Prunr", "Pruner"),
        ("executorch_py.extension.export_util", "save_pte_programs", "save_pte_program"),
        ("executorch_py.backends.xnnpack.partition.xnnpack_partitioner", "XnnpackPartitoner", "XnnpackPartitioner"),
    ],
)
def test_a_misspelt_name_is_told(module, wrong, meant):
    with pytest.raises(AttributeError, match=f"did you mean '{meant}'"):
        getattr(importlib.import_module(module), wrong)


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_install_gives_the_same_modules():
    result = run(
        "from executorch_py import compat; compat.install(); compat.install()\n"
        "import executorch.exir, executorch_py.exir\n"
        "from executorch.extension.pybindings.portable_lib import _load_for_executorch as one\n"
        "from executorch_py.extension.pybindings.portable_lib import _load_for_executorch as other\n"
        "import executorch_py, importlib\n"
        "assert executorch.exir is executorch_py.exir and one is other\n"
        "assert executorch_py.exir.__spec__.name == 'executorch_py.exir', executorch_py.exir.__spec__\n"
        "importlib.reload(executorch_py.exir.dynamic_shape) if hasattr(executorch_py.exir, 'dynamic_shape') else 0\n"
    )
    assert result.returncode == 0, result.stderr


def test_install_is_refused_beside_the_published_package(tmp_path):
    (tmp_path / "executorch").mkdir()
    (tmp_path / "executorch" / "__init__.py").write_text("")
    result = run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom executorch_py import compat\ncompat.install()\n"
    )
    assert "InvalidStateError" in result.stderr
    assert "uninstall" in result.stderr


def test_the_page_is_that_of_the_table():
    from executorch_py.compat.page import page

    assert (ROOT / "docs/how-to/migrate.md").read_text() == page(), (
        "python -m executorch_py.compat.page > docs/how-to/migrate.md"
    )


def test_version_and_module():
    import executorch_py

    for command in (["-m", "executorch_py", "--version"], ["-m", "executorch_py.cli", "--version"]):
        result = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        assert result.stdout.strip() == f"etpy {executorch_py.__version__}", result.stderr
