"""Delegation: parts are convex, compiled by Python or C++ backends, called in their place, run by Python or C++
runtimes.
"""

import json
from typing import ClassVar

import numpy as np
import pytest
import torch
from executorch_py.exir.backend.backend_api import to_backend
from torch import nn
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate

import executorch_py as et
from executorch_py.devtools import Inspector
from executorch_py.errors import InvalidStateError, NotFoundError, PartitionError
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from executorch_py.exir.dialects._ops import ops as exir_ops
from executorch_py.lowering.extraction import convex_groups

aten = exir_ops.edge.aten
NUMPY = {
    "aten.add.Tensor": np.add,
    "aten.mul.Tensor": np.multiply,
    "aten.sub.Tensor": np.subtract,
    "aten.relu.default": lambda x: np.maximum(x, 0),
}


class JsonBackend(BackendDetails):
    """Compiles elementwise operators into a list of steps."""

    seen: ClassVar[list] = []

    @staticmethod
    def preprocess(edge_program, compile_specs):
        JsonBackend.seen.append((edge_program, compile_specs))
        graph = edge_program.graph
        names = [node.name for node in graph.nodes if node.op == "placeholder"]
        constants = {}
        for node, spec in zip(graph.nodes, edge_program.graph_signature.input_specs, strict=False):
            if spec.target is not None:
                held = {**edge_program.state_dict, **edge_program.constants}[spec.target]
                constants[node.name] = held.detach().tolist()
        steps = [
            [str(n.target), [a.name if isinstance(a, torch.fx.Node) else a for a in n.args], n.name]
            for n in graph.nodes
            if n.op == "call_function"
        ]
        outputs = [node.name for node in next(reversed(graph.nodes)).args[0]]
        inputs = [name for name in names if name not in constants]
        payload = {"inputs": inputs, "constants": constants, "steps": steps, "outputs": outputs}
        return PreprocessResult(json.dumps(payload).encode(), debug_handle_map={0: 1})


class JsonRuntime:
    """Runs such a list with numpy."""

    def init(self, context, processed, compile_specs):
        return json.loads(bytes(processed))

    def execute(self, context, handle, args):
        count = len(handle["inputs"])
        values = dict(zip(handle["inputs"], args[:count], strict=True))
        values.update({name: np.array(data, dtype=np.float32) for name, data in handle["constants"].items()})
        for op, names, result in handle["steps"]:
            values[result] = NUMPY[op](*[values[n] if isinstance(n, str) else n for n in names])
        for index, name in enumerate(handle["outputs"]):
            context.resize(count + index, values[name].shape)[...] = values[name]


class TagTargets(Partitioner):
    """Tags nodes by operator, all with one tag, or each connected part with its own."""

    def __init__(self, *targets, backend="JsonBackend", own_constants=True, separate=False):
        super().__init__()
        self.targets, self.backend, self.own_constants, self.separate = targets, backend, own_constants, separate

    def partition(self, exported_program):
        tags = {}
        nodes = [node for node in exported_program.graph.nodes if node.target in self.targets]
        groups = [nodes]
        if self.separate:
            parts = generate_partitions_from_list_of_nodes(exported_program.graph_module, [nodes])
            groups = [list(part.nodes) for part in parts]
        for index, group in enumerate(groups):
            for node in group:
                node.meta["delegation_tag"] = f"tag{index}"
                tags[f"tag{index}"] = DelegationSpec(self.backend, [CompileSpec("index", b"%d" % index)])
        if self.own_constants:
            tag_constant_data(exported_program)
            tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, tags)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, x, y):
        a = torch.relu(x * self.scale + y)
        b = torch.sigmoid(a)
        return torch.relu(a + b) * y, b


INPUTS = (torch.randn(2, 3), torch.randn(2, 3))
ELEMENTWISE = (aten.add.Tensor, aten.mul.Tensor, aten.relu.default)


@pytest.fixture(autouse=True)
def _fresh():
    JsonBackend.seen.clear()
    et.Runtime.get().register_backend("JsonBackend", JsonRuntime)


def _delegates(program):
    return [node for node in program.graph.nodes if node.target is executorch_call_delegate]


def _run(manager, inputs=INPUTS):
    return et.Runtime.get().load_program(manager.to_executorch().buffer).load_method("forward").execute(inputs)


@pytest.mark.parametrize("separate", [False, True])
def test_python_backend_end_to_end(separate):
    model = Model()
    partitioner = TagTargets(*ELEMENTWISE, separate=separate)
    edge = et.to_edge_transform_and_lower(torch.export.export(model, INPUTS), partitioner=[partitioner])
    program = edge.exported_program()
    assert len(_delegates(program)) == 2  # sigmoid stands between the two parts
    expected = model(*INPUTS)
    torch.testing.assert_close(program.module()(*INPUTS), expected)
    torch.testing.assert_close(_run(edge), [e.detach() for e in expected])


def test_parts_are_programs_of_their_own():
    et.to_edge(torch.export.export(Model(), INPUTS)).to_backend(TagTargets(*ELEMENTWISE))
    first, specs = JsonBackend.seen[0]
    assert isinstance(first, torch.export.ExportedProgram)
    assert [spec.target for spec in first.graph_signature.input_specs if spec.target] == ["scale"]
    assert specs == [CompileSpec("index", b"0")]
    handles = [n.meta["debug_handle"] for n in first.graph.nodes if n.op == "call_function"]
    assert all(handles) and all("stack_trace" in n.meta for n in first.graph.nodes if n.op == "call_function")
    with first.graph.inserting_before(next(reversed(first.graph.nodes))):
        first.graph.call_function(aten.relu.default, (next(iter(first.graph.nodes)),))  # it is the backend's own


def test_constants_stay_inputs_unless_tagged():
    partitioner = TagTargets(*ELEMENTWISE, own_constants=False)
    et.to_edge(torch.export.export(Model(), INPUTS)).to_backend(partitioner)
    assert not JsonBackend.seen[0][0].state_dict


def test_the_given_program_is_not_changed():
    edge = et.to_edge(torch.export.export(Model(), INPUTS))
    before = str(edge.exported_program())
    edge.to_backend(TagTargets(*ELEMENTWISE))
    assert str(edge.exported_program()) == before
    assert not any(node.meta.get("delegation_tag") for node in edge.exported_program().graph.nodes)


def test_published_to_backend_functions():
    edge = et.to_edge(torch.export.export(Model(), INPUTS)).exported_program()
    assert len(_delegates(to_backend(edge, TagTargets(*ELEMENTWISE)))) == 2
    lowered = to_backend("JsonBackend", edge, [])
    assert json.loads(lowered.processed_bytes)["outputs"] and lowered.backend_id == "JsonBackend"


def test_groups_are_convex_on_random_graphs():
    generator = np.random.default_rng(0)
    for _ in range(50):
        graph = torch.fx.Graph()
        nodes = [graph.placeholder("x")]
        for _ in range(20):
            sources = generator.choice(len(nodes), size=min(2, len(nodes)), replace=False)
            nodes.append(graph.call_function(torch.add, tuple(nodes[i] for i in sources)))
        graph.output(nodes[-1])
        members = {node for node in nodes[1:] if generator.random() < 0.5}
        groups = convex_groups(graph, members)
        assert set().union(*map(set, groups)) == members if members else not groups
        for group in groups:
            inside, below = set(group), set()
            for node in graph.nodes:
                from_outside = any(s in below and s not in inside for s in node.all_input_nodes)
                assert not (node in inside and from_outside), "a path leaves the group and comes back"
                if node in inside or any(s in below for s in node.all_input_nodes):
                    below.add(node)


def test_two_groups_never_wait_for_each_other():
    class Crossed(nn.Module):
        def forward(self, x, y):
            a1 = x + y  # tag A
            b1 = a1 * 2  # tag B
            b2 = y * 3  # tag B
            a2 = b2 + x  # tag A
            return b1, a2

    edge = et.to_edge(torch.export.export(Crossed(), INPUTS))
    edge = edge.to_backend(TagTargets(aten.add.Tensor)).to_backend(TagTargets(aten.mul.Tensor))
    assert len(_delegates(edge.exported_program())) == 3
    torch.testing.assert_close(_run(edge), list(Crossed()(*INPUTS)))


def test_first_partitioner_keeps_what_it_took():
    first, second = TagTargets(aten.relu.default), TagTargets(*ELEMENTWISE)
    edge = et.to_edge_transform_and_lower(torch.export.export(Model(), INPUTS), partitioner=[first, second])
    taken = {str(n.target) for part, _ in JsonBackend.seen[:2] for n in part.graph.nodes if n.op == "call_function"}
    assert taken == {"aten.relu.default"}
    torch.testing.assert_close(_run(edge), [e.detach() for e in Model()(*INPUTS)])


def test_partitioners_are_asked_again_for_the_official_runtime():
    """One that leaves nodes to our kernels takes them then; what another one took meanwhile stays where it is."""
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    class Sparing(XnnpackPartitioner):
        def __init__(self, *left):
            super().__init__(always=True)
            self.left = left

        def partition(self, exported_program):
            result = super().partition(exported_program)
            for node in result.tagged_exported_program.graph.nodes:
                if node.target in self.left:
                    node.meta.pop("delegation_tag", None)
            return result

        def for_compatible(self):
            return Sparing() if self.left else None

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            y = self.linear(x)
            return torch.sigmoid(torch.abs(y) * y)

    torch.manual_seed(0)
    model, inputs = Gated().eval(), (torch.randn(2, 8),)
    program = torch.export.export(model, inputs)
    sparing = Sparing(aten.sigmoid.default, aten.mul.Tensor)
    edge = et.to_edge_transform_and_lower(program, partitioner=[sparing, TagTargets(aten.mul.Tensor)])
    for compatible, kernels in ((False, 1), (True, 0), (False, 1)):
        manager = edge.to_executorch(et.ExecutorchBackendConfig(compatible=compatible))
        assert manager.dump().count("aten::sigmoid.out") == kernels and "aten::mul" not in manager.dump()
        assert manager.dump().count("= delegate @") == 3 - kernels, "XNNPACK's two parts, and the product between them"
        torch.testing.assert_close(et.load(manager.buffer)(*inputs), model(*inputs).detach())


def test_python_and_cpp_backends_in_one_program():
    from executorch_py.backends.example import ExamplePartitioner

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x):
            return torch.relu(self.conv(x)) * x - x

    model, inputs = Both().eval(), (torch.randn(1, 3, 6, 6),)
    partitioners = [ExamplePartitioner(), TagTargets(aten.mul.Tensor, aten.sub.Tensor)]
    edge = et.to_edge_transform_and_lower(torch.export.export(model, inputs), partitioner=partitioners)
    manager = edge.to_executorch()
    assert manager.dump().count("= delegate @") == 2
    torch.testing.assert_close(_run(edge, inputs), [model(*inputs).detach()])


def test_mutable_state_may_move_into_the_part():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.add_(x)
            return torch.sigmoid(self.count * x)

    inputs = (torch.randn(3),)
    edge = et.to_edge(torch.export.export(Counter(), inputs)).to_backend(TagTargets(aten.add.Tensor, aten.mul.Tensor))
    part = JsonBackend.seen[0][0]
    assert [spec.kind.name for spec in part.graph_signature.output_specs] == ["BUFFER_MUTATION", "USER_OUTPUT"]
    assert [spec.kind.name for spec in edge.exported_program().graph_signature.output_specs] == ["USER_OUTPUT"]


def test_operators_stay_whole_for_who_asks():
    class Wants(TagTargets):
        def ops_to_not_decompose(self, ep):
            return [torch.ops.aten.rsub.Tensor], lambda node: node.args[0].name == "x"

    class Two(nn.Module):
        def forward(self, x, y):
            return torch.rsub(x, y) + torch.rsub(y, x)

    config = et.EdgeCompileConfig()
    edge = et.to_edge_transform_and_lower(
        torch.export.export(Two(), INPUTS), partitioner=[Wants()], compile_config=config
    )
    whole = [n for n in edge.exported_program().graph.nodes if n.target is torch.ops.aten.rsub.Tensor]
    assert [node.args[0].name for node in whole] == ["x"]


def test_a_partitioner_for_each_method():
    exported = {"one": torch.export.export(Model(), INPUTS), "two": torch.export.export(Model(), INPUTS)}
    edge = et.to_edge_transform_and_lower(exported, partitioner={"one": [TagTargets(*ELEMENTWISE)]})
    assert len(_delegates(edge.exported_program("one"))) == 2
    assert not _delegates(edge.exported_program("two"))


def test_multimethod_preprocess_gets_everything_at_once():
    calls = []

    class Together(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            raise AssertionError

        @classmethod
        def preprocess_multimethod(cls, edge_programs, compile_specs):
            calls.append({name: len(parts) for name, parts in edge_programs.items()})
            return {name: [PreprocessResult(b"x")] * len(parts) for name, parts in edge_programs.items()}

    exported = {"one": torch.export.export(Model(), INPUTS), "two": torch.export.export(Model(), INPUTS)}
    et.to_edge(exported).to_backend(TagTargets(*ELEMENTWISE, backend="Together"))
    assert calls == [{"one": 2, "two": 2}]


def test_dynamic_shapes_through_a_python_backend():
    class Dynamic(nn.Module):
        def forward(self, x):
            return torch.sigmoid(torch.relu(x) + x)

    batch = torch.export.Dim("batch", min=1, max=8)
    exported = torch.export.export(Dynamic(), (torch.randn(4, 3),), dynamic_shapes={"x": {0: batch}})
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TagTargets(*ELEMENTWISE)])
    method = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
    for size in (8, 1, 5):
        x = torch.randn(size, 3)
        torch.testing.assert_close(method.execute([x]), [Dynamic()(x)])


def test_weights_changed_after_delegation_are_refused():
    model = Model()
    edge = et.to_edge(torch.export.export(model, INPUTS)).to_backend(TagTargets(*ELEMENTWISE))
    with torch.no_grad():
        model.scale.add_(1)
    with pytest.raises(InvalidStateError, match=r"'scale' was changed after to_backend"):
        edge.to_executorch()


def test_weights_changed_through_data_after_delegation_are_refused():
    model = Model()
    edge = et.to_edge(torch.export.export(model, INPUTS)).to_backend(TagTargets(*ELEMENTWISE))
    model.scale.data.add_(1)
    with pytest.raises(InvalidStateError, match=r"'scale' was changed after to_backend"):
        edge.to_executorch()


def test_unknown_backend_and_unlisted_tag():
    edge = et.to_edge(torch.export.export(Model(), INPUTS))
    with pytest.raises(NotFoundError, match=r"'Nobody'.*C\+\+ backends"):
        edge.to_backend(TagTargets(*ELEMENTWISE, backend="Nobody"))

    class Forgets(TagTargets):
        def partition(self, exported_program):
            return PartitionResult(super().partition(exported_program).tagged_exported_program, {})

    with pytest.raises(PartitionError, match="'tag0', which Forgets does not list"):
        edge.to_backend(Forgets(*ELEMENTWISE))


class NamingBackend(JsonBackend):
    """The same, with ids of its own for the steps: 0, 1, … in their order."""

    @staticmethod
    def preprocess(edge_program, compile_specs):
        calls = [node for node in edge_program.graph.nodes if node.op == "call_function"]
        handles = {index: (node.meta["debug_handle"],) for index, node in enumerate(calls)}
        made = JsonBackend.preprocess(edge_program, compile_specs)
        return PreprocessResult(made.processed_bytes, debug_handle_map=handles)


class _FailingAt(JsonRuntime):
    def __init__(self, step, where):
        self.step, self.where = step, where

    def init(self, context, processed, compile_specs):
        if self.where == "init":
            context.failed_step = self.step
            raise ValueError("no such table")
        return super().init(context, processed, compile_specs)

    def execute(self, context, handle, args):
        context.failed_step = self.step
        raise ValueError("no such table")


@pytest.mark.parametrize("where", ["init", "execute"])
@pytest.mark.parametrize(("step", "op"), [(0, "aten.mul.Tensor"), (2, "aten.relu.default"), (7, None), (-1, None)])
def test_the_error_names_the_operator_that_failed(where, step, op):
    et.Runtime.get().register_backend("NamingBackend", _FailingAt(step, where))
    program = et.to_edge_transform_and_lower(
        torch.export.export(Model(), INPUTS), partitioner=[TagTargets(*ELEMENTWISE, backend="NamingBackend")]
    )
    with pytest.raises(ValueError, match="no such table") as caught:
        _run(program)
    notes = "\n".join(caught.value.__notes__)
    assert "at method 'forward'" in notes and "NamingBackend" in notes
    is_known = where == "execute" or step >= 0  # else no step is, so that there is no line
    assert ("test_delegation.py" in notes) == is_known
    assert (f"NamingBackend{f', {op}' if op else ''} (handle" in notes) == is_known


class _Timing(JsonRuntime):
    def execute(self, context, handle, args):
        context.record_step(0, 1_000_000, 3_000_000)
        context.record_step("whole", 1_000_000, 4_000_000, name="all of it")
        super().execute(context, handle, args)


def test_a_backend_tells_the_tracer_of_its_steps(tmp_path):
    et.Runtime.get().register_backend("NamingBackend", _Timing())
    manager = et.to_edge_transform_and_lower(
        torch.export.export(Model(), INPUTS), partitioner=[TagTargets(*ELEMENTWISE, backend="NamingBackend")]
    ).to_executorch()
    program = et.Runtime.get().load_program(manager.buffer, enable_etdump=True)
    program.load_method("forward").execute(INPUTS)
    program.write_etdump_result_to_file(tmp_path / "run.etdp")
    steps = [
        event
        for block in Inspector(tmp_path / "run.etdp").event_blocks
        for event in block.events
        if event.is_delegated_op and event.delegate_debug_identifier in (0, "0", "whole")
    ]
    assert sorted(sum(event.perf_data.raw) for event in steps) == [2, 2, 3, 3], "two calls of two steps, in ms"
