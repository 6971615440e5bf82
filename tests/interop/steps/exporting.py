"""From a module to a file, and running the file."""

from __future__ import annotations

import io
import os
import tempfile
from typing import Any

import torch
from torch.export import Dim

from .shared import PICTURE, XY, Counter, Image, Linears, Sums, X, exported, run, same, use, xnnpack


def export_to_edge_and_file():
    to_edge = use("exir", "to_edge")
    model = Linears().eval()
    edge = to_edge(exported(model))
    assert edge.methods == {"forward"} and edge.exported_program().graph_module is not None
    same(run(edge.to_executorch().buffer, *X)[0], model(*X))


def export_and_lower():
    lower, partitioner = use("exir", "to_edge_transform_and_lower"), xnnpack()
    model = Image().eval()
    program = lower(exported(model, PICTURE), partitioner=[partitioner()]).to_executorch()
    same(run(program.buffer, *PICTURE)[0], model(*PICTURE))


def export_dynamic_shapes():
    model, n = Linears().eval(), Dim("n", min=1, max=10)
    program = use("exir", "to_edge")(exported(model, dynamic_shapes={"x": {0: n}})).to_executorch()
    for size in (1, 4, 10):
        x = torch.randn(size, 8)
        same(run(program.buffer, x)[0], model(x))


def export_several_methods():
    edge = use("exir", "to_edge")({"encode": exported(), "decode": exported(Sums(), XY)})
    assert edge.methods == {"encode", "decode"}
    program = edge.to_executorch()
    assert program.methods == {"encode", "decode"}
    module = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(program.buffer)
    assert sorted(module.method_names()) == ["decode", "encode"]
    same(module.run_method("decode", XY)[0], Sums()(*XY))


def export_constant_methods():
    edge = use("exir", "to_edge")(exported(), constant_methods={"get_size": 7, "get_name": 2.5})
    assert edge.config_methods == {"get_size", "get_name"}
    module = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(edge.to_executorch().buffer)
    assert module.run_method("get_size", ()) == [7]


def edge_compile_config_fields():
    config_class = use("exir", "EdgeCompileConfig")
    config = config_class(
        _check_ir_validity=False,
        _skip_dim_order=True,
        _core_aten_ops_exception_list=[torch.ops.aten.linalg_vector_norm.default],
        preserve_ops=[torch.ops.aten.linear.default],
    )
    edge = use("exir", "to_edge")(exported(), compile_config=config)
    targets = [str(n.target) for n in edge.exported_program().graph.nodes]
    assert any("linear" in t for t in targets), targets
    assert use("exir.capture._config", "EdgeCompileConfig") is config_class


def backend_config_fields():
    config_class = use("exir", "ExecutorchBackendConfig")
    mode = use("exir.dynamic_shape", "DynamicMemoryPlanningMode")
    planning, out = use("exir.passes", "MemoryPlanningPass", "ToOutVarPass")
    shapes = use("exir.passes.sym_shape_eval_pass", "ConstraintBasedSymShapeEvalPass")
    config = config_class(
        passes=[],
        memory_planning_pass=planning(),
        to_out_var_pass=out(),
        dynamic_memory_planning_mode=mode.UPPER_BOUND,
        emit_stacktrace=True,
        extract_delegate_segments=True,
        segment_alignment=4096,
        constant_tensor_alignment=64,
        delegate_alignment=32,
        sym_shape_eval_pass=shapes(),
        remove_view_copy=True,
        external_constants=False,
        emit_mutable_buffer_names=True,
        do_quant_fusion_and_const_prop=True,
        run_reinplace_pass=False,
        enable_non_cpu_memory_planning=True,
    )
    model = Linears().eval()
    same(run(use("exir", "to_edge")(exported(model)).to_executorch(config).buffer, *X)[0], model(*X))


def save_and_write():
    program = use("exir", "to_edge")(exported()).to_executorch()
    with tempfile.TemporaryDirectory() as folder:
        program.save(os.path.join(folder, "model.pte"))
        with open(os.path.join(folder, "other.pte"), "wb") as file:
            program.write_to_file(file)
        assert os.path.getsize(os.path.join(folder, "model.pte")) == os.path.getsize(os.path.join(folder, "other.pte"))


def program_manager_properties():
    program = use("exir", "to_edge")(exported(), {"answer": 42}).to_executorch()
    assert program.methods == {"forward"} and program.config_methods == {"answer"}
    assert isinstance(program.buffer, bytes) and isinstance(program.debug_handle_map, dict)
    assert isinstance(program.delegate_map, dict) and program.exported_program() is not None
    out = io.StringIO()
    program.dump_executorch_program(verbose=False, out=out)
    assert out.getvalue()


def print_program_of():
    printer = use("exir.print_program", "print_program")
    out = io.StringIO()
    printer(use("exir", "to_edge")(exported()).to_executorch().executorch_program, out=out)
    assert "linear" in out.getvalue() or "addmm" in out.getvalue() or "mm" in out.getvalue()


def inspect_a_node():
    inspect_node, cursor = use("exir.print_program", "inspect_node", "add_cursor_to_graph")
    graph = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph
    node = [n for n in graph.nodes if n.op == "call_function"][1]
    text = inspect_node(graph, node)
    assert text.count("-->") == 1 and node.name in text
    assert cursor(graph, node).count("-->") == 1


def external_constants_all():
    config = use("exir", "ExecutorchBackendConfig")(external_constants=True)
    model = Linears().eval()
    program = use("exir", "to_edge")(exported(model)).to_executorch(config)
    with tempfile.TemporaryDirectory() as folder:
        program.write_tensor_data_to_file(folder)
        (name,) = os.listdir(folder)
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
    load = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")
    same(load(program.buffer, data).forward(list(X))[0], model(*X))


def external_constants_by_node():
    seen = []

    def tag(node):
        seen.append(node.name)
        return "first" if "a" in node.name.split("_") else None

    config = use("exir", "ExecutorchBackendConfig")(external_constants=tag)
    model = Linears().eval()
    program = use("exir", "to_edge")(exported(model)).to_executorch(config)
    assert any("weight" in name for name in seen), seen
    with tempfile.TemporaryDirectory() as folder:
        program.write_tensor_data_to_file(folder)
        assert os.listdir(folder) == ["first.ptd"]


def _file(folder: str, program: Any) -> str:
    path = os.path.join(folder, "model.pte")
    with open(path, "wb") as file:
        file.write(program.buffer)
    return path


def runtime_path_and_bytes():
    runtime = use("runtime", "Runtime").get()
    model = Linears().eval()
    program = use("exir", "to_edge")(exported(model)).to_executorch()
    with tempfile.TemporaryDirectory() as folder:
        for data in (_file(folder, program), program.buffer):
            loaded = runtime.load_program(data)
            assert loaded.method_names == {"forward"}
            same(loaded.load_method("forward").execute(list(X))[0], model(*X))


def runtime_metadata():
    verification, runtime = use("runtime", "Verification", "Runtime")
    program = use("exir", "to_edge")(exported()).to_executorch()
    loaded = runtime.get().load_program(program.buffer, verification=verification.Minimal)
    for meta in (loaded.metadata("forward"), loaded.load_method("forward").metadata):
        assert meta.num_inputs() == 1 and meta.num_outputs() == 1
        assert tuple(meta.input_tensor_meta(0).sizes()) == (2, 8)
        assert meta.input_tensor_meta(0).nbytes() == 64


def runtime_registries():
    runtime = use("runtime", "Runtime").get()
    assert "XnnpackBackend" in runtime.backend_registry.registered_backend_names
    assert runtime.backend_registry.is_available("XnnpackBackend")
    assert "aten::add.out" in runtime.operator_registry.operator_names


def method_meta_attributes():
    config = use("exir", "ExecutorchBackendConfig")(emit_mutable_buffer_names=True)
    program = use("exir", "to_edge")(exported(Counter(), (torch.ones(1),))).to_executorch(config)
    load = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")
    meta = load(program.buffer).method_meta("forward")
    assert meta.num_attributes() == 1
    assert tuple(meta.attribute_tensor_meta(0).sizes()) == (1,)


def portable_lib_module():
    load, load_buffer = use(
        "extension.pybindings.portable_lib", "_load_for_executorch", "_load_for_executorch_from_buffer"
    )
    model = Linears().eval()
    program = use("exir", "to_edge")(exported(model)).to_executorch()
    with tempfile.TemporaryDirectory() as folder:
        for module in (load(_file(folder, program)), load_buffer(program.buffer)):
            same(module.forward(X)[0], model(*X))
            same(module(list(X))[0], model(*X))
            same(module.run_method("forward", tuple(X))[0], model(*X))
            meta = module.method_meta("forward")
            assert meta.name() == "forward" and meta.num_inputs() == 1
            assert module.method_names() == ["forward"] and module.has_etdump() is False


def portable_lib_program():
    load = use("extension.pybindings.portable_lib", "_load_program_from_buffer")
    program = load(use("exir", "to_edge")(exported(Sums(), XY)).to_executorch().buffer)
    assert program.num_methods() == 1 and program.get_method_name(0) == "forward"
    method = program.load_method("forward")
    method.set_inputs(XY)
    method.execute()
    same(method.get_outputs()[0], Sums()(*XY))
    same(method.call(XY)[0], Sums()(*XY))


def portable_lib_names():
    names, backends, available = use(
        "extension.pybindings.portable_lib", "_get_operator_names", "_get_registered_backend_names", "_is_available"
    )
    assert "aten::mul.out" in names() and "XnnpackBackend" in backends() and available("XnnpackBackend")


def export_util():
    to_edge, to_program, save = use(
        "extension.export_util.utils", "export_to_edge", "export_to_exec_prog", "save_pte_program"
    )
    model = Linears().eval()
    assert to_edge(model, X, verbose=False).methods == {"forward"}
    program = to_program(model, X)
    same(run(program.buffer, *X)[0], model(*X))
    with tempfile.TemporaryDirectory() as folder:
        assert os.path.exists(save(program, "model", folder))


def pytree_extension():
    tree = use("extension.pytree")
    leaves, spec = tree.tree_flatten({"a": 1, "b": [2, 3]})
    assert leaves == [1, 2, 3] and tree.tree_unflatten(leaves, spec) == {"a": 1, "b": [2, 3]}


def state_persists():
    program = use("exir", "to_edge")(exported(Counter(), (torch.ones(1),))).to_executorch()
    module = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(program.buffer)
    assert [float(module.forward([torch.ones(1)])[0]) for _ in range(2)] == [2.0, 3.0]
