"""Pruned models whose layers are delegated: their weights stand in the file without zeros, and nothing else changes."""

import copy

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import pruning, quantizer
from tests.pruning.sparse_files import entries_of, expect_errors_where_changed, inspected


class Net(nn.Module):
    """A convolution, a depthwise one, a pointwise one and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 5, groups=64), nn.ReLU(), nn.Conv2d(64, 128, 1), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(128, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


IMAGE = (torch.randn(2, 3, 20, 20, generator=torch.Generator().manual_seed(0)),)
ROWS = (torch.randn(5, 256, generator=torch.Generator().manual_seed(0)),)


def net(amount: float) -> nn.Module:
    torch.manual_seed(0)
    return pruning.prune_weights(Net().eval(), amount)


def mlp(amount: float) -> nn.Module:
    torch.manual_seed(0)
    return pruning.prune_weights(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).eval(), amount)


def exported(kind: str, amount: float):
    """A program and its inputs, and the bytes of an element of its weights."""
    if kind == "static int8":
        return quantizer.quantize(net(amount), IMAGE, "static_int8", [IMAGE]), IMAGE, 1
    if kind == "dynamic int8":
        return quantizer.quantize(mlp(amount), ROWS, "dynamic_int8"), ROWS, 1
    if kind == "float16":
        inputs = (IMAGE[0].half(),)
        return torch.export.export(net(amount).half(), inputs), inputs, 4  # of convolutions, which are most of it
    return torch.export.export(net(amount), IMAGE), IMAGE, 4


def lowered(program, **config) -> bytes:
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)])
    manager = edge.to_executorch(et.ExecutorchBackendConfig(**config))
    assert "XnnpackBackend" in manager.dump()
    return bytes(manager.buffer)


def sparse_entries(file: bytes) -> dict[str, int]:
    return entries_of(file, "sparse:")


@pytest.mark.parametrize("amount", [0.5, 0.9])
@pytest.mark.parametrize("kind", ["float32", "float16", "static int8", "dynamic int8"])
def test_pruned_filters_are_stored_without_their_zeros(kind, amount):
    program, inputs, size = exported(kind, amount)
    dense, sparse = lowered(program, sparse_weights=False), lowered(program)
    assert not sparse_entries(dense) and len(sparse_entries(sparse)) == (2 if kind == "dynamic int8" else 5)
    named = et.Runtime.get().load_program(dense).named_data()
    filters = sum(named[key.removeprefix("sparse:")] for key in sparse_entries(sparse))
    stored = (1 - amount) + 1 / (8 * size)
    assert abs(sum(sparse_entries(sparse).values()) / filters - stored) < 0.03
    assert len(dense) - len(sparse) > (1 - stored - 0.03) * filters - 1000
    expected, actual = et.load(dense)(*inputs), et.load(sparse)(*inputs)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert not sparse_entries(lowered(program, sparse_weights=0.99))


def test_for_the_official_runtime_everything_is_dense():
    program, _, _ = exported("static int8", 0.9)
    compatible = lowered(program, compatible=True)
    assert compatible == lowered(program, compatible=True, sparse_weights=False)
    assert not sparse_entries(compatible)


def test_what_is_not_pruned_is_dense():
    program, _, _ = exported("float32", 0.1)
    assert lowered(program) == lowered(program, sparse_weights=False)


def test_methods_share_a_weight():
    model = mlp(0.8)
    one, many = (torch.randn(1, 256),), (torch.randn(32, 256),)
    programs = {"one": torch.export.export(model, one), "many": torch.export.export(model, many)}
    edge = et.to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner(largest=True)])
    files = [
        bytes(edge.to_executorch(et.ExecutorchBackendConfig(sparse_weights=part)).buffer) for part in (False, True)
    ]
    assert len(sparse_entries(files[1])) == 2
    single = lowered(programs["one"])
    assert len(files[1]) < len(single) + 20_000, "each weight is there once"
    expected, module = et.load(files[0]), et.load(files[1])
    for _ in range(2):
        torch.testing.assert_close(module.one(*one), expected.one(*one), rtol=0, atol=0)
        torch.testing.assert_close(module.many(*many), expected.many(*many), rtol=0, atol=0)


def test_a_weight_that_a_kernel_uses_too_is_there_once():
    """A table that an embedding reads row by row and a delegate multiplies with."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(400, 64)
            with torch.no_grad():
                self.table.weight[:, ::2] = 0

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.table(tokens)) @ self.table.weight.T

    torch.manual_seed(0)
    inputs = (torch.randint(0, 400, (3, 7)),)
    program = torch.export.export(Tied().eval(), inputs)
    file = lowered(program)
    assert len(file) < 1.3 * 400 * 64 * 4
    torch.testing.assert_close(
        et.load(file)(*inputs), et.load(lowered(program, sparse_weights=False))(*inputs), rtol=0, atol=0
    )


def test_a_changed_file_gives_an_error():
    program, inputs, _ = exported("static int8", 0.8)
    expect_errors_where_changed(lowered(program), "sparse:", inputs)


def test_inspect_says_what_an_entry_stands_for(tmp_path, capsys):
    program, _, _ = exported("dynamic int8", 0.9)
    lines = inspected(lowered(program), "sparse:", tmp_path, capsys)
    assert len(lines) == 2 and any(line.endswith(f", dense {256 * 512:,}") for line in lines)


def test_the_model_is_as_it_was():
    """Lowering does not touch the weights that were given."""
    model = net(0.9)
    before = copy.deepcopy(model.state_dict())
    lowered(torch.export.export(model, IMAGE))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


class Sums(nn.Module):
    """Many constants of the same numbers, which the delegate reads where they are."""

    def __init__(self, count: int) -> None:
        super().__init__()
        for i in range(count):
            self.register_buffer(f"c{i}", torch.cat([torch.ones(64, 256), torch.zeros(192, 256)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for constant in self.buffers():
            x = x * 0.5 + constant
        return x


@pytest.mark.parametrize("sparse", [False, True])
def test_constants_that_many_values_share_are_there_once(sparse: bool) -> None:
    """A file asks for no more memory than it has bytes, some times over."""
    x = torch.randn(256, 256)
    usage = []
    for count in (1, 12):
        model = Sums(count).eval()
        edge = et.to_edge_transform_and_lower(
            torch.export.export(model, (x,)), partitioner=[XnnpackPartitioner(largest=True)]
        )
        buffer = edge.to_executorch(et.ExecutorchBackendConfig(sparse_weights=sparse)).buffer
        method = et.Runtime.get().load_program(buffer).load_method("forward")
        torch.testing.assert_close(method.execute((x,))[0], model(x))
        usage.append(method.memory_usage()["other"])
    assert usage[1] - usage[0] < 3 * x.nbytes, usage
