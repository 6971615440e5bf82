"""Wrong calls of lowering, and users' partitioners, backends and passes that give nonsense."""

import pytest
import torch

import executorch_py as et
from executorch_py import errors
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult


class OddBackend(BackendDetails):
    """Gives what the test wants it to give."""

    result: object = None

    @staticmethod
    def preprocess(edge_program, compile_specs):
        return OddBackend.result


class OddPartitioner(Partitioner):
    """Tags relu; lists the tags that the test wants."""

    def __init__(self, tags=None, result=None):
        super().__init__()
        self.tags = {"t": DelegationSpec("OddBackend", [])} if tags is None else tags
        self.result = result

    def partition(self, exported_program):
        for node in exported_program.graph.nodes:
            if "relu" in str(node.target):
                node.meta["delegation_tag"] = "t"
        return self.result or PartitionResult(exported_program, self.tags)


@pytest.fixture(scope="module")
def exported():
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),))


def lower(exported, **options):
    return et.to_edge_transform_and_lower(exported, **options).to_executorch()


def exported_linear():
    return torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


def lower_constant(exported, value):
    return lower(exported, constant_methods={"c": value})


def _changed_config():
    config = et.ExecutorchBackendConfig()
    config.debug_info = "no"
    return config


CALLS = {
    "a module": (lambda e: lower(torch.nn.ReLU()), errors.InvalidArgumentError, "torch.export.export"),
    "no program": (lambda e: lower({}), errors.InvalidArgumentError, "no program to lower"),
    "no name": (lambda e: lower({3: e}), errors.InvalidTypeError, "name of a method is 3"),
    "empty name": (lambda e: lower({"": e}), errors.InvalidArgumentError, "name of a method is ''"),
    "name with a line feed": (lambda e: lower({"a\n": e}), errors.InvalidArgumentError, "printable"),
    "constant method without name": (
        lambda e: lower(e, constant_methods={3: 1}),
        errors.InvalidTypeError,
        "name of a method is 3",
    ),
    "constant methods": (lambda e: lower(e, constant_methods=3), errors.InvalidTypeError, "constant_methods is 3"),
    "compile config": (lambda e: lower(e, compile_config=3), errors.InvalidTypeError, "compile_config is 3"),
    "config": (lambda e: et.to_edge(e).to_executorch(3), errors.InvalidTypeError, "config is 3"),
    "passes": (lambda e: et.to_edge(e).transform(3), errors.InvalidTypeError, "passes are 3"),
    "pass that gives a number": (
        lambda e: et.to_edge(e).transform([lambda module: 3]),
        errors.InvalidArgumentError,
        "returned 3; it must return a PassResult",
    ),
    "passes of a method that is not there": (
        lambda e: et.to_edge(e).transform({"predict": []}),
        errors.NotFoundError,
        "passes are given for the methods predict, which do not exist; there are forward",
    ),
    "memory plan of a method that is not there": (
        lambda e: et.to_edge(e).to_executorch(
            et.ExecutorchBackendConfig(memory_planning_pass={"predict": et.MemoryPlanningPass()})
        ),
        errors.NotFoundError,
        "memory plans are given for the methods predict",
    ),
    "config that was changed": (
        lambda e: et.to_edge(e).to_executorch(_changed_config()),
        errors.InvalidTypeError,
        "debug_info is 'no', must be True or False",
    ),
    "large constant": (
        lambda e: lower_constant(e, 2**63),
        errors.NotSupportedError,
        "constant method 'c': 9223372036854775808 does not fit in the 64 bits",
    ),
    "constant text outside UTF-8": (
        lambda e: lower_constant(e, "\udcff"),
        errors.NotSupportedError,
        "no text of UTF-8",
    ),
    "constant without data": (
        lambda e: lower_constant(e, torch.ones(2, device="meta")),
        errors.NotSupportedError,
        "constant method 'c', value 0 has no dense data",
    ),
    "sparse constant": (
        lambda e: lower_constant(e, torch.ones(2).to_sparse()),
        errors.NotSupportedError,
        "constant method 'c', value 0 has no dense data",
    ),
    "constant of a dtype that no program has": (
        lambda e: lower_constant(e, torch.ones(2).to(torch.float8_e5m2)),
        errors.NotSupportedError,
        "value 0 has dtype torch.float8_e5m2, which no program has",
    ),
    "saved to a number": (lambda e: lower(e).save(3), errors.InvalidTypeError, "file to save to is 3, must be a path"),
    "saved under a null character": (
        lambda e: lower(e).save("a\0.pte"),
        errors.InvalidArgumentError,
        "no name of a file",
    ),
    "external constants that are a number": (
        lambda e: et.to_edge(exported_linear()).to_executorch(
            et.ExecutorchBackendConfig(external_constants=lambda symbol, tensor: 3)
        ),
        errors.InvalidTypeError,
        "external_constants gave 3 for '(weight|bias)'",
    ),
    "external constants in another folder": (
        lambda e: et.to_edge(exported_linear()).to_executorch(
            et.ExecutorchBackendConfig(external_constants=lambda symbol, tensor: "../w")
        ),
        errors.InvalidArgumentError,
        "gave '../w' for '(weight|bias)', which is no name of a file",
    ),
    "partitioner class": (
        lambda e: lower(e, partitioner=OddPartitioner),
        errors.InvalidArgumentError,
        "no object of a class derived from Partitioner",
    ),
    "partition that gives a number": (
        lambda e: lower(e, partitioner=OddPartitioner(result=3)),
        errors.PartitionError,
        "OddPartitioner returned 3, must return a PartitionResult",
    ),
    "tags without specs": (
        lambda e: lower(e, partitioner=OddPartitioner(tags={"t": 3})),
        errors.PartitionError,
        "'t': 3, must be a string: DelegationSpec",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_wrong_call(call, exported):
    function, error, message = CALLS[call]
    with pytest.raises(error, match=message):
        function(exported)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "OddBackend.preprocess returned None, must return a PreprocessResult"),
        (b"abc", "must return a PreprocessResult"),
        (PreprocessResult(processed_bytes="abc"), "'abc' as processed_bytes, must be bytes"),
    ],
)
def test_preprocess_that_gives_nonsense(result, message, exported):
    OddBackend.result = result
    with pytest.raises(errors.PartitionError, match=message):
        lower(exported, partitioner=OddPartitioner())
    OddBackend.result = PreprocessResult(processed_bytes=b"", data_store_output=3)
    with pytest.raises(errors.PartitionError, match="gave 3 as data_store_output"):
        lower(exported, partitioner=OddPartitioner())


RELU = torch.ops.aten.relu.default

OPTIONS = [
    (et.ExecutorchBackendConfig, "compatible", "no", "must be True or False"),
    (et.ExecutorchBackendConfig, "segment_alignment", "a", "must be an int"),
    (et.ExecutorchBackendConfig, "segment_alignment", 2**40, "must be from 16 to 2097152"),
    (et.ExecutorchBackendConfig, "disabled_passes", "fuse-activation", "must be a list"),
    (et.ExecutorchBackendConfig, "disabled_passes", [3], "must be a string"),
    (et.ExecutorchBackendConfig, "target_kernels", 3, "must be a list"),
    (et.ExecutorchBackendConfig, "external_constants", "file", "must be a bool or a function"),
    (et.ExecutorchBackendConfig, "sparse_weights", "all", "must be a bool or a number"),
    (et.ExecutorchBackendConfig, "memory_planning_pass", et.MemoryPlanningPass, "must be a MemoryPlanningPass"),
    (et.ExecutorchBackendConfig, "memory_planning_pass", {"forward": 3}, "must be a MemoryPlanningPass"),
    (et.MemoryPlanningPass, "memory_planning_algo", "gready", "must be greedy, naive, best or a function"),
    (et.MemoryPlanningPass, "memory_planning_algo", 3, "must be a name or a function"),
    (et.MemoryPlanningPass, "alignment", 0, "must be from 1 to"),
    (et.MemoryPlanningPass, "alignment", 24, "must be a power of two"),
    (et.MemoryPlanningPass, "alloc_graph_input", None, "must be True or False"),
    (et.MemoryPlanningPass, "memory_capacities", [1], "must be a dict"),
    (et.MemoryPlanningPass, "memory_capacities", {0: 1}, "a memory id is 0"),
    (et.MemoryPlanningPass, "memory_capacities", {1: -1}, "capacity of memory 1 is -1"),
    (et.EdgeCompileConfig, "preserve_ops", RELU, "must be a list"),
    (et.EdgeCompileConfig, "preserve_ops", ["aten.relu"], "must be an overload"),
    (et.EdgeCompileConfig, "decompose_ops", [torch.ops.aten.relu], "must be an overload"),
    (et.EdgeCompileConfig, "_check_ir_validity", 1, "must be True or False"),
]


@pytest.mark.parametrize(("config", "field", "value", "message"), OPTIONS, ids=lambda value: str(value)[:30])
def test_options_are_checked_where_they_are_written(config, field, value, message):
    with pytest.raises((errors.InvalidTypeError, errors.InvalidArgumentError), match=message):
        config(**{field: value})


@pytest.mark.parametrize(
    "places", [None, "abc", [(1, -5)], [(1, 1.5)], [(1, 0, 3)], [(2**40, 0)]], ids=lambda value: str(value)
)
def test_a_planner_that_returns_nonsense(exported, places):
    plan = et.MemoryPlanningPass(memory_planning_algo=lambda requests, arenas: places)
    with pytest.raises(errors.InvalidTypeError, match=r"the memory planner returned .* must return a list"):
        et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(memory_planning_pass=plan))


def _relu(module):
    return next(node for node in module.graph.nodes if node.target is RELU)


def _to_function(module):
    _relu(module).target = torch.relu


def _to_in_place(module):
    _relu(module).target = torch.ops.aten.relu_.default


def _without_value(module):
    del _relu(module).meta["val"]


def _out_of_order(module):
    next(iter(module.graph.nodes)).prepend(_relu(module))


def _without_output(module):
    module.graph.erase_node(next(reversed(module.graph.nodes)))


def _output_of_none(module):
    next(reversed(module.graph.nodes)).args = (None,)


@pytest.mark.parametrize(
    "broken", [_to_function, _to_in_place, _without_value, _out_of_order, _without_output, _output_of_none]
)
def test_a_pass_that_breaks_the_graph_is_named(exported, broken):
    edge = et.to_edge(exported)
    with pytest.raises(errors.InvalidArgumentError, match=f"the pass {broken.__name__} left"):
        edge.transform([broken])
    edge.to_executorch()  # the program that was given is as it was
