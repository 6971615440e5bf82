#!/usr/bin/env python3
"""Check the arrows between the Python packages, and that no imports of theirs go round in a circle.

An arrow is an import, wherever it stands: at the top of a file, in a function, under TYPE_CHECKING. One through a
package's ``__init__`` counts as one of the module that has the name. The names of some packages are loaded on first use
(``_lazy.py``): such an ``__init__`` and the stub beside it may name modules of any layer. Arrows to and from a lazy
package count in circles.

    tools/python_layers.py            # prints "file:line: reason" for each wrong import; status 1 if there is any
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "executorch_py"

#: Folder -> dotted name of the package that lies in it.
ROOTS = {"src/executorch_py": PACKAGE, "backends": f"{PACKAGE}.backends", "quantizer": f"{PACKAGE}.quantizer"}

# Layer -> layers it may import beside itself, each of which stands above it here. A layer is a package, with what lies
# in it unless that has a row of its own, or a module of the root. docs/ARCHITECTURE.md repeats the table for people.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "foundation": ("errors",),
    "codegen": (),
    "operators": ("codegen",),
    "runtime": ("errors", "foundation"),
    "training": ("errors", "foundation", "runtime"),
    "graphs": ("errors", "foundation"),
    "exir": ("errors", "foundation", "graphs"),
    "export.dialect": ("errors", "foundation", "codegen", "operators", "graphs"),
    "export.functional": ("errors", "graphs", "export.dialect"),
    "export.decompose": ("errors", "operators", "graphs", "export.dialect"),
    "export.importer": ("errors", "foundation", "graphs", "export.dialect"),
    "export": ("errors", "foundation", "operators", "graphs", "exir", "export.dialect"),
    "devtools.etrecord": ("errors", "foundation", "exir", "export.dialect"),
    "lowering": (
        "errors", "foundation", "codegen", "graphs", "exir", "devtools.etrecord",
        "export.dialect", "export.functional", "export.decompose", "export.importer",
    ),
    "devtools": (
        "errors", "foundation", "codegen", "operators", "runtime", "graphs", "exir", "export.importer",
        "devtools.etrecord", "lowering",
    ),
    "pruning": ("errors", "foundation", "runtime", "graphs", "lowering"),
    "quantizer.spec": ("errors", "graphs"),
    "quantizer.rules": ("errors", "foundation", "graphs", "export.decompose", "quantizer.spec"),
    "quantizer.calibration": ("errors", "graphs", "quantizer.spec", "quantizer.rules"),
    "quantizer.torch_models": ("errors", "graphs"),
    "quantizer": ("errors", "quantizer.spec", "quantizer.rules", "quantizer.calibration"),
    "quantizer.flow": (
        "errors", "graphs", "export.functional",
        "quantizer.spec", "quantizer.rules", "quantizer.calibration", "quantizer",
    ),
    "quantizer.search": (
        "errors", "foundation", "runtime", "graphs", "lowering", "devtools",
        "quantizer.spec", "quantizer.rules", "quantizer.calibration", "quantizer.flow",
    ),
    "recipes": (
        "errors", "foundation", "runtime", "graphs", "exir", "lowering", "devtools", "quantizer.spec", "quantizer.flow"
    ),
    "backends": ("errors", "foundation", "codegen", "graphs", "exir", "export.importer", "lowering", "recipes"),
    "compat": ("errors", "foundation", "runtime", "lowering"),
    "testing": ("errors", "runtime", "graphs", "lowering", "devtools"),
    "firmware": ("errors", "foundation", "codegen", "runtime", "devtools"),
    "native": ("errors", "foundation", "codegen", "runtime", "firmware"),
    "cli": (
        "errors", "foundation", "codegen", "operators", "runtime", "graphs", "exir", "lowering", "devtools",
        "quantizer.flow", "firmware", "native",
    ),
}  # fmt: skip

#: Modules of the root that are one layer together.
TOGETHER: dict[str, tuple[str, ...]] = {
    "foundation": (
        "_arguments", "_lazy", "_logging", "_shown", "element_types", "operator_facts", "pytree", "sdk", "text_table"
    ),
    "runtime": ("_core_shown", "method_metadata", "runtime", "module"),
    "cli": ("cli", "__main__", "programs"),
}  # fmt: skip

#: Modules that a build makes.
MADE = ("_core", "_element_types", "_operator_rows")


@dataclass
class Module:
    """A module or package of ours.

    Attributes:
        name: Dotted, below the root package; "" for the root's own ``__init__``.
        path: Its file.
        is_package: Whether the file is an ``__init__``.
        is_lazy: Whether it is an ``__init__`` whose names are loaded on first use.
        imports: Name of an imported module -> line of the first import of it.
    """

    name: str
    path: Path
    is_package: bool
    is_lazy: bool = False
    imports: dict[str, int] = field(default_factory=dict)

    @property
    def layer(self) -> str:
        """The row of the table that it belongs to; "" for a lazy package, "?" when no row fits."""
        if self.is_lazy:
            return ""
        for layer, names in TOGETHER.items():
            if self.name in names:
                return layer
        parts = self.name.split(".")
        fits = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((name for name in fits if name in MAY_IMPORT), "?")


class Modules:
    """All modules of a tree, with their imports resolved."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.by_name: dict[str, Module] = {}
        self._trees: dict[str, ast.Module] = {}
        self._names: dict[str, dict[str, str]] = {}
        for folder, package in ROOTS.items():
            for path in sorted((root / folder).rglob("*.py")):
                self._add(path, [*package.split(".")[1:], *path.relative_to(root / folder).with_suffix("").parts])
        for module in self.by_name.values():
            for node in ast.walk(self._trees[module.name]):
                for target in self._targets(module, node):
                    if target != module.name:
                        module.imports.setdefault(target, node.lineno)  # type: ignore[attr-defined]

    def circles(self) -> list[list[str]]:
        """The sets of modules that import each other round in a circle (Tarjan's strongly connected components)."""
        index: dict[str, int] = {}
        low: dict[str, int] = {}
        stack: list[str] = []
        found: list[list[str]] = []

        def visit(name: str) -> None:
            index[name] = low[name] = len(index)
            stack.append(name)
            for other in self.by_name[name].imports:
                if other not in index:
                    visit(other)
                    low[name] = min(low[name], low[other])
                elif other in stack:
                    low[name] = min(low[name], index[other])
            if low[name] == index[name]:
                at = stack.index(name)
                if len(stack) > at + 1:
                    found.append(sorted(stack[at:]))
                del stack[at:]

        for name in self.by_name:
            if name not in index:
                visit(name)
        return found

    def _add(self, path: Path, parts: list[str]) -> None:
        is_package = parts[-1] == "__init__"
        module = Module(".".join(parts[:-1] if is_package else parts), path, is_package)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module.is_lazy = is_package and any(
            isinstance(node, ast.Name) and node.id == "__getattr__" and isinstance(node.ctx, ast.Store)
            for node in ast.walk(tree)
        )
        stub = path.with_suffix(".pyi")
        if module.is_lazy and stub.exists():
            tree.body += ast.parse(stub.read_text(encoding="utf-8")).body
        self.by_name[module.name] = module
        self._trees[module.name] = tree

    def _targets(self, module: Module, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name.removeprefix(f"{PACKAGE}.")
                if alias.name.startswith(f"{PACKAGE}.") and name in self.by_name:
                    yield name
        elif isinstance(node, ast.ImportFrom):
            source = self._source(module, node)
            for alias in node.names if source is not None else ():
                target = self._home(source or "", alias.name)
                if target is not None:
                    yield target

    def _source(self, module: Module, node: ast.ImportFrom) -> str | None:
        """The module that a ``from`` names, below the root package; None for one that is not ours."""
        if not node.level:
            first, _, rest = (node.module or "").partition(".")
            return rest if first == PACKAGE else None
        parts = module.name.split(".") if module.name else []
        up = node.level - module.is_package
        return ".".join([*(parts[:-up] if up else parts), *((node.module or "").split(".") if node.module else [])])

    def _home(self, source: str, name: str) -> str | None:
        """The module behind ``from source import name``: the one that has the name where ``source`` is a package."""
        inner = f"{source}.{name}".lstrip(".")
        if inner in self.by_name:
            return inner
        if (name in MADE and not source) or source in MADE:
            return None
        package = self.by_name.get(source)
        if package is None or not package.is_package:
            return source if package is not None else None
        return self._given(package).get(name, source)

    def _given(self, package: Module) -> dict[str, str]:
        """Names that a package's ``__init__`` takes from elsewhere -> the modules that have them."""
        if package.name not in self._names:
            given = self._names[package.name] = {}
            for node in ast.walk(self._trees[package.name]):
                if isinstance(node, ast.ImportFrom) and (source := self._source(package, node)) is not None:
                    for alias in node.names:
                        home = self._home(source, alias.name)
                        if home is not None:
                            given[alias.asname or alias.name] = home
        return self._names[package.name]


def check(root: Path = ROOT) -> Iterator[str]:
    """What is wrong in a tree: imports that the table has not, and circles."""
    rows = list(MAY_IMPORT)
    for layer, allowed in MAY_IMPORT.items():
        for other in allowed:
            if other not in rows[: rows.index(layer)]:
                yield f"tools/python_layers.py: the row of {layer} names {other}, which has no row above it"
    modules = Modules(root)
    for module in modules.by_name.values():
        where = module.path.relative_to(root).as_posix()
        if module.layer == "?":
            yield f"{where}:1: '{module.name}' is in no layer; add it to tools/python_layers.py with its reason"
            continue
        for name, line in module.imports.items():
            other = modules.by_name[name]
            if module.layer and other.layer not in ("", module.layer, *MAY_IMPORT[module.layer]):
                yield f"{where}:{line}: {module.layer} may not import {other.layer} ({name})"
    for circle in modules.circles():
        first = modules.by_name[circle[0]].path.relative_to(root).as_posix()
        yield f"{first}:1: a circle of imports: {', '.join(circle)}"


def main() -> int:
    wrong = [*check()]
    print("\n".join(wrong) if wrong else "python layers: every import points down, and there is no circle")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
