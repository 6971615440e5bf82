"""What the delegate's payloads say: where layouts change, and which argument an input is."""

from __future__ import annotations

import struct

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from tests.models.zoo import ZOO, UNet
from tests.xnnpack.payload import NODES, Graph, read_payloads


def _lower(program: torch.export.ExportedProgram) -> bytes:
    return et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch().buffer


def _payload(program: torch.export.ExportedProgram) -> Graph:
    (payload,) = read_payloads(_lower(program))
    return payload


def test_names_are_those_of_the_format() -> None:
    assert len(NODES) == 48 and NODES[1] == "Add" and NODES[-1] == "Cos"


class TestTransposes:
    """Convolutional networks change layout where they begin and where they end, nowhere inside."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "preset"), [("mobilenet_v2", "static_int8"), ("resnet18", None)])
    def test_classifiers(self, name: str, preset: str | None) -> None:
        method = ZOO[name]()["forward"]
        payload = _payload(_quantized(method.export(), method.inputs, preset))
        _enters(payload)
        # One pixel is left in front of the classifier: a reshape.
        assert payload.count("StaticTranspose") == 1 and payload.count("StaticReshape") == 1
        assert set(payload.nodes[payload.nodes.index("StaticReshape") :]) <= {
            "StaticReshape",
            "FullyConnected",
            "Convert",
        }

    @pytest.mark.parametrize("preset", [None, "static_int8"])
    def test_image_to_image(self, preset: str | None) -> None:
        """U-Net, whose skips are concatenated along the channels, which are innermost."""
        torch.manual_seed(0)
        inputs = (torch.rand(1, 3, 16, 24),)
        payload = _payload(_quantized(torch.export.export(UNet().eval(), inputs), inputs, preset))
        _enters(payload)
        assert payload.count("StaticTranspose") == 2
        assert set(payload.nodes[payload.nodes.index("StaticTranspose", 2) :]) <= {"StaticTranspose", "Convert"}
        assert payload.count("Concatenate2") == 2 and payload.count("ConvTranspose2d") == 2

    def test_one_channel_needs_none(self) -> None:
        """An image of one channel is the same bytes in both orders."""
        method = ZOO["ds_cnn"]()["forward"]
        assert _payload(method.export()).count("StaticTranspose") == 0


def _quantized(
    program: torch.export.ExportedProgram, inputs: tuple[torch.Tensor, ...], preset: str | None
) -> torch.export.ExportedProgram:
    return (
        program
        if preset is None
        else quantizer.quantize(program, config_or_quantizer=preset, calibration_data=[inputs])
    )


def _enters(payload: Graph) -> None:
    """The image is turned before anything computes; bytes after they were floats, so that less is moved."""
    first = payload.nodes.index("StaticTranspose")
    assert payload.nodes[:first] in ((), ("Convert",))


class Apart(nn.Module):
    """Three inputs that are no use in another's place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.linear(x) - y
        return hidden * 2, hidden / (z * z + 1)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
@pytest.mark.parametrize("turn", [False, True], ids=["outputs kept", "outputs swapped"])
def test_external_ids_say_which_argument_a_value_is(order: tuple[int, ...], turn: bool) -> None:
    """The lists of inputs and outputs may have any order: the official exporter's have that of first use."""
    torch.manual_seed(0)
    module, inputs = Apart().eval(), tuple(torch.randn(2, 4) for _ in range(3))
    data = bytearray(_lower(torch.export.export(module, inputs)))
    (payload,) = read_payloads(bytes(data))
    assert [payload.values[i].external_id for i in (*payload.inputs, *payload.outputs)] == [0, 1, 2, 3, 4]
    _replace(data, payload.inputs, tuple(payload.inputs[i] for i in order))
    if turn:
        _replace(data, payload.outputs, payload.outputs[::-1])
    found = et.Runtime.get().load_program(bytes(data)).load_method("forward").execute(inputs)
    for actual, expected in zip(found, module(*inputs), strict=True):
        assert (actual - expected).abs().max() <= 1e-6


def _replace(data: bytearray, ids: tuple[int, ...], by: tuple[int, ...]) -> None:
    before, after = (struct.pack(f"<{len(ids) + 1}I", len(ids), *some) for some in (ids, by))
    place = data.index(before, data.index(b"XH00"))
    assert before not in data[place + 1 :]
    data[place : place + len(before)] = after
