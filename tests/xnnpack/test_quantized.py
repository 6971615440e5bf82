"""Integers through the XNNPACK delegate, from q/dq nodes as torchao's PT2E flow leaves them.

Modules call the quantized_decomposed operators themselves, so the tests need no quantizer. Results may differ from
eager by one step of the output's scale where a sum falls on the other side of a rounding.
"""

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et

q = torch.ops.quantized_decomposed


def _through_int8(x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    integers = q.quantize_per_tensor(x, scale, zero_point, -128, 127, torch.int8)
    return q.dequantize_per_tensor(integers, scale, zero_point, -128, 127, torch.int8)


class Weight(nn.Module):
    """A float weight as integers with a scale for each output channel, or each group of input channels."""

    def __init__(self, weight: torch.Tensor, bits: int = 8, group: int = 0, per_tensor: bool = False) -> None:
        super().__init__()
        self.group, self.per_tensor = group, per_tensor
        self.low, self.high = -(2 ** (bits - 1)) + (1 if bits == 8 else 0), 2 ** (bits - 1) - 1
        rows = weight.reshape(weight.shape[0], -1, group) if group else weight.reshape(weight.shape[0], -1)
        scales = rows.abs().amax(-1) / self.high
        if per_tensor:
            scales = scales.amax().expand(weight.shape[0])
        if group:
            scales = scales.bfloat16().float()  # as the format has them
        shaped = scales.unsqueeze(-1) if group else scales.reshape(-1, *[1] * (weight.dim() - 1))
        source = rows if group else weight
        self.register_buffer(
            "integers", (source / shaped).round().clamp(self.low, self.high).reshape(weight.shape).char()
        )
        self.register_buffer("scales", scales.contiguous())
        self.register_buffer("zero_points", torch.zeros_like(scales, dtype=torch.int64))
        self.one_scale = float(scales.reshape(-1)[0])

    def forward(self) -> torch.Tensor:
        limits = (self.low, self.high, torch.int8)
        if self.per_tensor:
            return q.dequantize_per_tensor(self.integers, self.one_scale, 0, *limits)
        if self.group:
            return q.dequantize_per_channel_group(
                self.integers, self.scales, self.zero_points, *limits, self.group, torch.float32
            )
        return q.dequantize_per_channel(self.integers, self.scales, self.zero_points, 0, *limits)


class Static(nn.Module):
    """Convolutions and a linear layer between int8 activations."""

    def __init__(self, per_tensor: bool) -> None:
        super().__init__()
        self.first = Weight(torch.randn(8, 3, 3, 3) * 0.3, per_tensor=per_tensor)
        self.depthwise = Weight(torch.randn(16, 1, 3, 3) * 0.3, per_tensor=per_tensor)
        self.head = Weight(torch.randn(5, 16) * 0.3, per_tensor=per_tensor)
        self.bias = nn.Parameter(torch.randn(8))
        self.head_bias = nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = _through_int8(x, 0.03, 4)
        x = F.relu(F.conv2d(x, self.first(), self.bias, padding=1))
        x = _through_int8(x, 0.05, -128)
        x = _through_int8(F.conv2d(x, self.depthwise(), None, stride=2, groups=8), 0.06, 0)
        x = _through_int8(F.max_pool2d(x, 2), 0.06, 0)
        x = _through_int8(x.mean((2, 3), keepdim=True), 0.03, 3)
        x = _through_int8(x.reshape(x.shape[0], 16), 0.03, 3)
        return _through_int8(F.linear(x, self.head(), self.head_bias), 0.04, -5)


class Residual(nn.Module):
    """int8 through additions, products, concatenation, slices and clamps."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Weight(torch.randn(4, 4, 1, 1) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = _through_int8(x, 0.03, 1)
        y = _through_int8(F.conv2d(x, self.weight()), 0.05, -3)
        y = _through_int8(F.relu(x + y), 0.04, -128)
        y = _through_int8(y * x, 0.08, 2)
        both = _through_int8(torch.cat([y, y], 1), 0.08, 2)
        return _through_int8(both[:, 2:6], 0.08, 2)


class Parts(nn.Module):
    """int8 handed out in parts, picked and padded, in both memory orders."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Weight(torch.randn(4, 4, 1, 1) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = _through_int8(x, 0.03, 1)
        y = _through_int8(F.conv2d(x, self.weight()), 0.05, -3)
        a, b = (_through_int8(part, 0.05, -3) for part in y.split([1, 3], 1))
        b = _through_int8(F.pad(b, (1, 0, 0, 2)), 0.05, -3)
        a = _through_int8(F.pad(a, (1, 0, 0, 2)), 0.05, -3)
        c = _through_int8(torch.cat([b, a], 1), 0.05, -3)
        rows, rest = (_through_int8(part, 0.05, -3) for part in c.permute(0, 2, 3, 1).split([3, 5], 1))
        picked = _through_int8(rest.select(2, -2), 0.05, -3)
        return _through_int8(picked * _through_int8(rows.select(1, 1)[:, :5], 0.05, -3), 0.08, 2)


class Linear(nn.Module):
    """A linear layer whose input is quantized at run time."""

    def __init__(self, weight: Weight) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.randn(weight.integers.shape[0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale, zero_point = q.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
        x = q.quantize_per_tensor.tensor(x, scale, zero_point, -128, 127, torch.int8)
        x = q.dequantize_per_tensor.tensor(x, scale, zero_point, -128, 127, torch.int8)
        return F.relu(F.linear(x, self.weight(), self.bias))


def _weight(**options: int) -> Weight:
    return Weight(torch.randn(24, 64) * 0.2, **options)


_GENERATOR = torch.Generator().manual_seed(11)
_IMAGE = (torch.randn(32, 3, 13, 15, generator=_GENERATOR),)
_ROWS = (torch.randn(7, 64, generator=_GENERATOR),)
CASES = {
    "static_tensor": (lambda: Static(True), _IMAGE, 0.04),
    "static_channel": (lambda: Static(False), _IMAGE, 0.04),
    "residual": (
        Residual,
        (torch.randn(1, 4, 6, 6, generator=_GENERATOR),),
        0.16,
    ),  # a step of the sum, 0.04, times inputs up to 3
    "parts": (Parts, (torch.randn(1, 4, 6, 6, generator=_GENERATOR),), 0.16),
    "dynamic_int8": (lambda: Linear(_weight()), _ROWS, 0.05),
    "dynamic_int4": (lambda: Linear(_weight(bits=4)), _ROWS, 0.05),
    "dynamic_int4_groups": (lambda: Linear(_weight(bits=4, group=32)), _ROWS, 0.05),
}


def _lower(module, inputs, **options):
    exported = torch.export.export(module.eval(), inputs)
    return et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(**{"largest": True, **options})])


@pytest.mark.parametrize("name", CASES)
def test_integers(name):
    torch.manual_seed(3)
    make, inputs, step = CASES[name]
    module = make()
    edge = _lower(module, inputs)
    manager = edge.to_executorch()
    assert manager.dump().count("= delegate @") == 1
    assert "quantized_decomposed" not in manager.dump().split("method @forward")[1], "something runs on kernels"
    (actual,) = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)
    expected = module(*inputs)
    assert (actual - expected).abs().max() <= 1.01 * step
    assert (actual - expected).abs().mean() <= 0.15 * step


class IntegerBias(nn.Module):
    """A product of integers whose bias is integers, too, with a scale and a zero point of its own."""

    def __init__(self, image: bool, scale: float, zero_point: int, per_channel: bool, dynamic: bool) -> None:
        super().__init__()
        self.weight = Weight(torch.randn(8, 4, 3, 3) * 0.2 if image else torch.randn(8, 16) * 0.2)
        self.register_buffer("bias", torch.randint(-20, 20, (8,), dtype=torch.int32))
        self.register_buffer("scales", torch.rand(8) * scale + scale)
        self.register_buffer("zero_points", torch.arange(8) + zero_point)
        self.image, self.per_channel, self.dynamic = image, per_channel, dynamic
        self.scale, self.zero_point = scale, zero_point

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        limits = (-(2**31), 2**31 - 1, torch.int32)
        if self.per_channel:
            bias = q.dequantize_per_channel(self.bias, self.scales, self.zero_points, 0, *limits)
        else:
            bias = q.dequantize_per_tensor(self.bias, self.scale, self.zero_point, *limits)
        if self.dynamic:
            scale, zero_point = q.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
            x = q.quantize_per_tensor.tensor(x, scale, zero_point, -128, 127, torch.int8)
            return F.linear(
                q.dequantize_per_tensor.tensor(x, scale, zero_point, -128, 127, torch.int8), self.weight(), bias
            )
        x = _through_int8(x, 0.03, 1)
        y = F.conv2d(x, self.weight(), bias) if self.image else F.linear(x, self.weight(), bias)
        return _through_int8(y, 0.1, -2)


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("zero_point", [0, 3, -41])
@pytest.mark.parametrize("form", ["linear", "image", "dynamic"])
def test_integer_biases(form, zero_point, per_channel):
    torch.manual_seed(5)
    module = IntegerBias(form == "image", 0.05, zero_point, per_channel, form == "dynamic")
    inputs = (torch.randn(2, 4, 6, 6) if form == "image" else torch.randn(5, 16),)
    manager = _lower(module, inputs).to_executorch()
    assert manager.dump().count("= delegate @") == 1
    (actual,) = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)
    assert (actual - module(*inputs)).abs().max() <= 0.101


def test_integer_bias_that_does_not_fit():
    """What is too large for 32 bits beside the scales of a product stays outside, whether it is float or integers."""
    torch.manual_seed(5)
    edge = _lower(IntegerBias(False, 1e9, 3, False, False), (torch.randn(5, 16),))
    assert any("a bias that does not fit 32 bits" in row.reason for row in et.delegation_report(edge).refused())


class TwoParts(nn.Module):
    """What a kernel computes in the middle makes two parts of it; a layer of the second reads integers of the first."""

    def __init__(self, dynamic: bool) -> None:
        super().__init__()
        self.dynamic = dynamic
        self.first, self.second = (Weight(torch.randn(16, 16) * 0.3) for _ in range(2))

    def through(self, x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
        if not self.dynamic:
            return _through_int8(x, scale, zero_point)
        scale, zero_point = q.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
        x = q.quantize_per_tensor.tensor(x, scale, zero_point, -128, 127, torch.int8)
        return q.dequantize_per_tensor.tensor(x, scale, zero_point, -128, 127, torch.int8)

    def result(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.dynamic else _through_int8(x, 0.05, 0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shared = self.through(x, 0.03, 0)
        y = self.result(F.linear(shared, self.first()))
        y = F.linear(self.through(y.cumsum(-1), 0.1, 0), self.first())  # no cumsum in the library
        return self.result(y), self.result(F.linear(shared, self.second()))


@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_that_share_an_input(dynamic):
    torch.manual_seed(8)
    module, inputs = TwoParts(dynamic), (torch.randn(5, 16),)
    manager = _lower(module, inputs).to_executorch()
    assert manager.dump().count("= delegate @") == 2
    found = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)
    for actual, expected in zip(found, module(*inputs), strict=True):
        assert (actual - expected).abs().max() <= 0.16  # a step of the first sum, times a row of the second weight


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 14, 15, 16, 17, 18, 29])
def test_groups_of_4_bits_for_every_number_of_rows(rows):
    """XNNPACK as released spoils the last real row when one, two or three of 14 are left; our build of it does not."""
    torch.manual_seed(5)
    module = Linear(_weight(bits=4, group=32))
    inputs = (torch.randn(rows, 64),)
    manager = _lower(module, inputs).to_executorch()
    assert manager.dump().count("= delegate @") == 1
    (actual,) = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)
    assert (actual - module(*inputs)).abs().max() <= 0.05


class OfConstant(nn.Module):
    """What is computed of a constant that the model makes and quantizes, as a first state is, beside an input."""

    def __init__(self, shape: tuple[int, ...], function) -> None:
        super().__init__()
        self.shape, self.function = shape, function
        self.weight = Weight(torch.randn(6, shape[-1]) * 0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        computed = self.function(_through_int8(torch.full(self.shape, 0.7), 0.03, 4), self.weight())
        return _through_int8(_through_int8(x, 0.02, 3) + _through_int8(computed.mean(), 0.01, -5), 0.04, 1)


_FUNCTIONS = {
    "linear": lambda c, w: _through_int8(F.linear(c, w), 0.05, 3),
    "sigmoid": lambda c, w: _through_int8(torch.sigmoid(c), 1 / 256, -128),
    "join": lambda c, w: _through_int8(torch.cat([c, c], -1), 0.03, 4),
    "flatten": lambda c, w: _through_int8(c.reshape(-1), 0.03, 4),
    "sum": lambda c, w: _through_int8(c + c, 0.06, 1),
}


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_constants_of_every_rank(name: str, shape: tuple[int, ...]):
    """Only lines and images have a form with channels innermost; a part that holds another constant must load."""
    torch.manual_seed(0)
    model, x = OfConstant(shape, _FUNCTIONS[name]).eval(), torch.randn(3, 7)
    exported = torch.export.export(model, (x,))
    program = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    assert float((method.execute((x,))[0] - model(x)).abs().max()) <= 0.04 * 1.01
