"""Modules with published paths, made from the table in ``published.py`` when they are imported.

``start`` appends a finder that Python tries last: only for a module of this package that no file has. ``install`` adds
one that gives the same modules below ``executorch``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["PublishedModules", "install", "start"]

ROOT = "executorch_py"
PUBLISHED_ROOT = "executorch"


def getter(path: str, own: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module with a published path: names of its row, and reasons for those that are not
    here.
    """

    def get(name: str) -> Any:
        from executorch_py import _lazy
        from executorch_py.compat import published

        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {ROOT + '.' + path!r} has no attribute {name!r}")
        if own is not None:
            try:
                return own(name)
            except AttributeError as error:
                missing = error
        row = published.names_of(path)
        if name in row:
            module, theirs = row[name]
            value = importlib.import_module(f"{ROOT}.{module}")
            value = getattr(value, theirs) if theirs else value
            setattr(sys.modules[f"{ROOT}.{path}"], name, value)
            return value
        reason = published.why_not(f"{path}.{name}")
        is_misspelt = f"{path}.{name}" not in published.NOT_HERE and get_close_matches(name, row, 1, cutoff=0.85)
        if reason and not is_misspelt:
            # `from x import y` then looks for a module x.y, and gets the reason as an ImportError (exec_module).
            raise AttributeError(f"executorch_py has no '{path}.{name}': {reason}", name=name)
        raise missing if own is not None else _lazy.unknown_name(f"{ROOT}.{path}", name, row)

    return get


class NamesFirst(ModuleType):
    """A package in which a name of its row stays what it is when the module of the same name is imported
    (``export.export``).
    """

    def __setattr__(self, name: str, value: Any) -> None:
        from executorch_py.compat import published

        if isinstance(value, ModuleType) and name in published.names_of(self.__name__.partition(".")[2]):
            return
        super().__setattr__(name, value)


class PublishedModules(MetaPathFinder, Loader):
    """Finds and makes the modules of the table."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """A module of the table, if ``name`` is one."""
        root, _, inner = name.partition(".")
        if root != ROOT or not inner:
            return None
        from executorch_py.compat import published

        if not published.is_module(inner) and not published.why_not(inner):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> None:
        """The default module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills a module of the table; its values come when they are first read."""
        from executorch_py.compat import published

        path = module.__name__.partition(".")[2]
        if not published.is_module(path):
            raise published.not_here(path, published.why_not(path))
        row = published.names_of(path)
        module.__doc__ = f"The published names of ``{PUBLISHED_ROOT}.{path}``; see the page on moving over."
        module.__dict__.update(
            __all__=sorted(row), __getattr__=getter(path), __dir__=lambda: sorted({*module.__dict__, *row})
        )


class _SameModules(MetaPathFinder, Loader):
    """``executorch.x`` is the module ``executorch_py.x`` itself."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name.partition(".")[0] != PUBLISHED_ROOT:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(ROOT + spec.name[len(PUBLISHED_ROOT) :])
        spec.loader_state = module.__spec__, module.__dict__.get("__path__")
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__, path = spec.loader_state
            if path is not None:
                module.__path__ = path


def start() -> None:
    """Makes the published modules importable below ``executorch_py``."""
    if not any(isinstance(one, PublishedModules) for one in sys.meta_path):
        sys.meta_path.append(PublishedModules())


def install() -> None:
    """Makes ``import executorch`` give this package, where the published one is not installed. A second call does
    nothing.

    Raises:
        InvalidStateError: The published package is installed, and a mixture of the two would fail in odd ways.
    """
    if any(isinstance(one, _SameModules) for one in sys.meta_path):
        return
    from importlib.util import find_spec

    from executorch_py.errors import InvalidStateError

    found = find_spec(PUBLISHED_ROOT)
    if found is not None:
        where = found.origin or ", ".join(found.submodule_search_locations or ())
        raise InvalidStateError(
            f"the published package 'executorch' is installed ({where}); uninstall it (pip uninstall executorch), or "
            f"import from '{ROOT}' instead of '{PUBLISHED_ROOT}'"
        )
    sys.meta_path.insert(0, _SameModules())
