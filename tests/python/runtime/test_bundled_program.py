"""Bundled programs that run: test cases on the device's side, and files that are none."""

import random
import subprocess

import pytest
import torch

import executorch_py as et
from executorch_py import _core, programs
from executorch_py.compat import portable_lib
from executorch_py.devtools.bundled_program.check import run_test_cases
from executorch_py.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch_py.devtools.bundled_program.core import BundledProgram
from executorch_py.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer


class Mixed(torch.nn.Module):
    """Floats, integers, an empty tensor and another order of dims among its results."""

    def forward(self, x, n):
        picture = x.reshape(1, 2, 2, 2).to(memory_format=torch.channels_last)
        return x * 2 + n, n + 1, x[:0], picture + 1, x.to(torch.float16)


MODEL = Mixed().eval()
INPUTS = [(torch.arange(8.0).reshape(1, 8), torch.tensor(k)) for k in (1, 2)]


def _bundle(change=lambda outputs: outputs) -> bytes:
    program = et.to_edge_transform_and_lower(torch.export.export(MODEL, INPUTS[0])).to_executorch()
    cases = [MethodTestCase(inputs, change(list(MODEL(*inputs)))) for inputs in INPUTS]
    return serialize_from_bundled_program_to_flatbuffer(BundledProgram(program, [MethodTestSuite("forward", cases)]))


@pytest.fixture(scope="module")
def right() -> bytes:
    return _bundle()


def test_right_outputs_are_returned(right):
    module = portable_lib._load_bundled_program_from_buffer(right)
    for index, inputs in enumerate(INPUTS):
        outputs = module.verify_result_with_bundled_expected_output("forward", index)
        torch.testing.assert_close(outputs, list(MODEL(*inputs)), rtol=0, atol=0)
    program = portable_lib._load_for_executorch_from_bundled_program(module, enable_etdump=True)
    torch.testing.assert_close(program.forward(list(INPUTS[0])), list(MODEL(*INPUTS[0])))
    assert program.has_etdump()


def _changed(output, value):
    def change(outputs):
        outputs[output] = value(outputs[output])
        return outputs

    return change


def _set(tensor, index, number):
    tensor = tensor.clone()
    tensor[index] = number
    return tensor


WRONG = {
    "a_float": (_changed(0, lambda t: _set(t, (0, 3), 1e3)), "element 3 of output 0, 7 instead of 1000"),
    "an_integer": (_changed(1, lambda t: t + 1), "element 0 of output 1, 2 instead of 3"),
    "of_channels_last": (_changed(3, lambda t: _set(t, (0, 1, 0, 1), 0)), "element 5 of output 3, 6 instead of 0"),
    "a_half": (_changed(4, lambda t: _set(t, (0, 7), 8)), "element 7 of output 4, 7 instead of 8"),
    "not_a_number": (_changed(0, lambda t: t * float("nan")), "8 elements differ"),
    "infinity": (_changed(0, lambda t: _set(t, (0, 0), float("inf"))),
                 "1 elements differ from the expected ones, by up to inf"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_outputs_are_named(name, tmp_path):
    change, message = WRONG[name]
    data = _bundle(change)
    module = portable_lib._load_bundled_program_from_buffer(data)
    with pytest.raises(et.errors.NotFoundError, match=message):
        module.verify_result_with_bundled_expected_output("forward", 0)
    with pytest.raises(et.errors.NotFoundError):  # the method stays usable
        module.verify_result_with_bundled_expected_output("forward", 0)
    (tmp_path / "m.bpte").write_bytes(data)
    ended = _runner("--bundled_program", tmp_path / "m.bpte")
    assert ended.returncode == 1 and "test case 0: WRONG" in ended.stdout and "2 of 2 test cases" in ended.stderr


def test_tolerances_are_the_callers():
    module = portable_lib._load_bundled_program_from_buffer(_bundle(_changed(0, lambda t: t + 0.01)))
    with pytest.raises(et.errors.NotFoundError, match=r"by up to 0\.01"):
        module.verify_result_with_bundled_expected_output("forward", 0)
    module.verify_result_with_bundled_expected_output("forward", 0, 0, 0.011)
    module.verify_result_with_bundled_expected_output("forward", 0, rtol=0.011)


def test_what_does_not_fit_is_refused(right):
    module = portable_lib._load_bundled_program_from_buffer(right)
    with pytest.raises(et.errors.InvalidArgumentError, match="2 test cases for method 'forward', there is no case 2"):
        module.verify_result_with_bundled_expected_output("forward", 2)
    with pytest.raises(et.errors.NotFoundError, match="backward"):
        module.verify_result_with_bundled_expected_output("backward", 0)
    for index in (-1, "0", 2**40):
        with pytest.raises((et.errors.InvalidArgumentError, et.errors.InvalidTypeError), match="testset_idx"):
            module.verify_result_with_bundled_expected_output("forward", index)
    other = et.to_edge_transform_and_lower(torch.export.export(torch.nn.ReLU(), (torch.ones(3),))).to_executorch()
    method = et.Runtime.get().load_program(other.buffer).load_method("forward")
    with pytest.raises(et.errors.InvalidArgumentError, match="has 2 inputs, the method takes 1"):
        _core.BundledProgram(right).verify(method._core, 0)


def test_no_damage_crashes_and_none_gives_another_answer(right):
    random.seed(3)
    for cut in [0, 3, 7, 8, *random.sample(range(9, len(right)), 60)]:
        with pytest.raises(et.errors.ExecutorchError):
            _core.BundledProgram(right[:cut]).verify(None, 0)
    for _ in range(300):
        damaged = bytearray(right)
        for _ in range(random.randint(1, 4)):
            # The tables of the bundle, at both ends of the file; the program in it is another test's.
            place = random.choice([random.randrange(64), random.randrange(len(right) - 1800, len(right))])
            damaged[place] = random.choice([0, 1, 127, 255, random.randrange(256)])
        try:
            module = portable_lib._load_bundled_program_from_buffer(bytes(damaged))
            module.verify_result_with_bundled_expected_output("forward", 0)
        except et.errors.ExecutorchError:
            pass


def _runner(*arguments):
    return subprocess.run(
        [programs.path("executor_runner"), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_runner_checks_a_bundle_and_records_it(right, tmp_path):
    (tmp_path / "m.bpte").write_bytes(right)
    ended = _runner("--bundled-program", tmp_path / "m.bpte", "--etdump_path", tmp_path / "m.etdp")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "test case 0: ok, largest difference 0",
        "test case 1: ok, largest difference 0",
    ]
    assert (tmp_path / "m.etdp").read_bytes()[8:12] == b"ED00"
    one = _runner(f"--bundled_program_path={tmp_path / 'm.bpte'}", "--testset_idx=1")
    assert one.stdout == "test case 1: ok, largest difference 0\n"
    for arguments, message in {
        ("--bundled-program", "/no/such"): "/no/such",
        ("--bundled-program", tmp_path / "m.bpte", "--test-case", "2"): "2 test cases for method 'forward'",
        ("--bundled-program", tmp_path / "m.bpte", "--model", "m.pte"): "one of them",
        ("--bundled-program", tmp_path / "m.bpte", "--debug-output", "x"): "goes with --etdump",
        ("--bundled-program", tmp_path / "m.bpte", "--rtol", "x"): "no number",
    }.items():
        ended = _runner(*arguments)
        assert ended.returncode in (1, 2) and message in ended.stderr


class Counting(torch.nn.Module):
    """Adds up what it was given."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total.add_(x)
        return self.total + 1


def test_a_case_does_not_see_the_state_that_another_one_left(tmp_path):
    """The runner went on with the first case's state, Python did not."""
    inputs = [torch.full((2,), float(i + 1)) for i in range(3)]
    program = et.to_edge_transform_and_lower(torch.export.export(Counting(), (inputs[0],))).to_executorch()
    suite = MethodTestSuite("forward", [MethodTestCase((x,), x + 1) for x in inputs])
    data = serialize_from_bundled_program_to_flatbuffer(BundledProgram(program, [suite]))
    assert run_test_cases(data).passed
    module = portable_lib._load_bundled_program_from_buffer(data)
    for index in range(3):
        module.verify_result_with_bundled_expected_output("forward", index)
    (tmp_path / "m.bpte").write_bytes(data)
    ended = _runner("--bundled-program", tmp_path / "m.bpte")
    assert ended.returncode == 0, ended.stdout
