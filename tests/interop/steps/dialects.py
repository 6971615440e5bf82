"""Dialects and passes over them: the pages on Export IR, the backend dialect, and custom passes and partitioners."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import export

from .shared import XY, Linears, Sums, X, exported, run, same, use


def _calls(program: Any) -> list:
    return [node for node in program.graph.nodes if node.op == "call_function"]


#: The published package finds backends among the subclasses that live.
_KEPT: list[type] = []


def _backend(name: str, preprocess: Any) -> None:
    details = use("exir.backend.backend_details", "BackendDetails")
    _KEPT.append(type(name, (details,), {"preprocess": staticmethod(preprocess)}))


def _all(name: str) -> Any:
    partitioner = use("exir.backend.canonical_partitioners.all_node_partitioner", "AllNodePartitioner")
    return partitioner(name, [])


# ------------------------------------------------------------------------------------------------------------ dialects


def edge_operators_have_schemas():
    ops = use("exir.dialects._ops", "ops")
    sigmoid = ops.edge.aten.sigmoid.default
    assert str(sigmoid._schema) == "aten::sigmoid(Tensor self) -> Tensor"
    assert [one.name for one in sigmoid._schema.arguments] == ["self"] and len(sigmoid._schema.returns) == 1


def custom_operator_stays():
    """A registered custom operator is in ATen dialect and in Edge dialect as it is."""
    with torch.library._scoped_library("of_dialects", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

        class Custom(nn.Module):
            def forward(self, x):
                return torch.ops.of_dialects.twice(x) + 1

        aten = exported(Custom(), X)
        edge = use("exir", "to_edge")(aten).exported_program()
        for program in (aten, edge):
            assert any("of_dialects" in str(node.target) for node in _calls(program))


def state_is_lifted():
    """get_attr stands for bodies of control flow alone; weights are inputs, named by the signature."""
    program = use("exir", "to_edge")(exported()).exported_program()
    assert not [node for node in program.graph.nodes if node.op == "get_attr"]
    assert sorted(program.graph_signature.inputs_to_parameters.values()) == ["a.bias", "a.weight", "b.bias", "b.weight"]

    class Chosen(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))

    branches = use("exir", "to_edge")(exported(Chosen(), X)).exported_program()
    bodies = [node.target for node in branches.graph.nodes if node.op == "get_attr"]
    assert len(bodies) == 2 and all(
        isinstance(getattr(branches.graph_module, one), torch.fx.GraphModule) for one in bodies
    )


def mutations_are_functional():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x + 1
            y.mul_(2)
            return y.relu_()

    program = use("exir", "to_edge")(exported(InPlace(), X)).exported_program()
    assert not any(str(node.target).split(".")[-2].endswith("_") for node in _calls(program))
    same(program.module()(*X), torch.relu((X[0] + 1) * 2))


def edge_program_runs_in_python():
    program = use("exir", "to_edge")(exported(Sums(), XY)).exported_program()
    same(program.module()(*XY), Sums()(*XY))


def metadata_of_nodes():
    program = use("exir", "to_edge")(exported()).exported_program()
    node = next(one for one in _calls(program) if "relu" in str(one.target))
    assert node.meta["val"].shape == (2, 16) and "stack_trace" in node.meta
    linear = next(one for one in _calls(program) if "linear" in str(one.target) or "addmm" in str(one.target))
    assert any(path.endswith("a") for path, _ in linear.meta["nn_module_stack"].values())


def core_aten_operators():
    """What the definition of the set says: each operator has the tag, and the check names one that has not."""
    program = use("exir", "to_edge")(exported(Sums(), XY)).exported_program()
    for node in _calls(program):
        name, overload = str(node.target._schema).partition("(")[0].removeprefix("aten::").split(".")
        assert torch.Tag.core in getattr(getattr(torch.ops.aten, name), overload).tags


def backend_operator_from_a_pattern():
    """bind_pattern_to_op makes an operator whose kernel is the pattern; a pass puts it in the pattern's place."""
    bind, ops = use("exir.dialects._ops", "bind_pattern_to_op", "ops")
    base = use("exir.pass_base", "ExportPass")
    library = torch.library.Library("of_patterns", "DEF")

    @bind(library, "add_relu(Tensor self, Tensor other) -> Tensor")
    def add_relu(x, y):
        return torch.ops.aten.relu.default(torch.ops.aten.add.Tensor(x, y))

    class Fuse(base):
        def call(self, graph_module):
            for node in graph_module.graph.nodes:
                if node.target == ops.edge.aten.relu.default and node.args[0].target == ops.edge.aten.add.Tensor:
                    with graph_module.graph.inserting_before(node):
                        fused = graph_module.graph.call_function(
                            ops.backend.of_patterns.add_relu.default, node.args[0].args
                        )
                    node.replace_all_uses_with(fused)
            graph_module.graph.eliminate_dead_code()
            return super().call(graph_module)

    class Model(nn.Module):
        def forward(self, x, y):
            return torch.relu(x + y)

    config = use("exir", "EdgeCompileConfig")(_check_ir_validity=False)
    edge = use("exir", "to_edge")(exported(Model(), XY), compile_config=config).transform([Fuse()])
    program = edge.exported_program()
    assert ["of_patterns" in str(node.target) for node in _calls(program)] == [True]
    same(program.module()(*XY), Model()(*XY))


def edge_lets_exceptions_pass():
    """What the check of to_edge would name, an operator outside of Core ATen, passes by the exception list."""
    to_edge, config = use("exir", "to_edge", "EdgeCompileConfig")

    class Model(nn.Module):
        def forward(self, x):
            return torch.ops.aten.frexp.Tensor(x)[0]

    program = exported(Model(), X)
    for options in (
        {"_core_aten_ops_exception_list": [torch.ops.aten.frexp.Tensor]},
        {"_check_ir_validity": False},
    ):
        assert to_edge(program, compile_config=config(**options)).exported_program() is not None


def operator_kept_whole():
    to_edge, config = use("exir", "to_edge", "EdgeCompileConfig")

    class Model(nn.Module):
        def forward(self, x):
            return torch.nn.functional.hardswish(x)

    edge = to_edge(exported(Model(), X), compile_config=config(preserve_ops=[torch.ops.aten.hardswish.default]))
    assert ["hardswish" in str(node.target) for node in _calls(edge.exported_program())] == [True]


# -------------------------------------------------------------------------------------------------------------- passes


def pass_turns_scalars_into_tensors():
    base, map_args = use("exir.pass_base", "ExportPass", "map_args")

    class Coerce(base):
        def call_operator(self, op, args, kwargs, meta):
            def coerced(value, argument):
                wants = str(argument.type) == "Tensor"
                return torch.tensor(value) if wants and isinstance(value, (float, int, bool)) else value

            args, kwargs = map_args(op, coerced, args, kwargs)
            return super().call_operator(op, args, kwargs, meta)

    class Model(nn.Module):
        def forward(self, x):
            return x * 2.0 + 1

    edge = use("exir", "to_edge")(exported(Model(), X)).transform([Coerce()])
    same(run(edge.to_executorch().buffer, *X)[0], X[0] * 2 + 1)


def pass_with_a_requirement():
    base, result = use("exir.pass_base", "PassBase", "PassResult")

    class Replace(base):
        def __init__(self, replacement):
            super().__init__()
            self.replacement = replacement

        def requires(self, graph_module):
            if not any("mul" in str(node.target) for node in graph_module.graph.nodes):
                raise ValueError("there is no mul")

        def call(self, graph_module):
            for node in graph_module.graph.nodes:
                if node.op == "call_function" and "mul" in str(node.target):
                    node.target = self.replacement
            graph_module.recompile()
            return result(graph_module, True)

    ops = use("exir.dialects._ops", "ops")
    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    one = Replace(ops.edge.aten.div.Tensor)
    changed = one(graph_module)
    assert changed.modified and any("div" in str(node.target) for node in changed.graph_module.graph.nodes)
    try:
        one(changed.graph_module)
    except Exception as error:
        assert "there is no mul" in f"{error} {error.__cause__}"
    else:
        raise AssertionError("the requirement was not asked")


def pass_over_branches():
    """An ExportPass sees the operators of branches, too."""
    base, ops = use("exir.pass_base", "ExportPass"), use("exir.dialects._ops", "ops")
    called = []

    class Swap(base):
        def call_operator(self, op, args, kwargs, meta):
            swap = op == ops.edge.aten.add.Tensor
            return super().call_operator(ops.edge.aten.sub.Tensor if swap else op, args, kwargs, meta)

        def call_cond(self, pred, true_fn, false_fn, inputs, meta):
            called.append(len(inputs))
            return super().call_cond(pred, true_fn, false_fn, inputs, meta)

    class Model(nn.Module):
        def forward(self, x, y):
            return torch.cond(x.sum() > 1e6, lambda a, b: a * b, lambda a, b: a + b, (x, y))

    edge = use("exir", "to_edge")(exported(Model(), XY)).transform([Swap()])
    assert called == [2]
    same(run(edge.to_executorch().buffer, *XY)[0], XY[0] - XY[1])


class _Loop(nn.Module):
    def forward(self, count, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), (count, x))


class _Scan(nn.Module):
    def forward(self, start, rows):
        from torch._higher_order_ops.scan import scan

        return scan(lambda carry, row: (carry + row, carry * row), start, rows)


def _counting(hook: str) -> tuple:
    base, called = use("exir.pass_base", "ExportPass"), []

    def count(self, *arguments):
        called.append(hook)
        return getattr(base, hook)(self, *arguments)

    return type("Counting", (base,), {hook: count}), called


def pass_over_loops():
    ops = use("exir.dialects._ops", "ops")
    counting, called = _counting("call_while")

    class Mul(counting):
        def call_operator(self, op, args, kwargs, meta):
            swap = op == ops.edge.aten.mul.Tensor
            return super().call_operator(ops.edge.aten.div.Tensor if swap else op, args, kwargs, meta)

    inputs = (torch.tensor(0), torch.full((3,), 8.0))
    edge = use("exir", "to_edge")(exported(_Loop(), inputs)).transform([Mul()])
    assert called == ["call_while"]
    same(edge.exported_program().module()(*inputs)[1], torch.ones(3))


def pass_over_scans():
    ops = use("exir.dialects._ops", "ops")
    counting, called = _counting("call_scan")

    class Mul(counting):
        def call_operator(self, op, args, kwargs, meta):
            swap = op == ops.edge.aten.mul.Tensor
            return super().call_operator(ops.edge.aten.sub.Tensor if swap else op, args, kwargs, meta)

    inputs = (torch.ones(2), torch.arange(6.0).view(3, 2))
    edge = use("exir", "to_edge")(exported(_Scan(), inputs)).transform([Mul()])
    assert called == ["call_scan"]
    carry, results = run(edge.to_executorch().buffer, *inputs)
    same(carry, torch.tensor([7.0, 10.0]))
    same(results[0], torch.tensor([1.0, 0.0]))


def pass_over_delegates():
    """What is delegated stays as it is; a pass sees the call."""
    counting, called = _counting("call_delegate")
    preprocessed = use("exir.backend.backend_details", "PreprocessResult")
    _backend("PassedOver", lambda program, specs: preprocessed(processed_bytes=b"kept"))
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_all("PassedOver")).transform([counting()])
    assert called == ["call_delegate"] and b"kept" in edge.to_executorch().buffer


def pass_sees_inputs_and_outputs():
    base, seen = use("exir.pass_base", "ExportPass"), []

    class Watch(base):
        def placeholder(self, name, arg, meta):
            seen.append(name)
            return super().placeholder(name, arg, meta)

        def output(self, results, meta):
            seen.append(len(results))
            return super().output(results, meta)

    use("exir", "to_edge")(exported(Sums(), XY)).transform([Watch()])
    assert seen == ["x", "y", 1]


def pass_sees_items():
    base, seen = use("exir.pass_base", "ExportPass"), []

    class Watch(base):
        def call_getitem(self, value, key, meta):
            seen.append(key)
            return super().call_getitem(value, key, meta)

    class Model(nn.Module):
        def forward(self, x):
            values, places = torch.topk(x, 2)
            return values, places

    use("exir", "to_edge")(exported(Model(), X)).transform([Watch()])
    assert seen == [0, 1]


def pass_on_aten_dialect():
    """Before Edge a pass writes plain operators of torch."""
    base = use("exir.pass_base", "ExportPass")

    class WithoutDropout(base):
        def call_operator(self, op, args, kwargs, meta):
            if op == torch.ops.aten.dropout.default:
                return args[0]
            return super().call_operator(op, args, kwargs, meta)

    model = nn.Sequential(nn.Linear(8, 4), nn.Dropout(), nn.ReLU()).eval()
    program = export(model, X)
    changed = WithoutDropout()(program.graph_module)
    assert not any("dropout" in str(node.target) for node in changed.graph_module.graph.nodes)


# -------------------------------------------------------------------------------------------------------- partitioners


def matcher_names_nodes():
    from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

    def graph(model, x):
        return use("exir", "to_edge")(exported(model, (x,))).exported_program().graph_module.graph

    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(torch.softmax(torch.relu(x), 1))

    class Pattern(nn.Module):
        def forward(self, x):
            return torch.relu(torch.softmax(x, 0))

    large, pattern = graph(Model(), torch.ones(2, 2)), graph(Pattern(), torch.ones(3, 3))
    assert SubgraphMatcher(pattern).match(large) == []
    (match,) = SubgraphMatcher(pattern, ignore_literals=True).match(large)
    assert [node.op for node in match.placeholder_nodes] == ["call_function"]
    assert len(match.returning_nodes) == 1 and "relu" in str(match.returning_nodes[0].target)


def chained_operator_supports():
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase, any_chain, chain

    class Named(OperatorSupportBase):
        def __init__(self, *names):
            self.names = names

        def is_node_supported(self, submodules, node):
            return node.op == "call_function" and any(name in str(node.target) for name in self.names)

    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module

    def found(support):
        partitioner = CapabilityBasedPartitioner(graph_module, support, allows_single_node_partition=True)
        return sorted(len(one.nodes) for one in partitioner.propose_partitions())

    assert found(any_chain(Named("add"), Named("mul"))) == [3]
    assert found(chain(Named("add", "mul"), Named("mul"))) == [1]


def patterns_and_operators_combined():
    from torch.fx.passes.operator_support import create_op_support

    generate = use("exir.backend.canonical_partitioners.pattern_op_partitioner", "generate_pattern_op_partitions")
    ops = use("exir.dialects._ops", "ops")

    class Pattern(nn.Module):
        def forward(self, x, y):
            return (x + y) * y

    class Model(nn.Module):
        def forward(self, x, y):
            return torch.sigmoid((x + y) * y)

    to_edge = use("exir", "to_edge")
    pattern = to_edge(exported(Pattern(), XY)).exported_program().graph_module.graph
    graph_module = to_edge(exported(Model(), XY)).exported_program().graph_module
    support = create_op_support(lambda modules, node: node.target == ops.edge.aten.sigmoid.default)
    (partition,) = generate(graph_module, patterns=[pattern], op_support=support)
    assert len(partition.nodes) == 3


def partitions_by_source():
    from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.relu, self.second = nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 5)

        def forward(self, x):
            return self.second(self.relu(self.first(self.first(x))))

    graph = use("exir", "to_edge")(exported(Model(), (torch.randn(3, 3),))).exported_program().graph_module.graph
    found = get_source_partitions(graph, [nn.Linear, nn.ReLU])
    assert len(found[nn.Linear]) >= 2 and len(found[nn.ReLU]) == 1
    relu = found[nn.ReLU][0]
    assert [("relu" in node.name) for node in relu.output_nodes] == [True] and len(relu.input_nodes) == 1


def weights_in_preprocess():
    """A backend asks the program it is given for the values of its weights."""
    from torch._export.utils import get_param, is_param

    result, found = use("exir.backend.backend_details", "PreprocessResult"), {}

    def preprocess(program, specs):
        for node in program.graph.nodes:
            if is_param(program, node):
                found[node.name] = get_param(program, node).shape
        return result(processed_bytes=b"x")

    _backend("WeightsDemo", preprocess)
    use("exir", "to_edge")(exported()).to_backend(_all("WeightsDemo"))
    assert sorted(map(tuple, found.values())) == [(4,), (4, 16), (16,), (16, 8)]


def two_backends_in_one_partitioner():
    base, result, spec = use("exir.backend.partitioner", "Partitioner", "PartitionResult", "DelegationSpec")
    preprocessed = use("exir.backend.backend_details", "PreprocessResult")
    for name in ("FirstOfTwo", "SecondOfTwo"):
        _backend(name, lambda program, specs, name=name: preprocessed(processed_bytes=name.encode()))

    class Both(base):
        def partition(self, exported_program):
            tags = {}
            for node in exported_program.graph.nodes:
                for part, backend in (("add", "FirstOfTwo"), ("mul", "SecondOfTwo")):
                    if node.op == "call_function" and part in str(node.target):
                        node.meta["delegation_tag"] = f"{backend}_{node.name}"
                        tags[f"{backend}_{node.name}"] = spec(backend, [])
            return result(tagged_exported_program=exported_program, partition_tags=tags)

    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(Both())
    modules = use("exir.lowered_backend_module", "get_lowered_backend_modules")
    names = sorted(one.backend_id for one in modules(edge.exported_program().graph_module))
    assert names == ["FirstOfTwo", "FirstOfTwo", "SecondOfTwo"]


def partition_must_not_change_the_graph():
    base, result = use("exir.backend.partitioner", "Partitioner", "PartitionResult")

    class Changes(base):
        def partition(self, exported_program):
            graph = exported_program.graph_module.graph
            node = next(one for one in graph.nodes if one.op == "call_function")
            with graph.inserting_after(node):
                graph.call_function(node.target, node.args)
            return result(tagged_exported_program=exported_program, partition_tags={})

    try:
        use("exir", "to_edge")(exported(Sums(), XY)).to_backend(Changes())
    except Exception:
        return
    raise AssertionError("a partitioner changed the graph")


def partitioners_by_method():
    preprocessed = use("exir.backend.backend_details", "PreprocessResult")
    _backend("ByMethod", lambda program, specs: preprocessed(processed_bytes=b"x"))
    edge = use("exir", "to_edge")({"f": exported(Sums(), XY), "g": exported(Sums(), XY)})
    edge = edge.to_backend({"f": _all("ByMethod")})
    counts = [
        sum("call_delegate" in str(node.target) for node in edge.exported_program(name).graph.nodes) for name in "fg"
    ]
    assert counts == [1, 0]


def delegate_map_from_nodes():
    """Identifiers of a backend's steps, made from the nodes that each stands for, reach the program's map."""
    builder, result = (
        use("exir.backend.utils", "DelegateMappingBuilder"),
        use("exir.backend.backend_details", "PreprocessResult"),
    )
    made = []

    def preprocess(program, specs):
        mapping = builder(generated_identifiers=True)
        for node in program.graph.nodes:
            if node.op == "call_function":
                mapping.insert_delegate_mapping_entry(nodes=node)
        made.append(mapping.get_delegate_mapping())
        return result(processed_bytes=b"x", debug_handle_map=made[-1])

    _backend("MappedDemo", preprocess)
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_all("MappedDemo"))
    program = edge.to_executorch()
    assert sorted(made[0]) == [0, 1, 2]
    (told,) = program.delegate_map["forward"].values()
    assert told["name"] == "MappedDemo"
    assert {key: tuple(value) for key, value in told["delegate_map"].items()} == made[0]


def delegated_graph_is_printed():
    import contextlib
    import io

    printer, out = use("exir.backend.utils", "print_delegated_graph"), io.StringIO()
    preprocessed = use("exir.backend.backend_details", "PreprocessResult")
    _backend("PrintedDemo", lambda program, specs: preprocessed(processed_bytes=b"x"))
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_all("PrintedDemo"))
    with contextlib.redirect_stdout(out):
        printer(edge.exported_program().graph_module)
    assert "backend_id: PrintedDemo" in out.getvalue() and "lowered graph" in out.getvalue()


def source_of_a_linear():
    """Linear layers are found by their class where weights are shared as well."""
    ops = use("exir.dialects._ops", "ops")
    program = use("exir", "to_edge_transform_and_lower")(exported(Linears(), X)).exported_program()
    stacks = [
        list(node.meta["nn_module_stack"].values())[-1][1]
        for node in _calls(program)
        if node.target in (ops.edge.aten.linear.default, ops.edge.aten.addmm.default)
    ]
    assert len(stacks) == 2 and all("Linear" in str(one) for one in stacks)
