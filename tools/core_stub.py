"""Writes src/executorch_py/_core.pyi from the extension module that is built: `python tools/core_stub.py --write`.

The stub is the golden of the module's interface: tests/meta/test_core_stub.py compares it with what this program makes,
so that a change of the bindings shows in the stub's diff.
"""

import argparse
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

STUB = Path(__file__).resolve().parents[1] / "src/executorch_py/_core.pyi"
_HEAD = '''"""The C++ core. Internal: executorch_py's modules are the interface. Made by tools/core_stub.py."""

import collections.abc
from typing import Any

'''
_SIGNATURE = re.compile(r"^(\w+)\((.*)\) -> (.+)$")
# What pybind11 writes for its conversions, and what a caller should read.
_TYPES = [
    (r"executorch_py\._core\.", ""),
    (r"typing\.SupportsInt \| typing\.SupportsIndex", "int"),
    (r"typing\.SupportsFloat \| typing\.SupportsIndex", "float"),
    (r"collections\.abc\.Buffer|typing_extensions\.Buffer", "bytes | bytearray | memoryview"),
    (r"collections\.abc\.Callable|Callable", "collections.abc.Callable"),
    (r"\bobject\b", "Any"),
    (r"\b(list|tuple|dict)\b(?!\[)", r"\1[Any, ...]"),
    (r"\blist\[Any, \.\.\.\]", "list[Any]"),
    (r"\bdict\[Any, \.\.\.\]", "dict[Any, Any]"),
]


def _readable(types: str) -> str:
    for pattern, replacement in _TYPES:
        types = re.sub(pattern, replacement, types)
    return types


def _function(function: Any, indent: str, *, static: bool = False) -> list[str]:
    lines = (function.__doc__ or "").strip().splitlines()
    match = _SIGNATURE.match(lines[0]) if lines else None
    if match is None:
        raise SystemExit(f"{function!r}: its documentation does not begin with a signature")
    name, parameters, result = match.groups()
    parameters = re.sub(r"^self: [^,]+", "self", parameters)
    parameters = re.sub(r"= <.*?>(?=,|$)", "= ...", parameters)
    parameters = re.sub(r": (?!object\b)([^,=]+) = None", r": \1 | None = None", parameters)
    text = f"{indent}def {name}({_readable(parameters)}) -> {_readable(result)}:"
    documentation = " ".join(line.strip() for line in lines[1:] if line.strip())
    head = [f"{indent}@staticmethod"] if static else []
    if documentation:
        return [*head, text, f'{indent}    """{documentation}"""', ""]
    return [*head, f"{text} ...", ""]


def _property(name: str, value: property) -> list[str]:
    match = _SIGNATURE.match((value.fget.__doc__ or "").strip().splitlines()[0].replace("(", f"{name}(", 1))
    result = _readable(match.group(3)) if match else "Any"
    lines = ["    @property", f"    def {name}(self) -> {result}: ...", ""]
    if value.fset is not None:
        lines += [f"    @{name}.setter", f"    def {name}(self, value: {result}) -> None: ...", ""]
    return lines


def _class(cls: type) -> list[str]:
    lines = [f"class {cls.__name__}:"]
    if cls.__doc__:
        lines += [f'    """{cls.__doc__.strip().splitlines()[0]}"""', ""]
    members: list[str] = []
    for name, value in sorted(vars(cls).items()):
        if name == "__init__" and (value.__doc__ or "").startswith("__init__(self"):
            members += _function(value, "    ")
        elif name.startswith("_"):
            continue
        elif isinstance(value, property):
            members += _property(name, value)
        elif isinstance(value, staticmethod):
            members += _function(value.__func__, "    ", static=True)
        elif callable(value):
            members += _function(value, "    ")
        else:
            members += [f"    {name}: Any", ""]
    return [*lines, *(members or ["    ...", ""])]


def stub(module: ModuleType) -> str:
    """The text of the stub."""
    lines: list[str] = []
    members = {name: value for name, value in sorted(vars(module).items()) if not name.startswith("_")}
    for value in members.values():
        if isinstance(value, type):
            lines += [*_class(value), ""]
    for value in members.values():
        if not isinstance(value, type):
            lines += _function(value, "")
    return _HEAD + re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).strip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the file instead of comparing")
    arguments = parser.parse_args()
    from executorch_py import _core

    made = stub(_core)
    if arguments.write:
        STUB.write_text(made)
    elif not STUB.exists() or STUB.read_text() != made:
        sys.exit(f"{STUB.name} is not what the extension module has: python tools/core_stub.py --write")


if __name__ == "__main__":
    main()
