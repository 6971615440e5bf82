"""What the delegate's payloads say: where layouts change, and which argument an input is."""

from __future__ import annotations

import struct

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export import Dim

import executorch_py as et
from executorch_py import quantizer
from tests.models.zoo import ZOO, UNet
from tests.xnnpack.payload import NODES, Graph, node_types_at, read_payloads


def _lower(program: torch.export.ExportedProgram) -> bytes:
    return (
        et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )


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

    @pytest.mark.parametrize("preset", [None, "static_int8"])
    def test_pixels_as_rows(self, preset: str | None) -> None:
        """A detection head: channels are innermost in a row of numbers for each pixel, as they are in the delegate's
        image.
        """
        torch.manual_seed(0)
        module, inputs = Head().eval(), (torch.rand(2, 3, 6, 8),)
        program = _quantized(torch.export.export(module, inputs), inputs, preset)
        payload = _payload(program)
        _enters(payload)
        assert payload.count("StaticTranspose") == 1 and payload.count("StaticReshape") == 4
        (actual,) = _run(_lower(program), inputs)
        with torch.no_grad():
            expected = program.module()(*inputs)
        step = 0 if preset is None else expected.abs().max() / 100
        assert actual.shape == expected.shape and (actual - expected).abs().max() <= 1e-5 + step

    @pytest.mark.parametrize(
        "shapes",
        [
            {0: Dim("batch", max=4)},
            {2: Dim("height", min=4, max=9)},
            {0: Dim("batch", max=4), 3: Dim("width", min=4, max=9)},
        ],
        ids=["batch", "height", "batch and width"],
    )
    def test_pixels_as_rows_of_changing_sizes(self, shapes: dict[int, Dim]) -> None:
        torch.manual_seed(0)
        module = Head().eval()
        program = torch.export.export(module, (torch.rand(2, 3, 6, 8),), dynamic_shapes=(shapes,))
        file = _lower(program)
        for batch, height, width in ((2, 6, 8), (4, 9, 9), (1, 4, 4)):
            sizes = (batch if 0 in shapes else 2, 3, height if 2 in shapes else 6, width if 3 in shapes else 8)
            x = torch.rand(sizes)
            (actual,) = _run(file, (x,))
            with torch.no_grad():
                assert (actual - module(x)).abs().max() <= 1e-5

    def test_lines_as_rows(self) -> None:
        """A 1-D convolution in front of a linear layer."""
        _check(Line(), [(2, 3, 16)], None, ("Conv2d", "StaticReshape", "FullyConnected"))

    def test_rows_as_lines(self) -> None:
        """A 1-D convolution behind a linear layer."""
        nodes = ("FullyConnected", "StaticReshape", "Conv2d")
        _check(Steps(), [(2, 16, 8)], None, nodes)
        _check(Steps(), [(2, 16, 8), (2, 5, 8), (2, 20, 8)], ({1: Dim("steps", min=4, max=20)},), nodes)

    def test_rows_as_images(self) -> None:
        """Tokens that become an image again."""
        nodes = ("FullyConnected", "StaticReshape", "StaticReshape", "Conv2d")
        _check(Tokens(), [(2, 12, 8)], None, nodes)
        _check(Tokens(), [(2, 12, 8), (4, 12, 8), (1, 12, 8)], ({0: Dim("batch", max=4)},), nodes)

    @pytest.mark.parametrize("kind", ["lines", "images"])
    def test_rows_of_integers(self, kind: str) -> None:
        torch.manual_seed(0)
        module, inputs = (Steps() if kind == "lines" else Tokens()).eval(), (torch.rand(2, 12, 8),)
        program = _quantized(torch.export.export(module, inputs), inputs, "static_int8")
        # What the convolution makes is the network's result, in the graph's order.
        assert _payload(program).count("StaticTranspose") == 1
        (actual,) = _run(_lower(program), inputs)
        with torch.no_grad():
            expected = program.module()(*inputs)
        assert (actual - expected).abs().max() <= expected.abs().max() / 100


class Head(nn.Module):
    """Boxes and scores of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 5, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        return torch.cat([branch(x).flatten(2).transpose(1, 2) for branch in (self.boxes, self.scores)], 2)


class Line(nn.Module):
    """A line of numbers, read by a convolution, then step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv1d(3, 8, 3, padding=1), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x).transpose(1, 2))


class Steps(nn.Module):
    """Rows of numbers, one a step, then a convolution over the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv = nn.Linear(8, 6), nn.Conv1d(6, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.linear(x).transpose(1, 2))


class Tokens(nn.Module):
    """Rows of numbers, one a patch, then a convolution over the image of the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv = nn.Linear(8, 6), nn.Conv2d(6, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.linear(x).transpose(1, 2).reshape(x.shape[0], 6, 3, 4))


def _check(module: nn.Module, sizes: list[tuple[int, ...]], shapes: object, nodes: tuple[str, ...]) -> None:
    """These nodes stand next to each other, and what they compute is right for inputs of all of the sizes."""
    torch.manual_seed(0)
    program = torch.export.export(module.eval(), (torch.rand(sizes[0]),), dynamic_shapes=shapes)
    found = _payload(program).nodes
    assert any(found[i : i + len(nodes)] == nodes for i in range(len(found))), found
    file = _lower(program)
    for size in sizes:
        x = torch.rand(size)
        (actual,) = _run(file, (x,))
        with torch.no_grad():
            assert (actual - module(x)).abs().max() <= 1e-5


def _run(file: bytes, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return et.Runtime.get().load_program(file).load_method("forward").execute(inputs)


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


class Clamped(nn.Module):
    """A layer and a clamp, with a node between that keeps our writer from making them one."""

    def __init__(self, layer: nn.Module, bounds: tuple[float, float], between: bool) -> None:
        super().__init__()
        self.layer, self.bounds, self.between = layer, bounds, between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        return (x.abs() if self.between else x).clamp(*self.bounds)


LAYERS = {
    "conv": lambda: nn.Conv2d(3, 4, 3, padding=2),
    "depthwise": lambda: nn.Conv2d(3, 6, 3, padding=1, groups=3),
    "transposed": lambda: nn.ConvTranspose2d(3, 4, 3, 2, padding=1),
    "max_pool": lambda: nn.MaxPool2d(3, padding=1),
    "avg_pool": lambda: nn.AvgPool2d(3, count_include_pad=False, padding=1),
    "linear": lambda: nn.Linear(9, 4),
}


@pytest.mark.parametrize("between", ["Clamp", "Copy"])
@pytest.mark.parametrize("bounds", [(0.1, 1.0), (-0.5, -0.1), (7e-45, 1.0)], ids=["positive", "negative", "denormal"])
@pytest.mark.parametrize("layer", LAYERS)
def test_clamps_of_other_writers(layer: str, bounds: tuple[float, float], between: str) -> None:
    """A Clamp of its own behind a node. The library makes them one and writes the bounds over the node's paddings. So a
    padding was 0.1, read as an integer, or 5 (7e-45) instead of 2, and the result larger than its memory. A Copy
    between them
    it leaves out first."""
    torch.manual_seed(0)
    made, x = LAYERS[layer]().eval(), torch.randn(2, 3, 8, 9)
    data = bytearray(_lower(torch.export.export(Clamped(made, bounds, True), (x,))))
    (payload,) = read_payloads(bytes(data))
    place = node_types_at(bytes(data))[payload.nodes.index("Abs")]
    assert data[place] == NODES.index("Abs")
    data[place] = NODES.index(between)  # without bounds a Clamp changes nothing
    (actual,) = _run(bytes(data), (x,))
    with torch.no_grad():
        expected = Clamped(made, bounds, False)(x)
    assert actual.shape == expected.shape and (actual - expected).abs().max() <= 1e-5
