"""Overloads with a number where another one has a tensor, and operators written with others
(export/dialect/overloads.py).
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import executorch_py as et

F32 = torch.tensor([-1.5, 0.25, 2.0])
F64 = torch.tensor([0.5, 1.5, 3.0], dtype=torch.float64)
I64 = torch.tensor([1, 2, 5])
U8 = torch.tensor([1, 200, 7], dtype=torch.uint8)
BOOL = torch.tensor([True, False, True])
MATRIX = torch.tensor([[0.31, -2.4, 1.05], [9.0, -9.0, 0.5]])
SPECIAL = torch.special

CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "lshift of a number": (lambda x, u: (x << 2, u << 3, u.__lshift__(9)), (I64, U8)),
    "rshift of a number": (lambda x, u: (x >> 1, u >> 1), (I64, U8)),
    "shifts of tensors": (lambda x, u: (x << x, u >> x, x.__rshift__(x)), (I64, U8)),
    "a number is shifted": (lambda x, u: (1 << x, 100 >> x, torch.bitwise_left_shift(3, u)), (I64, U8)),
    "a number, bit by bit": (lambda x, u, b: (5 & x, 5 | u, 7 ^ x, True & b), (I64, U8, BOOL)),
    "remainder of a number": (lambda x, i, u: (-7 % x, 7 % i, 7.5 % i, torch.remainder(-7, u)), (F32, I64, U8)),
    "copysign with a number": (lambda x, i: (torch.copysign(x, -2), torch.copysign(i, -2.0)), (F32, I64)),
    "xlogy": (
        lambda x, i: (torch.xlogy(x, 2), torch.xlogy(3, i), torch.xlogy(i, 2), SPECIAL.xlogy(x, 2.5)),
        (F32, I64),
    ),
    "xlog1py": (lambda x, i: (SPECIAL.xlog1py(x, 2), SPECIAL.xlog1py(2, i)), (F32, I64)),
    "zeta": (lambda i: (SPECIAL.zeta(2, i + 1.0), SPECIAL.zeta(i + 2.0, 2)), (I64,)),
    "i0": (lambda x: (SPECIAL.i0(x), torch.i0(x)), (F32,)),
    "searchsorted": (lambda f, i: (torch.searchsorted(f, 1.0), torch.searchsorted(i, 2.5, right=True)), (F32, I64)),
    "bucketize": (
        lambda f, i: (torch.bucketize(1.5, f), torch.bucketize(5, i, right=True, out_int32=True)),
        (F32, I64),
    ),
    "scatter of a number": (
        lambda x, i: tuple(torch.scatter(x, 1, i[:2, None] - 1, 3.0, reduce=r) for r in ("add", "multiply")),
        (MATRIX, I64),
    ),
    "index_fill": (
        lambda x, i: (
            x.index_fill(1, i[:2] - 3, 2.0),
            x.index_fill(0, i[0] - 2, x[0, 0]),
            x[0, 0].index_fill(0, i[:1] - 1, 7),
        ),
        (MATRIX, I64),
    ),
    "gammainc": (lambda d: (SPECIAL.gammainc(d, d), SPECIAL.gammaincc(d, d)), (F64,)),
    "powers of complex numbers": (
        lambda x: tuple(torch.view_as_real(torch.complex(x, x + 1) ** power) for power in (1, 2, 3, 7, 4.0)),
        (torch.tensor([-1.0, 0.5, 2.0]),),
    ),
    "sums of complex numbers": (
        lambda x: (
            torch.view_as_real(torch.complex(x, -x).cumsum(0)),
            torch.view_as_real(torch.complex(x, x).cumsum(-1)),
        ),
        (MATRIX,),
    ),
    "classes of complex numbers": (
        lambda x, y: tuple(f(torch.complex(x, y)) for f in (torch.isnan, torch.isinf, torch.isfinite)),
        (torch.tensor([1.0, torch.nan, torch.inf, 0.0]), torch.tensor([-torch.inf, 1.0, torch.nan, 0.0])),
    ),
    "mean of integers": (
        lambda i, b: (i.mean(dtype=torch.float64), i.mean(0, dtype=torch.float32), b.mean(dtype=torch.float32)),
        (I64, BOOL),
    ),
    "range": (
        lambda x: (torch.range(0, 4), torch.range(0, 1, 0.25) + x[0], torch.range(5, 1, -2, dtype=torch.int64)),
        (F32,),
    ),
    "frequencies": (lambda x: (torch.fft.fftfreq(9, 0.1) * x[0], torch.fft.rfftfreq(8)), (F32,)),
    "conv_tbc": (
        lambda x, w, b: torch.conv_tbc(x, w, b, 1),
        (torch.arange(24.0).view(4, 2, 3), torch.linspace(-1, 1, 36).view(3, 3, 4), torch.arange(4.0)),
    ),
    "int_mm": (
        lambda a: torch._int_mm(a, a[:16].t().contiguous()),
        (torch.arange(768).remainder(251).sub(125).to(torch.int8).view(24, 32),),
    ),
    "fake_quantize": (
        lambda x, s, z: (
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -20, 20),
            torch.fake_quantize_per_tensor_affine(x, s[0], z[1], 0, 15),
            torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127),
        ),
        (MATRIX, torch.tensor([0.1, 0.2, 0.05]), torch.tensor([0, 1, -3], dtype=torch.int32)),
    ),
}
for _name in (
    "chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_w",
    "hermite_polynomial_he",
    "legendre_polynomial_p",
):
    _polynomial = getattr(SPECIAL, _name)
    CALLS[_name] = (lambda x, i, d, f=_polynomial: (f(x, 3), f(0.3, i), f(0.3, d), f(d, 2), f(i, 2)), (F32, I64, F64))


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


@pytest.mark.parametrize("name", CALLS)
def test_same_as_eager(name: str) -> None:
    function, tensors = CALLS[name]
    with torch.no_grad():
        exported = torch.export.export(Call(function), tensors)
    module = et.load(et.to_edge(exported).to_executorch().buffer)
    torch.testing.assert_close(module(*tensors), function(*tensors))


def test_random_overloads() -> None:
    """Bernoulli with a tensor of probabilities: what is certain comes out as it must."""
    certain = torch.tensor([0.0, 1.0, 1.0, 0.0])
    exported = torch.export.export(Call(lambda p: torch.empty_like(p).bernoulli_(p)), (certain,))
    assert torch.equal(et.load(et.to_edge(exported).to_executorch().buffer)(certain), certain)
