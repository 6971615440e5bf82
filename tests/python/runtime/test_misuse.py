"""Calls that are wrong: an error that names the value and what it must be, never a crash, and all goes on
afterwards.
"""

import ctypes
import io
import logging

import numpy as np
import pytest

import executorch_py as et
from executorch_py import errors

from .programs import ADD, compile_text


@pytest.fixture(scope="module")
def data():
    return compile_text(ADD)


@pytest.fixture
def program(data):
    return et.Runtime.get().load_program(data)


X = np.ones((2, 3), np.float32)
RUNTIME = et.Runtime.get()

CALLS = {
    "session of another kind": (
        lambda p: p.load_method("forward", session=3),
        errors.InvalidTypeError,
        "must be a Session",
    ),
    "name that is no string": (lambda p: p.load_method(3), errors.InvalidTypeError, "name of a method is 3"),
    "seed below zero": (lambda p: p.load_method("forward", seed=-1), errors.InvalidArgumentError, "seed is -1"),
    "seed that is no int": (
        lambda p: p.load_method("forward", seed="a"),
        errors.InvalidTypeError,
        "seed is 'a', must be an int",
    ),
    "jumps below zero": (
        lambda p: p.load_method("forward", max_backward_jumps=-1),
        errors.InvalidArgumentError,
        "max_backward_jumps is -1",
    ),
    "metadata of no name": (lambda p: p.metadata(3), errors.InvalidTypeError, "name of a method is 3"),
    "input below zero": (
        lambda p: p.metadata("forward").input_tensor_meta(-1),
        errors.InvalidArgumentError,
        "number of an input or output is -1",
    ),
    "input behind the last": (lambda p: p.metadata("forward").input_kind(2), IndexError, "there is no input 2"),
    "threads as text": (
        lambda p: et.set_num_threads("2"),
        errors.InvalidTypeError,
        "is '2', must be an int",
    ),
    "no number of threads": (lambda p: et.set_num_threads(None), errors.InvalidTypeError, "is None, must be an int"),
    "too many threads": (lambda p: et.set_num_threads(10**9), errors.InvalidArgumentError, "must be from 0 to 4096"),
    "log level as text": (lambda p: et.set_log_level("INFO"), errors.InvalidTypeError, "log level is 'INFO'"),
    "backend without a name": (
        lambda p: RUNTIME.backend_registry.is_available(3),
        errors.InvalidTypeError,
        "name of a backend is 3",
    ),
    "plug-in that is no path": (
        lambda p: RUNTIME.load_plugin(3),
        errors.InvalidTypeError,
        "plug-in is 3, must be a path",
    ),
    "path with a null character": (lambda p: et.load("a\0b.pte"), errors.InvalidArgumentError, "no name of a file"),
    "path outside UTF-8": (lambda p: et.load("a\udcff.pte"), errors.InvalidArgumentError, "no name of a file in UTF-8"),
    "empty path": (lambda p: et.load(""), errors.InvalidArgumentError, "the program is empty"),
    "data_path that is no path": (lambda p: et.load("a.pte", data_path=3), errors.InvalidTypeError, "data_path is 3"),
    "file in text mode": (lambda p: et.load(io.StringIO("a")), errors.InvalidTypeError, "binary file .'rb'."),
    "memoryview with strides": (
        lambda p: et.load(memoryview(b"abcdef")[::2]),
        errors.InvalidArgumentError,
        "has strides; pass its bytes",
    ),
    "out that is expanded": (
        lambda p: p.load_method("forward").execute(
            [X, X], out=[np.broadcast_to(np.zeros(3, np.float32), (2, 3)), None]
        ),
        errors.InvalidArgumentError,
        r"out\[0\] is",
    ),
    "out whose windows slide": (
        lambda p: p.load_method("forward").execute(
            [X, X], out=[np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (2, 3), (4, 4)), None]
        ),
        errors.InvalidArgumentError,
        r"out\[0\] is an expanded tensor or one of sliding windows",
    ),
    "key that is no string": (
        lambda p: p.read_named_data(3),
        errors.InvalidTypeError,
        "a key of the named data is 3",
    ),
    "backend with an empty name": (
        lambda p: RUNTIME.register_backend("", object),
        errors.InvalidArgumentError,
        "name of a backend is ''",
    ),
    "out twice": (
        lambda p: p.load_method("forward").execute([X, X], out=[np.zeros_like(X)] * 2),
        errors.InvalidArgumentError,
        r"out\[0\] and out\[1\] share memory",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_wrong_call(call, program):
    function, error, message = CALLS[call]
    with pytest.raises(error, match=message):
        function(program)
    (total, _) = program.load_method("forward").execute([X, X])
    assert (total == 2).all()


def test_expanded_out_of_torch_is_refused(program):
    torch = pytest.importorskip("torch")
    with pytest.raises(errors.InvalidArgumentError, match=r"out\[0\] is an expanded tensor"):
        program.load_method("forward").execute([X, X], out=[torch.zeros(1, 3).expand(2, 3), None])


def test_negated_out_of_torch_is_refused(program):
    torch = pytest.importorskip("torch")
    negated = torch.zeros(2, 3, dtype=torch.complex64).conj().imag
    with pytest.raises(errors.InvalidArgumentError, match=r"out\[0\] is a view that negates"):
        program.load_method("forward").execute([X, X], out=[negated, None])


@pytest.mark.parametrize("split", [lambda a: (a[:, :3], a[:, 3:]), lambda a: (a[::2, :3], a[1::2, :3])])
def test_outputs_may_be_parts_of_one_array(program, split):
    whole = np.zeros((4, 6), np.float32)
    total, product = split(whole if split(whole)[0].shape == (2, 3) else whole[:2])
    program.load_method("forward").execute([X, 2 * X], out=[total, product])
    assert (total == 3).all() and (product == 2).all()


def test_parts_that_share_a_column_are_refused(program):
    whole = np.zeros((2, 5), np.float32)
    with pytest.raises(errors.InvalidArgumentError, match="share memory"):
        program.load_method("forward").execute([X, X], out=[whole[:, :3], whole[:, 2:]])


def test_arrays_of_ctypes_give_no_strides(program):
    array = (ctypes.c_float * 3 * 2)((1, 2, 3), (4, 5, 6))
    (total, _) = program.load_method("forward").execute([array, X])
    assert total.tolist() == [[2, 3, 4], [5, 6, 7]]


def test_a_module_without_fields_has_no_attributes():
    with pytest.raises(AttributeError):
        et.Module.__new__(et.Module).forward()  # what copy and pickle make first


class Emptying:
    """An array that empties the list of inputs while it is read."""

    def __init__(self, inputs):
        self.inputs = inputs

    def __dlpack__(self, **_):
        self.inputs.clear()
        return X.__dlpack__()


def test_a_list_that_changes_while_it_is_read(program):
    inputs = []
    inputs += [Emptying(inputs), np.full((2, 3), 4.0, np.float32)]
    (total, _) = program.load_method("forward").execute(inputs)
    assert (total == 5).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "has 0 bytes, too short"), (b"a" * 200, "a .pte has 'ET12' there"), (None, "it is cut off")],
)
def test_a_file_that_cannot_be_loaded_says_why_and_which(content, message, data, tmp_path):
    path = tmp_path / "model.pte"
    path.write_bytes(data[:-1] if content is None and len(data) % 16 else data[:-64] if content is None else content)
    with pytest.raises(errors.InvalidProgramError, match=f"{message}(.|\n)*model.pte' cannot be loaded"):
        et.load(path)


def test_external_data_that_cannot_be_loaded_says_why_and_which(data, tmp_path):
    (tmp_path / "model.pte").write_bytes(data)
    (tmp_path / "weights.ptd").write_bytes(b"")
    with pytest.raises(errors.InvalidExternalDataError, match=r"0 bytes(.|\n)*weights.ptd' cannot be used"):
        et.load(tmp_path / "model.pte", data_path=tmp_path / "weights.ptd")
    with pytest.raises(errors.AccessFailedError, match=r"none.ptd"):
        et.load(tmp_path / "model.pte", data_path=tmp_path / "none.ptd")


def test_log_level_takes_the_levels_of_logging():
    et.set_log_level(logging.INFO)
    et.set_log_level(logging.WARNING)
