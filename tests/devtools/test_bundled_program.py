"""Bundled programs: what goes in comes out, cases that do not fit are refused, damaged files are errors."""

import random
import struct

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py.devtools import BundledProgram, MethodTestCase, MethodTestSuite
from executorch_py.devtools.bundled_program import schema
from executorch_py.devtools.bundled_program.serialize import (
    deserialize_from_flatbuffer_to_bundled_program,
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch_py.errors import InvalidArgumentError, InvalidProgramError, InvalidTypeError, NotFoundError
from executorch_py.testing import lower
from tests.devtools.models import two_blocks


class Scaled(torch.nn.Module):
    """Takes numbers and a bool beside a tensor."""

    def forward(self, x, factor: int, offset: float, flip: bool):
        return x * factor + offset, -x if flip else x


@pytest.fixture(scope="module")
def program():
    return lower(*two_blocks())


def bundled(program, *cases, method="forward"):
    return BundledProgram(program, [MethodTestSuite(method, cases)])


def round_trip(bundle):
    return deserialize_from_flatbuffer_to_bundled_program(serialize_from_bundled_program_to_flatbuffer(bundle))


def test_round_trip(program):
    model, inputs = two_blocks()
    bundle = bundled(program, MethodTestCase(inputs, model(*inputs)), MethodTestCase(inputs))
    found = round_trip(bundle)
    assert found == bundle.serialize_to_schema()
    assert found.program == program.buffer
    first, second = found.method_test_suites[0].test_cases
    value = first.expected_outputs[0].val
    array = np.frombuffer(value.data, np.float32).reshape(value.sizes)
    assert torch.equal(torch.from_numpy(array.copy()), model(*inputs))
    assert second.expected_outputs == []
    assert "forward: 2 test cases" in repr(bundle) and "forward: 2 test cases" in repr(found)


def test_numbers_and_bools():
    inputs = (torch.ones(3), 2, 0.5, True)
    exported = torch.export.export(Scaled(), inputs)
    found = round_trip(bundled(et.to_edge(exported).to_executorch(), MethodTestCase(inputs)))
    values = [one.val for one in found.method_test_suites[0].test_cases[0].inputs[1:]]
    assert values == [schema.Int(2), schema.Double(0.5), schema.Bool(True)]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.transpose(1, 3).transpose(1, 3),
        lambda x: x[::1, :, ::2],
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_layouts(change, dtype):
    """The elements of the file, put back by its dim order, are those of the tensor."""
    x = change((torch.randn(2, 3, 6, 5) * 9).to(dtype))
    program = lower(torch.nn.Identity(), (x.contiguous(),))
    value = round_trip(bundled(program, MethodTestCase([x]))).method_test_suites[0].test_cases[0].inputs[0].val
    order = value.dim_order
    flat = torch.frombuffer(bytearray(value.data), dtype=dtype).reshape([value.sizes[i] for i in order])
    assert torch.equal(flat.permute([order.index(i) for i in range(len(order))]), x)


def test_cases_that_do_not_fit(program, tmp_path):
    good = torch.randn(4, 16)
    for case, kind, says in (
        (MethodTestCase([good, good]), InvalidArgumentError, "has 2 inputs, the method has 1"),
        (MethodTestCase([3]), InvalidTypeError, "input 0 of test case 0 of method 'forward' is a int"),
        (MethodTestCase([good.double()]), InvalidTypeError, "torch.float64"),
        (MethodTestCase([torch.randn(4, 17)]), InvalidArgumentError, r"\(4, 17\)"),
        (MethodTestCase([good], [good, good]), InvalidArgumentError, "2 expected outputs"),
    ):
        with pytest.raises(kind, match=says):
            bundled(program, case)
    with pytest.raises(NotFoundError, match="no method 'decode' to test; it has forward"):
        bundled(program, MethodTestCase([good]), method="decode")
    with pytest.raises(InvalidTypeError, match="input 0 is 'text'"):
        MethodTestCase(["text"])
    with pytest.raises(InvalidArgumentError, match="one of them"):
        BundledProgram(None, [])


def test_program_from_a_file(program, tmp_path):
    program.save(tmp_path / "model.pte")
    bundle = BundledProgram(None, [], pte_file_path=str(tmp_path / "model.pte"))
    assert round_trip(bundle).program == program.buffer


def test_damaged_files(program):
    """Cut off or changed, a file is read or refused, and never ends the process."""
    model, inputs = two_blocks()
    data = serialize_from_bundled_program_to_flatbuffer(bundled(program, MethodTestCase(inputs, model(*inputs))))
    with pytest.raises(InvalidProgramError, match="a program without test cases"):
        deserialize_from_flatbuffer_to_bundled_program(program.buffer)
    random_numbers = random.Random(7)
    refused = 0
    for _ in range(300):
        bad = bytearray(data[: random_numbers.randrange(len(data))] if random_numbers.random() < 0.5 else data)
        for _ in range(3):
            if len(bad) > 12:
                struct.pack_into(
                    "<I", bad, random_numbers.randrange(8, min(len(bad), 600) - 3), random_numbers.getrandbits(32)
                )
        try:
            deserialize_from_flatbuffer_to_bundled_program(bytes(bad))
        except InvalidProgramError:
            refused += 1
    assert refused > 100
