"""Known networks are one TOSA segment each, and Arm's reference model gives the kernels' integers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner, reference
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from tests.models import zoo
from tests.tosa.tools import tosa_python


def _payload(file: bytes) -> bytes:
    """The only payload of a file, with what stands behind it."""
    places = [
        i for i in range(4, len(file), 4) if file[i : i + 4] == b"TOSA" and file[i + 4 : i + 5] not in (b"B", b"-")
    ]
    assert len(places) == 1
    return file[places[0] - 4 :]


class _VitBlock(nn.Module):
    """64 tokens x 96: layer norms, attention of four heads, a GELU MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.LayerNorm(96), nn.LayerNorm(96)
        self.qkv, self.out = nn.Linear(96, 288), nn.Linear(96, 96)
        self.wide, self.narrow = nn.Linear(96, 384), nn.Linear(384, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.before(x)).reshape(1, 64, 3, 4, 24).permute(2, 0, 3, 1, 4).unbind(0)
        shares = (q @ k.transpose(-2, -1) * 24**-0.5).softmax(-1)
        x = x + self.out((shares @ v).transpose(1, 2).reshape(1, 64, 96))
        return x + self.narrow(F.gelu(self.wide(self.behind(x))))


class _Lstm(nn.Module):
    """32 -> 64, the states of all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(32, 64, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


@pytest.mark.parametrize("make, shape", [(_VitBlock, (1, 64, 96)), (_Lstm, (1, 16, 32))])
def test_networks_without_floats_between(make: type[nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    whole = quantizer.TOSAQuantizer().set_global(quantizer.get_symmetric_quantization_config(is_per_channel=True))
    _check(make().eval(), (torch.randn(shape),), whole)


# ResNet-18, MobileNetV2 and V3-small at sizes that take seconds; docs/how-to/backends_tosa.md has the whole figures.
@pytest.mark.parametrize("name", ["ds_cnn", "autoencoder", "mobilenet_v2", "mobilenet_v3_small", "resnet18"])
def test_reference_model_gives_the_kernels_integers(name: str) -> None:
    method = getattr(zoo, name)()["forward"]
    torch.manual_seed(0)
    inputs = tuple(torch.randn_like(x)[..., :64, :64] if x.dim() == 4 else torch.randn_like(x) for x in method.inputs)
    _check(method.module, inputs, "static_int8")


def _check(model: nn.Module, inputs: tuple[torch.Tensor, ...], config: Any) -> None:
    python = tosa_python()
    exported = quantizer.quantize(model, inputs, config, [inputs])
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner()])
    nodes = edge.exported_program().graph.nodes
    left = [n for n in nodes if n.op == "call_function" and "getitem" not in str(n.target)]
    outside = [str(node.target) for node in left if "delegation_tag" not in node.meta]
    assert all("quantize_per_tensor" in target for target in outside), et.delegation_report(edge)
    assert len(outside) == 2

    quantize = next(node for node in exported.graph.nodes if "quantize_per_tensor" in str(node.target))
    integers = torch.ops.quantized_decomposed.quantize_per_tensor.default(inputs[0], *quantize.args[1:])
    (got,) = reference.run(_payload(bytes(edge.to_executorch().buffer)), [integers.numpy()], python)
    kernels = et.to_edge_transform_and_lower(exported).to_executorch()
    (floats,) = et.Runtime.get().load_program(kernels.buffer).load_method("forward").execute(inputs)
    scale, zero_point = exported.graph.output_node().args[0][0].args[1:3]
    assert torch.equal(torch.from_numpy(got).int(), torch.round(floats / scale).int() + zero_point)
