"""``etpy inspect``: what stands in a program."""

from __future__ import annotations

import argparse
import os
from typing import Any

from executorch_py.runtime import MethodMetadata, Program, Runtime

from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    inspect = commands.add_parser("inspect", help="what stands in a program")
    inspect.add_argument("program")
    add_json(inspect)
    inspect.add_argument(
        "--delegation", action="store_true", help="list the delegated operators, too, not only the rest"
    )
    inspect.set_defaults(run=_inspect)


def _describe(metadata: MethodMetadata) -> dict[str, Any]:
    """A method as plain data."""

    def values(kind: str, count: int) -> list[dict[str, Any]]:
        found = []
        for index in range(count):
            inputs = kind == "input"
            what = metadata.input_kind(index) if inputs else metadata.output_kind(index)
            entry: dict[str, Any] = {
                "kind": what,
                "name": metadata.input_name(index) if inputs else metadata.output_name(index),
            }
            if what == "Tensor":
                info = metadata.input_tensor_meta(index) if inputs else metadata.output_tensor_meta(index)
                entry |= {"dtype": info.dtype().name, "sizes": list(info.sizes()), "dim_order": list(info.dim_order())}
                entry |= {"bounds": [list(bound) for bound in info.bounds()], "planned": info.is_memory_planned()}
            found.append(entry)
        return found

    return {
        "inputs": values("input", metadata.num_inputs()),
        "outputs": values("output", metadata.num_outputs()),
        "instructions": metadata.num_instructions(),
        "operators": sorted(metadata.operators()),
        "delegates": list(metadata.backends()),
        "planned_bytes": list(metadata.planned_buffer_sizes()),
        "uses_state": metadata.uses_state(),
    }


def _inspect(arguments: argparse.Namespace) -> int:
    program = Runtime.get().load_program(arguments.program)
    methods = {name: _describe(program.metadata(name)) for name in sorted(program.method_names)}
    named = dict(program.named_data())
    lines = [f"{arguments.program}: {os.path.getsize(arguments.program):,} bytes"]
    for name, method in methods.items():
        lines += _method_lines(program.metadata(name), method)
    lines += _delegation(program, arguments.delegation)
    if named:
        lines += ["", "named data"]
        lines += [f"  {key}: {nbytes:,} bytes{_dense_size(program, key)}" for key, nbytes in named.items()]
    show(arguments, "\n".join(lines), lambda: {"methods": methods, "named_data": named})
    return 0


def _method_lines(metadata: MethodMetadata, method: dict[str, Any]) -> list[str]:
    state = ", has state" if method["uses_state"] else ""
    lines = ["", f"method {metadata.name()}: {method['instructions']} instructions{state}"]
    for kind in ("input", "output"):
        lines += [f"  {kind} {i}: {metadata._describe(kind, i)}" for i in range(len(method[f"{kind}s"]))]
    if sum(method["planned_bytes"]):
        lines.append(f"  planned memory: {' + '.join(f'{size:,}' for size in method['planned_bytes'])} bytes")
    lines += [f"  delegate: {name}" for name in method["delegates"]]
    return lines + [f"  operator: {name}" for name in method["operators"]]


def _dense_size(program: Program, key: str) -> str:
    """What stands behind the size of a sparse entry (numerics/sparse_bytes.h): the bytes that it stands for."""
    if not key.startswith(("sparse:", "sparse_constant:")):
        return ""
    header = program.read_named_data(key)[:16]
    return f", dense {int.from_bytes(header[8:], 'little'):,}" if header.startswith(b"EPSB") else ""


def _delegation(program: Program, whole: bool) -> list[str]:
    """What went to which backend and what did not, as the compiler wrote it into the program."""
    from executorch_py.lowering.delegation_table import KEY, DelegationReport

    if KEY not in program.named_data():
        return []
    report = DelegationReport.from_bytes(program.read_named_data(KEY))
    parts = (report.summary(), report.table(only_refused=not whole))
    return ["", "delegation", "\n\n".join(part for part in parts if part)]
