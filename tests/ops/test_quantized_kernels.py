"""Integer kernels (kernels/quantized) against eager, and against the formulas of docs/reference/numerics.md.

PyTorch computes the formulas on exact sums.

Sums are made in float64, where they are exact; scales are multiplied in float32; torch.round rounds halves to even.
Results must be equal. Against the eager reference (dequantize, compute in floats, quantize) one step in a thousand
outputs is allowed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from .kernel_runner import KernelError, run_kernel

pytest.importorskip("torch.ao.quantization.fx._decomposed")  # registers the operators


q = torch.ops.quantized_decomposed


LIMITS = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-32768, 32767)}


DTYPES = list(LIMITS)


def _f32(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float32)


def _random(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    low, high = LIMITS[dtype]
    return torch.randint(low, high + 1, shape, generator=generator).to(dtype)


def _requantized(
    sums: torch.Tensor,
    factor: torch.Tensor,
    zero_point: int,
    clamp: tuple[int, int],
    dtype: torch.dtype,
    most: float = 0,
) -> torch.Tensor:
    """Sums as integers of the output (docs/reference/numerics.md). ``most``: bound of a sum of 16-bit products."""
    low, high = clamp
    if dtype != torch.int16:
        units = (sums.float() * factor).clamp(low - zero_point, high - zero_point)
        return (units.round() + zero_point).to(dtype)
    surplus = 0
    while (most + 2**30) / 2**surplus >= 2**31:
        surplus += 1
    sums = (sums.long() + (1 << surplus >> 1)) >> surplus
    units = (sums.double() * factor.double() * 2**surplus + 0.5).floor()
    return (units + zero_point).clamp(low, high).to(dtype)


def _near(actual: torch.Tensor, eager: torch.Tensor) -> None:
    """One step, in at most one of a thousand outputs (or one in all, when there are fewer).

    int16: one of a hundred, because the floats that eager computes in have only 8 bits below a step there.
    """
    difference = (actual.long() - eager.long()).abs()
    assert difference.max() <= 1
    per = 100 if actual.dtype == torch.int16 else 1000
    assert difference.count_nonzero() <= max(1, difference.numel() // per)


class Case:
    """Random parameters: dtype, zero points, scales that keep most outputs inside of the range, a clamp now and
    then.
    """

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.low, self.high = LIMITS[dtype]
        self.clamp = (self.low, self.high)
        if seed % 3 == 1:
            self.clamp = (self.low + (self.high - self.low) // 3, self.high - 5)

    def zero_point(self) -> int:
        if self.dtype == torch.int16:
            return 0
        return int(torch.randint(self.low, self.high + 1, (), generator=self.generator))

    def scale(self, low: float = 1e-3, high: float = 0.3) -> float:
        number = float(torch.rand((), generator=self.generator))
        return float(_f32(low * (high / low) ** number))

    def integers(self, *shape: int) -> torch.Tensor:
        return _random(shape, self.dtype, self.generator)

    def weight(self, *shape: int, bits: int = 8) -> torch.Tensor:
        half = 2 ** (bits - 1)
        return torch.randint(-half, half, shape, generator=self.generator).to(torch.int8)

    def eager(self, x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
        return q.dequantize_per_tensor(x, scale, zero_point, self.low, self.high, self.dtype)

    def quantized(self, x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
        integers = q.quantize_per_tensor(x, scale, zero_point, self.low, self.high, self.dtype)
        return integers.clamp(*self.clamp)


def _packed(weight: torch.Tensor) -> torch.Tensor:
    """Two columns a byte, the first in the low half, + 8; of an odd number the last has a byte."""
    shifted = F.pad((weight.to(torch.int16) + 8).to(torch.uint8), (0, weight.shape[1] % 2))
    return shifted[:, 0::2] | (shifted[:, 1::2] << 4)


def _packed_rows(weight: torch.Tensor) -> torch.Tensor:
    """Filters: two neighbours of the first dimension a byte."""
    return _packed(weight.flatten(1).T).T.reshape(-1, *weight.shape[1:]).contiguous()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(7))
def test_linear(seed: int, dtype: torch.dtype) -> None:
    c = Case(seed, dtype)
    k, n = (64, 24) if seed % 2 else (21, 7)
    x, w = c.integers(5, 3, k), c.weight(n, k, bits=4 if seed >= 5 else 8)
    in_scale, zero, out_zero = c.scale(), c.zero_point(), c.zero_point()
    scales = torch.rand(n if seed % 2 else 1, generator=c.generator) * 0.02 + 1e-3
    sums = (x.double() - zero) @ w.double().T
    out_scale = float(_f32(in_scale * float(scales.mean()) * float(sums.std()) * 4 / (c.high - c.low)))
    bias = (torch.randn(n, generator=c.generator) * float(sums.std())).to(torch.int32) if seed % 3 else None
    if bias is not None:
        sums = sums + bias
    out = torch.empty(5, 3, n, dtype=dtype)
    weight = _packed(w) if seed >= 5 else w
    run_kernel(
        "et::quantized_linear.out",
        [x, in_scale, zero, weight, scales, bias, out_scale, out_zero, *c.clamp, out],
    )
    factor = _f32(in_scale) * scales / _f32(out_scale)
    assert torch.equal(out, _requantized(sums, factor, out_zero, c.clamp, dtype, x.shape[-1] * 2**22))
    weights = w.float() * scales.reshape(-1, 1)
    real = None if bias is None else bias.double() * in_scale * scales.double()
    eager = F.linear(c.eager(x, in_scale, zero), weights, None if real is None else real.float())
    _near(out, c.quantized(eager, out_scale, out_zero))


CONVOLUTIONS = {
    "1d": ((2, 6, 17), (8, 6, 3), {"stride": (2,), "padding": (1,)}),
    "2d": ((2, 3, 9, 11), (8, 3, 3, 3), {"stride": (2, 1), "padding": (1, 2)}),
    "dilated": ((1, 4, 12, 12), (5, 4, 3, 2), {"dilation": (2, 3)}),
    "grouped": ((2, 8, 7, 7), (12, 2, 3, 3), {"groups": 4}),
    "depthwise": ((1, 6, 8, 9), (12, 1, 3, 3), {"groups": 6, "padding": (1, 1)}),
    "3d": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {}),
    "transposed": ((2, 4, 5, 6), (4, 3, 3, 3), {"stride": (2, 2), "padding": (1, 0), "output_padding": (1, 1)}),
    "transposed_grouped": ((1, 6, 5, 4), (6, 2, 2, 3), {"stride": (2, 3), "groups": 3}),
    "transposed_1d": ((2, 4, 9), (4, 5, 4), {"stride": (3,), "dilation": (2,)}),
}


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, dtype: torch.dtype, bits: int) -> None:
    x_shape, w_shape, options = CONVOLUTIONS[name]
    c = Case(len(name), dtype)
    spatial, transposed = len(x_shape) - 2, name.startswith("transposed")
    x, w = c.integers(*x_shape), c.weight(*w_shape, bits=bits)
    if name == "2d":
        x = x.to(memory_format=torch.channels_last)
    groups = options.get("groups", 1)
    channels = w_shape[1] * groups if transposed else w_shape[0]
    in_scale, zero, out_zero = c.scale(), c.zero_point(), c.zero_point()
    scales = torch.rand(channels, generator=c.generator) * 0.02 + 1e-3
    bias = torch.randint(-3000, 3000, (channels,), generator=c.generator).to(torch.int32)
    op = getattr(F, f"conv_transpose{spatial}d" if transposed else f"conv{spatial}d")
    sums = op(x.double() - zero, w.double(), bias.double(), **options)
    out_scale = float(_f32(in_scale * float(scales.mean()) * float(sums.std()) * 5 / (c.high - c.low)))
    out = torch.empty(sums.shape, dtype=dtype)
    if name == "2d":
        out = out.to(memory_format=torch.channels_last)
    lists = [
        list(options.get(key, default))
        for key, default in (("stride", [1] * spatial), ("padding", [0] * spatial), ("dilation", [1] * spatial))
    ]
    run_kernel(
        "et::quantized_convolution.out",
        [x, in_scale, zero, w if bits == 8 else _packed_rows(w), scales, bias, *lists, transposed]
        + [list(options.get("output_padding", [0] * spatial)), groups, out_scale, out_zero, *c.clamp, out],
    )
    factor = (_f32(in_scale) * scales / _f32(out_scale)).reshape(-1, *[1] * spatial)
    assert torch.equal(out, _requantized(sums, factor, out_zero, c.clamp, dtype))  # fewer than 256 terms


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_weight_only_convolution(name: str, per_channel: bool, bits: int) -> None:
    x_shape, w_shape, options = CONVOLUTIONS[name]
    c = Case(len(name), torch.int8)
    spatial, transposed = len(x_shape) - 2, name.startswith("transposed")
    x, w = torch.randn(x_shape, generator=c.generator), c.weight(*w_shape, bits=bits)
    if name == "2d":
        x = x.to(memory_format=torch.channels_last)
    axis, groups = int(transposed), options.get("groups", 1)
    scales = torch.rand(w_shape[axis] if per_channel else 1, generator=c.generator) * 0.02 + 1e-3
    zeros = torch.randint(-4, 4, scales.shape, generator=c.generator).to(torch.int8) if spatial == 2 else None
    shape = [-1 if d == axis else 1 for d in range(spatial + 2)]
    weights = (w.float() - (0 if zeros is None else zeros.reshape(shape))) * scales.reshape(shape)
    bias = torch.randn(w_shape[1] * groups if transposed else w_shape[0], generator=c.generator)
    op = getattr(F, f"conv_transpose{spatial}d" if transposed else f"conv{spatial}d")
    expected = op(x.double(), weights.double(), bias.double(), **options).clamp(-0.5, 1).float()
    out = torch.empty(expected.shape)
    lists = [
        list(options.get(key, default))
        for key, default in (("stride", [1] * spatial), ("padding", [0] * spatial), ("dilation", [1] * spatial))
    ]
    stored = w if bits == 8 else _packed_rows(w)
    rest = [transposed, list(options.get("output_padding", [0] * spatial)), groups, -0.5, 1, out]
    run_kernel("et::weight_only_convolution.out", [x, stored, scales, zeros, bias, *lists, *rest])
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_add_sub_mul(seed: int, dtype: torch.dtype) -> None:
    c = Case(seed, dtype)
    a, b = c.integers(3, 40, 50), c.integers(*((3, 40, 50) if seed % 2 else (40, 1)))
    a_scale, b_scale = c.scale(0.01, 0.1), c.scale(0.01, 0.1)
    a_zero, b_zero, out_zero = c.zero_point(), c.zero_point(), c.zero_point()
    x, y = c.eager(a, a_scale, a_zero), c.eager(b, b_scale, b_zero)
    for name, real in (("add", x + y), ("sub", x - y), ("mul", x * y)):
        out_scale = float(_f32(float(real.std()) * 5 / (c.high - c.low) * 1.03))
        out = torch.empty(3, 40, 50, dtype=dtype)
        arguments = [a, a_scale, a_zero, b, b_scale, b_zero, out_scale, out_zero, *c.clamp, out]
        run_kernel(f"et::quantized_{name}.out", arguments)
        _near(out, c.quantized(real, out_scale, out_zero))
        if name == "mul":
            product = (a.long() - a_zero) * (b.long() - b_zero)
            factor = _f32(a_scale) * _f32(b_scale) / _f32(out_scale)
            assert torch.equal(out, _requantized(product, factor, out_zero, c.clamp, dtype))
        if dtype != torch.int16 and name != "mul":
            assert torch.equal(out, _fixed_point(c, arguments, -1 if name == "sub" else 1))


def _fixed_point(c: Case, arguments: list, sign: int) -> torch.Tensor:
    """The sum as docs/reference/numerics.md writes it down: factors of 21 bits, halves up."""
    a, a_scale, a_zero, b, b_scale, b_zero, out_scale, out_zero = arguments[:8]
    left, right = float(_f32(a_scale) / _f32(out_scale)), float(_f32(b_scale) / _f32(out_scale))
    shift = 20 - int(torch.floor(torch.log2(torch.tensor(max(left, right), dtype=torch.float64))))
    first = int(torch.round(torch.tensor(left * 2.0**shift, dtype=torch.float64)))
    second = sign * int(torch.round(torch.tensor(right * 2.0**shift, dtype=torch.float64)))
    total = (a.long() - a_zero) * first + (b.long() - b_zero) * second + (1 << (shift - 1))
    return ((total >> shift) + out_zero).clamp(*c.clamp).to(c.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batched", [True, False])
def test_matmul(batched: bool, dtype: torch.dtype) -> None:
    c = Case(4, dtype)
    lead = (3,) if batched else ()
    a, b = c.integers(*lead, 9, 31), c.integers(*lead, 31, 12)
    a_scale, b_scale, a_zero, b_zero, out_zero = 0.02, 0.013, c.zero_point(), c.zero_point(), c.zero_point()
    sums = (a.double() - a_zero) @ (b.double() - b_zero)
    out_scale = float(_f32(a_scale * b_scale * float(sums.std()) * 5 / (c.high - c.low)))
    out = torch.empty(sums.shape, dtype=dtype)
    run_kernel(
        "et::quantized_matmul.out",
        [a, a_scale, a_zero, b, b_scale, b_zero, out_scale, out_zero, *c.clamp, out],
    )
    factor = _f32(a_scale) * _f32(b_scale) / _f32(out_scale)
    assert torch.equal(out, _requantized(sums, factor, out_zero, c.clamp, dtype, 31 * 2**30))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_averages(dtype: torch.dtype) -> None:
    c = Case(2, dtype)
    x = c.integers(4, 6, 13, 17)
    scale, zero, out_scale, out_zero = 0.0312345, c.zero_point(), 0.0113579, c.zero_point()
    real = c.eager(x, scale, zero)
    tail = [out_scale, out_zero, *c.clamp]
    for dims, keep in (([2, 3], True), ([-1], False), ([0, 2], False), ([1], True)):
        expected = c.quantized(real.mean(dims, keepdim=keep), out_scale, out_zero)
        out = torch.empty_like(expected)
        run_kernel("et::quantized_mean.out", [x, scale, zero, dims, keep, *tail, out])
        _near(out, expected)
    for kernel, stride, padding, ceil, counts, divisor in (
        ([2, 2], [2, 2], [0, 0], False, True, None),
        ([3, 2], [2, 1], [1, 1], True, True, None),
        ([3, 3], [2, 2], [1, 1], True, False, None),
        ([4, 3], [3, 2], [2, 1], False, False, 7),
    ):
        pooled = F.avg_pool2d(real, kernel, stride, padding, ceil, counts, divisor)
        expected = c.quantized(pooled, out_scale, out_zero)
        out = torch.empty_like(expected)
        run_kernel(
            "et::quantized_avg_pool2d.out",
            [x, scale, zero, kernel, stride, padding, ceil, counts, divisor, *tail, out],
        )
        _near(out, expected)
    for size in ([1, 1], [4, 5], [13, 3]):
        expected = c.quantized(F.adaptive_avg_pool2d(real, size), out_scale, out_zero)
        out = torch.empty_like(expected)
        run_kernel("et::quantized_adaptive_avg_pool2d.out", [x, scale, zero, size, *tail, out])
        _near(out, expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_table_and_softmax(dtype: torch.dtype) -> None:
    c = Case(0, dtype)
    x = c.integers(6, 7, 8).to(memory_format=torch.contiguous_format)
    table = _random((256,), torch.int8, c.generator)
    out = torch.empty(6, 7, 8, dtype=torch.int8)
    run_kernel("et::quantized_table.out", [x, table, out])
    assert torch.equal(out, table[(x.long() - c.low)])
    for dim in (-1, 0):
        for scale in (0.02, 0.3):
            expected = c.quantized(c.eager(x, scale, 5).softmax(dim), 1 / 256, c.low)
            out = torch.empty_like(expected)
            run_kernel("et::quantized_softmax.out", [x, scale, dim, 1 / 256, c.low, c.low, c.high, out])
            _near(out, expected)


@pytest.mark.parametrize("scale", [1e-3, 0.02, 0.3, 3.0])
@pytest.mark.parametrize("length", [1, 2, 50, 1000, 40000])
def test_softmax_of_any_length(length: int, scale: float) -> None:
    c = Case(0, torch.int8)
    for low, high in ((-128, 128), (127, 128), (-128, -127), (0, 3)):
        x = torch.randint(low, high, (3, length), dtype=torch.int8, generator=c.generator)
        for out_scale, zero in ((1 / 256, -128), (1 / length, 3), (2.0**-9, 0), (7.0, 5)):
            expected = c.quantized(c.eager(x, scale, 5).softmax(-1), out_scale, zero)
            out = torch.empty_like(expected)
            run_kernel("et::quantized_softmax.out", [x, scale, -1, out_scale, zero, c.low, c.high, out])
            _near(out, expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "numbers", "bool", "grouped"])
@pytest.mark.parametrize("sizes", [(9, 9, 8, 8), (50, 300, 64, 64), (1, 40, 20, 7), (200, 1000, 32, 48)], ids=str)
def test_attention(sizes: tuple[int, ...], kind: str, dtype: torch.dtype) -> None:
    """Weights are close to uniform, of a few keys, and of one key; means of values are spread over many steps."""
    rows, keys, depth, width = sizes
    c = Case(0, dtype)
    heads = (2, 4) if kind == "grouped" else (2, 2)
    shapes = ((3, heads[1], rows, depth), (3, heads[0], keys, depth), (3, heads[0], keys, width))
    query, key, value = (c.integers(*shape).contiguous() for shape in shapes)
    masks = {
        "numbers": torch.randn(rows, keys, generator=c.generator),
        "bool": torch.rand(3, 1, rows, keys, generator=c.generator) < 0.7,
    }
    mask = masks.get(kind)
    for scale, out_scale in ((0.002, 0.002), (0.02, 0.01), (0.2, 0.02)):
        zeros = [zero + c.low + 128 for zero in (5, -3, 30)]
        floats = c.eager(query, scale, zeros[0]), c.eager(key, scale, zeros[1]), c.eager(value, 0.02, zeros[2])
        options = {"is_causal": kind == "causal", "scale": None, "enable_gqa": kind == "grouped"}
        expected = F.scaled_dot_product_attention(*floats, mask, **options)
        expected = c.quantized(expected, out_scale, c.low + 132)
        out = torch.empty_like(expected)
        arguments = [query, scale, zeros[0], key, scale, zeros[1], value, 0.02, zeros[2], mask, *options.values()]
        arguments += [out_scale, c.low + 132]
        run_kernel("et::quantized_attention.out", [*arguments, c.low, c.high, out])
        _near(out, expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", [(4, 1), (40, 2), (30, 7, 96), (9, 3, 5, 7), (5, 2048), (3, 3000)], ids=str)
def test_layer_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    c = Case(0, dtype)
    dims = list(shape[-2:]) if len(shape) == 4 else [shape[-1]]
    weight, bias = torch.randn(dims, generator=c.generator), torch.randn(dims, generator=c.generator)
    x = c.integers(*shape).contiguous()
    rows = x.flatten(0, x.dim() - 1 - len(dims))
    rows[0] = rows[0].flatten()[0]  # all the same
    rows[1] = torch.where(torch.rand(rows[1].shape, generator=c.generator) < 0.5, c.low, c.high).to(dtype)
    for scale, eps in ((0.02, 1e-5), (0.3, 1e-12), (0.001, 1e-3)):
        for parameters in ((weight, bias), (weight, None), (None, None)):
            expected = torch.nn.functional.layer_norm(c.eager(x, scale, 5), dims, *parameters, eps)
            expected = c.quantized(expected, 0.03, 4)
            out = torch.empty_like(expected)
            run_kernel(
                "et::quantized_layer_norm.out", [x, scale, 5, dims, *parameters, eps, 0.03, 4, c.low, c.high, out]
            )
            off = (out.int() - expected.int()).abs()
            assert off.max() <= 1 and off.count_nonzero() <= max(2, off.numel() // 500)


def test_layer_norm_of_far_parameters() -> None:
    """Numbers that no integers of 32 bits hold end at the ends of the range; NaN is 0."""
    x, out = torch.arange(-8, 8, dtype=torch.int8).reshape(1, 16), torch.empty(1, 16, dtype=torch.int8)
    for weight, bias in ((1e30, 0.0), (torch.inf, -1e38), (torch.nan, torch.nan), (1e-38, 1e-38), (0.0, torch.inf)):
        for out_scale in (1e-30, 1.0, 1e30):
            given = [torch.full((16,), weight), torch.full((16,), bias), 1e-5, out_scale, 4, -128, 127, out]
            run_kernel("et::quantized_layer_norm.out", [x, 0.1, 0, [16], *given])
    with pytest.raises(KernelError, match="weight has 3 elements for rows of 16"):
        run_kernel("et::quantized_layer_norm.out", [x, 0.1, 0, [16], torch.ones(3), None, 1e-5, 0.1, 0, -128, 127, out])
    with pytest.raises(KernelError, match="are not those of normalized_shape"):
        run_kernel("et::quantized_layer_norm.out", [x, 0.1, 0, [8], None, None, 1e-5, 0.1, 0, -128, 127, out])


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("group", [0, 16])
@pytest.mark.parametrize("kind", ["tensor", "tensor_symmetric", "token", "token_symmetric"])
def test_dynamic_linear(kind: str, group: int, bits: int) -> None:
    c = Case(1, torch.int8)
    x = torch.randn(5, 64, generator=c.generator) * 2 + 0.3
    w = c.weight(12, 64, bits=bits)
    scales = torch.rand(12, 64 // group if group else 1, generator=c.generator) * 0.05 + 0.01
    bias = torch.randn(12, generator=c.generator)
    symmetric, per_token = kind.endswith("symmetric"), kind.startswith("token")
    if per_token:
        choose = q.choose_qparams_per_token if symmetric else q.choose_qparams_per_token_asymmetric
        scale, zero = choose(x, torch.int8)
        eager = q.dequantize_per_token(
            q.quantize_per_token(x, scale.double(), zero.long(), -128, 127, torch.int8),
            scale.double(), zero.long(), -128, 127, torch.int8, torch.float32,
        )  # fmt: skip
        eps = 1e-5 if symmetric else torch.finfo(torch.float32).eps
    else:
        choose = q.choose_qparams_symmetric.tensor if symmetric else q.choose_qparams.tensor
        eps = 1e-6
        parameters = choose(x, -128, 127, eps, torch.int8)
        integers = q.quantize_per_tensor.tensor(x, *parameters, -128, 127, torch.int8)
        eager = q.dequantize_per_tensor.tensor(integers, *parameters, -128, 127, torch.int8)
    weights = (w.reshape(12, -1, group or 64).float() * scales.unsqueeze(-1)).reshape(12, 64)
    out = torch.empty(5, 12)
    run_kernel(
        "et::dynamic_linear.out",
        [x, _packed(w) if bits == 4 else w, scales.reshape(-1), bias, group, per_token, symmetric, -128, 127, eps, out],
    )
    torch.testing.assert_close(
        out, F.linear(eager.double(), weights.double(), bias.double()).float(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("columns", "group"), [(32, 0), (32, 8), (33, 0), (33, 11)])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("scale_type", [torch.float32, torch.bfloat16], ids=str)
def test_weight_only(scale_type: torch.dtype, zeros: bool, columns: int, group: int, bits: int) -> None:
    c = Case(3, torch.int8)
    x, w = torch.randn(2, 3, columns, generator=c.generator), c.weight(10, columns, bits=bits)
    scales = torch.rand(10, columns // group if group else 1, generator=c.generator) * 0.05 + 0.01
    scales = scales.to(scale_type)
    zero_points = torch.randint(-4, 4, scales.shape, generator=c.generator) if zeros else None
    grouped = w.reshape(10, -1, group or columns).float()
    if zero_points is not None:
        grouped = grouped - zero_points.unsqueeze(-1)
    weights = (grouped * scales.float().unsqueeze(-1)).reshape(10, columns)
    stored = _packed(w) if bits == 4 else w
    flat_zeros = None if zero_points is None else zero_points.reshape(-1)
    out = torch.empty(2, 3, 10)
    run_kernel("et::weight_only_linear.out", [x, stored, scales.reshape(-1), flat_zeros, None, group, out])
    torch.testing.assert_close(out, F.linear(x.double(), weights.double()).float(), rtol=1e-5, atol=1e-5)
    indices = torch.tensor([[1, 9, 0], [3, 3, 4]])
    rows = torch.empty(2, 3, columns)
    run_kernel("et::quantized_embedding.out", [stored, scales.reshape(-1), flat_zeros, indices, columns, group, rows])
    assert torch.equal(rows, F.embedding(indices, weights))


def test_saturation_and_extreme_scales() -> None:
    x = torch.tensor([[-128, 127, 0]], dtype=torch.int8)
    w = torch.tensor([[127, 127, 127], [-128, -128, -128]], dtype=torch.int8)
    out = torch.empty(1, 2, dtype=torch.int8)
    for scale in (1e-30, 1e-8, 1e20):
        run_kernel("et::quantized_linear.out", [x, 1.0, -128, w, torch.tensor([scale]), None, 1.0, 3, -128, 127, out])
        expected = [127, -128] if scale > 1 else [3, 3]
        assert out.tolist() == [expected]
    huge = torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32)  # the sum wraps, as int32 does
    run_kernel("et::quantized_linear.out", [x, 1.0, -128, w, torch.tensor([1e-7]), huge, 1.0, 0, -128, 127, out])
    sums = (x.long() + 128) @ w.long().T + huge
    wrapped = (sums + 2**31) % 2**32 - 2**31
    assert torch.equal(out, (wrapped.float() * _f32(1e-7)).round().clamp(-128, 127).to(torch.int8))


X, W, S = torch.zeros(2, 4, dtype=torch.int8), torch.zeros(3, 4, dtype=torch.int8), torch.ones(3)


OUT, F24, F23 = torch.zeros(2, 3, dtype=torch.int8), torch.zeros(2, 4), torch.zeros(2, 3)


LINEAR, CONV = "et::quantized_linear.out", "et::quantized_convolution.out"


IMAGE, IMAGE_OUT = [torch.zeros(1, 2, 5, dtype=torch.int8), 1.0, 0], torch.zeros(1, 3, 5, dtype=torch.int8)


W8, ONES = torch.zeros(3, 2, 1, dtype=torch.uint8), ([1], [0], [1])


FLOAT_CONV, FLOATS, FLOATS_OUT = "et::weight_only_convolution.out", torch.zeros(1, 2, 5), torch.zeros(1, 3, 5)


BAD = [
    (LINEAR, [X, 0.0, 0, W, S, None, 1.0, 0, -128, 127, OUT], "input_scale is 0"),
    (LINEAR, [X, 1e-42, 0, W, S, None, 1.0, 0, -128, 127, OUT], "normal float"),
    (LINEAR, [X, 1.0, 0, W, S, None, 0.0, 0, -128, 127, OUT], "output_scale is 0"),
    (LINEAR, [X, 1.0, 300, W, S, None, 1.0, 0, -128, 127, OUT], "input_zero_point is 300"),
    (LINEAR, [X, 1.0, 0, W, S, None, 1.0, 0, 5, 4, OUT], "output_min 5 is above output_max 4"),
    (LINEAR, [X, 1.0, 0, W, torch.ones(2), None, 1.0, 0, -128, 127, OUT], "2 weight_scales for 3"),
    (LINEAR, [X, 1.0, 0, W, S.double(), None, 1.0, 0, -128, 127, OUT], "weight_scales are torch.float64"),
    (LINEAR, [X, 1.0, 0, W[:, :3].contiguous(), S, None, 1.0, 0, -128, 127, OUT], "must have 4 for 4 columns"),
    (LINEAR, [X, 1.0, 0, W.to(torch.uint8), S, None, 1.0, 0, -128, 127, OUT], "must have 2 for 4 columns"),
    (LINEAR, [X, 1.0, 0, W, S, torch.zeros(3), 1.0, 0, -128, 127, OUT], "bias is torch.float32"),
    (LINEAR, [X.float(), 1.0, 0, W, S, None, 1.0, 0, -128, 127, OUT.float()],
     "must be torch.int8, torch.uint8 or torch.int16"),
    (LINEAR, [X, 1e30, 0, W, S, None, 1e-30, 0, -128, 127, OUT], "no finite ratio"),
    (CONV, [*IMAGE, W8, S, None, *ONES, False, [0], 1, 1.0, 0, -128, 127, IMAGE_OUT], "no pairs of 3 rows"),
    (CONV, [*IMAGE, W8, S, None, *ONES, True, [0], 1, 1.0, 0, -128, 127, IMAGE_OUT], "no pairs of 2 rows"),
    (FLOAT_CONV, [FLOATS, W8, S, None, None, *ONES, False, [0], 1, None, None, FLOATS_OUT], "does not hold 3 rows"),
    (FLOAT_CONV, [FLOATS, W8[:2], S[:2], None, None, *ONES, False, [0], 1, None, None, FLOATS_OUT], "2 weight_scales"),
    (FLOAT_CONV, [FLOATS, W8[:2], S.double(), None, None, *ONES, False, [0], 1, None, None, FLOATS_OUT],
     "must be torch.float32"),
    (FLOAT_CONV, [FLOATS, W8[:2].long(), S, None, None, *ONES, False, [0], 1, None, None, FLOATS_OUT], "torch.int64"),
    ("et::quantized_table.out", [X, torch.zeros(255, dtype=torch.int8), X.clone()], "must be 256 elements"),
    ("et::quantized_add.out", [X, 1.0, 0, X.to(torch.uint8), 1.0, 0, 1.0, 0, -128, 127, X.clone()],
     "other is torch.uint8"),
    ("et::quantized_matmul.out", [X, 1.0, 0, X, 1.0, 0, 1.0, 0, -128, 127, X.clone()], "do not fit together"),
    ("et::dynamic_linear.out", [F24, W, S, None, 3, False, False, -128, 127, 1e-5, F23], "groups of 3"),
    ("et::dynamic_linear.out", [F24, W, S, None, 0, False, False, 3, 127, 1e-5, F23], "no range"),
    ("et::dynamic_linear.out", [F24 / 0, W, S, None, 0, False, False, -128, 127, 1e-5, F23], "not finite"),
    ("et::weight_only_linear.out", [F24, W, S, torch.zeros(2).long(), None, 0, F23], "2 zero points for 3"),
    ("et::quantized_embedding.out", [W, S, None, torch.tensor([0, 3]), 4, 0, F24], "index 3 is not one of 3"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "message"), BAD, ids=[f"{b[0]}-{b[2]}" for b in BAD])
def test_errors(name: str, arguments: list, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run_kernel(name, arguments)


TYPES = {torch.int8: (-128, 128), torch.uint8: (0, 256), torch.int16: (-32768, 32768)}


def integers(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    return torch.randint(*TYPES[dtype], sizes, generator=torch.Generator().manual_seed(4)).to(dtype)


def largest(spatial: int, size: list[int]) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    pool = F.adaptive_max_pool2d if spatial == 2 else F.adaptive_max_pool3d
    return lambda x: pool(x, size, return_indices=True)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("spatial", "size"), [(2, [3, 4]), (2, [1, 1]), (2, [9, 7]), (3, [2, 3, 2])])
def test_largest_of_regions(dtype: torch.dtype, spatial: int, size: list[int]) -> None:
    for layout in [torch.contiguous_format, *([torch.channels_last] if spatial == 2 else [])]:
        x = integers(dtype, 2, 3, *(9, 7, 5)[:spatial]).to(memory_format=layout)
        values, places = largest(spatial, size)(x.float())
        ours = torch.zeros(values.shape, dtype=dtype).to(memory_format=layout)
        at = torch.zeros(values.shape, dtype=torch.int64).to(memory_format=layout)
        run_kernel(f"aten::adaptive_max_pool{spatial}d.out", [x, size, ours, at])
        assert torch.equal(ours.float(), values) and torch.equal(at, places)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("padding", [[0, 0], [2, 1]])
def test_windows(dtype: torch.dtype, padding: list[int]) -> None:
    x = integers(dtype, 2, 3, 9, 8)
    expected = F.unfold(x.float(), [3, 2], [2, 1], padding, [1, 2])
    ours = torch.ones(expected.shape, dtype=dtype)
    run_kernel("aten::im2col.out", [x, [3, 2], [2, 1], padding, [1, 2], ours])
    assert torch.equal(ours.float(), expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("factor", [2.0, 1.7, 0.6])
def test_the_nearest(dtype: torch.dtype, rank: int, exact: bool, factor: float) -> None:
    x = integers(dtype, 2, 3, *(9, 7, 5)[:rank])
    mode = "nearest-exact" if exact else "nearest"
    for layout in [torch.contiguous_format, *([torch.channels_last] if rank == 2 else [])]:
        expected = F.interpolate(x.float().to(memory_format=layout), scale_factor=factor, mode=mode)
        ours = torch.zeros(expected.shape, dtype=dtype).to(memory_format=layout)
        namespace = "aten" if rank == 2 and not exact else "et"
        name = f"{namespace}::{'_' if exact else ''}upsample_nearest{'_exact' if exact else ''}{rank}d.vec_out"
        run_kernel(name, [x.to(memory_format=layout), None, [factor] * rank, ours], "TLFT")
        assert torch.equal(ours.float(), expected)
