"""Reductions, scans and what is counted, through the whole runtime against eager."""

from __future__ import annotations

import pytest
import torch

from .random_tensors import FLOATS, INTEGERS, numbers
from .whole_runtime import check, outputs, run


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool],
)
@pytest.mark.parametrize("shape", [(0,), (1,), (700,), (3, 0), (5, 300), (2, 3, 4), (2, 1, 3, 257), ()], ids=str)
def test_nonzero(shape, dtype):
    torch.manual_seed(0)
    x = torch.randint(-1, 2, shape).to(dtype)
    if dtype.is_floating_point and x.numel() > 4:
        x.view(-1)[:4] = torch.tensor([-0.0, float("nan"), float("inf"), 1e-40], dtype=dtype)
    for values in (x, torch.zeros_like(x), torch.ones_like(x)):
        assert torch.equal(outputs(torch.nonzero, values)[0], torch.nonzero(values))


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (1000,), (5, 33), (33, 5), (3, 4, 300), (300, 4, 3), (2, 600, 9)], ids=str
)
@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float64, name) for name in ("sum", "mean", "prod", "amax", "amin", "any", "all")]
    + [(torch.bool, name) for name in ("amax", "amin", "any", "all")]
    + [(dtype, name) for dtype in (torch.float16, torch.int64) for name in ("any", "all")],
)
def test_reductions(dtype, name, shape):
    function = getattr(torch, name)
    torch.manual_seed(0)
    x = torch.rand(shape, dtype=torch.float64) + 0.5
    cases = [x, x.where(torch.rand(shape) < 0.9, 0.0), torch.zeros_like(x), -torch.zeros_like(x)]
    if dtype.is_floating_point:
        cases.append(x.clone())
        cases[-1].view(-1)[-1] = float("nan")
    for case in cases:
        case = case.to(dtype)
        for dim in range(len(shape)):
            check(lambda x, dim=dim: function(x, dim=dim), case, tolerance=1e-13)
            check(lambda x, dim=dim: function(x, dim=dim, keepdim=True), case, tolerance=1e-13)
        check(lambda x: function(x, dim=()) if name.startswith("am") else function(x), case, tolerance=1e-13)
    if name in ("sum", "prod", "any", "all"):
        check(lambda x: function(x, dim=0), torch.zeros(0, *shape[1:], dtype=dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_truth(dtype: torch.dtype) -> None:
    zeros, ones = torch.zeros(3, 700, dtype=dtype), torch.ones(3, 700, dtype=dtype)
    one, gap = zeros.clone(), ones.clone()
    one[1, 333], gap[2, 5] = torch.iinfo(dtype).max, 0
    for x in (zeros, ones, one, gap, zeros[:0], zeros[:, :0]):
        for function in (torch.any, torch.all):
            check(function, x)
            for dim in (0, 1):
                check(lambda x, f=function, d=dim: f(x, dim=d), x)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans(name, dtype):
    function = getattr(torch, name)
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-13, torch.float16: 2e-3, torch.bfloat16: 2e-2}
    tolerance = tolerance.get(dtype, 0.0)
    for shape in ((1,), (9,), (5, 33), (3, 7, 300), (4, 1), (2, 0, 3)):
        x = numbers(shape, dtype)
        for dim in range(len(shape)):
            check(lambda x, dim=dim: function(x, dim), x, tolerance=tolerance)


def test_a_running_product_stays_in_range_where_parts_of_it_do_not():
    small, large = torch.full((6, 16), 1e-38), torch.full((6, 16), 1e38)
    x = torch.stack((small, large), -1).reshape(6, 32)  # 1e-38, 1, 1e-38, …
    check(lambda x: x.cumprod(1), torch.cat((x, torch.full((6, 1), 0.0), large), 1), tolerance=1e-5)
    assert run(lambda x: x.cumprod(0), torch.tensor([0.0, *[3e38] * 16])).tolist() == [0.0] * 17


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
def test_reductions_of_integers(dtype):
    names = ["sum", "amax", "amin"] if dtype != torch.bool else ["sum"]
    for shape in ((1,), (70,), (5, 300), (3, 4, 65), (2, 3, 4, 5)):
        x = numbers(shape, dtype)
        for name in names:
            for dim in [*range(len(shape)), list(range(len(shape)))]:
                for keepdim in (False, True):
                    check(lambda x, n=name, d=dim, k=keepdim: getattr(torch, n)(x, dim=d, keepdim=k), x)
        check(lambda x: torch.prod(x, 0), x)
        check(torch.prod, x)
        check(torch.sum, x)
        if dtype != torch.bool:
            check(torch.max, x)
            check(torch.min, x)
    image = numbers((2, 3, 5, 7), dtype).contiguous(memory_format=torch.channels_last)
    for dims in ([1], [2, 3], [0, 2, 3], [1, 3]):
        check(lambda x, dims=dims: x.sum(dims), image)
    check(lambda x: x.sum(1), numbers((3, 0), dtype))
    check(lambda x: x.prod(0), numbers((0, 3), dtype))
