"""Kernels that the sweep of the operator database does not reach: fused operators, operators that PyTorch decomposes
before its dispatcher sees them, random operators, dim orders, errors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
from .kernel_runner import KernelError, Unbound, run_kernel  # noqa: E402
from .near_eager import FLOATS, close  # noqa: E402
from .sweep import check, record  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(0)  # of the parameters below: sums of gradients may nearly cancel


def test_alpha_of_bool_tensors_is_a_bool() -> None:
    x, y = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    for alpha in (-1, 0, 1, 2):
        out = torch.empty_like(x)
        run_kernel("aten::add.out", [x, y, alpha, out])
        assert torch.equal(out, torch.add(x, y, alpha=alpha)), alpha


@pytest.mark.parametrize("shape", [(1,), (37,), (1, 16), (3, 50), (2, 3, 7), (2, 0), (0, 4)])
def test_lstm_gates(shape: tuple) -> None:
    torch.manual_seed(0)
    cell = torch.randn(shape) * 2
    gates = torch.randn(*shape[:-1], 4 * shape[-1]) * 4
    if cell.numel() > 10:
        gates.view(-1)[3], gates.view(-1)[5], cell.view(-1)[7] = float("nan"), float("inf"), -float("inf")
    i, f, g, o = gates.chunk(4, -1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    for in_place in (False, True):
        state, given = torch.empty_like(cell), cell.clone()
        result = given if in_place else torch.empty_like(cell)
        run_kernel("et::lstm_gates.out", [gates, given, state, result])
        close(result, after)
        close(state, o.sigmoid() * after.tanh())


def test_lstm_gates_refuses_other_shapes() -> None:
    cell = torch.zeros(2, 8)
    for gates in (torch.zeros(2, 31), torch.zeros(3, 32), torch.zeros(64), torch.zeros(2, 32, dtype=torch.float64)):
        with pytest.raises(KernelError):
            run_kernel("et::lstm_gates.out", [gates, cell, cell.clone(), cell.clone()])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(1,), (37,), (1, 600), (3, 50), (2, 3, 7), (2, 0), (0, 4)])
def test_rms_norm(shape: tuple, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(shape) * 2).to(dtype), torch.randn(shape[-1])
    if x.numel() > 100:
        x[0, 3], x[-1, 2] = float("nan"), float("inf")
    for given in (None, weight.to(dtype), weight):
        for in_place in (False, True):
            before = x.clone()
            out = before if in_place else torch.empty_like(x)
            run_kernel("et::rms_norm.out", [before, given, 1e-6, out])
            exact = F.rms_norm(x.double(), shape[-1:], None if given is None else given.double(), 1e-6)
            close(out, exact.to(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_swish(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.5, -2.0, 80.0, -80.0, torch.inf, torch.nan] * 9).to(dtype)
    for beta in (1.702, 1, -0.5):
        for in_place in (False, True):
            before = x.clone()
            out = before if in_place else torch.empty_like(x)
            run_kernel("et::swish.out", [before, beta, out])
            close(out, (x.double() * torch.sigmoid(x.double() * beta)).to(dtype))


def test_rms_norm_refuses_other_shapes() -> None:
    x = torch.zeros(2, 8)
    for given, weight, out in (
        (x, torch.zeros(7), torch.zeros(2, 8)),
        (x, None, torch.zeros(2, 8).half()),
        (x.long(), None, x.long()),
        (torch.zeros(()), None, torch.zeros(())),
    ):
        with pytest.raises(KernelError):
            run_kernel("et::rms_norm.out", [given, weight, 1e-6, out])


@pytest.mark.parametrize("shape", [(1,), (37,), (1, 16), (3, 50), (1, 2, 7), (2, 3, 7), (2, 0), (0, 4)])
def test_gru_gates(shape: tuple) -> None:
    torch.manual_seed(0)
    state = torch.randn(shape) * 2
    ours, given = (torch.randn(*shape[:-1], 3 * shape[-1]) * 4 for _ in range(2))
    if state.numel() > 10:
        ours.view(-1)[3], given.view(-1)[5], state.view(-1)[7] = float("nan"), float("inf"), -float("inf")
    (ir, iz, i_n), (hr, hz, hn) = given.chunk(3, -1), ours.chunk(3, -1)
    new = (i_n + (ir + hr).sigmoid() * hn).tanh()
    after = (state - new) * (iz + hz).sigmoid() + new
    for in_place in (False, True):
        before = state.clone()
        result = before if in_place else torch.empty_like(state)
        run_kernel("et::gru_gates.out", [given, ours, before, result])
        close(result, after)
    if len(shape) == 3 and shape[0] == 1:  # as torch takes a layer apart
        for first, second in ((given[0], ours), (given, ours[0])):
            run_kernel("et::gru_gates.out", [first, second, state, result])
            close(result, after)


def test_gru_gates_refuses_other_shapes() -> None:
    state, fine = torch.zeros(2, 8), torch.zeros(2, 24)
    wrong = (torch.zeros(2, 23), torch.zeros(1, 24), torch.zeros(24), torch.zeros(1, 2, 24), torch.zeros(48))
    for gates in (*wrong, *(fine.to(dtype) for dtype in FLOATS if dtype != torch.float32)):
        for pair in ((gates, fine), (fine, gates)):
            with pytest.raises(KernelError):
                run_kernel("et::gru_gates.out", [*pair, state, torch.empty_like(state)])
    with pytest.raises(KernelError):  # a scalar has no gates
        run_kernel("et::gru_gates.out", [fine, fine, torch.zeros(()), torch.zeros(())])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(dtype: torch.dtype, lead: tuple, bias: bool) -> None:
    x, w = torch.randn(*lead, 19, dtype=dtype), torch.randn(7, 19, dtype=dtype)
    b = torch.randn(7, dtype=dtype) if bias else None
    expected = F.linear(x, w, b)
    out = torch.empty_like(expected)
    run_kernel("aten::linear.out", [x, w, b, out])
    close(out, expected)
    run_kernel("et::linear_clamp.out", [x, w, b, 0, 1.5, out])
    close(out, expected.clamp(0, 1.5))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "case", ["plain", "causal", "bool mask", "float mask", "scale", "grouped", "fully masked", "cross"]
)
def test_scaled_dot_product_attention(dtype: torch.dtype, case: str) -> None:
    torch.manual_seed(0)
    heads = 2 if case == "grouped" else 4
    keys = 9 if case in ("cross", "bool mask", "float mask") else 6
    q = torch.randn(2, 4, 6, 8, dtype=dtype)
    k, v = torch.randn(2, heads, keys, 8, dtype=dtype), torch.randn(2, heads, keys, 8, dtype=dtype)
    mask, causal, scale, grouped = None, case == "causal", 0.3 if case == "scale" else None, case == "grouped"
    if case == "bool mask":
        mask = torch.rand(6, keys) > 0.4
        mask[:, 0] = True
    elif case == "float mask":
        mask = torch.randn(2, 1, 6, keys, dtype=dtype)
    elif case == "fully masked":
        mask = torch.zeros(6, keys, dtype=torch.bool)
        mask[2:] = True
    expected = F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=grouped)
    out = torch.empty(expected.shape, dtype=dtype)
    run_kernel("et::scaled_dot_product_attention.out", [q, k, v, mask, 0.0, causal, scale, grouped, out])
    close(out, expected)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("expands", [False, True])
def test_separable_convolution(expands: bool, order: torch.memory_format) -> None:
    x = torch.randn(2, 6 if expands else 10, 9, 11).to(memory_format=order)
    first, first_bias = torch.randn(10, 6, 1, 1), torch.randn(10)
    taps, bias, last = torch.randn(10, 1, 5, 3), torch.randn(10), torch.randn(7, 10, 1, 1)
    middle = F.conv2d(x, first, first_bias).clamp(0, 2) if expands else x
    middle = F.conv2d(middle, taps, bias, stride=(2, 1), padding=(1, 2), groups=10).clamp(min=-1)
    expected = F.conv2d(middle, last).clamp(max=3)
    out = torch.empty_like(expected).to(memory_format=order)
    expansion = [first, first_bias, 0, 2] if expands else [None, None, None, None]
    run_kernel(
        "et::separable_convolution.out",
        [x, *expansion, taps, bias, [2, 1], [1, 2], -1, None, last, None, None, 3, out],
    )
    close(out, expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fused_clamps(dtype: torch.dtype) -> None:
    x, w, b = torch.randn(1, 4, 8, 8, dtype=dtype), torch.randn(6, 4, 3, 3, dtype=dtype), torch.randn(6, dtype=dtype)
    expected = F.conv2d(x, w, b, padding=1)
    out = torch.empty_like(expected)
    conv = [x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    run_kernel("et::convolution_clamp.out", [*conv, 0, 6, out])
    close(out, expected.clamp(0, 6))
    run_kernel("et::convolution_clamp.out", [*conv, 0, None, out])
    close(out, expected.relu())
    run_kernel("et::convolution_clamp.out", [*conv, None, None, out])
    close(out, expected)
    s, m1, m2 = torch.randn(5, dtype=dtype), torch.randn(3, 4, dtype=dtype), torch.randn(4, 5, dtype=dtype)
    out = torch.empty(3, 5, dtype=dtype)
    run_kernel("et::addmm_clamp.out", [s, m1, m2, 1, 1, None, 0.5, out])
    close(out, torch.addmm(s, m1, m2).clamp(max=0.5))
    out = torch.empty(1, 4, 4, 4, dtype=dtype)
    run_kernel("et::max_pool2d.out", [x, [2, 2], [], [0, 0], [1, 1], False, out], "TllllbT")
    close(out, F.max_pool2d(x, 2))
    out = torch.empty(4, 4, 4, dtype=dtype)
    run_kernel("et::max_pool3d.out", [x[0][None], [1, 2, 2], [], [0, 0, 0], [1, 1, 1], False, out[None]], "TllllbT")
    close(out, F.max_pool2d(x[0], 2))


def _layers() -> list:
    x4, x3 = torch.randn(2, 4, 9, 8), torch.randn(2, 6, 10)
    w, b = torch.randn(4), torch.randn(4)
    ids = torch.tensor([[1, 3, 1], [0, 2, 5]])

    def conv(*args, dims: int = 2, transposed: bool = False, groups: int = 1):
        shape = (2, 4, 9, 8, 7)[: dims + 2]
        weight = torch.randn(4, 6 // groups if transposed else 4 // groups, *[3] * dims)
        op = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
        bias = torch.randn(6 if transposed else 4)
        return lambda x, wt, b_: op(x, wt, b_, *args, groups=groups), [torch.randn(shape), weight, bias]

    return [
        ("layer_norm", lambda x, w_, b_: F.layer_norm(x, (8,), w_, b_), [x4, torch.randn(8), torch.randn(8)]),
        ("layer_norm plain", lambda x: F.layer_norm(x, (9, 8)), [x4]),
        ("group_norm", lambda x, w_, b_: F.group_norm(x, 2, w_, b_), [x4, w, b]),
        ("embedding", lambda t: F.embedding(ids, t, padding_idx=2), [torch.randn(6, 5)]),
        ("embedding by frequency", lambda t: F.embedding(ids, t, scale_grad_by_freq=True), [torch.randn(6, 5)]),
        ("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), [x4]),
        ("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), [x4]),
        ("avg_pool2d divisor", lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), [x4]),
        ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), [x4]),
        ("conv1d", *conv(2, 1, dims=1)),
        ("conv2d", *conv(2, 1, 2)),
        ("conv2d groups", *conv(1, 0, groups=2)),
        ("conv3d", *conv((1, 2, 1), 1, dims=3)),
        ("conv_transpose2d", *conv(2, 1, 1, transposed=True)),
        ("conv_transpose1d groups", *conv(2, 0, dims=1, transposed=True, groups=2)),
        ("linear chain", lambda x: (x.sigmoid() * x.tanh()).softmax(-1), [x3]),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "tensors"), _layers(), ids=[layer[0] for layer in _layers()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients(name: str, function, tensors: list, dtype: torch.dtype) -> None:
    leaves = [t.to(dtype).requires_grad_() for t in tensors]

    def step() -> None:
        y = function(*leaves)
        (y * torch.linspace(-1, 2, y.numel(), dtype=dtype).reshape(y.shape)).sum().backward()

    calls = record(step, grad=True)
    assert any("backward" in c.op.schema.name for c in calls) or name == "linear chain"
    for call in calls:
        check(call)


def channels_last(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous(memory_format=torch.channels_last)


def test_dim_orders_are_respected() -> None:
    x = torch.randn(2, 3, 5, 7)
    out = channels_last(torch.empty(2, 3, 5, 7))
    for name, expected, arguments in [
        ("aten::add.out", x + 2 * x, [channels_last(x), x, 2]),
        ("aten::relu.out", x.relu(), [channels_last(x)]),
        ("aten::clone.out", x, [x, None]),
        ("aten::_softmax.out", x.softmax(1), [channels_last(x), 1, False]),
        ("aten::flip.out", x.flip(2), [channels_last(x), [2]]),
        ("aten::cumsum.out", x.cumsum(3), [channels_last(x), 3, None]),
    ]:
        out.fill_(77)
        run_kernel(name, [*arguments, out])
        torch.testing.assert_close(out, expected, msg=name)
    row_major = torch.empty(2, 105)
    run_kernel("aten::view_copy.out", [channels_last(x), [2, 105], row_major])
    assert torch.equal(row_major, x.reshape(2, 105))
    w = torch.randn(4, 3, 3, 3)
    expected = F.conv2d(x, w)
    out = channels_last(torch.empty_like(expected))
    run_kernel("aten::convolution.out",
               [channels_last(x), channels_last(w), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, out])  # fmt: skip
    torch.testing.assert_close(out, expected)
    pooled = channels_last(torch.empty(2, 3, 2, 3))
    run_kernel("aten::avg_pool2d.out", [channels_last(x), [2, 2], [], [0, 0], False, True, None, pooled], "TlllbbIT")
    torch.testing.assert_close(pooled, F.avg_pool2d(x, 2))


def test_outputs_may_share_memory_with_inputs() -> None:
    x, y = torch.randn(300), torch.randn(300)
    expected = x * 3 + y
    run_kernel("aten::mul.Scalar_out", [x, 3, x])
    run_kernel("aten::add.out", [x, y, 1, x])
    torch.testing.assert_close(x, expected)
    cache, expected = torch.zeros(2, 8, 4), torch.zeros(2, 8, 4)
    new = torch.randn(2, 1, 4)
    expected[:, 3:4] = new
    run_kernel("aten::index_put.out", [cache, [None, torch.tensor([3])], new, False, cache], "TwTbT")
    assert torch.equal(cache, expected)
    run_kernel("aten::slice_scatter.out", [cache, new, 1, 5, 6, 1, cache])
    assert torch.equal(cache[:, 5:6], new)


def test_random_operators() -> None:
    a, b, c = torch.empty(20000), torch.empty(20000), torch.empty(20000)
    run_kernel("aten::rand.out", [[20000], a], seed=1)
    run_kernel("aten::rand.out", [[20000], b], seed=1)
    run_kernel("aten::rand.out", [[20000], c], seed=2)
    assert torch.equal(a, b) and not torch.equal(a, c)
    assert a.min() >= 0 and a.max() < 1 and abs(a.mean() - 0.5) < 0.01
    run_kernel("aten::randn.out", [[20000], a], seed=3)
    assert abs(a.mean()) < 0.03 and abs(a.std() - 1) < 0.03
    p = torch.empty(100, dtype=torch.int64)
    run_kernel("aten::randperm.out", [100, p])
    assert torch.equal(p.sort().values, torch.arange(100))
    x, mask = torch.ones(10000), torch.empty(10000, dtype=torch.bool)
    run_kernel("aten::native_dropout.out", [x, 0.25, True, a[:10000], mask])
    assert abs(mask.float().mean() - 0.75) < 0.02
    assert torch.equal(a[:10000] != 0, mask)


def test_data_dependent_outputs() -> None:
    x = torch.tensor([[0, 3], [4, 0]])
    out = Unbound(torch.int64, 2)
    run_kernel("aten::nonzero.out", [x, out])
    assert torch.equal(out.value, x.nonzero())


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("aten::embedding.out", lambda: [torch.randn(10, 4), torch.tensor([1, 12]), -1, False, False,
                                         torch.empty(2, 4)],
         ["embedding", "index 12", "position 1", "[0, 10)"]),
        ("aten::index.Tensor_out", lambda: [torch.randn(3), [torch.tensor([0, -4])], torch.empty(2)],
         ["index -4", "[-3, 3)"]),
        ("aten::add.out", lambda: [torch.ones(2, 3), torch.ones(4), 1, torch.empty(2, 3)],
         ["(2, 3)", "(4,)", "broadcast"]),
        ("aten::div.out_mode", lambda: [torch.ones(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64), "floor",
                                        torch.empty(2, dtype=torch.int64)], ["division by zero"]),
        ("aten::mm.out", lambda: [torch.ones(2, 3), torch.ones(2, 3), torch.empty(2, 3)], ["do not multiply"]),
        ("aten::cat.out", lambda: [[torch.ones(2, 3), torch.ones(3, 3)], 1, torch.empty(2, 6)], ["(3, 3)", "dim 1"]),
        ("aten::add.out", lambda: [torch.ones(2), torch.ones(2), 1, torch.empty(2, dtype=torch.int32)],
         ["torch.float32", "torch.int32"]),
        ("aten::select_copy.int_out", lambda: [torch.ones(2, 3), 1, 3, torch.empty(2)], ["index 3", "size 3"]),
        ("aten::view_copy.out", lambda: [torch.ones(2, 3), [4, 2], torch.empty(4, 2)], ["(2, 3)", "(4, 2)"]),
        ("aten::gather.out", lambda: [torch.ones(3), 0, torch.tensor([0, 3]), False, torch.empty(2)],
         ["index 3", "[0, 3)"]),
        ("aten::convolution.out", lambda: [torch.ones(1, 3, 4, 4), torch.ones(2, 4, 3, 3), None, [1], [0], [1], False,
                                           [0], 1,
                                           torch.empty(1, 2, 2, 2)], ["3 channels", "4"]),
        ("aten::topk.values", lambda: [torch.ones(3), 4, 0, True, True, torch.empty(4),
                                       torch.empty(4, dtype=torch.int64)],
         ["k is 4", "3 elements"]),
    ],
)  # fmt: skip
def test_bad_arguments_get_a_clear_error_before_the_first_write(name: str, arguments, words: list[str]) -> None:
    values = arguments()
    outs = [v for v in values[-2:] if isinstance(v, torch.Tensor)][-1:]
    for out in outs:
        out.fill_(55)
    with pytest.raises(KernelError) as caught:
        run_kernel(name, values, "Tw" if "index.Tensor" in name else "")
    for word in words:
        assert word in str(caught.value)
    for out in outs:
        assert (out == 55).all()


@pytest.mark.parametrize("n", [1, 4, 12, 64, 97, 101, 202, 381, 1009, 4099])
def test_fourier_transforms_of_any_length(n: int) -> None:
    """Small primes and powers of two by mixed radix, from the prime 101 on by a chirp."""
    torch.manual_seed(0)
    x = torch.randn(2, n, 3, dtype=torch.complex128)
    for forward in (True, False):
        out = torch.empty_like(x)
        run_kernel("aten::_fft_c2c.out", [x, [1], 1, forward, out])
        torch.testing.assert_close(out, torch._fft_c2c(x, [1], 1, forward), rtol=1e-12, atol=1e-12)
    real = torch.randn(3, n)
    out = torch.empty(3, n // 2 + 1, dtype=torch.complex64)
    run_kernel("aten::_fft_r2c.out", [real, [1], 0, True, out])
    expected = torch.fft.rfft(real.double())
    assert (out - expected).abs().max() <= 1e-6 * expected.abs().max()


SMOOTH = {
    "special_i1e": (torch.special.i1e, -40, 40),
    "i0": (torch.i0, -20, 20),
    "special_bessel_j0": (torch.special.bessel_j0, -20, 20),
    "special_bessel_y1": (torch.special.bessel_y1, 0, 40),
    "special_modified_bessel_k0": (torch.special.modified_bessel_k0, 0, 20),
    "special_scaled_modified_bessel_k1": (torch.special.scaled_modified_bessel_k1, 0, 50),
    "special_ndtri": (torch.special.ndtri, 0, 1),
    "special_log_ndtr": (torch.special.log_ndtr, -30, 30),
    "special_erfcx": (torch.special.erfcx, -5, 30),
    "erfc": (torch.erfc, -9, 9),
    "erfinv": (torch.erfinv, -1, 1),
    "lgamma": (torch.lgamma, 0, 50),
    "digamma": (torch.digamma, -5, 50),
}


@pytest.mark.parametrize("shape", [(5, 300), (300, 5), (1, 1), (129,), (3, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int16, torch.bool])
def test_scans_of_long_lanes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (torch.rand(shape) + 0.5).to(dtype) if dtype.is_floating_point else torch.randint(0, 2, shape).to(dtype)
    for name in ("cumsum", "cumprod", "logcumsumexp")[: 3 if dtype.is_floating_point else 2]:
        for dim in range(x.dim()):
            expected = getattr(torch, name)(x, dim)
            out = torch.empty_like(expected)
            run_kernel(f"aten::{name}.out", [x, dim, out] if name == "logcumsumexp" else [x, dim, None, out])
            torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int16])
def test_many_writes_to_one_place(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, source = torch.randint(-9, 9, (7, 40)).to(dtype), torch.randint(-3, 4, (6, 300)).to(dtype)
    index = torch.randint(0, 40, (5, 300))
    out = torch.empty_like(x)
    run_kernel("aten::scatter_add.out", [x, 1, index, source, out])
    torch.testing.assert_close(out, x.scatter_add(1, index, source), rtol=0, atol=0)
    for reduce in ("sum", "amax", "amin", "mean"):
        for include_self in (True, False):
            run_kernel("aten::scatter_reduce.two_out", [x, 1, index, source, reduce, include_self, out])
            expected = x.scatter_reduce(1, index, source, reduce, include_self=include_self)
            torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_largest_of_long_windows(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 37, 301).to(dtype)
    x[0, 0, 3, 50], x[0, 0, 4, 7], x[0, 1] = torch.nan, torch.nan, -torch.inf
    x[0, 2, :, 40:60] = torch.inf
    x[1, 0] = 2.0  # the first of equals
    for size in ([1, 1], [2, 3], [1, 30], [37, 1]):
        values, places = F.adaptive_max_pool2d(x, size, return_indices=True)
        out, where = torch.empty_like(values), torch.empty_like(places)
        run_kernel("aten::adaptive_max_pool2d.out", [x, size, out, where])
        torch.testing.assert_close(out, values, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(where, places)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_resizes_by_rows(dtype: torch.dtype, align_corners: bool) -> None:
    torch.manual_seed(0)
    image, tolerance = torch.randn(2, 3, 9, 11).to(dtype), {"rtol": 1.6e-2, "atol": 1e-2}
    kind = {} if dtype is torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    for name, x, sizes in [
        ("linear1d", image[0], [[23], [4], [1], [11]]),
        ("bilinear2d", image, [[18, 33], [5, 30], [1, 1], [9, 40], [40, 3]]),
        ("bicubic2d", image, [[18, 33], [5, 30], [1, 2], [9, 11], [2, 3]]),
        ("trilinear3d", image[None], [[4, 20, 5], [1, 9, 30], [5, 4, 11]]),
    ]:
        operator = getattr(torch.ops.aten, f"upsample_{name}").vec
        space = "aten" if name == "bilinear2d" else "et"
        for size in sizes:
            expected = operator(x, size, align_corners, None)
            out = torch.empty_like(expected)
            run_kernel(f"{space}::upsample_{name}.vec_out", [x, size, align_corners, None, out])
            torch.testing.assert_close(out, expected, **(kind or tolerance))
            if x.dim() == 4:
                out = torch.empty_like(expected)
                run_kernel(f"{space}::upsample_{name}.vec_out", [channels_last(x), size, align_corners, None, out])
                torch.testing.assert_close(out, expected, **(kind or tolerance))


@pytest.mark.parametrize("n", [1, 5, 8, 9, 30, 64])
def test_lu_by_panels(n: int) -> None:
    torch.manual_seed(0)
    a = torch.randn(n, n + 3, dtype=torch.float64)
    a[:, 1:2] = a[:, :1]  # a column without a pivot
    for given in (a, a.mT.contiguous(), torch.randn(n, n, dtype=torch.float64)):
        lu, pivots = torch.empty_like(given), torch.empty(min(given.shape), dtype=torch.int32)
        info = torch.empty((), dtype=torch.int32)
        run_kernel("aten::linalg_lu_factor_ex.out", [given, True, False, lu, pivots, info])
        p, lower, upper = torch.lu_unpack(lu, pivots)
        torch.testing.assert_close(p @ lower @ upper, given)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_smooth_functions_of_many_elements(name: str, dtype: torch.dtype) -> None:
    """Large tensors are computed by polynomials; beside them the function itself, and eager, both in double."""
    torch.manual_seed(0)
    function, low, high = SMOOTH[name]
    special = torch.tensor([0.0, -0.0, low, high, 1e-30, 1e30, -1e30, torch.inf, -torch.inf, torch.nan])
    x = torch.cat([torch.rand(200_000) * (high - low) + low, torch.rand(1000) * 1e-3, special]).to(dtype)
    out, pieces = torch.empty_like(x), []
    run_kernel(f"aten::{name}.out", [x, out])
    for piece in x.double().split(10_000):  # too few elements for polynomials
        pieces.append(torch.empty_like(piece))
        run_kernel(f"aten::{name}.out", [piece, pieces[-1]])
    wide = torch.cat(pieces)
    is_double = dtype is torch.float64
    rounding = 1e-13 if is_double else torch.finfo(dtype).eps
    torch.testing.assert_close(out, wide.to(dtype), rtol=rounding, atol=1e-15 if is_double else 1e-8, equal_nan=True)
    # Eager's own Bessel functions are right to 4e-7 only, in double, too.
    rounding = max(rounding, 1e-7)
    torch.testing.assert_close(out[:-10].double(), function(x[:-10].double()), rtol=rounding, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("padding", [(2, 1), (-1, 2), (3, -2), (5, -4), (-2, -1), (0, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_padding_that_cuts(padding: tuple[int, int], dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 4, 4).to(dtype)
    for name, order in (("replication", torch.contiguous_format), ("replication", torch.channels_last)):
        given = x.to(memory_format=order)
        pads = [*padding, *reversed(padding)]
        expected = getattr(torch.ops.aten, f"{name}_pad2d")(given, pads)
        out = torch.empty_like(expected)
        run_kernel(f"aten::{name}_pad2d.out", [given, pads, out])
        assert torch.equal(out, expected)
