"""Special values: NaN, infinities, both zeros, subnormal, tiny and huge numbers among the elements of a sample's
inputs.

What counts as equal then is the class of each element: NaN, either infinity, a zero of that sign, or a number close by.
Where eager gives something else in float64, or as an exported program, one of its answers is enough.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo
from torch.utils import _pytree as pytree

from .adapters import Sample
from .closeness import TOLERANCES
from .samples import operator_entries

#: Variant -> its values, and one element in so many that has one. A "root" is the square root of the largest number,
#: "quarter" a hundredth of that: its square can be added up. Subnormal numbers stand beside no infinity: XNNPACK takes
#: them for zeros.
_VARIANTS: dict[str, tuple[tuple[str, ...], int]] = {
    "nan": (("nan",), 11),
    "infinite": (("inf",), 11),
    "zeros": (("-0", "0", "subnormal", "-subnormal", "tiny", "-tiny"), 2),
    "large": (("quarter", "-quarter"), 5),
    "largest": (("max", "-max", "root", "-root"), 5),
    "mixed": (("nan", "inf", "-inf", "-0", "quarter", "-tiny"), 3),
}  # fmt: skip


def _value(name: str, dtype: torch.dtype) -> float:
    info = torch.finfo(dtype)
    size = {
        "nan": torch.nan, "inf": torch.inf, "0": 0.0, "subnormal": info.smallest_normal / 4,
        "tiny": info.smallest_normal,
        "max": info.max, "root": info.max**0.5, "quarter": info.max**0.5 / 100,
    }[name.removeprefix("-")]  # fmt: skip
    return -size if name.startswith("-") else size


def planted(tensor: torch.Tensor, variant: str, seed: int = 0) -> torch.Tensor:
    """A copy of a tensor with the variant's values among its elements; one of integers as it is."""
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor.clone()
    names, share = _VARIANTS[variant]
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(tensor.numel(), generator=generator)[: -(-tensor.numel() // share)]
    values = torch.tensor([_value(names[i % len(names)], tensor.dtype) for i in range(len(chosen))], dtype=tensor.dtype)
    result = tensor.clone()
    if not tensor.dim():
        return result.fill_(values[0])
    result[tuple(torch.unravel_index(chosen, tensor.shape))] = values
    return result


#: Entries whose first input alone gets special values: a filter's NaN meets padding in some of eager's libraries only.
_FIRST_ONLY = ("conv", "Conv")

#: Entries, beside pointwise ones, whose zeros have the sign that the operator gives them. Of sums it is that of their
#: order.
_ZEROS_HAVE_SIGNS = (
    "*elu",
    "*ELU*",
    "*ReLU*",
    "*relu*",
    "*hardtanh",
    "*Hardtanh",
    "*silu",
    "*SiLU",
    "*mish",
    "*Mish",
    "clamp*",
    "*tanh",
)


def zeros_have_signs(name: str) -> bool:
    """Whether the sign of a zero is compared."""
    return is_pointwise(name) or any(fnmatchcase(name, pattern) for pattern in _ZEROS_HAVE_SIGNS)


def is_pointwise(name: str) -> bool:
    """Whether PyTorch lists an entry as a pointwise operator of one or two tensors."""
    return isinstance(operator_entries().get(name), (UnaryUfuncInfo, BinaryUfuncInfo))


def variants(sample: Sample, key: str) -> Iterator[tuple[str, Sample]]:
    """The sample with each variant's values in its inputs. The largest numbers of all are for pointwise operators."""
    name = key.split("/")[1]
    for variant in _VARIANTS:
        if variant == "largest" and not is_pointwise(name):
            continue
        seed = zlib.crc32(f"{key}/{variant}".encode())
        leaves, structure = pytree.tree_flatten((sample.args, sample.kwargs))
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and (i == 0 or not any(part in name for part in _FIRST_ONLY)):
                leaves[i] = planted(leaf, variant, seed + i)
        args, kwargs = pytree.tree_unflatten(leaves, structure)
        yield variant, replace(sample, args=args, kwargs=kwargs)


def class_difference(actual: Any, references: list[Any], largest: float, with_signs: bool = True) -> str:
    """Why ``actual`` is none of the references, element by element; "" when each is one of them.

    Args:
        actual: Ours.
        references: Eager's answers, each of which is right.
        largest: What was added up: sums lose digits in proportion to it.
        with_signs: Whether zeros have signs.
    """
    first = references[0]
    if not isinstance(first, torch.Tensor):
        return "" if any(_same_number(actual, r) for r in references) else f"{actual!r} instead of {first!r}"
    if not isinstance(actual, torch.Tensor) or actual.dtype != first.dtype or actual.shape != first.shape:
        return f"{actual!r} instead of {first!r}"
    references = [r for r in references if isinstance(r, torch.Tensor) and r.shape == first.shape]
    fine = torch.zeros(first.shape, dtype=torch.bool)
    for reference in references:
        fine |= _is_one(actual, reference, largest)
    if first.dtype.is_floating_point:
        finite, zero, negative = (
            torch.stack([f(r) for r in references]) for f in (torch.isfinite, lambda r: r == 0, torch.signbit)
        )
        # A sum that overflows on the way only: infinite or NaN as the order of its terms has it.
        fine |= finite.any(0) & ~finite.all(0) & ~actual.isfinite()
        if with_signs:
            fine &= ~zero.all(0) | (actual != 0) | (negative == actual.signbit()).any(0)
    if fine.all():
        return ""
    at = tuple((~fine).nonzero()[0].tolist())
    values = f"{actual[at].item()} instead of {first[at].item()}"
    return f"{int((~fine).sum())} of {fine.numel()} elements: {values} at {list(at)}"


def _same_number(actual: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(actual, (int, float)):
        return bool(_is_one(torch.tensor(float(actual)), torch.tensor(expected), 1.0))
    return str(actual) == str(expected)


def _is_one(actual: torch.Tensor, expected: torch.Tensor, largest: float) -> torch.Tensor:
    if not expected.dtype.is_floating_point:
        return actual == expected
    relative, absolute = TOLERANCES[expected.dtype]
    ours, eager = actual.double(), expected.double()
    return torch.isclose(ours, eager, rtol=relative, atol=absolute * max(1.0, largest), equal_nan=True)


def largest_of(sample: Sample, variant: str) -> float:
    """The largest product of finite numbers among the inputs; of pointwise operators, which add nothing up, a usual
    one.
    """
    if variant == "largest":
        return 1.0
    tensors = [t.double() for t in pytree.tree_leaves((sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
    return max((t[t.isfinite()].abs().max().item() ** 2 for t in tensors if t.isfinite().any()), default=1.0)
