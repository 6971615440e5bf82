"""``etpy inspect``: what stands in a program."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from executorch_py.runtime import MethodMetadata, Program, Runtime

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    inspect = commands.add_parser("inspect", help="what stands in a program")
    inspect.add_argument("program")
    inspect.add_argument("--json", action="store_true")
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
    if arguments.json:
        print(json.dumps({"methods": methods, "named_data": named}, indent=2))
        return 0
    print(f"{arguments.program}: {os.path.getsize(arguments.program):,} bytes")
    for name, method in methods.items():
        print(
            f"\nmethod {name}: {method['instructions']} instructions" + (", has state" if method["uses_state"] else "")
        )
        metadata = program.metadata(name)
        for kind in ("input", "output"):
            for index in range(len(method[f"{kind}s"])):
                print(f"  {kind} {index}: {metadata._describe(kind, index)}")
        if sum(method["planned_bytes"]):
            print(f"  planned memory: {' + '.join(f'{size:,}' for size in method['planned_bytes'])} bytes")
        for delegate in method["delegates"]:
            print(f"  delegate: {delegate}")
        for operator in method["operators"]:
            print(f"  operator: {operator}")
    _print_delegation(program, arguments.delegation)
    if named:
        print("\nnamed data")
    for key, nbytes in named.items():
        print(f"  {key}: {nbytes:,} bytes{_dense_size(program, key)}")
    return 0


def _dense_size(program: Program, key: str) -> str:
    """What stands behind the size of a sparse entry (numerics/sparse_bytes.h): the bytes that it stands for."""
    if not key.startswith(("sparse:", "sparse_constant:")):
        return ""
    header = program.read_named_data(key)[:16]
    return f", dense {int.from_bytes(header[8:], 'little'):,}" if header.startswith(b"EPSB") else ""


def _print_delegation(program: Program, whole: bool) -> None:
    """What went to which backend and what did not, as the compiler wrote it into the program."""
    from executorch_py.lowering.delegation_table import KEY, DelegationReport

    if KEY in program.named_data():
        report = DelegationReport.from_bytes(program.read_named_data(KEY))
        parts = (report.summary(), report.table(only_refused=not whole))
        print("\ndelegation\n" + "\n\n".join(part for part in parts if part))
