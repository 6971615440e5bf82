"""executorch.h against whoever calls it wrongly: tensors at random, numbers of every kind, damaged bytes."""

import ctypes as c
import os
import random

import pytest
import torch

import executorch_py as et

INVALID_ARGUMENT = 0x12
INVALID_TYPE = 0x13
ACCESS_FAILED = 0x22
INVALID_PROGRAM = 0x23
FLOAT = 6


class Tensor(c.Structure):
    _fields_ = [
        ("dtype", c.c_int32),
        ("rank", c.c_int32),
        ("sizes", c.POINTER(c.c_int64)),
        ("data", c.c_void_p),
        ("nbytes", c.c_size_t),
    ]


class Options(c.Structure):
    _fields_ = [
        ("abi_version", c.c_uint32),
        ("read_file", c.c_int32),
        ("data_files", c.POINTER(c.c_char_p)),
        ("num_data_files", c.c_size_t),
        ("allocator", c.c_void_p),
    ]


class Outputs(torch.nn.Module):
    """A size, a comparison of it, and a tensor."""

    def forward(self, x):
        return x.shape[0], x.shape[0] > 3, x * 2


@pytest.fixture(scope="module")
def library() -> c.CDLL:
    found = c.CDLL(et.c_library_path)
    found.et_last_error.restype = c.c_char_p
    assert found.et_init_abi(1) == 0
    return found


def program_of(library: c.CDLL, data: bytes) -> tuple[int, c.c_void_p]:
    program = c.c_void_p()
    return library.et_program_load_memory(data, c.c_size_t(len(data)), None, c.byref(program)), program


def lowered(model: torch.nn.Module, *inputs: torch.Tensor, **settings: object) -> bytes:
    return bytes(et.to_edge_transform_and_lower(torch.export.export(model, inputs, **settings)).to_executorch().buffer)


def method_of(library: c.CDLL, data: bytes) -> c.c_void_p:
    method = c.c_void_p()
    status, program = program_of(library, data)
    assert status == 0 and library.et_method_load(program, b"forward", c.byref(method)) == 0, library.et_last_error()
    library.et_program_free(program)
    return method


def test_outputs_of_every_kind_are_read_by_their_own_function(library: c.CDLL) -> None:
    rows = torch.export.Dim("rows", min=1, max=9)
    data = lowered(Outputs(), torch.randn(4, 3), dynamic_shapes=({0: rows},))
    method = method_of(library, data)
    integer, boolean, double, tensor = c.c_int64(), c.c_int32(-1), c.c_double(), Tensor()
    getters = {
        "int": (library.et_method_get_output_int, integer),
        "bool": (library.et_method_get_output_bool, boolean),
        "double": (library.et_method_get_output_double, double),
        "tensor": (library.et_method_get_output, tensor),
    }
    for count in (2, 5):
        values, sizes = (c.c_float * (3 * count))(*range(3 * count)), (c.c_int64 * 2)(count, 3)
        given = Tensor(FLOAT, 2, sizes, c.cast(values, c.c_void_p), 12 * count)
        assert library.et_method_set_input(method, c.c_size_t(0), c.byref(given)) == 0, library.et_last_error()
        assert library.et_method_execute(method) == 0
        for i, kind in enumerate(("int", "bool", "tensor")):
            for name, (getter, place) in getters.items():
                status = getter(method, c.c_size_t(i), c.byref(place))
                assert status == (0 if name == kind else INVALID_TYPE), (name, kind, library.et_last_error())
        assert (integer.value, boolean.value) == (count, count > 3)
        assert (c.c_float * (3 * count)).from_address(tensor.data)[:] == [2 * value for value in values]
        assert all(getter(method, c.c_size_t(0), None) != 0 for getter, _ in getters.values())
    library.et_method_free(method)


def test_a_tensor_is_taken_when_it_is_what_the_method_wants(library: c.CDLL) -> None:
    data = lowered(torch.nn.Tanh(), torch.randn(1, 8))  # stays as long as the method
    method = method_of(library, data)
    memory, drawn, taken = (c.c_float * 64)(), random.Random(0), 0
    address = c.addressof(memory)
    odd = (-1, 0, 2, 2**32, 2**63 - 1, -(2**63))
    for _ in range(3000):
        sizes = [drawn.choice((1, 8, 8, *odd)) if drawn.random() < 0.3 else wanted for wanted in (1, 8)]
        dtype = drawn.choice((FLOAT, FLOAT, FLOAT, 7, -3, 11, 60))
        rank, nbytes = drawn.choice((2, 2, 2, 1, 0, -1, 9)), drawn.choice((32, 32, 32, 256, 31, 0, 2**64 - 1))
        place = drawn.choice((address, address, address, address + 1, None))
        given = Tensor(dtype, rank, (c.c_int64 * 9)(*sizes), place, nbytes) if drawn.random() < 0.9 else None
        at = drawn.choice((0, 0, 0, 1, 2**64 - 1))
        status = library.et_method_set_input(method, c.c_size_t(at), given and c.byref(given))
        wanted = given and (dtype, rank, sizes, at) == (FLOAT, 2, [1, 8], 0) and place in (address, address + 1)
        if status == 0:
            assert wanted and nbytes == 32, (dtype, rank, sizes, place, nbytes, at)
            assert library.et_method_execute(method) == 0
            taken += 1
        else:
            assert library.et_last_error(), "a refusal without a text"
            assert not (wanted and nbytes == 32 and place == address), library.et_last_error()
    assert taken > 10
    library.et_method_free(method)


def test_a_path_to_what_is_no_program_is_refused(library: c.CDLL, tmp_path) -> None:
    data = lowered(torch.nn.Tanh(), torch.randn(1, 8))
    for name, contents in {"empty": b"", "cut": data[: len(data) // 2], "picture": b"\x89PNG\r\n\x1a\n" * 99}.items():
        (tmp_path / name).write_bytes(contents)
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: whoever opens it to read waits
    (tmp_path / "loop").symlink_to("loop")
    paths = [tmp_path / name for name in ("empty", "cut", "picture", "pipe", "loop", "missing")]
    for path in (*paths, tmp_path, tmp_path / "cut" / "below", "", "/dev/zero"):
        for read_file in (0, 1):
            options, program = Options(1, read_file), c.c_void_p(1)
            status = library.et_program_load_file(os.fsencode(path), c.byref(options), c.byref(program))
            assert status in (ACCESS_FAILED, INVALID_PROGRAM) and program.value is None, path
            assert os.path.basename(path) in library.et_last_error().decode()


def test_an_input_without_memory_is_refused_as_such(library: c.CDLL) -> None:
    data = lowered(torch.nn.Tanh(), torch.randn(1, 8))
    method = method_of(library, data)
    given = Tensor(FLOAT, 2, (c.c_int64 * 2)(1, 8), None, 32)
    assert library.et_method_set_input(method, c.c_size_t(0), c.byref(given)) == INVALID_ARGUMENT
    assert b"no memory" in library.et_last_error()
    library.et_method_free(method)


def test_damaged_bytes_are_refused_or_run(library: c.CDLL) -> None:
    data = lowered(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Softmax(-1)).eval(), torch.randn(1, 8))
    drawn, refused = random.Random(0), 0
    values, sizes = (c.c_float * 8)(), (c.c_int64 * 2)(1, 8)
    given = Tensor(FLOAT, 2, sizes, c.cast(values, c.c_void_p), 32)
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(drawn.randint(1, 3)):
            damaged[drawn.randrange(len(damaged))] ^= 1 << drawn.randrange(8)
        held = bytes(damaged)
        status, program = program_of(library, held)
        if status != 0:
            assert program.value is None and library.et_last_error()
            refused += 1
            continue
        method = c.c_void_p()
        if library.et_method_load(program, b"forward", c.byref(method)) == 0:
            library.et_method_set_input(method, c.c_size_t(0), c.byref(given))
            library.et_method_execute(method)
        library.et_method_free(method)
        library.et_program_free(program)
    assert 100 < refused < 2000
