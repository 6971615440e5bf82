"""``etpy select``: the kernels and element types that programs call, as ``-DET_SELECT_OPS`` reads them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidProgramError
from executorch_py.runtime import Runtime

from .terminal import add_json

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    select = commands.add_parser(
        "select", help="the kernels and element types that programs call, for a selective build"
    )
    select.add_argument("programs", nargs="+", help=".pte files, lists and tables, whose kernels are put together")
    select.add_argument("-o", "--output", help="the file to write, for -DET_SELECT_OPS: a list, or a table in .yaml")
    select.add_argument(
        "--other", nargs="+", default=[], metavar="NAME", help="kernels that another library has: my_ops::*"
    )
    select.add_argument(
        "--require", nargs="+", default=[], metavar="MODEL", help=".pte files that must find all they call"
    )
    select.add_argument("--sources", metavar="FOLDER", help="write a library for CMake: runtime and selected kernels")
    select.add_argument("--name", default="selected", help="of --sources: NAME::register_kernels of NAME/register.h")
    select.add_argument("--kernels-only", action="store_true", help="of --sources: on the package's runtime")
    add_json(select)
    select.set_defaults(run=_select)


def _select(arguments: argparse.Namespace) -> int:
    from executorch_py.codegen.element_types import told
    from executorch_py.codegen.ops_yaml import TableError
    from executorch_py.codegen.published_yaml import operator_table
    from executorch_py.codegen.select_ops import MissingError, read_selections, require_selected

    backends: set[str] = set()
    paths = [Path(name) for name in arguments.programs]
    for path in paths:
        if path.suffix == ".pte":
            program = Runtime.get().load_program(path)
            backends.update(*(program.metadata(method).backends() for method in program.method_names))
    try:
        selection = read_selections(paths, operator_table(), arguments.other)
        require_selected(selection, [Path(name) for name in arguments.require], operator_table(), arguments.other)
    except MissingError as error:
        raise InvalidProgramError(f"{error}\n(--other names kernels that another library has)") from None
    except TableError as error:
        raise InvalidProgramError(str(error)) from None
    if arguments.sources:
        return _write_sources(arguments, paths)
    kernels = selection.entries
    found = {kernel: told(kernels[kernel] or ()) for kernel in sorted(kernels)}
    if arguments.json:
        text = json.dumps({"kernels": found, "backends": sorted(backends)}, indent=2)
    else:
        is_table = bool(arguments.output) and arguments.output.endswith((".yaml", ".yml"))
        text = "\n".join([*_head(arguments.programs, sorted(backends)), *(_table if is_table else _list)(found)])
    if arguments.output:
        Path(arguments.output).write_text(f"{text}\n", encoding="utf-8")
        print(f"{arguments.output}: {len(found)} kernels; build with -DET_SELECT_OPS={arguments.output}")
    else:
        print(text)
    return 0


def _write_sources(arguments: argparse.Namespace, paths: list[Path]) -> int:
    from executorch_py.firmware.library import write_selected

    count = write_selected(
        Path(arguments.sources), paths, arguments.name, others=arguments.other, has_runtime=not arguments.kernels_only
    )
    print(f"{arguments.sources}: {count} kernels; add_subdirectory({arguments.sources})")
    return 0


def _head(programs: list[str], backends: list[str]) -> list[str]:
    lines = [f"# Kernels of {', '.join(Path(name).name for name in programs)}"]
    return lines + ([f"# Backends: {', '.join(backends)}"] if backends else [])


def _list(kernels: dict[str, list[str]]) -> list[str]:
    return [" ".join([kernel, *dtypes]) for kernel, dtypes in kernels.items()]


def _table(kernels: dict[str, list[str]]) -> list[str]:
    lines = []
    for kernel, dtypes in kernels.items():
        lines += [f"- op: {kernel}", *([f"  dtypes: [{', '.join(dtypes)}]"] if dtypes else [])]
    return lines
