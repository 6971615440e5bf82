"""Branches and bodies that write what they capture, as functional control flow: the new values become results.

Part of functionalize.py. In inference torch lets a branch fill a buffer of the module. A functional region cannot, so

* a branch of ``cond`` returns the new values beside its results (the old one, where only the other branch writes);
* a tensor that the body of ``while_loop`` writes is carried from turn to turn instead of captured;

and the node after the control flow that reads the tensor sees the value that came back.
"""

import operator
from collections.abc import Container, Mapping
from typing import Any, NoReturn, Protocol

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram

from executorch_py.graphs.rewriting import GraphWriter, RegionWriter

_CONTROL_FLOW = frozenset({"cond", "map_impl", "scan", "while_loop"})


class Walk(Protocol):
    """The walk over a graph that meets control flow (functionalize.py).

    Attributes:
        program: The program that is walked.
        writer: Of the new graph.
        written: Nodes of the old graph whose memory the walk has written.
        held: Modules of regions by name.
    """

    program: ExportedProgram
    writer: GraphWriter
    written: Container[fx.Node]
    held: Mapping[str, fx.GraphModule]

    def inner(self, writer: GraphWriter) -> "Walk":
        """A walk over a region."""

    def walk(self, graph: fx.Graph) -> None:
        """Writes the nodes of a graph."""

    def read(self, node: Any) -> Any:
        """The present value of a node of the old graph."""

    def write(self, node: fx.Node, value: fx.Node) -> None:
        """Gives a node of the old graph a new value."""

    def hold(self, name: str, module: fx.GraphModule) -> fx.Node:
        """Keeps a region; returns the node that refers to it."""

    def give_up(self) -> NoReturn:
        """Leaves the program to torch's own functionalisation."""


def is_control_flow(node: fx.Node) -> bool:
    """Whether a node is torch's control flow, whose results are never memory of its operands (torch refuses that)."""
    return isinstance(node.target, HigherOrderOperator) and node.target.name() in _CONTROL_FLOW


class Region:
    """A branch or body on its way: walked, not finished."""

    def __init__(self, outer: Walk, module: fx.GraphModule) -> None:
        self.module = module
        self.root = torch.nn.Module()
        self.writer = RegionWriter(outer.program, module, self.root)
        self.inner = outer.inner(self.writer)
        self.inner.walk(module.graph)
        self._old = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.written = {index for index, node in enumerate(self._old) if node in self.inner.written}
        if any(node.op == "get_attr" for node in self.inner.written):
            outer.give_up()
        output = next(reversed(module.graph.nodes)).args[0]
        self.is_single = not isinstance(output, (list, tuple))
        self._outputs = [output] if self.is_single else list(output)

    def after(self, index: int) -> fx.Node:
        """The value that operand ``index`` has at the end."""
        return self.inner.read(self._old[index])

    def results(self) -> list[Any]:
        """The values that the region returns."""
        return [self.inner.read(item) if isinstance(item, fx.Node) else item for item in self._outputs]

    def reorder(self, order: list[int]) -> None:
        """Puts the placeholders into another order."""
        placeholders = list(self.writer.placeholders)
        anchor = next(iter(self.writer.graph.nodes))
        for index in order:
            if placeholders[index] is not anchor:
                anchor.prepend(placeholders[index])
            else:
                anchor = anchor.next

    def finish(self, outputs: Any) -> fx.GraphModule:
        """The region as a module that returns ``outputs``."""
        for name, held in self.inner.held.items():
            setattr(self.root, name, held)
        return self.writer.finish_region(outputs)


def functional_call(outer: Walk, node: fx.Node) -> dict[int, fx.Node]:
    """Writes a control-flow node whose regions mutate; returns the nodes of its old results by their old index."""
    name = node.target.name()
    references = [argument for argument in node.args if isinstance(argument, fx.Node) and argument.op == "get_attr"]
    regions = [Region(outer, getattr(node.graph.owning_module, reference.target)) for reference in references]
    written = sorted(set().union(*(region.written for region in regions)))
    before: list[Any] = []
    lists = [list(argument) for argument in node.args if isinstance(argument, (list, tuple))]
    place = len(node.meta["val"])  # where the new results stand among the old ones
    if name == "cond":
        before = [node.args[0]]
        finished = [region.finish((*region.results(), *map(region.after, written))) for region in regions]
    elif name == "while_loop":
        condition, body = regions
        carried, captured = lists
        place = len(carried)
        if condition.written or any(index < place for index in written):
            outer.give_up()
        kept = [index for index in range(place, place + len(captured)) if index not in written]
        lists = [carried + [captured[index - place] for index in written], [captured[index - place] for index in kept]]
        for region in regions:
            region.reorder([*range(place), *written, *kept])
        finished = [
            condition.finish(condition.results()[0] if condition.is_single else tuple(condition.results())),
            body.finish((*body.results(), *map(body.after, written))),
        ]
    else:
        if written:  # torch.export refuses such bodies of map and scan itself
            outer.give_up()
        finished = [region.finish(tuple(region.results())) for region in regions]
    operands_of = [item for argument in node.args if isinstance(argument, (list, tuple)) for item in argument]
    targets = [operands_of[index] for index in written]
    if not all(isinstance(target, fx.Node) for target in targets):
        outer.give_up()
    modules = [outer.hold(reference.target, module) for reference, module in zip(references, finished, strict=True)]
    values = list(node.meta["val"])
    new_values = [*values[:place], *(target.meta["val"] for target in targets), *values[place:]]
    mapped = fx.map_arg((before, lists), outer.read)
    call = outer.writer.emit(node, node.target, (*mapped[0], *modules, *mapped[1]), None, new_values)

    def item(index: int) -> fx.Node:
        return outer.writer.emit(node, operator.getitem, (call, index), None, new_values[index])

    for offset, target in enumerate(targets):
        outer.write(target, item(place + offset))
    return {index: item(index if index < place else index + len(targets)) for index in range(len(values))}
