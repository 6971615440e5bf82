"""What published architectures brought to light, without the whole model."""

from __future__ import annotations

import pytest
import torch

import executorch_py as et


def _ours(function, *inputs: torch.Tensor) -> torch.Tensor:
    class Model(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return function(*tensors)

    program = torch.export.export(Model().eval(), inputs)
    buffer = et.to_edge_transform_and_lower(program).to_executorch().buffer
    return et.Runtime.get().load_program(buffer).load_method("forward").execute(list(inputs))[0]


@pytest.mark.parametrize("scan", [torch.cumsum, torch.cumprod])
def test_scans_of_bools_count(scan) -> None:
    """Llama 4 numbers its images by a running sum of a mask; PyTorch's operator database has no scans of bools."""
    mask = torch.tensor([[True, False, True, True], [True, True, False, True]])
    expected = scan(mask, 1)
    actual = _ours(lambda x: scan(x, 1), mask)
    assert actual.dtype == torch.int64
    assert torch.equal(actual, expected)
