"""Known networks are one TOSA segment each, and Arm's reference model gives the kernels' integers."""

from __future__ import annotations

import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner, reference

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


# ResNet-18, MobileNetV2 and V3-small at sizes that take seconds; docs/how-to/backends_tosa.md has the whole figures.
@pytest.mark.parametrize("name", ["ds_cnn", "autoencoder", "mobilenet_v2", "mobilenet_v3_small", "resnet18"])
def test_reference_model_gives_the_kernels_integers(name: str) -> None:
    python = tosa_python()
    method = getattr(zoo, name)()["forward"]
    torch.manual_seed(0)
    inputs = tuple(torch.randn_like(x)[..., :64, :64] if x.dim() == 4 else torch.randn_like(x) for x in method.inputs)
    exported = quantizer.quantize(method.module, inputs, "static_int8", [inputs])
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner()])
    left = [node for node in edge.exported_program().graph.nodes if node.op == "call_function"]
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
