"""Delegation: what a partitioner tagged becomes calls of compiled parts.

A backend whose ``preprocess`` is Python gets its parts here, taken out of the fx graph as programs of their own
(extraction.py). A backend whose preprocess is C++ keeps its tags; the compiler takes its parts out of the IR. Which of
the two a backend is, its registration says: a BackendDetails class, or an entry in the table of C++ compilers.
"""

import functools
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from torch.export import ExportedProgram

from executorch_py import _core
from executorch_py.errors import InvalidArgumentError, NotFoundError, PartitionError
from executorch_py.exir.backend.backend_details import (
    PreprocessResult,
    find_python_backend,
    named_data_of,
    require_python_backend,
)
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.graphs.recurrent import unroll_recurrent
from executorch_py.graphs.rewriting import copied, nodes_with_bodies
from executorch_py.graphs.sources import source_of

from .delegated import Delegated
from .extraction import convex_groups, extract, replace
from .lowered_backend_module import LoweredBackendModule

_TAG = "delegation_tag"

#: Backend id -> method -> its parts, which wait for their payloads.
_Parts = dict[str, dict[str, list[LoweredBackendModule]]]


@functools.singledispatch
def to_backend(first: Any, *args: Any) -> Any:
    """Lowers to a backend, under the published name.

    ``to_backend(edge_program, partitioner)`` returns an ExportedProgram whose tagged parts are compiled;
    ``to_backend(backend_id, edge_program, compile_specs)`` compiles the whole program into a LoweredBackendModule.

    Raises:
        PartitionError: Tags and specs do not fit together.
        NotFoundError: Nobody compiles for a backend id.
    """
    raise InvalidArgumentError(f"to_backend takes an ExportedProgram or a backend id, not a {type(first).__name__}")


@to_backend.register(ExportedProgram)
def _(edge_program: ExportedProgram, partitioner: Partitioner) -> ExportedProgram:
    return delegate({"forward": Delegated(edge_program)}, partitioner)["forward"].program


@to_backend.register(str)
def _(backend_id: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> LoweredBackendModule:
    backend = require_python_backend(backend_id)
    result = backend.preprocess(
        backend.copy_exported_program_for_preprocess(edge_program, compile_specs), compile_specs
    )
    return LoweredBackendModule(
        edge_program,
        backend_id,
        _payload(backend_id, result),
        compile_specs,
        named_data_of(result),
        result.debug_handle_map,
    )


def delegate(methods: dict[str, Delegated], partitioner: Partitioner) -> dict[str, Delegated]:
    """Applies one partitioner to the methods of a program; the inputs are not changed."""
    done: dict[str, Delegated] = {}
    parts: _Parts = {}
    for name, method in methods.items():
        program, tags = _tagged(name, method, partitioner)
        python_tags = {tag: spec for tag, spec in tags.items() if find_python_backend(spec.backend_id) is not None}
        core_tags = {tag: spec for tag, spec in tags.items() if tag not in python_tags}
        for spec in core_tags.values():
            _require_core_backend(spec.backend_id)
        _require_no_bodies(name, program, python_tags)
        for tag, spec in python_tags.items():
            program = _cut_tag(program, name, tag, spec, parts)
        asked = (*method.partitioners, (partitioner, frozenset(core_tags)))
        done[name] = Delegated(program, {**method.tags, **core_tags}, asked)
    _compile(parts)
    return done


def for_compatible(methods: Mapping[str, Delegated]) -> Mapping[str, Delegated]:
    """Delegation for a file of the official runtime: partitioners that would tag other nodes for it do it anew."""
    for name, method in methods.items():
        for partitioner, tags in method.partitioners:
            other = partitioner.for_compatible()
            if other is None:
                continue
            bare = Delegated(copied(method.program), method.tags)  # all tags, so that new ones have other names
            for node in nodes_with_bodies(bare.program.graph_module):
                if node.meta.get(_TAG) in tags:
                    del node.meta[_TAG]
            again = delegate({name: bare}, other)[name]
            methods = {**methods, name: again}
            method = again
    return methods


def _tagged(
    name: str, method: Delegated, partitioner: Partitioner
) -> tuple[ExportedProgram, dict[str, DelegationSpec]]:
    """Runs the partitioner on a copy; returns it with tags that are unique in the program, first come first served."""
    program = copied(method.program)
    if partitioner.takes_recurrent_steps:
        unroll_recurrent(program)
    before = {node: node.meta[_TAG] for node in nodes_with_bodies(program.graph_module) if node.meta.get(_TAG)}
    written = _written(program)
    result = partitioner(program)
    if not isinstance(result, PartitionResult):
        raise PartitionError(f"{type(partitioner).__name__} returned {result!r:.60}, must return a PartitionResult")
    for now, before_it in zip_longest(_written(result.tagged_exported_program), written, fillvalue=("", None)):
        if now != before_it:
            raise PartitionError(
                f"{type(partitioner).__name__} changed the graph of method '{name}' at node "
                f"'{now[0] or before_it[0]}'; a partitioner only tags nodes: change the graph in a pass "
                "(transform_passes), or in the backend's preprocess"
            )
    for tag, spec in result.partition_tags.items():
        if not isinstance(tag, str) or not isinstance(spec, DelegationSpec):
            name_of = type(partitioner).__name__
            raise PartitionError(
                f"partition_tags of {name_of} has {tag!r}: {spec!r:.60}, must be a string: DelegationSpec"
            )
    program = result.tagged_exported_program
    unique: dict[str, str] = {}
    for node in nodes_with_bodies(program.graph_module):
        own: str | None = node.meta.get(_TAG)
        if node in before:
            node.meta[_TAG] = before[node]
        elif own is not None and own not in method.tags:
            if own not in result.partition_tags:
                raise PartitionError(
                    f"node '{node.name}' of method '{name}' carries the tag '{own}', which "
                    f"{type(partitioner).__name__} "
                    f"does not list (it lists {', '.join(sorted(result.partition_tags)) or 'none'})"
                )
            spec = result.partition_tags[own]
            node.meta[_TAG] = unique.setdefault(own, f"{spec.backend_id}/{name}/{len(method.tags)}/{own}")
    return program, {unique[tag]: spec for tag, spec in result.partition_tags.items() if tag in unique}


def _written(program: ExportedProgram) -> list[tuple[Any, Any]]:
    """The nodes as they are computed: of each its name, and its operation with the names of its inputs."""
    nodes = nodes_with_bodies(program.graph_module)
    return [(node.name, (node.op, node.target, [one.name for one in node.all_input_nodes])) for node in nodes]


def _require_no_bodies(method: str, program: ExportedProgram, tags: Mapping[str, DelegationSpec]) -> None:
    """A part that is cut out here gets its weights from the program's signature, which bodies do not have.

    Raises:
        PartitionError: A node in a branch or a loop is tagged for a backend whose preprocess is Python.
    """
    for node in nodes_with_bodies(program.graph_module):
        spec = tags.get(node.meta.get(_TAG, ""))
        if spec is not None and node.graph is not program.graph:
            raise PartitionError(
                f"node '{node.name}' of method '{method}', {node.target} at {source_of(node)}, stands in a branch or a "
                "loop; "
                f"the backend '{spec.backend_id}', whose preprocess is Python, takes nodes of the method's own graph "
                "(exported_program.graph) only"
            )


def _cut_tag(
    program: ExportedProgram,
    method: str,
    tag: str,
    spec: DelegationSpec,
    parts: _Parts,
) -> ExportedProgram:
    """Cuts the nodes of one tag; the calls get their payloads when all parts are known (_compile)."""
    while True:
        members = {n for n in program.graph.nodes if n.op == "call_function" and n.meta.get(_TAG) == tag}
        _take_along(members)
        if not members:
            return program
        group = convex_groups(program.graph, members)[0]
        part = extract(program, group, tag)
        lowered = LoweredBackendModule(part.program, spec.backend_id, b"", spec.compile_specs)
        parts.setdefault(spec.backend_id, {}).setdefault(method, []).append(lowered)
        program = replace(program, part, lowered)


def _take_along(members: set[Any]) -> None:
    """An element of a several-result node goes where its node goes."""
    for node in list(members):
        for user in node.users:
            if getattr(user.target, "__name__", "") == "getitem":
                members.add(user)
    for node in list(members):
        if getattr(node.target, "__name__", "") == "getitem" and node.args[0] not in members:
            members.discard(node)


def _compile(parts: _Parts) -> None:
    """Gives each backend all its parts at once, and each part its payload."""
    for backend_id, by_method in parts.items():
        backend = require_python_backend(backend_id)
        copy = backend.copy_exported_program_for_preprocess
        results = backend.preprocess_multimethod(
            {
                name: [copy(part.original_module, part.compile_specs) for part in found]
                for name, found in by_method.items()
            },
            {method: [part.compile_specs for part in found] for method, found in by_method.items()},
        )
        for method, found in by_method.items():
            for part, result in zip(found, results[method], strict=True):
                part.fill(_payload(backend_id, result), named_data_of(result), result.debug_handle_map)


def _payload(backend_id: str, result: Any) -> bytes:
    """The bytes that a backend's preprocess gave.

    Raises:
        PartitionError: It gave something else than a PreprocessResult with bytes.
    """
    if not isinstance(result, PreprocessResult):
        raise PartitionError(f"{backend_id}.preprocess returned {result!r}, must return a PreprocessResult")
    if not isinstance(result.processed_bytes, (bytes, bytearray, memoryview)):
        raise PartitionError(
            f"{backend_id}.preprocess gave {result.processed_bytes!r:.60} as processed_bytes, must be bytes"
        )
    return bytes(result.processed_bytes)


def _require_core_backend(backend_id: str) -> None:
    known: list[str] = _core.compiler_backends()
    if backend_id not in known:
        names = ", ".join(sorted(known)) or "none"
        raise NotFoundError(
            f"nobody compiles for the backend '{backend_id}': no BackendDetails class has that name, and the C++ "
            f"backends of this build are: {names}"
        )
