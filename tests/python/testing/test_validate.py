"""et.validate and the assertions: what passes, what fails, what the table says. Models through the whole way."""

import copy
import math
import typing

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import executorch_py as et  # noqa: E402
from executorch_py.devtools.comparison import Comparison, compare  # noqa: E402
from executorch_py.testing import assert_close, assert_matches_eager, lower  # noqa: E402

pytest_plugins = ["executorch_py.testing.fixtures"]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Result(typing.NamedTuple):
    logits: torch.Tensor
    extra: dict


class Nested(torch.nn.Module):
    def forward(self, x, pair, *, mask=None, scale):
        a, b = pair["a"], pair["b"][0]
        y = x * scale + a - b
        return Result(y if mask is None else y * mask, {"sum": y.sum(), "all": [x + 1, (y, None, 3)]})


X = torch.linspace(-1, 1, 16).reshape(2, 8)


def test_report_of_a_good_program(capsys):
    model = Net().eval()
    report = et.validate(lower(model, (X,)), model, (X,))
    assert report and report.passed and len(report.outputs) == 1
    comparison = report.outputs[0].comparison
    assert comparison.relative_error < 1e-5 and comparison.sqnr_db > 90 and comparison.cosine > 0.999999
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "method forward, 1 set of inputs"
    assert table[1].split() == [
        "output",
        "program",
        "max",
        "error",
        "mean",
        "error",
        "relative",
        "SQNR",
        "dB",
        "cosine",
    ]
    assert table[2].startswith("0") and table[2].endswith("pass")


def test_report_of_a_wrong_program():
    model = Net().eval()
    program = lower(model, (X,))
    model = copy.deepcopy(model)
    with torch.no_grad():
        model.second.bias[1] += 0.5
    report = et.validate(program.buffer, model, [(X,), (0 * X,)], verbose=False)
    assert not report.passed and report.outputs[0].comparison.max_error == pytest.approx(0.5, abs=1e-4)
    assert "FAIL" in report.table() and "2 sets of inputs" in report.table()
    loose = et.validate(program.buffer, model, (X,), tolerance=et.Tolerance(absolute=0.6), verbose=False)
    assert loose.passed
    assert not et.validate(program, model, (X,), tolerance=et.Tolerance(min_sqnr_db=60), verbose=False).passed


def test_structures_go_through(lower_and_load):
    model = Nested()
    args = (torch.ones(2, 3), {"a": torch.full((2, 3), 2.0), "b": [torch.ones(3)]})
    kwargs = {"mask": None, "scale": torch.tensor(3.0)}
    module = lower_and_load(model, args, kwargs)
    result = module(*args, **kwargs)
    expected = model(*args, **kwargs)
    assert type(result) is Result and torch.equal(result.logits, expected.logits)
    assert result.extra["all"][1][1:] == (None, 3) and torch.equal(result.extra["all"][0], expected.extra["all"][0])
    assert torch.equal(module(*args, scale=torch.tensor(3.0), mask=None).logits, expected.logits)
    arrays = module(
        args[0].numpy(),
        {"b": [np.ones(3, np.float32)], "a": args[1]["a"].numpy()},
        mask=None,
        scale=3.0 * np.ones((), np.float32),
    )
    assert isinstance(arrays.logits, np.ndarray) and np.array_equal(arrays.logits, expected.logits.numpy())
    with pytest.raises(et.InvalidArgumentError, match=r"args\[1\] misses \['b'\]"):
        module(args[0], {"a": args[1]["a"]}, **kwargs)
    with pytest.raises(et.InvalidArgumentError, match="keywords mask, scale"):
        module(*args)
    report = assert_matches_eager(model, args, kwargs)
    assert {line.output for line in report.outputs} == {
        ".logits",
        ".extra['sum']",
        *(f".extra['all']{p}" for p in ("[0]", "[1][0]", "[1][1]", "[1][2]")),
    }


def test_inputs_that_the_model_writes_are_written_back(lower_and_load):
    class Writer(torch.nn.Module):
        def forward(self, x):
            x.add_(1)
            return x * 2

    module = lower_and_load(Writer(), (torch.zeros(2, 3, 4, 4),))
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.zeros(2, 3, 4, 4).to(memory_format=layout)
        y = module(x)
        assert (x == 1).all() and (y == 2).all()
    wide = torch.zeros(2, 3, 4, 8)
    module(wide[..., ::2])
    assert (wide[..., ::2] == 1).all() and (wide[..., 1::2] == 0).all()
    frozen = np.zeros((2, 3, 4, 4), np.float32)
    frozen.setflags(write=False)
    with pytest.raises(et.InvalidArgumentError, match="read-only"):
        module(frozen)
    assert (frozen == 0).all()


def test_state_starts_anew_for_each_set_of_inputs():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.full((1,), 5.0))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    model = Counter()
    assert_matches_eager(model, [(torch.ones(1),), (torch.zeros(1),)])
    assert model.count == 5, "the eager runs left the model alone"


def test_dynamic_shapes_and_dtypes():
    rows = torch.export.Dim("rows", min=2, max=64)
    assert_matches_eager(Net().eval(), [(X,), (torch.ones(5, 8),)], dynamic_shapes=({0: rows},))
    for dtype in (torch.float16, torch.bfloat16):
        assert_matches_eager(Net().eval().to(dtype), (X.to(dtype),))


def test_constant_methods(lower_and_load):
    exported = torch.export.export(Net().eval(), (X,))
    program = et.to_edge_transform_and_lower(exported, constant_methods={"get_length": 128, "get_name": "net"})
    module = et.load(program.to_executorch().buffer)
    assert module.get_length() == 128 and module.get_name() == "net"
    assert module.method_names == {"forward", "get_length", "get_name"}


@pytest.mark.parametrize("inputs", [torch.ones(1), "ab", [torch.ones(1)]])
def test_wrong_example_inputs(inputs):
    with pytest.raises(et.InvalidTypeError, match="example_inputs is a tuple"):
        et.validate(b"", Net(), inputs)
    with pytest.raises(et.InvalidArgumentError, match="no set of inputs"):
        et.validate(b"", Net(), [])


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("actual", "expected", "passed"),
    [
        (np.array([1.0, 2]), np.array([1.0, 2]), True),
        (np.array([1.0, 2.1]), np.array([1.0, 2]), False),
        (np.array([1.0, 2]), np.array([[1.0, 2]]), False),
        (np.array([1.0], np.float32), np.array([1.0]), False),
        (np.array([NAN, 1]), np.array([NAN, 1]), True),
        (np.array([NAN, 1]), np.array([1, NAN]), False),
        (np.array([INF]), np.array([-INF]), False),
        (np.array([INF]), np.array([1.0]), False),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.zeros(0), np.zeros(0), True),
        (np.zeros(2), np.zeros(2), True),
        (np.full(2, 1e-9), np.zeros(2), False),
        (None, None, True),
        (None, 1, False),
        ("a", "b", False),
        (True, True, True),
        (2.5, 2.5, True),
        (torch.ones(2).bfloat16(), torch.ones(2).bfloat16(), True),
        (torch.ones(2), np.ones(2, np.float32), True),
    ],
)
def test_compare(actual, expected, passed):
    found = compare(actual, expected)
    assert isinstance(found, Comparison) and found.passed is passed
    if not passed:
        with pytest.raises(AssertionError, match="logits differs"):
            assert_close(actual, expected, name="logits")


class ConvNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        return torch.softmax(torch.relu(self.conv(x)), 1)


def test_a_delegated_program_is_compared_without_its_delegates_too(capsys):
    example = pytest.importorskip("executorch_py.backends.example")
    model, x = ConvNet().eval(), torch.linspace(-1, 1, 3 * 8 * 8).reshape(1, 3, 8, 8)
    exported = torch.export.export(model, (x,))
    edge = et.to_edge_transform_and_lower(exported, partitioner=[example.ExamplePartitioner()])
    program = edge.to_executorch()
    report = et.validate(program, model, (x,))
    assert report.passed and [line.program for line in report.outputs] == ["delegated", "portable"]
    assert "portable" in capsys.readouterr().out
    alone = et.validate(program, model, (x,), portable=False, verbose=False)
    assert [line.program for line in alone.outputs] == ["delegated"]
    given = et.validate(program, model, (x,), portable=lower(model, (x,)), verbose=False)
    assert [line.program for line in given.outputs] == ["delegated", "portable"] and given.passed
    function = et.validate(program, lambda x: model(x), (x,), verbose=False)
    assert function.passed and "the model is no torch.nn.Module" in function.notes[0]


def test_a_fault_of_a_backend_is_told_from_one_of_the_rest():
    example = pytest.importorskip("executorch_py.backends.example")
    model, x = ConvNet().eval(), torch.linspace(-1, 1, 3 * 8 * 8).reshape(1, 3, 8, 8)
    exported = torch.export.export(model, (x,))
    program = et.to_edge_transform_and_lower(exported, partitioner=[example.ExamplePartitioner()]).to_executorch()
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.conv.bias.add_(0.5)  # as if the backend had another bias than the model
    report = et.validate(program, wrong, (x,), verbose=False)
    assert {line.program: line.comparison.passed for line in report.outputs} == {"delegated": False, "portable": True}
    assert not report


def test_fixtures(runtime, single_thread):
    assert runtime is et.Runtime.get() and runtime.num_threads == 1
