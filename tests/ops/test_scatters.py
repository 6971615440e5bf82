"""Scatters and sums at indices through the whole runtime against eager. The cases are every element type, places that
occur often, what was there counted or not, indices of 32 bits, shapes that are smaller than self, and wrong indices."""

import sys
from pathlib import Path

import pytest
import torch

import executorch_py as et

sys.path.insert(0, str(Path(__file__).resolve().parent))
from whole_runtime import check, run

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
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
