"""Times by operator, module and line against sums made here, percentiles over runs, and the share of the roofline."""

import json
import time

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py.devtools import Inspector, Machine, TimeScale
from executorch_py.devtools.inspector.events import Event, PerfData
from executorch_py.devtools.inspector.profile import CacheLevel, _best, by_operator
from executorch_py.errors import InvalidStateError
from executorch_py.graphs.sources import Source
from tests.devtools.dumps import executions
from tests.devtools.models import two_blocks

RUNS = [[900, 20, 10, 300, 20, 10, 50, 40], [100, 22, 11, 200, 20, 14, 60, 30], [110, 24, 12, 250, 20, 10, 40, 35]]


@pytest.fixture(scope="module")
def inspector():
    model, inputs = two_blocks()
    record = et.to_edge(torch.export.export(model, inputs)).to_executorch().get_etrecord()
    data = executions(record.instructions["forward"], RUNS).data
    return Inspector(etdump_data=data, etrecord=record, target_time_scale=TimeScale.NS)


def rows(profile):
    return {row.key: row for row in profile.rows}


def test_sums(inspector):
    line = rows(inspector.by_line())
    assert line["tests/devtools/models.py:17"].times.raw == [sum(run[:6]) for run in RUNS]
    assert line["tests/devtools/models.py:28"].times.raw == [sum(run[6:]) for run in RUNS]
    module = rows(inspector.by_module())
    assert module[""].times.raw == [sum(run) for run in RUNS] and module[""].detail == "TwoBlocks"
    assert module["second"].times.raw == [sum(run[3:6]) for run in RUNS]
    assert module["second.lin"].times.raw == [run[3] for run in RUNS] and module["second.lin"].calls == 1
    operator = rows(inspector.by_operator())
    assert operator["linear"].times.raw == [run[0] + run[3] for run in RUNS] and operator["linear"].calls == 2
    for profile in (inspector.by_line(), inspector.by_operator()):  # 8 ns of each execution lie between instructions
        assert sum(profile.share(row) for row in profile.rows) == pytest.approx(1.0)
        assert profile.total.p90 == pytest.approx(np.percentile([sum(run) + 8 for run in RUNS], 90))
        assert [row.times.avg for row in profile.rows] == sorted((row.times.avg for row in profile.rows), reverse=True)
    assert inspector.by_line().as_dicts()[0]["line"] == "tests/devtools/models.py:17"


def test_the_time_of_a_fused_event_goes_to_those_that_multiply():
    def shares(macs, names=("aten.convolution.default", "aten.relu.default", "aten.linear.default")):
        event = Event("fused", PerfData([8.0]), list(names), sources=[Source(file="a.py", line=1)] * 3, macs=macs)
        return {row.key: row.times.raw for row in by_operator([event], "ms").rows}

    assert shares([6, 0, 2]) == {"convolution": [6.0], "linear": [2.0], "relu": [0.0]}
    assert all(raw == pytest.approx([8 / 3]) for raw in shares([0, 0, 0]).values())


def test_roofline(inspector):
    """A linear layer [4, 16] x [16, 16]: 1024 MACs; input, weight, bias and output are 1600 bytes."""
    slow_memory = inspector.roofline(Machine(1e12, 1e9))
    first = slow_memory.rows[0]
    assert (first.event.name, first.macs, first.nbytes, first.bound) == ("native_call_linear.out", 1024, 1600, "memory")
    by_time = {row.event.perf_data.min: row for row in slow_memory.rows}
    assert by_time[200].share == pytest.approx(1600 / 200) and by_time[100].share == pytest.approx(1600 / 100)
    few_macs = inspector.roofline(Machine(1e9, 1e15)).rows[0]
    assert few_macs.bound == "compute" and few_macs.share == pytest.approx(1024 / few_macs.event.perf_data.min)
    assert "GMAC/s" in repr(slow_memory) and len(slow_memory.rows) == 8


def test_a_peak_leaves_out_the_turns_of_others():
    """A pause stands for the time in which another program has the processor."""

    def action():
        end = time.thread_time() + 0.004
        while time.thread_time() < end:
            pass
        time.sleep(0.02)

    for num_threads in (1, 2):
        assert 0.004 / num_threads * 0.9 <= _best(action, num_threads) < 0.015


def test_roofline_of_caches(inspector):
    """1600 bytes of the first linear layer: 1344 of weights and input come from before, 256 are its result."""
    machine = Machine(1e15, 1e9, (CacheLevel("L2", 1 << 10, 4e9), CacheLevel("L3", 1 << 20, 2e9)))
    rows = {(row.event.name, row.event.perf_data.min): row for row in inspector.roofline(machine).rows}
    linear = rows["native_call_linear.out", 100]
    assert (linear.nbytes, linear.bound) == (1600, "L3")  # more than the L2 has, as are the weights of the whole run
    assert linear.share == pytest.approx(1600 / 2 / 100)
    sine = rows["native_call_sin.out", 20]
    assert (sine.nbytes, sine.bound) == (512, "L2") and sine.share == pytest.approx(512 / 4 / 20)
    tiny = Machine(1e15, 1e9, (CacheLevel("L2", 600, 4e9),))  # holds no layer, and no run
    rows = {(row.event.name, row.event.perf_data.min): row for row in inspector.roofline(tiny).rows}
    assert rows["native_call_linear.out", 100].bound == "memory" and rows["native_call_sin.out", 20].bound == "L2"
    assert "L3 of 1.0 MiB 2 GB/s" in repr(inspector.roofline(machine))


def test_measured_caches_are_faster_than_memory():
    machine = Machine.measured(1)
    assert all(one.bytes_per_second > machine.bytes_per_second and one.nbytes > 0 for one in machine.caches)
    assert [one.nbytes for one in machine.caches] == sorted(one.nbytes for one in machine.caches)


def test_machine_is_measured_once():
    machine = Machine.measured(1)
    assert machine is Machine.measured(1) and machine.macs_per_second > 1e7 and machine.bytes_per_second > 1e7


def test_threads_do_not_change_what_a_machine_can_by_magnitudes():
    """Two threads of a busy machine wait for each other; their processor time is booked late."""
    one, two = Machine.measured(1).macs_per_second, Machine.measured(2).macs_per_second
    assert 0.5 * one < two < 4 * one


def test_files(inspector, tmp_path):
    told = json.loads(inspector.to_json(tmp_path / "run.json"))
    assert told == json.loads((tmp_path / "run.json").read_text()) and told["unit"] == "ns"
    first = told["blocks"][1]["events"][0]
    assert first["raw"] == [900, 100, 110] and first["lines"] == ["tests/devtools/models.py:17"] and first["p50"] == 110
    inspector.to_chrome_trace(tmp_path / "trace.json")
    spans = [one for one in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if one["ph"] == "X"]
    linear = [one for one in spans if one["name"] == "native_call_linear.out"]
    assert sorted(one["dur"] for one in linear) == pytest.approx([0.1, 0.11, 0.2, 0.25, 0.3, 0.9])
    assert linear[0]["args"]["line"] == "tests/devtools/models.py:17" and min(one["ts"] for one in spans) == 0


def test_what_needs_a_record(inspector):
    bare = Inspector(etdump_data=executions(["aten::add.out"], [[5]]).data)
    assert rows(bare.by_operator())["native_call_add.out"].calls == 1
    for what in (bare.by_line, bare.by_module, bare.roofline):
        with pytest.raises(InvalidStateError, match=r"etrecord=path"):
            what()
