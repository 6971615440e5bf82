"""Scatters, sums at indices, puts, takes and searches in sorted sequences, through the whole runtime against eager."""

from __future__ import annotations

import pytest
import torch

import executorch_py as et

from .random_tensors import FLOATS, INTEGERS, numbers
from .whole_runtime import check, run

SHAPES = [((7, 5), (7, 5)), ((40, 9), (33, 8)), ((3, 4, 70), (2, 4, 70)), ((), ())]


def _values(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 9, shape, generator=generator).to(dtype)  # small: sums of 16-bit floats are exact


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
def test_scatter_reduce(reduce, dtype):
    if reduce == "mean" and dtype == torch.bool:
        pytest.skip("eager has no mean of bools")
    for shape, some in SHAPES:
        for dim in range(max(1, len(shape))):
            x, source = _values(shape, dtype, 0), _values(some, dtype, 1)
            if reduce == "prod" and dtype != torch.bool:
                x, source = x.clamp(-1, 1), source.clamp(-1, 1)
            size = shape[dim] if shape else 1
            index = torch.randint(0, size, some, generator=torch.Generator().manual_seed(2))
            for include in (True, False):
                check(
                    lambda x, i, s, d=dim, n=include: torch.scatter_reduce(x, d, i, s, reduce, include_self=n),
                    x,
                    index,
                    source,
                    tolerance=1e-2 if dtype in FLOATS[2:] else 1e-6 if dtype in FLOATS else 0,
                )


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_scatters(dtype):
    for shape, some in SHAPES:
        for dim in range(max(1, len(shape))):
            x, source = _values(shape, dtype, 0), _values(some, dtype, 1)
            size = shape[dim] if shape else 1
            index = torch.randint(0, size, some, generator=torch.Generator().manual_seed(2))
            check(lambda x, i, s, d=dim: torch.scatter_add(x, d, i, s), x, index, source)
            check(lambda x, i, d=dim: torch.scatter(x, d, i, 1), x, index)
            # Each place once: eager leaves open which of two writes stays.
            along = [-1 if d == dim else 1 for d in range(len(shape))]
            once = torch.arange(some[dim]).reshape(along).expand(some).contiguous() if shape else index
            for places in (once, once.int()):
                check(lambda x, i, s, d=dim: torch.scatter(x, d, i, s), x, places, source)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_sums_at_indices(dtype):
    x = _values((30, 7), dtype, 0)
    rows = torch.tensor([3, 3, -1, 0, 3])
    columns = torch.tensor([1, 1, 6, -7, 1])
    add = lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True)  # noqa: E731
    check(add, x, rows, _values((5, 7), dtype, 1))
    check(add, x, rows, _values((7,), dtype, 1))
    check(lambda x, i, j, v: torch.index_put(x, (i, j), v, accumulate=True), x, rows, columns, _values((5,), dtype, 1))
    check(lambda x, i, v: torch.index_add(x, 1, i, v), x, columns.remainder(7), _values((30, 5), dtype, 1))
    if dtype != torch.bool:
        check(lambda x, i, v: torch.index_add(x, 0, i, v, alpha=3), x, rows.abs(), _values((5, 7), dtype, 1))
    check(lambda x, i, v: torch.put(x, i, v, accumulate=True), x, rows, _values((5,), dtype, 1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1, -(2**31)])
def test_wrong_indices_are_named(wrong, dtype):
    x, source = torch.zeros(5, 3), torch.ones(4, 3)
    index = torch.zeros(4, 3, dtype=dtype)
    call = lambda x, i, s: torch.scatter(x, 0, i, s)  # noqa: E731
    run(call, x, index, source)
    bad = index.clone()
    bad[2, 1] = wrong

    class Module(torch.nn.Module):
        def forward(self, x, i, s):
            return call(x, i, s)

    program = et.to_edge(torch.export.export(Module(), (x, index, source))).to_executorch().buffer
    method = et.Runtime.get().load_program(program).load_method("forward")
    with pytest.raises(et.InvalidArgumentError, match=f"index {wrong} at position 7"):
        method.execute((x, bad, source))


SEARCHED = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def _numbers(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    torch.manual_seed(sum(sizes))
    low = 0 if dtype == torch.uint8 else -100
    return torch.randint(low, 120, sizes).to(dtype)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
@pytest.mark.parametrize("dtype", [*INTEGERS, *SEARCHED])
def test_sorted_sequences(dtype, out_int32, right):
    flags = {"out_int32": out_int32, "right": right}
    for length in (0, 1, 2, 7, 64, 1000):
        edges = _numbers(dtype, length).sort()[0]
        for values in (_numbers(dtype, 3, 70), _numbers(dtype, 0), _numbers(dtype, 1)[0]):
            check(lambda e, v: torch.searchsorted(e, v, **flags), edges, values)
            check(lambda v, e: torch.bucketize(v, e, **flags), values, edges)
    many, values = _numbers(dtype, 4, 3, 33).sort()[0], _numbers(dtype, 4, 3, 50)
    check(lambda e, v: torch.searchsorted(e, v, **flags), many, values)
    check(lambda e, v: torch.searchsorted(e, v, **flags), many[:, :, :0], values)
    check(lambda e, v: torch.searchsorted(e, v, side="right"), many, values)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, *SEARCHED])
def test_sequences_that_are_not_sorted(dtype):
    """The same probes as eager's, so the same positions; another order by a sorter."""
    edges, values = _numbers(dtype, 2, 61), _numbers(dtype, 2, 300)
    for right in (False, True):
        check(lambda e, v, r=right: torch.searchsorted(e, v, right=r), edges, values)
        check(lambda e, v, r=right: torch.searchsorted(e, v, right=r, sorter=e.argsort()), edges, values)


@pytest.mark.parametrize("dtype", SEARCHED)
def test_values_that_are_no_numbers(dtype):
    nan, inf = float("nan"), float("inf")
    edges = torch.tensor([-inf, -2, -0.0, 0.0, 1.5, inf, nan], dtype=dtype)
    values = torch.tensor([nan, inf, -inf, 0.0, -0.0, 3.0, 1.5], dtype=dtype)
    for right in (False, True):
        check(lambda e, v, r=right: torch.searchsorted(e, v, right=r), edges, values)


@pytest.mark.parametrize("elements", [torch.uint8, torch.int64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("edges", [torch.uint8, torch.int32, torch.float64])
def test_types_that_differ(elements, edges):
    check(torch.bucketize, _numbers(elements, 90), _numbers(edges, 31).sort()[0])


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.float32])
def test_members(dtype):
    for tests in (2, 40, 900):
        check(torch.isin, _numbers(dtype, 50, 60), _numbers(dtype, tests))


@pytest.mark.parametrize("accumulate", [False, True])
def test_few_elements_put(accumulate):
    x, values = numbers((30, 40), torch.float32), numbers((2, 5), torch.float32, 1)
    index = torch.tensor([[0, -1, 1199, -1200, 47], [600, -41, 39, 40, 41]])
    index = index if accumulate else index.remainder(1100).unique()[:8].view(2, 4)
    check(lambda x, i, v: torch.put(x, i, v, accumulate), x, index, values[:, : index.shape[1]])
    check(lambda x, i, v: torch.put(x, i, v, accumulate), x.view(2, 3, 10, 20), index, values[:, : index.shape[1]])


def test_take_of_a_few_elements():
    for shape in ((5, 33), (3, 4, 17), (40,)):
        x = numbers(shape, torch.float32)
        check(torch.take, x, torch.tensor([[0, -1], [x.numel() - 1, -x.numel()]]))
        check(torch.take, x, torch.tensor([7, -8, 33]))
        for index in (x.numel(), -x.numel() - 1):
            with pytest.raises(et.errors.ExecutorchError):
                run(torch.take, x, torch.tensor([index]).expand(2).clone())
    check(torch.take, numbers((2, 3), torch.int64), torch.arange(-6, 6))
