"""Linear layers of floats with integer weights: every form of weight and size against the product in float64."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py.devtools.requirements import requirements

q = torch.ops.quantized_decomposed


class Layer(nn.Module):
    """Random integers; groups of columns or whole rows with a scale, and a zero point on request."""

    def __init__(self, columns: int, rows: int, group: int, bits: int, has_zeros: bool) -> None:
        super().__init__()
        self.group, self.low, self.high = group, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        groups = columns // group if group else 1
        self.register_buffer("integers", torch.randint(self.low, self.high + 1, (rows, columns), dtype=torch.int8))
        scales = torch.rand(rows, groups) * 0.05 + 0.01
        self.register_buffer("scales", scales if rows == 5 else scales.bfloat16().float())  # stored as bfloat16 then
        zeros = torch.randint(self.low // 2, self.high // 2, (rows, groups)) if has_zeros else torch.zeros(rows, groups)
        self.register_buffer("zeros", zeros.long())
        self.bias = nn.Parameter(torch.randn(rows))

    def weight(self) -> torch.Tensor:
        limits = (self.low, self.high, torch.int8)
        if self.group:
            return q.dequantize_per_channel_group(
                self.integers, self.scales, self.zeros, *limits, self.group, torch.float32
            )
        return q.dequantize_per_channel(self.integers, self.scales.flatten(), self.zeros.flatten(), 0, *limits)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight(), self.bias)


@pytest.mark.parametrize("rows", [1, 5, 66])
@pytest.mark.parametrize(
    ("columns", "group"), [(64, 32), (1056, 32), (4128, 32), (1056, 0), (90, 6), (80, 16), (34, 0), (33, 0)]
)
@pytest.mark.parametrize(("bits", "has_zeros"), [(4, False), (4, True), (8, False), (8, True)])
def test_products(bits: int, has_zeros: bool, columns: int, group: int, rows: int) -> None:
    torch.manual_seed(bits + columns + rows)
    layer = Layer(columns, rows, group, bits, has_zeros).eval()
    tokens = torch.export.Dim("tokens", min=1, max=64)
    exported = torch.export.export(layer, (torch.randn(3, columns),), dynamic_shapes=({0: tokens},))
    data = et.to_edge_transform_and_lower(exported).to_executorch().buffer
    (need,) = [need for need in requirements(data) if need.operator == "et::weight_only_linear.out"]
    assert any("optimized" in str(kernel) for kernel in need.kernels), need.kernels
    method = et.Runtime.get().load_program(data).load_method("forward")
    with torch.no_grad():
        weight = layer.weight().double()
        for count in (1, 2, 6, 7, 31):
            x = torch.randn(count, columns)
            (actual,) = method.execute((x,))
            exact = F.linear(x.double(), weight, layer.bias.double())
            size = F.linear(x.double().abs(), weight.abs(), layer.bias.double().abs())
            assert ((actual - exact).abs() <= 1e-6 * size).all()  # of the sizes that were added
