"""Calls of operators with kernels that neither PyTorch's operator database nor own_calls.py comes down to: gradients,
numbers as tensors, quantized numbers of a channel, a group or a token. test_damaged_calls.py says which are missing."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .kernel_runner import Unbound

F = torch.nn.functional
CLAMP = (-128, 127)


def unreached_calls() -> Iterator[tuple]:
    """Name of the kernel and its arguments with outputs."""
    for calls in (_gradients, _norms, _images, _numbers, _positions, _random, _copies, _quantized):
        yield from calls()


def _gradients() -> Iterator[tuple]:
    image, windows = torch.randn(2, 6, 9, 8), [[3, 2], [2, 2], [1, 0], True, False, None]
    pooled = F.avg_pool2d(image, *windows)
    yield "aten::_adaptive_avg_pool2d_backward.out", torch.randn(2, 6, 4, 3), image, torch.empty_like(image)
    yield "aten::avg_pool2d_backward.grad_input", torch.ones_like(pooled), image, *windows, torch.empty_like(image)
    x, mask = torch.randn(2, 6, 9, 8), [True, True, True]
    for w, transposed, groups, y in (
        (torch.randn(4, 6, 3, 3), False, 1, torch.randn(2, 4, 5, 4)),
        (torch.randn(4, 3, 3, 3), False, 2, torch.randn(2, 4, 5, 4)),
        (torch.randn(6, 5, 3, 3), True, 1, torch.randn(2, 5, 17, 15)),
    ):
        lists = [[2, 2], [1, 1], [1, 1], transposed, [0, 0], groups, mask]
        outs = [torch.empty_like(x), torch.empty_like(w), torch.empty(y.shape[1])]
        yield "aten::convolution_backward.out", y, x, w, [y.shape[1]], *lists, *outs
    line, w, y = torch.randn(2, 3, 11), torch.randn(4, 3, 3), torch.randn(2, 4, 9)
    outs = [torch.empty_like(line), torch.empty_like(w), torch.empty(4)]
    yield "aten::convolution_backward.out", y, line, w, [4], [1], [0], [1], False, [0], 1, mask, *outs
    columns = torch.randn(2, 3 * 6, 28)
    yield "aten::col2im.out", columns, [7, 10], [3, 2], [1, 2], [1, 0], [1, 2], torch.empty(2, 3, 7, 10)
    yield "aten::col2im.out", columns[0].clone(), [7, 10], [3, 2], [1, 2], [1, 0], [1, 2], torch.empty(3, 7, 10)
    places = torch.tensor([[1, 4, 0], [4, 9, 2]])
    yield "aten::embedding_dense_backward.out", torch.randn(2, 3, 5), places, 10, 4, True, torch.empty(10, 5)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        grad, output = torch.randn(3, 5, 70).to(dtype), torch.randn(3, 5, 70).log_softmax(1).to(dtype)
        for dim in (1, -1):
            yield "aten::_log_softmax_backward_data.out", grad, output, dim, dtype, torch.empty_like(grad)


def _norms() -> Iterator[tuple]:
    for dtype, order in ((torch.float32, torch.contiguous_format), (torch.bfloat16, torch.channels_last)):
        x = torch.randn(2, 6, 5, 7).to(dtype).to(memory_format=order)
        each = [torch.randn(6), torch.randn(6), torch.randn(6), torch.rand(6)]
        saved = [torch.empty_like(x), torch.empty(6), torch.empty(6)]
        name = "_native_batch_norm_legit"
        moved, nothing = [torch.empty(6), torch.empty(6)], [torch.empty(0), torch.empty(0)]
        yield f"et::{name}_functional.out", x, *each, True, 0.1, 1e-5, *saved, *moved
        yield f"et::{name}_functional.out", x, *each, False, 0.1, 1e-5, saved[0], *nothing, *moved
        yield f"aten::{name}.no_stats_out", x, each[0], each[1], True, 0.1, 1e-5, *saved
        yield f"aten::{name}_no_training.out", x, *each, 0.1, 1e-5, torch.empty_like(x), *nothing
        yield f"aten::{name}_no_training.out", x, None, None, *each[2:], 0.1, 1e-5, torch.empty_like(x), *nothing
    x, mask = torch.randn(2, 6, 5, 7), [True, True, True]
    outs = [torch.empty_like(x), torch.empty(6), torch.empty(6)]
    groups = [torch.randn(2, 3), torch.rand(2, 3), torch.randn(6), 2, 6, 35, 3, mask]
    yield "aten::native_group_norm_backward.out", x + 1, x, *groups, *outs
    rows, outs = torch.randn(4, 3, 8), [torch.empty(4, 3, 8), torch.empty(3, 8), torch.empty(3, 8)]
    each = [torch.randn(4, 1, 1), torch.rand(4, 1, 1), torch.randn(3, 8), torch.randn(3, 8)]
    yield "aten::native_layer_norm_backward.out", rows + 1, rows, [3, 8], *each, mask, *outs


def _images() -> Iterator[tuple]:
    line, image, volume = torch.randn(2, 3, 11), torch.randn(2, 3, 6, 7), torch.randn(2, 3, 4, 5, 6)
    yield "aten::adaptive_avg_pool1d.out", line, [4], torch.empty(2, 3, 4)
    yield "aten::avg_pool1d.out", line, [3], [2], [1], True, False, torch.empty_like(F.avg_pool1d(line, 3, 2, 1, True))
    yield "aten::reflection_pad2d.out", image, [1, 3, -1, 2], torch.empty(2, 3, 7, 11)
    yield "aten::reflection_pad3d.out", volume, [1, 3, -1, 2, 3, 0], torch.empty(2, 3, 7, 6, 10)
    yield "aten::replication_pad3d.out", volume, [1, 3, -1, 2, 3, 0], torch.empty(2, 3, 7, 6, 10)
    yield "aten::upsample_nearest2d.out", image, [12, 9], None, None, torch.empty(2, 3, 12, 9)
    for order in (torch.contiguous_format, torch.channels_last):
        x, y = image.to(memory_format=order), torch.empty(2, 3, 12, 14).to(memory_format=order)
        yield "et::upsample_bicubic2d.vec_out", x, None, False, [2.0, 2.0], y
        yield "et::upsample_bicubic2d.vec_out", x, [12, 14], True, None, y
    yield "et::upsample_trilinear3d.vec_out", volume, None, False, [2.0, 2.0, 1.5], torch.empty(2, 3, 8, 10, 9)
    yield "et::upsample_trilinear3d.vec_out", volume, [8, 3, 9], True, None, torch.empty(2, 3, 8, 3, 9)
    w, scales = torch.randint(-128, 128, (4, 3, 3, 3), dtype=torch.int8), torch.rand(4) * 0.02
    lists, y = [[1, 1], [1, 1], [1, 1], False, [0, 0], 1], torch.empty(2, 4, 6, 7)
    for limit in (None, 0.5):
        yield (
            "et::weight_only_convolution.out", image, w, scales, None, torch.randn(4), *lists, None, limit, y
        )  # fmt: skip


def _numbers() -> Iterator[tuple]:
    whole, real = torch.arange(-6, 9).view(3, 5), torch.randn(3, 5)
    for name in ("and", "or", "xor"):
        yield f"aten::bitwise_{name}.Scalar_out", whole, 5, torch.empty_like(whole)
    for name in ("left", "right"):
        for x in (whole, whole.int(), whole.to(torch.uint8)):
            yield f"aten::bitwise_{name}_shift.Tensor_Scalar_out", x, 3, torch.empty_like(x)
    for x in (whole, real, whole.to(torch.int8), real.double()):
        y = torch.empty_like(x)
        yield "aten::clamp_max.out", x, 2, y
        yield "aten::div.Scalar_mode_out", x, 3, "floor", y
        yield "aten::div.Scalar_mode_out", x, -1, "trunc", y
        yield "aten::floor_divide.Scalar_out", x, 2, y
        yield "aten::fmod.Scalar_out", x, 3, y
        yield "aten::gt.Scalar_out", x, 1, torch.empty(x.shape, dtype=torch.bool)
        yield "aten::pow.Scalar_out", 2, x, y
        yield "aten::square.out", x, y
        yield "et::isfinite.out", x, torch.empty(x.shape, dtype=torch.bool)
        yield "aten::fill.Tensor_out", x, torch.tensor(3).to(x.dtype), y
    yield "aten::lerp.Tensor_out", real, real + 1, torch.rand(3, 5), torch.empty(3, 5)
    for name in ("all", "any"):
        yield f"aten::{name}.dims_out", torch.rand(3, 4, 5) > 0.5, [0, 2], False, torch.empty(4, dtype=torch.bool)
    yield "aten::var.out", torch.randn(3, 4, 5), [0, 2], True, True, torch.empty(1, 4, 1)
    yield "aten::softmax.int_out", real, 1, None, torch.empty(3, 5)
    yield "aten::log_softmax.int_out", real, 0, None, torch.empty(3, 5)
    yield "aten::linalg_eigvals.out", torch.randn(2, 5, 5), torch.empty(2, 5, dtype=torch.complex64)


def _positions() -> Iterator[tuple]:
    table, places, values = torch.randn(10, 4), torch.tensor([1, 4, 0, 9, 4]), torch.randn(5, 4)
    for last in (False, True):
        starts = torch.tensor([0, 2, 5] if last else [0, 2])
        for mode, weights in ((0, torch.randn(5)), (1, None), (2, None)):
            whole = [torch.empty(5, dtype=torch.int64), torch.empty(2, dtype=torch.int64)]
            most = torch.empty((2, 4) if mode == 2 else (2,), dtype=torch.int64)
            outs = [torch.empty(2, 4), *whole, most]
            yield "aten::_embedding_bag.out", table, places, starts, False, mode, False, weights, last, 4, *outs
    for adds in (False, True):
        yield "aten::index_put_", table.clone(), [places], values, adds
        yield "aten::index_put_", table.clone(), [None, torch.tensor([[1], [3]])], torch.randn(10, 2, 1), adds
        yield "aten::index_put_", table.clone(), [torch.rand(10, 4) > 2], torch.tensor([1.0]), adds
    yield "aten::scatter.value_out", table, 0, torch.tensor([[1, 4, 0], [9, 2, 3]]), 2.5, torch.empty(10, 4)
    yield "aten::repeat_interleave.Tensor_out", torch.tensor([2, 0, 3]), None, Unbound(torch.int64, 1)
    yield "aten::repeat_interleave.Tensor_out", torch.tensor([2, 0, 3]), 5, torch.empty(5, dtype=torch.int64)
    numbers = [Unbound(torch.int64, 1), Unbound(torch.int64, 1)]
    yield "aten::unique_dim.out", torch.randint(0, 2, (6, 3)), 0, True, True, True, Unbound(torch.int64, 2), *numbers
    ends = torch.tensor([5, 10, 24], dtype=torch.int32)
    yield (
        "transformers::grouped_mm_fallback.out", torch.randn(24, 16), torch.randn(3, 16, 40), ends, torch.empty(24, 40)
    )  # fmt: skip


def _random() -> Iterator[tuple]:
    x, out = torch.rand(5, 7), torch.empty(5, 7)
    yield "aten::bernoulli.float_out", x, 0.3, None, out
    yield "aten::native_dropout.out", x, 0.3, True, out, torch.empty(5, 7, dtype=torch.bool)
    yield "aten::normal.float_Tensor_out", 0.5, x, None, out
    yield "aten::normal.out", x, 0.5, 2.0, None, out
    yield "aten::rand_like.out", x, None, out
    yield "aten::uniform.out", x, -1.0, 2.0, None, out
    yield "aten::randperm.out", 35, torch.empty(35, dtype=torch.int64)
    yield "et::rrelu_with_noise_functional.out", x - 0.5, x, 0.1, 0.3, True, None, out, torch.empty(5, 7)


def _copies() -> Iterator[tuple]:
    x, out = torch.randn(3, 4, 5), torch.empty(3, 4, 5)
    yield "aten::copy.out", x, torch.arange(5), False, out
    yield "aten::lift_fresh_copy.out", x, out
    yield "aten::resize.out", x, [4, 15], None, torch.empty(4, 15)
    yield "et_copy::_d2h_copy.out", x, out
    yield "et_copy::_h2d_copy.out", x, out
    yield "aten::view_copy.dtype_out", x, torch.int16, torch.empty(3, 4, 10, dtype=torch.int16)
    yield "aten::view_copy.dtype_out", x.to(torch.int16)[..., :4].clone(), torch.int64, torch.empty((3, 4, 1)).long()
    yield "dim_order_ops::_empty_dim_order.out", [3, 4, 5], [0, 1, 2], out


def _quantized() -> Iterator[tuple]:
    space = "quantized_decomposed::"
    x, tokens = torch.randn(4, 6, 8), torch.randn(4, 8)
    scale, zero = torch.tensor([0.05], dtype=torch.float64), torch.tensor([3])
    for name in ("choose_qparams", "choose_qparams_symmetric"):
        yield f"{space}{name}.Tensor_out", x, *CLAMP, 1e-6, torch.int8, scale.clone(), zero.clone()
    for name in ("choose_qparams_per_token", "choose_qparams_per_token_asymmetric"):
        for code in (torch.float64, torch.float32):
            yield f"{space}{name}.out", tokens, torch.int8, torch.empty(4, 1, dtype=code), torch.empty(4, 1).long()
    whole, out = torch.randint(-128, 128, (4, 6, 8), dtype=torch.int8), torch.empty(4, 6, 8)
    ends = [torch.tensor(n) for n in CLAMP]
    for tensors, given, limits in (
        ("", [0.05, 3], CLAMP),
        (".Tensor", [scale, zero], CLAMP),
        (".tensor2", [scale, zero], ends),
    ):
        suffix = f"{tensors}_out" if tensors else ".out"
        yield f"{space}quantize_per_tensor{suffix}", x, *given, *limits, torch.int8, torch.empty_like(whole)
        yield f"{space}dequantize_per_tensor{suffix}", whole, *given, *limits, torch.int8, None, out
    scales, zeros = torch.rand(6) * 0.05 + 0.01, torch.randint(-4, 4, (6,))
    yield f"{space}quantize_per_channel.out", x, scales, zeros, 1, *CLAMP, torch.int8, torch.empty_like(whole)
    yield f"{space}dequantize_per_channel.out", whole, scales, zeros, 1, *CLAMP, torch.int8, None, out
    yield f"{space}dequantize_per_channel.out", whole, scales, None, 1, *CLAMP, torch.int8, torch.float32, out
    rows, groups = whole[0].clone(), torch.rand(6, 2) * 0.05 + 0.01
    yield (
        f"{space}quantize_per_channel_group.out", x[0] * 1, groups, groups.int(), *CLAMP, torch.int8, 4,
        torch.empty_like(rows)
    )  # fmt: skip
    for zero_points in (None, groups.int()):
        yield (
            f"{space}dequantize_per_channel_group.out", rows, groups, zero_points, *CLAMP, torch.int8, 4, torch.float32,
            out[0]
        )  # fmt: skip
    of_token = [torch.rand(4, 1).double() * 0.05 + 0.01, torch.randint(-4, 4, (4, 1))]
    few = whole[:, 0].clone()
    yield f"{space}quantize_per_token.out", tokens, *of_token, *CLAMP, torch.int8, torch.empty_like(few)
    yield f"{space}dequantize_per_token.out", few, *of_token, *CLAMP, torch.int8, torch.float32, torch.empty(4, 8)
