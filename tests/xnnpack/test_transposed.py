"""Transposed convolutions at the edges of what the library can do, on its kernels and in a delegate, beside eager."""

from __future__ import annotations

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export import Dim

import executorch_py as et
from executorch_py import quantizer

#: layer, sizes of the input: outputs smaller than the stride, which the library writes beside; rows that do and do not
#: meet; output paddings beyond the stride.
CASES = {
    "line_of_one": (lambda: nn.ConvTranspose1d(3, 2, 4, 4, padding=1), (1, 3, 1)),
    "column_of_one": (lambda: nn.ConvTranspose2d(3, 2, 4, 4, (0, 1)), (2, 3, 3, 1)),
    "row_of_one": (lambda: nn.ConvTranspose2d(3, 2, 4, 4, (1, 0)), (1, 3, 1, 5)),
    "pixel": (lambda: nn.ConvTranspose2d(3, 2, 3, 2, 1), (1, 3, 1, 1)),
    "side_by_side": (lambda: nn.ConvTranspose2d(5, 7, 2, 2), (2, 5, 9, 11)),
    "groups": (lambda: nn.ConvTranspose2d(6, 4, 2, 2, groups=2), (1, 6, 8, 3)),
    "columns_meet": (lambda: nn.ConvTranspose2d(4, 5, (2, 3), 2, (0, 1), (0, 1)), (3, 4, 5, 6)),
    "wide_output_padding": (
        lambda: nn.ConvTranspose2d(5, 5, (1, 2), 1, padding=(0, 1), dilation=(1, 2), output_padding=(0, 1)),
        (2, 5, 4, 2),
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_transposed_convolutions(name: str, integers: bool, delegated: bool) -> None:
    torch.manual_seed(0)
    make, size = CASES[name]
    module, x = make().eval(), torch.randn(size)
    if integers:
        exported = quantizer.quantize(module, (x,), quantizer.quantization_config(), [(x,)])
    else:
        exported = torch.export.export(module, (x,))
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    method = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
    tolerance = 0.05 if integers else 1e-5
    torch.testing.assert_close(method.execute((x,))[0], module(x), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
def test_images_that_become_small(padding: int, delegated: bool) -> None:
    torch.manual_seed(0)
    module = nn.ConvTranspose2d(3, 4, 3, 2, padding).eval()
    shapes = ({2: Dim("height", max=9), 3: Dim("width", max=9)},)
    exported = torch.export.export(module, (torch.randn(1, 3, 5, 7),), dynamic_shapes=shapes)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    method = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
    for height, width in ((9, 9), (1, 3), (4, 1), (1, 1), (7, 5)):
        x = torch.randn(1, 3, height, width)
        torch.testing.assert_close(method.execute((x,))[0], module(x), rtol=1e-5, atol=1e-5)
