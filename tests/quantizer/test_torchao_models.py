"""Models that torchao's ``quantize_`` has quantized: the same forms, the same kernels."""

import copy

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import NotSupportedError


def model() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32, bias=False)).eval()


X = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))


def configurations():
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8DynamicActivationIntxWeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        PerAxis,
        PerGroup,
        PerTensor,
    )

    return {
        "a8w4_groups": Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
        "a8w8_channels": Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0)),
        "w4_groups": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
        "w8_channels": IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
        "int8_weight_only": Int8WeightOnlyConfig(),
        "int8_dynamic": Int8DynamicActivationInt8WeightConfig(),
        "int8_weight_only_tensor": Int8WeightOnlyConfig(version=2, granularity=PerTensor()),
        "int8_dynamic_tensor": Int8DynamicActivationInt8WeightConfig(version=2, granularity=PerTensor()),
    }


NAMES = ("a8w4_groups", "a8w8_channels", "w4_groups", "w8_channels", "int8_weight_only", "int8_dynamic",
         "int8_weight_only_tensor", "int8_dynamic_tensor")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_lowers_to_the_same_kernels(name):
    from torchao.quantization import quantize_

    quantized = model()
    quantize_(quantized, configurations()[name])
    with torch.no_grad():
        expected = quantized(X)
    program = torch.export.export(quantized, (X,))
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)])
    names = {str(node.target) for node in edge.exported_program().graph.nodes if node.op == "call_function"}
    assert not any(one.startswith("torchao") for one in names), names
    assert "aten.linear.default" in names, names
    if "weight_only" in name or name.startswith("w"):
        manager_text = edge.to_executorch().dump()
        assert "et::weight_only_linear" in manager_text
        assert "quantized_decomposed" not in manager_text.split("method @forward")[1]
    if "weight_only" not in name and not name.startswith("w"):
        report = et.delegation_report(edge)
        assert not [row for row in report.refused() if "linear" in row.op], report.table()
    (actual,) = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward").execute((X,))
    error = (actual - expected).abs().max() / expected.abs().max()
    # The delegate's scales for groups are bfloat16, and one step of the input may round the other way.
    assert error <= (0.02 if name.startswith(("a8", "int8_dynamic")) else 1e-5), float(error)


def test_eager_mode_operators_are_refused_with_the_replacement():
    library = torch.library.Library("quantized", "FRAGMENT")
    library.define("test_only(Tensor x) -> Tensor")
    torch.library.register_fake("quantized::test_only", lambda x: torch.empty_like(x), lib=library)

    class Eager(nn.Module):
        def forward(self, x):
            return torch.ops.quantized.test_only(x)

    with pytest.raises(NotSupportedError, match=r"eager-mode.*executorch_py.quantizer"):
        et.to_edge(torch.export.export(Eager(), (X,)))


@pytest.mark.parametrize("delegated", [True, False])
def test_half_precision(delegated):
    program = quantizer.quantize(model(), (X,), "fp16")
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    graph = edge.exported_program().graph
    linears = [node for node in graph.nodes if node.target is torch.ops.aten.linear.default]
    assert linears and all(node.meta["val"].dtype == torch.float16 for node in linears)
    casts = [node for node in graph.nodes if node.target is torch.ops.aten._to_copy.default]
    assert len(casts) == 2  # in and out
    manager = edge.to_executorch()
    assert len(manager.buffer) < 0.75 * len(_float_file())
    (actual,) = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute((X,))
    expected = copy.deepcopy(model()).half()(X.half()).float()
    assert (actual - expected).abs().max() <= 5e-3 * expected.abs().max()


def _float_file() -> bytes:
    return et.to_edge_transform_and_lower(torch.export.export(model(), (X,))).to_executorch().buffer


class Own(nn.Module):
    """Operators of the model's own around its linear layers, which are no part of them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head, self.last = nn.Conv2d(3, 4, 3), nn.Linear(64, 16), nn.Linear(16, 8, bias=False)
        self.register_buffer("positions", torch.randn(2, 8))

    def forward(self, x, y):
        return self.last(self.head(self.conv(x).flatten(1)) + y) + self.positions


@pytest.mark.parametrize("name", ["int8_weight_only", "int8_dynamic", "w8_channels"])
@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
def test_operators_around_linear_layers_stay(name, delegated):
    """A sum lost its second operand in silence; a flatten was an error of shapes."""
    from torchao.quantization import quantize_

    torch.manual_seed(8)
    quantized, x, y = Own().eval(), torch.randn(2, 3, 6, 6), 3 * torch.randn(2, 16)
    quantize_(quantized, configurations()[name])
    with torch.no_grad():
        expected = quantized(x, y)
    program = torch.export.export(quantized, (x, y))
    edge = et.to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else None
    )
    actual = et.load(edge.to_executorch().buffer)(x, y)
    assert float((actual - expected).abs().max() / expected.abs().max()) <= (0.02 if "dynamic" in name else 1e-5)


class Turned(nn.Module):
    """Linear layers over another dimension than the last, and one that is never called."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32, bias=bias), nn.Linear(32, 8, bias=bias)
        self.unused = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return self.second(self.first(x.transpose(1, 2)).transpose(0, 1).relu()).flatten(1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["int8_weight_only", "int8_dynamic", "w8_channels"])
def test_inputs_that_are_turned(name, bias):
    """A reshape of them copies: the dynamic layer was not known, and the file was refused at load."""
    from torchao.quantization import quantize_

    torch.manual_seed(8)
    quantized, x = Turned(bias).eval(), torch.randn(2, 16, 5)
    quantize_(quantized, configurations()[name])
    with torch.no_grad():
        expected = quantized(x)
    manager = et.to_edge(torch.export.export(quantized, (x,))).to_executorch()
    assert ("et::dynamic_linear" if "dynamic" in name else "et::weight_only_linear") in manager.dump()
    actual = et.load(manager.buffer)(x)
    assert float((actual - expected).abs().max() / expected.abs().max()) <= (0.03 if "dynamic" in name else 1e-5)


@pytest.mark.parametrize("config", ["int8_weight_only", "int8_dynamic"])
def test_quantized_layers_that_are_never_called_leave_no_trace(config):
    from torchao.quantization import quantize_

    class First(nn.Sequential):
        def forward(self, x):
            return self[0](x)

    quantized = First(nn.Linear(64, 8, bias=False), nn.Linear(8, 8, bias=False)).eval()
    quantize_(quantized, configurations()[config])
    with torch.no_grad():
        expected = quantized(X)
    actual = et.load(et.to_edge(torch.export.export(quantized, (X,))).to_executorch().buffer)(X)
    assert float((actual - expected).abs().max() / expected.abs().max()) <= 0.03


def test_products_with_scales_of_tokens_that_are_not_known_are_refused():
    """Symmetric scales became asymmetric ones, whose zero points such a product does not take off: garbage in
    silence.
    """

    class OwnProduct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randint(-127, 128, (8, 64), dtype=torch.int8))

        def forward(self, x):
            limits, block = (torch.int8, -128, 127), [1, 64]
            scale, point = torch.ops.torchao.choose_qparams_affine(
                x, "SYMMETRIC", block, *limits, 1e-7, torch.float32, torch.int8, True
            )
            integers = torch.ops.torchao.quantize_affine(x, block, scale, point, *limits)
            return (integers.float() @ self.weight.float().t()) * scale.reshape(-1, 1)

    import torchao.quantization  # noqa: F401  the operators

    with pytest.raises(NotSupportedError, match=r"computes with the scales of its tokens"):
        et.to_edge(torch.export.export(OwnProduct().eval(), (X,)))


class Tied(nn.Module):
    """A small language model: its table of embeddings is the head's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(50, 64), nn.Linear(64, 64), nn.Linear(64, 50, bias=False)
        self.head.weight = self.table.weight

    def forward(self, words):
        x = self.table(words)
        return self.head(x + torch.tanh(self.inner(x)))


def decibels(got: torch.Tensor, want: torch.Tensor) -> float:
    got, want = got.double(), want.double()
    return float(10 * torch.log10(want.square().sum() / (got - want).square().sum().clamp(min=1e-30)))


@pytest.mark.parametrize("delegated", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_models_of_16_bits(name: str, dtype: torch.dtype, delegated: bool):
    """Activations keep their type; inputs of one dimension to three, with a bias and without, and for any batch."""
    from torchao.quantization import quantize_

    batch = torch.export.Dim("batch", min=2, max=16)
    for shape in ((64,), (3, 64), (2, 3, 64)):
        quantized = model().to(dtype)
        quantize_(quantized, configurations()[name])
        x = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)
        dynamic = ({0: batch},) if len(shape) == 2 and not name.endswith("_tensor") else None
        with torch.no_grad():
            program = torch.export.export(quantized, (x,), dynamic_shapes=dynamic)
            want = quantized(x)
        edge = et.to_edge_transform_and_lower(
            program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else None
        )
        got = et.load(edge.to_executorch().buffer)(x)
        assert got.dtype == dtype and got.shape == want.shape and decibels(got, want) > 26


@pytest.mark.parametrize("delegated", [True, False])
@pytest.mark.parametrize("bits", [torch.int8, torch.int4])
def test_tied_embeddings_of_16_bits(bits: torch.dtype, delegated: bool):
    from torchao.quantization import IntxWeightOnlyConfig, PerGroup, quantize_

    torch.manual_seed(0)
    tied = Tied().to(torch.bfloat16).eval()
    config = IntxWeightOnlyConfig(weight_dtype=bits, granularity=PerGroup(32))
    quantize_(tied, config, lambda module, name: isinstance(module, (nn.Embedding, nn.Linear)))
    words = torch.tensor([[1, 2, 49], [0, 7, 7]])
    with torch.no_grad():
        want = tied(words)
    edge = et.to_edge_transform_and_lower(
        torch.export.export(tied, (words,)), partitioner=[XnnpackPartitioner(largest=True)] if delegated else None
    )
    got = et.load(edge.to_executorch().buffer)(words)
    assert got.dtype == torch.bfloat16 and decibels(got, want) > 26
