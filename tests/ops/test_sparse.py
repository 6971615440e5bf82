"""The portable sparse products against eager PyTorch on the dense weight."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from .kernel_runner import KernelError, run_kernel  # noqa: E402
from .near_eager import TOLERANCE  # noqa: E402

F = torch.nn.functional


def parts(weight: torch.Tensor) -> list:
    """Values and bits of a dense weight, as numerics/sparse_weight.h describes them."""
    rows = weight.reshape(len(weight), -1)
    padded = F.pad(rows != 0, (0, -rows.shape[1] % 64)).view(len(rows), -1, 64).long()
    bits = (padded << torch.arange(64)).sum(-1)
    return [rows[rows != 0].clone(), bits]


def sparse(size: tuple, dtype: torch.dtype) -> torch.Tensor:
    return torch.where(torch.rand(size) < 0.2, torch.randn(size), 0.0).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_linear(dtype):
    torch.manual_seed(0)
    for lead, k in (((), 70), ((5,), 64), ((2, 3), 19)):
        x, w, b = torch.randn(*lead, k, dtype=dtype), sparse((7, k), dtype), torch.randn(7, dtype=dtype)
        expected = F.linear(x, w, b)
        out = torch.empty_like(expected)
        run_kernel("et::sparse_linear.out", [x, *parts(w), b, [7, k], None, None, out])
        torch.testing.assert_close(out, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        run_kernel("et::sparse_linear.out", [x, *parts(w), b, [7, k], 0, 0.5, out])
        torch.testing.assert_close(out, expected.clamp(0, 0.5), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(dtype, groups):
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 8, 9, 7, dtype=dtype), sparse((6, 8 // groups, 3, 2), dtype), torch.randn(6, dtype=dtype)
    expected = F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=groups)
    out = torch.empty_like(expected)
    numbers = [list(w.shape), [2, 1], [1, 0], [1, 2], groups, -0.5, None]
    run_kernel("et::sparse_convolution.out", [x, *parts(w), b, *numbers, out])
    torch.testing.assert_close(out, expected.clamp(min=-0.5), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_wrong_weights_are_refused():
    x, w = torch.randn(2, 70), sparse((4, 70), torch.float32)
    values, bits = parts(w)
    out = torch.empty(2, 4)
    stray = bits.clone()
    stray[1, 1] |= 1 << 6
    for wrong, message in (
        ([values[:-1], bits, None, [4, 70]], "but there are"),
        ([torch.cat([values, values[:1]]), stray, None, [4, 70]], "behind the end of a row of 70"),
        ([values, bits, None, [5, 70]], "a mask of"),
        ([values, bits, None, [4, -70]], "size 1 of the weight is -70"),
        ([values, bits.int(), None, [4, 70]], "not int64"),
        ([values.double(), bits, None, [4, 70]], "values"),
    ):
        with pytest.raises(KernelError, match=message):
            run_kernel("et::sparse_linear.out", [x, *wrong, None, None, out])
