"""Passes, matchers, partitioners of graphs, and memory planning."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import torch
from torch import nn

from .shared import XY, Linears, Sums, X, exported, planned, run, same, use, xnnpack


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
    generate = use(
        "exir.backend.canonical_partitioners.pattern_op_partitioner", "generate_partitions_from_list_of_nodes"
    )
    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    calls = [n for n in graph_module.graph.nodes if n.op == "call_function"]
    (partition,) = generate(graph_module, pattern_list=[calls[:2]])
    assert set(partition.nodes) == set(calls[:2])


def grouped_partitions():
    module = use("exir.backend.canonical_partitioners.pattern_op_partitioner")
    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    calls = [n for n in graph_module.graph.nodes if n.op == "call_function"]
    partitions = module.generate_grouped_partitions_from_list_of_nodes(
        graph_module, pattern_list=[calls[:2], calls[2:]]
    )
    assert {node for one in partitions for node in one.nodes} == set(calls)


def edge_operators_are_told():
    overload, ops = use("exir.dialects.edge._ops", "EdgeOpOverload"), use("exir.dialects._ops", "ops")
    graph = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph
    targets = [n.target for n in graph.nodes if n.op == "call_function"]
    assert all(isinstance(one, overload) for one in targets)
    assert targets.count(ops.edge.aten.add.Tensor) == 2


def map_arguments():
    map_args = use("exir.pass_base", "map_args")
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
