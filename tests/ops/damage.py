"""Damages the arguments of a kernel's call as a hostile program can: what is a number, list, element type, shape or
memory order becomes another; indices lead elsewhere; an output is an input."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import torch

from .kernel_runner import DTYPE_CODES

INTEGERS = [0, 1, -1, 2, 3, 7, -7, 16, 127, -128, 255, 65536, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63)]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 1e-320, float("inf"), float("-inf"), float("nan")]
DTYPES = [d for d in DTYPE_CODES if d not in (torch.uint16, torch.uint32, torch.uint64)]


def integer(rng: random.Random, around: int = 0) -> int:
    kind = rng.randrange(3)
    near = max(-(2**63), min(2**63 - 1, around + rng.randrange(-3, 4)))
    return rng.choice(INTEGERS) if kind == 0 else near if kind == 1 else rng.randrange(-4, 12)


def damaged_tensor(t: torch.Tensor, others: list[torch.Tensor], rng: random.Random) -> torch.Tensor:
    kind = rng.randrange(9)
    if kind == 0:
        return t.to(rng.choice(DTYPES))
    if kind == 1 and others:
        return rng.choice(others)  # itself: an output that is an input
    if kind == 2:
        return t.new_zeros([integer(rng) % 5 for _ in range(rng.randrange(6))])
    if kind == 3 and t.dim():
        return t.select(rng.randrange(t.dim()), 0).clone() if 0 not in t.shape else t.reshape(-1)
    if kind == 4:
        return t.unsqueeze(rng.randrange(t.dim() + 1)).clone()
    if kind == 5 and t.dim():
        return t.transpose(rng.randrange(t.dim()), rng.randrange(t.dim())).contiguous()
    if kind == 6 and t.dim():  # another size, the same elements again or fewer
        d = rng.randrange(t.dim())
        n = rng.randrange(t.shape[d] + 3)
        return t.index_select(d, torch.arange(n) % t.shape[d]) if t.shape[d] else t.clone()
    t = t.clone(memory_format=torch.contiguous_format)
    flat = t.view(-1)
    for _ in range(min(flat.numel(), rng.randrange(1, 5))):
        at = rng.randrange(flat.numel())
        if t.dtype.is_floating_point or t.dtype.is_complex:
            flat[at] = torch.tensor(rng.choice(NUMBERS), dtype=torch.float64).to(t.dtype)
        elif t.dtype != torch.bool:
            info = torch.iinfo(t.dtype)
            flat[at] = max(info.min, min(info.max, integer(rng, int(flat[at]))))
    return t


def damaged(value: Any, others: list[torch.Tensor], rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return integer(rng, value)
    if isinstance(value, float):
        return rng.choice(NUMBERS)
    if isinstance(value, str):
        return rng.choice(["", "x", "nonsense" * 20])
    if isinstance(value, torch.Tensor):
        return damaged_tensor(value, others, rng)
    if isinstance(value, (list, tuple)) and value:
        items = list(value)
        at, kind = rng.randrange(len(items)), rng.randrange(6)
        if kind == 0:
            del items[at]
        elif kind == 4:  # longer than any rank
            items = items * 40
        elif kind == 1:
            items.insert(at, items[at])
        else:
            items[at] = damaged(items[at], others, rng)
        return items
    if value is None and others:
        return rng.choice([None, *others])
    return value


def varied(arguments: list[Any], rng: random.Random) -> list[Any]:
    """The same call with other sizes, element types or memory orders, in all arguments alike: most kernels still take
    it.
    """
    tensors = [t for t in _tensors(arguments) if t.dim()]
    kind = rng.randrange(5)
    if kind < 2 and tensors:
        old, new = rng.choice(tensors).dtype, rng.choice(DTYPES)
        return _each(arguments, lambda t: t.to(new) if t.dtype == old else t)
    if kind == 2:
        return _each(arguments, _reordered)
    sizes = sorted({n for t in tensors for n in t.shape if n > 1})
    if not sizes:
        return arguments
    old, new = rng.choice(sizes), rng.choice([1, 2, 17, 33, 64, 67, 130])
    if any(t.numel() * (new / old) ** list(t.shape).count(old) > MOST_ELEMENTS for t in tensors):
        return arguments
    return _resized(arguments, old, new)


def twins_resized(arguments: list[Any], rng: random.Random) -> list[Any]:
    """The same call with another size in all tensors of one shape: a gradient and its indices, but not the input."""
    tensors = [t for t in _tensors(arguments) if t.numel()]
    if not tensors:
        return arguments
    shape = rng.choice(tensors).shape
    d = rng.randrange(len(shape)) if len(shape) else 0
    n = rng.randrange(2 * shape[d] + 2) if len(shape) else 0

    def resized(t: torch.Tensor) -> torch.Tensor:
        return t.index_select(d, torch.arange(n) % shape[d]) if t.shape == shape and len(shape) else t

    return _each(arguments, resized)


def emptied(arguments: list[Any], rng: random.Random) -> list[Any]:
    """The same call with one size 0 and another so large that products of sizes wrap, in all arguments alike.

    The call itself where that would be a tensor with elements, which no memory has.
    """
    sizes = sorted({n for t in _tensors(arguments) for n in t.shape})
    if len(sizes) < 2:
        return arguments
    none, many = rng.sample(sizes, 2)
    new = {none: 0, many: rng.choice([2**20, 2**31 - 1, 2**31, 2**32, 2**40])}
    return _with_sizes(arguments, new) or arguments


def each_emptied(arguments: list[Any]) -> Iterator[list[Any]]:
    """The same call with each of its sizes 0 and each other one 2^40, once as it is and once with its lists of numbers
    alike.
    """
    for none, many in itertools.permutations(sorted({n for t in _tensors(arguments) for n in t.shape}), 2):
        changed = _with_sizes(arguments, {none: 0, many: 2**40})
        if changed is not None:
            yield changed
            yield [[{none: 0, many: 2**40}.get(n, n) for n in a] if _is_numbers(a) else a for a in changed]


def each_ranked(arguments: list[Any]) -> Iterator[list[Any]]:
    """The same call with all of its tensors in no, one and six dimensions."""
    for rank in (0, 1, 6):
        yield _each(arguments, lambda t, rank=rank: t.new_zeros((1,) * rank))


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(type(n) is int for n in value)


def _with_sizes(arguments: list[Any], new: dict[int, int]) -> list[Any] | None:
    """Tensors with other sizes; None where one would have elements and large sizes, which no memory has."""

    def shape(t: torch.Tensor) -> list[int]:
        return [new.get(n, n) for n in t.shape]

    for t in _tensors(arguments):
        if math.prod(shape(t)) > MOST_ELEMENTS or math.prod(max(n, 1) for n in shape(t)) >= 2**59:
            return None
    return _each(arguments, lambda t: t.new_zeros(shape(t)))


def called(arguments: list[Any], rng: random.Random) -> list[Any]:
    """What a call gives where `arguments` are bounds: smaller tensors, and at times other numbers."""
    sizes = sorted({n for t in _tensors(arguments) for n in t.shape if 0 < n <= MOST_ELEMENTS})
    if sizes:
        old = rng.choice(sizes)
        alike = _resized(arguments, old, rng.randrange(old + 1), numbers=False)
        odd = rng.randrange(4 * len(arguments))  # at times one argument keeps its size, or alone changes it
        arguments = [a if i == odd else b for i, (a, b) in enumerate(zip(arguments, alike))]
    if rng.randrange(3) == 0:
        arguments = [damaged(a, [], rng) if type(a) in (int, float) and rng.randrange(3) == 0 else a for a in arguments]
    return arguments


MOST_ELEMENTS = 8000


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_each(item, change) for item in value] if isinstance(value, (list, tuple)) else value


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, (list, tuple)) else []


def _reordered(t: torch.Tensor) -> torch.Tensor:
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(t.dim())
    return t if last is None else t.contiguous(memory_format=last) if t.is_contiguous() else t.contiguous()


def _resized(value: Any, old: int, new: int, numbers: bool = True) -> Any:
    if isinstance(value, torch.Tensor):
        for d, n in enumerate(value.shape):
            if n == old:
                value = value.index_select(d, torch.arange(new) % n)
        return value
    if isinstance(value, (list, tuple)):
        return [_resized(item, old, new, numbers) for item in value]
    return new if numbers and type(value) is int and value == old else value
