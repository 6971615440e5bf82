"""Kernels that are prepared for the bounds of a program refuse calls whose sizes they cannot take: what they packed at
load decides how much they read."""

from __future__ import annotations

import contextlib

import pytest

torch = pytest.importorskip("torch")
from ..kernel_runner import KernelError, kernel_count, prepare_and_run  # noqa: E402

INVALID_ARGUMENT, NOT_SUPPORTED = 0x12, 0x10
F = torch.nn.functional


def images(*size: int) -> torch.Tensor:
    return torch.randn(size).to(memory_format=torch.channels_last)


def convolution(x: torch.Tensor, w: torch.Tensor, transposed: bool = False, groups: int = 1) -> list:
    step = w.shape[2] if transposed else 1
    pad = 0 if transposed else w.shape[2] // 2
    op = F.conv_transpose2d if transposed else F.conv2d
    out = op(x, w, None, step, pad, groups=groups)
    return [x, w, None, [step] * 2, [pad] * 2, [1, 1], transposed, [0, 0], groups, images(*out.shape)]


CONVOLUTIONS = {
    "plain": convolution(images(1, 8, 12, 12), torch.randn(8, 8, 3, 3)),
    "pointwise": convolution(images(1, 8, 12, 12), torch.randn(8, 8, 1, 1)),
    "many channels": convolution(images(1, 64, 32, 32), torch.randn(64, 64, 3, 3)),
    "depthwise": convolution(images(1, 8, 12, 12), torch.randn(8, 1, 3, 3), groups=8),
    "transposed": convolution(images(1, 8, 6, 6), torch.randn(8, 4, 2, 2), transposed=True),
}


def outcomes(name: str, arguments: list, letters: str, called: list, constant: set[int]) -> list[int]:
    """What the kernels that take the arguments, but for the last, say to those of a call."""
    codes = []
    for place in range(kernel_count(name) - 1):
        try:
            prepare_and_run(name, place, arguments, letters, constant, called)
            codes.append(0)
        except KernelError as error:
            if error.code != NOT_SUPPORTED:
                codes.append(error.code)
    return codes


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_fewer_channels_than_the_filter_has(case: str) -> None:
    arguments = CONVOLUTIONS[case]
    x, out = arguments[0], arguments[-1]
    constant = set(range(1, 9))
    full = outcomes("aten::convolution.out", arguments, "TTtlllbliT", arguments, constant)
    assert full
    assert not any(full)
    called = [images(1, x.shape[1] - 5, *x.shape[2:]), *arguments[1:-1], out]
    assert set(outcomes("aten::convolution.out", arguments, "TTtlllbliT", called, constant)) == {INVALID_ARGUMENT}


@pytest.mark.parametrize("groups", [1, 3], ids=["few channels", "depthwise"])
def test_fewer_channels_than_an_integer_filter_has(groups: int) -> None:
    def integers(*size: int) -> torch.Tensor:
        return torch.randint(-128, 128, size, dtype=torch.int8).to(memory_format=torch.channels_last)

    x, w = integers(1, 3, 12, 12), integers(6 if groups == 1 else 3, 3 // groups, 3, 3)
    out = integers(1, w.shape[0], 12, 12)
    numbers = [[1, 1], [1, 1], [1, 1], False, [0, 0], groups, 0.5, 0, -128, 127]
    arguments = [x, 0.02, 3, w, torch.rand(w.shape[0]) * 0.01 + 0.001, None, *numbers, out]
    name, letters, constant = "et::quantized_convolution.out", "TdiTTtlllblidiiiT", set(range(1, 16))
    full = outcomes(name, arguments, letters, arguments, constant)
    assert full
    assert not any(full)
    called = [integers(1, 2, 12, 12), *arguments[1:-1], out]
    assert set(outcomes(name, arguments, letters, called, constant)) == {INVALID_ARGUMENT}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.int64])
def test_images_without_columns(dtype: torch.dtype) -> None:
    """Windows that see padding only: the bias alone."""
    x, w = torch.ones(2, 8, 9, 10, dtype=dtype), torch.ones(6, 8, 3, 3, dtype=dtype)
    bias, out = torch.arange(6).to(dtype), torch.zeros(2, 6, 11, 12, dtype=dtype)
    rest = [w, bias, [1, 1], [2, 2], [1, 1], False, [0, 0], 1]
    name, letters, constant = "aten::convolution.out", "TTtlllbliT", set(range(1, 9))
    called = [torch.ones(2, 8, 9, 0, dtype=dtype), *rest, torch.zeros(2, 6, 11, 2, dtype=dtype)]
    codes = outcomes(name, [x, *rest, out], letters, called, constant)
    assert 0 in codes
    assert set(codes) <= {0, INVALID_ARGUMENT}  # XNNPACK's refuse
    for place in range(kernel_count(name)):
        called[-1].fill_(99)
        with contextlib.suppress(KernelError):  # one that does not take it
            prepare_and_run(name, place, called, letters, constant)
            assert torch.equal(called[-1], bias[:, None, None].expand_as(called[-1])), place


def test_a_bias_shorter_than_at_load() -> None:
    w = torch.randint(-128, 128, (12, 32), dtype=torch.int8)
    arguments = [torch.randn(5, 32), w, torch.rand(12), None, torch.randn(12), 0, torch.empty(5, 12)]
    called = [*arguments[:4], torch.randn(3), *arguments[5:]]
    name, constant = "et::weight_only_linear.out", {1, 2, 3, 5}
    assert outcomes(name, arguments, "TTTttiT", arguments, constant) == [0]
    assert outcomes(name, arguments, "TTTttiT", called, constant) == [INVALID_ARGUMENT]


def test_sizes_of_a_split_that_wrap_around() -> None:
    x, parts = torch.randn(4, 3), [torch.empty(2**k % 3, 3) for k in range(3)]
    sizes = [2**63 - 1, 2**63 - 1, 6]
    for place in range(kernel_count("aten::split_with_sizes_copy.out")):
        with pytest.raises(KernelError, match=r"exceeds|does not cut"):
            prepare_and_run("aten::split_with_sizes_copy.out", place, [x, sizes, 0, parts], "Tliv", {1, 2})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize(("size", "code"), [(7, 0), (2**31 - 1, 0), (2**31, INVALID_ARGUMENT)])
def test_transposed_inputs_without_channels(dtype: torch.dtype, size: int, code: int) -> None:
    """Nothing bounds the other sizes of a tensor without elements."""

    def call(x: torch.Tensor, w: torch.Tensor, padding: int, out: torch.Tensor) -> list:
        return [x, w, bias, [1], [padding], [1], True, [0], 1, out]

    name = "aten::convolution.out"
    bias = torch.tensor([3], dtype=dtype)
    x, w = torch.zeros(1, 4, 8, dtype=dtype), torch.zeros(4, 1, 3, dtype=dtype)
    loaded = call(x, w, 0, torch.zeros(1, 1, 10, dtype=dtype))
    out = torch.zeros(1, 1, 1, dtype=dtype)
    called = call(torch.zeros(1, 0, size, dtype=dtype), torch.zeros(0, 1, size, dtype=dtype), size - 1, out)
    codes = outcomes(name, loaded, "TTtlllbliT", called, set())
    assert codes, "no kernel takes the arguments"
    assert all(got in (code, INVALID_ARGUMENT) for got in codes), codes
    if code == 0:
        assert out.item() == 3
