"""Passes over fx graphs, under their published names. None is needed: the compiler has its own (``etpy passes``)."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.pass_base import ExportPass, map_args
from executorch_py.exir.print_program import inspect_node
from executorch_py.exir.tensor import TensorSpec
from executorch_py.graphs.nodes import arguments_of

__all__ = [
    "DebugPass",
    "RemoveNoopPass",
    "ScalarToTensorPass",
    "SpecPropPass",
    "dead_code_elimination_pass",
    "make_spec",
]


def dead_code_elimination_pass(graph_module: fx.GraphModule) -> PassResult:
    """Takes out nodes whose results nobody reads, in branches and bodies as well."""
    changed = False
    for module in graph_module.modules():
        if isinstance(module, fx.GraphModule):
            changed |= bool(module.graph.eliminate_dead_code())
            module.recompile()
    return PassResult(graph_module, changed)


class ScalarToTensorPass(ExportPass):
    """Numbers become tensors where an operator's schema has a tensor."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        """One call."""

        def tensor_of(value: Any, argument: Any) -> Any:
            wants = isinstance(argument.type, torch.TensorType) and isinstance(value, (bool, int, float))
            return torch.tensor(value) if wants else value

        if isinstance(op, OpOverload):
            args, kwargs = map_args(op, tensor_of, args, kwargs)
        return super().call_operator(op, args, kwargs, meta)


def make_spec(x: Any) -> Any:
    """The spec of a tensor; specs of several; None where it is none."""
    if isinstance(x, torch.Tensor):
        return TensorSpec.from_tensor(x)
    if isinstance(x, (list, tuple)):
        return type(x)(make_spec(one) for one in x)
    return None


class SpecPropPass(PassBase):
    """Gives each node a TensorSpec for its result, as ``meta["spec"]``."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        """Sets the specs."""
        for module in graph_module.modules():
            for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
                if node.op == "output":
                    node.meta["spec"] = fx.map_arg(node.args[0], lambda one: one.meta.get("spec"))
                elif "val" in node.meta:
                    node.meta["spec"] = make_spec(node.meta["val"])
        return PassResult(graph_module, True)


class RemoveNoopPass(PassBase):
    """Takes out operators that give their argument back: copies to the same type, and whole slices."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        """Takes them out."""
        changed = False
        for node in list(graph_module.graph.nodes):
            if node.op == "call_function" and _gives_back(node):
                node.replace_all_uses_with(node.args[0])
                graph_module.graph.erase_node(node)
                changed = True
        graph_module.recompile()
        return PassResult(graph_module, changed)


def _gives_back(node: fx.Node) -> bool:
    aten = torch.ops.aten
    source = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
    if source is None or (any(user.op == "output" for user in node.users) and source.op == "placeholder"):
        return False
    if node.target is aten.slice_copy.Tensor:
        mine, other = node.meta.get("val"), source.meta.get("val")
        same = mine is not None and other is not None and tuple(mine.shape) == tuple(other.shape)
        return same and bool(arguments_of(node)["step"] == 1)
    if node.target in (aten._to_copy.default, aten.clone.default, aten.alias_copy.default):
        mine, other = node.meta.get("val"), source.meta.get("val")
        same = mine is not None and other is not None and (mine.dtype, mine.stride()) == (other.dtype, other.stride())
        return same and mine.device == other.device
    return False


class DebugPass(PassBase):
    """Prints the graph between other passes.

    Args:
        msg: Printed first.
        enable_debug_pass: False: nothing is printed.
        show_src: With the source of each node.
        show_full_path: Accepted; paths are as torch noted them.
        show_all_frames: Accepted, likewise.
        path_filter: Only lines of the source that contain this.
        show_spec: With the specs of nodes.
        log_filename: A file to append to; None: standard output.
    """

    def __init__(
        self,
        msg: str = "",
        enable_debug_pass: bool = True,
        show_src: bool = False,
        show_full_path: bool = False,
        show_all_frames: bool = False,
        path_filter: str | None = None,
        show_spec: bool = False,
        log_filename: str | None = None,
    ) -> None:
        self.msg = msg
        self.enable_debug_pass = enable_debug_pass
        self.show_src = show_src
        self.path_filter = path_filter
        self.show_spec = show_spec
        self.log_filename = log_filename

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        """Prints; changes nothing."""
        if self.enable_debug_pass:
            text = self._text(graph_module)
            if self.log_filename is None:
                sys.stdout.write(text)
            else:
                with open(self.log_filename, "a", encoding="utf-8") as file:
                    file.write(text)
        return PassResult(graph_module, False)

    def _text(self, graph_module: fx.GraphModule) -> str:
        lines = [self.msg, str(graph_module.graph)]
        for node in graph_module.graph.nodes:
            if self.show_spec and "spec" in node.meta:
                lines.append(f"{node.name}: {node.meta['spec']}")
            if self.show_src and node.op == "call_function":
                source = inspect_node(graph_module.graph, node).split("source:\n", 1)[1].splitlines()
                lines += [f"{node.name}:", *(one for one in source if (self.path_filter or "") in one)]
        return "\n".join(lines) + "\n"
