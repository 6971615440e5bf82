"""``etpy ops``: operators and their kernels, of this build or of a program."""

from __future__ import annotations

import argparse
import dataclasses
import zipfile
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgumentError
from executorch_py.runtime import Runtime

from .models import import_module, resolve
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    ops = commands.add_parser("ops", help="operators and their kernels: all of them, or what a program needs")
    ops.add_argument(
        "model",
        nargs="?",
        help="a .pte, or an exported program (.pt2); the exit status is 1 when something that it needs is missing",
    )
    ops.add_argument(
        "--kernels", action="append", default=[], help="a library of kernels to load first; may be repeated"
    )
    ops.add_argument(
        "--import",
        action="append",
        default=[],
        dest="imports",
        metavar="MODULE",
        help="for a .pt2: a Python module that defines custom operators; may be repeated",
    )
    ops.add_argument("--select", help="check against a build with ET_SELECT_OPS=this file (list, .yaml or .pte)")
    ops.add_argument("--partitioner", action="append", default=[], help="for a .pt2: package.module:Class")
    ops.add_argument("--markdown", action="store_true", help="all operators as the page docs/reference/operators.md")
    add_json(ops)
    ops.set_defaults(run=_ops)


def _ops(arguments: argparse.Namespace) -> int:
    from executorch_py import operators

    for library in arguments.kernels:
        Runtime.get().load_plugin(library)
    for module in arguments.imports:
        import_module(module)
    if arguments.model is not None:
        return _needs(arguments)
    if arguments.markdown:
        print(operators.operators_page(), end="")
        return 0
    names = {op.kernel: op for op in operators.known_operators().values()}
    rows = [
        (name, names[name].dtype_text if name in names else "", " ".join(dict.fromkeys(k.label for k in kernels)))
        for name, kernels in sorted(operators.registered_kernels().items())
    ]
    width = max(len(row[0]) for row in rows)
    text = "\n".join(f"{name:<{width}}  {dtypes:<16} {libraries}".rstrip() for name, dtypes, libraries in rows)
    show(
        arguments, text, lambda: [dict(zip(("kernel", "dtypes", "implementations"), row, strict=True)) for row in rows]
    )
    return 0


def _needs(arguments: argparse.Namespace) -> int:
    """What a program needs; the exit status is 1 when something is missing."""
    from executorch_py.codegen.ops_yaml import TableError
    from executorch_py.codegen.select_ops import read_selection
    from executorch_py.devtools.requirements import lower_for_requirements, requirements, table_of

    path = Path(arguments.model)
    if path.suffix == ".pte":
        data = path.read_bytes()
    else:
        if path.exists() and not zipfile.is_zipfile(path):
            raise InvalidArgumentError(f"{path} is neither a .pte nor an exported program (torch.export.save)")
        data = lower_for_requirements(path, [resolve(name)() for name in arguments.partitioner])
    try:
        needs = requirements(data, read_selection(Path(arguments.select)) if arguments.select else None)
    except TableError as error:
        raise InvalidArgumentError(str(error)) from None
    show(arguments, table_of(needs), lambda: [_plain(need) for need in needs])
    return 1 if any(need.missing for need in needs) else 0


def _plain(need: Any) -> dict[str, Any]:
    from executorch_py.codegen.element_types import told

    return {**dataclasses.asdict(need), "dtypes": told(need.dtypes), "kernels": dict(need.kernels)}
