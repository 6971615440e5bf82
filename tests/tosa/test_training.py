"""A model that trained with fake quantization is one part, with the kernels' integers."""

from __future__ import annotations

import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.codegen.pte_delegates import delegates_of

SPECIFICATION = "TOSA-1.0+INT+int16+int4"
CONFIGURATIONS = {
    "int8": quantizer.get_symmetric_quantization_config(is_per_channel=True, is_qat=True),
    "int8 by tensor": quantizer.get_symmetric_quantization_config(is_qat=True),
    "a8w4": quantizer.get_symmetric_a8w4_quantization_config(is_qat=True),
    "a16w8": quantizer.get_symmetric_a16w8_quantization_config(is_qat=True),
}


class _Network(nn.Module):
    """Convolution with batch norm and relu, a residual sum, a gate, an average and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.last = nn.Conv2d(6, 6, 1), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return self.last(torch.sigmoid(y + self.second(y)).mean((2, 3)))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_trained_model_is_one_part(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, 8, 8)
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS[name])
    prepared = quantizer.prepare_qat(_Network(), (x,), annotating)
    prepared.train()
    optimizer = torch.optim.SGD(prepared.parameters(), 1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        prepared(torch.randn_like(x)).square().mean().backward()
        optimizer.step()
    prepared.eval()
    exported = quantizer.convert(prepared)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner(SPECIFICATION)])
    program, plain = edge.to_executorch(), et.to_edge_transform_and_lower(exported).to_executorch()
    assert len(delegates_of(bytes(program.buffer))) == 1, et.delegation_report(edge)
    nodes = edge.exported_program().graph.nodes
    left = [str(n.target) for n in nodes if n.op == "call_function" and "delegation_tag" not in n.meta]
    assert all("quantize_per_tensor" in name or "getitem" in name for name in left), left
    for given in (x, torch.randn_like(x) * 2):
        got, wanted = (
            et.Runtime.get().load_program(p.buffer).load_method("forward").execute((given,))[0]
            for p in (program, plain)
        )
        if name == "a16w8":  # its sigmoid is straight lines
            assert (got - wanted).abs().max() <= 1e-3 * wanted.abs().max()
        else:
            assert torch.equal(got, wanted)
