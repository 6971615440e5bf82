"""Convolutions whose images become integers at the call: one operator on integers, near the exported program."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer

# channels of the input, its size, the layers
NETWORKS = {
    "images": (3, (17, 18), lambda: [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 24, 1), nn.Conv2d(24, 9, 3)]),
    "dilated": (5, (14, 9), lambda: [nn.Conv2d(5, 7, (3, 2), dilation=2, padding=2), nn.ReLU6(), nn.Conv2d(7, 8, 5)]),
    "depthwise": (16, (9, 9), lambda: [nn.Conv2d(16, 16, 3, groups=16), nn.Conv2d(16, 40, 1), nn.Hardswish()]),
    "one": (4, (6, 6), lambda: [nn.Conv2d(4, 12, 6, bias=False)]),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, batch: int) -> None:
    channels, size, layers = NETWORKS[name]
    torch.manual_seed(len(name) + batch)
    module, inputs = nn.Sequential(*layers()).eval(), (torch.randn(batch, channels, *size),)
    program = quantizer.quantize(module, inputs, "dynamic_int8", [inputs])
    expected = program.module()(*inputs)
    outputs = []
    for partitioner in (None, [XnnpackPartitioner()], [XnnpackPartitioner(always=True)]):
        manager = et.to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch()
        outputs.append(et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)[0])
        if partitioner is None:
            dense = sum(isinstance(layer, nn.Conv2d) and layer.groups == 1 for layer in module)
            assert manager.dump().count("et::dynamic_convolution.out") == dense
            assert "quantized_decomposed::choose_qparams" not in manager.dump()
    # A value in the middle of two integers may be rounded the other way.
    for output in outputs:
        torch.testing.assert_close(output, expected, rtol=0, atol=0.02 * float(expected.abs().max()))
    if name == "one":  # no rounding behind it
        torch.testing.assert_close(outputs[0], expected, rtol=1e-5, atol=1e-5)


def test_dynamic_sizes() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(6, 20, 3, padding=1), nn.ReLU(), nn.Conv2d(20, 8, 1)).eval()
    inputs, others = (torch.randn(2, 6, 12, 10),), (torch.randn(3, 6, 7, 10),)
    batch, rows = torch.export.Dim("batch", max=4), torch.export.Dim("rows", min=4, max=20)
    shapes = ({0: batch, 2: rows},)
    program = quantizer.quantize(module, inputs, "dynamic_int8", [inputs], dynamic_shapes=shapes)
    manager = et.to_edge_transform_and_lower(program).to_executorch()
    assert manager.dump().count("et::dynamic_convolution.out") == 2
    method = et.Runtime.get().load_program(manager.buffer).load_method("forward")
    for given in (inputs, others):
        expected = program.module()(*given)
        torch.testing.assert_close(method.execute(given)[0], expected, rtol=0, atol=0.02 * float(expected.abs().max()))
