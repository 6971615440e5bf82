"""Helpers for partitioners, under their published names."""

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from executorch_py.graphs.nodes import arguments_of
from executorch_py.graphs.rewriting import nodes_with_bodies
from executorch_py.graphs.training import TRAINED

from .delegate_mapping import DelegateMappingBuilder
from .delegated_graph import (
    format_delegated_graph,
    get_delegated_payload,
    get_delegates,
    get_non_lowered_nodes,
    is_identical_graph,
    is_shape_dynamic,
    print_delegated_graph,
)
from .refusals import ReportRejected, WhyNoPartition, WhyNoPartitionReporter

__all__ = [
    "DelegateMappingBuilder",
    "ReportRejected",
    "WhyNoPartition",
    "WhyNoPartitionReporter",
    "arguments_of",
    "constant_names",
    "format_delegated_graph",
    "get_delegated_payload",
    "get_delegates",
    "get_non_lowered_nodes",
    "is_constant_node",
    "is_identical_graph",
    "is_param_node",
    "is_shape_dynamic",
    "nodes_with_bodies",
    "note_refusal",
    "print_delegated_graph",
    "refusals_of",
    "tag_constant_data",
    "tag_mutated_buffer",
]

_CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def tag_constant_data(edge_program: ExportedProgram) -> None:
    """Tags each constant all of whose users carry one tag: the backend then owns it.

    Mutable buffers are left alone (``tag_mutated_buffer``), and so are parameters that are trained.
    """
    changing = _changing(edge_program)
    for node, spec in _state_inputs(edge_program):
        if spec.target not in changing:
            _tag_like_users(node)


def tag_mutated_buffer(edge_program: ExportedProgram) -> None:
    """Tags each mutable buffer that only nodes of one tag read and write: the backend then keeps that state."""
    written = _written_buffers(edge_program)
    for node, spec in _state_inputs(edge_program):
        if spec.target in written:
            _tag_like_users(node)


def _state_inputs(program: ExportedProgram) -> list[tuple[fx.Node, object]]:
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    return [
        (node, spec)
        for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True)
        if spec.kind in _CONSTANT_KINDS
    ]


def _written_buffers(program: ExportedProgram) -> set[str]:
    return {spec.target for spec in program.graph_signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION}


def _changing(program: ExportedProgram) -> set[str]:
    """What changes while a program is used: buffers that it writes, and parameters that are trained."""
    trained = {spec.target for node, spec in _state_inputs(program) if node.meta.get(TRAINED)}
    return _written_buffers(program) | trained


def _tag_like_users(node: fx.Node) -> None:
    tags = {user.meta.get("delegation_tag") for user in node.users}
    if len(tags) == 1 and (tag := tags.pop()) is not None:
        node.meta["delegation_tag"] = tag


def constant_names(exported_program: ExportedProgram) -> frozenset[str]:
    """Names of the placeholders that are constants: parameters and buffers that nobody writes or trains, lifted
    constants.
    """
    changing = _changing(exported_program)
    return frozenset(node.name for node, spec in _state_inputs(exported_program) if spec.target not in changing)


def is_param_node(exported_program: ExportedProgram, node: fx.Node) -> bool:
    """Whether ``node`` is a parameter, buffer or constant of the module."""
    return any(found is node for found, _ in _state_inputs(exported_program))


def is_constant_node(exported_program: ExportedProgram, node: fx.Node) -> bool:
    """Whether ``node`` is a parameter, buffer or constant that the method only reads."""
    return node.name in constant_names(exported_program)


_REFUSALS = "delegation_refusals"


def note_refusal(node: fx.Node, backend_id: str, reason: str) -> None:
    """Remembers why a backend did not take ``node``; ``et.delegation_report`` shows it."""
    node.meta[_REFUSALS] = {**node.meta.get(_REFUSALS, {}), backend_id: reason}


def refusals_of(node: fx.Node) -> dict[str, str]:
    """Backend id -> why it did not take ``node``."""
    return dict(node.meta.get(_REFUSALS, {}))
