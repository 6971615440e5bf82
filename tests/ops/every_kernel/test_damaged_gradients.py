"""Gradients of layers whose arguments do not go together, as a hostile program may have them: refused before anything
is read or written beside a tensor."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from ..kernel_runner import KernelError, Unbound, run_kernel  # noqa: E402

IMAGE, MANY = torch.zeros(2, 3, 4, 6), torch.zeros(50, 3, 2, 3)
ROWS, MASK = torch.zeros(4, 8), [True, True, True]
POOL = "aten::avg_pool2d_backward.grad_input"
LAYER, GROUP = "aten::native_layer_norm_backward.out", "aten::native_group_norm_backward.out"


def pooled(grad: torch.Tensor, stride: int = 2) -> list[Any]:
    return [grad, IMAGE, [2, 2], [stride, stride], [0, 0], False, True, None, torch.empty_like(IMAGE)]


def layer_norm(shape: list[int], weight: int) -> list[Any]:
    each = [torch.zeros(4, 1), torch.ones(4, 1), torch.ones(weight), None]
    return [ROWS, ROWS, shape, *each, [True, False, False], torch.empty_like(ROWS), torch.empty(0), torch.empty(0)]


def group_norm(n: int, c: int, pixels: int, weight: int) -> list[Any]:
    outs = [torch.empty_like(IMAGE), torch.empty(0), torch.empty(0)]
    each = [torch.zeros(2, 1), torch.ones(2, 1), torch.ones(weight)]
    return [IMAGE, IMAGE, *each, n, c, pixels, 1, [True, False, False], *outs]


CASES = {
    "planes_of_averages": (POOL, pooled(MANY)),
    "averages_of_steps_that_wrap": (POOL, pooled(torch.zeros(2, 3, 2, 3), 2**62)),
    "planes_of_adaptive_averages": ("aten::_adaptive_avg_pool2d_backward.out", [MANY, IMAGE, torch.empty_like(IMAGE)]),
    "rank_of_maxima": (
        "aten::max_pool2d_with_indices_backward.grad_input",
        [torch.zeros(9), IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False, torch.zeros(9).long(), torch.empty_like(IMAGE)],
    ),
    "planes_of_maxima": (
        "aten::max_pool2d_with_indices_backward.grad_input",
        [MANY, IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False, torch.zeros(MANY.shape).long(), torch.empty_like(IMAGE)],
    ),
    "short_weight_of_layer_norm": (LAYER, layer_norm([8], 1)),
    "layer_norm_of_sizes_that_wrap": (LAYER, layer_norm([24, (2**61 + 1) // 3], 8)),
    "layer_norm_of_negative_sizes": (LAYER, layer_norm([-2, -4], 8)),
    "short_weight_of_group_norm": (GROUP, group_norm(2, 3, 24, 1)),
    "group_norm_of_sizes_that_wrap": (GROUP, group_norm(2, 3, 24 - 2**63, 3)),
    "group_norm_of_negative_sizes": (GROUP, group_norm(2, -3, -24, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    with pytest.raises(KernelError):
        run_kernel(*CASES[name])


def test_more_rows_of_nothing_than_memory() -> None:
    rows = torch.tensor([5, 2**60, 7])
    out = Unbound(torch.float16, 2)
    run_kernel("aten::embedding_dense_backward.out", [torch.zeros(3, 0).half(), rows, 2**61, -1, False, out])
    assert out.value.shape == (2**61, 0)


def test_bins_of_a_range_too_wide_for_a_number() -> None:
    ends, counts = torch.tensor([1.7e308, -1.7e308], dtype=torch.float64), torch.empty(4, dtype=torch.float64)
    run_kernel("aten::histc.out", [ends, 4, -1.7e308, 1.7e308, counts])
    assert counts.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("divisor", [256, -65536, 0.25])
@pytest.mark.parametrize("name", ["div.Scalar_mode", "floor_divide.Scalar", "fmod.Scalar", "remainder.Scalar"])
def test_a_divisor_that_wraps_to_zero(name: str, divisor: float) -> None:
    x = torch.arange(-5, 5, dtype=torch.int8)
    arguments = [x, divisor, "trunc"] if "mode" in name else [x, divisor]
    if isinstance(divisor, int):
        with pytest.raises(KernelError, match="division by zero"):
            run_kernel(f"aten::{name}_out", [*arguments, torch.empty_like(x)])
    else:
        run_kernel(f"aten::{name}_out", [*arguments, torch.empty(10)])
