"""Quantized graphs without a delegate: integer operators, equal to the delegate bit for bit and to eager within a step.

The graphs are q/dq nodes as torchao's PT2E flow leaves them, written by hand, so that no quantizer is needed.
"""

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from executorch_py.devtools.requirements import requirements
from executorch_py.exir import ExecutorchBackendConfig

q = torch.ops.quantized_decomposed
LIMITS = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-32768, 32767)}


def through(x: torch.Tensor, scale: float, zero_point: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    """Quantized and dequantized."""
    limits = LIMITS[dtype]
    integers = q.quantize_per_tensor(x, scale, zero_point, *limits, dtype)
    return q.dequantize_per_tensor(integers, scale, zero_point, *limits, dtype)


class Weight(nn.Module):
    """A float weight as integers: one scale, one an output channel, or one a group of columns."""

    def __init__(
        self, weight: torch.Tensor, kind: str = "channel", bits: int = 8, group: int = 8, axis: int = 0
    ) -> None:
        super().__init__()
        self.kind, self.group, self.axis = kind, group, axis
        self.low, self.high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if kind == "group":
            rows = weight.reshape(weight.shape[0], -1, group)
            scales = rows.abs().amax(-1) / self.high
            integers = (rows / scales.unsqueeze(-1)).round().clamp(self.low, self.high).reshape(weight.shape)
        elif kind == "channel":
            scales = weight.transpose(0, axis).flatten(1).abs().amax(-1) / self.high
            shape = [1] * weight.dim()
            shape[axis] = -1
            integers = (weight / scales.reshape(shape)).round().clamp(self.low, self.high)
        else:
            scales = weight.abs().amax().reshape(1) / self.high
            integers = (weight / scales).round().clamp(self.low, self.high)
        self.register_buffer("integers", integers.to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("zero_points", torch.zeros_like(scales, dtype=torch.int64))
        self.one_scale = float(scales.flatten()[0])

    def forward(self) -> torch.Tensor:
        limits = (self.low, self.high, torch.int8)
        if self.kind == "group":
            return q.dequantize_per_channel_group(
                self.integers, self.scales, self.zero_points, *limits, self.group, torch.float32
            )
        if self.kind == "channel":
            return q.dequantize_per_channel(self.integers, self.scales, self.zero_points, self.axis, *limits)
        return q.dequantize_per_tensor(self.integers, self.one_scale, 0, *limits)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


def lower(module: nn.Module, inputs: tuple, partitioner: list | None = None, **config: object):
    exported = torch.export.export(module.eval(), inputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner or [])
    return edge.to_executorch(ExecutorchBackendConfig(**config))


def run(manager, inputs: tuple) -> list[torch.Tensor]:
    return et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)


def graph_of(manager) -> str:
    return manager.dump().split("method @forward")[1]


def instructions(manager, prefix: str) -> list[str]:
    """Operators of the method that begin so, in order."""
    calls = [line.split(" = ", 1)[1].split("(")[0] for line in graph_of(manager).splitlines() if " = " in line]
    return [call for call in calls if call.startswith(prefix)]


def near(actual: torch.Tensor, expected: torch.Tensor, step: float, share: float = 0.001) -> None:
    """At most one step, in at most this share of the outputs (or in one)."""
    steps = ((actual - expected) / step).abs()
    assert steps.max() <= 1.01
    assert (steps > 0.5).sum() <= max(1, share * steps.numel())


class Network(nn.Module):
    """Random scales and zero points in front of and behind each layer: a convolutional network with a residual."""

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def randn(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator) * 0.4

        def number(low: float, high: float) -> float:
            return low + (high - low) * float(torch.rand((), generator=generator))

        self.first, self.b0 = Weight(randn(8, 3, 3, 3), kind), nn.Parameter(randn(8))
        self.depthwise, self.b1 = Weight(randn(16, 1, 3, 3), kind), nn.Parameter(randn(16))
        self.point, self.b2 = Weight(randn(16, 16, 1, 1), kind), nn.Parameter(randn(16))
        self.up = Weight(randn(16, 6, 2, 2), kind, axis=1)
        self.head, self.b3 = Weight(randn(10, 6), kind), nn.Parameter(randn(10))
        self.points = [(number(0.02, 0.06), int(number(-128, 128))) for _ in range(9)]
        self.step = self.points[8][0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = self.points
        x = through(x, *p[0])
        x = through(F.relu(F.conv2d(x, self.first(), self.b0, stride=2, padding=1)), p[1][0], -128)
        x = through(F.conv2d(x, self.depthwise(), self.b1, padding=1, groups=8), *p[2])
        y = through(F.hardtanh(F.conv2d(x, self.point(), self.b2), 0, 6), p[3][0], -128)
        x = through(F.relu(x + y), *p[4])
        x = through(x * y, p[5][0] * 4, p[5][1])
        x = through(F.conv_transpose2d(x, self.up(), None, stride=2), p[6][0] * 4, p[6][1])
        x = through(x.mean((2, 3), keepdim=True), *p[7])
        x = through(x.flatten(1), *p[7])
        return through(F.linear(x, self.head(), self.b3), *p[8])


@pytest.mark.parametrize("kind", ["tensor", "channel"])
@pytest.mark.parametrize("seed", range(4))
def test_network(seed: int, kind: str) -> None:
    torch.manual_seed(seed)
    module, inputs = Network(seed, kind), (torch.randn(64, 3, 20, 17),)
    manager = lower(module, inputs)
    assert len(instructions(manager, "quantized_decomposed::")) == 2, "q at the input, dq at the output"
    assert not instructions(manager, "aten::")
    (own,) = run(manager, inputs)
    delegated_manager = lower(module, inputs, [XnnpackPartitioner(largest=True)])
    assert not instructions(delegated_manager, "et::")
    (delegated,) = run(delegated_manager, inputs)
    assert torch.equal(own, delegated)
    expected = module(*inputs)
    noise = (own - expected).pow(2).mean()
    assert 10 * torch.log10(expected.pow(2).mean() / noise.clamp(min=1e-12)) >= 40


class Extremes(nn.Module):
    """Scales over four powers of ten, zero points at the ends of the range: most values saturate or vanish
    somewhere.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def power(low: float, high: float) -> float:
            return 10 ** (low + (high - low) * float(torch.rand((), generator=generator)))

        zeros = [-128, 127, 0, int(torch.randint(-128, 128, (), generator=generator))]
        self.points = [(power(-3, 1), zeros[int(torch.randint(4, (), generator=generator))]) for _ in range(8)]
        kind = ("tensor", "channel")[seed % 2]
        self.first = Weight(torch.randn(6, 4, 3, 3, generator=generator) * power(-2, 1), kind)
        self.bias = nn.Parameter(torch.randn(6, generator=generator) * power(-2, 2))
        self.depthwise = Weight(torch.randn(6, 1, 1, 2, generator=generator), kind)
        self.last = Weight(torch.randn(5, 6, generator=generator) * power(-2, 1), kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = self.points
        y = through(F.conv2d(through(x, *p[0]), self.first(), self.bias, padding=1), *p[1])
        z = through(F.conv2d(y, self.depthwise(), groups=6), *p[2])
        a = through(F.relu(y[..., 1:] + z), *p[3])
        a = through(F.hardtanh(through(a - z, *p[4]) * z, -1, 2), *p[5])
        return through(F.linear(through(a.mean((2, 3)), *p[6]), self.last()), *p[7])


@pytest.mark.parametrize("seed", range(8))
def test_extreme_scales_are_equal_to_the_delegate(seed: int) -> None:
    module, inputs = Extremes(seed), (torch.randn(3, 4, 7, 8) * 10.0 ** (seed % 4 - 1),)
    (own,) = run(lower(module, inputs), inputs)
    (delegated,) = run(lower(module, inputs, [XnnpackPartitioner(largest=True)]), inputs)
    assert torch.equal(own, delegated)


class Unaries(nn.Module):
    """Functions of one tensor, alone and in chains, between integers."""

    def __init__(self, dtype: torch.dtype = torch.int8) -> None:
        super().__init__()
        self.dtype = dtype
        self.zero = 0 if dtype == torch.int8 else 128

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = through(x, 0.05, self.zero + 3, self.dtype)
        functions = [
            torch.sigmoid, torch.tanh, F.hardswish, F.gelu, torch.exp, F.silu, torch.neg, F.relu, F.elu, torch.abs,
            lambda v: F.leaky_relu(v, 0.1) * 2 + 1, lambda v: torch.sqrt(v.abs() + 0.5), lambda v: v,
        ]  # fmt: skip
        return [through(function(x), 0.0371, self.zero - 7, self.dtype) for function in functions]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_tables(dtype: torch.dtype) -> None:
    module, inputs = Unaries(dtype), (torch.randn(4, 3, 8, 9) * 3,)
    manager = lower(module, inputs)
    assert instructions(manager, "et::") == ["et::quantized_table.out"] * 13
    assert not instructions(manager, "aten::")
    for actual, expected in zip(run(manager, inputs), module(*inputs), strict=True):
        near(actual, expected, 0.0371)


class Movements(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        x, y = through(x, 0.05, 3), through(y, 0.021, -20)
        a = through(F.max_pool2d(x, 3, 2, 1), 0.05, 3)
        b = through(torch.cat([x, y], 1), 0.05, 3)
        c = through(F.pad(x, (1, 2, 0, 1)), 0.05, 3)
        d = through(x.permute(0, 2, 3, 1).reshape(2, -1)[:, 3:40], 0.05, 3)
        e = through(F.interpolate(x, scale_factor=2, mode="nearest"), 0.03, 0)
        f = through(x.transpose(1, 2).unsqueeze(1).expand(2, 3, 8, 4, 9), 0.05, 3)
        g, h = x.split([1, 3], 1)
        return [a, b, c, d, e, f, through(g, 0.05, 3), through(h.flip(2), 0.05, 3)]


def test_movements() -> None:
    module, inputs = Movements(), (torch.randn(2, 4, 8, 9) * 3, torch.randn(2, 2, 8, 9))
    manager = lower(module, inputs)
    assert len(instructions(manager, "quantized_decomposed::quantize")) == 2
    assert len(instructions(manager, "et::quantized_table")) == 2, "other scales: cat's second input, interpolate"
    for actual, expected in zip(run(manager, inputs), module(*inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


class Attention(nn.Module):
    """Products of activations and a softmax between integers."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        low, high = LIMITS[self.dtype]
        small = 64 if self.dtype == torch.int8 else 1
        a, b = (through(x, 5 / high, 1 if small == 64 else 0, self.dtype) for x in (a, b))
        scores = through(a @ b.transpose(1, 2), 32.1 / high, 0, self.dtype)
        if self.dtype == torch.int8:
            scores = through(scores.softmax(-1), 1 / 256, low, self.dtype)
        return through(scores @ b, 40.3 / high / small, 0, self.dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16], ids=str)
def test_products_of_activations(dtype: torch.dtype) -> None:
    module, inputs = Attention(dtype), (torch.randn(3, 10, 16), torch.randn(3, 12, 16))
    manager = lower(module, inputs)
    assert len(instructions(manager, "et::quantized_matmul")) == 2
    (actual,) = run(manager, inputs)
    expected = module(*inputs)
    noise = (actual - expected).pow(2).mean()
    assert 10 * torch.log10(expected.pow(2).mean() / noise.clamp(min=1e-12)) >= 40


class Layers(nn.Module):
    """Linear layers and an embedding whose weights alone are quantized, or whose inputs are at run time."""

    def __init__(self, kind: str, bits: int, dynamic: str, width: int = 64) -> None:
        super().__init__()
        self.dynamic = dynamic
        self.table = Weight(torch.randn(50, width), kind, bits)
        self.first, self.bias = Weight(torch.randn(96, width) * 0.2, kind, bits), nn.Parameter(torch.randn(96))
        self.second = Weight(torch.randn(10, 96) * 0.2, kind, bits)

    def at_run_time(self, x: torch.Tensor) -> torch.Tensor:
        limits = (-128, 127, torch.int8)
        if self.dynamic == "tensor":
            scale, zero = q.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
            return q.dequantize_per_tensor.tensor(
                q.quantize_per_tensor.tensor(x, scale, zero, *limits), scale, zero, *limits
            )
        if self.dynamic == "token":
            scale, zero = q.choose_qparams_per_token_asymmetric(x, torch.int8)
            integers = q.quantize_per_token(x, scale, zero, *limits)
            return q.dequantize_per_token(integers, scale, zero, *limits, torch.float32)
        return x

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        x = F.embedding(indices, self.table())
        x = F.gelu(F.linear(self.at_run_time(x), self.first(), self.bias))
        return F.linear(self.at_run_time(x), self.second())


@pytest.mark.parametrize("dynamic", ["", "tensor", "token"])
@pytest.mark.parametrize(
    ("kind", "bits", "width"),
    [
        ("tensor", 8, 64),
        ("channel", 8, 64),
        ("channel", 4, 64),
        ("channel", 4, 63),
        ("tensor", 4, 63),
        ("group", 4, 64),
    ],
)
def test_weights_alone(width: int, kind: str, bits: int, dynamic: str) -> None:
    torch.manual_seed(1)
    module, inputs = Layers(kind, bits, dynamic, width), (torch.randint(50, (3, 7)),)
    manager = lower(module, inputs)
    product = "et::dynamic_linear.out" if dynamic else "et::weight_only_linear.out"
    assert instructions(manager, "et::") == ["et::quantized_embedding.out", product, product]
    assert not instructions(manager, "quantized_decomposed::")
    expected = module(*inputs)
    # A value in the middle of two integers may be rounded the other way.
    tolerance = 0.03 * float(expected.abs().max()) if dynamic else 1e-4
    torch.testing.assert_close(run(manager, inputs)[0], expected, rtol=0, atol=tolerance)
    integers = sum(w.integers.numel() for w in (module.table, module.first, module.second)) * bits // 8
    scales = sum(w.scales.numel() for w in (module.table, module.first, module.second)) * 4
    ideal = integers + (12 if kind == "tensor" else scales) + 96 * 4
    assert len(manager.buffer) <= 1.05 * ideal + 32 * 1024
    assert len(manager.buffer) <= ideal + 8 * 1024


class Filters(nn.Module):
    """Filters of 4 bits in every form, an odd number of rows in some, and a linear layer with an odd number of
    columns.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.line = Weight(torch.randn(15, 5, 5), kind, 4)
        self.first = Weight(torch.randn(9, 5, 3, 3), kind, 4)
        self.depthwise = Weight(torch.randn(5, 1, 3, 3), kind, 4)
        self.grouped = Weight(torch.randn(20, 1, 2, 2), kind, 4)
        self.up = Weight(torch.randn(5, 7, 2, 3), kind, 4, axis=1)
        self.head = Weight(torch.randn(7, 41), kind, 4)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = through(x, 0.05, 3)
        results = [
            F.conv1d(x[:, :, 0], self.line(), padding=2),
            F.relu(F.conv2d(x, self.first(), padding=1)),
            F.conv2d(x, self.depthwise(), padding=1, groups=5),
            F.conv2d(x, self.grouped(), groups=5),
            F.conv_transpose2d(x, self.up(), stride=2),
            F.linear(x, self.head()),
        ]
        return [through(result, 0.2, -5) for result in results]


@pytest.mark.parametrize("kind", ["tensor", "channel"])
def test_filters_of_four_bits(kind: str) -> None:
    module, inputs = Filters(kind), (torch.randn(4, 5, 30, 41),)
    manager = lower(module, inputs)
    assert instructions(manager, "et::quantized_convolution") == ["et::quantized_convolution.out"] * 5
    weights = [line for line in manager.dump().splitlines() if line.startswith("constant") and "_packed" in line]
    assert len(weights) == 6
    for actual, expected in zip(run(manager, inputs), module(*inputs), strict=True):
        near(actual, expected, 0.2)
    for need in requirements(manager.buffer):
        if need.operator in ("et::quantized_convolution.out", "et::quantized_linear.out"):
            fast = ("xnnpack", "optimized")  # by cost
            assert any(name in str(kernel) for kernel in need.kernels for name in fast), need.kernels


@pytest.mark.parametrize("make", [lambda: Network(0, "channel"), lambda: Unaries(torch.int8)])
def test_compatible_files_keep_the_published_operators(make) -> None:
    module = make()
    inputs = (torch.randn(2, 3, 20, 17),)
    manager = lower(module, inputs, compatible=True)
    assert not instructions(manager, "et::")
    actual, expected = run(manager, inputs), module(*inputs)
    expected = list(expected) if isinstance(expected, list) else [expected]
    for one, other in zip(actual, expected, strict=True):
        near(one, other, getattr(module, "step", 0.0371), 0.01)


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("compatible", [False, True])
def test_quantized_inputs_and_outputs(delegated: bool, compatible: bool) -> None:
    module, inputs = Network(2, "channel"), (torch.randn(2, 3, 20, 17),)
    partitioner = [XnnpackPartitioner(largest=True)] if delegated else []
    (expected,) = run(lower(module, inputs, partitioner, compatible=compatible), inputs)
    manager = lower(module, inputs, partitioner, quantized_io=True, compatible=compatible)
    assert compatible or not instructions(manager, "quantized_decomposed::")
    program = et.Runtime.get().load_program(manager.buffer)
    scale, zero, low, high = program.load_method("forward.input.0").execute([])
    assert (scale, zero, low, high) == (module.points[0][0], module.points[0][1], -128, 127)
    integers = q.quantize_per_tensor(inputs[0], scale, zero, low, high, torch.int8)
    (actual,) = program.load_method("forward").execute([integers])
    assert actual.dtype == torch.int8
    scale, zero, low, high = program.load_method("forward.output.0").execute([])
    real = q.dequantize_per_tensor(actual, scale, zero, low, high, torch.int8)
    assert torch.equal(real, expected)


def test_quantized_borders_of_channels_last() -> None:
    """The input's copies to another order are of integers; what comes out is what row-major integers give."""
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    x = torch.randn(2, 3, 9, 7)
    given = (x.to(memory_format=torch.channels_last), x)
    got = []
    for one in given:
        quantized = quantizer.quantize(module.eval(), (one,), "static_int8", [(x,), (2 * x,)])
        config = et.ExecutorchBackendConfig(quantized_io=True)
        program = et.Runtime.get().load_program(et.to_edge_transform_and_lower(quantized).to_executorch(config).buffer)
        method = program.load_method("forward")
        assert str(method.metadata).count("Char") == 2
        scale, zero, low, high = program.load_method("forward.input.0").execute([])
        integers = torch.ops.quantized_decomposed.quantize_per_tensor(one, scale, zero, low, high, torch.int8)
        got.append(method.execute([integers])[0])
    assert torch.equal(*got)


@pytest.mark.parametrize("seed", range(6))
def test_inputs_of_channels_last_are_taken_as_they_lie(seed: int) -> None:
    """Beside the convolutions, something may want the input in rows, or return it."""

    class Mixed(nn.Module):
        def __init__(self, channels: int, kernel: int, others: int) -> None:
            super().__init__()
            self.conv, self.others = nn.Conv2d(channels, 8, kernel, padding=kernel // 2), others
            self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.relu(self.depthwise(torch.relu(self.conv(x))))
            others = (x.flatten(1), y + x.mean(1, keepdim=True), x, F.avg_pool2d(x, 3, 1, 1))
            return y.flatten(1), *(one for i, one in enumerate(others) if self.others >> i & 1)

    torch.manual_seed(seed)
    channels, batch, others = int(torch.randint(2, 6, ())), int(torch.randint(1, 3, ())), 3 * seed
    module = Mixed(channels, 1 + 2 * (seed % 2), others).eval()
    x, *samples = (torch.randn(batch, channels, 9, 8).to(memory_format=torch.channels_last) for _ in range(4))
    quantized = quantizer.quantize(module, (x,), "static_int8", [(one,) for one in samples])
    integers = et.to_edge_transform_and_lower(quantized).to_executorch()
    for got, wanted in zip(run(lower(module, (x,)), (x,)), module(x), strict=True):
        torch.testing.assert_close(got, wanted)
    for got, wanted in zip(run(integers, (x,)), quantized.module()(x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0.1)
    assert others or len(instructions(integers, "dim_order_ops::_clone_dim_order")) == 1  # of the output


def test_quantized_borders_need_quantization() -> None:
    with pytest.raises(et.errors.InvalidArgumentError, match="no input or output is quantized"):
        lower(nn.ReLU(), (torch.randn(3),), quantized_io=True)


def test_what_has_no_integer_form_runs_in_floats() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.conv = Weight(torch.randn(4, 2, 3, 3))

        def forward(self, x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = through(self.norm(through(x, 0.03, 1)), 0.025, 0)
            return through(x.cumsum(-1), 0.1, 0), F.conv2d(image, self.conv())

    module, inputs = Mixed(), (torch.randn(5, 16), torch.randn(1, 2, 6, 6))
    manager = lower(module, inputs)
    assert instructions(manager, "aten::") == ["aten::cumsum.out"]
    assert instructions(manager, "et::") == ["et::quantized_layer_norm.out", "et::weight_only_convolution.out"]
    first, second = run(manager, inputs)
    near(first, module(*inputs)[0], 0.1, 0.01)
    torch.testing.assert_close(second, module(*inputs)[1], rtol=1e-4, atol=1e-4)


def test_dynamic_sizes() -> None:
    module = Network(1, "channel")
    inputs = (torch.randn(4, 3, 20, 18),)
    batch, rows = torch.export.Dim("batch", max=16), torch.export.Dim("rows", min=8, max=40)
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=({0: batch, 2: 2 * rows},))
    manager = et.to_edge_transform_and_lower(exported).to_executorch()
    assert not instructions(manager, "aten::conv")
    for shape in ((4, 3, 20, 18), (1, 3, 64, 18), (16, 3, 16, 18)):
        x = torch.randn(shape)
        near(run(manager, (x,))[0], module(x), module.step, 0.02)
