"""ETRecords as files: a zip whose entries have the published names.

Graphs stand in torch's own JSON, to which each node's debug handle is added. What the published package writes is read:
its names of Edge operators become torch's.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

import torch
from torch import fx
from torch._export.serde.serialize import SerializedArtifact, deserialize, serialize
from torch.export import ExportedProgram

import executorch_py.export.dialect.edge  # noqa: F401  its verifier reads what "EDGE" is
from executorch_py.errors import InvalidArgumentError, InvalidProgramError, NotSupportedError
from executorch_py.exir.backend.utils import nodes_with_bodies

__all__ = ["Record", "read_record", "write_record"]

_IDENTIFIER = "ETRECORD_V0"
_EDGE = "edge_dialect_exported_program"
_EDGE_OPERATORS = "executorch.exir.dialects.edge.ops."
#: Version of the JSON that the published package writes and reads, and keys of later ones, which say nothing that is
#: needed.
_SCHEMA_VERSION = {"major": 5, "minor": 4}
_LATER_KEYS = {
    "torch_version",
    "guards_code",
    "sym_float_values",
    "treespec_namedtuple_fields",
    "forward_arg_names",
    "kind",
    "is_hop_single_tensor_return",
}
#: Entries of JSON, and the attributes of the record that they hold.
_MAPS = {
    "debug_handle_map": "_debug_handle_map",
    "delegate_map": "_delegate_map",
    "instruction_id_to_num_outs_map": "_instruction_id_to_num_outs_map",
}
#: Entries of tensors, as torch.save writes them.
_TENSORS = {"reference_outputs": "_reference_outputs", "representative_inputs": "_representative_inputs"}


class Record(Protocol):
    """What is written; record.py has the class."""

    exported_program: ExportedProgram | None
    export_graph_id: int | None
    graph_map: dict[str, ExportedProgram]
    instructions: Any

    def edge_programs(self) -> dict[str, ExportedProgram]:
        """Method -> Edge program."""


_REMEDY = "Write one with get_etrecord().save(path) of what to_executorch() returns"


def write_record(record: Record, path: str | os.PathLike[str] | BinaryIO) -> None:
    """Writes a whole record."""
    programs = {f"{_EDGE}/{name}": program for name, program in record.edge_programs().items()} | record.graph_map
    if record.exported_program is not None:
        programs = {"exported_program": record.exported_program} | programs
    handles = {name: _handles(program) for name, program in programs.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        # Empty in the published package's files, which may have no further entries: our own facts stand in it.
        archive.writestr(_IDENTIFIER, json.dumps({"instructions": record.instructions, "handles": handles}))
        for name, program in programs.items():
            _write_program(archive, name, program)
        for entry, attribute in _MAPS.items():
            archive.writestr(entry, json.dumps(getattr(record, attribute) or {}))
        for entry, attribute in _TENSORS.items():
            if (value := getattr(record, attribute)) is not None:
                stream = io.BytesIO()
                torch.save(value, stream)
                archive.writestr(entry, stream.getvalue())
        if record.export_graph_id is not None:
            archive.writestr("export_graph_id", json.dumps(record.export_graph_id))


def read_record(path: str) -> dict[str, Any]:
    """The arguments of the record in a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(path, archive)
    except zipfile.BadZipFile as error:
        with open(path, "rb") as file:
            found = "is cut off or damaged" if file.read(2) == b"PK" else "is no ETRecord"
        raise InvalidProgramError(f"{path} {found}: {error}. {_REMEDY}") from None


def _read(path: str, archive: zipfile.ZipFile) -> dict[str, Any]:
    names = archive.namelist()
    if _IDENTIFIER not in names:
        other = next((one for one in names if one.startswith("ETRECORD_")), None)
        found = f"is an ETRecord of the version {other}" if other else "is a zip, and no ETRecord"
        raise InvalidProgramError(f"{path} {found}; this version reads {_IDENTIFIER}. {_REMEDY}")
    missing = [one for one in _MAPS if one not in names]
    if missing:
        raise InvalidProgramError(f"the ETRecord {path} has no {', '.join(missing)}. {_REMEDY}")
    try:
        maps = {attribute: _numbered(json.loads(archive.read(entry))) for entry, attribute in _MAPS.items()}
        own = json.loads(archive.read(_IDENTIFIER) or b"{}")
        graph_id = json.loads(archive.read("export_graph_id")) if "export_graph_id" in names else None
        graphs = [one.removesuffix("_state_dict") for one in names if one.endswith("_state_dict")]
        programs = {name: _read_program(archive, name, own.get("handles", {}).get(name)) for name in graphs}
    except (ValueError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidProgramError(f"the ETRecord {path} is damaged: {error}. {_REMEDY}") from None
    except Exception as error:  # of torch's reader, whose kinds of failure are its own
        raise NotSupportedError(
            f"a graph of the ETRecord {path} cannot be read: {error}. Import what defines its operators first"
        ) from error
    edge = {name.partition("/")[2]: program for name, program in programs.items() if name.startswith(f"{_EDGE}/")}
    others = {name: one for name, one in programs.items() if "/" in name and not name.startswith(f"{_EDGE}/")}
    return {
        "exported_program": programs.get("exported_program"),
        "export_graph_id": graph_id,
        "edge_dialect_program": edge or None,
        "graph_map": others,
        **maps,
        **{attribute: _tensors(archive, entry) for entry, attribute in _TENSORS.items() if entry in names},
        "instructions": own.get("instructions"),
    }


def _numbered(methods: dict[str, Any]) -> dict[str, dict[int, Any]]:
    """JSON has strings for the numbers of instructions and of delegates' steps, and lists for tuples."""
    return {name: {int(key): _of_delegate(value) for key, value in found.items()} for name, found in methods.items()}


def _of_delegate(value: Any) -> Any:
    if not isinstance(value, dict) or "delegate_map" not in value:
        return value
    steps = value["delegate_map"]
    return value | {"delegate_map": {int(key) if key.isdigit() else key: tuple(steps[key]) for key in steps}}


def _tensors(archive: zipfile.ZipFile, entry: str) -> Any:
    return torch.load(io.BytesIO(archive.read(entry)), weights_only=True)


def _by_name(program: ExportedProgram) -> Iterator[tuple[tuple[int, str], fx.Node]]:
    """The nodes, bodies included, by the number of their graph and their name.

    A graph that was read has more nodes than the one that was written: an element for each result that nothing uses.
    """
    numbers: dict[fx.Graph, int] = {}
    for node in nodes_with_bodies(program.graph_module):
        yield (numbers.setdefault(node.graph, len(numbers)), node.name), node


def _handles(program: ExportedProgram) -> list[tuple[int, str, Any]]:
    """Graph, name and debug handle of each node that has one."""
    found = ((number, name, node.meta.get("debug_handle")) for (number, name), node in _by_name(program))
    return [one for one in found if one[2] is not None]


def _write_program(archive: zipfile.ZipFile, name: str, program: ExportedProgram) -> None:
    delegated = [node.name for node in nodes_with_bodies(program.graph_module) if _is_delegate(node)]
    if delegated:
        raise InvalidArgumentError(
            f"'{name}' has calls of compiled parts ({', '.join(delegated)}), which no ETRecord holds; record the Edge "
            "program before to_backend: lower with to_edge_transform_and_lower and take get_etrecord()"
        )
    artifact = serialize(program)
    handles = {n.name: n.meta["debug_handle"] for n in program.graph.nodes if n.meta.get("debug_handle") is not None}
    tree = _in_published_form(json.loads(artifact.exported_program))
    tree |= {"schema_version": _SCHEMA_VERSION, "dialect": program.dialect}
    for node in tree["graph_module"]["graph"]["nodes"]:
        if node["name"] in handles:
            node["metadata"]["debug_handle"] = json.dumps(handles[node["name"]])
    archive.writestr(name, json.dumps(tree))
    archive.writestr(f"{name}_state_dict", artifact.state_dict)
    archive.writestr(f"{name}_constants", artifact.constants)
    archive.writestr(f"{name}_example_inputs", artifact.example_inputs)


def _in_published_form(tree: Any) -> Any:
    """The JSON without the keys that the published package does not know."""
    if isinstance(tree, list):
        return [_in_published_form(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    unknown = _LATER_KEYS | ({"metadata"} if "module_call_graph" in tree else set())
    return {key: _in_published_form(value) for key, value in tree.items() if key not in unknown}


def _is_delegate(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "executorch_call_delegate"


def _read_program(archive: zipfile.ZipFile, name: str, own: list[Any] | None) -> ExportedProgram:
    tree = json.loads(archive.read(name))
    by_name = {}
    for node in _nodes(tree):
        if node["target"].startswith(_EDGE_OPERATORS):
            node["target"] = "torch.ops." + node["target"][len(_EDGE_OPERATORS) :]
        if (handle := node["metadata"].pop("debug_handle", None)) is not None:
            by_name[node["name"]] = json.loads(handle)
    tree.pop("dialect", None)
    tree["schema_version"] = _own_schema_version()  # the published package writes an older one of the same layout
    parts = [archive.read(f"{name}_{part}") for part in ("state_dict", "constants", "example_inputs")]
    program = deserialize(SerializedArtifact(json.dumps(tree).encode(), *parts))
    recorded = {(0, name): handle for name, handle in by_name.items()}
    recorded |= {(number, name): handle for number, name, handle in own or ()}
    for place, read in _by_name(program):
        if (handle := recorded.get(place)) is not None:
            read.meta["debug_handle"] = tuple(handle) if isinstance(handle, list) else handle
    return program


def _own_schema_version() -> dict[str, int]:
    from torch._export.serde.schema import SCHEMA_VERSION

    return {"major": SCHEMA_VERSION[0], "minor": SCHEMA_VERSION[1]}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """The nodes of a graph and of the graphs inside it."""
    if isinstance(tree, dict):
        if "target" in tree and "metadata" in tree and "outputs" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)
