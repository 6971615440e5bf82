"""The example quantizer and the example integer device: the talk's network, after training and during it, partitioned
and run.
"""

import pytest
import torch
from executorch_py.backends.example.int8 import BACKEND_ID, ExampleInt8Partitioner, ExampleInt8Runtime
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer


class Talk(nn.Module):
    """interpolate -> convolution -> relu -> softmax, and linear, linear -> relu."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.hidden = nn.Linear(4 * 8 * 8, 16)
        self.out = nn.Linear(16, 5)

    def forward(self, x):
        x = F.interpolate(x, scale_factor=2.0)
        x = F.softmax(torch.relu(self.conv(x)), dim=1)
        return self.out(torch.relu(self.hidden(x.flatten(1))))


GENERATOR = torch.Generator().manual_seed(2)
IMAGES = torch.rand(12, 2, 3, 4, 4, generator=GENERATOR)


@pytest.fixture(autouse=True)
def _device():
    et.Runtime.get().register_backend(BACKEND_ID, ExampleInt8Runtime)


def talk() -> Talk:
    torch.manual_seed(1)
    return Talk().eval()


def operators_left(edge) -> list[str]:
    """What the device did not take."""
    names = {str(n.target) for n in edge.exported_program().graph.nodes if n.op == "call_function"}
    return sorted(name for name in names if name.startswith(("aten", "quantized_decomposed")))


def lowered_and_run(program):
    edge = et.to_edge_transform_and_lower(program, partitioner=[ExampleInt8Partitioner()])
    method = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
    return edge, method.execute((IMAGES[0],))[0]


def check(program, float_model) -> None:
    edge, actual = lowered_and_run(program)
    assert operators_left(edge) == [
        "aten._softmax.default",
        "aten.relu.default",
        "aten.upsample_nearest2d.vec",
        "aten.view_copy.default",
    ]
    with torch.no_grad():
        reference, expected = program.module()(IMAGES[0]), float_model(IMAGES[0])
    step = [node for node in program.graph.nodes if "dequantize_per_tensor" in str(node.target)][-1].args[1]
    assert (
        actual - reference
    ).abs().max() <= 1.01 * step  # torch's q/dq reference multiplies floats: one step may differ
    assert (actual - expected).abs().max() <= 0.05 * expected.abs().max()


def test_after_training():
    model = talk()
    check(quantizer.quantize(model, (IMAGES[0],), quantizer.ExampleQuantizer(), IMAGES), model)


def test_during_training():
    model = talk()
    prepared = quantizer.prepare_qat(model, (IMAGES[0],), quantizer.ExampleQuantizer(is_qat=True))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=1e-2)
    for image in IMAGES:
        prepared.train()
        loss = prepared(image).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    prepared.eval()
    trained = talk()
    trained.load_state_dict(
        {name: value for name, value in prepared.state_dict().items() if name in trained.state_dict()}
    )
    check(quantizer.convert(prepared), trained)


def test_float_model_keeps_its_convolution():
    edge, actual = lowered_and_run(torch.export.export(talk(), (IMAGES[0],)))
    assert "aten.convolution.default" not in operators_left(edge)
    assert "aten.linear.default" in operators_left(edge)
    torch.testing.assert_close(actual, talk()(IMAGES[0]).detach(), rtol=1e-5, atol=1e-5)


def test_what_the_device_cannot_says_why():
    model = nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, dilation=2)).eval()
    x = torch.rand(1, 4, 9, 9)
    program = quantizer.quantize(model, (x,), quantizer.ExampleQuantizer(), [x])
    report = et.delegation_report(et.to_edge_transform_and_lower(program, partitioner=[ExampleInt8Partitioner()]))
    assert "only 2-D convolution without dilation and groups" in {row.reason for row in report.refused()}
