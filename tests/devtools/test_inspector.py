"""Inspector: times over runs, operators, modules, values and gaps; and files that do not fit each other."""

import io
import json
import random
import struct

import numpy as np
import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py.devtools import Inspector, TimeScale, compare_results
from executorch_py.devtools.etdump import schema_flatcc
from executorch_py.devtools.inspector.numerical_comparator import NumericalComparatorBase
from executorch_py.devtools.inspector.values import inflate
from executorch_py.errors import InvalidArgumentError, InvalidProgramError, InvalidStateError, NotFoundError
from tests.devtools.dumps import Dump, executions
from tests.devtools.models import two_blocks


def recorded(partitioner=None, model_and_inputs=None):
    model, inputs = model_and_inputs or two_blocks()
    exported = torch.export.export(model, inputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner, generate_etrecord=True)
    return edge.to_executorch().get_etrecord()


@pytest.fixture(scope="module")
def record():
    return recorded()


def values_of(model, x):
    """The value of each instruction of ``two_blocks``, in order."""
    values = []
    for block in (model.first, model.second):
        values += [block.lin(x if not values else values[-1])]
        values += [torch.sin(values[-1])]
        values += [torch.relu(values[-1])]
    values += [torch.cos(x)]
    return [*values, values[5] + values[6]]


RUNS = [[900, 20, 10, 300, 20, 10, 50, 40], [100, 22, 11, 200, 20, 14, 60, 30], [110, 24, 12, 250, 20, 10, 40, 35]]


@pytest.fixture
def inspector(record):
    return Inspector(
        etdump_data=executions(record.instructions["forward"], RUNS).data,
        etrecord=record,
        target_time_scale=TimeScale.NS,
    )


def test_times_over_runs(inspector):
    loading, running = inspector.event_blocks
    assert [event.name for event in loading.events] == ["Method::init", "Program::load_method"]
    assert running.method == "forward"
    kernels = [event for event in running.events if event.name.startswith("native_call")]
    assert len(kernels) == 8
    for index, event in enumerate(kernels):
        column = [run[index] for run in RUNS]
        assert event.perf_data.raw == column
        assert event.perf_data.p10 == pytest.approx(np.percentile(column, 10))
        assert (event.perf_data.min, event.perf_data.max) == (min(column), max(column))
        assert event.perf_data.p50 == sorted(column)[1] and event.perf_data.avg == pytest.approx(np.mean(column))
    *instructions, between = inspector.events()
    assert sum(event.perf_data.avg for event in instructions) == pytest.approx(sum(map(sum, RUNS)) / 3)
    assert between.name == "(between instructions)" and between.perf_data.raw == [8] * 3  # of the whole execution


def test_operators_modules_and_lines(inspector):
    linear = inspector.get_op_list("Execute")["aten.linear.default"]
    kernels = [event for event in linear if event.counts]
    assert [event.sources[0].module_path for event in kernels] == ["first.lin", "second.lin"]
    assert all("models.py" in event.where for event in kernels)
    assert any("models.py" in trace for trace in kernels[0].stack_traces.values())
    assert inspector.find_total_for_module("second.lin") == pytest.approx(250)
    assert inspector.find_total_for_module("second") == pytest.approx(250 + 20 + 34 / 3)
    assert inspector.find_total_for_module("") == pytest.approx(sum(map(sum, RUNS)) / 3)
    with pytest.raises(NotFoundError, match=r"no operator lies in a module 'third'; there are first, first\.lin"):
        inspector.find_total_for_module("third")
    with pytest.raises(NotFoundError, match="there are Default, Execute"):
        inspector.get_op_list("Exec")


def test_tables(inspector, record):
    pandas = pytest.importorskip("pandas")
    frame = inspector.to_dataframe()
    assert list(frame.columns[:9]) == [
        "event_block_name", "event_name", "raw", "p10 (ns)", "p50 (ns)", "p90 (ns)", "avg (ns)", "min (ns)", "max (ns)",
    ]  # fmt: skip
    assert len(frame) == 2 + 17
    stream = io.StringIO()
    inspector.save_data_to_tsv(stream)
    stream.seek(0)
    read = pandas.read_csv(stream, sep="\t", index_col=0)
    assert list(read["p50 (ns)"][2:10]) == [sorted(column)[1] for column in zip(*RUNS, strict=True)]
    text = io.StringIO()
    inspector.print_data_tabular(text)
    assert "native_call_linear.out" in text.getvalue() and "OPERATOR_CALL" not in text.getvalue()
    assert "p50 (ns)" in text.getvalue().splitlines()[0]
    assert "17 events, 3 runs" in repr(inspector)
    assert "start_time" in frame.columns and "start_time" not in text.getvalue()


def test_time_scales(record):
    data = executions(record.instructions["forward"], [RUNS[0]]).data
    in_us = Inspector(etdump_data=data, etrecord=record, target_time_scale=TimeScale.US)
    assert in_us.find_total_for_module("first.lin") == pytest.approx(0.9)
    with pytest.raises(InvalidArgumentError, match="CYCLES"):
        Inspector(etdump_data=data, source_time_scale=TimeScale.CYCLES)


def test_runs_with_other_events_are_other_blocks(record):
    dump = executions(record.instructions["forward"], RUNS)
    dump.run()
    dump.span("native_call_linear.out", 5, 0)
    blocks = Inspector(etdump_data=dump.data).event_blocks
    assert [len(block.events) for block in blocks] == [2, 17, 1]


def test_what_a_loop_does_several_times_is_added_up():
    dump = Dump()
    dump.run()
    for time in (5, 6, 7):
        dump.span("native_call_add.out", time, 3)
    (event,) = Inspector(etdump_data=dump.data, target_time_scale=TimeScale.NS).event_blocks[0].events
    assert event.perf_data.raw == [18]


def delegated(ids):
    dump = Dump()
    dump.run()
    for one, time in ids.items():
        dump.span("", time, 0, one, b"note %d" % time)
    dump.span("DELEGATE_CALL", 100, 0)
    return dump


def test_operators_of_a_delegate():
    """Operators that a backend timed take the delegate's place where its map names them; else it stays whole."""
    record = recorded([XnnpackPartitioner(largest=True)])
    dump = delegated({7: 60, "sine": 30})
    whole = Inspector(etdump_data=dump.data, etrecord=record, target_time_scale=TimeScale.NS)
    handles = record.debug_handle_map["forward"][0]
    if not record.delegate_map["forward"]:
        assert [event.name for event in whole.events()] == ["DELEGATE_CALL"]
        assert whole.find_total_for_module("first.lin") == pytest.approx(100 / len(handles))
    record._delegate_map = {
        "forward": {0: {"name": "XnnpackBackend", "delegate_map": {7: (handles[0],), "sine": (handles[1],)}}}
    }
    inner = Inspector(
        etdump_data=dump.data,
        etrecord=record,
        target_time_scale=TimeScale.NS,
        delegate_metadata_parser=lambda notes: [note.decode() for note in notes],
        delegate_time_scale_converter=lambda name, time: time * (2 if name == 7 else 1),
    )
    first, second = inner.events()
    assert (first.name, second.name) == ("7", "sine")
    assert (first.delegate_debug_identifier, second.delegate_debug_identifier) == (7, "sine")
    assert first.delegate_backend_name == "XnnpackBackend" and first.is_delegated_op
    assert first.perf_data.raw == [120] and second.perf_data.raw == [30]
    assert first.delegate_debug_metadatas == ["note 60"] and first.raw_delegate_debug_metadatas == [b"note 60"]
    assert inner.find_total_for_module("first.lin") == pytest.approx(120)
    assert "delegate_debug_metadatas" in inner.event_blocks[0].rows(True, True)[0]


def test_numeric_gap_finds_the_wrong_kernel(record, tmp_path):
    model, (x,) = two_blocks()
    good = values_of(model, x)
    bad = [value if index != 4 else value + 0.5 for index, value in enumerate(good)]
    dump = executions(record.instructions["forward"], [RUNS[0]], bad)
    path = tmp_path / "debug.bin"
    path.write_bytes(dump.buffer)
    found = Inspector(etdump_data=dump.data, etrecord=record, debug_buffer_path=path)
    pytest.importorskip("pandas")
    table = found.calculate_numeric_gap("MSE")
    assert len(table) == 8
    gaps = [gap for (gap,) in table["gap"]]
    assert gaps[4] == pytest.approx(0.25, rel=1e-4) and max(gaps[:4] + gaps[5:]) < 1e-9
    assert table["aot_ops"][4] == ["sin_1"] and table["runtime_ops"][4] == ["native_call_sin.out"]
    assert "models.py" in table["stacktraces"][4]["sin_1"]
    assert found.calculate_numeric_gap("SNR")["gap"][4][0] < 10

    class Largest(NumericalComparatorBase):
        def preprocessing(self, mapping):
            return {key: (own, value * 2) for key, (own, value) in mapping.items()}

        def element_compare(self, a, b):
            return float((2 * a - b).abs().max())

    assert found.calculate_numeric_gap(Largest())["gap"][4][0] == pytest.approx(1.0, rel=1e-4)
    assert torch.equal(found.event_blocks[1].run_output[0], bad[-1])
    with pytest.raises(InvalidArgumentError, match="there are MSE, L1, SNR"):
        found.calculate_numeric_gap("mse")


def test_numeric_gap_says_what_is_missing(record, inspector):
    with pytest.raises(InvalidStateError, match="debug_buffer_size"):
        inspector.calculate_numeric_gap("MSE")
    dump = executions(record.instructions["forward"], RUNS)
    with pytest.raises(InvalidStateError, match="needs the ETRecord"):
        Inspector(etdump_data=dump.data).calculate_numeric_gap("MSE")


def test_programs_of_the_record(inspector, record):
    assert inspector.get_exported_program() is record.edge_dialect_program
    assert inspector.get_exported_program("exported_program") is record.exported_program
    with pytest.raises(NotFoundError, match="has no program 'edge'"):
        inspector.get_exported_program("edge")
    dump = executions(record.instructions["forward"], RUNS)
    assert Inspector(etdump_data=dump.data).get_exported_program() is None


def test_the_method_that_ran():
    """With several methods the instructions tell which one it was."""
    model, inputs = two_blocks()
    exported = {name: torch.export.export(part, inputs) for name, part in (("forward", model), ("first", model.first))}
    record = et.to_edge(exported).to_executorch().get_etrecord()
    dump = executions(record.instructions["forward"], [RUNS[0]])
    found = Inspector(etdump_data=dump.data, etrecord=record)
    assert [block.method for block in found.event_blocks] == ["", "forward"]
    record.instructions["forward"] = record.instructions["forward"][:2]
    dump = executions(record.instructions["first"], [[1, 2, 3]])
    assert Inspector(etdump_data=dump.data, etrecord=record).event_blocks[1].method == "first"


def test_files_of_different_programs(record, tmp_path):
    other = recorded(model_and_inputs=(torch.nn.Linear(3, 3), (torch.randn(2, 3),)))
    path = tmp_path / "other.etrecord"
    other.save(path)
    dump_path = tmp_path / "run.etdp"
    dump_path.write_bytes(executions(record.instructions["forward"], RUNS).data)
    with pytest.raises(InvalidArgumentError, match=r"run\.etdp and .*other\.etrecord are of different programs.*Take"):
        Inspector(dump_path, etrecord=path)
    dump_path.write_bytes(executions(["aten::mul.out"] * 8, RUNS).data)
    with pytest.raises(InvalidArgumentError, match=r"calls linear\.out in instruction 0, and mul\.out ran"):
        Inspector(dump_path, etrecord=record)
    dump_path.write_bytes(delegated({3: 1}).data)
    with pytest.raises(InvalidArgumentError, match=r"calls linear\.out in instruction 0, and a delegate ran"):
        Inspector(dump_path, etrecord=record)


def test_a_handle_that_is_nowhere(tmp_path):
    lost = recorded()
    lost._debug_handle_map = {"forward": {**lost.debug_handle_map["forward"], 3: [4, 77]}}
    path = tmp_path / "lost.etrecord"
    lost.save(path)
    dump = executions(lost.instructions["forward"], RUNS)
    with pytest.raises(
        InvalidProgramError, match=r"lost\.etrecord names the debug handle 77 for instruction 3.*get_etrecord"
    ):
        Inspector(etdump_data=dump.data, etrecord=path)


def test_files_that_are_none(record, tmp_path):
    data = executions(record.instructions["forward"], RUNS, values_of(two_blocks()[0], two_blocks()[1][0])).data
    path = tmp_path / "bad.etdp"
    for bad, says in ((b"", "no ETDump"), (b"abc", "no ETDump"), (data[:-40], "cut off"), (b"\0" * 400, "no ETDump")):
        path.write_bytes(bad)
        with pytest.raises(InvalidProgramError, match=rf"bad\.etdp.*{says}.*enable_etdump"):
            Inspector(path)
    short = tmp_path / "short.bin"
    short.write_bytes(b"\0" * 16)
    with pytest.raises(InvalidProgramError, match="debug buffer, which has 16"):
        Inspector(etdump_data=data, debug_buffer_path=short)
    with pytest.raises(FileNotFoundError):
        Inspector(tmp_path / "nowhere")
    with pytest.raises(InvalidArgumentError, match="one of them"):
        Inspector()


def test_damaged_files_never_end_the_process(record, tmp_path):
    values = values_of(two_blocks()[0], two_blocks()[1][0])
    dump = executions(record.instructions["forward"], RUNS[:1], [*values, torch.empty(0, 4)])
    (tmp_path / "values.bin").write_bytes(dump.buffer)
    numbers = random.Random(3)
    refused = 0
    for _ in range(400):
        bad = bytearray(dump.data)
        for _ in range(2):
            struct.pack_into(
                "<I",
                bad,
                numbers.randrange(8, len(bad) - 4),
                numbers.choice((0, 1, 2**31, 2**32 - 1, numbers.getrandbits(32))),
            )
        try:
            Inspector(etdump_data=bytes(bad), etrecord=record, debug_buffer_path=tmp_path / "values.bin")
        except (InvalidProgramError, InvalidArgumentError):
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("sizes", [[0, -4], [-(2**40), 0], [2**62, 2**62, 0], [2, 2**40], [5]])
def test_tensors_that_the_debug_buffer_does_not_hold(sizes):
    tensor = schema_flatcc.Tensor(et.ScalarType.FLOAT, sizes, [1] * len(sizes), 0)
    with pytest.raises(InvalidProgramError, match="give the debug buffer that was written with this ETDump"):
        inflate(schema_flatcc.Value("Tensor", tensor), bytes(16))


def test_compare_results():
    a, b = [torch.ones(4), torch.arange(3.0)], [torch.ones(4), torch.arange(3.0) + 0.1]
    found = compare_results(a, b)
    assert found["mse"] == pytest.approx([0.0, 0.01], abs=1e-6) and found["cosine"][0] == pytest.approx(1.0)
    assert list(compare_results(a, b, ["snr"])) == ["snr"]
    with pytest.raises(InvalidArgumentError, match="there are snr, mse, cosine"):
        compare_results(a, b, ["psnr"])
    with pytest.raises(InvalidArgumentError, match="1 outputs, expected 2"):
        compare_results(a, b[:1])
    assert json.dumps(found)
