"""Kernels that move or choose elements take integers of quantized tensors where eager PyTorch takes floats only: with the
elements that they choose of floats, exactly."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel_runner import run_kernel

TYPES = {torch.int8: (-128, 128), torch.uint8: (0, 256), torch.int16: (-32768, 32768)}


def integers(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    return torch.randint(*TYPES[dtype], sizes, generator=torch.Generator().manual_seed(4)).to(dtype)


def largest(spatial: int, size: list[int]) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    pool = F.adaptive_max_pool2d if spatial == 2 else F.adaptive_max_pool3d
    return lambda x: pool(x, size, return_indices=True)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("spatial", "size"), [(2, [3, 4]), (2, [1, 1]), (2, [9, 7]), (3, [2, 3, 2])])
def test_largest_of_regions(dtype: torch.dtype, spatial: int, size: list[int]) -> None:
    for layout in [torch.contiguous_format, *([torch.channels_last] if spatial == 2 else [])]:
        x = integers(dtype, 2, 3, *(9, 7, 5)[:spatial]).to(memory_format=layout)
        values, places = largest(spatial, size)(x.float())
        ours = torch.zeros(values.shape, dtype=dtype).to(memory_format=layout)
        at = torch.zeros(values.shape, dtype=torch.int64).to(memory_format=layout)
        run_kernel(f"aten::adaptive_max_pool{spatial}d.out", [x, size, ours, at])
        assert torch.equal(ours.float(), values) and torch.equal(at, places)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("padding", [[0, 0], [2, 1]])
def test_windows(dtype: torch.dtype, padding: list[int]) -> None:
    x = integers(dtype, 2, 3, 9, 8)
    expected = F.unfold(x.float(), [3, 2], [2, 1], padding, [1, 2])
    ours = torch.ones(expected.shape, dtype=dtype)
    run_kernel("aten::im2col.out", [x, [3, 2], [2, 1], padding, [1, 2], ours])
    assert torch.equal(ours.float(), expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("factor", [2.0, 1.7, 0.6])
def test_the_nearest(dtype: torch.dtype, rank: int, exact: bool, factor: float) -> None:
    x = integers(dtype, 2, 3, *(9, 7, 5)[:rank])
    mode = "nearest-exact" if exact else "nearest"
    for layout in [torch.contiguous_format, *([torch.channels_last] if rank == 2 else [])]:
        expected = F.interpolate(x.float().to(memory_format=layout), scale_factor=factor, mode=mode)
        ours = torch.zeros(expected.shape, dtype=dtype).to(memory_format=layout)
        namespace = "aten" if rank == 2 and not exact else "et"
        name = f"{namespace}::{'_' if exact else ''}upsample_nearest{'_exact' if exact else ''}{rank}d.vec_out"
        run_kernel(name, [x.to(memory_format=layout), None, [factor] * rank, ours], "TLFT")
        assert torch.equal(ours.float(), expected)
