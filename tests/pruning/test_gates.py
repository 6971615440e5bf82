"""Channels that a model takes apart and joins again: how many go, and that what is left computes what it did without
them.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from executorch_py import pruning
from executorch_py.errors import NotSupportedError


def halves(h, dim):
    size = h.shape[dim] // 2
    return h.narrow(dim, 0, size), h.narrow(dim, size, size)


def sliced(h, dim):
    size = h.shape[dim] // 2
    return (h[:, :size], h[:, size:]) if dim == 1 else (h[..., :size], h[..., size:])


def every_other(h, dim):
    return (h[:, ::2], h[:, 1::2]) if dim == 1 else (h[..., ::2], h[..., 1::2])


def reshaped(h, dim):
    return h.unflatten(dim, (2, -1)).unbind(dim if dim > 0 else dim - 1)


def interleaved(h, dim):
    return h.unflatten(dim, (-1, 2)).unbind(dim + 1 if dim > 0 else dim)


PARTS = {
    "chunk": lambda h, dim: h.chunk(2, dim),
    "split": lambda h, dim: h.split(h.shape[dim] // 2, dim),
    "split sizes": lambda h, dim: h.split([h.shape[dim] // 2] * 2, dim),
    "tensor_split": lambda h, dim: h.tensor_split(2, dim),
    "narrow": halves,
    "slices": sliced,
    "strided": every_other,
    "unbind": reshaped,
    "interleaved": interleaved,
}
JOINS = {
    "gate": lambda a, b, dim: F.silu(a) * b,
    "sum": lambda a, b, dim: a + b,
    "glu": lambda a, b, dim: F.glu(torch.cat([a, b], dim), dim),
    "swapped": lambda a, b, dim: torch.cat([b, a], dim).chunk(2, dim)[0] - a,
    "mirrored": lambda a, b, dim: a * b.flip(dim),
}


class Gated(nn.Module):
    def __init__(self, parts, join, images, width=48):
        super().__init__()
        self.parts, self.join, self.dim = PARTS[parts], JOINS[join], 1 if images else -1
        self.up = nn.Conv2d(10, 2 * width, 3) if images else nn.Linear(10, 2 * width)
        self.out = nn.Conv2d(width, 4, 1) if images else nn.Linear(width, 4)

    def forward(self, x):
        return self.out(self.join(*self.parts(self.up(x), self.dim), self.dim))


def without(whole: nn.Module, smaller: nn.Module) -> None:
    """Zeros, in place, columns of the whole model's last layer that the smaller one has not."""
    kept, columns = smaller.out.weight, whole.out.weight
    for index in range(columns.shape[1]):
        if not any(torch.equal(columns[:, index], kept[:, i]) for i in range(kept.shape[1])):
            with torch.no_grad():
                columns[:, index] = 0


SHAPES = ((2, 10), (2, 3, 10), (2, 3, 5, 10), (2, 10, 6, 6))


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("parts", PARTS)
def test_halves_go_together(parts, join):
    torch.manual_seed(0)
    place = list(PARTS).index(parts) + 2 * list(JOINS).index(join)
    shape, amount = SHAPES[place % 4], (0.5, 0.25)[place % 3 % 2]
    model, x = Gated(parts, join, images=shape[-1] == 6).eval(), torch.randn(shape)
    result = pruning.prune_neurons(model, (x,), amount)
    assert result.channels == {"up": (96, round(96 * (1 - amount)))}, result.skipped
    expected = copy.deepcopy(model)
    without(expected, result.model)
    torch.testing.assert_close(result.model(x), expected(x))


def test_sizes_in_the_code_are_named_as_what_they_are():
    class Fixed(Gated):
        def forward(self, x):
            a, b = self.up(x).split(48, -1)
            return self.out(a * b)

    with pytest.raises(NotSupportedError, match=r"sizes of its own: .*keep=\['up'\]"):
        pruning.prune_neurons(Fixed("split", "gate", False).eval(), (torch.randn(2, 10),))


def test_parts_that_cannot_be_told_apart_are_refused():
    """With 96 channels the first three eighths are 36, with 48 the code still takes 36: it runs, and is another
    function.
    """

    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.out = nn.Linear(10, 96), nn.Linear(96, 4)

        def forward(self, x):
            h = self.up(x)
            return self.out(torch.cat([h[..., :36].sigmoid(), h[..., 36:]], -1))

    with pytest.raises(NotSupportedError, match=r"by their places.*keep=\['up'\]"):
        pruning.prune_neurons(First().eval(), (torch.randn(2, 10),))


class Attention(nn.Module):
    """Heads of as many channels as there are, and a residual stream that its norm knows."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.stem, self.norm, self.last = nn.Linear(6, 32), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x):
        x = self.stem(x)
        q, k, v = (f(self.norm(x)).unflatten(-1, (4, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.last(x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))


class Images(nn.Module):
    """Depthwise filters, norms in groups, a gate of channels, pixels made of channels, a transposed convolution in
    groups.
    """

    def __init__(self):
        super().__init__()
        self.stem, self.deep, self.norm = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3, groups=32), nn.GroupNorm(4, 64)
        self.down, self.up, self.pixels = nn.Linear(64, 16), nn.Linear(16, 64), nn.Conv2d(64, 32, 1)
        self.act, self.bn = nn.PReLU(8), nn.BatchNorm2d(8)
        self.transposed, self.last = nn.ConvTranspose2d(8, 16, 2, groups=2), nn.Linear(16 * 17 * 17, 5)

    def forward(self, x):
        x = self.norm(self.deep(self.stem(x)).relu())
        x = x * self.up(self.down(x.mean((2, 3))).relu()).sigmoid()[:, :, None, None]
        return self.last(self.transposed(self.bn(self.act(F.pixel_shuffle(self.pixels(x), 2)))).flatten(1))


@pytest.mark.parametrize(
    ("model", "shape", "channels"),
    [
        (Attention, (2, 5, 6), {"q": 16, "k": 16, "v": 16, "o": 16, "stem": 16}),
        (Images, (2, 3, 12, 12), {"stem": 16, "deep": 32, "down": 8, "up": 32, "pixels": 16, "transposed": 8}),
    ],
)
def test_what_depends_on_channels_goes_with_them(model, shape, channels):
    torch.manual_seed(0)
    network, x = model().eval(), torch.randn(shape)
    result = pruning.prune_neurons(network, (x,), 0.5)
    assert {name: after for name, (_, after) in result.channels.items()} == channels, result.skipped
    assert result.model(x).shape == network(x).shape
