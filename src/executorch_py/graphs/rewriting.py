"""Writes a new fx graph from an old one, and the ExportedProgram around it.

``GraphWriter`` is what functionalize.py and decomposer.py share: it creates nodes with the metadata of the node they
come from, lifts constants, and finishes with an ExportedProgram whose signature names the new nodes. fx's own
interpreter-based passes run every operator again on fake tensors; here a node that does not change is copied, metadata
and all.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.fx._lazy_graph_module import _LazyGraphModule as LazyGraphModule

#: Checks of values that only a run knows (``torch._check``): they have no result and stay all the same.
CHECKS: frozenset[OpOverload] = frozenset(
    {torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default, torch.ops.aten._assert_scalar.default}
)

#: What a new node inherits from the node it stands for.
_INHERITED = (
    "stack_trace",
    "nn_module_stack",
    "source_fn_stack",
    "torch_fn",
    "custom",
    "debug_handle",
    "delegation_tag",
    "delegation_refusals",
)


def inherited_meta(origin: fx.Node, value: Any) -> dict[str, Any]:
    """Metadata of a node that stands for (a part of) ``origin`` and has the fake value ``value``."""
    old = origin.meta
    meta = {key: old[key] for key in _INHERITED if key in old}
    meta["val"] = value
    return meta


def copy_into(graph: fx.Graph, node: fx.Node, map_node: Callable[[fx.Node], Any]) -> fx.Node:
    """Copies a node to the end of ``graph``, metadata included, with its arguments mapped."""
    args, kwargs = fx.map_arg(node.args, map_node), fx.map_arg(node.kwargs, map_node)
    new = graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
    new.meta = dict(node.meta)
    if node.op == "placeholder":
        # fx renames what looks like a builtin ("input"); the signature knows the name as it was.
        new.name = node.name
    return new


def nodes_with_bodies(module: fx.GraphModule) -> Iterator[fx.Node]:
    """The nodes of a graph and of the bodies of its control flow, however deep; each body once, behind its graph."""
    yield from module.graph.nodes
    for held in module.children():
        if isinstance(held, fx.GraphModule):
            yield from nodes_with_bodies(held)


def copied_graph(module: fx.GraphModule) -> fx.GraphModule:
    """A graph of its own, and one for each body of its control flow. Compiled parts and tensors are shared."""
    graph = fx.Graph()
    graph._codegen = copy.copy(module.graph._codegen)
    mapping: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        mapping[node] = copy_into(graph, node, mapping.__getitem__)
    root = torch.nn.Module()
    for name, held in module.named_children():
        root.add_module(name, copied_graph(held) if isinstance(held, fx.GraphModule) else held)
    for node in module.graph.nodes:
        if node.op == "get_attr" and not hasattr(root, node.target):
            setattr(root, node.target, getattr(module, node.target))
    new = fx.GraphModule(root, graph)
    new.meta.update(module.meta)
    return new


class GraphWriter:
    """A new graph on its way, for the program ``old``."""

    def __init__(self, old: ExportedProgram) -> None:
        self.old = old
        self.graph = fx.Graph()
        self.graph._codegen = copy.copy(old.graph._codegen)
        self.input_specs: list[InputSpec] = list(old.graph_signature.input_specs)
        self.constants: dict[str, Any] = dict(old.constants)
        self._lifted: dict[int, fx.Node] = {}
        self.placeholders: list[fx.Node] = []

    def copy_node(self, node: fx.Node, map_node: Callable[[fx.Node], Any]) -> fx.Node:
        """Copies a node, metadata included, with its arguments mapped."""
        new = copy_into(self.graph, node, map_node)
        if node.op == "placeholder":
            self.placeholders.append(new)
        return new

    def emit(self, origin: fx.Node, target: Any, args: tuple, kwargs: dict[str, Any] | None, value: Any) -> fx.Node:
        """Creates a call that stands for (a part of) ``origin``."""
        new = self.graph.create_node("call_function", target, args, kwargs or {})
        new.meta = inherited_meta(origin, value)
        return new

    def lift_constant(self, tensor: torch.Tensor, fake: torch.Tensor) -> fx.Node:
        """A placeholder for a constant tensor that a decomposition made; one for each tensor object."""
        known = self._lifted.get(id(tensor))
        if known is not None:
            return known
        index = len(self._lifted)
        while f"_lifted_by_edge_{index}" in self.constants:
            index += 1
        name = f"_lifted_by_edge_{index}"
        position = next(
            (i for i, spec in enumerate(self.input_specs) if spec.kind == InputKind.USER_INPUT), len(self.input_specs)
        )
        anchor = self.placeholders[position] if position < len(self.placeholders) else None
        if anchor is not None:
            with self.graph.inserting_before(anchor):
                node = self.graph.placeholder(f"c_{name}")
        elif self.placeholders:
            with self.graph.inserting_after(self.placeholders[-1]):
                node = self.graph.placeholder(f"c_{name}")
        else:
            with self.graph.inserting_before(next(iter(self.graph.nodes), None)):
                node = self.graph.placeholder(f"c_{name}")
        node.meta["val"] = fake
        self.placeholders.insert(position, node)
        self.input_specs.insert(
            position, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), target=name, persistent=False)
        )
        self.constants[name] = tensor
        self._lifted[id(tensor)] = node
        return node

    def finish(
        self,
        outputs: list[Any],
        output_specs: list[OutputSpec],
        root: torch.nn.Module,
        verifier: type | None = None,
    ) -> ExportedProgram:
        """The new program.

        Args:
            outputs: new nodes or literals, in the order of ``output_specs``.
            output_specs: kind and target of each output; their argument names are set here.
            root: module that holds what get_attr nodes name.
            verifier: the dialect's verifier; the old program's when None.
        """
        output = self.graph.output(tuple(outputs))
        self.graph.eliminate_dead_code(is_needed)
        output.meta["val"] = tuple(value.meta.get("val") if isinstance(value, fx.Node) else value for value in outputs)
        specs = [
            OutputSpec(spec.kind, argument_of(value), spec.target)
            for value, spec in zip(outputs, output_specs, strict=True)
        ]
        signature = ExportGraphSignature(self.input_specs, specs)
        module = LazyGraphModule(root, self.graph)  # the program makes a module of its own, with code that runs
        module.meta.update(getattr(self.old.graph_module, "meta", {}))
        program = ExportedProgram(
            root=module,
            graph=self.graph,
            graph_signature=signature,
            state_dict=self.old.state_dict,
            range_constraints=self.old.range_constraints,
            module_call_graph=self.old.module_call_graph,
            example_inputs=self.old.example_inputs,
            constants=self.constants,
            verifiers=[verifier] if verifier is not None else self.old.verifiers,
        )
        return with_guards_of(program, self.old)


class RegionWriter(GraphWriter):
    """A writer for the graph of a branch or body, which has no signature: constants become attributes of its module."""

    def __init__(self, old: ExportedProgram, module: fx.GraphModule, root: torch.nn.Module) -> None:
        """``root`` gets what the get_attr nodes of the new graph name."""
        super().__init__(old)
        self.graph._codegen = copy.copy(module.graph._codegen)
        self._module = module
        self._root = root

    def lift_constant(self, tensor: torch.Tensor, fake: torch.Tensor) -> fx.Node:
        known = self._lifted.get(id(tensor))
        if known is None:
            index = len(self._lifted)
            while hasattr(self._module, name := f"_constant_of_edge_{index}"):
                index += 1
            setattr(self._root, name, tensor)
            known = self._lifted[id(tensor)] = self.graph.create_node("get_attr", name)
            known.meta["val"] = fake
        return known

    def finish_region(self, outputs: Any) -> fx.GraphModule:
        """The new region; ``outputs`` as they stand in the output node, with new nodes."""
        output = self.graph.output(outputs)
        output.meta["val"] = fx.map_arg(outputs, lambda node: node.meta.get("val"))
        self.graph.eliminate_dead_code(is_needed)
        return fx.GraphModule(self._root, self.graph)


def with_guards_of(program: ExportedProgram, old: ExportedProgram) -> ExportedProgram:
    """``program`` with the guards of ``old``: torch finds them anew in a new program, but not in one that was
    loaded.
    """
    program._guards_code = list(dict.fromkeys([*old._guards_code, *program._guards_code]))
    return program


def is_needed(node: fx.Node) -> bool:
    """What stays though nothing reads it: a functional program has no effects but its outputs and its checks."""
    return node.op in ("placeholder", "output") or node.target in CHECKS


def argument_of(value: Any) -> Any:
    """The signature's description of a node or literal."""
    if not isinstance(value, fx.Node):
        return ConstantArgument(name="", value=value)
    fake = value.meta.get("val")
    if isinstance(fake, torch.SymInt):
        return SymIntArgument(value.name)
    if isinstance(fake, torch.SymFloat):
        return SymFloatArgument(value.name)
    if isinstance(fake, torch.SymBool):
        return SymBoolArgument(value.name)
    if isinstance(fake, torch.Tensor):
        return TensorArgument(value.name)
    if isinstance(fake, (int, float, bool)):
        return SymIntArgument(value.name)
    return TensorArgument(value.name)


def is_write(kind: OutputKind) -> bool:
    """Whether an output of this kind is a change of state, not a value for the caller."""
    return kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION)


def copied(program: ExportedProgram) -> ExportedProgram:
    """A program with graphs of its own; weights and compiled parts are shared, node metadata is copied shallowly."""
    module = copied_graph(program.graph_module)
    new = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=copy.copy(program.graph_signature),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )
    return with_guards_of(new, program)
