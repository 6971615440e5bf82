"""A part for each operator: of integers it holds the conversions around it, too, and the numbers are those of one large
part.
"""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackDynamicallyQuantizedPartitioner, XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer


class Network(nn.Module):
    """Activations behind products and sums, a value with several readers, filters of groups, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, bias=False), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up, self.head = nn.ConvTranspose2d(8, 8, 2), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x))
        x = F.relu6(self.second(x) + x)
        x = torch.cat([F.max_pool2d(x, 2), F.avg_pool2d(x, 2)], 3)
        return self.head(F.relu(self.up(x)).mean((2, 3)))


@pytest.mark.parametrize("flow", ["static_int8", "dynamic_int8", "dynamic_int4", "int8_weight_only", "fp16", "float"])
def test_parts_of_one_operator(flow):
    torch.manual_seed(0)
    samples = [(torch.randn(2, 4, 9, 9),) for _ in range(4)]
    program = torch.export.export(Network().eval(), samples[0])
    if flow != "float":
        program = quantizer.quantize(program, config_or_quantizer=flow, calibration_data=samples)
    methods, counts = [], []
    for single in (False, True):
        edge = et.to_edge_transform_and_lower(
            program, partitioner=[XnnpackPartitioner(per_op_mode=single, always=True)]
        )
        manager = edge.to_executorch()
        counts.append(manager.dump().count("= delegate @"))
        methods.append(et.Runtime.get().load_program(manager.buffer).load_method("forward"))
    assert counts[1] >= (8 if flow in ("static_int8", "fp16", "float") else 4) > 1 and counts[0] < counts[1]
    for sample in samples:
        large, single = (method.execute(sample)[0] for method in methods)
        expected = program.module()(*sample)
        assert (single - expected).norm() <= 0.02 * expected.norm()
        if flow == "static_int8":
            assert torch.equal(single, large)


class Heads(nn.Module):
    """Three products read one input, and two another."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.gate, self.up, self.down = nn.Linear(32, 48), nn.Linear(32, 48), nn.Linear(48, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        x = x + torch.softmax(scores, -1) @ self.value(x)
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("flow", ["dynamic_int8", "dynamic_int4"])
@pytest.mark.parametrize(
    "partitioner",
    [XnnpackPartitioner(per_op_mode=True), XnnpackDynamicallyQuantizedPartitioner()],
    ids=["any", "dynamic"],
)
def test_products_that_share_a_quantization_at_run_time(partitioner, flow):
    torch.manual_seed(0)
    model, x = Heads().eval(), torch.randn(2, 5, 32)
    program = quantizer.quantize(model, (x,), flow)
    file = et.to_edge_transform_and_lower(program, partitioner=[partitioner]).to_executorch().buffer
    expected = program.module()(x)
    actual = et.load(file)(x)
    assert (actual - expected).norm() <= 0.02 * expected.norm()
