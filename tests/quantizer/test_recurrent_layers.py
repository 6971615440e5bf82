"""Statically quantized LSTM and GRU layers: one operator for the steps of a direction, equal to the steps bit for bit."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export import Dim

import executorch_py as et
from executorch_py import quantizer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
STEPS = 7
FUSION = "fuse-recurrent-steps"


class Layers(nn.Module):
    """Recurrent layers with all their results, flat."""

    def __init__(self, layers: nn.RNNBase) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = state if len(state) > 1 else state[0] if state else None
        out, last = self.layers(x, given)
        return (out, *last) if isinstance(last, tuple) else (out, last)


class Attending(nn.Module):
    """Reads states in the middle, behind the layer."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layers = kind(16, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = self.layers(x)[0]
        return states[2] * states[-1]


def rows(*shape: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(*shape),)


#: Options of the layers and shape of the input.
FORMS = {
    "one": ({}, (STEPS, 1, 16)),
    "batch": ({}, (STEPS, 5, 16)),
    "batch first": ({"batch_first": True}, (3, STEPS, 16)),
    "no batch": ({}, (STEPS, 16)),
    "layers": ({"num_layers": 3}, (STEPS, 2, 16)),
    "directions": ({"bidirectional": True}, (STEPS, 1, 16)),
    "layers and directions": ({"num_layers": 2, "bidirectional": True, "batch_first": True}, (4, STEPS, 16)),
    "no biases": ({"bias": False}, (STEPS, 2, 16)),
}
KINDS = [nn.LSTM, nn.GRU]


def lowered(program: torch.export.ExportedProgram, *disabled: str) -> et.ExecutorchProgramManager:
    return et.to_edge(program).to_executorch(et.ExecutorchBackendConfig(disabled_passes=list(disabled)))


def assert_equal_to_steps(program: torch.export.ExportedProgram, count: int, *calls: tuple[torch.Tensor, ...]) -> None:
    """Fused files hold `count` layers and no step, and give what the steps give, bit for bit."""
    fused, steps = lowered(program), lowered(program, FUSION)
    text = fused.dump()
    assert sum(text.count(f"et::quantized_{kind}.out") for kind in ("lstm", "gru")) == count
    assert "_gates.out" not in text
    assert "_gates.out" in steps.dump()
    whole, single = et.load(fused.buffer), et.load(steps.buffer)
    for x in calls:
        for a, b in zip(_flat(whole(*x)), _flat(single(*x)), strict=True):
            assert torch.equal(a, b), (a - b).abs().max()


def _flat(out: object) -> tuple[torch.Tensor, ...]:
    return (out,) if isinstance(out, torch.Tensor) else tuple(out)


def quantized(
    model: nn.Module, x: tuple[torch.Tensor, ...], config: object = "static_int8", **options: object
) -> torch.export.ExportedProgram:
    return quantizer.quantize(model.eval(), x, config, [x, tuple(torch.randn_like(one) for one in x)], **options)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_forms(kind: type[nn.RNNBase], form: str) -> None:
    torch.manual_seed(0)
    options, shape = FORMS[form]
    model, x = Layers(kind(16, 33, **options)), rows(*shape)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    assert_equal_to_steps(quantized(model, x), count, x, rows(*shape), (3 * x[0],))


@pytest.mark.parametrize("kind", KINDS)
def test_given_states(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    model = Layers(kind(16, 24, num_layers=2, bidirectional=True))
    states = 2 if kind is nn.LSTM else 1
    x = (torch.randn(STEPS, 3, 16), *(torch.randn(4, 3, 24).tanh() for _ in range(states)))
    far = (x[0], *(50 * one for one in x[1:]))
    broken = (x[0], *(one.clone().index_fill_(2, torch.tensor([1, 5]), torch.nan) for one in x[1:]))
    program = quantized(model, x)
    assert_equal_to_steps(program, 4, x, far)
    whole, steps = et.load(lowered(program).buffer), et.load(lowered(program, FUSION).buffer)
    for a, b in zip(whole(*broken), steps(*broken), strict=True):
        assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) and a.isnan().any()


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_sequences_as_a_call_has(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    batch = Dim("batch", min=1, max=9)
    states = 2 if kind is nn.LSTM else 1
    x = (torch.randn(STEPS, 3, 16), *(torch.randn(1, 3, 24).tanh() for _ in range(states)))
    model = Layers(kind(16, 24))
    program = quantized(model, x, dynamic_shapes=({1: batch}, tuple({1: batch} for _ in range(states))))
    calls = [(torch.randn(STEPS, n, 16), *(torch.randn(1, n, 24).tanh() for _ in range(states))) for n in (1, 9, 4, 3)]
    assert_equal_to_steps(program, 1, *calls)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "config",
    [
        quantizer.quantization_config(weights="int4"),
        quantizer.quantization_config(per_channel=False),
        quantizer.quantization_config(symmetric_activations=True),
    ],
    ids=["int4", "one scale", "symmetric"],
)
def test_weights(config: object, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 3, 16)
    assert_equal_to_steps(quantized(Layers(kind(16, 33)), x, config), 1, x, rows(STEPS, 3, 16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activations", ["uint8", "int16"])
def test_other_integers_keep_their_steps(activations: str, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 3, 16)
    text = lowered(quantized(Layers(kind(16, 8)), x, quantizer.quantization_config(activations))).dump()
    assert text.count("_gates.out") == STEPS


@pytest.mark.parametrize("kind", KINDS)
def test_states_in_the_middle(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    assert_equal_to_steps(quantized(Attending(kind), x), 1, x)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_share_units_or_sequences(kind: type[nn.RNNBase], batch: int) -> None:
    torch.manual_seed(0)
    x = rows(3, batch, 16)
    program = quantized(Layers(kind(16, 640)), x)
    try:
        for threads in (1, 2, 3):
            et.set_num_threads(threads)
            assert_equal_to_steps(program, 1, x)
    finally:
        et.set_num_threads(0)


@pytest.mark.parametrize("kind", KINDS)
def test_files_for_the_official_runtime_keep_their_steps(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    edge = et.to_edge(quantized(Layers(kind(16, 24)), x))
    assert "et::" not in edge.to_executorch(et.ExecutorchBackendConfig(compatible=True)).dump()


@pytest.mark.parametrize("kind", KINDS)
def test_files_for_the_official_runtime_have_their_steps_in_the_delegate(kind: type[nn.RNNBase]) -> None:
    """What ``always=True`` gives, without being told; the same Edge program gives our runtime its one operator."""
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    program = quantized(Layers(kind(16, 24)), x)
    edge, always = (
        et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(always=always)])
        for always in (False, True)
    )
    ours = edge.to_executorch()
    compatible = edge.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    dump = compatible.dump()
    assert "et::" not in dump and "aten::sigmoid" not in dump and "aten::tanh" not in dump
    wanted = always.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    assert dump == wanted.dump()
    again = edge.to_executorch()
    assert f"et::quantized_{kind.__name__.lower()}" in again.dump() and bytes(again.buffer) == bytes(ours.buffer)
    for expected, found in zip(et.load(wanted.buffer)(*x), et.load(compatible.buffer)(*x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_stay_out_of_the_delegate(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    model = Layers(kind(16, 24, num_layers=2, bidirectional=True))
    program = quantized(model, x)
    kernels = lowered(program)
    for always in (False, True):
        edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(always=always)])
        manager = edge.to_executorch()
        text = manager.dump()
        count = sum(text.count(f"et::quantized_{kind}.out") for kind in ("lstm", "gru"))
        assert "aten::sigmoid" not in text and "quantized_add" not in text
        assert count == (0 if always else 4)
        out, own = et.load(manager.buffer)(*x), et.load(kernels.buffer)(*x)
        for a, b in zip(out, own, strict=True):
            assert torch.equal(a, b) if not always else (a - b).abs().max() <= 0.05


def test_cells_stay_in_the_delegate() -> None:
    """Whose steps no pass makes one of."""

    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(16, 24)

        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            for item in x:
                h, c = self.cell(item, (h, c))
            return h

    torch.manual_seed(0)
    x = (torch.randn(3, 2, 16), torch.randn(2, 24), torch.randn(2, 24))
    edge = et.to_edge_transform_and_lower(quantized(Cells(), x), partitioner=[XnnpackPartitioner()])
    text = edge.to_executorch().dump()
    assert "aten::sigmoid" not in text and "et::lstm_gates" not in text
