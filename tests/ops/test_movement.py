"""Fills, expansions, flips, turns, shuffled channels and blocks, through the whole runtime against eager."""

from __future__ import annotations

import itertools

import pytest
import torch

from .random_tensors import FLOATS, INTEGERS, numbers
from .whole_runtime import check

SIZES = [0, 1, 3, 16, 17, 63, 1025, 2049]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_fills_and_expansions(dtype):
    for size in SIZES:
        check(lambda x: torch.full_like(x, 1), numbers((size,), dtype))
    column = numbers((5, 1, 1), dtype)
    check(lambda x: x.expand(5, 7, 301), column)
    check(lambda x, y: x.expand_as(y), column, numbers((5, 3, 2), dtype))  # an input of which only the shape counts
    check(lambda x: x.expand(5, 7, 3), numbers((7, 1), dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_flips(dtype):
    for size in SIZES[1:]:
        x = numbers((3, 2, size), dtype)
        for dims in ([2], [0, 2], [0, 1, 2], [1], []):
            check(lambda x, dims=dims: torch.flip(x, dims), x)
    image = numbers((2, 3, 5, 17), dtype).contiguous(memory_format=torch.channels_last)
    check(lambda x: torch.flip(x, [1, 3]), image)
    check(lambda x: torch.flip(x, [0]), numbers((0, 4), dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_quarter_turns(dtype):
    for shape in ((37, 70), (3, 40, 5), (2, 33, 1), (1, 1), (0, 3)):
        x = (torch.arange(torch.Size(shape).numel()) % 251).reshape(shape).to(dtype)
        for turns in (1, 2, 3, 0, -1, 6):
            check(lambda x, k=turns: torch.rot90(x, k), x)
            check(lambda x, k=turns: torch.rot90(x, k, (-1, 0)), x)
            check(lambda x, k=turns: torch.rot90(x, k, (-2, -1)), x)
    check(lambda x: torch.rot90(x, 1, (1, 3)), torch.randn(2, 5, 3, 17).to(memory_format=torch.channels_last))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_shuffled_channels(dtype):
    for shape in ((2, 12, 5, 7), (1, 6, 33), (2, 4, 1, 3, 2), (0, 6, 3)):
        x = (torch.arange(torch.Size(shape).numel()) % 251).reshape(shape).to(dtype)
        for groups in (1, 2, shape[1]):
            check(lambda x, g=groups: torch.channel_shuffle(x, g), x)
    image = torch.randn(2, 6, 5, 17).to(memory_format=torch.channels_last)
    check(lambda x: torch.channel_shuffle(x, 3), image)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool])
def test_block_diag(dtype):
    parts = [numbers(shape, dtype, seed) for seed, shape in enumerate([(2, 3), (4,), (), (5, 1), (0, 2)])]
    check(lambda *x: torch.block_diag(*x), *parts)
    check(lambda x: torch.block_diag(x), parts[0])
    check(lambda *x: torch.block_diag(*x), parts[0], numbers((3, 3), torch.int32))
    check(lambda *x: torch.block_diag(*(t.mT for t in x)), parts[0], numbers((5, 3), dtype))
    check(lambda *x: torch.block_diag(*x), numbers((0, 2), dtype), numbers((0,), dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.int64])
def test_turned_constants(dtype):
    """The compiler turns a constant itself, by the plain kernel, which copies in tiles where rows become columns."""
    for shape in ((37, 70), (64, 16), (3, 40, 5), (9, 1, 33, 2)):
        constant = numbers(shape, dtype)
        for dims in itertools.islice(itertools.permutations(range(len(shape))), 1, 10):
            check(lambda x, c=constant, d=dims: x == c.permute(d), constant.permute(dims).contiguous())
