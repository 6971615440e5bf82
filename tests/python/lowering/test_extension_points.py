"""Every documented extension point is called, or refused in words: fields of both configurations, overridable
methods.
"""

import dataclasses

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py.exir import memory, memory_planning
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.dynamic_shape import DynamicMemoryPlanningMode
from executorch_py.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult, PassBase, PassResult
from executorch_py.exir.passes import (
    ConstraintBasedSymShapeEvalPass,
    HintBasedSymShapeEvalPass,
    MemoryPlanningPass,
    PropagateDeviceConfig,
    ToOutVarPass,
)
from executorch_py.exir.tensor import TensorSpec


class Chain(nn.Module):
    """Sums, products and views: enough values that memory is used again."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x, y):
        z = self.linear(x + y)
        return ((z * y).reshape(3, 4) + 1).reshape(2, 6) @ z.T, (x - y).sigmoid()


INPUTS = (torch.randn(2, 6), torch.randn(2, 6))


def edge(model=None, inputs=INPUTS, **options):
    torch.manual_seed(0)
    return et.to_edge(torch.export.export((model or Chain()).eval(), inputs, **options))


def check(program, model=None, inputs=INPUTS):
    torch.manual_seed(0)
    got = et.Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)
    for one, want in zip(got, torch.utils._pytree.tree_leaves((model or Chain()).eval()(*inputs)), strict=True):
        assert torch.allclose(one, want, atol=1e-5)
    return program


def compiled(plan, **options):
    return check(edge().to_executorch(et.ExecutorchBackendConfig(memory_planning_pass=plan, **options)))


# field -> values that are called or change the file, values that are accepted because nothing differs, values that are
# refused
FIELDS = {
    "passes": ([[lambda gm: None]], [()], []),
    "memory_planning_pass": ([MemoryPlanningPass("naive")], [], [3, MemoryPlanningPass]),
    "propagate_device_config": ([], [PropagateDeviceConfig(True, {"forward": True})], [True]),
    "to_out_var_pass": ([ToOutVarPass(True)], [], [lambda gm: None]),
    "dynamic_memory_planning_mode": (
        [],
        [DynamicMemoryPlanningMode.UPPER_BOUND],
        [DynamicMemoryPlanningMode.SYMBOLIC, 0],
    ),
    "emit_stacktrace": ([], [True], ["yes"]),
    "extract_delegate_segments": ([], [False], [1]),
    "segment_alignment": ([4096], [], [3]),
    "constant_tensor_alignment": ([64], [None], [8, 24]),
    "delegate_alignment": ([1024], [None], [3]),
    "sym_shape_eval_pass": (
        [],
        [ConstraintBasedSymShapeEvalPass(), {"forward": ConstraintBasedSymShapeEvalPass()}],
        [HintBasedSymShapeEvalPass(), lambda gm: None],
    ),
    "remove_view_copy": ([False], [True], [None]),
    "external_constants": ([True, lambda node: "weights", lambda name, tensor: "weights"], [False], ["yes", lambda: 1]),
    "external_mutable_weights": ([], [True, False], [1]),
    "emit_mutable_buffer_names": ([], [True, False], [1]),
    "do_quant_fusion_and_const_prop": ([], [True, False], [1]),
    "run_reinplace_pass": ([], [True, False], [1]),
    "enable_non_cpu_memory_planning": ([], [True, False], [1]),
    "reinplace_extra_ops": ([], [None, ()], [[torch.ops.aten.relu.default]]),
    "compatible": ([], [True, False], [1]),
    "quantized_io": ([], [False], [True, 1]),
    "disabled_passes": ([["remove-views"]], [()], ["remove-views"]),
    "target_kernels": ([], [True, ["my::op.out"]], ["all"]),
    "sparse_weights": ([], [True, False, 0.5], [2.0, "no"]),
    "debug_info": ([False], [True], [1]),
}


def test_every_field_is_looked_at():
    assert set(FIELDS) == {field.name for field in dataclasses.fields(et.ExecutorchBackendConfig)}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_the_configuration(field):
    plain = check(edge().to_executorch()).buffer
    changes, accepted, refused = FIELDS[field]
    for value in (*changes, *accepted):
        program = check_external(edge().to_executorch(et.ExecutorchBackendConfig(**{field: value})))
        if value in changes and field not in ("passes", "to_out_var_pass"):
            assert program.buffer != plain, f"{field}={value} changes nothing"
    for value in refused:
        with pytest.raises(et.ExecutorchError, match=r"must|take|leave|give|says|stays|rewrite"):
            edge().to_executorch(et.ExecutorchBackendConfig(**{field: value}))


def test_trained_weights_go_to_a_file_and_come_back(tmp_path):
    """State that no optimizer writes stays in the program."""
    from torch.export.experimental import _export_forward_backward

    from executorch_py.training import SGD, TrainingModule
    from tests.python.training.models import Cnn, made

    model, inside, batches = made(Cnn)
    joint = et.to_edge(_export_forward_backward(torch.export.export(model, batches[0])))
    outside = joint.to_executorch(et.ExecutorchBackendConfig(external_mutable_weights=True))
    paths = outside.write_tensor_data_to_file(tmp_path)
    assert [path.name for path in paths] == ["_default_external_constant.ptd"]
    with pytest.raises(et.ExecutorchError):
        TrainingModule.load(outside.buffer).forward_backward("forward", batches[0])
    module = TrainingModule.load(outside.buffer, data_path=paths)
    for one in (inside, module):
        optimizer = SGD(one.named_parameters(), lr=0.1)
        for batch in batches[:2]:
            one.forward_backward("forward", batch)
            optimizer.step(one.named_gradients())
    for name, value in inside.named_state().items():
        assert torch.equal(module.named_state()[name], value), name


def check_external(program):
    """``check``, where the weights are in the program."""
    return check(program) if program.backend_config.external_constants is False else program


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("_check_ir_validity", False),
        ("_skip_dim_order", True),
        ("_core_aten_ops_exception_list", [torch.ops.aten.linalg_vector_norm.default]),
        ("preserve_ops", [torch.ops.aten.logit.default]),
        ("decompose_ops", [torch.ops.aten.linear.default]),
        ("_use_edge_ops", False),
        ("_skip_type_promotion", True),
    ],
)
def test_a_field_of_the_edge_configuration(field, value):
    config = et.EdgeCompileConfig(**{field: value})
    torch.manual_seed(0)
    check(et.to_edge(torch.export.export(Chain().eval(), INPUTS), compile_config=config).to_executorch())
    with pytest.raises(et.ExecutorchError, match="must"):
        et.EdgeCompileConfig(**{field: 3})


# ------------------------------------------------------------------------------------------------------ memory planning


@pytest.mark.parametrize("method", ["run", "call", "__call__", "requires", "ensures", "run_multimethod"])
def test_each_method_of_a_planner_is_called(method):
    called = []

    def override(self, *arguments):
        called.append(method)
        return getattr(MemoryPlanningPass, method)(self, *arguments)

    compiled(type("Mine", (MemoryPlanningPass,), {method: override})())
    assert called == [method]


def test_places_that_run_sets_are_those_of_the_file():
    class Apart(MemoryPlanningPass):
        """Each tensor 64 bytes behind the last, in memory 2 what a product makes."""

        def run(self, graph_module, graph_signature=None):
            self.places, ends = {}, {1: 0, 2: 0}
            for node in graph_module.graph.nodes:
                spec = node.meta.get("spec")
                if node.target is memory.alloc or not isinstance(spec, TensorSpec):
                    continue
                if spec.const or spec.mem_offset is not None:
                    continue
                spec.mem_id = 2 if "mul" in str(node.target) else 1
                spec.mem_offset = ends[spec.mem_id]
                ends[spec.mem_id] += -(-spec.nbytes() // 64) * 64 + 64
                self.places[node.name] = (spec.mem_id, spec.mem_offset)
            return PassResult(graph_module, True)

    planner = Apart()
    text = compiled(planner).dump()
    for name, (memory_id, offset) in planner.places.items():
        if f"%{name} " in text or f"%{name}:" in text:
            assert f"at({memory_id}, {offset})" in text, name
    assert "at(2, 0)" in text


def test_a_planner_that_overlaps_is_refused():
    class Same(MemoryPlanningPass):
        def run(self, graph_module, graph_signature=None):
            for node in graph_module.graph.nodes:
                if hasattr(node.meta.get("spec"), "mem_offset"):
                    node.meta["spec"].mem_id, node.meta["spec"].mem_offset = 1, 0
            return PassResult(graph_module, True)

    with pytest.raises(et.ExecutorchError, match=r"share|overlap|same"):
        compiled(Same())


@pytest.mark.parametrize(
    ("mem_id", "mem_offset", "words"),
    [
        (1, None, "no place"),
        (99, 0, "ids are 1 to"),
        (0, 0, "ids are 1 to"),
        (1, -16, "offsets from 0"),
        (1, 1.5, "must be an int"),
    ],
)
def test_a_wrong_place_is_named(mem_id, mem_offset, words):
    class Wrong(MemoryPlanningPass):
        def run(self, graph_module, graph_signature=None):
            result = super().run(graph_module, graph_signature)
            spec = next(iter(graph_module.graph.nodes)).meta["spec"]
            spec.mem_id, spec.mem_offset = mem_id, mem_offset
            return result

    with pytest.raises(et.ExecutorchError, match=f"Wrong.*{words}"):
        compiled(Wrong())


def test_a_function_or_another_pass_plans():
    seen = []

    def plan(graph_module):
        seen.append("function")
        return MemoryPlanningPass()(graph_module)

    class Other(PassBase):
        def call(self, graph_module):
            seen.append("pass")
            return MemoryPlanningPass().run(graph_module)

    compiled(plan)
    compiled(Other())
    assert seen == ["function", "pass"]


@pytest.mark.parametrize("name", ["greedy", "naive"])
def test_published_algorithms(name):
    algorithm = getattr(memory_planning, name)
    assert compiled(MemoryPlanningPass(algorithm)).buffer == compiled(MemoryPlanningPass(name)).buffer
    called = []

    def mine(alignment, specs, graph_module, graph_signature, extra_padding):
        called.append(len(list(specs)))
        return algorithm(alignment, specs, graph_module, graph_signature, extra_padding)

    compiled(MemoryPlanningPass(mine))
    compiled(MemoryPlanningPass(memory_planning.MemoryPlanningAlgorithmSuite([mine, memory_planning.greedy])))
    assert len(called) == 2 and called[0] > 3


@pytest.mark.parametrize("algorithm", [lambda: 1, lambda a, b, c: 1, lambda *a: "no", lambda a, s, g, h, p: "no"])
def test_other_functions_are_refused_in_words(algorithm):
    with pytest.raises(et.ExecutorchError, match=r"must (take|return)"):
        compiled(MemoryPlanningPass(algorithm))


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x, y):
        chosen = torch.cond(x.sum() > 0, lambda a, b: a * b + 1, lambda a, b: a - b, (x, y))
        self.total.add_(chosen.sum(0)[:4])
        return chosen + y, self.total * 2


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return self.conv(x).relu().flatten(1).softmax(-1).split(8, 1)[0]


@pytest.mark.parametrize(
    ("model", "inputs", "shapes"),
    [
        (Loops, (torch.randn(3, 5), torch.randn(3, 5)), None),
        (Conv, (torch.randn(2, 3, 6, 6),), None),
        (Chain, INPUTS, None),
        (
            lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
            (torch.randn(3, 4),),
            ({0: torch.export.Dim("n", max=9)},),
        ),
    ],
)
@pytest.mark.parametrize("options", [{}, {"alloc_graph_input": False}, {"alloc_graph_output": False}])
def test_python_plans_of_other_graphs(model, inputs, shapes, options):
    class Mine(MemoryPlanningPass):
        def run(self, graph_module, graph_signature=None):
            return super().run(graph_module, graph_signature)

    torch.manual_seed(0)
    exported = torch.export.export(model().eval(), inputs, dynamic_shapes=shapes)
    program = et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(memory_planning_pass=Mine(**options)))
    torch.manual_seed(0)
    eager = model().eval()(*inputs)
    got = et.Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)
    for one, want in zip(got, torch.utils._pytree.tree_leaves(eager), strict=True):
        assert torch.allclose(one, want, atol=1e-4)


# ---------------------------------------------------------------------------------------------- passes and backends


@pytest.mark.parametrize("method", ["requires", "call", "ensures"])
@pytest.mark.parametrize("whole", [True, False])
def test_each_method_of_a_pass_is_called(method, whole):
    called = []
    base = ExportedProgramPassBase if whole else PassBase
    result = (lambda p: ExportedProgramPassResult(p, False)) if whole else (lambda p: PassResult(p, False))

    def override(self, program):
        called.append(method)
        return result(program) if method == "call" else None

    methods = {"call": lambda self, program: result(program)} | {method: override}
    one = type("Mine", (base,), methods)()
    check(edge().transform([one]).to_executorch())
    check(edge().to_executorch(et.ExecutorchBackendConfig(passes=[one])))
    assert called == [method] * 2


@pytest.mark.parametrize("method", ["preprocess", "preprocess_multimethod", "copy_exported_program_for_preprocess"])
def test_each_method_of_a_backend_is_called(method):
    called = []

    class Called(BackendDetails):
        backend_id = f"Called_{method}"

        @staticmethod
        def preprocess(edge_program, compile_specs):
            called.append("preprocess")
            return PreprocessResult(b"x")

        @staticmethod
        def copy_exported_program_for_preprocess(edge_program, compile_specs):
            called.append("copy_exported_program_for_preprocess")
            return BackendDetails.copy_exported_program_for_preprocess(edge_program, compile_specs)

        @classmethod
        def preprocess_multimethod(cls, edge_programs, compile_specs):
            called.append("preprocess_multimethod")
            return super().preprocess_multimethod(edge_programs, compile_specs)

    class All(Partitioner):
        def partition(self, exported_program):
            for node in exported_program.graph.nodes:
                if node.op == "call_function":
                    node.meta["delegation_tag"] = "all"
            return PartitionResult(exported_program, {"all": DelegationSpec(Called.backend_id, [])})

    edge().to_backend(All()).to_executorch()
    assert method in called


@pytest.mark.parametrize(
    "method", ["partition", "ops_to_not_decompose", "transform_for_pre_decomposition", "for_compatible"]
)
def test_each_method_of_a_partitioner_is_called(method):
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    called = []

    def override(self, *arguments):
        called.append(method)
        return getattr(XnnpackPartitioner, method)(self, *arguments)

    one = type("Mine", (XnnpackPartitioner,), {method: override})()
    lowered = et.to_edge_transform_and_lower(torch.export.export(Chain().eval(), INPUTS), partitioner=[one])
    lowered.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    assert method in called
