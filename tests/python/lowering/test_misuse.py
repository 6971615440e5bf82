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
