"""Public names that are loaded on first use. A package's ``__init__.pyi`` is the one table of them.

The stub says, for type checkers, where each name comes from: ``from .lowering.edge import to_edge as to_edge``. The
same lines are read here, so that the two cannot differ.

Example:
    >>> __getattr__, __dir__, __all__ = attach(__name__, __file__)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["attach", "unknown_name"]

_IMPORT = re.compile(r"^from ([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def exports(file: str) -> dict[str, str]:
    """Public name -> module, relative to the package, that has it.

    ``from . import x`` stands for a module of the package.
    """
    with open(os.path.join(os.path.dirname(file), "__init__.pyi"), encoding="utf-8") as stub:
        text = stub.read()
    homes = {}
    for module, several, one in _IMPORT.findall(text):
        for name in (several or one).split(","):
            if name.strip():
                homes[name.split(" as ")[-1].strip()] = module
    return homes


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names its ``__init__.pyi`` lists."""
    homes = exports(file)

    def get(name: str) -> Any:
        module = homes.get(name)
        if module is None:
            raise unknown_name(package, name, homes)
        if module == ".":
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(module, package), name)
        setattr(sys.modules[package], name, value)  # the next access does not come here
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names, sorted(homes)


def unknown_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that ``module`` has not, with the one that was meant."""
    import difflib

    close = difflib.get_close_matches(name, [one for one in known if not one.startswith("_")], 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)
