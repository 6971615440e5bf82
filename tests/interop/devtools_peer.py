"""Runs inside the environment that has the official package: writes files for developer tools, and reads ours.

    python devtools_peer.py write FOLDER   plain.* and delegated.*: .pte, .etrecord, .etdp, .bin (values), .bpte, .json
                                           (what Inspector says)
    python devtools_peer.py read FOLDER    ours.bpte, ours.etrecord, and ours.etdp where it is: read.json says what
                                           it sees

The package is used as a black box through its public API.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tests.devtools.models, which needs torch only


def write(folder: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.devtools import BundledProgram, Inspector
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    from executorch.exir import to_edge_transform_and_lower
    from executorch.extension.pybindings import portable_lib

    from tests.devtools.models import two_blocks

    model, inputs = two_blocks()
    for name, partitioner in (("plain", None), ("delegated", [XnnpackPartitioner()])):
        path = folder / name
        exported = torch.export.export(model, inputs)
        edge = to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
        program = edge.to_executorch()
        path.with_suffix(".pte").write_bytes(program.buffer)
        bundled = BundledProgram(program, [MethodTestSuite("forward", [MethodTestCase(inputs, model(*inputs))])])
        path.with_suffix(".bpte").write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
        record = program.get_etrecord()
        record.update_representative_inputs(bundled)
        record.save(str(path.with_suffix(".etrecord")))
        module = portable_lib._load_for_executorch(
            str(path.with_suffix(".pte")), enable_etdump=True, debug_buffer_size=200_000
        )
        for _ in range(3):
            module.forward(list(inputs))
        module.write_etdump_result_to_file(str(path.with_suffix(".etdp")), str(path.with_suffix(".bin")))
        path.with_suffix(".json").write_text(json.dumps(told(path, Inspector)))


def told(path: Path, inspector_class: Any) -> dict[str, Any]:
    """What an Inspector says of a dump, as plain data."""
    inspector = inspector_class(
        etdump_path=str(path.with_suffix(".etdp")),
        etrecord=str(path.with_suffix(".etrecord")),
        debug_buffer_path=str(path.with_suffix(".bin")),
    )
    frame = inspector.to_dataframe()
    keep = [
        "event_block_name",
        "event_name",
        "raw",
        "p10 (ms)",
        "p50 (ms)",
        "p90 (ms)",
        "avg (ms)",
        "min (ms)",
        "max (ms)",
    ]
    keep += ["is_delegated_op", "delegate_backend_name", "delegate_debug_identifier", "start_time"]
    gaps = inspector.calculate_numeric_gap("MSE")
    events = [event for block in inspector.event_blocks for event in block.events]  # the frame shortens their operators
    rows = [{key: row[key] for key in keep} for row in frame.to_dict("records")]
    return {
        "columns": list(frame.columns),
        "rows": [row | {"ops": list(event.op_types)} for row, event in zip(rows, events, strict=True)],
        "gaps": [[list(row["runtime_ops"]), list(row["gap"])] for row in gaps.to_dict("records")],
        "lines": sorted({line for row in frame["stack_traces"] for trace in row.values() for line in own_lines(trace)}),
    }


def own_lines(trace: str) -> list[str]:
    return [line.split("line ")[1].split(",")[0] for line in trace.splitlines() if "models.py" in line]


def read(folder: Path) -> None:
    from executorch.devtools import Inspector, parse_etrecord
    from executorch.devtools.bundled_program.serialize import deserialize_from_flatbuffer_to_bundled_program
    from executorch.extension.pybindings import portable_lib

    data = (folder / "ours.bpte").read_bytes()
    bundled = deserialize_from_flatbuffer_to_bundled_program(data)
    case = bundled.method_test_suites[0].test_cases[0]
    record = parse_etrecord(str(folder / "ours.etrecord"))
    told_of: dict[str, Any] = {
        "suites": [one.method_name for one in bundled.method_test_suites],
        "sizes": case.inputs[0].val.sizes,
        "expected": torch.frombuffer(bytearray(case.expected_outputs[0].val.data), dtype=torch.float32).tolist(),
        "handles": {node.name: node.meta.get("debug_handle") for node in record.edge_dialect_program.graph.nodes},
        "handle_map": record._debug_handle_map,
        "has_exported": record.exported_program is not None,
    }
    module = portable_lib._load_for_executorch_from_buffer(bytes(bundled.program))
    x = torch.frombuffer(bytearray(case.inputs[0].val.data), dtype=torch.float32).reshape(case.inputs[0].val.sizes)
    told_of["runs"] = module.forward([x])[0].flatten().tolist()
    portable_lib._load_for_executorch_from_bundled_program(portable_lib._load_bundled_program_from_buffer(data))
    if (folder / "ours.etdp").exists():
        told_of["inspector"] = told(folder / "ours", Inspector)
    (folder / "read.json").write_text(json.dumps(told_of))


def main(arguments: list[str]) -> int:
    warnings.filterwarnings("ignore")
    command, folder = arguments
    {"write": write, "read": read}[command](Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
