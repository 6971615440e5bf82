"""Runs a model and its program side by side over a series of calls: values, shapes, state, no stale data.

A ``Case`` is a line of a table; ``check`` exports it, lowers it and holds it against eager:

>>> check(Case("relu", torch.relu, [(torch.randn(2),), (torch.randn(2),)]))  # doctest: +SKIP
"""

import contextlib
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py.errors import ExecutorchError


class Call(nn.Module):
    """A function as a module.

    Tensors that it needs are buffers, modules are children, reached by its first argument.
    """

    def __init__(self, function: Callable, **state: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in state.items():
            if isinstance(value, nn.Module):
                self.add_module(name, value)
            elif isinstance(value, nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, *args):
        return self.function(self, *args)


@dataclass
class Case:
    """One model and the calls it gets.

    Attributes:
        name: Of the test.
        model: A module, or a function of (self, *inputs).
        calls: Inputs of each call; the first is exported with.
        dynamic: ``dynamic_shapes`` of the positional arguments.
        refused: Inputs that must be refused, and a pattern of the message.
        state: What ``self`` holds when ``model`` is a function.
        strict: ``strict`` of torch.export.
        options: Of ``ExecutorchBackendConfig``.
        has: A pattern that the compiled IR must contain.
    """

    name: str
    model: Any
    calls: list[tuple]
    dynamic: Any = None
    refused: list[tuple[tuple, str]] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    strict: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    has: str = ""

    def module(self) -> nn.Module:
        """A fresh module; nothing is shared with another one."""
        if isinstance(self.model, nn.Module):
            return copy.deepcopy(self.model).eval()
        return Call(self.model, **copy.deepcopy(self.state)).eval()


def cases(table: list[Case]) -> Any:
    """Parametrises a test over a table."""
    return pytest.mark.parametrize("case", table, ids=lambda case: case.name)


def lower(case: Case, partitioner: Any = None) -> Any:
    """The compiled program of a case."""
    module = case.module()
    dynamic = case.dynamic
    if dynamic is not None and not isinstance(case.model, nn.Module):
        dynamic = (tuple(dynamic),)
    with torch.no_grad():
        exported = torch.export.export(module, _copied(case.calls[0]), dynamic_shapes=dynamic, strict=case.strict)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner)
    return edge.to_executorch(et.ExecutorchBackendConfig(**case.options) if case.options else None)


def method_of(program: Any) -> et.Method:
    """The method ``forward``, loaded."""
    return et.Runtime.get().load_program(program.buffer).load_method("forward")


def check(case: Case, partitioner: Any = None) -> None:
    """Lowers a case and runs its calls up and down beside eager.

    Every result is compared at once, and again after all later calls; mutated inputs must be equal, too. A refused call
    must name the reason, and leave the method as it was.
    """
    program = lower(case, partitioner)
    if case.has:
        assert re.search(case.has, program.dump()), program.dump()
    method, eager = method_of(program), case.module()
    kept = []
    for inputs in [*case.calls, *case.calls[::-1]]:
        ours, theirs = _copied(inputs), _copied(inputs)
        with plain_eager():
            expected = _copied(pytree.tree_leaves(eager(*theirs)))  # ours never change later, eager's may
        actual = method.execute(pytree.tree_leaves(ours))
        compare(actual, expected)
        compare(pytree.tree_leaves(ours), pytree.tree_leaves(theirs))
        kept.append((actual, expected))
    for inputs, pattern in case.refused:
        with pytest.raises(ExecutorchError) as caught:
            method.execute(pytree.tree_leaves(_copied(inputs)))
        assert re.search(pattern, str(caught.value)), str(caught.value)
    for actual, expected in kept:
        compare(actual, expected)
    if case.refused:
        inputs = _copied(case.calls[0])
        with plain_eager():
            compare(method.execute(pytree.tree_leaves(inputs)), pytree.tree_leaves(eager(*_copied(case.calls[0]))))


@contextlib.contextmanager
def plain_eager() -> Iterator[None]:
    """Control flow as Python runs it: outside of torch.compile, torch would compile each call first, for a second."""

    def call(function: Callable, *args: Any) -> Any:
        return function(*args)

    def scan(function: Callable, step: Any, initial: list[Any], scanned: list[Any]) -> Any:
        facts = step.keywords
        carried, turns = pytree.tree_unflatten(initial, facts["spec_init"]), []
        for i in range(scanned[0].shape[0]):
            items = pytree.tree_unflatten([item[i] for item in scanned], facts["spec_xs"])
            carried, result = facts["combine_fn"](carried, items)
            turns.append(result)
        return carried, pytree.tree_map(lambda *items: torch.stack(items), *turns)

    with (
        mock.patch("torch._higher_order_ops.utils._hop_compile_and_call", lambda function, args: function(*args)),
        mock.patch("torch._higher_order_ops.utils._maybe_compile_and_run_fn", call),
        mock.patch("torch._higher_order_ops.scan._maybe_compile_and_run_fn", scan),
        torch.no_grad(),
    ):
        yield


def compare(actual: list[Any], expected: list[Any]) -> None:
    """Equal kinds, dtypes, sizes and, within the tolerance of the dtype, values."""
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert tuple(ours.shape) == tuple(theirs.shape), f"{tuple(ours.shape)} instead of {tuple(theirs.shape)}"
            torch.testing.assert_close(ours, theirs.detach(), check_stride=False, equal_nan=True)
        else:
            assert ours == theirs, (ours, theirs)


def _copied(inputs: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.clone(), inputs)
