"""Quantized GRUs: their gates stay in float and are one operator a step, or a layer; accuracy and what keeps steps
apart.
"""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export import Dim

import executorch_py as et
from executorch_py import quantizer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
STEPS = 12


class Sequences(nn.Module):
    """A layer without its last state."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, *state: torch.Tensor) -> torch.Tensor:
        return self.layer(x, *state)[0]


class Cell(nn.Module):
    """A cell over time, by hand."""

    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.cell = nn.GRUCell(24, 40, **options)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        states = []
        for item in x:
            h = self.cell(item, h)
            states.append(h)
        return torch.stack(states)


class ByHand(nn.Module):
    """A cell of one's own, whose first state is quantized, too."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.given, self.own = nn.Linear(24, 40), nn.Linear(24, 120), nn.Linear(40, 120)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.start(x[0]).relu()
        states = []
        for item in x:
            (ir, iz, i_n), (hr, hz, hn) = self.given(item).chunk(3, -1), self.own(h).chunk(3, -1)
            r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
            h = (1 - z) * (i_n + r * hn).tanh() + z * h
            states.append(h)
        return torch.stack(states)


def layer(kind: type[nn.RNNBase], *shape: int, **options: object):
    return lambda: (Sequences(kind(24, 40, **options)), (torch.randn(*shape, 24),))


MODELS = {
    "one": layer(nn.GRU, STEPS, 2),
    "batch first": layer(nn.GRU, 2, STEPS, batch_first=True),
    "no batch": layer(nn.GRU, STEPS),
    "layers": layer(nn.GRU, STEPS, 1, num_layers=2),
    "directions": layer(nn.GRU, STEPS, 1, bidirectional=True),
    "no biases": layer(nn.GRU, STEPS, 2, bias=False),
    "given state": lambda: (Sequences(nn.GRU(24, 40)), (torch.randn(STEPS, 2, 24), torch.randn(1, 2, 40).tanh())),
    "cell": lambda: (Cell(), (torch.randn(STEPS, 2, 24), torch.randn(2, 40).tanh())),
    "cell without biases": lambda: (Cell(bias=False), (torch.randn(STEPS, 2, 24), torch.randn(2, 40).tanh())),
    "by hand": lambda: (ByHand(), (torch.randn(STEPS, 2, 24),)),
}

#: Preset -> what a layer is.
LAYERS = {
    "static_int8": "et::quantized_gru.out",
    "dynamic_int8": "et::dynamic_gru.out",
    "int8_weight_only": "et::weight_only_gru.out",
}
#: Whose inputs are multiplied one by one, so that each step stands in the file.
CELLS = ("cell", "cell without biases", "by hand")


def quantized(model: nn.Module, x: tuple, preset: object, **options: object) -> torch.export.ExportedProgram:
    data = [tuple(torch.randn_like(one) for one in x), x] if preset == "static_int8" else None
    return quantizer.quantize(model, x, preset, data, **options)


def lowered(program: torch.export.ExportedProgram, delegated: bool = False) -> et.ExecutorchProgramManager:
    partitioner = [XnnpackPartitioner(largest=True)] if delegated else []
    return et.to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch()


def decibels(manager: object, model: nn.Module, x: tuple) -> float:
    with torch.no_grad():
        exact = model(*x)
    noise = (et.load(manager.buffer)(*x) - exact).square().mean() / exact.square().mean()
    return float(-10 * noise.log10())


@pytest.mark.parametrize("preset", LAYERS)
@pytest.mark.parametrize("name", MODELS)
def test_gates_are_one_operator_a_step_or_a_layer(name: str, preset: str) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    manager = lowered(quantized(model.eval(), x, preset))
    text = manager.dump()
    cells = 2 if name in ("layers", "directions") else 1
    is_whole = name not in CELLS
    assert text.count("et::gru_gates.out") == (0 if is_whole else cells * STEPS)
    for other, operator in LAYERS.items():
        assert text.count(operator) == (cells if is_whole and other == preset else 0)
    assert not any(name in text for name in ("aten::sigmoid", "aten::tanh", "et::quantized_add", "et::quantized_mul"))
    assert decibels(manager, model, x) >= 30


@pytest.mark.parametrize("delegated", [False, True])
def test_accuracy_is_that_of_an_lstm(delegated: bool) -> None:
    found: dict[type, list[float]] = {nn.GRU: [], nn.LSTM: []}
    for seed in range(3):
        for kind, values in found.items():
            torch.manual_seed(seed)
            model, x = layer(kind, 25, 1)()
            values.append(decibels(lowered(quantized(model.eval(), x, "static_int8"), delegated), model, x))
    mean = {kind: sum(values) / len(values) for kind, values in found.items()}
    assert mean[nn.GRU] >= mean[nn.LSTM] - 1.5, found


def test_rows_that_only_a_run_knows() -> None:
    torch.manual_seed(0)
    model, x = MODELS["cell"]()
    batch = Dim("batch", min=1, max=9)
    program = quantized(model.eval(), x, "static_int8", dynamic_shapes=({1: batch}, {0: batch}))
    manager = lowered(program)
    assert manager.dump().count("et::gru_gates.out") == STEPS
    for rows in (1, 9, 3):
        x = torch.randn(STEPS, rows, 24), torch.randn(rows, 40).tanh()
        assert decibels(manager, program.module(), x) >= 40


def test_sums_that_are_named_are_quantized() -> None:
    torch.manual_seed(0)
    model, x = MODELS["one"]()
    config = quantizer.quantization_config()
    named = quantizer.XNNPACKQuantizer().set_global(config).set_operator_type(torch.ops.aten.add.Tensor, config)
    program = quantizer.quantize(model.eval(), x, named, [x])
    text = et.to_edge(program).to_executorch().dump()
    assert "et::quantized_add" in text and "et::gru_gates" not in text
