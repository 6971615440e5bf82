"""The arrows between the layers, C++ and Python, and the places that may know a name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import ROOT, load_tool

layers = load_tool("check_layers")
python_layers = load_tool("python_layers")


def test_cpp_includes_point_down():
    assert [*layers.check_core(), *layers.check_kernel_families(), *layers.check_backends()] == []


def test_checker_sees_a_wrong_include(tmp_path, monkeypatch):
    """The check above must be able to fail."""
    (tmp_path / "src/cpp/runtime").mkdir(parents=True)
    (tmp_path / "src/cpp/runtime/bad.cpp").write_text(
        '#include "ir/graph.h"\n#include <torch/torch.h>\n#include <iostream>\n'
    )
    (tmp_path / "backends/mine/runtime").mkdir(parents=True)
    (tmp_path / "backends/mine/runtime/bad.cpp").write_text(
        '#include "passes/pass.h"\n#include "backends/other/schema/x.h"\n'
    )
    (tmp_path / "src/cpp/kernels/optimized/norm").mkdir(parents=True)
    (tmp_path / "src/cpp/kernels/optimized/norm/bad.cpp").write_text('#include "kernels/optimized/conv/winograd.h"\n')
    monkeypatch.setattr(layers, "ROOT", tmp_path)
    monkeypatch.setattr(layers, "CPP", tmp_path / "src/cpp")
    assert len([*layers.check_core()]) == 3
    assert len([*layers.check_kernel_families()]) == 1
    assert len([*layers.check_backends()]) == 2


def test_architecture_page_repeats_the_table():
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    rows = dict(re.findall(r"^\| `src/cpp/(\w+)` \|[^|]*\| ([^|]*?) \|$", page, re.MULTILINE))
    for layer, stated in rows.items():
        if stated != "all above":
            assert tuple(re.findall(r"\w+", stated)) == layers.MAY_INCLUDE[layer], layer


def test_python_imports_point_down_and_not_in_circles():
    assert [*python_layers.check()] == []


WRONG_IMPORTS = {
    "in a function": "def f():\n    from executorch_py.lowering import edge\n",
    "for types": "if TYPE_CHECKING:\n    from executorch_py.lowering.edge import Manager\n",
    "relative": "from ..lowering.edge import Manager\n",
    "of a module": "import executorch_py.lowering.edge\n",
    "through the package": "from executorch_py import Manager\n",
}


def python_tree(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = tmp_path / "src/executorch_py" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("text", WRONG_IMPORTS.values(), ids=WRONG_IMPORTS)
def test_checker_sees_a_wrong_import(tmp_path, text):
    """Wherever an import stands, it is an arrow; through a package it is one to the module that has the name."""
    files = {
        "__init__.py": "from executorch_py import _lazy\n\n__getattr__ = _lazy.attach(__file__)\n",
        "__init__.pyi": "from .lowering.edge import Manager as Manager\n",
        "_lazy.py": "",
        "lowering/__init__.py": "",
        "lowering/edge.py": "class Manager: ...\n",
        "graphs/__init__.py": "",
        "graphs/nodes.py": text,
    }
    (wrong,) = python_layers.check(python_tree(tmp_path, files))
    assert "graphs may not import lowering (lowering.edge)" in wrong, wrong


def test_checker_sees_a_circle_of_imports(tmp_path):
    files = {
        "graphs/__init__.py": "",
        "graphs/a.py": "from .b import x\n",
        "graphs/b.py": "from . import c\n",
        "graphs/c.py": "def f():\n    from executorch_py.graphs.a import y\n",
        "graphs/d.py": "from .a import x\n",
    }
    (wrong,) = python_layers.check(python_tree(tmp_path, files))
    assert wrong.endswith("a circle of imports: graphs.a, graphs.b, graphs.c")


def test_architecture_page_repeats_the_table_of_python_packages():
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `executorch_py\.([\w.]+)` \|[^|]*\| ([^|]*?) \|$", page, re.MULTILINE)
    assert {layer: tuple(re.findall(r"[\w.]+", stated)) for layer, stated in rows} == python_layers.MAY_IMPORT


def test_kernel_families_link_what_they_may_include():
    """The arrows of the table are those of CMake, and no family stands above one that it uses."""
    linked = {}
    for path in (ROOT / "src/cpp/kernels/optimized").glob("*/CMakeLists.txt"):
        match = re.search(r"et_kernel_family\(NAME (\w+)(?:.*?\n  DEPS ([^)]*))?", path.read_text(), re.DOTALL)
        assert match and match[1] == path.parent.name, path
        linked[match[1]] = tuple((match[2] or "").split())
    assert linked == layers.KERNEL_FAMILIES
    order = list(layers.KERNEL_FAMILIES)
    assert all(order.index(low) < order.index(high) for high, lows in layers.KERNEL_FAMILIES.items() for low in lows)


def test_generic_code_names_no_backend():
    backends = {path.name for path in (ROOT / "backends").glob("*/") if (path / "CMakeLists.txt").exists()} - {
        "example"
    }
    word = re.compile("|".join({*backends, "xnnpack"}), re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in (ROOT / "src").rglob("*")
        if path.is_file()
        and path.suffix in (".h", ".cpp", ".py", ".pyi", ".yaml", ".def", ".inc", ".fbs", ".txt", ".md")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if word.search(line)
    ]
    assert found == []


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@pytest.mark.parametrize(("folder", "other"), [("quantizer", "backends"), ("backends", "quantizer")])
def test_quantizers_and_backends_do_not_import_each_other(folder, other):
    found = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / folder).rglob("*.py")
        for module in imported_modules(path)
        if re.search(rf"(^|\.){other}(\.|$)", module)
    ]
    assert found == []


def test_backends_do_not_import_each_other():
    found = []
    for path in (ROOT / "backends").rglob("*.py"):
        own = path.relative_to(ROOT / "backends").parts[0]
        for module in imported_modules(path):
            match = re.match(r"executorch_py\.backends\.(\w+)", module)
            if match and match[1] != own and (ROOT / "backends" / match[1]).is_dir():
                found.append(f"{path.relative_to(ROOT)}: {module}")
    assert found == []
