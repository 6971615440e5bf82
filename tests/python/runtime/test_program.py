"""Programs: ways to load, what they say about themselves, bad files, and what an import costs."""

import contextlib
import io
import logging
import subprocess
import sys

import numpy as np
import pytest

import executorch_py as et
from tests.python.runtime.programs import ADD, COUNTER, DYNAMIC, compile_text

RUNTIME = et.Runtime.get()
X = np.ones((2, 3), np.float32)


def test_ways_to_load(tmp_path):
    data = compile_text(ADD)
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    with open(path, "rb") as file:
        sources = [str(path), path, data, bytearray(data), memoryview(data), file, io.BytesIO(data)]
        programs = [RUNTIME.load_program(source) for source in sources]
    programs.append(RUNTIME.load_program(path, mmap=False, verification=et.Verification.Minimal))
    path.unlink()
    for program in programs:
        assert program.method_names == {"forward"}
        assert np.array_equal(program.load_method("forward").execute([X, X])[0], X + X)


def test_bytes_that_change_after_load_do_not_matter():
    data = bytearray(compile_text(ADD))
    program = RUNTIME.load_program(data)
    data[:] = bytes(len(data))
    assert np.array_equal(program.load_method("forward").execute([X, X])[1], X * X)


def test_metadata():
    metadata = RUNTIME.load_program(compile_text(DYNAMIC)).metadata("forward")
    assert (metadata.name(), metadata.num_inputs(), metadata.num_outputs()) == ("forward", 1, 1)
    info = metadata.input_tensor_meta(0)
    assert (info.name(), info.sizes(), info.dtype(), info.nbytes()) == ("x", (1000, 3), et.ScalarType.Float, 12000)
    assert info.bounds() == ((2, 1000), (3, 3)) and info.symbols() == ("s0", "") and info.is_dynamic()
    assert info.dim_order() == (0, 1)
    assert metadata.operators() == ("aten::add.out",) and metadata.backends() == ()
    assert metadata.num_instructions() == 1 and metadata.input_kind(0) == "Tensor"
    assert repr(info) == "TensorInfo('x', Float[s0: 2..1000, 3])"
    with pytest.raises(IndexError, match="has 1 inputs, there is no input 3"):
        metadata.input_tensor_meta(3)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("no/such/file.pte", et.AccessFailedError, "no/such/file.pte"),
        (b"", et.InvalidProgramError, "0 bytes"),
        (b"not a program, but long enough for a header of one" * 2, et.InvalidProgramError, "ET12|identifier"),
        (5, et.InvalidTypeError, "a program is a path, bytes or a binary file .*, not a int"),
    ],
)
def test_what_is_no_program(data, error, message):
    with pytest.raises(error, match=message):
        RUNTIME.load_program(data)


def test_truncated_and_mutated_files_are_refused_or_run():
    data = compile_text(COUNTER)
    for end in range(0, len(data), 97):
        with pytest.raises(et.ExecutorchError):
            RUNTIME.load_program(data[:end]).load_method("forward")
    random = np.random.default_rng(0)
    for _ in range(200):
        mutated = bytearray(data)
        mutated[random.integers(len(data))] ^= 1 << int(random.integers(8))
        with contextlib.suppress(et.ExecutorchError):
            RUNTIME.load_program(bytes(mutated)).load_method("forward").execute([np.ones(2, np.float32)])


def test_missing_method_and_operator():
    program = RUNTIME.load_program(compile_text(COUNTER))
    with pytest.raises(et.NotFoundError, match="no method 'backward'; it has: forward, peek"):
        program.load_method("backward")
    text = "method @forward(%x: f32[2]) stage(lowered) {\n  %y = my::op.out(%x) : f32[2]\n  return %y\n}"
    with pytest.raises(et.OperatorMissingError, match=r"my::op\.out"):
        RUNTIME.load_program(compile_text(text)).load_method("forward")
    text = 'delegate "NoBackend" = "x"\nmethod @forward(%x: f32[2]) stage(lowered) {\n  %y = delegate @0(%x) : f32[2]\n'
    with pytest.raises(et.ExecutorchError, match="NoBackend"):
        RUNTIME.load_program(compile_text(text + "  return %y\n}")).load_method("forward")


def test_registries():
    assert "aten::add.out" in RUNTIME.operator_registry.operator_names
    names = RUNTIME.backend_registry.registered_backend_names
    assert names == sorted(names) and not RUNTIME.backend_registry.is_available("NoBackend")


def test_module(load_method):
    module = et.load(compile_text(COUNTER))
    one = np.ones(2, np.float32)
    assert module(one).tolist() == [11, 21]
    assert module.peek(0 * one).tolist() == [11, 21] and module.method("peek") is module.peek
    assert module.new_session()(one).tolist() == [11, 21]
    module.reset_state()
    assert module(one).tolist() == [11, 21]
    assert {"forward", "peek"} <= set(dir(module)) and module.method_names == {"forward", "peek"}
    with pytest.raises(AttributeError, match="no method 'nope'"):
        module.nope  # noqa: B018
    with pytest.raises(et.InvalidArgumentError, match="takes 1 positional arguments and no keywords"):
        module(one, mask=one)
    pair = et.load(compile_text(ADD))(X, X)
    assert isinstance(pair, tuple) and len(pair) == 2


def test_import_is_quick_and_needs_no_torch():
    code = """
import sys, time
sys.modules["torch"] = None  # an import of it fails
started = time.perf_counter()
import executorch_py.runtime, executorch_py as et
et.Runtime.get(); et.load
seconds = time.perf_counter() - started
assert "torch" not in {name for name, module in sys.modules.items() if module is not None}
import numpy as np
data = open(sys.argv[1], "rb").read()
x = np.ones((2, 3), np.float32)
assert et.load(data)(x, x)[0].tolist() == [[2.0] * 3] * 2
print(seconds)
"""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".pte") as file:
        file.write(compile_text(ADD))
        file.flush()
        runs = [
            subprocess.run([sys.executable, "-c", code, file.name], capture_output=True, text=True, check=True)
            for _ in range(3)
        ]
    assert min(float(run.stdout) for run in runs) < 0.3


def test_messages_reach_logging(caplog):
    received = []
    with caplog.at_level(logging.DEBUG, logger="executorch_py"):
        from executorch_py import _logging

        _logging._handle(2, "method.cpp", 7, "slow path taken")
        received = [(r.name, r.levelname, r.getMessage(), r.lineno) for r in caplog.records]
    assert received == [("executorch_py", "WARNING", "slow path taken", 7)]
    et.set_log_level(logging.INFO)
    et.set_log_level(logging.WARNING)
