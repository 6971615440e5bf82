"""The site's API reference has what pages and notebooks import: every public name in Python, every header in C++."""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

from tests.python.docs.test_documented_code import PAGES
from tools import docs_site

ROOT = Path(__file__).resolve().parents[3]
#: Published paths, which the page that maps them explains, and modules that stand for themselves.
ELSEWHERE = ("executorch_py.compat", "executorch_py.backends.xnnpack.partition")
#: Headers under their published paths: they include those of the reference.
PUBLISHED = (
    "runtime/core/",
    "runtime/platform/",
    "extension/threadpool/",
    "extension/data_loader/",
    "extension/kernel_util/",
)


def _python() -> list[ast.Module]:
    """The Python of pages and notebooks; what does not parse is an excerpt."""
    texts = [text for page in PAGES.values() for text in re.findall(r"^```python[^\n]*\n(.*?)^```", page, re.M | re.S)]
    for path in ROOT.glob("notebooks/*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    trees = []
    for text in texts:
        try:
            trees.append(ast.parse(re.sub(r"^\s*[%!].*$", "", text, flags=re.M)))
        except SyntaxError:
            continue
    return trees


def test_names_that_pages_import():
    documented = set()
    for package in map(importlib.import_module, docs_site.PACKAGES):
        documented |= {id(getattr(package, name)) for name in docs_site.public_names(package)}
    trees, missing, seen = _python(), set(), 0
    for node in (node for tree in trees for node in ast.walk(tree)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("executorch_py"):
            continue
        if node.module.startswith(ELSEWHERE):
            continue
        module = importlib.import_module(node.module)
        for name in (alias.name for alias in node.names):
            seen += 1
            try:
                value = getattr(module, name)
            except AttributeError:
                value = importlib.import_module(f"{node.module}.{name}")
            if inspect.ismodule(value):
                known = value.__name__ in docs_site.PACKAGES or value.__name__.startswith(ELSEWHERE)
            else:
                known = id(value) in documented or isinstance(value, str)
            if not known:
                missing.add(f"{node.module}.{name}")
    assert seen > 60 and not missing, sorted(missing)


def test_headers_that_pages_include():
    known = {header for group in docs_site.HEADERS.values() for header in group}
    named = {name for page in PAGES.values() for name in re.findall(r"#include <executorch_py/([^>]+)>", page)}
    assert len(named) > 8
    missing = {
        name
        for name in named - known
        if not name.startswith(PUBLISHED)
        and not set(re.findall(r'#include "([^"]+)"', (ROOT / "src/cpp" / name).read_text())) & known
    }
    assert not missing, sorted(missing)
    assert all((ROOT / "src/cpp" / header).is_file() for header in known)
