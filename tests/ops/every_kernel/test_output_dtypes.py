"""Kernels that a load prepares look at the element type of their output, too: one of fewer bytes than they write is
refused, or computed, and nothing behind its memory is written to. Libraries are not built with sanitizers, so the
memory is looked at."""

from __future__ import annotations

import contextlib
import copy

import pytest

torch = pytest.importorskip("torch")
from ..kernel_runner import KernelError, kernel_count, prepare_and_run  # noqa: E402
from ..own_calls import own_calls  # noqa: E402
from ..sweep import OPS  # noqa: E402

OUTPUTS = {
    op.kernel_schema.name: [i for i, a in enumerate(op.kernel_schema.arguments) if a.is_out] for op in OPS.values()
}
MARK = 0xA5


def narrow(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of the same sizes and order, and the bytes behind it: room for elements of 16 bytes."""
    memory = torch.full((16 * tensor.numel() + 64,), MARK, dtype=torch.uint8)
    inside = memory[: tensor.numel()].zero_().view(dtype)
    return inside.as_strided(tensor.shape, tensor.stride()), memory[tensor.numel() :]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8], ids=str)
def test_nothing_is_written_behind_outputs_of_a_byte(dtype: torch.dtype) -> None:
    for number, (name, given, letters) in enumerate(own_calls()):
        outputs = [i for i in OUTPUTS[name] if isinstance(given[i], torch.Tensor) and given[i].element_size() > 1]
        tensors = [i for i, a in enumerate(given) if isinstance(a, torch.Tensor) and i not in OUTPUTS[name]]
        numbers = {i for i in range(len(given)) if i not in (*tensors, *OUTPUTS[name])}
        for place in range(kernel_count(name) if outputs else 0):
            for constant in (numbers, numbers.union(tensors[1:]), numbers.union(tensors)):
                arguments, behind = copy.deepcopy(given), {}
                for i in outputs:
                    arguments[i], behind[i] = narrow(given[i], dtype)
                with contextlib.suppress(KernelError):
                    prepare_and_run(name, place, arguments, letters, constant)
                for i, memory in behind.items():
                    assert (memory == MARK).all(), f"call {number}: kernel {place} of {name} writes behind argument {i}"
