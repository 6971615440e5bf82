"""Branches and bodies that write what they capture, as functional control flow: the new values become results.

Part of functionalize.py. In inference torch lets a branch fill a buffer of the module. A functional region cannot, so

* a branch of ``cond`` returns the new values beside its results (the old one, where only the other branch writes);
* a tensor that the body of ``while_loop`` or ``scan`` writes is carried from turn to turn instead of captured;

and the node after the control flow that reads the tensor sees the value that came back.
"""

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator

from .rewriting import RegionWriter

if TYPE_CHECKING:
    from .functionalize import Functionalizer

_CONTROL_FLOW = frozenset({"cond", "map_impl", "scan", "while_loop"})


def is_control_flow(node: fx.Node) -> bool:
    """Whether a node is torch's control flow, whose results are never memory of its operands (torch refuses that)."""
    return isinstance(node.target, HigherOrderOperator) and node.target.name() in _CONTROL_FLOW


class Region:
    """A branch or body on its way: walked, not finished."""

    def __init__(self, outer: "Functionalizer", module: fx.GraphModule) -> None:
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


def functional_call(outer: "Functionalizer", node: fx.Node) -> dict[int, fx.Node]:
    """Writes a control-flow node whose regions mutate; returns the nodes of its old results by their old index."""
    name = node.target.name()
    references = [argument for argument in node.args if isinstance(argument, fx.Node) and argument.op == "get_attr"]
    regions = [Region(outer, getattr(node.graph.owning_module, reference.target)) for reference in references]
    written = sorted(set().union(*(region.written for region in regions)))
    if name == "cond":
        predicate, _, _, operands = node.args
        lists: list[list[Any]] = [list(operands)]
        arguments = ([predicate], lists)
        place = len(node.meta["val"])
        finished = [region.finish((*region.results(), *map(region.after, written))) for region in regions]
    elif name == "while_loop":
        _, _, carried, captured = node.args
        count = len(carried)
        if regions[0].written or any(index < count for index in written):
            outer.give_up()
        lists, order = _moved(written, [list(carried)], list(captured))
        arguments = ([], lists)
        place = count
        for region in regions:
            region.reorder(order)
        condition, body = regions
        finished = [
            condition.finish(condition.results()[0] if condition.is_single else tuple(condition.results())),
            body.finish((*body.results(), *map(body.after, written))),
        ]
    elif name == "scan":
        _, initial, scanned, captured = node.args
        count = len(initial)
        if any(index < count + len(scanned) for index in written):
            outer.give_up()
        lists, order = _moved(written, [list(initial), list(scanned)], list(captured))
        arguments = ([], lists)
        place = count
        (body,) = regions
        body.reorder(order)
        results = body.results()
        finished = [body.finish((*results[:count], *map(body.after, written), *results[count:]))]
    else:
        if written:
            outer.give_up()
        arguments, place = ([], [list(node.args[1]), list(node.args[2])]), 0
        finished = [region.finish(tuple(region.results())) for region in regions]
    before, lists = arguments
    operands_of = [item for items in _originals(node) for item in items]
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


def _originals(node: fx.Node) -> list[list[Any]]:
    """The operands in the order of the regions' placeholders."""
    return [list(argument) for argument in node.args if isinstance(argument, (list, tuple))]


def _moved(written: list[int], fixed: list[list[Any]], captured: list[Any]) -> tuple[list[list[Any]], list[int]]:
    """Operands with the written captured ones behind the first list, and the new order of the placeholders."""
    first, rest = len(fixed[0]), sum(map(len, fixed))
    lists = [list(items) for items in fixed]
    lists[0] += [captured[index - rest] for index in written]
    lists.append([item for index, item in enumerate(captured, rest) if index not in written])
    order = [*range(first), *written, *range(first, rest)]
    order += [index for index in range(rest, rest + len(captured)) if index not in written]
    return lists, order
