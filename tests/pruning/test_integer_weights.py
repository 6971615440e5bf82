"""Pruned models whose integer layers run on our own kernels: their weights stand in the file without zeros."""

import numpy as np
import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import pruning, quantizer
from tests.pruning.sparse_files import entries_of, expect_errors_where_changed, inspected

PREFIX = "sparse_constant:"


class Net(nn.Module):
    """A convolution, a depthwise one, a pointwise one, a transposed one and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 5, groups=64), nn.ReLU(), nn.Conv2d(64, 128, 1), nn.ReLU(),
            nn.ConvTranspose2d(128, 32, 2, stride=2), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(32, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layer = kind(48, 64, batch_first=True)
        with torch.no_grad():
            for weight in (self.layer.weight_ih_l0, self.layer.weight_hh_l0):
                weight[torch.rand_like(weight) < 0.5] = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


IMAGE = (torch.randn(2, 3, 20, 20, generator=torch.Generator().manual_seed(0)),)
ROWS = (torch.randn(5, 256, generator=torch.Generator().manual_seed(0)),)
SEQUENCE = (torch.randn(2, 6, 48, generator=torch.Generator().manual_seed(0)),)
KINDS = {  # name -> (model, inputs, preset, weights that are stored sparse)
    "static int8": (Net, IMAGE, "static_int8", 6),
    "static int8, linear": (Rows, ROWS, "static_int8", 2),
    "static int16, plain kernels": (Net, IMAGE, quantizer.quantization_config("int16", "int8"), 6),
    "static uint8, plain kernels": (Rows, ROWS, quantizer.quantization_config("uint8", "int8"), 2),
    "dynamic int8": (Rows, ROWS, "dynamic_int8", 2),
    "int8 weight-only": (Rows, ROWS, "int8_weight_only", 2),
    "int8 weight-only, convolution": (Net, IMAGE, "int8_weight_only", 6),
    "static int8, LSTM": (lambda: Recurrent(nn.LSTM), SEQUENCE, "static_int8", 2),
    "static int8, GRU": (lambda: Recurrent(nn.GRU), SEQUENCE, "static_int8", 2),
    "dynamic int8, GRU": (lambda: Recurrent(nn.GRU), SEQUENCE, "dynamic_int8", 2),
    "int8 weights, LSTM": (lambda: Recurrent(nn.LSTM), SEQUENCE, "int8_weight_only", 2),
}


def quantized(kind: str, amount: float):
    make, inputs, preset, count = KINDS[kind]
    torch.manual_seed(0)
    model = make().eval()
    if not isinstance(model, Recurrent):
        pruning.prune_weights(model, amount)
    return quantizer.quantize(model, inputs, preset, [inputs]), inputs, count


def lowered(program, **config) -> bytes:
    manager = et.to_edge(program).to_executorch(et.ExecutorchBackendConfig(**config))
    return bytes(manager.buffer)


def sparse_entries(file: bytes) -> dict[str, int]:
    return entries_of(file, PREFIX)


def dense_sizes(file: bytes) -> int:
    """Bytes that the sparse entries stand for."""
    program = et.Runtime.get().load_program(file)
    return sum(int.from_bytes(program.read_named_data(key)[8:16], "little") for key in sparse_entries(file))


@pytest.mark.parametrize("kind", KINDS)
def test_half_of_the_weights(kind):
    program, inputs, count = quantized(kind, 0.5)
    dense, sparse = lowered(program, sparse_weights=False), lowered(program)
    assert not sparse_entries(dense) and len(sparse_entries(sparse)) == count
    weights = dense_sizes(sparse)
    assert abs(sum(sparse_entries(sparse).values()) / weights - 0.625) < 0.03
    assert len(dense) - len(sparse) > 0.33 * weights - 250 * count
    expected = et.load(dense)(*inputs)
    for _ in range(2):  # with memory that was given back when the method was loaded
        torch.testing.assert_close(et.load(sparse)(*inputs), expected, rtol=0, atol=0)
    assert not sparse_entries(lowered(program, sparse_weights=0.99))


@pytest.mark.parametrize("amount", [0.1, 0.3])
def test_what_is_not_pruned_enough_is_dense(amount):
    program, _, _ = quantized("dynamic int8", amount)
    assert lowered(program) == lowered(program, sparse_weights=False)


def test_for_the_official_runtime_everything_is_dense():
    program, _, _ = quantized("static int8", 0.9)
    compatible = lowered(program, compatible=True)
    assert compatible == lowered(program, compatible=True, sparse_weights=False)
    assert not sparse_entries(compatible)


class Twice(nn.Module):
    """One layer, called twice: its weight is the argument of two instructions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.relu(self.layer(x)))


def test_a_weight_of_two_calls_is_dense():
    torch.manual_seed(0)
    inputs = (torch.randn(3, 128),)
    program = quantizer.quantize(pruning.prune_weights(Twice().eval(), 0.7), inputs, "dynamic_int8")
    assert lowered(program) == lowered(program, sparse_weights=False)


def test_methods_share_a_weight():
    """Whatever is loaded, run and dropped, and in which order, each method has its weights."""
    torch.manual_seed(0)
    model = pruning.prune_weights(Rows().eval(), 0.8)
    examples = {"one": (torch.randn(1, 256),), "many": (torch.randn(32, 256),)}
    programs = {name: quantizer.quantize(model, example, "dynamic_int8") for name, example in examples.items()}
    files = [lowered(programs, sparse_weights=part) for part in (False, True)]
    assert len(sparse_entries(files[1])) == 2
    assert len(files[1]) < len(lowered(programs["one"])) + 20_000, "each weight is there once"
    expected = et.load(files[0])
    program = et.Runtime.get().load_program(files[1])
    generator = np.random.default_rng(0)
    loaded = []
    for _ in range(60):
        action = generator.integers(3)
        if action == 0 or not loaded:
            name = str(generator.choice(list(examples)))
            loaded.append((name, program.load_method(name)))
        elif action == 1:
            loaded.pop(generator.integers(len(loaded)))
        for name, method in loaded:
            (found,) = method.execute(examples[name])
            torch.testing.assert_close(found, getattr(expected, name)(*examples[name]), rtol=0, atol=0)


def test_a_changed_file_gives_an_error():
    program, inputs, _ = quantized("static int8", 0.8)
    expect_errors_where_changed(lowered(program), PREFIX, inputs)


def test_an_entry_of_another_size_gives_an_error():
    """Two entries change their names: each is well-formed, and neither fits its tensor."""
    program, inputs, _ = quantized("dynamic int8", 0.8)
    good = lowered(program)
    first, second = sorted(sparse_entries(good))
    assert len(first) == len(second)
    swapped = good.replace(first.encode(), b"?" * len(first)).replace(second.encode(), first.encode())
    swapped = swapped.replace(b"?" * len(first), second.encode())
    with pytest.raises(et.ExecutorchError, match="bytes"):
        et.load(swapped)(*inputs)
    missing = good.replace(first.encode(), b"sparse_constanT" + first.encode()[15:])
    with pytest.raises(et.ExecutorchError, match=first.removeprefix(PREFIX)):
        et.load(missing)(*inputs)


def test_inspect_says_what_an_entry_stands_for(tmp_path, capsys):
    program, _, _ = quantized("dynamic int8", 0.9)
    lines = inspected(lowered(program), PREFIX, tmp_path, capsys)
    assert len(lines) == 2 and any(line.endswith(f", dense {256 * 512:,}") for line in lines)
