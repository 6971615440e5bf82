"""Profiles of runs that took other ways, and of runs that something interrupted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import executorch_py as et
from executorch_py.devtools import Inspector, TimeScale
from executorch_py.devtools.inspector.events import Event, PerfData
from executorch_py.devtools.inspector.profile import by_operator

#: What the compiler adds; they stand for no node.
COPIES = ("copy_", "_clone_dim_order.out")


class Branching(torch.nn.Module):
    """A layer in each branch, and one behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(16, 16)
        self.b = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda v: torch.sin(self.a(v)), lambda v: torch.tanh(self.b(v)), (x,))
        return y * 2


class Counting(torch.nn.Module):
    """A loop whose steps depend on the input."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        _, y = torch._higher_order_ops.while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, torch.sin(x) + 1), (n, x))
        return y * 2


def inspected(model: torch.nn.Module, *calls: tuple[Any, ...]) -> Inspector:
    edge = et.to_edge_transform_and_lower(torch.export.export(model.eval(), calls[0]), generate_etrecord=True)
    program = edge.to_executorch()
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True)
    method = loaded.load_method("forward")
    for inputs in calls:
        method.execute(inputs)
    return Inspector.of(loaded, program.get_etrecord(), target_time_scale=TimeScale.US)


def test_each_run_counts_whichever_branch_it_took() -> None:
    """Runs of the rarer branch were left out, without a word."""
    x = torch.rand(8, 16)
    inspector = inspected(Branching(), *[(x if i % 3 else -x,) for i in range(9)])
    rows = {row.key: row for row in inspector.by_operator().rows}
    assert {name: len(rows[name].times.raw) for name in ("sin", "tanh", "linear", "mul.Tensor")} == {
        "sin": 6, "tanh": 3, "linear": 9, "mul.Tensor": 9,
    }  # fmt: skip
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    assert len(inspector.by_operator().total.raw) == 9
    events = [event for block in inspector.event_blocks for event in block.events if event.counts]
    whole = sum(sum(event.perf_data.raw) for event in events if event.perf_data) / 9
    assert inspector.find_total_for_module("") == pytest.approx(whole, rel=0.3)  # jumps lie in no module


def test_instructions_in_bodies_have_lines() -> None:
    """They had no debug handle, so that most of the time was of no known line."""
    x = torch.rand(8, 16)
    loop = [(torch.tensor(n), x) for n in (3, 5)]
    for inspector in (inspected(Branching(), (x,), (-x,)), inspected(Counting(), *loop)):
        kernels = [e for b in inspector.event_blocks for e in b.events if e.name.startswith("native_call")]
        kernels = [event for event in kernels if event.name.split("_call_")[1] not in COPIES]
        assert kernels and all("test_runs_that_differ.py:" in event.where for event in kernels), kernels
        handles = [tuple(event.debug_handles) for event in inspector.event_blocks[1].events if event.op_types]
        assert all(handles)


def test_bodies_in_a_module_belong_to_it() -> None:
    model = torch.nn.Sequential(torch.nn.Hardtanh(), Branching())
    x = torch.rand(8, 16)
    inspector = inspected(model, (x,), (-x,))
    assert {"0", "1"} <= {row.key for row in inspector.by_module().rows}
    bodies = [
        e
        for b in inspector.event_blocks
        for e in b.events
        if e.op_types in (["aten.sin.default"], ["aten.tanh.default"])
    ]
    assert {event.op_types[0] for event in bodies} == {"aten.sin.default", "aten.tanh.default"}
    assert all(source.module_path == "1" for event in bodies for source in event.sources), bodies


def test_an_interrupted_run_decides_no_share() -> None:
    def event(name: str, *times: float) -> Event:
        return Event(name, PerfData(list(times)), op_types=[name])

    times = [1.0] * 9
    rows = by_operator([event("a", *times, 3.0), event("b", *[3.0] * 10), event("c", 5000.0, *times)], "us").rows
    assert [(row.key, round(row.share, 3)) for row in rows] == [("b", 0.6), ("a", 0.2), ("c", 0.2)]
