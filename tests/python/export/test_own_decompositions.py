"""Operators that PyTorch's decomposition table lacks, against eager."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py.testing import assert_matches_eager, lower


class Call(nn.Module):
    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.function(*self.parts, *inputs)


torch.manual_seed(0)
X = torch.randn(3, 4)
CASES = {
    "bilinear": (nn.Bilinear(3, 4, 5), (torch.randn(2, 3), torch.randn(2, 4))),
    "bilinear of batches": (nn.Bilinear(3, 4, 5, bias=False), (torch.randn(2, 6, 3), torch.randn(2, 6, 4))),
    "circular pads": (
        Call(
            lambda x: (
                F.pad(x, (2, 1), mode="circular"),
                F.pad(x[None], (0, 3, 5, 0), mode="circular"),
                F.pad(x[None, None], (1, 2, 0, 0, 3, 3), mode="circular"),
                F.pad(x, (-1, 2), mode="circular"),
                F.pad(x, (0, 0), mode="circular"),
            )
        ),
        (torch.randn(3, 5, 6),),
    ),
    "replicating pads": (
        Call(lambda x: (F.pad(x, (2, 1), mode="replicate"), F.pad(x, (-1, 7), mode="replicate"))),
        (torch.randn(3, 5, 6),),
    ),
    "unpooling": (
        Call(lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2, output_size=[7])),
        (torch.randn(2, 3, 7),),
    ),
    "unpooling of volumes": (
        Call(lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2)),
        (torch.randn(2, 3, 4, 4, 6),),
    ),
    "addbmm": (
        Call(lambda a, b, c: (torch.addbmm(a, b, c), torch.addbmm(a, b, c, beta=0, alpha=2))),
        (torch.randn(2, 4), torch.randn(3, 2, 3), torch.randn(3, 3, 4)),
    ),
    "signbit": (
        Call(lambda x, n: (torch.signbit(x), torch.signbit(n))),
        (torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf")]), torch.tensor([0, -1, 3])),
    ),
    "put": (Call(lambda x: x.put(torch.tensor([0, 5]), torch.tensor([7.0, 8.0]))), (X,)),
    "embedding with max_norm": (nn.Embedding(5, 4, max_norm=0.5), (torch.tensor([[0, 1], [4, 0]]),)),
    "rrelu": (nn.RReLU(), (X,)),
    "resize": (Call(lambda x, y: (x + 1).resize_as_(y)), (torch.randn(2, 6), torch.randn(3, 2))),
    "cosine embedding loss": (nn.CosineEmbeddingLoss(), (X, X + 1, torch.ones(3))),
    "antialiased bicubic": (
        Call(lambda x: F.interpolate(x, size=(5, 17), mode="bicubic", antialias=True)),
        (torch.randn(1, 3, 11, 13),),
    ),
    "windows": (
        Call(lambda x: (torch.kaiser_window(5) * x, torch.hamming_window(5) + x, torch.bartlett_window(5, False) + x)),
        (torch.randn(5),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_eager(name):
    model, inputs = CASES[name]
    assert_matches_eager(model.eval(), inputs)


def test_resize_to_more_elements_leaves_zeros_behind_them():
    """Eager leaves memory that nobody wrote; here it is zero, and the same in each run."""
    x = torch.randn(2, 3)
    program = lower(Call(lambda x: (x + 1).resize_(3, 4)), (x,))
    (actual,) = et.Runtime.get().load_program(program.buffer).load_method("forward").execute((x,))
    torch.testing.assert_close(actual.reshape(-1)[:6], (x + 1).reshape(-1))
    assert actual.shape == (3, 4) and not actual.reshape(-1)[6:].any()


def test_attention_whose_heads_broadcast():
    """One key and value head for all query heads, not declared as grouped: eager broadcasts."""
    attention = Call(lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True))
    assert_matches_eager(attention, (torch.randn(2, 4, 5, 8), torch.randn(2, 1, 5, 8)))
    assert_matches_eager(attention, (torch.randn(4, 5, 8), torch.randn(5, 8)))


@pytest.mark.parametrize(
    "call",
    [
        lambda z: torch.view_as_real(torch.addcdiv(z, z, z + 2)),
        lambda z: torch.trace(z).abs(),
        lambda z: torch.view_as_real(torch.addr(z, z[0], z[1], beta=0, alpha=0.5)),
    ],
    ids=["addcdiv", "trace", "addr"],
)
def test_complex_numbers_where_the_kernel_takes_real_ones(call):
    class Complex(torch.nn.Module):
        def forward(self, x):
            return call(torch.view_as_complex(x))

    x = (torch.randn(3, 3, 2),)
    program = et.to_edge(torch.export.export(Complex(), x)).to_executorch()
    torch.testing.assert_close(
        et.Runtime.get().load_program(program.buffer).load_method("forward").execute(x)[0], Complex()(*x)
    )


def test_outer_products_scale_a_vector_first():
    x, scale = torch.full((1,), 1e20), 1e-20

    class Outer(torch.nn.Module):
        def forward(self, m, a, b):
            return torch.addr(m, a, b, beta=0, alpha=scale)

    inputs = (torch.zeros(1, 1), x, x)
    program = et.to_edge(torch.export.export(Outer(), inputs)).to_executorch()
    output = et.Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)[0]
    torch.testing.assert_close(output, Outer()(*inputs))


class _Turning(nn.Module):
    """A phase that each call turns on: as one complex buffer, or as the pairs that the error recommends."""

    def __init__(self, as_pairs):
        super().__init__()
        self.as_pairs = as_pairs
        start = torch.ones(3, dtype=torch.complex64)
        self.register_buffer("phase", torch.view_as_real(start).clone() if as_pairs else start)
        self.register_buffer("turn", torch.polar(torch.ones(3), torch.tensor([0.1, 0.2, 0.3])))

    def forward(self, x):
        turned = (torch.view_as_complex(self.phase) if self.as_pairs else self.phase) * self.turn
        self.phase.copy_(torch.view_as_real(turned) if self.as_pairs else turned)
        return (turned * x).real


def test_complex_state_is_refused_with_what_to_write_instead():
    x = torch.tensor([1.0, -2.0, 3.0])
    with pytest.raises(et.NotSupportedError, match=r"buffer 'phase' is complex .* torch.view_as_real of it"):
        et.to_edge(torch.export.export(_Turning(False), (x,))).to_executorch()
    model = _Turning(True)
    module = et.load(et.to_edge(torch.export.export(model, (x,))).to_executorch().buffer)
    for _ in range(3):
        torch.testing.assert_close(module(x), model(x))
