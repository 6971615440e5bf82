"""State of graphs that are run to be measured: runs begin with the same state, and leave the user's as it was.

A module that ``ExportedProgram.module()`` gives writes to the program's own buffers, which are those of the eager
model, and of every other graph made of it. A float model and its quantized form would count each other's calls.

>>> module = own_state(torch.export.export(model, inputs).module())  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

__all__ = ["State", "own_state", "state_kept", "written_buffers"]


def written_buffers(module: fx.GraphModule) -> list[str]:
    """Names of the buffers that a graph writes, also through views of them."""
    names: dict[str, None] = {}
    for node in module.graph.nodes:
        if not getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            continue
        source = node.args[0] if node.args else None
        while isinstance(source, fx.Node) and source.op == "call_function" and source.args:
            source = source.args[0]
        if isinstance(source, fx.Node) and source.op == "get_attr":
            names[str(source.target)] = None
    known = dict(module.named_buffers(remove_duplicate=False))
    return [name for name in names if name in known]


def own_state(module: fx.GraphModule) -> fx.GraphModule:
    """The module, with buffers of its own where it writes them."""
    for name in written_buffers(module):
        path, _, last = name.rpartition(".")
        holder = module.get_submodule(path)
        setattr(holder, last, getattr(holder, last).detach().clone())
    return module


class State:
    """Buffers that a graph writes, to be put back before a run: to what ``model`` (or the graph itself) began with."""

    def __init__(self, module: fx.GraphModule, model: fx.GraphModule | None = None) -> None:
        own = dict(module.named_buffers(remove_duplicate=False))
        values = own if model is None else dict(model.named_buffers(remove_duplicate=False))
        self._buffers = [
            (own[name], (values[name] if _is_like(values.get(name), own[name]) else own[name]).clone())
            for name in written_buffers(module)
        ]

    @torch.no_grad()
    def restore(self) -> None:
        """Puts them back."""
        for buffer, value in self._buffers:
            buffer.copy_(value)


@contextlib.contextmanager
def state_kept(model: Any) -> Iterator[None]:
    """Puts the buffers of a module back behind a block that runs it."""
    if isinstance(model, fx.GraphModule):
        state = State(model)
        try:
            yield
        finally:
            state.restore()
        return
    buffers = list(model.buffers()) if isinstance(model, torch.nn.Module) else []
    before = [(buffer, buffer.detach().clone()) for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


def _is_like(value: torch.Tensor | None, buffer: torch.Tensor) -> bool:
    return value is not None and value.shape == buffer.shape and value.dtype == buffer.dtype
