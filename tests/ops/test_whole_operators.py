"""Operators that stay whole so that they are one pass, beside eager: losses, gradients of softmax, rounding to decimals, logit,
batch norm of training with statistics that move. Odd sizes, values that are no numbers, empty tensors, orders that differ.
"""

from __future__ import annotations

import pytest
import torch

import executorch_py as et

from .test_vector_kernels import _Call, _check, _run

F = torch.nn.functional
aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SUMS = {torch.float32: 1e-6, torch.float64: 1e-13, torch.float16: 1e-3, torch.bfloat16: 8e-3}
LOSSES = [
    (F.mse_loss, {}),
    (F.huber_loss, {}),
    (F.huber_loss, {"delta": 0.3}),
    (F.smooth_l1_loss, {}),
    (F.smooth_l1_loss, {"beta": 2.5}),
    (aten.smooth_l1_loss, {"beta": 0.0}),
]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("loss", "options"), LOSSES, ids=str)
def test_losses(loss, options, dtype, reduction):
    torch.manual_seed(0)
    chosen = ["none", "mean", "sum"].index(reduction) if loss is aten.smooth_l1_loss else reduction
    call = lambda x, y: loss(x, y, reduction=chosen, **options)  # noqa: E731
    tolerance = 0.0 if reduction == "none" and dtype == torch.float32 else SUMS[dtype]

    def check(x, y):
        # In 16 bits, eager rounds the differences, too.
        exact = call(x.double(), y.double()).to(dtype) if reduction == "none" and SUMS[dtype] > 1e-4 else None
        _check(call, x, y, tolerance=tolerance, exact=exact)

    for shape in [(), (0,), (1,), (3, 5, 43), (70001,)]:
        x, y = (torch.randn(shape).to(dtype) for _ in range(2))
        check(x, y)
        if x.numel() > 9:
            x.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e5]).to(dtype)
            y.view(-1)[1:3] = torch.tensor([float("inf"), float("nan")]).to(dtype)
            check(x, y)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("op", [aten.mse_loss, aten.huber_loss, aten.smooth_l1_loss], ids=str)
def test_losses_of_pairs_that_differ(op, reduction):
    torch.manual_seed(0)
    x, y = torch.randn(4, 6, 5), torch.randn(6, 1)
    _check(lambda x, y: op(x, y, reduction), x, y, tolerance=1e-6)
    _check(lambda x, y: op(x, y, reduction), x, x.double()[0, 0, 0], tolerance=1e-6)
    _check(lambda x, y: op(x, y, reduction), x, torch.randn(6, 4, 5).transpose(0, 1), tolerance=1e-6)
    if (
        op is not aten.huber_loss
    ):  # whose result eager has in self's type, and PyTorch's shape function in the wider one
        _check(lambda x, y: op(x, y, reduction), x, torch.randn(4, 6, 5, dtype=torch.float64), tolerance=1e-6)


def test_losses_that_no_element_holds():
    """Eager's losses are elements: of float16, they end at 65504."""
    x, y = torch.full((1000,), 300.0).half(), torch.zeros(1000).half()
    _check(lambda x, y: F.mse_loss(x, y), x, y)
    assert _run(lambda x, y: F.mse_loss(x, y), x, y)[0].isinf()


def test_sums_of_losses_do_not_depend_on_the_threads():
    torch.manual_seed(0)
    inputs = torch.randn(1_000_003), torch.randn(1_000_003)
    results = set()
    before = et.Runtime.get().num_threads
    try:
        for threads in (1, 2, 3):
            et.set_num_threads(threads)
            results.add(float(_run(lambda x, y: F.huber_loss(x, y), *inputs)[0]))
    finally:
        et.set_num_threads(before)
    assert len(results) == 1


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_softmax(dtype, log):
    torch.manual_seed(0)
    op = aten._log_softmax_backward_data if log else aten._softmax_backward_data
    for shape in [(), (7,), (3, 1000), (1000, 3), (2, 33, 70), (4, 0, 3), (2, 3, 4, 65)]:
        for dim in {0, -1, max(len(shape) - 2, 0)}:
            x, grad = (torch.randn(shape).to(dtype) for _ in range(2))
            output = torch.log_softmax(x, dim) if log else torch.softmax(x, dim)
            call = lambda g, y, d=dim: op(g, y, d, dtype)  # noqa: E731
            exact = op(grad.double(), output.double(), dim, torch.float64).to(dtype)
            _check(call, grad, output, tolerance=2 * SUMS[dtype], exact=exact)
            if x.dim() > 1:
                _check(call, grad.mT.contiguous().mT, output, tolerance=2 * SUMS[dtype], exact=exact)
    output = torch.tensor([[0.1, float("nan"), 2.0], [float("inf"), 0.5, -800.0], [0.0, -0.0, 1.0]]).to(dtype)
    _check(lambda g, y: op(g, y, 1, dtype), torch.ones(3, 3).to(dtype), output, tolerance=2 * SUMS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_to_decimals(dtype):
    torch.manual_seed(0)
    ends = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 0.5, 1.5, 0.25, 0.125, 2.675, 1e30, -1e-30, 65000.0]
    x = torch.cat([torch.tensor(ends), torch.randn(1000) * 30]).to(dtype)
    for decimals in (0, 1, 2, 3, 5, 12, 50, -1, -2, -40):
        call = lambda x, d=decimals: torch.round(x, decimals=d)  # noqa: E731
        for case in (x, x[:0], x[5], x[:1000].view(40, 25).t()):
            _check(call, case)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fractions(dtype):
    ends = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, -0.5, 1e30, -1e-30, 1e-42]
    x = torch.cat([torch.tensor(ends), torch.randn(1001) * 30]).to(dtype)
    for case in (x, x[:0], x[5], x[:1000].view(40, 25).t()):
        _check(torch.frac, case)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8, torch.bool])
def test_logit(dtype):
    if dtype.is_floating_point:
        ends = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, 0.5, -0.5, 1.5, 1e-30, 1e-42, 0.99999994]
        x = torch.cat([torch.tensor(ends), torch.rand(1001)]).to(dtype)
    else:
        x = torch.randint(0, 3, (1001,)).to(dtype)
    small = dtype in (torch.float16, torch.bfloat16)
    for eps in (None, 0.0, 1e-6, 0.25):
        call = lambda x, e=eps: torch.logit(x, e)  # noqa: E731
        exact = call(x.float()).to(dtype) if small and eps != 1e-6 else None
        if small and exact is None:
            continue  # 1 - eps is 1 or not, by the type that eager takes it in
        _check(call, x, tolerance=SUMS.get(dtype, 1e-6) * 4, exact=exact)


@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norm_whose_statistics_move(dtype):
    torch.manual_seed(0)

    def call(x, mean, var, weight, bias):
        mean, var = mean.clone(), var.clone()
        y = F.batch_norm(x, mean, var, weight, bias, training=True, momentum=0.3)
        return y, mean, var

    for shape in [(2, 6, 9, 33), (300, 5), (4, 7, 1)]:
        x = (torch.randn(shape) * 3 + 2).to(dtype)
        count = shape[1]
        inputs = (
            x,
            *(t.to(dtype) for t in (torch.randn(count), torch.rand(count), torch.randn(count), torch.randn(count))),
        )
        expected = [t.to(dtype) for t in call(*(t.double() for t in inputs))]
        for case in (x, x.to(memory_format=torch.channels_last) if x.dim() == 4 else x):
            for got, wanted in zip(_run(call, case, *inputs[1:]), expected, strict=True):
                torch.testing.assert_close(got, wanted, rtol=4 * SUMS[dtype], atol=4 * SUMS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_deviations_whose_variance_is_no_number_of_the_type(dtype):
    """Of large and of tiny numbers, of rows whose sum overflows, of one number; rows and columns, with the mean and without."""
    torch.manual_seed(0)
    large, tiny = (1e20, 1e-25) if dtype in (torch.float32, torch.bfloat16) else (3e4, 1e-6)
    x = torch.rand(9, 40, dtype=torch.float64)
    x[0] *= large
    x[1] *= tiny
    x[2:5, 0] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    x[5], x[6] = 0, 0.75 * torch.finfo(dtype).max if dtype != torch.float64 else 1e150
    x = x.to(dtype)
    tolerance = {**SUMS, torch.float32: 1e-5}[dtype]
    for call in (
        lambda x: x.std(-1),
        lambda x: x.std(-1, correction=0, keepdim=True),
        lambda x: x.var(-1),
        lambda x: x.std(0, unbiased=False),
        lambda x: x[:2].std(),
        lambda x: x[:, :1].std(-1),
        lambda x: torch.std_mean(x, -1)[0],
        lambda x: torch.std_mean(x[:2])[1],
        lambda x: torch.std_mean(x[:2], 0, keepdim=True)[1],
    ):
        expected = call(x)
        torch.testing.assert_close(_run(call, x)[0], expected, rtol=tolerance, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("threshold", [3, 20])
def test_softplus_is_zero_far_below(threshold, dtype):
    call = lambda x: F.softplus(x, threshold=threshold)  # noqa: E731
    x = torch.tensor([-float("inf"), -6e4, -800.0, -120.0, -30.0, -2.0, 2.9, 3.1, 25.0, float("inf"), float("nan")])
    _check(call, x.to(dtype), tolerance=SUMS[dtype])
    assert (_run(call, x.to(dtype)[:3])[0] == 0).all()
    product = _run(lambda x: x * torch.tanh(call(x)), x.to(dtype)[1:3])[0]
    assert (product == 0).all()


WHOLE = [
    ("std.correction", lambda x: torch.std(x, 1)),
    ("std.correction", lambda x: torch.std_mean(x)[0]),
    ("huber_loss", lambda x: F.huber_loss(x, -x)),
    ("mse_loss", lambda x: F.mse_loss(x, -x)),
    ("smooth_l1_loss", lambda x: F.smooth_l1_loss(x, -x)),
    ("round.decimals", lambda x: torch.round(x, decimals=2)),
    ("_softmax_backward_data", lambda x: aten._softmax_backward_data(x, x, 1, torch.float32)),
    ("_log_softmax_backward_data", lambda x: aten._log_softmax_backward_data(x, x, 1, torch.float32)),
    (
        "_native_batch_norm_legit_functional",
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True),
    ),
    (
        "_native_batch_norm_legit_functional",
        lambda x: aten._batch_norm_with_update(x, x[0], x[1], torch.zeros(3), torch.ones(3), 0.1, 1e-5)[0],
    ),
    ("frac", lambda x: torch.frac(x)),
]


@pytest.mark.parametrize(("name", "call"), WHOLE, ids=range(len(WHOLE)))
def test_they_stay_whole_but_for_the_official_runtime(name, call):
    edge = et.to_edge(torch.export.export(_Call(call), (torch.randn(5, 3),)))
    assert name in str(edge.exported_program().graph)
    edge = et.to_edge(torch.export.export(_Call(call), (torch.randn(5, 3),)))
    config = et.ExecutorchBackendConfig(compatible=True)
    program = edge.to_executorch(config).buffer
    x = torch.randn(5, 3)
    got = et.Runtime.get().load_program(program).load_method("forward").execute((x,))[0]
    torch.testing.assert_close(got, call(x), rtol=1e-5, atol=1e-5)
