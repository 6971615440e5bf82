"""``ldexp`` beside eager: powers of two that are no numbers themselves, where the product is one."""

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from whole_runtime import check

EXPONENTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("exponents", EXPONENTS)
def test_every_exponent_that_a_type_has(exponents):
    last = min(torch.iinfo(exponents).max, 300)
    n = torch.arange(max(torch.iinfo(exponents).min, -300), last + 1).to(exponents)
    for number in (0.0, 1.0, -1.5, 1e-30, 1e-44, 1e30, math.inf, math.nan):
        check(torch.ldexp, torch.full([len(n)], number), n)


def test_other_types():
    check(torch.ldexp, torch.tensor([3, 4]), torch.tensor([2, -1]))
    check(torch.ldexp, torch.tensor([3.0, 1e-5, 6e-8]).half(), torch.tensor([[20], [3], [-4]]))
    check(torch.ldexp, torch.tensor([3.0, 1e-30]).bfloat16(), torch.tensor([120, 130]))
    check(torch.ldexp, torch.tensor([3.0, 1e-300], dtype=torch.float64), torch.tensor([1000, 1022]))
    check(torch.ldexp, torch.tensor([3.0, math.inf]), torch.tensor([-3000, -3000]))
    check(torch.ldexp, torch.tensor([3.0, 4.0]), torch.tensor([0.5, -0.5]), tolerance=1e-6)
