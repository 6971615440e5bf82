"""Complex numbers in a model's arithmetic, and sizes of complex tensors."""

import math

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.export import Dim  # noqa: E402

import executorch_py as et  # noqa: E402


class Calls(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return torch.view_as_real(self.function(x))


FUNCTIONS = {
    "times": lambda x: x * 1j,
    "times of ints": lambda x: (2 - 1j) * x.long(),
    "of doubles": lambda x: x.double() * (0.5 - 3j),
    "of complex": lambda x: torch.complex(x, x.flip(0)) * 1j + (1 - 2j),
    "from": lambda x: (1 + 2j) - x,
    "over": lambda x: (1 + 2j) / (x + 5),
    "by": lambda x: x / (1 + 2j),
    "phases": lambda x: torch.exp(-1j * math.pi * torch.arange(x.shape[0]) / 8) * x,
    "filled": lambda x: x + torch.full((4,), 2 - 1j),
    "filled alike": lambda x: torch.full_like(x, 1j, dtype=torch.complex64) * x,
    "masked": lambda x: torch.complex(x, x).masked_fill(x > 0, -1j),
    "chosen": lambda x: torch.where(x > 0, x * 1j, 2 + 1j),
    "in place": lambda x: torch.complex(x, x).add_(1j).mul_(2j),
    "alpha": lambda x: torch.add(torch.complex(x, x), torch.complex(x, -x), alpha=2j),
    "between": lambda x: torch.complex(x, x).lerp(torch.complex(x, -x) * 2, 0.5),
    "branch": lambda x: torch.cond(x.sum() > 0, lambda x: x * 1j, lambda x: x * (2 - 1j), (x,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_numbers(name):
    model = Calls(FUNCTIONS[name])
    x = torch.tensor([1.5, -2.0, 0.25, -4.0])
    module = et.load(et.to_edge(torch.export.export(model, (x,))).to_executorch().buffer)
    for given in (x, -x):
        expected, actual = model(given), module(given)
        assert actual.dtype == expected.dtype
        torch.testing.assert_close(actual, expected)


class Denoise(torch.nn.Module):
    def forward(self, x):
        spectrum = torch.stft(x, 32, 8, 32, torch.hann_window(32), return_complex=True)
        return torch.istft(spectrum * torch.exp(torch.tensor(0.0)), 32, 8, 32, torch.hann_window(32))


def test_the_length_of_an_inverse_transform_follows_a_complex_tensor():
    frames = Dim("frames", min=10, max=100)
    exported = torch.export.export(Denoise(), (torch.randn(2, 320),), dynamic_shapes=({1: 8 * frames},))
    module = et.load(et.to_edge(exported).to_executorch().buffer)
    for count in (10, 100, 37):
        x = torch.randn(2, 8 * count)
        torch.testing.assert_close(module(x), Denoise()(x), rtol=1e-4, atol=1e-4)


class Steps(torch.nn.Module):
    """Complex values go into branches and bodies, and come out of them."""

    def forward(self, x):
        start = torch.complex(x, x.flip(0))
        turned = torch.cond(x.sum() > 0, lambda a: a * 1j, lambda a: a.conj() * 2, (start,))
        _, power = while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * a), (torch.tensor(0), turned))
        return torch.view_as_real(power)


def test_complex_values_in_control_flow():
    x = torch.tensor([1.5, -0.5, 0.25])
    module = et.load(et.to_edge(torch.export.export(Steps(), (x,))).to_executorch().buffer)
    for given in (x, -x):
        torch.testing.assert_close(module(given), Steps()(given))


class Phases(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).angle()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [2, 6, 8, 96])
def test_the_ends_of_a_real_transform_are_positive_zeros_beside_a_real_number(n, dtype):
    """With -0 as imaginary part the angle of a negative number is -pi."""
    x = torch.randn(20, n, dtype=dtype)
    phases = et.load(et.to_edge(torch.export.export(Phases(), (x,))).to_executorch().buffer)(x)
    torch.testing.assert_close(phases[:, [0, -1]], Phases()(x)[:, [0, -1]])
