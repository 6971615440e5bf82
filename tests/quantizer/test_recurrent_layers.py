"""Quantized LSTM and GRU layers: one operator for the steps of a direction, equal to the steps bit for bit."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch._higher_order_ops.scan import scan
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

    def __init__(self, kind: type[nn.RNNBase], units: int = 24) -> None:
        super().__init__()
        self.layers = kind(16, units)

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
#: Preset -> beginning of the operator's name, and units that make groups of columns where the preset has some.
PRESETS = {
    "static_int8": ("quantized", 33),
    "dynamic_int8": ("dynamic", 33),
    "dynamic_int4": ("dynamic", 64),
    "int8_weight_only": ("weight_only", 33),
    "int4_weight_only": ("weight_only", 64),
}
#: Whose products XNNPACK has a kernel for: its last two operations may be one, so a last bit may be another.
LIBRARY = "dynamic_int8"


def lowered(program: torch.export.ExportedProgram, *disabled: str) -> et.ExecutorchProgramManager:
    return et.to_edge(program).to_executorch(et.ExecutorchBackendConfig(disabled_passes=list(disabled)))


def count_of(dump: str, preset: str) -> int:
    """How many layers of this preset are one operator."""
    return sum(dump.count(f"et::{PRESETS[preset][0]}_{kind}.out") for kind in ("lstm", "gru"))


def assert_equal_to_steps(
    program: torch.export.ExportedProgram, count: int, *calls: tuple[torch.Tensor, ...], preset: str = "static_int8"
) -> None:
    """Fused files hold `count` layers and no step, and give what the steps give, bit for bit."""
    fused, steps = lowered(program), lowered(program, FUSION)
    text = fused.dump().split("method @forward")[1]
    assert count_of(text, preset) == count
    assert "_gates.out" not in text
    assert "_gates.out" in steps.dump().split("method @forward")[1]
    whole, single = et.load(fused.buffer), et.load(steps.buffer)
    for x in calls:
        for a, b in zip(_flat(whole(*x)), _flat(single(*x)), strict=True):
            if preset == LIBRARY:
                assert decibels(a, b) >= 50
            else:
                assert torch.equal(a, b), (a - b).abs().max()


def decibels(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float(-10 * ((found - exact).square().mean() / exact.square().mean()).log10())


def _flat(out: object) -> tuple[torch.Tensor, ...]:
    return (out,) if isinstance(out, torch.Tensor) else tuple(out)


def quantized(
    model: nn.Module, x: tuple[torch.Tensor, ...], config: object = "static_int8", **options: object
) -> torch.export.ExportedProgram:
    samples = (
        [x, tuple(torch.randn_like(one) for one in x)] if not isinstance(config, str) or "static" in config else None
    )
    return quantizer.quantize(model.eval(), x, config, samples, **options)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_forms(preset: str, kind: type[nn.RNNBase], form: str) -> None:
    torch.manual_seed(0)
    options, shape = FORMS[form]
    model, x = Layers(kind(16, PRESETS[preset][1], **options)), rows(*shape)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    assert_equal_to_steps(quantized(model, x, preset), count, x, rows(*shape), (3 * x[0],), preset=preset)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_given_states(preset: str, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    units = PRESETS[preset][1]
    model = Layers(kind(16, units, num_layers=2, bidirectional=True))
    states = 2 if kind is nn.LSTM else 1
    x = (torch.randn(STEPS, 3, 16), *(torch.randn(4, 3, units).tanh() for _ in range(states)))
    far = (x[0], *(50 * one for one in x[1:]))
    broken = (x[0], *(one.clone().index_fill_(2, torch.tensor([1, 5]), torch.nan) for one in x[1:]))
    program = quantized(model, x, preset)
    assert_equal_to_steps(program, 4, x, far, preset=preset)
    if PRESETS[preset][0] == "dynamic":
        for config in ([], [FUSION]):
            with pytest.raises(et.ExecutorchError, match="not finite"):
                et.load(lowered(program, *config).buffer)(*broken)
        return
    whole, steps = et.load(lowered(program).buffer), et.load(lowered(program, FUSION).buffer)
    for a, b in zip(whole(*broken), steps(*broken), strict=True):
        assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) and a.isnan().any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_as_many_sequences_as_a_call_has(preset: str, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    batch = Dim("batch", min=1, max=9)
    states = 2 if kind is nn.LSTM else 1
    units = PRESETS[preset][1]

    def call(sequences: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(STEPS, sequences, 16), *(torch.randn(1, sequences, units).tanh() for _ in range(states))

    shapes = ({1: batch}, tuple({1: batch} for _ in range(states)))
    program = quantized(Layers(kind(16, units)), call(3), preset, dynamic_shapes=shapes)
    assert_equal_to_steps(program, 1, *(call(n) for n in (1, 9, 4, 3)), preset=preset)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "config",
    [
        quantizer.quantization_config(weights="int4"),
        quantizer.quantization_config(per_channel=False),
        quantizer.quantization_config(symmetric_activations=True),
        quantizer.quantization_config("uint8"),
    ],
    ids=["int4", "one scale", "symmetric", "uint8"],
)
def test_configurations(config: object, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 3, 16)
    assert_equal_to_steps(quantized(Layers(kind(16, 33)), x, config), 1, x, rows(STEPS, 3, 16))


@pytest.mark.parametrize("kind", KINDS)
def test_integers_of_16_bits_are_a_loop_in_the_file(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 3, 16)
    text = (
        lowered(quantized(Layers(kind(16, 8)), x, quantizer.quantization_config("int16")))
        .dump()
        .split("method @forward")[1]
    )
    assert text.count("_gates.out") == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_states_in_the_middle(preset: str, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    assert_equal_to_steps(quantized(Attending(kind, PRESETS[preset][1]), x, preset), 1, x, preset=preset)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int4", "int4_weight_only"])
def test_threads_share_units_or_sequences(preset: str, kind: type[nn.RNNBase], batch: int) -> None:
    torch.manual_seed(0)
    x = rows(3, batch, 16)
    program = quantized(Layers(kind(16, 640)), x, preset)
    try:
        for threads in (1, 2, 3):
            et.set_num_threads(threads)
            assert_equal_to_steps(program, 1, x, preset=preset)
    finally:
        et.set_num_threads(0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8"])
def test_files_for_the_official_runtime_keep_their_steps(preset: str, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    edge = et.to_edge(quantized(Layers(kind(16, 24)), x, preset))
    assert (
        "et::" not in edge.to_executorch(et.ExecutorchBackendConfig(compatible=True)).dump().split("method @forward")[1]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int8_weight_only"])
def test_files_for_the_official_runtime_have_their_steps_in_the_delegate(preset: str, kind: type[nn.RNNBase]) -> None:
    """What ``always=True`` gives, without being told; the same Edge program gives our runtime its one operator."""
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    program = quantized(Layers(kind(16, 24)), x, preset)
    edge, always = (
        et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True, always=always)])
        for always in (False, True)
    )
    ours = edge.to_executorch()
    compatible = edge.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    dump = compatible.dump().split("method @forward")[1]
    assert "et::" not in dump and "aten::sigmoid" not in dump and "aten::tanh" not in dump
    wanted = always.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    assert dump == wanted.dump().split("method @forward")[1]
    again = edge.to_executorch()
    assert count_of(again.dump().split("method @forward")[1], preset) == 1 and bytes(again.buffer) == bytes(ours.buffer)
    for expected, found in zip(et.load(wanted.buffer)(*x), et.load(compatible.buffer)(*x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_steps_stay_out_of_the_delegate(preset: str, kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    model = Layers(kind(16, PRESETS[preset][1], num_layers=2, bidirectional=True))
    program = quantized(model, x, preset)
    kernels = lowered(program)
    for always in (False, True):
        edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True, always=always)])
        manager = edge.to_executorch()
        text = manager.dump().split("method @forward")[1]
        assert "aten::sigmoid" not in text and "quantized_add" not in text
        assert count_of(text, preset) == (0 if always else 4)
        # The delegate chooses integers for each row, whatever the graph says.
        is_equal = not always and PRESETS[preset][0] != "dynamic"
        for a, b in zip(et.load(manager.buffer)(*x), et.load(kernels.buffer)(*x), strict=True):
            assert torch.equal(a, b) if is_equal else decibels(a, b) >= 30


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int4", "int8_weight_only"])
def test_as_many_steps_as_a_call_has(preset: str, kind: type[nn.RNNBase], delegated: bool) -> None:
    torch.manual_seed(0)
    model = Layers(kind(16, PRESETS[preset][1], bidirectional=True)).eval()
    with et.dynamic_sequences():
        steps = Dim("steps", min=1, max=40)
        exported = torch.export.export(model, rows(STEPS, 2, 16), dynamic_shapes=({0: steps},))
    program = quantizer.quantize(exported, (), preset, [rows(n, 2, 16) for n in (STEPS, 30)])
    partitioner = [XnnpackPartitioner(largest=True)] if delegated else []
    file = et.to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch()
    assert count_of(file.dump().split("method @forward")[1], preset) == 2
    module = et.load(file.buffer)
    for n in (1, 40, STEPS):
        x = rows(n, 2, 16)
        for found, exact in zip(module(*x), program.module()(*x), strict=True):
            assert decibels(found, exact) >= 40


@pytest.mark.parametrize("layers", [nn.RNN(16, 24), nn.LSTM(16, 24, proj_size=6)], ids=["RNN", "projection"])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int8_weight_only"])
def test_layers_without_an_operator_are_loops_in_the_file(preset: str, layers: nn.RNNBase) -> None:
    """A step stands in the file once; the numbers are those of the program."""
    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    program = quantized(Layers(layers), x, preset)
    file = lowered(program)
    text = file.dump().split("method @forward")[1]
    assert text.count("aten::tanh.out") + text.count("et::lstm_gates.out") == 1
    for found, exact in zip(et.load(file.buffer)(*x), program.module()(*x), strict=True):
        assert decibels(found, exact) >= 40


def test_a_loop_of_ones_own_is_a_layer() -> None:
    """A cell in a scan is what a layer becomes; its weights are quantized where they are read."""

    class Scanned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.given, self.own = nn.Linear(16, 72), nn.Linear(24, 72)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), self.own(h).chunk(3, -1)
                z, n = (hz + xz).sigmoid(), (xn + hn * (hr + xr).sigmoid()).tanh()
                h = (h - n) * z + n
                return h, h.clone()

            return scan(step, x.new_zeros(x.shape[1], 24), self.given(x))[1]

    torch.manual_seed(0)
    x = rows(STEPS, 2, 16)
    for preset in ("static_int8", "dynamic_int8", "int8_weight_only"):
        program = quantized(Scanned(), x, preset)
        assert [str(value.dtype) for name, value in program.state_dict.items() if "_frozen" in name] == [
            "torch.int8"
        ] * 2
        file = lowered(program)
        assert count_of(file.dump().split("method @forward")[1], preset) == 1
        assert decibels(et.load(file.buffer)(*x), program.module()(*x)) >= 40


@pytest.mark.parametrize("preset", ["static_int8", "int8_weight_only"])
def test_macs_of_the_steps_are_counted(preset: str) -> None:
    x = rows(STEPS, 2, 16)
    model = Layers(nn.LSTM(16, 33, num_layers=2)).eval()
    floats, integers = torch.export.export(model, x), quantized(model, x, preset)
    count = et.count_macs(integers, x)
    assert count.total == et.count_macs(floats, x).total
    assert {row.numbers for row in count.layers} == {"integer" if preset == "static_int8" else "weight-only"}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_macs_of_layers_and_their_cells_are_counted(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    gates = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}[kind]
    cell = {nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell, nn.RNN: nn.RNNCell}[kind](16, 33)
    layer = torch.export.export(Layers(kind(16, 33)).eval(), x := rows(STEPS, 2, 16))
    single = torch.export.export(cell.eval(), y := rows(2, 16))
    assert et.count_macs(layer, x).total == STEPS * 2 * gates * 33 * (16 + 33)
    assert et.count_macs(single, y).total == 2 * gates * 33 * (16 + 33)


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
    edge = et.to_edge_transform_and_lower(quantized(Cells(), x), partitioner=[XnnpackPartitioner(largest=True)])
    text = edge.to_executorch().dump().split("method @forward")[1]
    assert "aten::sigmoid" not in text and "et::lstm_gates" not in text


@pytest.mark.parametrize("per_channel", [False, True])
def test_steps_with_a_projection_stay_with_the_delegate(per_channel: bool) -> None:
    """No operator has them: without their conversions the delegate had floats beside weights with one scale, which it
    refused.
    """
    torch.manual_seed(0)
    model = Layers(nn.LSTM(8, 16, proj_size=2)).eval()
    samples = [(torch.randn(3, 1, 8), torch.randn(1, 1, 2).tanh(), torch.randn(1, 1, 16)) for _ in range(4)]
    config = quantizer.quantization_config("int8", "int8", per_channel=per_channel)
    program = quantizer.quantize(model, samples[0], config, samples)
    file = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    for found, exact in zip(et.load(file.buffer)(*samples[1]), program.module()(*samples[1]), strict=True):
        assert decibels(found, exact) >= 40


def test_a_first_state_from_a_layer_is_no_projection() -> None:
    """The steps behind it are one operator, as those behind any other state."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bridge, self.layers = nn.Linear(8, 16), nn.LSTM(8, 16)

        def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            state = self.bridge(z)
            return self.layers(x, (state, state))[0]

    torch.manual_seed(0)
    program = quantizer.quantize(Decoder().eval(), (torch.randn(3, 1, 8), torch.randn(1, 1, 8)), "dynamic_int8")
    file = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    assert count_of(file.dump().split("method @forward")[1], "dynamic_int8") == 1
