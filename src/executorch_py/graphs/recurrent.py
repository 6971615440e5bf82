"""Loops that stand for recurrent layers: their mark, and their steps written one behind the other.

A quantizer makes a ``scan`` of a recurrent layer (quantizer/rules/loops.py), and the compiler one operator of that
where it has one. A backend that takes the steps themselves has them unrolled.
"""

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from .rewriting import inherited_meta

aten = torch.ops.aten
scan = torch.ops.higher_order.scan

#: Of recurrent layers -> whether the compiler has an operator for the whole layer.
_MARK = "executorch_py.recurrent"


@contextlib.contextmanager
def a_recurrent_layer() -> Iterator[None]:
    """While active, loops that are traced are recurrent layers that become one operator."""
    with fx.traceback.preserve_node_meta(), fx.traceback.annotate({_MARK: True}):
        yield


def mark_recurrent(node: fx.Node, *, is_one_operator: bool) -> None:
    """Says of a loop that it is a recurrent layer."""
    node.meta["custom"] = {**(node.meta.get("custom") or {}), _MARK: is_one_operator}


def _body(module: fx.GraphModule, loop: fx.Node) -> fx.Graph:
    """The graph of one step."""
    body: Any = module.get_submodule(str(loop.args[0].target))  # type: ignore[union-attr]
    graph: fx.Graph = body.graph
    return graph


def _mark_of(node: fx.Node) -> bool | None:
    """The mark of a loop that stands for a recurrent layer; None: it is no such loop."""
    custom: dict[str, bool] = node.meta.get("custom") or {}
    return custom.get(_MARK) if node.target is scan else None


def parts_of_recurrent(module: fx.GraphModule) -> set[fx.Node]:
    """The nodes that become one operator with recurrent layers: their steps, and what makes floats of their items."""
    found: set[fx.Node] = set()
    for node in module.graph.nodes:
        if _mark_of(node):
            found |= set(_body(module, node).nodes)
            items = node.args[2][0]
            if items.target is aten.flip.default:
                items = items.args[0]
            if items.target is torch.ops.quantized_decomposed.dequantize_per_tensor.default:
                found.add(items)
    return found


def unroll_recurrent(program: ExportedProgram) -> None:
    """Writes the steps of recurrent layers one behind the other, in place, where their number is known."""
    module = program.graph_module
    for node in list(module.graph.nodes):
        if _mark_of(node) is not None and isinstance(node.args[2][0].meta["val"].shape[0], int):
            _unroll(program, node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _unroll(program: ExportedProgram, loop: fx.Node) -> None:
    module, graph = program.graph_module, program.graph
    arguments: Any = loop.args
    _, initial, (items,), captured = arguments
    body = _body(module, loop)
    inputs = [node for node in body.nodes if node.op == "placeholder"]
    value = items.meta["val"]
    with value.fake_mode:
        parts_value = torch.unbind(value)
    state: list[Any] = list(initial)
    rows: list[Any] = []

    def emit(target: Any, args: tuple, result: Any) -> fx.Node:
        made = graph.call_function(target, args)
        made.meta = inherited_meta(loop, result)
        return made

    with graph.inserting_before(loop):
        parts = emit(aten.unbind_copy.int, (items, 0), parts_value)
        for step, part_value in enumerate(parts_value):
            part = emit(operator.getitem, (parts, step), part_value)
            new: dict[fx.Node, Any] = dict(zip(inputs, [*state, part, *captured], strict=True))
            for inner in body.nodes:
                if inner.op == "call_function":
                    new[inner] = graph.node_copy(inner, new.__getitem__)
                    new[inner].meta = dict(inner.meta)
                elif inner.op == "output":
                    outputs: Any = inner.args[0]
                    *state, row = [new[one] for one in outputs]
            rows.append(row)
        stacked = emit(aten.stack.default, (rows, 0), loop.meta["val"][-1])
    results = [*state, stacked]
    for user in list(loop.users):
        result = results[user.args[1]]  # type: ignore[index]
        user.replace_all_uses_with(result)
        program.graph_signature.replace_all_uses(user.name, result.name)
        graph.erase_node(user)
    graph.erase_node(loop)
