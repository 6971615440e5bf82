"""Operators outside ATen that change their arguments, in functional form.

The form is torch's own higher-order operator ``auto_functionalized(op, **arguments)``, whose results are what ``op``
returns (None when it returns nothing) and then the new value of each argument that it changes. functionalize.py writes
it, the importer makes one IR node of it. The kernel works in place (runtime/in_place_kernel.h). Where the old value is
not needed any more, the compiler lets it have the argument's own memory.

torch's functionalisation gives a second version, which says of each changed argument where it lies in a base tensor;
``simplify`` turns that into the first one, with the view and its scatter spelled out.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.errors import NotSupportedError
from executorch_py.graphs.rewriting import inherited_meta
from executorch_py.graphs.sources import source_of

aten = torch.ops.aten


def changed_arguments(op: OpOverload) -> list[str]:
    """Names of the arguments that ``op`` changes."""
    return [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]


def operator_of(node: fx.Node) -> OpOverload | None:
    """The operator that an ``auto_functionalized`` node stands for; None for other nodes."""
    op: Any = node.args[0] if node.op == "call_function" and node.target is auto_functionalized else None
    return op


def simplify(program: ExportedProgram) -> ExportedProgram:
    """Replaces the second version by the first, in place; returns the program.

    Raises:
        NotSupportedError: An operator changes two views of one tensor.
    """
    for module in program.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            found = [node for node in module.graph.nodes if node.target is auto_functionalized_v2]
            for node in found:
                _simplify(program, module.graph, node)
            if found:
                module.graph.lint()
                module.recompile()
    return program


def _simplify(program: ExportedProgram, graph: fx.Graph, node: fx.Node) -> None:
    op = node.args[0]
    values = node.meta["val"]
    bases = list(node.kwargs["_all_bases"])
    changed = changed_arguments(op)
    indices = {name: node.kwargs[f"_{name}_base_index"] for name in changed}
    if len(set(indices.values())) != len(indices):
        raise NotSupportedError(f"{op} at {source_of(node)} changes two views of one tensor; clone one of them first")
    num_returned = max(1, len(op._schema.returns))

    def call(target: Any, args: tuple, value: Any, kwargs: dict[str, Any] | None = None) -> fx.Node:
        new = graph.call_function(target, args, kwargs or {})
        new.meta = inherited_meta(node, value)
        return new

    with graph.inserting_before(node):
        arguments = {k: v for k, v in node.kwargs.items() if not k.startswith("_")}
        places = {name: _Place(node, name) for name in changed}
        for name, place in places.items():
            arguments[name] = place.take(call, bases[indices[name]])
        results = (*values[:num_returned], *(arguments[name].meta["val"] for name in changed))
        new = call(auto_functionalized, (op,), results, arguments)
        for position, (name, place) in enumerate(places.items(), num_returned):
            value = call(operator.getitem, (new, position), results[position])
            bases[indices[name]] = place.put(call, bases[indices[name]], value)
    for user in list(node.users):
        index: Any = user.args[1]
        if index < num_returned:
            user.replace_input_with(node, new)
        else:
            _replace(program, user, bases[index - num_returned])
    graph.erase_node(node)


#: Creates a call from target, arguments and value.
_Call = Callable[..., fx.Node]


class _Place:
    """Where a changed argument lies in its base: all of it, a slice, or any view of static sizes."""

    def __init__(self, node: fx.Node, name: str) -> None:
        prefix = f"_{name}_"
        self._given = {key[len(prefix) :]: value for key, value in node.kwargs.items() if key.startswith(prefix)}
        self._where = f"{node.args[0]} at {source_of(node)}"

    def take(self, call: _Call, base: fx.Node) -> fx.Node:
        """The argument, from its base."""
        if "size" in self._given:
            return self._apply(call, aten.as_strided.default, base, *self._strided(base))
        if "slice_dim" in self._given:
            return self._apply(call, aten.slice.Tensor, base, *self._slice())
        return base

    def put(self, call: _Call, base: fx.Node, value: fx.Node) -> fx.Node:
        """The base with a new value of the argument."""
        if "slice_dim" in self._given:
            return self._apply(call, aten.slice_scatter.default, base, value, *self._slice())
        if "size" not in self._given:
            return value
        old = base.meta["val"]
        flat = self._apply(call, aten.view.default, base, [old.numel()])
        with old.fake_mode:
            numbers = torch.arange(old.numel())
        every = call(aten.arange.default, (old.numel(),), numbers)
        places = self._apply(call, aten.as_strided.default, every, *self._strided(base))
        places = self._apply(call, aten.reshape.default, places, [-1])
        written = self._apply(call, aten.reshape.default, value, [-1])
        return self._apply(
            call, aten.view.default, self._apply(call, aten.scatter.src, flat, 0, places, written), list(old.shape)
        )

    def _slice(self) -> tuple:
        return self._given["slice_dim"], self._given["slice_start"], self._given["slice_end"]

    def _strided(self, base: fx.Node) -> tuple:
        """Sizes, strides and offset in the base's memory, which is row-major in Edge."""
        value = base.meta["val"]
        numbers = (*self._given["size"], *self._given["stride"], self._given["storage_offset"], *value.shape)
        if not value.is_contiguous() or not all(isinstance(number, int) for number in numbers):
            raise NotSupportedError(f"{self._where} changes a view that is not understood; clone the tensor before it")
        return list(self._given["size"]), list(self._given["stride"]), self._given["storage_offset"]

    @staticmethod
    def _apply(call: _Call, target: OpOverload, *args: Any) -> fx.Node:
        values = pytree.tree_map_only(fx.Node, lambda node: node.meta["val"], args)
        first = next(value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor))
        with first.fake_mode:  # type: ignore[attr-defined]
            return call(target, args, target(*values))


def _replace(program: ExportedProgram, old: fx.Node, new: fx.Node) -> None:
    old.replace_all_uses_with(new)
    program.graph_signature.replace_all_uses(old.name, new.name)
    old.graph.erase_node(old)
