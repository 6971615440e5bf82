"""Cuts tagged nodes out of an fx program: the surgery behind delegation, without any policy.

Nodes of one tag become one call where the graph allows it. Where a path leaves the tagged nodes and comes back, one
call would have to run before and after itself: such nodes are split into as few levels as needed, each convex. Cuts are
made one after the other on the changed graph, so that two parts never wait for each other.
"""

import copy
import dataclasses
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from executorch_py.errors import PartitionError
from executorch_py.export.dialect.edge import EdgeVerifier
from executorch_py.graphs.rewriting import argument_of, with_guards_of

_STATE_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def convex_groups(graph: fx.Graph, members: set[fx.Node]) -> list[list[fx.Node]]:
    """Splits ``members`` into groups that can each be one node, in execution order.

    A node's level is the number of times that a path to it has left the members and come back. Members of one level are
    convex, because a path from one to another through a stranger would raise the level.
    """
    level: dict[fx.Node, int] = {}
    below: set[fx.Node] = set()  # members and what depends on them
    for node in graph.nodes:
        own = 0
        depends = False
        for source in node.all_input_nodes:
            if source in below:
                depends = True
                left = node in members and source not in members
                own = max(own, level[source] + (1 if left else 0))
        level[node] = own
        if depends or node in members:
            below.add(node)
    groups: dict[int, list[fx.Node]] = {}
    for node in graph.nodes:
        if node in members:
            groups.setdefault(level[node], []).append(node)
    return [groups[key] for key in sorted(groups)]


@dataclass
class Part:
    """A part of a program that is to be one call.

    Attributes:
        program: The part as a program of its own: placeholders are the constants it owns, then its inputs.
        nodes: Its nodes in the graph it comes from.
        inputs: Nodes of that graph whose values it needs.
        outputs: Its nodes whose values are needed outside.
        state: Placeholders of that graph that it owns.
    """

    program: ExportedProgram
    nodes: list[fx.Node]
    inputs: list[fx.Node]
    outputs: list[fx.Node]
    state: list[fx.Node]


def extract(program: ExportedProgram, nodes: list[fx.Node], tag: str) -> Part:
    """Copies a convex group of nodes into a program of its own. ``program`` is not changed.

    Placeholders of constants and buffers that carry the tag go with the group. A mutable buffer that goes with it takes
    its write along.
    """
    inside = set(nodes)
    signature = program.graph_signature
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    specs = dict(zip(placeholders, signature.input_specs, strict=True))
    output_node = next(reversed(program.graph.nodes))
    writes = {
        spec.target: value
        for spec, value in zip(signature.output_specs, output_node.args[0], strict=True)
        if spec.kind == OutputKind.BUFFER_MUTATION
    }
    needed: dict[fx.Node, None] = {}
    for node in nodes:
        for source in node.all_input_nodes:
            if source not in inside and not (source.op == "get_attr" and _is_module(source)):
                needed[source] = None
    state: list[fx.Node] = []
    inputs: list[fx.Node] = []
    for node in needed:
        owned = node in specs and specs[node].kind in _STATE_KINDS and node.meta.get("delegation_tag") == tag
        if owned and (written := writes.get(specs[node].target)) is not None:
            owned = written in inside and all(user in inside for user in node.users)
        (state if owned else inputs).append(node)
    state_writes = [writes[specs[node].target] for node in state if specs[node].target in writes]
    outputs = [node for node in nodes if any(user not in inside for user in node.users) and node.op != "get_attr"]
    outputs = [node for node in outputs if not _only_written(node, inside, output_node, signature, state_writes)]

    graph = fx.Graph()
    root = torch.nn.Module()
    new: dict[fx.Node, fx.Node] = {}
    input_specs: list[InputSpec] = []
    for node in (*state, *inputs):
        new[node] = graph.placeholder(node.name)
        new[node].meta = dict(node.meta)
        argument = argument_of(new[node])
        if node in state:
            old = specs[node]
            input_specs.append(InputSpec(old.kind, argument, old.target, old.persistent))
        else:
            input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    for node in nodes:
        for source in node.all_input_nodes:
            if source not in new and source.op == "get_attr":
                name = str(source.target)
                setattr(root, name, getattr(program.graph_module, name))
                new[source] = graph.node_copy(source, new.__getitem__)
        new[node] = graph.node_copy(node, new.__getitem__)
        new[node].meta = dict(node.meta)
    results = [*(new[value] for value in state_writes), *(new[node] for node in outputs)]
    output_specs = [
        OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(new[writes[specs[node].target]].name), specs[node].target)
        for node in state
        if specs[node].target in writes
    ]
    output_specs += [OutputSpec(OutputKind.USER_OUTPUT, argument_of(new[node]), None) for node in outputs]
    output = graph.output(tuple(results))
    output.meta["val"] = tuple(node.meta.get("val") for node in results)
    targets = {specs[node].target for node in state}
    part = ExportedProgram(
        root=fx.GraphModule(root, graph),
        graph=graph,
        graph_signature=ExportGraphSignature(input_specs, output_specs),
        state_dict={key: value for key, value in program.state_dict.items() if key in targets},
        range_constraints=copy.copy(program.range_constraints),
        module_call_graph=[_entry(len(inputs), len(outputs), [new[n] for n in inputs], [new[n] for n in outputs])],
        example_inputs=None,
        constants={key: value for key, value in program.constants.items() if key in targets},
        verifiers=[EdgeVerifier],
    )
    return Part(part, nodes, inputs, outputs, state)


def _is_module(node: fx.Node) -> bool:
    return isinstance(getattr(node.graph.owning_module, str(node.target), None), torch.nn.Module)


def _only_written(
    node: fx.Node, inside: set[fx.Node], output: fx.Node, signature: ExportGraphSignature, state_writes: list[fx.Node]
) -> bool:
    """Whether all that outside wants of ``node`` is the write of a buffer that moves into the part."""
    if node not in state_writes or any(user not in inside and user is not output for user in node.users):
        return False
    returned: Any = output.args[0]
    wanted = [s.kind for s, value in zip(signature.output_specs, returned, strict=True) if value is node]
    return all(kind == OutputKind.BUFFER_MUTATION for kind in wanted)


def _entry(num_inputs: int, num_outputs: int, inputs: list[fx.Node], outputs: list[fx.Node]) -> ModuleCallEntry:
    leaves = tuple(range(num_inputs))
    _, in_spec = pytree.tree_flatten((leaves, {}))
    _, out_spec = pytree.tree_flatten(tuple(range(num_outputs)))
    return ModuleCallEntry(
        fqn="",
        signature=ModuleCallSignature(
            inputs=[argument_of(node) for node in inputs],
            outputs=[argument_of(node) for node in outputs],
            in_spec=in_spec,
            out_spec=out_spec,
        ),
    )


def replace(program: ExportedProgram, part: Part, lowered: torch.nn.Module) -> ExportedProgram:
    """``program`` with the part's nodes replaced by a call of ``lowered``. Changes the graph in place."""
    graph, module = program.graph, program.graph_module
    inside = set(part.nodes)
    last = part.nodes[-1]
    _move_users_behind(graph, inside, part.nodes[0], last)

    index = 0
    while hasattr(module, f"lowered_module_{index}"):
        index += 1
    name = f"lowered_module_{index}"
    module.add_module(name, lowered)
    with graph.inserting_after(last):
        holder = graph.get_attr(name)
    with graph.inserting_after(holder):
        call = graph.call_function(executorch_call_delegate, (holder, *part.inputs))
    call.meta = {key: last.meta[key] for key in ("stack_trace", "nn_module_stack") if key in last.meta}
    call.meta["val"] = tuple(node.meta["val"] for node in part.outputs)
    call.meta["debug_handle"] = tuple(node.meta["debug_handle"] for node in part.nodes if "debug_handle" in node.meta)
    place = call
    for position, node in enumerate(part.outputs):
        with graph.inserting_after(place):
            place = graph.call_function(operator.getitem, (call, position))
        place.meta = {key: value for key, value in node.meta.items() if key != "delegation_tag"}
        node.replace_all_uses_with(place, delete_user_cb=_outside(inside))
    return _without(program, part, inside)


def _outside(inside: set[fx.Node]) -> Callable[[fx.Node], bool]:
    return lambda user: user not in inside


def _move_users_behind(graph: fx.Graph, inside: set[fx.Node], first: fx.Node, last: fx.Node) -> None:
    """Moves strangers between the group's first and last node that need the group behind its last node."""
    behind: list[fx.Node] = []
    dependent = set(inside)
    node = first
    while node is not last:
        if node not in inside and any(source in dependent for source in node.all_input_nodes):
            dependent.add(node)
            behind.append(node)
        node = node.next
    if any(source in dependent and source not in inside for member in inside for source in member.all_input_nodes):
        raise PartitionError("the tagged nodes cannot be one call: a path leaves them and comes back")
    place = last
    for moved in behind:
        place.append(moved)
        place = moved


def _without(program: ExportedProgram, part: Part, inside: set[fx.Node]) -> ExportedProgram:
    """The program after the part's nodes, owned placeholders and moved writes have gone."""
    graph = program.graph
    signature = program.graph_signature
    output = next(reversed(graph.nodes))
    owned = {node.name for node in part.state if all(user in inside for user in node.users)}
    moved = {
        spec.target for spec in part.program.graph_signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION
    }
    kept = [
        (spec, value)
        for spec, value in zip(signature.output_specs, output.args[0], strict=True)
        if not (spec.kind == OutputKind.BUFFER_MUTATION and spec.target in moved)
    ]
    output.args = (tuple(value for _, value in kept),)
    for node in reversed(part.nodes):
        graph.erase_node(node)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    input_specs = []
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if node.name in owned:
            graph.erase_node(node)
        else:
            input_specs.append(spec)
    output_specs = [OutputSpec(spec.kind, argument_of(value), spec.target) for spec, value in kept]
    return rebuilt(program, ExportGraphSignature(input_specs, output_specs))


def rebuilt(program: ExportedProgram, signature: ExportGraphSignature, module: Any = None) -> ExportedProgram:
    """An ExportedProgram around a changed graph."""
    module = module if module is not None else program.graph_module
    module.graph.lint()
    module.recompile()
    new = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=[EdgeVerifier],
    )
    return with_guards_of(new, program)


def whole_as_call(program: ExportedProgram, lowered: torch.nn.Module) -> ExportedProgram:
    """A program with the inputs and outputs of ``program`` that calls ``lowered``, which was compiled from all of
    it.
    """
    graph, root = fx.Graph(), torch.nn.Module()
    root.add_module("lowered_module_0", lowered)
    inputs = []
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind == InputKind.USER_INPUT:
            inputs.append(graph.placeholder(node.name))
            inputs[-1].meta = dict(node.meta)
    call = graph.call_function(executorch_call_delegate, (graph.get_attr("lowered_module_0"), *inputs))
    returned: Any = next(reversed(program.graph.nodes)).args[0]
    specs = program.graph_signature.output_specs
    values = [value for value, spec in zip(returned, specs, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
    call.meta["val"] = tuple(value.meta["val"] for value in values)
    results = []
    for index, value in enumerate(values):
        results.append(graph.call_function(operator.getitem, (call, index)))
        results[-1].meta["val"] = value.meta["val"]
    graph.output(tuple(results))
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, argument_of(node), None) for node in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, argument_of(node), None) for node in results],
    )
    outer = next((call.signature for call in program.module_call_graph if call.fqn == ""), None)
    if outer is not None:  # the structure of the arguments stays, the outputs are other nodes
        outer = dataclasses.replace(outer, outputs=[argument_of(node) for node in results])
    return ExportedProgram(
        root=fx.GraphModule(root, graph),
        graph=graph,
        graph_signature=signature,
        state_dict={},
        range_constraints=copy.copy(program.range_constraints),
        module_call_graph=[ModuleCallEntry(fqn="", signature=outer)],
        example_inputs=program.example_inputs,
        constants={},
        verifiers=[EdgeVerifier],
    )
