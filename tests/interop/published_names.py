"""Runs in the environment of the published package and writes, as JSON, what can be imported from it: modules, names,
parameters.

    python published_names.py FILE

Introspection only: `vars` and `inspect.signature`. Folders of tests, examples, third-party sources and of other vendors
are left out.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import sys
import warnings
from typing import Any

LEFT_OUT = {
    "aoti", "apple", "arm", "cadence", "cortex_m", "cuda", "examples", "generated", "include", "lib", "llm", "mediatek",
    "mlx",
    "native", "nxp", "openvino", "qualcomm", "samsung", "share", "test", "tests", "third-party", "vulkan", "webgpu",
}  # fmt: skip


def wrapped(value: Any) -> Any:
    """The function that a decorator wraps without saying so: one of its name among what the wrapper closes over."""
    cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    inner = [one for one in cells if inspect.isfunction(one) and one.__name__ == value.__name__]
    return inner[0] if len(inner) == 1 else value


def parameters(value: Any) -> list[tuple[str, bool, str | None]] | None:
    """Name, whether it can be left out, and the default where it is a plain value; None where Python does not know."""
    try:
        signature = inspect.signature(wrapped(value))
    except (TypeError, ValueError):
        return None
    found = []
    for one in signature.parameters.values():
        plain = isinstance(one.default, (bool, int, float, str, type(None)))
        variadic = one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        if not variadic:
            default = repr(one.default) if plain and one.default is not one.empty else None
            found.append((one.name, one.default is not one.empty, default))
    return found


def methods(value: type) -> dict[str, list[tuple[str, bool, str | None]] | None]:
    """Public members of a class, its bases' too, with the parameters of those that are called; ``self`` is left out."""
    found = {}
    for name in dir(value):
        member = getattr(value, name, None)
        if name.startswith("_") or not hasattr(member, "__module__") or str(member.__module__).startswith("torch"):
            continue
        known = parameters(member) if callable(member) else None
        found[name] = known[1:] if known and known[0][0] in ("self", "cls") else known
    return found


def is_own(where: str | None, module: str) -> bool:
    """Whether a module's name comes from there: from itself, or from the extension module that it shows."""
    package = module.rpartition(".")[0]
    return where == module or (package.endswith(".pybindings") and (where or "").startswith(f"{package}."))


def modules(root: str) -> list[str]:
    """Paths of all modules below the package."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if one not in LEFT_OUT]
        inner = [] if folder == root else os.path.relpath(folder, root).split(os.sep)
        found += [".".join([*inner, one[:-3]]) for one in files if one.endswith(".py") and one != "__init__.py"]
        found += [".".join(inner)] if "__init__.py" in files and inner else []
    return sorted(one for one in found if not one.rpartition(".")[2].startswith(("test_", "setup")))


def main(path: str) -> None:
    """Writes the file."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import executorch

    told: dict[str, Any] = {}
    for name in modules(next(iter(executorch.__path__))):
        try:
            module = importlib.import_module(f"executorch.{name}")
        except (Exception, SystemExit) as error:
            told[name] = {"error": f"{type(error).__name__}: {error}"}
            continue
        own = {
            one: value
            for one, value in vars(module).items()
            if not one.startswith("_") and is_own(getattr(value, "__module__", None), module.__name__)
        }
        told[name] = {
            "names": {
                one: {
                    "parameters": parameters(value) if callable(value) else None,
                    "methods": methods(value) if inspect.isclass(value) else {},
                }
                for one, value in own.items()
            }
        }
    with open(path, "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main(sys.argv[1])
