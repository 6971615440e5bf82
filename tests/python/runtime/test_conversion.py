"""Tensors in and out: every dtype, layout and library, without a copy where none is needed."""

import array
import subprocess
import sys

import numpy as np
import pytest

import executorch_py as et
from tests.python.runtime.programs import ADD, DYNAMIC, identity

ml_dtypes = pytest.importorskip("ml_dtypes")
NUMPY = {
    "u8": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bool": np.bool_,
    "bf16": ml_dtypes.bfloat16,
}
X = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("planned", [True, False])
def test_numpy_dtypes(load_method, dtype, planned):
    method = load_method(identity(dtype), plan_inputs=planned, plan_outputs=planned)
    x = X.astype(NUMPY[dtype])
    (y,) = method.execute([x])
    assert isinstance(y, np.ndarray) and y.dtype == x.dtype and y.flags.writeable
    assert np.array_equal(y.astype(np.float64), x.astype(np.float64))
    assert not np.shares_memory(y, x)


@pytest.mark.parametrize("dtype", NUMPY)
def test_torch_dtypes(load_method, dtype):
    torch = pytest.importorskip("torch")
    name = {"bf16": "bfloat16", "bool": "bool", "u8": "uint8"}.get(dtype, np.dtype(NUMPY[dtype]).name)
    x = torch.from_numpy(X).to(getattr(torch, name))
    (y,) = load_method(identity(dtype)).execute((x,))
    assert isinstance(y, torch.Tensor) and y.dtype == x.dtype and torch.equal(y, x) and not y.requires_grad


def strided(x):
    wide = np.zeros((4, 9), x.dtype)
    wide[::2, ::3] = x
    return wide[::2, ::3]


LAYOUTS = {
    "contiguous": lambda x: x.copy(),
    "transposed": lambda x: np.asfortranarray(x),
    "strided": strided,
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "read_only": lambda x: (lambda y: (y.setflags(write=False), y)[1])(x.copy()),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
    "memoryview": lambda x: memoryview(x.copy()),
    "empty_stride": lambda x: np.lib.stride_tricks.as_strided(x.copy(), x.shape, x.strides),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32", "f64"])
def test_layouts_are_converted(load_method, layout, dtype):
    x = LAYOUTS[layout](X.astype(NUMPY[dtype]))
    (y,) = load_method(identity(dtype)).execute([x])
    assert np.array_equal(y, np.asarray(x)) and y.flags.c_contiguous


def test_torch_layouts(load_method):
    torch = pytest.importorskip("torch")
    image = torch.arange(120.0).reshape(1, 2, 3, 4, 5)[0]
    method = load_method(identity("f32", "2, 3, 4, 5"))
    for x in (
        image,
        image.to(memory_format=torch.channels_last),
        image.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2),
        torch.nn.Parameter(image),
        image.clone().requires_grad_(),
        torch.arange(240.0).reshape(2, 3, 4, 10)[..., ::2],
    ):
        (y,) = method.execute([x])
        assert torch.equal(y, x) and y.is_contiguous() and not y.requires_grad


def test_torch_lazy_negation_is_seen(load_method):
    torch = pytest.importorskip("torch")
    x = torch.complex(torch.ones(2, 3), torch.full((2, 3), 5.0)).conj().imag
    assert x.is_neg()
    (y,) = load_method(identity("f32")).execute([x])
    assert torch.equal(y, torch.full((2, 3), -5.0))


def test_zero_dim_and_empty(load_method):
    (y,) = load_method(identity("f32", "")).execute([np.float32(3)])
    assert y.shape == () and y == 3
    (y,) = load_method(identity("f32", "0, 3")).execute([np.empty((0, 3), np.float32)])
    assert y.shape == (0, 3)


def test_other_libraries(load_method):
    flat = load_method(identity("f32", "3"))
    (y,) = flat.execute([array.array("f", [1, 2, 3])])
    assert y.tolist() == [1, 2, 3]

    class OnlyDlpack:
        def __init__(self, value):
            self._value = value

        def __dlpack__(self, **options):
            return self._value.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._value.__dlpack_device__()

    class OldDlpack(OnlyDlpack):
        def __dlpack__(self, stream=None):
            return self._value.__dlpack__()

    for wrapper in (OnlyDlpack, OldDlpack):
        (y,) = flat.execute([wrapper(np.array([4, 5, 6], np.float32))])
        assert y.tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros((2, 4), np.float32), et.InvalidArgumentError, r"input 0 \('x'\): size 4 of dimension 1 .* takes 3"),
        (np.zeros((3,), np.float32), et.InvalidArgumentError, r"input 0 \('x'\): rank 1 .* takes rank 2"),
        (
            np.zeros((2, 3), np.float64),
            et.InvalidTypeError,
            r"input 0 \('x'\): dtype torch.float64 .* takes torch.float32",
        ),
        (None, et.InvalidTypeError, r"input 0 \('x'\) of method 'forward' is None, .* a tensor torch.float32 \(2, 3\)"),
        ([[1, 2, 3]], et.InvalidTypeError, r"input 0 \('x'\) .* is a list"),
        (np.array([["a"]]), et.NotSupportedError, r"input 0 \('x'\) .* format '1w'"),
        (np.zeros((2, 3), ">f4"), et.NotSupportedError, r"input 0 \('x'\) .* format '>f'"),
        (np.zeros((1,) * 20, np.float32), et.NotSupportedError, "20 dimensions, at most 16"),
    ],
    ids=["size", "rank", "dtype", "none", "list", "strings", "big_endian", "deep"],
)
def test_wrong_tensor_is_refused_and_the_method_stays_usable(load_method, value, error, message):
    method = load_method(ADD)
    x = X.astype(np.float32)
    with pytest.raises(error, match=message):
        method.execute([value, x])
    assert np.array_equal(method.execute([x, x])[0], x + x)


def test_torch_tensors_without_memory(load_method):
    torch = pytest.importorskip("torch")
    method = load_method(identity("f32"))
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(2, 3)
    for x in (torch.ones(2, 3, device="meta"), torch.ones(2, 3).to_sparse(), fake):
        with pytest.raises(et.NotSupportedError, match=r"input 0 \('x'\)"):
            method.execute([x])


@pytest.mark.parametrize("inputs", [np.zeros((2, 3), np.float32), {"x": 1}, 5, "ab"])
def test_inputs_are_a_list_or_tuple(load_method, inputs):
    with pytest.raises(et.InvalidTypeError, match="inputs must be a list or tuple"):
        load_method(ADD).execute(inputs)


def test_wrong_number_of_inputs(load_method):
    with pytest.raises(et.InvalidArgumentError, match="takes 2 inputs, 1 were given"):
        load_method(ADD).execute([X.astype(np.float32)])


# Outputs


@pytest.mark.parametrize("planned", [True, False])
def test_outputs_own_their_memory(load_method, planned):
    method = load_method(ADD, plan_outputs=planned)
    x = np.ones((2, 3), np.float32)
    first = method.execute([x, x])
    second = method.execute([x * 2, x])
    del method
    assert first[0].tolist() == [[2.0] * 3] * 2 and second[0].tolist() == [[3.0] * 3] * 2
    assert not np.shares_memory(first[0], second[0])


def test_the_same_value_twice_gives_two_outputs(load_method):
    text = "method @forward(%x: f32[2]) stage(lowered) {\n  %y = aten::neg.out(%x) : f32[2]\n  return %y, %y, %x\n}"
    x = np.array([1, 2], np.float32)
    a, b, c = load_method(text).execute([x])
    a[:] = 0
    assert b.tolist() == [-1, -2] and c.tolist() == [1, 2] and not np.shares_memory(c, x)


@pytest.mark.parametrize("planned", [True, False])
def test_out_gets_the_result(load_method, planned):
    method = load_method(ADD, plan_outputs=planned)
    x, y = X.astype(np.float32), np.full((2, 3), 2, np.float32)
    given = np.empty((2, 3), np.float32)
    result = method.execute([x, y], out=[given, None])
    assert result[0] is given and np.array_equal(given, x + y) and np.array_equal(result[1], x * y)
    method.execute([y, y])
    assert np.array_equal(given, x + y), "a later call without it leaves it alone"
    turned = np.empty((3, 2), np.float32).T
    method.execute([x, y], out=(turned, None))
    assert np.array_equal(turned, x + y)


def test_out_over_an_input(load_method):
    x, y = X.astype(np.float32), np.full((2, 3), 2, np.float32)
    wanted = x * y
    both = x.copy()
    load_method(ADD).execute([both, y], out=[both, None])
    assert np.array_equal(both, x + y)
    both = x.copy()
    load_method(ADD).execute([both, y], out=[None, both])
    assert np.array_equal(both, wanted)


def test_out_of_torch(load_method):
    torch = pytest.importorskip("torch")
    x, given = torch.ones(2, 3), torch.empty(2, 3)
    pointer = given.data_ptr()
    result = load_method(ADD).execute([x, x], out=[given, None])
    assert result[0] is given and given.data_ptr() == pointer and torch.equal(given, x + x)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([None], et.InvalidArgumentError, "out has 1 items, method 'forward' has 2 outputs"),
        (
            [np.empty((2, 2), np.float32), None],
            et.InvalidArgumentError,
            r"out\[0\] is torch.float32 \(2, 2\), .* torch.float32 \(2, 3\)",
        ),
        ([None, np.empty((2, 3), np.float16)], et.InvalidArgumentError, r"out\[1\] is torch.float16 \(2, 3\)"),
        ([None, 5], et.InvalidTypeError, r"out\[1\] is an int"),
        ([memoryview(bytes(24)).cast("f", (2, 3)), None], et.InvalidArgumentError, r"out\[0\] is read-only"),
        (np.empty((2, 3), np.float32), et.InvalidTypeError, "out must be a list or tuple"),
    ],
)
def test_wrong_out(load_method, out, error, message):
    method = load_method(ADD)
    x = X.astype(np.float32)
    with pytest.raises(error, match=message):
        method.execute([x, x], out=out)
    assert np.array_equal(method.execute([x, x])[0], x + x)


def test_dynamic_sizes(load_method):
    method = load_method(DYNAMIC)
    for rows in (2, 7, 1000):
        x = np.ones((rows, 3), np.float32)
        (y,) = method.execute([x])
        assert y.shape == (rows, 3) and y.base is not None and (y == 2).all()
        given = np.empty_like(x)
        assert method.execute([x], out=[given])[0] is given and (given == 2).all()
    with pytest.raises(
        et.InvalidArgumentError, match=r"out\[0\] is torch.float32 \(3, 3\), the result is |torch.float32 \(3, 3\)"
    ):
        method.execute([np.ones((2, 3), np.float32)], out=[np.empty((3, 3), np.float32)])
    for rows in (1, 1001):
        with pytest.raises(et.InvalidArgumentError, match=rf"size {rows} of dimension 0"):
            method.execute([np.ones((rows, 3), np.float32)])


# Values that are no tensors

NUMBERS = """
method @forward(%k: int(s0:{0..9}), %x: f32[2]) stage(lowered) {
  %y = aten::neg.out(%x) : f32[2]
  return %k, %y, none, 2.5, true
}"""


def test_numbers(load_method):
    method = load_method(NUMBERS)
    x = np.ones(2, np.float32)
    for k in (3, np.int64(3), np.array(3), True):
        result = method.execute([k, x])
        assert [result[0], *result[2:]] == [int(k), None, 2.5, True]
    for k in (1.5, "a", None, 2**70):
        with pytest.raises(et.InvalidTypeError, match=r"input 0 \('k'\)"):
            method.execute([k, x])
    with pytest.raises(et.InvalidArgumentError, match="k"):
        method.execute([10, x])


def test_values_that_became_part_of_the_program(load_method):
    text = """
method @forward(%k: int, %f: double, %b: bool, %x: f32[2]) stage(lowered) {
  %y = aten::neg.out(%x) : f32[2]
  return %y
}"""
    method = load_method(text)
    x = np.ones(2, np.float32)
    fixed = [method._core.input_value(i) for i in range(4)]
    assert [type(value) for value in fixed[:3]] == [int, float, bool] and fixed[3] is None
    assert method.execute([*fixed[:3], x])[0].tolist() == [-1, -1]
    with pytest.raises(
        et.InvalidArgumentError, match=r"input 0 \('k'\) .* is 41, it was 0 when the model was exported"
    ):
        method.execute([41, *fixed[1:3], x])


def test_kind_of_outputs_without_tensor_inputs():
    text = "method @forward() stage(lowered) {\\n  %y = aten::full.out([2], 1.5) : f32[2]\\n  return %y\\n}"
    code = f"""
import sys
from executorch_py import _core
import executorch_py as et
from tests.python.runtime.programs import ADD, DYNAMIC, identity
module = et.load(_core.finish(_core.parse_program("{text}"), {{}}).to_bytes())
print(type(module()).__name__)
if len(sys.argv) > 1:
    import torch
    print(type(module()).__name__)
"""

    def run(*arguments):
        return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)

    assert run().stdout.split() == ["ndarray"]
    pytest.importorskip("torch")
    assert run("torch").stdout.split() == ["ndarray", "Tensor"]
