"""What the published tutorials do, as small programs with the root of the imports as a parameter.

    python tutorial_steps.py executorch          # in the environment of the published package
    python tutorial_steps.py executorch_py       # in ours
    python tutorial_steps.py executorch_py NAME … # some steps only

Prints a line a step, "ok NAME" or "FAIL NAME: what was raised". A step asserts what the documentation says of it, not only that names exist.
"""

from __future__ import annotations

import copy
import importlib
import io
import json
import logging
import os
import sys
import tempfile
import warnings
from typing import Any

import torch
from torch import nn
from torch.export import Dim, export

warnings.filterwarnings("ignore")

ROOT = sys.argv[1] if __name__ == "__main__" else "executorch_py"


def use(path: str, *names: str) -> Any:
    """``from ROOT.path import names``; one name is given by itself, without names it is the module."""
    module = importlib.import_module(f"{ROOT}.{path}" if path else ROOT)
    found = [getattr(module, name) for name in names]
    return module if not names else found[0] if len(found) == 1 else found


class Linears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Sums(nn.Module):
    def forward(self, x, y):
        return ((x + y) * y) + x


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x):
        return self.linear(torch.relu(self.conv(x)).mean((2, 3)))


class Logit(nn.Module):
    def forward(self, x):
        return torch.logit(torch.sigmoid(x), 0.01)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


X, XY, PICTURE = (torch.randn(2, 8),), (torch.randn(2, 3), torch.randn(2, 3)), (torch.randn(1, 3, 8, 8),)


def exported(model: nn.Module = None, inputs: tuple = X, **options: Any) -> Any:
    return export((model or Linears()).eval(), inputs, **options)


def run(buffer: bytes, *inputs: Any) -> Any:
    load = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")
    return load(buffer).forward(list(inputs))


def same(got: Any, want: Any, tolerance: float = 1e-4) -> None:
    assert torch.allclose(got, want, atol=tolerance, rtol=1e-4), (got - want).abs().max()


def planned(graph_module: Any) -> list:
    return [n.meta["spec"] for n in graph_module.graph.nodes if hasattr(n.meta.get("spec"), "mem_offset")]


# --------------------------------------------------------------------------------------------------------------- export


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


def xnnpack():
    return use("backends.xnnpack.partition.xnnpack_partitioner", "XnnpackPartitioner")


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
        assert [name for name in os.listdir(folder)] == ["first.ptd"]


# -------------------------------------------------------------------------------------------------------------- running


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


# --------------------------------------------------------------------------------------------------------------- passes


def pass_replaces_an_operator():
    base, ops = use("exir.pass_base", "ExportPass"), use("exir.dialects._ops", "ops")

    class ReluToSigmoid(base):
        def call_operator(self, op, args, kwargs, meta):
            if op == ops.edge.aten.relu.default:
                return super().call_operator(ops.edge.aten.sigmoid.default, args, kwargs, meta)
            return super().call_operator(op, args, kwargs, meta)

    model = Linears().eval()
    edge = use("exir", "to_edge")(exported(model)).transform([ReluToSigmoid()])
    same(run(edge.to_executorch().buffer, *X)[0], model.b(torch.sigmoid(model.a(*X))))


def pass_one_becomes_two():
    base, ops = use("exir.pass_base", "ExportPass"), use("exir.dialects._ops", "ops")

    class AddIsTwice(base):
        def call_operator(self, op, args, kwargs, meta):
            if op != ops.edge.aten.add.Tensor:
                return super().call_operator(op, args, kwargs, meta)
            product = super().call_operator(ops.edge.aten.mul.Tensor, args, {}, meta)
            return super().call_operator(ops.edge.aten.sub.Tensor, (product, args[1]), {}, meta)

    x, y = XY
    edge = use("exir", "to_edge")(exported(Sums(), XY)).transform([AddIsTwice()])
    step = (x * y - y) * y
    same(run(edge.to_executorch().buffer, x, y)[0], step * x - x)


def pass_base_requires_ensures():
    base, result = use("exir.pass_base", "PassBase", "PassResult")
    called = []

    class Watch(base):
        def requires(self, graph_module):
            called.append("requires")

        def call(self, graph_module):
            called.append("call")
            return result(graph_module, False)

        def ensures(self, graph_module):
            called.append("ensures")

    use("exir", "to_edge")(exported()).transform([Watch()])
    assert called == ["requires", "call", "ensures"]


def function_as_a_pass():
    result = use("exir.pass_base", "PassResult")

    def neg(graph_module):
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and "mul" in str(node.target):
                node.args = (node.args[0], node.args[0])
        graph_module.recompile()
        return result(graph_module, True)

    x, y = XY
    edge = use("exir", "to_edge")(exported(Sums(), XY)).transform([neg])
    same(run(edge.to_executorch().buffer, x, y)[0], (x + y) ** 2 + x)


def pass_over_a_program():
    base, result = use("exir.pass_base", "ExportedProgramPassBase", "ExportedProgramPassResult")
    seen = []

    class Weights(base):
        def call(self, exported_program):
            seen.append(sorted(exported_program.state_dict))
            return result(exported_program, False)

    model = Linears().eval()
    edge = use("exir", "to_edge")(exported(model)).transform([Weights()])
    assert seen == [["a.bias", "a.weight", "b.bias", "b.weight"]]
    same(run(edge.to_executorch().buffer, *X)[0], model(*X))


def pass_manager():
    manager, result = use("exir.pass_manager", "PassManager"), use("exir.pass_base", "PassResult")
    order = []

    def first(graph_module):
        order.append("first")
        return result(graph_module, True)

    def second(graph_module):
        order.append("second")
        return result(graph_module, True)

    passes = manager(passes=[first, second], run_checks_after_each_pass=True, suppress_check_failures=False)
    passes.add_checks(lambda graph_module: order.append("check"))
    graph_module = use("exir", "to_edge")(exported()).exported_program().graph_module
    assert passes(graph_module).graph_module is not None
    assert [one for one in order if one != "check"] == ["first", "second"] and order.count("check") >= 2


def pass_manager_check_fails():
    manager, result = use("exir.pass_manager", "PassManager"), use("exir.pass_base", "PassResult")

    def refuse(graph_module):
        raise ValueError("not as it must be")

    passes = manager(passes=[lambda gm: result(gm, True)], run_checks_after_each_pass=True)
    passes.add_checks(refuse)
    graph_module = use("exir", "to_edge")(exported()).exported_program().graph_module
    try:
        passes(graph_module)
    except Exception as error:
        assert "not as it must be" in f"{error} {error.__cause__}"
    else:
        raise AssertionError("the check did not stop the pass")


def pass_manager_as_transform():
    manager, result = use("exir.pass_manager", "PassManager"), use("exir.pass_base", "PassResult")
    called = []

    def one(graph_module):
        called.append(1)
        return result(graph_module, False)

    use("exir", "to_edge")(exported()).transform(manager([one, one]))
    assert len(called) == 2


def passes_by_method():
    result = use("exir.pass_base", "PassResult")
    called = []

    def note(name):
        return lambda gm: (called.append(name), result(gm, False))[1]

    edge = use("exir", "to_edge")({"f": exported(), "g": exported(Sums(), XY)})
    edge.transform({"f": [note("f")], "g": [note("g")]})
    assert sorted(called) == ["f", "g"]


def passes_of_the_config():
    result, config = use("exir.pass_base", "PassResult"), use("exir", "ExecutorchBackendConfig")
    called = []

    def one(graph_module):
        called.append(1)
        return result(graph_module, False)

    use("exir", "to_edge")(exported()).to_executorch(config(passes=[one]))
    assert called


def transform_passes_of_lowering():
    result, lower = use("exir.pass_base", "PassResult"), use("exir", "to_edge_transform_and_lower")
    called = []

    def one(graph_module):
        called.append(1)
        return result(graph_module, False)

    lower(exported(), transform_passes=[one], partitioner=[xnnpack()()])
    assert called


def subgraph_matcher():
    from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

    to_edge = use("exir", "to_edge")
    large = to_edge(exported(nn.Linear(4, 4), (torch.ones(2, 4),))).exported_program().graph_module.graph
    pattern = to_edge(exported(nn.Linear(4, 4), (torch.ones(3, 4),))).exported_program().graph_module.graph
    assert len(SubgraphMatcher(pattern).match(large)) == 1


def capability_partitioner():
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    ops = use("exir.dialects._ops", "ops")

    class AddMul(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return node.op == "call_function" and node.target in (ops.edge.aten.add.Tensor, ops.edge.aten.mul.Tensor)

    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    (partition,) = CapabilityBasedPartitioner(graph_module, AddMul()).propose_partitions()
    assert len(partition.nodes) == 3


def source_partitions():
    from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

    graph = use("exir", "to_edge")(exported()).exported_program().graph_module.graph
    found = get_source_partitions(graph, [nn.Linear, torch.nn.functional.linear])
    assert sum(len(parts) for parts in found.values()) == 2


def pattern_partitions():
    generate = use("exir.backend.canonical_partitioners.pattern_op_partitioner", "generate_pattern_op_partitions")

    class Pattern(nn.Module):
        def forward(self, x, y):
            return (x + y) * y

    to_edge = use("exir", "to_edge")
    pattern = to_edge(exported(Pattern(), XY)).exported_program().graph_module.graph
    graph_module = to_edge(exported(Sums(), XY)).exported_program().graph_module
    (partition,) = generate(graph_module, patterns=[pattern])
    assert len(partition.nodes) == 2


def partitions_of_nodes():
    generate = use("exir.backend.canonical_partitioners.pattern_op_partitioner", "generate_partitions_from_list_of_nodes")
    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    calls = [n for n in graph_module.graph.nodes if n.op == "call_function"]
    (partition,) = generate(graph_module, pattern_list=[calls[:2]])
    assert set(partition.nodes) == set(calls[:2])


def grouped_partitions():
    module = use("exir.backend.canonical_partitioners.pattern_op_partitioner")
    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    calls = [n for n in graph_module.graph.nodes if n.op == "call_function"]
    partitions = module.generate_grouped_partitions_from_list_of_nodes(graph_module, pattern_list=[calls[:2], calls[2:]])
    assert {node for one in partitions for node in one.nodes} == set(calls)


def edge_operators_are_told():
    overload, ops = use("exir.dialects.edge._ops", "EdgeOpOverload"), use("exir.dialects._ops", "ops")
    graph = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph
    targets = [n.target for n in graph.nodes if n.op == "call_function"]
    assert all(isinstance(one, overload) for one in targets)
    assert targets.count(ops.edge.aten.add.Tensor) == 2


def map_arguments():
    map_args, ops = use("exir.pass_base", "map_args"), use("exir.dialects._ops", "ops")
    seen = []
    args, kwargs = map_args(
        torch.ops.aten.add.Tensor, lambda value, argument: (seen.append(argument.name), value)[1], (1, 2), {"alpha": 3}
    )
    assert args == (1, 2) and kwargs == {"alpha": 3} and sorted(seen) == ["alpha", "other", "self"]


def dead_code():
    eliminate = use("exir.passes", "dead_code_elimination_pass")
    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    before = len(graph_module.graph.nodes)
    node = next(n for n in graph_module.graph.nodes if n.op == "call_function")
    with graph_module.graph.inserting_after(node):
        graph_module.graph.call_function(node.target, node.args)
    assert len(eliminate(graph_module).graph_module.graph.nodes) == before


def spec_prop():
    prop = use("exir.passes", "SpecPropPass")
    spec_class = use("exir.tensor", "TensorSpec")
    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    graph_module = prop()(graph_module).graph_module
    specs = [n.meta["spec"] for n in graph_module.graph.nodes if n.op == "call_function"]
    assert all(isinstance(one, spec_class) and list(one.shape) == [2, 3] for one in specs)


def scalar_to_tensor():
    base = use("exir.passes.scalar_to_tensor_pass", "ScalarToTensorPass")

    class Scaled(nn.Module):
        def forward(self, x):
            return x * 3.0

    edge = use("exir", "to_edge")(exported(Scaled(), X)).transform([base()])
    same(run(edge.to_executorch().buffer, *X)[0], X[0] * 3)


# ------------------------------------------------------------------------------------------------------- memory planning


def _plan(algorithm: Any = None, inputs: tuple = XY, model: Any = None, **options: Any) -> Any:
    config, planning = use("exir", "ExecutorchBackendConfig"), use("exir.passes", "MemoryPlanningPass")
    plan = planning(memory_planning_algo=algorithm, **options) if not isinstance(algorithm, planning) else algorithm
    program = use("exir", "to_edge")(exported(model or Sums(), inputs)).to_executorch(config(memory_planning_pass=plan))
    same(run(program.buffer, *inputs)[0], (model or Sums())(*inputs))
    return program


def planning_defaults():
    planning = use("exir.passes.memory_planning_pass", "MemoryPlanningPass")
    plan = planning()
    assert plan.alloc_graph_input is True and plan.alloc_graph_output is True and plan.alignment == 16
    assert plan.alloc_mutable_buffers is True and plan.share_mutable_buffers is False


def planning_suite_greedy():
    suite, greedy = use("exir.memory_planning", "MemoryPlanningAlgorithmSuite", "greedy")
    _plan(suite([greedy]))


def planning_suite_naive():
    suite, naive = use("exir.memory_planning", "MemoryPlanningAlgorithmSuite", "naive")
    _plan(suite([naive]))


def planning_suite_takes_the_smaller():
    suite, greedy, naive = use("exir.memory_planning", "MemoryPlanningAlgorithmSuite", "greedy", "naive")
    called = []

    def mine(alignment, specs, graph_module, graph_signature, extra_padding):
        called.append(len(list(specs)))
        return naive(alignment, specs, graph_module, graph_signature, extra_padding)

    _plan(suite([greedy, mine]))
    assert called


def planning_without_inputs_and_outputs():
    program = _plan(alloc_graph_input=False, alloc_graph_output=True)
    load = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")
    meta = load(program.buffer).method_meta("forward")
    assert meta.input_tensor_meta(0).is_memory_planned() is False
    assert meta.output_tensor_meta(0).is_memory_planned() is True


def planning_run_is_called():
    planning = use("exir.passes", "MemoryPlanningPass")
    seen = []

    class Mine(planning):
        def run(self, graph_module, graph_signature=None):
            seen.extend(n.target for n in graph_module.graph.nodes if n.op == "call_function")
            assert all("spec" in n.meta for n in graph_module.graph.nodes if n.op == "placeholder")
            assert graph_signature is not None
            return super().run(graph_module, graph_signature)

    _plan(Mine())
    assert torch.ops.aten.add.out in seen or torch.ops.aten.mul.out in seen, seen


def planning_pools():
    planning = use("exir.passes", "MemoryPlanningPass")
    suite, greedy = use("exir.memory_planning", "MemoryPlanningAlgorithmSuite", "greedy")

    class Pools(planning):
        def run(self, graph_module, graph_signature=None):
            for node in graph_module.graph.nodes:
                if node.op == "placeholder":
                    node.meta["spec"].mem_id = 1
                if node.target is torch.ops.aten.mul.out:
                    node.meta["spec"].mem_id = 3
            result = super().run(graph_module, graph_signature)
            ids = {s.mem_id for s in planned(graph_module) if s.mem_offset is not None}
            assert 3 in ids, ids
            return result

    _plan(Pools(memory_planning_algo=suite([greedy])))


def planning_specs_after_run():
    planning = use("exir.passes", "MemoryPlanningPass")

    class Look(planning):
        def run(self, graph_module, graph_signature=None):
            result = super().run(graph_module, graph_signature)
            specs = [s for s in planned(result.graph_module) if s.mem_offset is not None]
            assert specs and all(s.mem_offset % 16 == 0 and s.lifetime[0] <= s.lifetime[1] for s in specs)
            sizes = result.graph_module.meta["non_const_buffer_sizes"]
            assert sizes[0] == 0 and all(s.mem_offset + s.allocated_memory <= sizes[s.mem_id] for s in specs)
            return result

    _plan(Look())


def planning_by_method():
    config, planning = use("exir", "ExecutorchBackendConfig"), use("exir.passes", "MemoryPlanningPass")
    edge = use("exir", "to_edge")({"f": exported(Sums(), XY), "g": exported(Sums(), XY)})
    plans = {"f": planning(alloc_graph_input=False), "g": planning()}
    module = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(
        edge.to_executorch(config(memory_planning_pass=plans)).buffer
    )
    told = [module.method_meta(name).input_tensor_meta(0).is_memory_planned() for name in ("f", "g")]
    assert told == [False, True]


def planning_shares_state():
    config, planning = use("exir", "ExecutorchBackendConfig"), use("exir.passes", "MemoryPlanningPass")

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def up(self, x):
            self.count.add_(x)
            return self.count + 0

        def down(self, x):
            self.count.sub_(x)
            return self.count + 0

    class Call(nn.Module):
        def __init__(self, inner, name):
            super().__init__()
            self.inner, self.name = inner, name

        def forward(self, x):
            return getattr(self.inner, self.name)(x)

    inner = Two()
    edge = use("exir", "to_edge")({n: exported(Call(inner, n), (torch.ones(2),)) for n in ("up", "down")})
    program = edge.to_executorch(
        config(memory_planning_pass=planning(share_mutable_buffers=True), emit_mutable_buffer_names=True)
    )
    module = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(program.buffer)
    assert module.run_method("up", [torch.ones(2)])[0].tolist() == [1, 1]


def verifier_of_a_plan():
    planning, verifier = use("exir.passes", "MemoryPlanningPass"), use("exir.memory_planning", "Verifier")

    class Checked(planning):
        def run(self, graph_module, graph_signature=None):
            result = super().run(graph_module, graph_signature)
            checker = verifier(graph_module, True, True, True, graph_signature)
            assert checker.verify_storage_reuse() >= 0
            checker.verify_graph_input_output()
            return result

    _plan(Checked())


def tensor_specs():
    spec_class = use("exir.tensor", "TensorSpec")
    spec = spec_class.from_tensor(torch.ones(3, 4, dtype=torch.float16))
    assert (spec.dtype, list(spec.shape), spec.nbytes(), spec.allocated_memory) == (torch.float16, [3, 4], 24, 32)
    assert spec.realign(64) == 64 and spec.is_static_shape_tensor
    assert tuple(spec.dim_order) == (0, 1) and tuple(spec.stride) == (4, 1)


def tensor_functions():
    module = use("exir.tensor")
    assert tuple(module.contiguous_stride_from_shape(torch.Size([2, 3, 4]))) == (12, 4, 1)
    assert list(module.dim_order_from_stride((12, 1, 4))) == [0, 2, 1]
    assert list(module.stride_from_dim_order([2, 3, 4], [0, 2, 1])) == [12, 1, 3]
    assert module.num_bytes_from_shape_and_dtype(torch.Size([2, 3]), torch.int64) == 48


def memory_trace():
    trace = use("util.activation_memory_profiler", "generate_memory_trace")
    program = use("exir", "to_edge")(exported()).to_executorch()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.json")
        trace(executorch_program_manager=program, chrome_trace_filename=path, enable_memory_offsets=True)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
    assert events and all({"name", "ts", "dur", "pid", "tid"} <= set(one) for one in events)


# ------------------------------------------------------------------------------------------------------------ delegation


def _backend(name: str) -> Any:
    details, result = use("exir.backend.backend_details", "BackendDetails", "PreprocessResult")

    def preprocess(edge_program, compile_specs):
        names = [str(n.target).split(".")[-2] for n in edge_program.graph.nodes if n.op == "call_function"]
        return result(processed_bytes=" ".join(names).encode())

    _KEPT.append(type(name, (details,), {"preprocess": staticmethod(preprocess)}))
    return _KEPT[-1]


#: The published package finds backends among the subclasses that live.
_KEPT: list[type] = []


def _partitioner(backend: str, accepts: Any) -> Any:
    base, result, spec = use("exir.backend.partitioner", "Partitioner", "PartitionResult", "DelegationSpec")
    compile_spec = use("exir.backend.compile_spec_schema", "CompileSpec")

    class Tags(base):
        def __init__(self) -> None:
            super().__init__()
            self.delegation_spec = spec(backend, [compile_spec("max_value", bytes([4]))])

        def partition(self, exported_program):
            tags = {}
            for node in exported_program.graph.nodes:
                if node.op == "call_function" and accepts(node):
                    node.meta["delegation_tag"] = "tag0"
                    tags["tag0"] = self.delegation_spec
            return result(tagged_exported_program=exported_program, partition_tags=tags)

    return Tags()


def to_backend_whole_module():
    to_backend, lowered_class = use("exir.backend.backend_api", "to_backend", "LoweredBackendModule")
    _backend("WholeDemo")
    program = use("exir", "to_edge")(exported(Sums(), XY)).exported_program()
    lowered = to_backend("WholeDemo", program, [])
    assert isinstance(lowered, lowered_class) and lowered.backend_id == "WholeDemo"
    assert b"mul" in lowered.processed_bytes and lowered.compile_specs == []
    assert lowered.original_module is not None
    assert len(lowered.buffer()) > 0


def to_backend_composed():
    to_backend = use("exir.backend.backend_api", "to_backend")
    _backend("ComposedDemo")
    lowered = to_backend("ComposedDemo", use("exir", "to_edge")(exported(Sums(), XY)).exported_program(), [])

    class Composed(nn.Module):
        def __init__(self):
            super().__init__()
            self.lowered = lowered

        def forward(self, x, y):
            return self.lowered(x, y)[0] + 1 if isinstance(self.lowered(x, y), (list, tuple)) else self.lowered(x, y) + 1

    edge = use("exir", "to_edge")(export(Composed(), XY))
    module = edge.exported_program().graph_module
    assert module.lowered_module_0.backend_id == "ComposedDemo"
    assert edge.to_executorch().buffer


def to_backend_by_partitioner():
    _backend("PartsDemo")
    partitioner = _partitioner("PartsDemo", lambda n: "mul" in str(n.target))
    to_backend = use("exir.backend.backend_api", "to_backend")
    program = use("exir", "to_edge")(exported(Sums(), XY)).exported_program()
    delegated = to_backend(program, partitioner)
    assert delegated.graph_module.lowered_module_0.backend_id == "PartsDemo"
    assert delegated.graph_module.lowered_module_0.compile_specs[0].key == "max_value"


def manager_to_backend():
    _backend("ManagerDemo")
    call = use("exir.delegate", "executorch_call_delegate")
    edge = use("exir", "to_edge")(exported(Sums(), XY))
    edge = edge.to_backend(_partitioner("ManagerDemo", lambda n: True))
    calls = [n for n in edge.exported_program().graph.nodes if n.target is call]
    assert len(calls) == 1 and edge.to_executorch().buffer


def delegated_graph_as_text():
    _backend("TextDemo")
    utils = use("exir.backend.utils")
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_partitioner("TextDemo", lambda n: "mul" in str(n.target)))
    module = edge.exported_program().graph_module
    text = utils.format_delegated_graph(module)
    assert "backend_id: TextDemo" in text and "lowered graph" in text
    assert len(utils.get_delegates(module.graph)) == 1
    assert len(utils.get_non_lowered_nodes(module.graph)) == 2


def lowered_modules_of_a_graph():
    _backend("ListDemo")
    modules, submodules = use("exir.lowered_backend_module", "get_lowered_backend_modules", "get_lowered_submodules")
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_partitioner("ListDemo", lambda n: True))
    graph_module = edge.exported_program().graph_module
    assert [m.backend_id for m in modules(graph_module)] == ["ListDemo"]
    ((name, part, node),) = submodules(graph_module)
    assert name == "lowered_module_0" and part.backend_id == "ListDemo"


def identical_graphs():
    same_graph = use("exir.backend.utils", "is_identical_graph")
    make = lambda model: use("exir", "to_edge")(exported(model, XY)).exported_program().graph_module  # noqa: E731

    class Other(nn.Module):
        def forward(self, x, y):
            return ((x * y) * y) + x

    assert same_graph(make(Sums()), make(Sums())) and not same_graph(make(Sums()), make(Other()))


def all_node_partitioner():
    _backend("AllDemo")
    partitioner = use("exir.backend.canonical_partitioners.all_node_partitioner", "AllNodePartitioner")
    edge = use("exir", "to_edge")(exported()).to_backend(partitioner("AllDemo", []))
    module = edge.exported_program().graph_module
    assert module.lowered_module_0.backend_id == "AllDemo"
    assert [n for n in module.graph.nodes if n.op == "placeholder"][-1].name == "x"


def constants_are_tagged():
    _backend("ConstantsDemo")
    tag = use("exir.backend.utils", "tag_constant_data")
    partitioner = _partitioner("ConstantsDemo", lambda n: True)
    inner = partitioner.partition

    def partition(exported_program):
        result = inner(exported_program)
        tag(exported_program)
        return result

    partitioner.partition = partition
    module = use("exir", "to_edge")(exported()).to_backend(partitioner).exported_program().graph_module
    assert len([n for n in module.graph.nodes if n.op == "placeholder"]) == 1


def operator_support_helpers():
    dont, name, module = use("exir.backend.operator_support", "DontPartition", "DontPartitionName", "DontPartitionModule")
    graph = use("exir", "to_edge")(exported()).exported_program().graph
    relu = next(n for n in graph.nodes if "relu" in str(n.target))
    for support in (dont("aten.relu", exact=False), name(relu.name), dont(relu.target)):
        assert not support.is_node_supported({}, relu) and support.has_rejected_node()
    inside = module(instance_name="a", exact=False)
    linear = next(n for n in graph.nodes if "linear" in str(n.target) or "addmm" in str(n.target))
    assert not inside.is_node_supported({}, linear)


def delegate_mapping():
    builder = use("exir.backend.utils", "DelegateMappingBuilder")
    mapping = builder(generated_identifiers=True)
    assert mapping.insert_delegate_mapping_entry(handles=[3, None, 1]) == 0
    assert mapping.insert_delegate_mapping_entry(handles=5) == 1
    assert mapping.get_delegate_mapping() == {0: (1, 3), 1: (5,)}
    named = builder()
    named.insert_delegate_mapping_entry(handles=[2], identifier="conv")
    assert named.get_delegate_mapping() == {"conv": (2,)}
    for wrong in ({"handles": 1}, {"identifier": "x"}):
        try:
            named.insert_delegate_mapping_entry(**wrong)
        except Exception:
            continue
        raise AssertionError(f"{wrong} was accepted")


def named_data_store():
    store_class = use("exir._serialize._named_data_store", "NamedDataStore")
    store = store_class()
    store.add_named_data("a", b"12", alignment=4)
    store.add_named_data("b", b"12")
    store.add_named_data("a", b"12", alignment=8)
    output = store.get_named_data_store_output()
    assert len(output.buffers) == 1 and sorted(output.pte_data) == ["a", "b"]
    other = store_class()
    other.merge_named_data_store(output)
    assert sorted(other.get_named_data_store_output().pte_data) == ["a", "b"]
    try:
        store.add_named_data("a", b"other")
    except ValueError:
        return
    raise AssertionError("another value under the same key was accepted")


def named_data_of_a_backend():
    details, result = use("exir.backend.backend_details", "BackendDetails", "PreprocessResult")
    store_class = use("exir._serialize._named_data_store", "NamedDataStore")

    class DataDemo(details):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            store = store_class()
            store.add_named_data("weights", b"0123456789abcdef")
            return result(processed_bytes=b"x", data_store_output=store.get_named_data_store_output())

    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_partitioner("DataDemo", lambda n: True))
    assert b"0123456789abcdef" in edge.to_executorch().buffer


def why_no_partition():
    why_class, reporter_class = use("exir.backend.utils", "WhyNoPartition", "WhyNoPartitionReporter")
    node = next(n for n in use("exir", "to_edge")(exported()).exported_program().graph.nodes if n.op == "call_function")
    logger, lines = logging.getLogger("steps"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    why_class(logger=logger)(node, "too large")
    assert any("too large" in line for line in lines), lines
    reporter = reporter_class()
    reporter.report_reject(node, "first")
    reporter.report_reject(node, "second")
    assert "first" in reporter.get_table_report() and "second" not in reporter.get_table_report()


def delegation_info():
    get = use("devtools.backend_debug", "get_delegation_info")
    edge = use("exir", "to_edge_transform_and_lower")(exported(Image(), PICTURE), partitioner=[xnnpack()()])
    info = get(edge.exported_program().graph_module)
    assert info.num_delegated_subgraphs >= 1 and info.num_delegated_nodes >= 2
    assert "delegated" in info.get_summary()


def config_partitioner():
    module = use("exir.backend.canonical_partitioners.config_partitioner")
    spec = use("exir.backend.partitioner", "DelegationSpec")
    _backend("ConfigDemo")

    class Mul(module.PartitionerConfig):
        target_name = "mul.Tensor"

        def check_constraints(self, node, ep):
            return True

        def get_node_and_deps(self, node, ep):
            return [node]

        def get_original_aten(self):
            return None

    partitioner = module.ConfigerationBasedPartitioner(spec("ConfigDemo", []), [Mul()])
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(partitioner)
    assert edge.exported_program().graph_module.lowered_module_0.processed_bytes == b"mul"


def not_decomposed_for_a_backend():
    _backend("KeepDemo")
    partitioner = _partitioner("KeepDemo", lambda n: "logit" in str(n.target))
    kept = []
    partitioner.ops_to_not_decompose = lambda ep: (
        [torch.ops.aten.logit.default],
        lambda node: (kept.append(node.name), True)[1],
    )
    edge = use("exir", "to_edge_transform_and_lower")(exported(Logit(), X), partitioner=[partitioner])
    assert kept and edge.exported_program().graph_module.lowered_module_0.processed_bytes == b"logit"


def transform_before_decomposition():
    _backend("EarlyDemo")
    partitioner = _partitioner("EarlyDemo", lambda n: False)
    seen = []
    partitioner.transform_for_pre_decomposition = lambda ep: (seen.append(ep), ep)[1]
    use("exir", "to_edge_transform_and_lower")(exported(), partitioner=[partitioner])
    assert len(seen) == 1


# --------------------------------------------------------------------------------------------------------------- XNNPACK


def xnnpack_configs():
    edge_config, backend_config = use(
        "backends.xnnpack.utils.configs", "get_xnnpack_edge_compile_config", "get_xnnpack_executorch_backend_config"
    )
    model = Image().eval()
    edge = use("exir", "to_edge")(exported(model, PICTURE), compile_config=edge_config()).to_backend(xnnpack()())
    same(run(edge.to_executorch(backend_config()).buffer, *PICTURE)[0], model(*PICTURE))


def xnnpack_precisions():
    precision = use("backends.xnnpack.partition.config.xnnpack_config", "ConfigPrecisionType")
    lower, model = use("exir", "to_edge_transform_and_lower"), Image().eval()
    for chosen in (precision.FP32, [precision.FP32, precision.STATIC_QUANT, precision.DYNAMIC_QUANT]):
        program = lower(exported(model, PICTURE), partitioner=[xnnpack()(config_precisions=chosen)]).to_executorch()
        same(run(program.buffer, *PICTURE)[0], model(*PICTURE))


def xnnpack_per_op():
    lower, model = use("exir", "to_edge_transform_and_lower"), Linears().eval()
    edge = lower(exported(model), partitioner=[xnnpack()(per_op_mode=True)])
    info = use("devtools.backend_debug", "get_delegation_info")(edge.exported_program().graph_module)
    assert info.num_delegated_subgraphs >= 2
    same(run(edge.to_executorch().buffer, *X)[0], model(*X))


def xnnpack_chosen_operators():
    configs = use("backends.xnnpack.partition.config")
    lower, model = use("exir", "to_edge_transform_and_lower"), Image().eval()
    edge = lower(exported(model, PICTURE), partitioner=[xnnpack()(configs=[configs.ConvolutionConfig])])
    info = use("devtools.backend_debug", "get_delegation_info")(edge.exported_program().graph_module)
    assert info.num_delegated_nodes >= 1 and info.num_non_delegated_nodes >= 1
    same(run(edge.to_executorch().buffer, *PICTURE)[0], model(*PICTURE))


def xnnpack_package_names():
    names = use("backends.xnnpack", "XnnpackPartitioner", "get_xnnpack_edge_compile_config")
    assert names[0] is xnnpack()


def _quantized(**options: Any) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    model = Image().eval()
    prepared = prepare_pt2e(export(model, PICTURE).module(), quantizer().set_global(config(**options)))
    prepared(*PICTURE)
    converted = convert_pt2e(prepared)
    program = use("exir", "to_edge_transform_and_lower")(export(converted, PICTURE), partitioner=[xnnpack()()])
    same(run(program.to_executorch().buffer, *PICTURE)[0], model(*PICTURE), 0.1)


def xnnpack_quantizer_static():
    _quantized()


def xnnpack_quantizer_per_channel():
    _quantized(is_per_channel=True)


def xnnpack_quantizer_dynamic():
    _quantized(is_per_channel=True, is_dynamic=True)


def xnnpack_quantizer_by_module():
    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    one = quantizer()
    one.set_module_type(nn.Linear, config(is_per_channel=True))
    one.set_module_name("a", config())
    one.set_operator_type(torch.ops.aten.linear.default, config())


# --------------------------------------------------------------------------------------------------------------- recipes


def recipe_by_type():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    kind = use("backends.xnnpack.recipes", "XNNPackRecipeType")
    model = Image().eval()
    session = export_fn(model=model, example_inputs=[PICTURE], export_recipe=recipe.get_recipe(kind.FP32))
    same(session.run_method("forward", PICTURE)[0], model(*PICTURE))
    assert isinstance(session.get_pte_buffer(), bytes)
    with tempfile.TemporaryDirectory() as folder:
        session.save_to_pte(os.path.join(folder, "model"))
        assert os.listdir(folder) == ["model.pte"]


def recipe_quantized():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    kind = use("backends.xnnpack.recipes", "XNNPackRecipeType")
    model = Image().eval()
    for one in (kind.PT2E_INT8_STATIC_PER_CHANNEL, kind.PT2E_INT8_STATIC_PER_TENSOR, kind.PT2E_INT8_DYNAMIC_PER_CHANNEL):
        session = export_fn(model=copy.deepcopy(model), example_inputs=[PICTURE], export_recipe=recipe.get_recipe(one))
        same(session.run_method("forward", PICTURE)[0], model(*PICTURE), 0.1)


def recipe_int4():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    kind = use("backends.xnnpack.recipes", "XNNPackRecipeType")
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    x = (torch.randn(3, 64),)
    chosen = recipe.get_recipe(kind.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL)
    session = export_fn(model=copy.deepcopy(model), example_inputs=[x], export_recipe=chosen)
    same(session.run_method("forward", x)[0], model(*x), 0.5)


def recipe_of_your_own():
    names = use("export", "export", "ExportRecipe", "LoweringRecipe", "StageType")
    export_fn, recipe, lowering, stage = names
    order = []
    mine = recipe(
        name="mine",
        aten_transform_passes=[lambda name, ep: (order.append(name), ep)[1]],
        lowering_recipe=lowering(partitioners=[xnnpack()()]),
        pipeline_stages=[stage.TORCH_EXPORT, stage.TO_EDGE, stage.TO_BACKEND, stage.TO_EXECUTORCH],
    )
    session = export_fn(model=Linears().eval(), example_inputs=[X], export_recipe=mine)
    assert order == ["forward"] and session.get_exported_program() is not None
    assert session.get_edge_program_manager().methods == {"forward"}


def recipes_combined():
    recipe = use("export", "ExportRecipe")
    kind = use("backends.xnnpack.recipes", "XNNPackRecipeType")
    combined = recipe.combine([recipe.get_recipe(kind.FP32), recipe.get_recipe(kind.FP32)], "both")
    assert combined.name == "both" and len(combined.lowering_recipe.partitioners) == 2


def recipe_registry():
    registry = use("export", "recipe_registry")
    kind = use("backends.xnnpack.recipes", "XNNPackRecipeType")
    assert "xnnpack" in registry.list_backends() and kind.FP32 in registry.get_supported_recipes("xnnpack")


STEPS = {
    name: step
    for name, step in list(globals().items())
    if callable(step)
    and getattr(step, "__module__", "") == __name__
    and not name.startswith("_")
    and not isinstance(step, type)
    and name not in ("use", "exported", "run", "same", "planned", "xnnpack", "export", "main")
}


def main(names: list[str]) -> None:
    for name in names or STEPS:
        try:
            torch.manual_seed(0)
            STEPS[name]()
            print(f"ok {name}", flush=True)
        except Exception as error:
            print(f"FAIL {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)


if __name__ == "__main__":
    main(sys.argv[2:])
