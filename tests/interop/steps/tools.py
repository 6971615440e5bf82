"""The runtime's Python reference, bundled programs, and developer tools."""

from __future__ import annotations

import io
import os
import pathlib
import tempfile
from typing import Any

import torch
from torch import nn

from .shared import PICTURE, XY, Counter, Image, Linears, Sums, X, exported, same, use, xnnpack


def _compiled(model: nn.Module = None, inputs: tuple = X, **options: Any) -> Any:
    return use("exir", "to_edge")(exported(model or Linears(), inputs), **options).to_executorch()


# ------------------------------------------------------------------------------------------------------------- runtime


def runtime_is_one():
    runtime = use("runtime", "Runtime")
    assert runtime.get() is runtime.get()


def runtime_loads_from_anything():
    runtime, model = use("runtime", "Runtime").get(), Linears().eval()
    buffer = _compiled(model).buffer
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.pte"
        path.write_bytes(buffer)
        for data in (path, str(path), buffer, bytearray(buffer), io.BytesIO(buffer)):
            method = runtime.load_program(data).load_method("forward")
            same(method.execute([X[0]])[0], model(*X))


def runtime_refuses_unknown_methods():
    program = use("runtime", "Runtime").get().load_program(_compiled().buffer)
    assert program.method_names == {"forward"}
    try:
        method = program.load_method("backward")
    except Exception:
        return
    assert method is None


def runtime_refuses_wrong_inputs():
    method = use("runtime", "Runtime").get().load_program(_compiled().buffer).load_method("forward")
    for wrong in ([torch.ones(2, 8, dtype=torch.int64)], [torch.ones(99, 8)], [X[0], X[0]]):
        try:
            method.execute(wrong)
        except Exception:
            continue
        raise AssertionError(f"{wrong} were taken")


def runtime_metadata_by_name():
    program = use("runtime", "Runtime").get().load_program(_compiled(Sums(), XY).buffer)
    told = program.metadata(method_name="forward")
    assert told.name() == "forward" and (told.num_inputs(), told.num_outputs()) == (2, 1)
    assert told.input_tensor_meta(1).dtype() == 6 and tuple(told.output_tensor_meta(0).sizes()) == (2, 3)
    assert told.input_tensor_meta(0).is_memory_planned() and "2, 3" in repr(told.input_tensor_meta(0))


def runtime_knows_no_such_backend():
    registry = use("runtime", "Runtime").get().backend_registry
    assert not registry.is_available("NoSuchBackend") and "NoSuchBackend" not in registry.registered_backend_names


def runtime_verifies():
    """Bytes that are no program are refused with either verification."""
    runtime, verification = use("runtime", "Runtime", "Verification")
    for how in (verification.Minimal, verification.InternalConsistency):
        try:
            runtime.get().load_program(b"\0" * 256, verification=how)
        except Exception:
            continue
        raise AssertionError("zeros are no program")


def runtime_results_of_several_calls():
    method = use("runtime", "Runtime").get().load_program(_compiled(Sums(), XY).buffer).load_method("forward")
    for _ in range(3):
        inputs = [torch.randn(2, 3), torch.randn(2, 3)]
        same(method.execute(inputs)[0], Sums()(*inputs))


# ----------------------------------------------------------------------------------------------------- bundled programs


class _Integers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", 3 * torch.ones(2, 2, dtype=torch.int32))
        self.register_buffer("b", 2 * torch.ones(2, 2, dtype=torch.int32))

    def forward(self, x, q):
        z = x.clone()
        torch.mul(self.a, x, out=z)
        y = x.clone()
        torch.add(z, self.b, out=y)
        torch.add(y, q, out=y)
        return y


def _integers() -> tuple:
    return tuple(torch.randint(-9, 9, (2, 2), dtype=torch.int32) for _ in range(2))


def _bundle(name: str = "forward", inputs: Any = None, wrong: int = 0) -> Any:
    case, suite = use("devtools.bundled_program.config", "MethodTestCase", "MethodTestSuite")
    model = _Integers()
    cases = [
        case(inputs=list(one), expected_outputs=(model(*one) + wrong,))
        for one in (inputs or [_integers() for _ in range(3)])
    ]
    return use("devtools", "BundledProgram")(_compiled(model, _integers()), [suite(method_name=name, test_cases=cases)])


def bundled_program_as_bytes():
    write, read = use(
        "devtools.bundled_program.serialize",
        "serialize_from_bundled_program_to_flatbuffer",
        "deserialize_from_flatbuffer_to_bundled_program",
    )
    data = write(_bundle())
    again = read(data)
    assert len(again.method_test_suites) == 1 and again.method_test_suites[0].method_name == "forward"
    assert len(again.method_test_suites[0].test_cases) == 3


def bundled_program_of_another_dtype():
    try:
        _bundle(inputs=[(torch.ones(2, 2), torch.ones(2, 2))])
    except Exception as error:
        assert "float32" in str(error) and "int32" in str(error)
    else:
        raise AssertionError("floats were taken for integers")


def bundled_program_of_another_method():
    try:
        _bundle(name="wrong_forward")
    except Exception as error:
        assert "wrong_forward" in str(error)
    else:
        raise AssertionError("there is no such method")


def bundled_program_verifies():
    """Results are compared with those that the program should have given."""
    write = use("devtools.bundled_program.serialize", "serialize_from_bundled_program_to_flatbuffer")
    load = use("extension.pybindings.portable_lib", "_load_bundled_program_from_buffer")
    right, wrong = load(write(_bundle())), load(write(_bundle(wrong=1)))
    for index in range(3):
        right.verify_result_with_bundled_expected_output("forward", index)
    try:
        told = wrong.verify_result_with_bundled_expected_output("forward", 0)
    except Exception:
        return
    assert told is False or not str(told).endswith("Ok"), told


def bundled_program_runs():
    write = use("devtools.bundled_program.serialize", "serialize_from_bundled_program_to_flatbuffer")
    load_bundle, load = use(
        "extension.pybindings.portable_lib",
        "_load_bundled_program_from_buffer",
        "_load_for_executorch_from_bundled_program",
    )
    inputs = _integers()
    module = load(load_bundle(write(_bundle())))
    same(module.forward(list(inputs))[0].float(), _Integers()(*inputs).float())


def attribute_of_a_method():
    """A mutable buffer is read by its name while the method is loaded."""
    config = use("exir", "ExecutorchBackendConfig")(emit_mutable_buffer_names=True)
    program = use("exir", "to_edge")(exported(Counter(), (torch.ones(1),))).to_executorch(config)
    method = use("extension.pybindings.portable_lib", "_load_program_from_buffer")(program.buffer).load_method(
        "forward"
    )
    for count in (1.0, 2.0):
        method.call([torch.ones(1)])
        assert float(method.get_attribute("count")) == count


# ------------------------------------------------------------------------------------------------------ developer tools


def _recorded(folder: str, partitioner: Any = None) -> tuple:
    lower = use("exir", "to_edge_transform_and_lower")
    model = Image().eval()
    edge = lower(exported(model, PICTURE), partitioner=partitioner, generate_etrecord=True)
    program = edge.to_executorch()
    record, dump, values = (os.path.join(folder, name) for name in ("model.etrecord", "run.etdp", "run.bin"))
    program.get_etrecord().save(record)
    load = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")
    module = load(program.buffer, enable_etdump=True, debug_buffer_size=1 << 20)
    same(module.forward(list(PICTURE))[0], model(*PICTURE))
    assert module.has_etdump()
    module.write_etdump_result_to_file(dump, values)
    return record, dump, values


def inspector_of_a_run():
    inspector = use("devtools", "Inspector")
    with tempfile.TemporaryDirectory() as folder:
        record, dump, _ = _recorded(folder)
        one = inspector(etdump_path=dump, etrecord=record)
        frame = one.to_dataframe()
        assert {"event_block_name", "event_name", "avg (ms)", "op_types", "stack_traces"} <= set(frame.columns)
        names = [event.name for block in one.event_blocks for event in block.events]
        assert "Method::execute" in names and any("conv" in name for name in names)
        assert one.get_exported_program() is not None
        one.print_data_tabular()
        path = os.path.join(folder, "events.tsv")
        with open(path, "w") as file:
            one.save_data_to_tsv(file)
        assert os.path.getsize(path) > 100


def inspector_by_module():
    """The module hierarchy gives the time of a whole submodule."""
    inspector = use("devtools", "Inspector")
    with tempfile.TemporaryDirectory() as folder:
        record, dump, _ = _recorded(folder)
        one = inspector(etdump_path=dump, etrecord=record)
        assert one.find_total_for_module("conv") > 0


def inspector_of_a_delegate():
    inspector = use("devtools", "Inspector")
    with tempfile.TemporaryDirectory() as folder:
        record, dump, _ = _recorded(folder, [xnnpack()()])
        one = inspector(etdump_path=dump, etrecord=record)
        events = [event for block in one.event_blocks for event in block.events]
        assert any(event.is_delegated_op for event in events) or any("DELEGATE" in event.name for event in events)


def inspector_compares_numbers():
    inspector = use("devtools", "Inspector")
    with tempfile.TemporaryDirectory() as folder:
        record, dump, values = _recorded(folder)
        record_class = use("devtools", "parse_etrecord")(record)
        record_class.update_representative_inputs([PICTURE[0]])
        one = inspector(etdump_path=dump, etrecord=record_class, debug_buffer_path=values)
        gap = one.calculate_numeric_gap("MSE")
        assert len(gap) >= 1 and all(float(item) < 1e-6 for row in gap["gap"] for item in row)


def etrecord_of_both_graphs():
    generate, parse = use("devtools", "generate_etrecord", "parse_etrecord")
    edge = use("exir", "to_edge")(exported(Image(), PICTURE))
    import copy

    kept = copy.deepcopy(edge)
    program = edge.to_executorch()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.etrecord")
        generate(path, kept, program)
        record = parse(path)
    assert record.edge_dialect_program is not None
    assert any("conv" in str(node.target) for node in record.edge_dialect_program.graph.nodes)
