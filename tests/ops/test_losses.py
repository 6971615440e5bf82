"""Losses and gradients of softmax as one operator each, through the whole runtime against eager."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import executorch_py as et

from .whole_runtime import Function, check, outputs

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
@pytest.mark.parametrize(("loss", "options"), LOSSES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_losses(loss, options, dtype, reduction):
    torch.manual_seed(0)
    chosen = ["none", "mean", "sum"].index(reduction) if loss is aten.smooth_l1_loss else reduction
    call = lambda x, y: loss(x, y, reduction=chosen, **options)  # noqa: E731
    tolerance = 0.0 if reduction == "none" and dtype == torch.float32 else SUMS[dtype]

    def check_pair(x, y):
        # In 16 bits, eager rounds the differences, too.
        exact = call(x.double(), y.double()).to(dtype) if reduction == "none" and SUMS[dtype] > 1e-4 else None
        check(call, x, y, tolerance=tolerance, exact=exact)

    for shape in [(), (0,), (1,), (3, 5, 43), (70001,)]:
        x, y = (torch.randn(shape).to(dtype) for _ in range(2))
        check_pair(x, y)
        if x.numel() > 9:
            x.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e5]).to(dtype)
            y.view(-1)[1:3] = torch.tensor([float("inf"), float("nan")]).to(dtype)
            check_pair(x, y)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("op", [aten.mse_loss, aten.huber_loss, aten.smooth_l1_loss], ids=str)
def test_losses_of_pairs_that_differ(op, reduction):
    torch.manual_seed(0)
    x, y = torch.randn(4, 6, 5), torch.randn(6, 1)
    check(lambda x, y: op(x, y, reduction), x, y, tolerance=1e-6)
    check(lambda x, y: op(x, y, reduction), x, x.double()[0, 0, 0], tolerance=1e-6)
    check(lambda x, y: op(x, y, reduction), x, torch.randn(6, 4, 5).transpose(0, 1), tolerance=1e-6)
    if (
        op is not aten.huber_loss
    ):  # whose result eager has in self's type, and PyTorch's shape function in the wider one
        check(lambda x, y: op(x, y, reduction), x, torch.randn(4, 6, 5, dtype=torch.float64), tolerance=1e-6)


def test_losses_that_no_element_holds():
    """Eager's losses are elements: of float16, they end at 65504."""
    x, y = torch.full((1000,), 300.0).half(), torch.zeros(1000).half()
    check(lambda x, y: F.mse_loss(x, y), x, y)
    assert outputs(lambda x, y: F.mse_loss(x, y), x, y)[0].isinf()


def test_sums_of_losses_do_not_depend_on_the_threads():
    torch.manual_seed(0)
    inputs = torch.randn(1_000_003), torch.randn(1_000_003)
    results = set()
    before = et.Runtime.get().num_threads
    try:
        for threads in (1, 2, 3):
            et.set_num_threads(threads)
            results.add(float(outputs(lambda x, y: F.huber_loss(x, y), *inputs)[0]))
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
            check(call, grad, output, tolerance=2 * SUMS[dtype], exact=exact)
            if x.dim() > 1:
                check(call, grad.mT.contiguous().mT, output, tolerance=2 * SUMS[dtype], exact=exact)
    output = torch.tensor([[0.1, float("nan"), 2.0], [float("inf"), 0.5, -800.0], [0.0, -0.0, 1.0]]).to(dtype)
    check(lambda g, y: op(g, y, 1, dtype), torch.ones(3, 3).to(dtype), output, tolerance=2 * SUMS[dtype])


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
    edge = et.to_edge(torch.export.export(Function(call), (torch.randn(5, 3),)))
    assert name in str(edge.exported_program().graph)
    edge = et.to_edge(torch.export.export(Function(call), (torch.randn(5, 3),)))
    config = et.ExecutorchBackendConfig(compatible=True)
    program = edge.to_executorch(config).buffer
    x = torch.randn(5, 3)
    got = et.Runtime.get().load_program(program).load_method("forward").execute((x,))[0]
    torch.testing.assert_close(got, call(x), rtol=1e-5, atol=1e-5)
