"""One kernel that takes long is left soon after the caller asked (docs/reference/faults.md), whatever it does."""

import re
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch.nn import functional as F

import executorch_py as et
from executorch_py import runtime
from tests.python.runtime.programs import compile_text

#: Seconds of the processor, which a busy machine does not stretch as it does those of the clock.
SOON = 0.1

# name: what one instruction computes, its type, the types of its inputs, the same in torch. N and M are sizes with a
# bound: the large call is at the bound, the small one far below.
KERNELS: dict[str, tuple[str, str, list[str], Callable[..., object], dict[str, int]]] = {
    "pow": ("aten::pow.Tensor_Tensor_out(%a, %b)", "f64[N, M]", ["f64[N, 1]", "f64[1, M]"], torch.pow,
            {"N": 5000, "M": 8000}),
    "digamma": ("aten::digamma.out(%a)", "f32[N]", ["f32[N]"], torch.digamma, {"N": 60_000_000}),
    "remainder": ("aten::remainder.Tensor_out(%a, %b)", "i64[3, N]", ["i64[3, 1]", "i64[1, N]"], torch.remainder,
                  {"N": 20_000_000}),
    "cumprod": ("aten::cumprod.out(%a, 0, none)", "f64[N]", ["f64[N]"], lambda a: a.cumprod(0), {"N": 100_000_000}),
    "logcumsumexp": ("aten::logcumsumexp.out(%a, 0)", "f32[N]", ["f32[N]"], lambda a: a.logcumsumexp(0),
                     {"N": 30_000_000}),
    "cummax": ("aten::cummax.out(%a, 0)", "f32[N], i64[N]", ["f32[N]"], lambda a: a.cummax(0), {"N": 60_000_000}),
    "sort": ("aten::sort.values(%a, 0, false)", "f32[N], i64[N]", ["f32[N]"], lambda a: a.sort(0), {"N": 30_000_000}),
    "kthvalue": ("aten::kthvalue.values(%a, 5, 0, false)", "f64[], i64[]", ["f64[N]"], lambda a: a.kthvalue(5, 0),
                 {"N": 40_000_000}),
    "median": ("aten::median.out(%a)", "f32[]", ["f32[N]"], torch.median, {"N": 60_000_000}),
    "distances": ("aten::_cdist_forward.out(%a, %a, 3.0, none)", "f32[N, N]", ["f32[N, 100]"],
                  lambda a: torch.cdist(a, a, 3.0), {"N": 6000}),
    "transposed": ("aten::convolution.out(%a, %b, none, [2, 2], [1, 1], [1, 1], true, [0, 0], 1)",
                   "f32[N, 32, 128, 128]", ["f32[N, 32, 64, 64]", "f32[32, 32, 4, 4]"],
                   lambda a, b: torch.conv_transpose2d(a, b, stride=2, padding=1), {"N": 100}),
    "dropout": ("aten::native_dropout.out(%a, 1.0, true)", "f32[N], bool[N]", ["f32[N]"],
                lambda a: (0 * a, torch.zeros(len(a), dtype=torch.bool)), {"N": 20_000_000}),
    "long line": ("aten::convolution.out(%a, %b, none, [1], [1], [1], false, [0], 1)", "f32[1, 4, N]",
                  ["f32[1, 4, N]", "f32[4, 4, 3]"], lambda a, b: torch.conv1d(a, b, padding=1), {"N": 15_000_000}),
    "grouped": ("aten::convolution.out(%a, %b, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 8)", "f64[1, 8, 1000, N]",
                ["f64[1, 8, 1000, N]", "f64[8, 1, 3, 3]"], lambda a, b: torch.conv2d(a, b, padding=1, groups=8),
                {"N": 7000}),
    "bicubic": ("et::upsample_bicubic2d.vec_out(%a, [1000, 1000], false, none)", "f32[N, 1, 1000, 1000]",
                ["f32[N, 1, 200, 200]"], lambda a: F.interpolate(a, (1000, 1000), mode="bicubic"), {"N": 80}),
    "long copies": ("aten::flip.out(%a, [0])", "f32[3, N]", ["f32[3, N]"], lambda a: a.flip(0), {"N": 30_000_000}),
    "adaptive": ("aten::adaptive_max_pool2d.out(%a, [2000, 2500])", "f32[1, 1, 2000, 2500], i64[1, 1, 2000, 2500]",
                 ["f32[1, 1, N, M]"], lambda a: F.adaptive_max_pool2d(a, (2000, 2500), return_indices=True),
                 {"N": 8000, "M": 10000}),
    "few rows": ("aten::mm.out(%a, %b)", "f32[2, N]", ["f32[2, N]", "f32[N, N]"], torch.mm, {"N": 8000}),
    "complex": ("%c = aten::view_as_complex_copy.out(%a) : c64[N, 1]; "
                "%d = aten::view_as_complex_copy.out(%b) : c64[M]; "
                "%p = aten::mul.out(%c, %d) : c64[N, M]; %e = aten::log.out(%p) : c64[N, M]; "
                "aten::view_as_real_copy.out(%e)", "f32[N, M, 2]", ["f32[N, 1, 2]", "f32[M, 2]"],
                lambda a, b: torch.view_as_real((torch.view_as_complex(a) * torch.view_as_complex(b)).log()),
                {"N": 3000, "M": 4000}),
}  # fmt: skip


def types_of(texts: list[str], bounds: dict[str, int]) -> list[str]:
    """With sizes from 2 to their bound in place of N and M."""
    for i, (letter, bound) in enumerate(bounds.items()):
        texts = [text.replace(letter, f"s{i}:{{2..{bound}}}") for text in texts]
    return texts


def program_of(name: str) -> bytes:
    instruction, result, inputs, _, bounds = KERNELS[name]
    result, *inputs = types_of([result, *inputs], bounds)
    names = [f"%{letter}: {kind}" for letter, kind in zip("ab", inputs)]
    results = ["%y", "%z"][: 1 + result.count("], ")]
    *before, instruction = instruction.split("; ")
    return compile_text(
        "buffer @calls : i64[1] = [0]\n"
        f"method @forward({', '.join(names)}) stage(lowered) {{\n"
        "  %n = buffer @calls : i64[1]\n"
        "  %one = aten::add.Scalar_out(%n, 1, 1) : i64[1]\n"
        "  %kept = aten::copy_(%n, %one, false) : i64[1] alias(%n)\n"
        + "".join(f"  {line}\n" for line in types_of(before, bounds))
        + f"  {', '.join(results)} = {instruction} : {result}\n"
        f"  return {', '.join(results)}, %kept\n}}"
    )


def numbers(kind: str, sizes: dict[str, int]) -> np.ndarray:
    """Numbers in [1, 3), the same few over and over: drawing millions takes longer than the kernel."""
    dtype, shape = kind.removesuffix("]").split("[")
    shape = [sizes[size] if size in sizes else int(size) for size in shape.split(", ")]
    some = np.random.default_rng(0).uniform(1, 3, 4099).astype({"f": "float", "i": "int"}[dtype[0]] + dtype[1:])
    return np.resize(some, shape)


@pytest.fixture(autouse=True)
def one_thread():
    before = runtime.Runtime.get().num_threads
    et.set_num_threads(1)
    yield
    et.set_num_threads(before)


def seconds_to_end(method: runtime.Method, inputs: list[np.ndarray], words: str) -> float:
    """A call that is cancelled when it has run for 0.03 s: seconds of the processor until it ends."""
    began, asked = time.process_time(), []

    def cancel() -> None:
        while time.process_time() - began < 0.03:  # the call is in its kernel
            time.sleep(0.001)
        asked.append(time.process_time())
        method.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(et.errors.CancelledError, match=words):
        method.execute(inputs)
    ended = time.process_time()
    thread.join()
    return ended - asked[0]


@pytest.mark.parametrize("name", KERNELS)
def test_a_long_kernel_ends_soon_and_the_next_call_is_right(name):
    _, _, inputs, function, bounds = KERNELS[name]
    method = runtime.Runtime.get().load_program(program_of(name)).load_method("forward")
    large = [numbers(kind, bounds) for kind in inputs]
    small = [numbers(kind, {letter: 9 + i for i, letter in enumerate(bounds)}) for kind in inputs]
    method.execute(small)
    kernels = "|".join(re.findall(r"\w+::[\w.]+", KERNELS[name][0]))
    assert seconds_to_end(method, large, kernels) < SOON, "seconds of the processor until the kernel ended"
    *outputs, calls = method.execute(small)
    expected = function(*(torch.from_numpy(x) for x in small))
    for output, wanted in zip(outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-5)
    assert calls[0] == 3, "what the call wrote to the state before its kernel stays"


# With constant filters: XNNPACK clears half a gigabyte between its operators; planes are filtered where they lie.
LAYERS = {
    "delegate": (lambda: torch.nn.Conv2d(64, 64, 3, padding=1), (1, 64, 1000, 1000), True, "delegate|xnn_"),
    "planes": (lambda: torch.nn.Conv2d(2, 2, 3, padding=1, groups=2), (1, 2, 8000, 8000), False, "et::convolution"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_first_call_of_a_layer_ends_soon(name):
    layer, shape, delegated, words = LAYERS[name]
    torch.manual_seed(0)
    net = torch.nn.Sequential(layer(), torch.nn.ReLU()).eval()
    x = torch.randn(shape)
    partitioner = [XnnpackPartitioner(always=True)] if delegated else []
    edge = et.to_edge_transform_and_lower(torch.export.export(net, (x,)), partitioner=partitioner)
    method = runtime.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
    for _ in range(2):  # what was begun is made anew
        assert seconds_to_end(method, [x.numpy()], words) < SOON
    (output,) = method.execute([x.numpy()])
    corner = net(x[..., :33, :33]).detach()[..., :32, :32]
    torch.testing.assert_close(torch.from_numpy(output)[..., :32, :32], corner, rtol=1e-4, atol=1e-4)


N = 1_300_003
# As KERNELS, of one type T: what is done in pieces, which no result may show.
PIECES = {
    "topk": ("aten::topk.values(%a, 400000, 0, true, true)", "T[400000], i64[400000]", ["T[N]"],
             lambda a: a.topk(400_000)),
    "topk of few": ("aten::topk.values(%a, 9, 0, false, true)", "T[9], i64[9]", ["T[N]"],
                    lambda a: a.topk(9, largest=False)),
    "kthvalue": ("aten::kthvalue.values(%a, 900000, 0, false)", "T[], i64[]", ["T[N]"], lambda a: a.kthvalue(900_000)),
    "median": ("aten::median.out(%a)", "T[]", ["T[N]"], torch.median),
    "sort": ("aten::sort.values(%a, 1, true)", "T[2, N], i64[2, N]", ["T[2, N]"], lambda a: a.sort(1, descending=True)),
    "cumsum": ("aten::cumsum.out(%a, 1, none)", "T[5, N]", ["T[5, N]"], lambda a: a.cumsum(1)),
    "cumsum of columns": ("aten::cumsum.out(%a, 0, none)", "T[N, 3]", ["T[N, 3]"], lambda a: a.cumsum(0)),
    "amax": ("aten::amax.out(%a, [0], false)", "T[3]", ["T[N, 3]"], lambda a: a.amax(0)),
    "remainder": ("aten::remainder.Tensor_out(%a, %b)", "T[3, N]", ["T[3, 1]", "T[1, N]"], torch.remainder),
    "flip": ("aten::flip.out(%a, [1])", "T[2, N]", ["T[2, N]"], lambda a: a.flip(1)),
    "flipped rows": ("aten::flip.out(%a, [0])", "T[2, N]", ["T[2, N]"], lambda a: a.flip(0)),
    "long line": ("aten::convolution.out(%a, %b, none, [1], [1], [1], false, [0], 1)", "T[1, 2, N]",
                  ["T[1, 2, N]", "T[2, 2, 3]"], lambda a, b: torch.conv1d(a, b, padding=1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64"])
@pytest.mark.parametrize("name", PIECES)
def test_work_in_pieces_is_the_same_work(name, dtype):
    instruction, result, inputs, function = PIECES[name]
    result, *inputs = [text.replace("T", dtype) for text in (result, *inputs)]
    drawn = np.random.default_rng(1)
    given = []
    for kind in inputs:
        shape = [N if size == "N" else int(size) for size in kind[len(dtype) + 1 : -1].split(", ")]
        values = drawn.integers(1, 1 << 20, shape) / (1 if dtype == "i64" else 1 << 14)
        given.append(values.astype({"f": "float", "i": "int"}[dtype[0]] + dtype[1:]))
    names = ", ".join(f"%{letter}: {kind}" for letter, kind in zip("ab", inputs)).replace("N", str(N))
    results = ", ".join(["%y", "%z"][: 1 + result.count("], ")])
    text = f"  {results} = {instruction} : {result.replace('N', str(N))}\n  return {results}\n}}"
    program = compile_text(f"method @forward({names}) stage(lowered) {{\n{text}")
    expected = function(*(torch.from_numpy(x) for x in given))
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for threads in (1, 2):
        et.set_num_threads(threads)
        method = runtime.Runtime.get().load_program(program).load_method("forward")
        outputs = method.execute(given)
        np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-6)
        if len(outputs) == 2:  # of equal values any position is right
            lanes = torch.from_numpy(given[0])
            chosen = lanes.gather(-1, torch.from_numpy(np.atleast_1d(outputs[1])))
            assert torch.equal(chosen, torch.from_numpy(np.atleast_1d(outputs[0])))
