"""The managers with the published names: methods, passes, configurations, files, and what they refuse."""

import copy
import io
import os
import resource

import pytest
import torch
from executorch_py.backends.example import ExamplePartitioner
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.fx.passes.infra.pass_base import PassResult

import executorch_py as et
from executorch_py.errors import (
    AccessFailedError,
    InvalidArgumentError,
    InvalidStateError,
    NotFoundError,
    OperatorMissingError,
)
from executorch_py.exir.pass_base import ExportPass

X = (torch.randn(2, 4),)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.linear(x))


def _edge(model=None, **options):
    return et.to_edge(torch.export.export(model or Net(), X), **options)


def _run(manager, *inputs, method="forward"):
    return et.Runtime.get().load_program(manager.buffer).load_method(method).execute(inputs or X)


def test_save_load_run(tmp_path):
    model = Net()
    program = et.to_edge_transform_and_lower(torch.export.export(model, X)).to_executorch()
    program.save(tmp_path / "model.pte")
    assert os.listdir(tmp_path) == ["model.pte"] and (tmp_path / "model.pte").read_bytes() == program.buffer
    stream = io.BytesIO()
    program.write_to_file(stream)
    assert stream.getvalue() == program.buffer
    torch.testing.assert_close(et.load(tmp_path / "model.pte")(*X), model(*X).detach())


def test_save_refuses_and_leaves_nothing(tmp_path):
    program = _edge().to_executorch()
    with pytest.raises(InvalidArgumentError, match=r"\.pte"):
        program.save(tmp_path / "model.bin")
    with pytest.raises(AccessFailedError):
        program.save(tmp_path / "missing" / "model.pte")
    assert not os.listdir(tmp_path)


def test_a_save_that_finds_no_room_keeps_the_old_file(tmp_path):
    """A full disk, by the limit of a file's size: the write stops half-way."""
    path = tmp_path / "model.pte"
    small = _edge().to_executorch()
    small.save(path)
    large = et.to_edge(torch.export.export(nn.Linear(200, 200), (torch.randn(1, 200),))).to_executorch()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(small.buffer) + 4096, hard))
    try:
        with pytest.raises(AccessFailedError, match=r"model\.pte"):
            large.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["model.pte"] and path.read_bytes() == small.buffer


def test_several_methods_and_constant_methods():
    one, two = Net(), Net()
    exported = {"one": torch.export.export(one, X), "two": torch.export.export(two, X)}
    edge = et.to_edge(exported, constant_methods={"max_len": 7})
    assert edge.methods == {"one", "two"} and edge.config_methods == {"max_len"}
    program = edge.to_executorch()
    assert program.methods == {"one", "two"} and program.config_methods == {"max_len"}
    torch.testing.assert_close(_run(program, *X, method="two"), [two(*X).detach()])
    loaded = et.Runtime.get().load_program(program.buffer)
    assert loaded.method_names == {"one", "two", "max_len"}
    assert loaded.load_method("max_len").execute([]) == [7]
    with pytest.raises(NotFoundError, match="one, two"):
        edge.exported_program("three")


def _double(graph_module):
    """relu(x) -> relu(x) + relu(x), in place."""
    for node in list(graph_module.graph.nodes):
        if node.target is torch.ops.aten.relu.default:
            with graph_module.graph.inserting_after(node):
                double = graph_module.graph.call_function(torch.ops.aten.add.Tensor, (node, node))
            double.meta = dict(node.meta)
            node.replace_all_uses_with(double, delete_user_cb=lambda user, double=double: user is not double)
    return PassResult(graph_module, True)


class SinForRelu(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op is torch.ops.aten.relu.default:
            op = torch.ops.aten.sin.default
        return super().call_operator(op, args, kwargs, meta)


def test_users_passes():
    model = Net()
    edge = _edge(model)
    torch.testing.assert_close(_run(edge.transform([_double]).to_executorch()), [2 * model(*X).detach()])
    torch.testing.assert_close(_run(edge.to_executorch()), [model(*X).detach()])
    retraced = edge.transform({"forward": [SinForRelu()]})
    torch.testing.assert_close(_run(retraced.to_executorch()), [model.linear(*X).sin().detach()])
    config = et.ExecutorchBackendConfig(passes=[_double, _double])
    torch.testing.assert_close(_run(edge.to_executorch(config)), [4 * model(*X).detach()])
    lowered = et.to_edge_transform_and_lower(torch.export.export(model, X), transform_passes=[_double])
    torch.testing.assert_close(_run(lowered.to_executorch()), [2 * model(*X).detach()])


def test_a_pass_must_return_what_a_pass_returns():
    with pytest.raises(InvalidArgumentError, match="returned 3; it must return"):
        _edge().transform([lambda module: 3])


def test_preserved_operators():
    class Hypot(nn.Module):
        def forward(self, x):
            return torch.rsub(x, x)

    op = torch.ops.aten.rsub.Tensor
    kept = _edge(Hypot(), compile_config=et.EdgeCompileConfig(preserve_ops=[op]))
    assert op in {node.target for node in kept.exported_program().graph.nodes}
    assert op not in {node.target for node in _edge(Hypot()).exported_program().graph.nodes}


def test_external_constants(tmp_path):
    model = Net()
    everything = _edge(model).to_executorch(et.ExecutorchBackendConfig(external_constants=True))
    everything.save(tmp_path / "model.pte")
    everything.write_tensor_data_to_file(tmp_path)
    name = next(name for name in os.listdir(tmp_path) if name.endswith(".ptd"))
    program = et.Runtime.get().load_program(tmp_path / "model.pte", data_path=tmp_path / name)
    torch.testing.assert_close(program.load_method("forward").execute(X), [model(*X).detach()])
    rule = lambda name, tensor: "some" if name == "linear.weight" else ""  # noqa: E731
    some = _edge(model).to_executorch(et.ExecutorchBackendConfig(external_constants=rule))
    some.write_tensor_data_to_file(tmp_path)
    assert (tmp_path / "some.ptd").stat().st_size < (tmp_path / name).stat().st_size
    with pytest.raises(InvalidStateError, match="external_constants=True"):
        _edge(model).to_executorch().write_tensor_data_to_file(tmp_path)


def test_memory_planning_options():
    unplanned = et.MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    manager = _edge().to_executorch(et.ExecutorchBackendConfig(memory_planning_pass=unplanned))
    default = _edge().to_executorch()
    assert manager.memory_report[0]["planned_nbytes"] < default.memory_report[0]["planned_nbytes"]
    torch.testing.assert_close(_run(manager), _run(manager))
    naive = et.MemoryPlanningPass(memory_planning_algo="naive")
    by_method = et.ExecutorchBackendConfig(memory_planning_pass={"forward": naive})
    assert (
        _edge().to_executorch(by_method).memory_report[0]["planned_nbytes"]
        >= default.memory_report[0]["planned_nbytes"]
    )


def test_large_outputs_take_the_callers_memory():
    """An output of 4 MB shares no place with what lives at another time, which is smaller: nothing copies it."""

    class Growing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin().cos().repeat(1000, 1)

    inputs = (torch.rand(1, 1000),)
    for algorithm in (None, "greedy"):
        config = et.ExecutorchBackendConfig(memory_planning_pass=et.MemoryPlanningPass(memory_planning_algo=algorithm))
        program = et.to_edge_transform_and_lower(torch.export.export(Growing(), inputs)).to_executorch(config)
        report = program.memory_report[0]
        assert report["planned_nbytes"] >= report["max_live_nbytes"] + 4000
        assert report["planned_nbytes"] < 1.25 * report["max_live_nbytes"]
        torch.testing.assert_close(et.load(program.buffer)(*inputs), Growing()(*inputs))


def test_disabled_passes_and_debug_information():
    model = Net()
    edge = _edge(model)
    plain = edge.to_executorch(et.ExecutorchBackendConfig(disabled_passes=["fuse-activation", "reuse-in-place"]))
    torch.testing.assert_close(_run(plain), [model(*X).detach()])
    stripped = edge.to_executorch(et.ExecutorchBackendConfig(debug_info=False))
    assert len(stripped.buffer) < len(edge.to_executorch().buffer)
    with pytest.raises(NotFoundError, match="no-such-pass"):
        edge.to_executorch(et.ExecutorchBackendConfig(disabled_passes=["no-such-pass"]))


def test_compatible_programs_use_published_operators():
    class Activations(nn.Module):
        def forward(self, x):
            return torch.nn.functional.hardswish(x) + torch.nn.functional.silu(x)

    edge = _edge(Activations())
    compatible = edge.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    assert "hardswish" in edge.to_executorch().dump() and "hardswish" not in compatible.dump()
    torch.testing.assert_close(_run(compatible), [Activations()(*X)])


def test_debug_handles_reach_the_instructions():
    manager = _edge().to_executorch()
    handles = {
        node.meta["debug_handle"] for node in manager.exported_program().graph.nodes if node.op == "call_function"
    }
    mapped = {handle for found in manager.debug_handle_map["forward"].values() for handle in found}
    assert mapped == handles
    assert manager.get_etrecord().debug_handle_map == manager.debug_handle_map


def test_weights_changed_after_lowering_are_refused():
    model = Net()
    manager = _edge(model).to_executorch()
    with torch.no_grad():
        model.linear.weight.zero_()
    with pytest.raises(InvalidStateError, match=r"'linear.weight' was changed after to_executorch"):
        _ = manager.buffer


def _through_data(parameter):
    parameter.data.zero_()


def _through_numpy(parameter):
    parameter.detach().numpy()[1, 2] += 1


def _swapped_rows(parameter):
    parameter.data.copy_(parameter.data.flip(0).clone())


def _other_data(parameter):
    parameter.data = parameter.data.clone()


@pytest.mark.parametrize("change", [_through_data, _through_numpy, _swapped_rows, _other_data])
def test_changes_that_torch_does_not_count_are_refused(change):
    model = Net()
    manager = _edge(model).to_executorch()
    change(model.linear.weight)
    with pytest.raises(InvalidStateError, match=r"'linear.weight' was changed after to_executorch"):
        _ = manager.buffer
    with pytest.raises(InvalidStateError, match=r"'linear.weight' was changed after to_executorch"):
        manager.save("never_written.pte")


@pytest.mark.parametrize("change", [_through_data, _other_data])
def test_changes_before_lowering_are_seen_however_they_are_made(change):
    model = Net()
    edge = _edge(model)
    change(model.linear.weight)
    assert_close = torch.testing.assert_close
    assert_close(_run(edge.to_executorch()), [model(*X)])


def test_weights_changed_before_lowering_are_seen():
    model = Net()
    edge = _edge(model)
    with torch.no_grad():
        model.linear.weight.zero_()
        model.linear.bias.fill_(2)
    torch.testing.assert_close(_run(edge.to_executorch()), [torch.full((2, 3), 2.0)])


def test_what_is_not_an_exported_program():
    with pytest.raises(InvalidArgumentError, match=r"torch\.export\.export"):
        et.to_edge(Net())
    with pytest.raises(InvalidArgumentError, match="no object of a class derived from Partitioner"):
        et.to_edge_transform_and_lower(torch.export.export(Net(), X), partitioner=[3])


def test_a_missing_kernel_names_operator_and_line():
    lib = torch.library.Library("lowering_test", "FRAGMENT")
    lib.define("mystery(Tensor x) -> Tensor")
    lib.impl("mystery", lambda x: x.clone(), "CompositeExplicitAutograd")

    class Mystery(nn.Module):
        def forward(self, x):
            return torch.ops.lowering_test.mystery(x)

    with pytest.raises(OperatorMissingError, match=r"mystery") as caught:
        _edge(Mystery()).to_executorch()
    assert "test_managers.py" in str(caught.value)


def test_segment_alignment_is_checked():
    with pytest.raises(InvalidArgumentError, match="power of two"):
        et.ExecutorchBackendConfig(segment_alignment=100)


@pytest.mark.parametrize(
    "partitioners", [[], [XnnpackPartitioner(largest=True)], [ExamplePartitioner()]], ids=["none", "xnnpack", "example"]
)
def test_a_copied_manager_computes_the_same(partitioners):
    """The published tutorial on profiling copies the manager before to_executorch()."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.LayerNorm(6)).eval()
    x = torch.randn(1, 3, 8, 8)
    edge = et.to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=partitioners)
    copied, program = copy.deepcopy(edge).to_executorch(), edge.to_executorch()
    assert torch.equal(et.load(copied.buffer)(x), et.load(program.buffer)(x))
