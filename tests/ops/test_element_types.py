"""Operators in every element type through the whole runtime, so with the kernels that a program really gets, against
eager. Sizes go beyond a vector and beyond the pieces that are converted at a time; operands broadcast and hold NaN and
infinities.

Integers must be equal bit for bit; floats of 16 bits may differ by one rounding of the result.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import executorch_py as et

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6, torch.float64: 1e-12}

Function = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


class _All(nn.Module):
    """Every function of a table on the same inputs."""

    def __init__(self, functions: dict[str, Function]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for function in self.functions.values():
            result = function(*inputs)
            results += [result] if isinstance(result, torch.Tensor) else list(result)
        return results


def run(functions: dict[str, Function], *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The results of one program of all functions."""
    program = et.to_edge(torch.export.export(_All(functions), inputs)).to_executorch().buffer
    return et.Runtime.get().load_program(program).load_method("forward").execute(inputs)


def check(functions: dict[str, Function], *inputs: torch.Tensor, tolerance: float | None = None) -> None:
    """Each result as eager's."""
    actual = run(functions, *inputs)
    names = [
        name for name, f in functions.items() for _ in ([0] if isinstance(f(*inputs), torch.Tensor) else f(*inputs))
    ]
    for name, ours, eager in zip(names, actual, _All(functions)(*inputs), strict=True):
        bound = TOLERANCE.get(eager.dtype, 0.0) if tolerance is None else tolerance
        torch.testing.assert_close(
            ours, eager, rtol=bound, atol=bound, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}"
        )


def numbers(dtype: torch.dtype, *shape: int, seed: int = 0, special: bool = True) -> torch.Tensor:
    """All values of a small integer type, wide ones of a large one; floats with NaN, infinities and zeros among
    them.
    """
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.randint(max(info.min, -(2**40)), min(info.max, 2**40) + 1, shape, generator=generator).to(dtype)
    x = torch.randn(shape, generator=generator)
    if special:
        flat = x.view(-1)
        flat[::97], flat[1::193], flat[2::211], flat[3::89] = torch.nan, torch.inf, -torch.inf, -0.0
    return x.to(dtype)


ARITHMETIC: dict[str, Function] = {
    "add": lambda a, b, row: a + b,
    "add row": lambda a, b, row: a + row,
    "add column": lambda a, b, row: a + row.view(-1)[:3].view(3, 1),
    "add number": lambda a, b, row: a + 3,
    "sub": lambda a, b, row: a - b,
    "mul": lambda a, b, row: a * b,
    "mul number": lambda a, b, row: a * 3,
    "maximum": lambda a, b, row: torch.maximum(a, b),
    "minimum": lambda a, b, row: torch.minimum(a, row),
    "eq": lambda a, b, row: a == b,
    "lt": lambda a, b, row: a < row,
    "ge number": lambda a, b, row: a >= 2,
    "ne number": lambda a, b, row: a != 1,
    "where": lambda a, b, row: torch.where(b > 0, a, row),
    "masked_fill": lambda a, b, row: a.masked_fill(b > 0, 7),
    "div": lambda a, b, row: a / b,
    "div number": lambda a, b, row: a / 3,
}


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_arithmetic(dtype: torch.dtype) -> None:
    check(ARITHMETIC, numbers(dtype, 3, 1301), numbers(dtype, 3, 1301, seed=1), numbers(dtype, 1301, seed=2))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits(dtype: torch.dtype) -> None:
    functions = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "and number": lambda a, b: a & 5,
        "or number": lambda a, b: a | 5,
        "xor number": lambda a, b: a ^ 5,
    }
    check(functions, numbers(dtype, 3, 777), numbers(dtype, 777, seed=1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_small_floats_with_numbers_that_they_do_not_hold(dtype: torch.dtype) -> None:
    functions = {
        "add": lambda x: x + 0.1,
        "add scaled": lambda x: torch.add(x, x, alpha=0.3),
        "sub": lambda x: torch.sub(x, 0.7, alpha=0.3),
        "mul": lambda x: x * 0.1,
        "div": lambda x: x / 0.3,
        "gt": lambda x: x > 0.1,
        "eq": lambda x: x == 0.1,
    }
    check(functions, torch.cat([numbers(dtype, 1000), torch.full((3,), 0.1, dtype=dtype)]))


UNARY = [
    "relu", "sigmoid", "tanh", "exp", "erf", "sqrt", "rsqrt", "reciprocal", "neg", "abs", "sin", "cos", "tan", "asin",
    "acos",
    "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log", "log2", "log10", "log1p", "expm1", "exp2", "ceil",
    "floor",
    "round", "trunc", "frac", "sign",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_functions_of_small_floats(dtype: torch.dtype) -> None:
    functions: dict[str, Function] = {name: getattr(torch, name) for name in UNARY}
    functions |= {
        "silu": F.silu,
        "gelu": lambda x: F.gelu(x.clamp(-20, 20)),  # of infinity eager gives NaN for some types
        "hardswish": F.hardswish,
        "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
        "clamp": lambda x: x.clamp(-0.3, 0.7),
        "pow": lambda x: x**2.5,
        "square": lambda x: x**2,
    }
    check(functions, numbers(dtype, 2, 1100))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool], ids=str)
def test_functions_that_make_floats_of_integers(dtype: torch.dtype) -> None:
    names = ["sigmoid", "tanh", "exp", "erf", "sqrt", "rsqrt", "reciprocal", "sin", "atan", "log", "log1p", "expm1"]
    x = torch.randint(0, 2 if dtype is torch.bool else 60, (1500,)).to(dtype)
    check({name: getattr(torch, name) for name in names}, x)


REDUCTIONS: dict[str, Function] = {
    f"{name} {dim}": (lambda x, name=name, dim=dim: getattr(torch, name)(x, dim=dim))
    for name in ("sum", "mean", "amax", "amin", "std", "var", "logsumexp")
    for dim in (-1, 0, (0, 1), (1, 2))
} | {
    "prod": lambda x: torch.prod(x[:, :, :21], -1),
    "prod columns": lambda x: torch.prod(x[:, :4], 1),
    "max": torch.max,
    "min": torch.min,
    "sum all": torch.sum,
    "mean all": torch.mean,
    "any": lambda x: (x > 2).any(),
    "any rows": lambda x: (x > 2).any(-1),
    "all columns": lambda x: (x > -2).all(0),
    "count": lambda x: torch.count_nonzero(x),
}


@pytest.mark.parametrize("special", [False, True], ids=["numbers", "special"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_reductions(dtype: torch.dtype, special: bool) -> None:
    x = numbers(dtype, 5, 67, 1301, special=False)
    functions = REDUCTIONS
    if special:  # eager multiplies 16-bit floats in their own type, where parts of a product overflow
        functions = {name: f for name, f in REDUCTIONS.items() if "prod" not in name}
        x[0, 3, 5], x[1, :, 7], x[2, 4, :], x[3, 1, 1] = torch.nan, -torch.inf, torch.inf, torch.inf
    check(functions, x, tolerance={torch.float32: 2e-5, torch.float64: 1e-11}.get(dtype))


PLACES: dict[str, Function] = {
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "argmax rows": lambda x: torch.argmax(x, -1),
    "argmin columns": lambda x: torch.argmin(x, 0, keepdim=True),
    "max": lambda x: tuple(torch.max(x, 1)),
    "max rows": lambda x: tuple(torch.max(x, 2, keepdim=True)),
    "max columns": lambda x: tuple(torch.max(x, 0)),
    "min": lambda x: tuple(torch.min(x, 1)),
    "min rows": lambda x: tuple(torch.min(x, -1)),
    "min columns": lambda x: tuple(torch.min(x, -3)),
}


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_extremes_with_places(dtype: torch.dtype) -> None:
    # Many equal elements: the first of them counts.
    x = torch.randint(0, 9, (37, 3, 1301)).to(dtype)
    check(PLACES, x)
    check(PLACES, x[:, :, :5].contiguous())
    if dtype.is_floating_point:
        x = numbers(dtype, 37, 3, 1301, special=False)
        x[4, 1, 1200], x[9, 1, 1200], x[4, 2, 3], x[6, 0, :] = torch.nan, torch.nan, torch.inf, -torch.inf
        check(PLACES, x)


PRODUCTS: dict[str, Function] = {
    "mm": lambda a, b, c, v: a @ b,
    "mm of transposed": lambda a, b, c, v: b.T @ a.T,
    "bmm": lambda a, b, c, v: torch.bmm(a.view(2, -1, a.shape[1]), torch.stack([b, b])),
    "addmm": lambda a, b, c, v: torch.addmm(c, a, b, beta=2, alpha=3),
    "addmm without": lambda a, b, c, v: torch.addmm(c, a, b, beta=0),
    "baddbmm": lambda a, b, c, v: torch.baddbmm(
        c.view(2, -1, c.shape[1]), a.view(2, -1, a.shape[1]), torch.stack([b, b])
    ),
    "mv": lambda a, b, c, v: torch.mv(a, v),
    "dot": lambda a, b, c, v: torch.dot(v, v),
}


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.float64], ids=str)
def test_products(dtype: torch.dtype) -> None:
    for m, k, n in ((2, 3, 5), (26, 300, 77), (34, 64, 19)):
        a, b, c, v = (numbers(dtype, *s, seed=i, special=False) for i, s in enumerate([(m, k), (k, n), (m, n), (k,)]))
        check(PRODUCTS, a, b, c, v, tolerance=1e-10)
        check({"linear": F.linear}, a, b.T.contiguous(), v[:1].expand(n).contiguous(), tolerance=1e-10)


POOLS: dict[str, Function] = {
    "max_pool1d": lambda x: F.max_pool1d(x[0], 3, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d dilated": lambda x: F.max_pool2d(x, 2, 1, dilation=2, ceil_mode=True),
    "max_pool2d places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max_pool3d": lambda x: F.max_pool3d(x, 2, 1, 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x[0], 3, 2, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool2d real": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool2d by 5": lambda x: F.avg_pool2d(x, 2, divisor_override=5),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (3, 5), return_indices=True),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pools(dtype: torch.dtype) -> None:
    small = dtype in (torch.float16, torch.bfloat16)  # eager has no 3-D average of these
    check(
        {name: f for name, f in POOLS.items() if not small or name != "avg_pool3d"},
        numbers(dtype, 2, 3, 19, 150, special=False),
    )
    if dtype is torch.float32:
        return  # XNNPACK's kernel takes the largest number of a window, also where one is not a number
    x = numbers(dtype, 2, 3, 19, 20, special=False)
    x[0, 1, 5, 6], x[1, 2, 7, 8], x[1, 0, :9, :9] = torch.nan, torch.inf, -torch.inf
    check({name: f for name, f in POOLS.items() if "max" in name}, x)


def test_pools_of_images_with_channels_last() -> None:
    x = numbers(torch.bfloat16, 2, 5, 19, 21, special=False).to(memory_format=torch.channels_last)
    check({name: f for name, f in POOLS.items() if "2d" in name}, x)


def test_views_as_another_element_type() -> None:
    x = torch.randn(3, 4, 8)
    functions = {
        "i32": lambda x: (x * 2).view(torch.int32),
        "i16": lambda x: (x * 2).view(torch.int16),
        "u8": lambda x: x.view(torch.uint8),
        "i64": lambda x: (x + 1).view(torch.int64),
        "back": lambda x: (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32),
        "complex": lambda x: torch.view_as_real(x.view(torch.complex64) * 2),
    }
    check(functions, x)
    check({"scalar": lambda x: x.view(torch.int32)}, torch.tensor(1.5))
    check(
        {"channels last": lambda x: x.view(torch.int32)}, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    )


COMPLEX: dict[str, Function] = {
    "sum": lambda z: z.sum(),
    "sum rows": lambda z: z.sum(-1),
    "sum columns": lambda z: z.sum(0, keepdim=True),
    "sum outer": lambda z: z.sum((0, 2)),
    "mean": lambda z: z.mean(),
    "mean rows": lambda z: z.mean(-1),
    "mean columns": lambda z: z.mean(0),
    "mm": lambda z: z[0] @ z[1].T,
    "mm of a slice": lambda z: z[0, :, ::2] @ z[1, :, ::2].T,
    "addmm": lambda z: torch.addmm(z[0, :3, :5], z[0, :3], z[1, :5].T, beta=0.5, alpha=2),
    "bmm": lambda z: torch.bmm(z, z.mT),
    "baddbmm": lambda z: torch.baddbmm(z[:, :1, :7], z, z.mT, beta=2),
    "mv": lambda z: torch.mv(z[0], z[1, 0]),
    "dot": lambda z: torch.dot(z[0, 0], z[1, 0]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_and_products_of_complex_numbers(dtype: torch.dtype) -> None:
    """Complex numbers exist between operators: pairs come in and go out."""

    def on_pairs(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda pairs: torch.view_as_real(function(torch.view_as_complex(pairs)))

    functions = {name: on_pairs(function) for name, function in COMPLEX.items()}
    check(functions, torch.randn(2, 7, 19, 2, dtype=dtype), tolerance=1e-5 if dtype is torch.float32 else 1e-12)


NORMS: dict[str, Function] = {
    "softmax": lambda x, w, b: torch.softmax(x, -1),
    "softmax columns": lambda x, w, b: torch.softmax(x, 1),
    "log_softmax": lambda x, w, b: torch.log_softmax(x, -1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, (65,), w, b),
    "layer_norm plain": lambda x, w, b: F.layer_norm(x, (8, 65)),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w[:8], b[:8]),
    "batch_norm": lambda x, w, b: F.batch_norm(x, b[:8], w[:8].abs() + 1, w[:8], b[:8]),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_norms_of_small_floats(dtype: torch.dtype) -> None:
    shapes = ((3, 8, 65), (65,), (65,))
    check(NORMS, *(numbers(dtype, *shape, seed=i, special=False) for i, shape in enumerate(shapes)))


class _Image(torch.nn.Module):
    """Samples of 16 or 32 bits without a sign, as cameras and sound cards give them: moved, converted and kept."""

    def __init__(self, dtype):
        super().__init__()
        self.register_buffer("table", torch.tensor([7, 65535, 0]).to(dtype))
        self.register_buffer("last", torch.zeros(2, 6, 4, dtype=dtype))

    def forward(self, a, f):
        self.last.copy_(a)
        numbers = [
            a.to(kind) for kind in (torch.float32, torch.float64, torch.int32, torch.int64, torch.float16, torch.bool)
        ]
        parts = [
            a[:, 1:3],
            a.select(1, 2),
            *a.split(3, 1),
            a.unbind(2)[1],
            a[:, torch.tensor([1, 0])],
            a.index_select(2, torch.tensor([3, 0])),
        ]
        forms = [a.transpose(0, 1).contiguous(), a.reshape(-1), a.permute(2, 0, 1).reshape(4, 12), a.flip(0), a.clone()]
        return (
            numbers,
            parts,
            forms,
            torch.cat([a, a], 1),
            f.abs().to(a.dtype),
            self.table[1:],
            self.table.float(),
            self.last,
        )


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32])
def test_unsigned_samples(dtype):
    model = _Image(dtype).eval()
    a, f = (torch.arange(48) * 1365 % 65536).view(2, 6, 4).to(dtype), torch.tensor([1.5, -70.0, 40000.0])
    program = et.to_edge(torch.export.export(model, (a, f))).to_executorch()
    torch.testing.assert_close(et.load(program.buffer)(a, f), model(a, f), rtol=0, atol=0)


@pytest.mark.parametrize("size", [1, 3, 37])
@pytest.mark.parametrize("to", [*INTEGERS, torch.uint16, torch.bool], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_integers_of_floats_that_fit_none(dtype: torch.dtype, to: torch.dtype, size: int) -> None:
    """What eager makes of them on this processor, for all elements alike."""
    numbers = [
        torch.nan,
        torch.inf,
        -torch.inf,
        3e9,
        -3e9,
        5e9,
        2.0**40,
        1e19,
        -1e19,
        300.7,
        -300.7,
        70000.5,
        -0.0,
        3e38,
    ]
    rows = torch.tensor(numbers, dtype=torch.float64).repeat_interleave(size).to(dtype)
    check({"cast": lambda x: x.to(to)}, rows)


def test_truth_over_no_dimension() -> None:
    """An empty list reduces nothing."""
    for dtype in (torch.float32, torch.uint8, torch.bool, torch.int64):
        x = torch.tensor([[0, 1, 2], [0, 0, 3]]).to(dtype)
        for function in (torch.ops.aten.any.dims, torch.ops.aten.all.dims):
            for dims in ([], [0], [0, 1], None):
                check({"truth": lambda x, f=function, d=dims: f(x, d)}, x)
