"""Random networks: layers put together by hypothesis, with residuals, branches and sizes that change.

What random_graphs.py leaves out: convolutions, pooling, normalisation, resizing, attention, recurrent layers,
``torch.cond``, dynamic shapes. A network is drawn by running it: each layer is made for the value that is there, and
dropped where eager refuses it. Only functions without jumps are drawn, so that rounding stays rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import reject
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

Draw = Callable[[st.SearchStrategy], Any]

_MOST_ELEMENTS, _LARGEST = 20000, 1e3


class Block(nn.Module):
    """A layer, and how it is applied: to the running value, and to an earlier one where it joins two.

    Attributes:
        text: What it reads as in a report.
        other: Position of the earlier value (0 is the input); None where there is none.
    """

    def __init__(
        self, text: str, layer: nn.Module | None, apply: Callable[..., torch.Tensor], other: int | None = None
    ) -> None:
        super().__init__()
        self.text, self.layer, self.apply_to, self.other = text, layer, apply, other

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.apply_to(*values) if self.layer is None else self.apply_to(self.layer, *values)


class Network(nn.Module):
    """What was drawn; ``inputs`` are the ones that it was drawn with."""

    def __init__(self, sample: torch.Tensor) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        self.inputs = (sample, torch.tensor(True))
        self.dynamic: dict[int, Any] | None = None

    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        values = [x]
        for block in self.blocks:
            if block.text.startswith("cond"):
                values.append(block(flag, values[-1]))
            else:
                values.append(block(values[-1], *([] if block.other is None else [values[block.other]])))
        return values[-1]

    def shapes(self) -> dict[str, Any] | None:
        """For torch.export."""
        return None if self.dynamic is None else {"x": self.dynamic, "flag": None}

    def __repr__(self) -> str:
        lines = [f"  v0 = input {list(self.inputs[0].shape)}, dynamic {self.dynamic}"]
        for i, block in enumerate(self.blocks):
            lines.append(f"  v{i + 1} = {block.text}(v{i}{'' if block.other is None else f', v{block.other}'})")
        return "\n".join(["", *lines])


#: What torch says of branches whose results lie in memory in ways that it does not compare.
_REFUSED_STRIDES = ("is not a simple accumulative multiplication", "make the two branches have the same contiguousness")


def exported(network: Network) -> torch.export.ExportedProgram:
    """The program; an example that torch.export refuses is left out."""
    try:
        return torch.export.export(network, network.inputs, dynamic_shapes=network.shapes())
    except RuntimeError as error:
        assert any(text in str(error) for text in _REFUSED_STRIDES), str(error)
        reject()


@st.composite
def networks(draw: Draw) -> Network:
    """A network of 3 to 10 layers on images, sequences or rows."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["image", "image", "image", "sequence", "sequence", "row"]))
    batch = draw(st.integers(2, 3))
    channels = draw(st.integers(1, 9))
    shape = {
        "image": [batch, channels, draw(st.integers(3, 12)), draw(st.integers(3, 12))],
        "sequence": [batch, draw(st.integers(3, 9)), channels],
        "row": [batch, channels],
    }[kind]
    network = Network(torch.randn(shape))
    values = [network.inputs[0]]
    for _ in range(draw(st.integers(3, 10))):
        _add_block(draw, network, values)
    if draw(st.booleans()):
        where = draw(st.sets(st.integers(0, 0 if kind == "row" else len(shape) - 2), min_size=1))
        # Of an image, the batch, the height and the width; of a sequence, the batch and the length.
        places = [0, 2, 3] if kind == "image" else [0, 1]
        network.dynamic = {places[i]: torch.export.Dim.AUTO for i in where}
    return network.eval()


def _add_block(draw: Draw, network: Network, values: list[torch.Tensor]) -> None:
    value = values[-1]
    families = _FAMILIES[value.dim()]
    block = draw(st.sampled_from(families))(draw, values)
    if block is None:
        return
    block.eval()
    try:
        with torch.no_grad():
            arguments = [network.inputs[1], value] if block.text.startswith("cond") else [value]
            result = block(*arguments, *([] if block.other is None else [values[block.other]]))
    except (RuntimeError, ValueError, IndexError, NotImplementedError, AssertionError):
        return  # eager does not take these sizes
    if result.numel() and (result.numel() > _MOST_ELEMENTS or not bool(result.abs().max() <= _LARGEST)):
        return
    if result.dim() in _FAMILIES and result.numel():
        network.blocks.append(block)
        values.append(result)


def _pair(draw: Draw, low: int, high: int) -> tuple[int, int]:
    return draw(st.integers(low, high)), draw(st.integers(low, high))


def _settle(layer: nn.Module) -> nn.Module:
    """Statistics and affine parameters as training would leave them."""
    for name, tensor in layer.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
        elif name.endswith("running_mean") or (tensor.is_floating_point() and tensor.dim() == 1):
            tensor.normal_(0.3, 0.3)
    return layer


def _call(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x)


# -- any value


_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu, "relu6": F.relu6, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "hardtanh": F.hardtanh,
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish, "elu": F.elu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1), "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softplus": F.softplus,
    "clamp": lambda x: x.clamp(-0.5, 1.5), "clamp_min": lambda x: x.clamp(min=-0.25), "abs": torch.abs,
    "square": torch.square,
    "neg": torch.neg, "exp_clamped": lambda x: x.clamp(max=2).exp(), "sqrt_abs": lambda x: (x.abs() + 0.1).sqrt(),
    "rsqrt_abs": lambda x: (x.abs() + 0.1).rsqrt(), "affine": lambda x: x * 0.5 - 1, "from_one": lambda x: 1 - x,
    "relu_inplace": lambda x: x.clone().relu_(), "contiguous": lambda x: x.contiguous(),
}  # fmt: skip


def _activation(draw: Draw, values: list[torch.Tensor]) -> Block:
    name = draw(st.sampled_from([*_ACTIVATIONS]))
    return Block(name, None, _ACTIVATIONS[name])


_JOINS: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": lambda a, b: a * b.tanh(), "maximum": torch.maximum,
    "minimum": torch.minimum,
    "div": lambda a, b: a / (b.abs() + 1), "add_relu": lambda a, b: F.relu(a + b), "cat": lambda a,
    b: torch.cat([a, b], 1),
    "cat3": lambda a, b: torch.cat([b, a, b], -1), "gate": lambda a, b: a * b.mean(-1, keepdim=True).sigmoid(),
    "squared_difference": lambda a, b: (a - b).square(),
}  # fmt: skip


def _join(draw: Draw, values: list[torch.Tensor]) -> Block | None:
    fitting = [i for i, value in enumerate(values) if value.shape == values[-1].shape]
    name = draw(st.sampled_from([*_JOINS]))
    return Block(name, None, _JOINS[name], draw(st.sampled_from(fitting)))


class _Cond(nn.Module):
    """One of two bodies that keep the shape: functions, or layers with weights and a branch of their own."""

    def __init__(self, x: torch.Tensor, layers: bool) -> None:
        super().__init__()
        channels = x.shape[1]
        self.scale = nn.Parameter(torch.randn(channels))
        self.layers = layers
        make = {
            2: lambda: nn.Linear(channels, channels),
            3: lambda: nn.Conv1d(channels, channels, 3, padding=1),
            4: lambda: nn.Conv2d(channels, channels, 3, padding=1),
        }[x.dim()]
        if layers:
            self.first, self.second = _settle(make()), _settle(make())

    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        def doubled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return F.relu(x) * 2 + scale.sum()

        def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x - 1) * scale.abs().mean()

        def filtered(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return self.second(F.relu(self.first(x)))

        def nested(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return _either(self.scale.sum() > 0, lambda x, s: self.first(x) + x, scaled, (x, scale))

        return _either(flag, *((filtered, nested) if self.layers else (doubled, scaled)), (x, self.scale))


def _either(flag: torch.Tensor, yes: Callable[..., Any], no: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    if not torch.compiler.is_exporting():  # eager's cond compiles its branches, which fails for some views
        return (yes if flag else no)(*operands)
    return torch.cond(flag, yes, no, operands)


def _cond(draw: Draw, values: list[torch.Tensor]) -> Block:
    layers = draw(st.booleans())
    return Block("cond" + "_layers" * layers, _Cond(values[-1], layers), lambda layer, flag, x: layer(flag, x))


# -- images


def _convolution(draw: Draw, values: list[torch.Tensor]) -> Block:
    channels = values[-1].shape[1]
    groups = draw(st.sampled_from([1, 1, channels, math.gcd(channels, 4)]))
    filters = groups * draw(st.integers(1, max(1, 8 // groups)))
    kernel = _pair(draw, 1, 3)
    mode = draw(st.sampled_from(["zeros", "zeros", "zeros", "reflect", "replicate", "circular"]))
    settings: dict[str, Any] = {"groups": groups, "bias": draw(st.booleans()), "padding_mode": mode}
    settings["dilation"] = draw(st.sampled_from([1, 1, 2]))
    settings["padding"] = draw(st.sampled_from(["same", (kernel[0] // 2, kernel[1] // 2), 0, (0, 1)]))
    settings["stride"] = 1 if settings["padding"] == "same" else draw(st.sampled_from([1, 1, 2, (2, 1)]))
    layer = nn.Conv2d(channels, filters, kernel, **settings)
    return Block(f"conv2d{[channels, filters, kernel]}{settings}", _settle(layer), _call)


def _transposed(draw: Draw, values: list[torch.Tensor]) -> Block:
    channels = values[-1].shape[1]
    groups = draw(st.sampled_from([1, 1, channels]))
    stride = _pair(draw, 1, 2)
    settings: dict[str, Any] = {"stride": stride, "groups": groups, "bias": draw(st.booleans())}
    settings["padding"] = draw(st.integers(0, 1))
    settings["output_padding"] = tuple(draw(st.integers(0, s - 1)) for s in stride)
    filters = groups * draw(st.integers(1, 2))
    kernel = _pair(draw, 1, 3)
    layer = nn.ConvTranspose2d(channels, filters, kernel, **settings)
    return Block(f"conv_transpose2d{[channels, filters, kernel]}{settings}", _settle(layer), _call)


def _image_norm(draw: Draw, values: list[torch.Tensor]) -> Block:
    channels = values[-1].shape[1]
    layers = {
        "batch_norm": lambda: nn.BatchNorm2d(channels),
        "group_norm": lambda: nn.GroupNorm(math.gcd(channels, 4), channels),
        "instance_norm": lambda: nn.InstanceNorm2d(channels, affine=True, eps=0.01),
        "local_response": lambda: nn.LocalResponseNorm(3),
        "prelu": lambda: nn.PReLU(channels),
    }
    name = draw(st.sampled_from([*layers]))
    return Block(name, _settle(layers[name]()), _call)


def _pool(draw: Draw, values: list[torch.Tensor]) -> Block:
    kernel, stride = _pair(draw, 1, 3), _pair(draw, 1, 2)
    padding = (min(kernel) // 2 if draw(st.booleans()) else 0,) * 2
    ceil, counts = draw(st.booleans()), draw(st.booleans())
    size = draw(st.integers(1, 4))
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "max_pool2d": lambda x: F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil),
        "avg_pool2d": lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, counts),
        "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, size),
        "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, size),
        "mean_keepdim": lambda x: x.mean((2, 3), keepdim=True),
        "squeeze_excite": lambda x: x * F.hardsigmoid(x.mean((2, 3), keepdim=True)),
    }
    name = draw(st.sampled_from([*functions]))
    return Block(f"{name}[{kernel}, {stride}, {padding}, {ceil}, {counts}, {size}]", None, functions[name])


def _move(draw: Draw, values: list[torch.Tensor]) -> Block:
    a, b = _pair(draw, 0, 2)
    size = (draw(st.integers(2, 9)), draw(st.integers(2, 9)))
    aligned = draw(st.booleans())
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "nearest_twice": lambda x: F.interpolate(x, scale_factor=2),
        "nearest": lambda x: F.interpolate(x, size=size),
        "bilinear_twice": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=aligned),
        "bilinear": lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=aligned),
        "bicubic": lambda x: F.interpolate(x, size=size, mode="bicubic", align_corners=aligned),
        "pad": lambda x: F.pad(x, (a, b, b, 0), value=0.5),
        "pad_reflect": lambda x: F.pad(x, (a, b, 1, 1), mode="reflect"),
        "crop": lambda x: x[:, :, a:, : x.shape[3] - b],
        "strided": lambda x: x[:, :, ::2, a:],
        "flip": lambda x: x.flip(3),
        "transpose": lambda x: x.transpose(2, 3),
        "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
        "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
        "channel_shuffle": lambda x: F.channel_shuffle(x, math.gcd(x.shape[1], 4)),
        "half_channels": lambda x: x.chunk(2, 1)[-1],
        "softmax": lambda x: x.softmax(1),
        "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
        "layer_norm_last": lambda x: F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2], eps=0.01).permute(0, 3, 1, 2),
        "to_sequence": lambda x: x.flatten(2).transpose(1, 2),
        "to_patches": lambda x: x.permute(0, 2, 3, 1).flatten(1, 2),
        "to_row_mean": lambda x: x.mean((2, 3)),
        "to_row": lambda x: x.flatten(1),
    }
    name = draw(st.sampled_from([*functions]))
    return Block(f"{name}[{a}, {b}, {size}, {aligned}]", None, functions[name])


# -- sequences and rows: the channels are last


def _linear(draw: Draw, values: list[torch.Tensor]) -> Block:
    channels, filters = values[-1].shape[-1], draw(st.integers(1, 12))
    return Block(f"linear[{channels}, {filters}]", nn.Linear(channels, filters, bias=draw(st.booleans())), _call)


def _last_norm(draw: Draw, values: list[torch.Tensor]) -> Block:
    channels = values[-1].shape[-1]
    layers: dict[str, Callable[[], nn.Module]] = {
        "layer_norm": lambda: nn.LayerNorm(channels, eps=0.01),
        "rms_norm": lambda: nn.RMSNorm(channels, eps=0.01),
        "softmax": lambda: nn.Softmax(-1),
        "log_softmax": lambda: nn.LogSoftmax(-1),
        "glu": lambda: nn.GLU(-1),
    }
    name = draw(st.sampled_from([*layers]))
    return Block(name, _settle(layers[name]()), _call)


class _Attention(nn.Module):
    def __init__(self, channels: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.mixed, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        parts = (part.reshape(n, t, self.heads, c // self.heads).transpose(1, 2) for part in self.mixed(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(*parts, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(n, t, c))


def _mixing(draw: Draw, values: list[torch.Tensor]) -> Block:
    channels = values[-1].shape[-1]
    width = draw(st.integers(1, 3))
    bidirectional = draw(st.booleans())
    filters = draw(st.integers(1, 6))
    heads = draw(st.sampled_from([1, math.gcd(channels, 2)]))
    kinds: dict[str, tuple[Callable[[], nn.Module], Callable[..., torch.Tensor]]] = {
        "attention": (lambda: _Attention(channels, heads, bidirectional), _call),
        "multihead": (
            lambda: nn.MultiheadAttention(channels, heads, batch_first=True),
            lambda layer, x: layer(x, x, x, need_weights=False)[0],
        ),
        "encoder_layer": (
            lambda: nn.TransformerEncoderLayer(channels, heads, 8, batch_first=True, norm_first=bidirectional),
            _call,
        ),
        "conv1d": (
            lambda: nn.Conv1d(channels, filters, width, padding=width // 2, dilation=draw(st.integers(1, 2))),
            lambda layer, x: layer(x.transpose(1, 2)).transpose(1, 2),
        ),
        "lstm": (
            lambda: nn.LSTM(channels, filters, batch_first=True, bidirectional=bidirectional),
            lambda layer, x: layer(x)[0],
        ),
        "gru": (
            lambda: nn.GRU(channels, filters, batch_first=True, bidirectional=bidirectional),
            lambda layer, x: layer(x)[0],
        ),
    }
    name = draw(st.sampled_from([*kinds]))
    make, apply = kinds[name]
    return Block(f"{name}[{channels}, {width}, {bidirectional}, {filters}, {heads}]", make(), apply)


def _sequence_move(draw: Draw, values: list[torch.Tensor]) -> Block:
    start = draw(st.integers(0, 2))
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "tail": lambda x: x[:, start:],
        "shift": lambda x: torch.cat([x[:, :1], x[:, :-1]], 1),
        "flip": lambda x: x.flip(1),
        "cumsum": lambda x: x.cumsum(1) / 8,
        "gram": lambda x: (x @ x.transpose(1, 2)) / 8,
        "prefix_mean": lambda x: x - x.mean(1, keepdim=True),
        "avg_pool1d": lambda x: F.avg_pool1d(x.transpose(1, 2), 2, 1).transpose(1, 2),
        "max_pool1d": lambda x: F.max_pool1d(x.transpose(1, 2), 2).transpose(1, 2),
        "to_image": lambda x: x.unsqueeze(1),
        "to_image_last": lambda x: x.transpose(1, 2).unsqueeze(2),
        "to_row_mean": lambda x: x.mean(1),
        "to_row_max": lambda x: x.amax(1),
        "to_row_last": lambda x: x[:, -1],
    }
    name = draw(st.sampled_from([*functions]))
    return Block(f"{name}[{start}]", None, functions[name])


def _row_move(draw: Draw, values: list[torch.Tensor]) -> Block:
    functions: dict[str, Callable[..., torch.Tensor]] = {
        "normalize": lambda x: F.normalize(x, dim=1, eps=0.01),
        "to_sequence": lambda x: x.unsqueeze(1),
        "outer": lambda x: x.unsqueeze(1) * x.unsqueeze(2),
        "to_image": lambda x: x[:, :, None, None],
        "flip": lambda x: x.flip(1),
        "stacked": lambda x: torch.stack([x, -x], 1),
        "split": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    }
    name = draw(st.sampled_from([*functions]))
    return Block(name, None, functions[name])


_FAMILIES: dict[int, tuple[Callable[[Draw, list[torch.Tensor]], Block | None], ...]] = {
    4: (_convolution, _convolution, _convolution, _transposed, _image_norm, _pool, _move, _move, _activation,
        _activation, _join,
        _join, _cond),
    3: (_linear, _linear, _last_norm, _mixing, _mixing, _sequence_move, _activation, _join, _join, _cond),
    2: (_linear, _linear, _last_norm, _row_move, _activation, _activation, _join, _cond),
}  # fmt: skip
