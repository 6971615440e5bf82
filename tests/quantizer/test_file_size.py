"""How large files of quantized models are: 1.05 times what their weights need, and 32 KB."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase] = nn.LSTM, inputs: int = 256, hidden: int = 384, layers: int = 1) -> None:
        super().__init__()
        self.cells = kind(inputs, hidden, num_layers=layers, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cells(x)[0]


def separable() -> nn.Module:
    """Depthwise filters as networks have them, each with a convolution of one pixel."""
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Conv2d(512, 512, 3, padding=1, groups=512), nn.ReLU(), nn.Conv2d(512, 512, 1), nn.ReLU()]
    return nn.Sequential(*layers)


IMAGE = torch.randn(1, 512, 4, 4)
MODELS = {
    "linear": lambda: (nn.Linear(1024, 1024), torch.randn(2, 1024)),
    "odd": lambda: (nn.Linear(1023, 1024), torch.randn(2, 1023)),
    "conv1d": lambda: (nn.Conv1d(512, 301, 5), torch.randn(1, 512, 9)),
    "conv2d": lambda: (nn.Conv2d(512, 301, 3), IMAGE),
    "grouped": lambda: (nn.Conv2d(512, 512, 3, groups=2), IMAGE),
    "separable": lambda: (separable(), IMAGE),
    "transposed": lambda: (nn.ConvTranspose2d(512, 301, 3), IMAGE),
    "embedding": lambda: (nn.Embedding(8000, 128), torch.randint(8000, (2, 5))),
    "odd_embedding": lambda: (nn.Embedding(8000, 127), torch.randint(8000, (2, 5))),
    "lstm": lambda: (Recurrent(), torch.randn(1, 4, 256)),
    "gru": lambda: (Recurrent(nn.GRU), torch.randn(1, 4, 256)),
    "small_lstm": lambda: (Recurrent(nn.LSTM, 16, 32, 2), torch.randn(2, 12, 16)),
    "small_gru": lambda: (Recurrent(nn.GRU, 16, 32, 2), torch.randn(2, 12, 16)),
    "deep_lstm": lambda: (Recurrent(nn.LSTM, 32, 32, 3), torch.randn(1, 24, 32)),
    "deep_gru": lambda: (Recurrent(nn.GRU, 32, 32, 3), torch.randn(1, 24, 32)),
}
CONFIGS = {
    "static_int8": (8, quantizer.quantization_config()),
    "static_int4": (4, quantizer.quantization_config(weights="int4")),
    "dynamic_int8": (8, quantizer.quantization_config(dynamic=True)),
    "dynamic_int4": (4, quantizer.PRESETS["dynamic_int4"]()),
    "int8_weight_only": (8, quantizer.quantization_config(None, "int8")),
    "int4_weight_only": (4, quantizer.PRESETS["int4_weight_only"]()),
    "int4_weight_only_by_row": (4, quantizer.quantization_config(None, "int4")),
}
#: Kinds of layers whose input no kernel quantizes at run time; the quantizer leaves them as they are and says so.
NOT_DYNAMIC = {"grouped", "separable", "transposed", "embedding", "odd_embedding"}
#: Layers whose steps are more than their weights unless all of them are one operator, and where that is tried.
DEEP = {
    "small_lstm": ["static_int8", "dynamic_int4"],
    "small_gru": ["static_int8", "int4_weight_only"],
    "deep_lstm": ["dynamic_int8", "int8_weight_only"],
    "deep_gru": ["dynamic_int8", "int8_weight_only"],
}
CASES = [(m, c) for m in MODELS for c in DEEP.get(m, CONFIGS) if not (c.startswith("dynamic") and m in NOT_DYNAMIC)]


def ideal(model: nn.Module, bits: int, config: str) -> float:
    """Bytes of integers, of scales (2 bytes a group, 4 a row), zero points and biases."""
    is_grouped = config in ("dynamic_int4", "int4_weight_only")
    total = 0.0
    for value in model.state_dict().values():
        if value.dim() == 1:
            total += 4 * value.numel()  # a bias
            continue
        total += value.numel() * bits / 8
        groups = value.shape[1] // 32 if is_grouped and value.dim() == 2 and value.shape[1] % 32 == 0 else 0
        total += value.shape[0] * (groups * (2 if config == "dynamic_int4" else 3) if groups else 4)
    return total


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8"])
def test_steps_of_a_layer_take_no_bytes(preset: str, kind: type[nn.RNNBase], delegated: bool) -> None:
    torch.manual_seed(0)
    sizes: dict[bool, dict[int, int]] = {False: {}, True: {}}
    for steps in (10, 60):
        model, x = Recurrent(kind).eval(), torch.randn(1, steps, 256)
        program = quantizer.quantize(model, (x,), preset, [(x,)] if preset == "static_int8" else None)
        edge = et.to_edge_transform_and_lower(
            program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else []
        )
        for apart in sizes:
            config = et.ExecutorchBackendConfig(disabled_passes=["fuse-recurrent-steps"] if apart else [])
            sizes[apart][steps] = len(edge.to_executorch(config).buffer)
    # One by one, each step is five instructions with their debug entries; a bias of int32 a step would be 6 KB.
    assert (sizes[True][60] - sizes[True][10]) / 50 <= 1600, sizes
    assert (sizes[False][60] - sizes[False][10]) / 50 <= 200, sizes


@pytest.mark.parametrize("delegated", [False, True])
def test_small_recurrent_networks_are_mostly_weights(delegated: bool) -> None:
    """Three layers in both directions, 34 KB of weights: the names of their steps alone took 25 KB."""
    torch.manual_seed(0)
    model, x = Recurrent(nn.GRU, 24, 24, 3).eval(), torch.randn(1, 20, 24)
    model.cells = nn.GRU(24, 24, 3, bidirectional=True, batch_first=True).eval()
    program = quantizer.quantize(model, (x,), "static_int8", [(x,)])
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    size, least = len(edge.to_executorch().buffer), ideal(model, 8, "static_int8")
    assert size <= 1.05 * least + 32 * 1024, f"{size} bytes, {size / least:.3f} times {least:.0f}"


class Tied(nn.Module):
    """A language model's two ends: one table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8000, 128)
        self.head = nn.Linear(128, 8000, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(tokens))


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("config", [None, "dynamic_int8", "static_int8"])
def test_a_table_that_a_delegate_shares_is_there_once(config: str | None, delegated: bool) -> None:
    torch.manual_seed(0)
    model, x = Tied().eval(), torch.randint(8000, (2, 5))
    if config is None:
        program = torch.export.export(model, (x,))
    else:
        both = quantizer.ComposableQuantizer(
            [quantizer.EmbeddingQuantizer("int8"), quantizer.XNNPACKQuantizer().set_global(CONFIGS[config][1])]
        )
        program = quantizer.quantize(model, (x,), both, [(x,)] if config == "static_int8" else None)
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    buffer = edge.to_executorch().buffer
    least = 8000 * (128 * 4 if config is None else 128 + 4)
    assert len(buffer) <= 1.05 * least + 32 * 1024, f"{len(buffer) / least:.3f} times {least}"
    out = et.Runtime.get().load_program(buffer).load_method("forward").execute((x,))[0]
    exact = model(x)
    noise = (out - exact).square().mean() / exact.square().mean()
    assert noise <= (1e-10 if config is None else 1e-3), float(noise)


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize(("name", "config"), CASES)
def test_files_hold_little_beside_their_weights(name: str, config: str, delegated: bool) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    bits, spec = CONFIGS[config]
    if "embedding" in name:
        options = {} if bits == 8 else {"group_size": 32 if config == "int4_weight_only" else None}
        spec = quantizer.EmbeddingQuantizer("int8" if bits == 8 else "int4", **options)
    program = quantizer.quantize(model.eval(), (x,), spec, [(x,)] if config.startswith("static") else None)
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)] if delegated else [])
    size, least = len(edge.to_executorch().buffer), ideal(model, bits, config)
    assert size <= 1.05 * least + 32 * 1024, f"{size} bytes, {size / least:.3f} times {least:.0f}"
