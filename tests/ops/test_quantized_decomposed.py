"""quantized_decomposed operators: the portable kernels give what eager PyTorch gives, bit for bit, and refuse what it
refuses.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # registers the operators

from .kernel_runner import KernelError, run_kernel  # noqa: E402

q = torch.ops.quantized_decomposed
NAME = "quantized_decomposed::"
RANGES = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-32768, 32767),
    torch.uint16: (0, 65535),
    torch.int32: (-(2**31), 2**31 - 1),
}
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def _floats(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Numbers around zero, some of them halfway between integers, some far away."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * 20
    flat = x.view(-1)
    flat[:8] = torch.tensor([0.5, 1.5, -0.5, -2.5, 1e4, -1e4, 0.0, 3e38])
    return x.to(dtype)


def _integers(shape: tuple[int, ...], dtype: torch.dtype, low: int, high: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def _check(name: str, arguments: list, expected: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
    expected = expected if isinstance(expected, tuple) else (expected,)
    outs = [torch.empty_like(e) for e in expected]
    run_kernel(NAME + name, [*arguments, *outs])
    for out, wanted in zip(outs, expected):
        assert torch.equal(out, wanted), (out, wanted)


@pytest.mark.parametrize("dtype", RANGES, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_per_tensor(dtype: torch.dtype, source: torch.dtype) -> None:
    low, high = RANGES[dtype]
    x = _floats((3, 5, 7), source).float().clamp(-1e6, 1e6).to(source)
    for scale, zero_point in ((0.03, 3), (1.0, 0), (1e-3, 100), (7.3, 1)):
        for limits in ((low, high), (max(low, -127), min(high, 100))):
            arguments = [x, scale, zero_point, *limits, dtype]
            _check("quantize_per_tensor.out", arguments, q.quantize_per_tensor(*arguments))
            tensors = [x, torch.tensor(scale), torch.tensor(zero_point), *limits, dtype]
            _check("quantize_per_tensor.Tensor_out", tensors, q.quantize_per_tensor.tensor(*tensors))
            tensors = [x, torch.tensor(scale), torch.tensor(zero_point), *map(torch.tensor, limits), dtype]
            _check("quantize_per_tensor.tensor2_out", tensors, q.quantize_per_tensor.tensor2(*tensors))
    integers = _integers((4, 6), dtype, max(low, -2000), min(high, 3000))
    for target in (None, torch.float32, torch.float16, torch.bfloat16, torch.float64):
        arguments = [integers, 0.037, 11, low, high, dtype]
        _check(
            "dequantize_per_tensor.out",
            [*arguments, target],
            q.dequantize_per_tensor(*arguments, out_dtype=target),
        )
        tensors = [integers, torch.tensor(0.037, dtype=torch.float64), torch.tensor(11), low, high, dtype]
        _check(
            "dequantize_per_tensor.Tensor_out",
            [*tensors, target],
            q.dequantize_per_tensor.tensor(*tensors, out_dtype=target),
        )


@pytest.mark.parametrize("scale_type", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_per_channel(axis: int, scale_type: torch.dtype) -> None:
    x = _floats((4, 5, 6), torch.float32).clamp(-1e5, 1e5)
    count = x.shape[axis]
    scales = (torch.rand(count, dtype=torch.float64) * 0.3 + 0.01).to(scale_type)
    zero_points = torch.randint(-9, 9, (count,))
    for dtype in (torch.int8, torch.int16, torch.int32):
        low, high = RANGES[dtype]
        arguments = [x, scales, zero_points, axis, low, high, dtype]
        integers = q.quantize_per_channel(*arguments)
        _check("quantize_per_channel.out", arguments, integers)
        for zeros in (zero_points, zero_points.int(), zero_points.to(torch.float32), None):
            back = [integers, scales, zeros, axis, low, high, dtype]
            for target in (None, torch.float16):
                expected = q.dequantize_per_channel(*back, out_dtype=target)
                _check("dequantize_per_channel.out", [*back, target], expected)


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_per_token(source: torch.dtype) -> None:
    x = _floats((3, 4, 10), source).float().clamp(-1e4, 1e4).to(source)
    scales, zero_points = q.choose_qparams_per_token_asymmetric(x, torch.int8)
    _check("choose_qparams_per_token_asymmetric.out", [x, torch.int8], (scales, zero_points))
    _check("choose_qparams_per_token.out", [x, torch.int8], q.choose_qparams_per_token(x, torch.int8))
    arguments = [x, scales, zero_points, -128, 127, torch.int8]
    integers = q.quantize_per_token(*arguments)
    _check("quantize_per_token.out", arguments, integers)
    for target in (torch.float32, torch.float16):
        back = [integers, scales, zero_points, -128, 127, torch.int8, target]
        _check("dequantize_per_token.out", back, q.dequantize_per_token(*back))


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("group", [2, 8, 32, 100])
def test_per_group(group: int, source: torch.dtype) -> None:
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(2)).to(source)
    groups = max(1, 32 // group)
    scales = torch.rand(5, groups) * 0.2 + 0.05
    zero_points = torch.randint(-3, 3, (5, groups))
    arguments = [x, scales, zero_points, -8, 7, torch.int8, group]
    integers = q.quantize_per_channel_group(*arguments)
    _check("quantize_per_channel_group.out", arguments, integers)
    for zeros in (zero_points, None):
        back = [integers, scales, zeros, -8, 7, torch.int8, group, torch.float32]
        _check("dequantize_per_channel_group.out", back, q.dequantize_per_channel_group(*back))


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("kind", ["normal", "positive", "negative", "zero", "one"])
def test_choose_qparams(kind: str, source: torch.dtype) -> None:
    x = {
        "normal": torch.randn(40) * 3,
        "positive": torch.rand(7, 9) + 2,
        "negative": -torch.rand(7, 9) - 2,
        "zero": torch.zeros(5),
        "one": torch.tensor([-1.25]),
    }[kind].to(source)
    for dtype, limits in ((torch.int8, (-128, 127)), (torch.uint8, (0, 255)), (torch.int8, (-127, 127))):
        for name in ("choose_qparams", "choose_qparams_symmetric"):
            arguments = [x, *limits, 1e-5, dtype]
            _check(f"{name}.Tensor_out", arguments, getattr(q, name).tensor(*arguments))


def test_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    expected = q.quantize_per_tensor(x, 0.1, 2, -128, 127, torch.int8)
    out = torch.empty_like(expected)
    run_kernel(NAME + "quantize_per_tensor.out", [x, 0.1, 2, -128, 127, torch.int8, out])
    assert torch.equal(out, expected)


X8, F4 = torch.zeros(4, 6, dtype=torch.int8), torch.zeros(4, 6)
BAD = [
    ("quantize_per_tensor.out", [F4, 0.0, 0, -128, 127, torch.int8, X8], "the scale is zero"),
    ("quantize_per_tensor.out", [F4, 1.0, 0, -129, 127, torch.int8, X8], "not within the range of torch.int8"),
    ("quantize_per_tensor.out", [F4.double(), 1.0, 0, -128, 127, torch.int8, X8], "input is torch.float64"),
    ("quantize_per_tensor.out", [F4, 1.0, 0, 0, 1, torch.bool, X8.bool()], "no type to quantize to"),
    ("quantize_per_tensor.out", [F4, 1.0, 0, 0, 255, torch.uint8, X8], "out is torch.int8, must be torch.uint8"),
    (
        "quantize_per_tensor.Tensor_out",
        [F4, torch.ones(2), torch.zeros(1), -128, 127, torch.int8, X8],
        "scale has 2 elements",
    ),
    (
        "dequantize_per_tensor.out",
        [X8, 1.0, 0, 0, 255, torch.uint8, None, F4],
        "input is torch.int8, must be torch.uint8",
    ),
    ("dequantize_per_tensor.out", [X8, 1.0, 0, -128, 127, torch.int8, torch.int8, X8.clone()], "must be floating"),
    (
        "quantize_per_channel.out",
        [F4, torch.ones(5), torch.zeros(5), 0, -128, 127, torch.int8, X8],
        "5 scales, must be 4",
    ),
    (
        "quantize_per_channel.out",
        [F4, torch.tensor([1.0, 0, 1, 1]), torch.zeros(4), 0, -128, 127, torch.int8, X8],
        "scale 1 is zero",
    ),
    ("quantize_per_channel.out", [F4, torch.ones(6), torch.zeros(6), 2, -128, 127, torch.int8, X8], "dim"),
    (
        "dequantize_per_channel_group.out",
        [X8, torch.ones(6), None, -8, 7, torch.int8, 4, torch.float32, F4],
        "not made of groups of 4",
    ),
    (
        "dequantize_per_channel_group.out",
        [X8, torch.ones(6), None, -8, 7, torch.int8, 0, torch.float32, F4],
        "must be more than 1",
    ),
    (
        "quantize_per_token.out",
        [F4, torch.ones(6, 1).double(), torch.zeros(6, 1).long(), -128, 127, torch.int8, X8],
        "for the rows of",
    ),
    (
        "choose_qparams.Tensor_out",
        [torch.tensor([float("nan")]), -128, 127, 1e-5, torch.int8, torch.empty(1).double(), torch.empty(1).long()],
        "NaN",
    ),
    (
        "choose_qparams.Tensor_out",
        [torch.empty(0), -128, 127, 1e-5, torch.int8, torch.empty(1).double(), torch.empty(1).long()],
        "no elements",
    ),
    (
        "choose_qparams.Tensor_out",
        [F4, 1, 127, 1e-5, torch.int8, torch.empty(1).double(), torch.empty(1).long()],
        "no range of integers around zero",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "message"), BAD, ids=[f"{b[0]}-{b[2]}" for b in BAD])
def test_errors(name: str, arguments: list, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run_kernel(NAME + name, arguments)
