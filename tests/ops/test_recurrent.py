"""LSTM, GRU and plain recurrent layers that stay whole: configurations, dtypes, dynamic sizes, state in buffers, packed
batches, and what is left of them where they are decomposed."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import executorch_py as et

from .kernel_runner import KernelError, run_kernel

aten = torch.ops.aten
# Largest |ours - exact|: states are within [-1, 1]; a few roundings of the type, as products are summed in float32.
LIMITS = {torch.float32: 3e-6, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}
pytestmark = pytest.mark.filterwarnings("ignore")  # torch.export of recurrent layers, dropout of a single layer
KINDS = (nn.LSTM, nn.GRU, nn.RNN)


class Layer(nn.Module):
    """A recurrent layer with or without given states."""

    def __init__(self, kind: type[nn.RNNBase], *args: int, **options: object) -> None:
        super().__init__()
        self.layer = kind(*args, **options)

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> object:
        return self.layer(x, None if not states else states if len(states) == 2 else states[0])


def load(exported: torch.export.ExportedProgram, **config: object) -> et.Method:
    program = et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(**config))
    return et.Runtime.get().load_program(program.buffer).load_method("forward")


def close(method: et.Method, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    dtype = inputs[0].dtype
    exact = pytree.tree_leaves(model.double()(*(value.double() for value in inputs)))
    model.to(dtype)
    actual = method.execute(inputs)
    assert len(actual) == len(exact)
    for ours, wanted in zip(actual, exact, strict=True):
        assert ours.dtype == dtype and ours.shape == wanted.shape
        assert (ours.double() - wanted).abs().max() <= LIMITS[dtype]


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_layers(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    draw = random.Random(seed)
    kind = KINDS[seed % 3]
    hidden = draw.choice((1, 5, 16, 33))
    options = {
        "num_layers": draw.choice((1, 2, 3)),
        "bidirectional": draw.random() < 0.5,
        "batch_first": draw.random() < 0.5,
        "bias": draw.random() < 0.7,
        "dropout": draw.choice((0.0, 0.3)),
    }
    if kind is nn.LSTM and hidden > 1 and draw.random() < 0.5:
        options["proj_size"] = draw.randrange(1, hidden)
    if kind is nn.RNN:
        options["nonlinearity"] = draw.choice(("tanh", "relu"))
    features, batch, steps = draw.choice((1, 6, 40)), draw.choice((1, 2, 7)), draw.choice((1, 2, 13))
    model = Layer(kind, features, hidden, **options).eval().to(dtype)
    shape = (batch, steps, features) if options["batch_first"] else (steps, batch, features)
    inputs: tuple[torch.Tensor, ...] = (torch.randn(shape if draw.random() < 0.8 else shape[1:], dtype=dtype),)
    if inputs[0].dim() == 3 and draw.random() < 0.6:
        cells = options["num_layers"] * (2 if options["bidirectional"] else 1)
        inputs += (torch.rand(cells, batch, options.get("proj_size", hidden), dtype=dtype) - 0.5,)
        if kind is nn.LSTM:
            inputs += (torch.rand(cells, batch, hidden, dtype=dtype) - 0.5,)
    method = load(torch.export.export(model, inputs))
    close(method, model, inputs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [True, False])
def test_steps_and_batch_are_dynamic(kind: type[nn.RNNBase], batch_first: bool) -> None:
    torch.manual_seed(0)
    model = Layer(kind, 6, 20, num_layers=2, bidirectional=True, batch_first=batch_first).eval()
    steps, batch = Dim("steps", min=1, max=150), Dim("batch", min=1, max=60)
    sizes = {0: batch, 1: steps} if batch_first else {0: steps, 1: batch}
    with et.dynamic_sequences():
        exported = torch.export.export(model, (torch.randn(3, 4, 6),), dynamic_shapes=(sizes,))
    method = load(exported)
    for first, second in ((3, 4), (1, 1), (60, 60), (2, 17)):
        close(method, model, (torch.randn(first, second, 6),))
    close(method, model, (torch.randn((1, 150, 6) if batch_first else (150, 1, 6)),))


def test_dynamic_sequences_is_over_afterwards() -> None:
    model = Layer(nn.GRU, 3, 4, batch_first=True).eval()
    inputs, sizes = (torch.randn(2, 5, 3),), ({1: Dim("steps", min=1, max=9)},)
    with et.dynamic_sequences():
        assert torch.equal(model(*inputs)[0], model(*inputs)[0])
        torch.export.export(model, inputs, dynamic_shapes=sizes)
    with pytest.raises(Exception, match="steps"):
        torch.export.export(model, inputs, dynamic_shapes=sizes)


class Streaming(nn.Module):
    """An LSTM that goes on where the last call ended."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 6, num_layers=2, batch_first=True)
        self.register_buffer("state", torch.zeros(2, 1, 6))
        self.register_buffer("cell", torch.zeros(2, 1, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (state, cell) = self.layer(x, (self.state, self.cell))
        self.state.copy_(state)
        self.cell.copy_(cell)
        return out.relu() + state[-1]


def test_state_in_buffers() -> None:
    torch.manual_seed(0)
    model = Streaming().eval()
    with et.dynamic_sequences(), torch.no_grad():
        exported = torch.export.export(
            model, (torch.randn(1, 3, 4),), dynamic_shapes=({1: Dim("steps", min=1, max=9)},)
        )
        edge = et.to_edge(exported)
        assert aten.lstm.input in {node.target for node in edge.exported_program().graph.nodes}
        method = et.Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
        for steps in (3, 1, 9, 4):
            x = torch.randn(1, steps, 4)
            torch.testing.assert_close(method.execute([x])[0], model(x), rtol=1e-5, atol=1e-6)


def test_computed_weights() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(5, 7)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            weights = [weight * scale for weight in self.layer._flat_weights]
            return torch._VF.gru(x, x.new_zeros(1, x.shape[1], 7), weights, True, 1, 0.0, False, False, False)[0]

    torch.manual_seed(0)
    model = Scaled().eval()
    inputs = (torch.randn(4, 2, 5), torch.tensor(0.7))
    close(load(torch.export.export(model, inputs)), model, inputs)


RECURRENT = {getattr(getattr(aten, name), form) for name in ("lstm", "gru", "rnn_tanh") for form in ("input", "data")}


@pytest.mark.parametrize("kind", KINDS)
def test_decomposed_on_request(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    model = Layer(kind, 6, 8, num_layers=2, bidirectional=True).eval()
    inputs = (torch.randn(4, 3, 6),)
    exported = torch.export.export(model, inputs)
    whole = et.to_edge(exported)
    assert RECURRENT & {node.target for node in whole.exported_program().graph.nodes}
    parts = et.to_edge(exported, compile_config=et.EdgeCompileConfig(decompose_ops=tuple(RECURRENT)))
    targets = {node.target for node in parts.exported_program().graph.nodes}
    assert not RECURRENT & targets and aten.linear.default in targets
    for edge, compatible in ((parts, False), (whole, True)):
        program = edge.to_executorch(et.ExecutorchBackendConfig(compatible=compatible))
        assert "et::" not in program.dump() or not compatible
        close(et.Runtime.get().load_program(program.buffer).load_method("forward"), model, inputs)


def test_unknown_steps_cannot_be_unrolled() -> None:
    model = Layer(nn.LSTM, 3, 4).eval()
    with et.dynamic_sequences():
        exported = torch.export.export(
            model, (torch.randn(5, 2, 3),), dynamic_shapes=({0: Dim("steps", min=1, max=9)},)
        )
    with pytest.raises(et.NotSupportedError, match=r"aten.lstm.input at .*only a run knows the number of steps"):
        et.to_edge(exported, compile_config=et.EdgeCompileConfig(decompose_ops=(aten.lstm.input,)))
    with pytest.raises(et.NotSupportedError, match="only a run knows the number of steps"):
        et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(compatible=True))


def test_dropout_in_training_is_not_kept_whole() -> None:
    model = Layer(nn.LSTM, 3, 4, num_layers=2, dropout=0.5).train()
    edge = et.to_edge(torch.export.export(model, (torch.randn(5, 2, 3),)))
    assert aten.lstm.input not in {node.target for node in edge.exported_program().graph.nodes}


# --------------------------------------------------------------------------------------------- kernels, called directly


def packed_call(kind: type[nn.RNNBase], dtype: torch.dtype, lengths: list[int], **options: object) -> tuple:
    """Operator, arguments and expected outputs of a layer over sequences of these lengths."""
    torch.manual_seed(0)
    layer = kind(5, 9, num_layers=2, **options).to(torch.float64)
    sequences = [torch.randn(length, 5, dtype=torch.float64) for length in lengths]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    cells = 4 if options.get("bidirectional") else 2
    state = torch.rand(cells, len(lengths), options.get("proj_size") or 9, dtype=torch.float64) - 0.5
    cell = torch.rand(cells, len(lengths), 9, dtype=torch.float64) - 0.5
    hx = [state, cell] if kind is nn.LSTM else state
    name = {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "rnn_tanh"}[kind]
    weights = list(layer._flat_weights)
    rest = [options.get("bias", True), 2, 0.0, False, bool(options.get("bidirectional"))]
    with torch.no_grad():
        expected = getattr(torch._VF, name)(packed.data, packed.batch_sizes, hx, weights, *rest)
    to = lambda value: pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to(dtype), value)  # noqa: E731
    return f"et::{name}.data_out", [to(packed.data), packed.batch_sizes, to(hx), to(weights), *rest], to(expected)


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_batches(kind: type[nn.RNNBase], bidirectional: bool, dtype: torch.dtype) -> None:
    for lengths in ([4, 1, 7, 7, 2], [3], [2, 2]):
        name, arguments, expected = packed_call(kind, dtype, lengths, bidirectional=bidirectional)
        outs = [torch.empty_like(value) for value in expected]
        run_kernel(name, [*arguments, *outs])
        for ours, wanted in zip(outs, expected, strict=True):
            assert (ours.double() - wanted.double()).abs().max() <= 2 * LIMITS[dtype]


def test_packed_batches_with_projections() -> None:
    name, arguments, expected = packed_call(nn.LSTM, torch.float32, [4, 1, 7], proj_size=3, bias=False)
    outs = [torch.empty_like(value) for value in expected]
    run_kernel(name, [*arguments, *outs])
    for ours, wanted in zip(outs, expected, strict=True):
        assert (ours - wanted).abs().max() <= LIMITS[torch.float32]


BROKEN = {
    "grows": (1, torch.tensor([2, 3]), "batch_sizes"),
    "zero": (1, torch.tensor([3, 2, 0]), "batch_sizes"),
    "negative": (1, torch.tensor([3, -2, 4]), "batch_sizes"),
    "too few rows": (1, torch.tensor([2, 2]), "batch_sizes add up to 4, but the input has 5"),
    "empty": (1, torch.empty(0, dtype=torch.int64), "batch_sizes is empty"),
    "i32": (1, torch.tensor([3, 2], dtype=torch.int32), "must be torch.int64"),
    "input": (0, torch.randn(5, 6), r"params\[0\] has shape \(27, 5\), must have \(27, 6\)"),
    "dtype": (0, torch.randn(5, 5, dtype=torch.float64), "params|hx"),
    "state": (2, torch.randn(2, 3, 8), r"must have"),
    "layers": (5, 3, "parameters for 3 layers"),
    "no layers": (5, 0, "parameters for 0 layers"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_refused(name: str) -> None:
    op, arguments, expected = packed_call(nn.GRU, torch.float32, [2, 2, 1])
    outs = [torch.empty_like(value) for value in expected]
    run_kernel(op, [*arguments, *outs])
    position, value, message = BROKEN[name]
    arguments[position] = value
    with pytest.raises(KernelError, match=message):
        run_kernel(op, [*arguments, *outs])


def test_training_with_dropout_is_refused() -> None:
    op, arguments, expected = packed_call(nn.GRU, torch.float32, [2, 2, 1])
    arguments[6:8] = [0.5, True]
    with pytest.raises(KernelError, match=r"dropout is 0.5 in training"):
        run_kernel(op, [*arguments, *(torch.empty_like(value) for value in expected)])


class Cells(nn.Module):
    """A cell called by hand, step by step."""

    def __init__(self, kind: type[nn.RNNCellBase], **options: object) -> None:
        super().__init__()
        self.cell = kind(5, 7, **options)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        is_lstm = isinstance(self.cell, nn.LSTMCell)
        given = (state, state * 2) if is_lstm else state
        for item in x:
            given = self.cell(item, given)
        return given if is_lstm else (given,)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells_are_layers_of_one_step(kind: type[nn.RNNCellBase], bias: bool) -> None:
    torch.manual_seed(0)
    model = Cells(kind, bias=bias).eval()
    batch = Dim("batch", min=1, max=9)
    exported = torch.export.export(
        model, (torch.randn(4, 3, 5), torch.randn(3, 7)), dynamic_shapes=({1: batch}, {0: batch})
    )
    edge = et.to_edge(exported)
    assert sum(node.target in RECURRENT for node in edge.exported_program().graph.nodes) == 4
    method, parts = load(exported), load(exported, compatible=True)
    for size in (1, 3, 9):
        inputs = (torch.randn(4, size, 5), torch.randn(size, 7))
        close(method, model, inputs)
        close(parts, model, inputs)
    inputs = (torch.randn(4, 3, 5, dtype=torch.bfloat16), torch.randn(3, 7, dtype=torch.bfloat16))
    close(load(torch.export.export(model.to(torch.bfloat16), inputs)), model, inputs)


def test_a_cell_without_a_batch() -> None:
    model = Cells(nn.GRUCell).eval()
    inputs = (torch.randn(4, 5), torch.randn(7))
    close(load(torch.export.export(model, inputs)), model, inputs)


class SpelledOut(nn.Module):
    """A cell of one's own: products and gates."""

    gates = 4

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(5, self.gates * hidden)
        self.of_state = nn.Linear(hidden, self.gates * hidden)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for item in x:
            i, f, g, o = (self.of_input(item) + self.of_state(h)).chunk(4, -1)
            c = c * f.sigmoid() + g.tanh() * i.sigmoid()
            h = o.sigmoid() * c.tanh()
        return h, c


class GruSpelledOut(SpelledOut):
    """The new state as torch computes it."""

    gates = 3

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for item in x:
            given, own = self.of_input(item).chunk(3, -1), self.of_state(h).chunk(3, -1)
            r, z = ((a + b).sigmoid() for a, b in zip(given[:2], own[:2], strict=True))
            h = self.new_state(z, (given[2] + r * own[2]).tanh(), h)
        return h, c + h

    def new_state(self, z: torch.Tensor, n: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return n + z * (h - n)


class GruOfThePaper(GruSpelledOut):
    """The new state as the documentation of torch.nn.GRU has it."""

    def new_state(self, z: torch.Tensor, n: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return (1 - z) * n + z * h


CELLS = {SpelledOut: "lstm", GruSpelledOut: "gru", GruOfThePaper: "gru"}


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("hidden", [1, 16, 37])
def test_gates_that_are_spelled_out_are_one_operator(hidden: int, kind: type[SpelledOut]) -> None:
    torch.manual_seed(0)
    model = kind(hidden).eval()
    inputs = (torch.randn(3, 2, 5), torch.randn(2, hidden), torch.randn(2, hidden))
    batch = Dim("batch", min=1, max=9)
    exported = torch.export.export(model, inputs, dynamic_shapes=({1: batch}, {0: batch}, {0: batch}))
    manager = et.to_edge(exported).to_executorch()
    text = manager.dump()
    assert text.count(f"et::{CELLS[kind]}_gates.out") == 3
    assert "aten::sigmoid" not in text
    method = et.Runtime.get().load_program(manager.buffer).load_method("forward")
    for size in (9, 1, 4):
        close(method, model, (torch.randn(3, size, 5), torch.randn(size, hidden), torch.randn(size, hidden)))


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("dtype", [dtype for dtype in LIMITS if dtype != torch.float32], ids=str)
def test_gates_of_other_floats_stay_spelled_out(dtype: torch.dtype, kind: type[SpelledOut]) -> None:
    torch.manual_seed(0)
    model = kind(16).eval().to(dtype)
    inputs = tuple(torch.randn(shape, dtype=dtype) for shape in ((3, 2, 5), (2, 16), (2, 16)))
    manager = et.to_edge(torch.export.export(model, inputs)).to_executorch()
    assert "_gates.out" not in manager.dump()
    ours = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(inputs)
    with torch.no_grad():
        for one, other in zip(ours, model(*inputs), strict=True):
            torch.testing.assert_close(one, other)


class Watched(GruSpelledOut):
    """A gate that is a result, too."""

    def new_state(self, z: torch.Tensor, n: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return super().new_state(z, n, h) + z


class OtherGates(GruSpelledOut):
    """A row of gates for all rows of the state."""

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return super().forward(x[:, :1], h, c)


@pytest.mark.parametrize("kind", [Watched, OtherGates])
def test_gates_that_are_no_cells_stay(kind: type[SpelledOut]) -> None:
    torch.manual_seed(0)
    model = kind(16).eval()
    inputs = (torch.randn(3, 2, 5), torch.randn(2, 16), torch.randn(2, 16))
    manager = et.to_edge(torch.export.export(model, inputs)).to_executorch()
    assert "_gates.out" not in manager.dump()
    close(et.Runtime.get().load_program(manager.buffer).load_method("forward"), model, inputs)
