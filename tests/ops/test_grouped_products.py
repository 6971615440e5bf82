"""Grouped matrix products: every form, groups that are empty, rows that belong to no group, offsets that make no
sense.
"""

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  defines transformers::grouped_mm_fallback
from torch import nn

import executorch_py as et
from executorch_py.errors import ExecutorchError
from executorch_py.testing import lower

from .kernel_runner import KernelError, run_kernel

GROUPED = "et::grouped_mm.out"
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def ends(*values):
    return torch.tensor(values, dtype=torch.int32)


torch.manual_seed(0)
FORMS = {
    "rows": (torch.randn(24, 16), torch.randn(3, 16, 40), ends(7, 7, 24)),
    "rows, weights transposed": (torch.randn(24, 16), torch.randn(3, 40, 16).mT, ends(0, 20, 24)),
    "columns": (torch.randn(3, 24, 16), torch.randn(16, 40), ends(8, 16, 40)),
    "depth": (torch.randn(24, 16), torch.randn(16, 40), ends(4, 4, 16)),
    "batches": (torch.randn(3, 24, 16), torch.randn(3, 16, 40), None),
}


def grouped(left, right, offsets):
    """What a grouped product is, group by group in double."""
    left, right = left.double(), right.double()
    if offsets is None:
        return left @ right
    parts = list(zip([0, *offsets.tolist()[:-1]], offsets.tolist(), strict=True))
    if left.dim() == 2 and right.dim() == 3:
        return torch.cat([left[a:b] @ right[g] for g, (a, b) in enumerate(parts)])
    if left.dim() == 3:
        return torch.cat([left[g] @ right[:, a:b] for g, (a, b) in enumerate(parts)], dim=1)
    return torch.stack([left[:, a:b] @ right[a:b] for a, b in parts])


def assert_close(actual, exact):
    assert actual.shape == exact.shape
    assert (actual.double() - exact).abs().max() <= LIMITS[actual.dtype] * exact.abs().max()


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_portable_kernel(form, dtype):
    left, right, offsets = FORMS[form]
    left, right = left.to(dtype), right.to(dtype)
    exact = grouped(left, right, offsets)
    out = torch.full(exact.shape, 7.0, dtype=dtype)
    run_kernel(GROUPED, [left, right.contiguous(), offsets, None, out])
    assert_close(out, exact)


def test_the_reference_is_what_eager_computes():
    for left, right, offsets in FORMS.values():
        eager = torch._grouped_mm(left, right, offsets)
        torch.testing.assert_close(grouped(left, right, offsets).float(), eager, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [(ends(5, 3, 24), "group 1 ends at 3"), (ends(5, 6, 25), "group 2 ends at 25"), (ends(-1, 3, 24), "group 0"),
     (ends(5, 24), "2 offsets for 3 matrices"), (torch.tensor([1, 2, 24]), "torch.int32"), (None, "offsets")],
)  # fmt: skip
def test_offsets_that_make_no_sense(offsets, message):
    left, right, _ = FORMS["rows"]
    with pytest.raises(KernelError, match=message):
        run_kernel(GROUPED, [left, right, offsets, None, torch.empty(24, 40)])


class Experts(nn.Module):
    """Rows sorted by expert, multiplied by each expert's weights, stored [experts, out, in] as transformers does."""

    def __init__(self, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 48, 32).to(dtype))

    def forward(self, rows, offsets):
        return torch.ops.transformers.grouped_mm_fallback(rows, self.weight.transpose(1, 2), offsets)


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_a_mixture_of_experts(dtype):
    model = Experts(dtype)
    rows = torch.randn(50, 32).to(dtype)
    method = et.Runtime.get().load_program(lower(model, (rows, ends(10, 20, 30, 50))).buffer).load_method("forward")
    for offsets in (ends(10, 20, 30, 50), ends(0, 0, 49, 50), ends(50, 50, 50, 50)):
        (actual,) = method.execute((rows, offsets))
        assert_close(actual, grouped(rows, model.weight.detach().mT, offsets))
    (actual,) = method.execute((rows, ends(1, 2, 3, 40)))
    assert not actual[40:].any()  # eager leaves rows of no group undefined
    with pytest.raises(ExecutorchError, match="group 3 ends at 51"):
        method.execute((rows, ends(1, 2, 3, 51)))
    assert_close(method.execute((rows, offsets))[0], grouped(rows, model.weight.detach().mT, offsets))
