"""Calls of operators that PyTorch's operator database does not come down to: fused, quantized and sparse products,
recurrent layers, random numbers, copies into another order. Seeds for tests that damage arguments
(test_damaged_calls.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .sweep import OPS
from .unreached_calls import unreached_calls

F = torch.nn.functional
LETTERS = {op.kernel_schema.name: "".join(a.letter for a in op.kernel_schema.arguments) for op in OPS.values()}
CLAMP = (-128, 127)


def own_calls() -> Iterator[tuple[str, list[Any], str]]:
    """Name of the kernel, arguments with outputs, letters of its signature."""
    torch.manual_seed(0)
    for calls in (_products, _images, _windows, _sparse, _integers, _recurrent, _numbers, unreached_calls):
        for name, *arguments in calls():
            yield name, arguments, LETTERS[name]


def _products() -> Iterator[tuple]:
    for rows in (1, 6):
        x, w, b = torch.randn(rows, 40), torch.randn(70, 40), torch.randn(70)
        yield "aten::linear.out", x, w, b, torch.empty(rows, 70)
        yield "et::linear_clamp.out", x, w, b, 0, 1.5, torch.empty(rows, 70)
        yield "et::addmm_clamp.out", b, x, w.t().contiguous(), 1, 1, None, 0.5, torch.empty(rows, 70)
    yield "et::linear_clamp.out", torch.randn(1, 300), torch.randn(129, 300), None, 0, 6, torch.empty(1, 129)
    many, narrow = torch.randn(2, 25, 21), torch.randn(20, 21)  # rows and outputs that fill half vectors
    yield "aten::linear.out", many, narrow, None, torch.empty(2, 25, 20)
    yield "et::linear_clamp.out", many, narrow, torch.randn(20), -1, 1, torch.empty(2, 25, 20)
    q, k, mask = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 9, 8), torch.rand(6, 9) > 0.4
    for given in (None, mask, torch.randn(2, 1, 6, 9)):
        yield "et::scaled_dot_product_attention.out", q, k, k * 2, given, 0.0, False, None, False, torch.empty_like(q)
    d, e = q.double(), k.double()
    yield "et::scaled_dot_product_attention.out", d, e, e * 2, mask, 0.0, False, None, False, torch.empty_like(d)
    few = torch.randn(2, 2, 6, 8)
    yield "et::scaled_dot_product_attention.out", q, few, few, None, 0.0, True, 0.3, True, torch.empty_like(q)
    ends = torch.tensor([5, 10, 24], dtype=torch.int32)
    yield "et::grouped_mm.out", torch.randn(24, 16), torch.randn(3, 16, 40), ends, None, torch.empty(24, 40)
    yield "et::grouped_mm.out", torch.randn(8, 24), torch.randn(24, 16), ends, None, torch.empty(3, 8, 16)


def _images() -> Iterator[tuple]:
    for dtype in (torch.float64, torch.int64):
        x, w, b = torch.ones(2, 8, 9, 10, dtype=dtype), torch.ones(8, 4, 3, 3, dtype=dtype), torch.ones(8, dtype=dtype)
        for turned in (False, True):
            y = torch.empty((2, 8, 7, 8) if not turned else (2, 8, 11, 12), dtype=dtype)
            yield "aten::convolution.out", x, w, b, [1, 1], [0, 0], [1, 1], turned, [0, 0], 2, y
    for order in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(2, 8, 9, 10).to(memory_format=order)
        for w, groups in ((torch.randn(6, 8, 3, 3), 1), (torch.randn(8, 1, 3, 3), 8), (torch.randn(6, 8, 1, 1), 1)):
            y = F.conv2d(x, w, None, padding=1, groups=groups)
            out = torch.empty_like(y).to(memory_format=order)
            yield (
                "et::convolution_clamp.out", x, w, torch.randn(len(w)), [1, 1], [1, 1], [1, 1], False, [0, 0], groups,
                0, 6, out
            )  # fmt: skip
        pixels = torch.empty(2, 6, 9, 10).to(memory_format=order)
        plain = (torch.randn(6, 8, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        yield "aten::convolution.out", x, *plain, pixels
        yield "et::convolution_clamp.out", x, *plain, -1, 1, pixels
        taps, ends, middle = torch.randn(12, 8, 1, 1), torch.randn(5, 12, 1, 1), torch.randn(12, 1, 3, 3)
        numbers = [torch.randn(12), [2, 2], [1, 1], 0, 6, ends, torch.randn(5), None, None]
        out = torch.empty(2, 5, 5, 5).to(memory_format=order)
        yield "et::separable_convolution.out", x, taps, torch.randn(12), 0, 6, middle, *numbers, out
        numbers = [torch.randn(8, 1, 5, 5), None, [1, 1], [4, 2], None, None, torch.randn(5, 8, 1, 1), None, -1, 1]
        out = torch.empty(2, 5, 13, 10).to(memory_format=order)  # no expansion
        yield "et::separable_convolution.out", x, None, None, None, None, *numbers, out
        back = torch.empty(2, 4, 18, 20).to(memory_format=order)
        w = torch.randn(8, 4, 2, 2)
        yield "aten::convolution.out", x, w, torch.randn(4), [2, 2], [0, 0], [1, 1], True, [0, 0], 1, back
        pooled = F.max_pool2d(x, 3, 2, 1)
        yield "et::max_pool2d.out", x, [3, 3], [2, 2], [1, 1], [1, 1], False, torch.empty_like(pooled)
        yield "aten::avg_pool2d.out", x, [3, 3], [2, 2], [1, 1], False, True, None, torch.empty_like(pooled)
        volume, lists = torch.randn(2, 3, 5, 6, 7), [[3, 2, 3], [2, 1, 1], [1, 0, 1]]
        pooled = F.max_pool3d(volume, *lists)
        yield "et::max_pool3d.out", volume, *lists, [1, 1, 1], False, torch.empty_like(pooled)
        yield "aten::avg_pool3d.out", volume, *lists, False, True, None, torch.empty_like(pooled)
        large = torch.empty(2, 8, 18, 20).to(memory_format=order)
        yield "aten::upsample_bilinear2d.out", x, [18, 20], False, None, None, large
        yield "aten::upsample_bilinear2d.vec_out", x, None, False, [2.0, 2.0], large
        yield "aten::upsample_nearest2d.vec_out", x, None, [2.0, 2.0], large
        yield "et::_upsample_nearest_exact2d.vec_out", x, None, [2.0, 2.0], large
        yield "aten::_upsample_nearest_exact2d.out", x, [18, 20], 2.0, None, large
        for kind in ("bicubic", "lanczos"):
            yield f"aten::_upsample_{kind}2d_aa.out", x, [18, 20], False, None, 2.0, large
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        line, longer = torch.randn(2, 3, 21).to(dtype), torch.empty(2, 3, 42, dtype=dtype)
        yield "et::upsample_linear1d.vec_out", line, None, False, [2.0], longer
        yield "et::upsample_linear1d.vec_out", line, [42], True, None, longer
        volume, larger = torch.randn(1, 2, 4, 5, 6).to(dtype), torch.empty(1, 2, 8, 10, 12, dtype=dtype)
        for kind in ("upsample_nearest", "_upsample_nearest_exact"):
            yield f"et::{kind}1d.vec_out", line, None, [2.0], longer
            yield f"et::{kind}3d.vec_out", volume, [8, 10, 12], None, larger
            yield f"aten::{kind}3d.out", volume, [8, 10, 12], None, 2.0, None, larger
    image = torch.randn(1, 16, 20, 20)
    yield (
        "aten::convolution.out", image, torch.randn(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
        image * 0
    )  # fmt: skip


def _windows() -> Iterator[tuple]:
    """What kernels of volumes and of images with channels innermost take: groups, taps that are apart, long strides,
    bytes.
    """
    last = {2: torch.channels_last, 3: torch.channels_last_3d}
    for image, filters, stride, padding, dilation, groups in (
        ((2, 9, 11, 13), (15, 3, 3, 3), [1, 2], [1, 1], [1, 1], 3),
        ((1, 10, 8, 9), (4, 5, 3, 2), [2, 1], [4, 2], [2, 2], 2),
        ((2, 3, 17, 15), (8, 3, 5, 7), [2, 2], [2, 3], [1, 1], 1),
        ((2, 17, 9, 14), (17, 1, 4, 2), [3, 1], [5, 0], [1, 3], 17),
        ((2, 20, 9, 14), (20, 1, 5, 5), [2, 2], [2, 2], [1, 1], 20),
        ((1, 70, 6, 7), (70, 1, 3, 3), [1, 1], [1, 1], [1, 1], 70),
        ((1, 3, 4, 6, 7), (8, 3, 3, 2, 3), [1, 1, 2], [1, 0, 1], [1, 1, 1], 1),
        ((2, 4, 4, 5, 6), (66, 2, 2, 3, 3), [2, 1, 1], [1, 1, 1], [1, 1, 2], 2),
    ):
        x, w = torch.randn(image).to(memory_format=last[len(image) - 2]), torch.randn(filters)
        conv = F.conv2d if len(image) == 4 else F.conv3d
        y = conv(x, w, None, stride, padding, dilation, groups)
        lists = [stride, padding, dilation, False, [0] * len(stride), groups]
        yield "aten::convolution.out", x, w, torch.randn(len(w)), *lists, torch.empty_like(y)
        yield "et::convolution_clamp.out", x, w, None, *lists, -1, 1, torch.empty_like(y)
        integers, out = x.mul(50).to(torch.int8), y.to(torch.int8)
        bias = torch.randint(-3000, 3000, (len(w),), dtype=torch.int32)
        rest = [w.mul(50).to(torch.int8), torch.rand(len(w)) * 0.01, bias, *lists, 0.3, -3, *CLAMP, out]
        yield "et::quantized_convolution.out", integers, 0.02, 5, *rest
    for dtype in (torch.int8, torch.uint8):
        x = torch.randint(0, 128, (2, 19, 9, 7)).to(dtype).to(memory_format=torch.channels_last)
        for kernel, stride, padding in ((3, 2, 1), (5, 1, 2)):
            y = torch.empty_like(F.max_pool2d(x.float(), kernel, stride, padding)).to(dtype)
            lists = [[kernel] * 2, [stride] * 2, [padding] * 2]
            yield "et::max_pool2d.out", x, *lists, [1, 1], False, y
            numbers = [0.03, 5, 0, 127, torch.empty_like(y)]
            yield "et::quantized_avg_pool2d.out", x, 0.05, 3, *lists, False, False, None, *numbers


def _sparse_parts(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and bits, as numerics/sparse_weight.h describes them."""
    rows = weight.reshape(len(weight), -1)
    padded = F.pad(rows != 0, (0, -rows.shape[1] % 64)).view(len(rows), -1, 64).long()
    return rows[rows != 0].clone(), (padded << torch.arange(64)).sum(-1)


def _sparse() -> Iterator[tuple]:
    x, w = torch.randn(5, 70), torch.where(torch.rand(7, 70) < 0.2, torch.randn(7, 70), 0.0)
    yield "et::sparse_linear.out", x, *_sparse_parts(w), torch.randn(7), [7, 70], None, 0.5, torch.empty(5, 7)
    x, w = torch.randn(1, 8, 9, 7), torch.where(torch.rand(6, 8, 1, 1) < 0.3, torch.randn(6, 8, 1, 1), 0.0)
    numbers = [list(w.shape), [1, 1], [0, 0], [1, 1], 1, 0, None]
    yield "et::sparse_convolution.out", x, *_sparse_parts(w), torch.randn(6), *numbers, torch.empty(1, 6, 9, 7)


def _integers() -> Iterator[tuple]:
    def int8(*size: int) -> torch.Tensor:
        return torch.randint(-128, 128, size, dtype=torch.int8)

    x, w, scales = int8(5, 32), int8(12, 32), torch.rand(12) * 0.02 + 1e-3
    bias = torch.randint(-3000, 3000, (12,), dtype=torch.int32)
    yield "et::quantized_linear.out", x, 0.1, 3, w, scales, bias, 0.2, -4, *CLAMP, int8(5, 12)
    packed = torch.randint(0, 256, (12, 16), dtype=torch.uint8)
    yield "et::quantized_linear.out", x, 0.1, 3, packed, scales, None, 0.2, -4, *CLAMP, int8(5, 12)
    real, grouped = torch.randn(5, 32), torch.rand(48) * 0.05 + 0.01
    for weight, group, factors in ((w, 0, scales), (w, 8, grouped), (packed, 0, scales), (packed, 8, grouped)):
        zeros = torch.randint(-4, 4, factors.shape, dtype=torch.int8)
        yield "et::weight_only_linear.out", real, weight, factors, zeros, torch.randn(12), group, torch.empty(5, 12)
        yield (
            "et::dynamic_linear.out", real, weight, factors, torch.randn(12), group, True, False, *CLAMP, 1e-6,
            torch.empty(5, 12)
        )  # fmt: skip
        yield "et::quantized_embedding.out", weight, factors, None, torch.tensor([1, 3]), 32, group, torch.empty(2, 32)
    image, filters, y = torch.randn(2, 8, 7, 6), int8(12, 4, 3, 3), torch.empty(2, 12, 7, 6)
    lists = [[1, 1], [1, 1], [1, 1], 2, False, *CLAMP, 1e-6, None, 0.5]
    for order in (torch.contiguous_format, torch.channels_last):
        x, out = (tensor.to(memory_format=order) for tensor in (image, y))
        yield "et::dynamic_convolution.out", x, filters, scales, torch.randn(12), *lists, out
    for batch, hidden in ((1, 37), (3, 16)):
        state, states = torch.randn(batch, hidden), torch.empty(4, batch, hidden)
        product = (0.05, 3, *CLAMP)
        for gates, name, first in ((4, "lstm", int8(4 * hidden)), (3, "gru", torch.randn(3 * hidden))):
            inputs, weight = int8(4, batch, gates * hidden), int8(gates * hidden, hidden)
            factors, biases = (
                torch.rand(gates * hidden) * 0.02 + 1e-3,
                torch.full((gates * hidden,), 99, dtype=torch.int32),
            )
            cells, rest = (
                ((state, 0.01, -3, *CLAMP), (*product, 0.06, -4, *CLAMP))
                if gates == 4
                else ((0.01, -3, *CLAMP), product)
            )
            outs = (states, torch.empty_like(state)) if gates == 4 else (states,)
            for given, constant in ((state, None), (state, first)):
                layer = (weight, factors, biases, constant)
                yield f"et::quantized_{name}.out", inputs, 0.04, 2, given, *cells, *layer, *rest, batch == 1, *outs
            packed = torch.randint(256, (gates * hidden, (hidden + 1) // 2), dtype=torch.uint8)
            layer = (packed, torch.rand(1) * 0.02, None, None)
            yield f"et::quantized_{name}.out", inputs, 0.04, 2, state, *cells, *layer, *rest, batch == 2, *outs
            if gates == 3:
                unsigned, range_of_bytes = inputs.view(torch.uint8), (0, 255)
                rest = (0.05, 131, *range_of_bytes)
                yield (
                    f"et::quantized_{name}.out",
                    unsigned,
                    0.04,
                    130,
                    state,
                    0.01,
                    125,
                    *range_of_bytes,
                    *layer,
                    *rest,
                    False,
                    *outs,
                )
            yield from _float_layers(name, weight, packed, (state, states))
    for order in (torch.contiguous_format, torch.channels_last):
        image, filters = int8(2, 8, 9, 7).to(memory_format=order), int8(12, 8, 3, 3)
        lists = [[1, 1], [1, 1], [1, 1], False, [0, 0], 1]
        out = int8(2, 12, 9, 7).to(memory_format=order)
        yield "et::quantized_convolution.out", image, 0.1, 3, filters, scales, bias, *lists, 0.2, -4, *CLAMP, out
        small = int8(2, 8, 4, 3).to(memory_format=order)
        windows = [[2, 2], [2, 2], [0, 0], False, True, None]
        yield "et::quantized_avg_pool2d.out", image, 0.1, 3, *windows, 0.2, -4, *CLAMP, small
        yield "et::quantized_adaptive_avg_pool2d.out", image, 0.1, 3, [4, 3], 0.2, -4, *CLAMP, small
    a, b, out = int8(3, 4, 5), int8(4, 1), int8(3, 4, 5)
    for name in ("add", "sub", "mul"):
        yield f"et::quantized_{name}.out", a, 0.1, 3, b, 0.05, -2, 0.2, -4, *CLAMP, out
    yield "et::quantized_matmul.out", a, 0.1, 3, int8(3, 5, 6), 0.05, -2, 0.2, -4, *CLAMP, int8(3, 4, 6)
    yield "et::quantized_mean.out", a, 0.1, 3, [1], False, 0.2, -4, *CLAMP, int8(3, 5)
    yield "et::quantized_table.out", a, int8(256), out
    yield "et::quantized_softmax.out", a, 0.1, -1, 1 / 256, -128, *CLAMP, out
    rows, keys, values = int8(2, 3, 7, 8), int8(2, 3, 9, 8), int8(2, 3, 9, 5)
    attended = (rows, 0.1, 3, keys, 0.05, -2, values, 0.05, 1)
    for mask, is_causal in ((None, False), (None, True), (torch.randn(7, 9), False), (torch.ones(9) > 0, False)):
        options = (mask if mask is None or mask.dim() == 2 else mask[None], is_causal, None, False)
        yield "et::quantized_attention.out", *attended, *options, 0.02, 4, *CLAMP, int8(2, 3, 7, 5)
    affine = (torch.randn(5), torch.randn(5), 1e-5, 0.03, 4)
    yield "et::quantized_layer_norm.out", a, 0.1, 3, [5], *affine, *CLAMP, out


def _float_layers(
    name: str, weight: torch.Tensor, packed: torch.Tensor, state_and_states: tuple[torch.Tensor, torch.Tensor]
) -> Iterator[tuple]:
    """Layers whose state meets an integer weight as floats, or as integers that the call makes."""
    state, states = state_and_states
    rows, hidden = weight.shape
    inputs = torch.randn(len(states), len(state), rows)
    given, outs = ((state, state), (states, state.clone())) if name == "lstm" else ((state,), (states,))
    unknown = (None, state) if name == "lstm" else given
    tokens, tensor = (True, False, *CLAMP, 1e-6), (False, True, -127, 127, 1e-5)
    for integers, group in ((weight, 0), (packed, hidden)):
        scales, bias, first = torch.rand(rows) * 0.02 + 1e-3, torch.randn(rows), torch.randn(rows)
        zeros = torch.randint(-4, 4, (rows,), dtype=torch.int8)
        layer = (integers, scales, bias, group)
        yield f"et::dynamic_{name}.out", inputs, *given, *layer, *tokens, None, True, *outs
        yield f"et::dynamic_{name}.out", inputs, *unknown, *layer, *tensor, first, False, *outs
        layer = (integers, scales, zeros, bias, group)
        yield f"et::weight_only_{name}.out", inputs, *given, *layer, None, False, *outs
        yield f"et::weight_only_{name}.out", inputs, *unknown, *layer, first, True, *outs


def _recurrent() -> Iterator[tuple]:
    data, sizes, x = torch.randn(13, 5), torch.tensor([4, 4, 3, 2]), torch.randn(6, 3, 5)
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        weights: list[torch.Tensor] = []
        for inputs in (5, 5, 18, 18):
            weights += [torch.randn(gates * 9, inputs), torch.randn(gates * 9, 9)]
            weights += [torch.randn(gates * 9), torch.randn(gates * 9)]
        for batch, given, tail in ((4, [data, sizes], []), (3, [x], [False])):
            state = [torch.randn(4, batch, 9) for _ in range(2 if name == "lstm" else 1)]
            outs = [torch.empty(*given[0].shape[:-1], 18), *(torch.empty(4, batch, 9) for _ in state)]
            hx = state if name == "lstm" else state[0]
            kind = "input" if tail else "data"
            yield f"et::{name}.{kind}_out", *given, hx, weights, True, 2, 0.0, False, True, *tail, *outs
    for rows, hidden in ((1, 37), (3, 16)):
        cell = torch.randn(rows, hidden)
        gates = torch.randn(rows, 4 * hidden)
        yield "et::lstm_gates.out", gates, cell, torch.empty_like(cell), torch.empty_like(cell)
        yield "et::gru_gates.out", gates[:, hidden:].clone(), gates[:, :-hidden].clone(), cell, torch.empty_like(cell)
    for shape in ((3, 37), (1, 2, 16)):
        rows = torch.randn(shape)
        yield "et::rms_norm.out", rows, torch.randn(shape[-1]), 1e-6, torch.empty_like(rows)
        yield "et::swish.out", rows, 1.702, torch.empty_like(rows)
        yield "et::rms_norm.out", rows.half(), None, 1e-6, torch.empty_like(rows.half())


def _numbers() -> Iterator[tuple]:
    out = torch.empty(5, 7)
    yield "aten::rand.out", [5, 7], out
    yield "aten::randn.out", [5, 7], out
    yield "aten::normal.float_float_out", 0.5, 2.0, [5, 7], None, out
    image = torch.randn(2, 5, 4, 3)
    last = torch.empty(2, 5, 4, 3).to(memory_format=torch.channels_last)
    yield "dim_order_ops::_clone_dim_order.out", image, False, [0, 2, 3, 1], last
    yield "dim_order_ops::_to_dim_order_copy.out", image, False, [0, 2, 3, 1], last.to(torch.float16)
