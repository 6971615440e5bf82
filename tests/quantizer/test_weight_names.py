"""Quantized weights have the module's own names: in rules for external constants, `.ptd` files and the program."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer


class Network(nn.Module):
    """Layers of many kinds: with a norm to fold, two of one module, an embedding, one shared by two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.table, self.head, self.shared = nn.Embedding(4, 64), nn.Linear(8, 64), nn.Linear(64, 64)
        self.attention, self.up = nn.MultiheadAttention(64, 2, batch_first=True), nn.ConvTranspose1d(64, 4, 3)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = self.head(self.stem(x).mean((2, 3))) + self.table(i)
        y = self.shared(torch.relu(self.shared(y)))[:, None]
        y = y + self.attention(y, y, y, need_weights=False)[0]
        return self.up(y.transpose(1, 2))


INPUTS = (torch.randn(1, 3, 8, 8), torch.tensor([1]))
LAYERS = ("stem.0.", "table.", "head.", "shared.", "attention", "up.")


def quantized(preset: str) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return quantizer.quantize(Network().eval(), INPUTS, preset, [INPUTS])


@pytest.mark.parametrize("delegate", [False, True])
@pytest.mark.parametrize("preset", quantizer.PRESETS)
def test_rules_get_names_of_the_module(preset, delegate, tmp_path):
    """Every weight of more than 64 elements, by name and by node; the program computes the same from the file."""
    program = quantized(preset)
    partitioner = [XnnpackPartitioner(largest=True)] if delegate else None
    edge = et.to_edge_transform_and_lower(program, partitioner=partitioner)
    seen, nodes = {}, []

    def by_name(name, tensor):
        seen[name] = tensor.numel()
        return "weights"

    def by_node(node):
        nodes.append(node.name)
        return None

    manager = edge.to_executorch(et.ExecutorchBackendConfig(external_constants=by_name))
    edge.to_executorch(et.ExecutorchBackendConfig(external_constants=by_node))
    large = [name for name, count in seen.items() if count > 64]
    assert large and all(name.startswith(LAYERS) for name in large), large
    for layer in ("stem.0.weight", "head.weight", "shared.weight", "up.weight"):
        assert layer in seen, sorted(seen)
        assert any(name.endswith(layer.replace(".", "_")) for name in nodes), nodes
    manager.save(tmp_path / "model.pte")
    (file,) = manager.write_tensor_data_to_file(tmp_path)
    module = et.load(tmp_path / "model.pte", data_path=file)
    torch.testing.assert_close(module(*INPUTS), program.module()(*INPUTS), atol=2e-3, rtol=2e-3)


def test_torchaos_own_functions():
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
    prepared = prepare_pt2e(
        torch.export.export(Network().eval(), INPUTS).module(), quantizer.XNNPACKQuantizer().set_global(config)
    )
    prepared(*INPUTS)
    program = torch.export.export(convert_pt2e(prepared), INPUTS)
    before = sorted(program.state_dict)
    names = set(et.to_edge(program).exported_program().state_dict)
    assert {"head.weight", "head.weight_scale", "head.weight_zero_point", "head.bias", "stem.0.bias"} <= names
    assert not [name for name in names if name.startswith("_frozen_param")]
    assert sorted(program.state_dict) == before  # the caller's program stays as it is


def test_names_do_not_depend_on_what_stands_in_front():
    """So that programs with a layer in common find it in one file."""

    class Before(nn.Module):
        def __init__(self, count: int, own: nn.Linear) -> None:
            super().__init__()
            self.front, self.own = nn.ModuleList(nn.Linear(64, 64) for _ in range(count)), own

        def forward(self, x):
            for layer in self.front:
                x = torch.relu(layer(x))
            return self.own(x)

    own, x, found = nn.Linear(64, 32), (torch.randn(2, 64),), []
    for count in (0, 1, 3):
        program = quantizer.quantize(Before(count, own).eval(), x, "dynamic_int8", [x])
        found.append(et.to_edge(program).exported_program().state_dict["own.weight"])
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_methods_with_weights_of_their_own():
    """Two methods quantize one layer differently: each computes with its own."""
    layer, x = nn.Linear(64, 64).eval(), (torch.randn(2, 64),)

    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x)

    programs = {
        name: quantizer.quantize(Once().eval(), x, name, [x])
        for name in ("dynamic_int8", "dynamic_int4", "static_int8")
    } | {"float": torch.export.export(Once().eval(), x)}
    program = et.Runtime.get().load_program(et.to_edge(programs).to_executorch().buffer)
    for name, one in programs.items():
        got = program.load_method(name).execute(x)[0]
        torch.testing.assert_close(got, one.module()(*x), atol=1e-3, rtol=1e-3)


def test_the_users_own_names_stay():
    """Buffers that begin with an underscore are the user's."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("_scale", torch.tensor([2.0]))
            self.register_buffer("_frozen", torch.ones(3))

        def forward(self, x):
            return x * self._scale + self._frozen

    program = et.to_edge(torch.export.export(Own(), (torch.ones(3),))).exported_program()
    assert set(program.state_dict) == {"_scale", "_frozen"}
