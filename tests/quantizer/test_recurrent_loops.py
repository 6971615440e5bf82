"""Recurrent layers are loops on every way to integers: training, PT2E, layer choices, torch's own integers."""

import copy
import re

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.calibration.observer_calls import is_weight, observers_of
from executorch_py.quantizer.flow import pt2e_flow
from executorch_py.quantizer.rules.loops import bodies_of, scan, turns
from torch import nn
from torch._higher_order_ops.scan import scan as scan_of_torch
from torch.export import Dim
from torchao.quantization.pt2e import quantize_pt2e

import executorch_py as et
from executorch_py import quantizer

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
STEPS = 5
X = (torch.randn(STEPS, 2, 8, generator=torch.Generator().manual_seed(0)),)
DATA = [(torch.randn(STEPS, 2, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(1, 4)]
KINDS = [nn.LSTM, nn.GRU, nn.RNN]
FLOWS = {"ours": pt2e_flow, "torchao": quantize_pt2e}


class Tagger(nn.Module):
    """Two recurrent layers, of which the second reads the first, and a head."""

    def __init__(self, kind: type[nn.RNNBase], dropout: float = 0.0) -> None:
        super().__init__()
        self.cells = kind(8, 16, num_layers=2, dropout=dropout)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0])


class Scanned(nn.Module):
    """A loop of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.tanh(self.own(h) + x)
            return h, h.clone()

        return scan_of_torch(step, x.new_zeros(x.shape[1], 8), x)[1]


def loops_of(module: torch.fx.GraphModule, runner: object) -> int:
    """How many loops a module has, all of which are run in one way."""
    loops = [node for node, _ in bodies_of(module)]
    assert all(node.target is runner for node in loops)
    return len(loops)


def operators_of(program: torch.export.ExportedProgram) -> tuple[bytes, list[str]]:
    """A file without a delegate, and what is ours in it, in order."""
    file = et.to_edge(program).to_executorch()
    return file.buffer, re.findall(r"= et::(\w+)\.", file.dump().split("method @forward")[1])


def trained(prepared: torch.fx.GraphModule, steps: int = 3) -> list[float]:
    """Losses of a few steps towards zero."""
    optimizer, losses = torch.optim.SGD(prepared.parameters(), 0.05), []
    for step in range(steps):
        loss = prepared(*DATA[step % len(DATA)]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize("training", [False, True], ids=["calibrated", "trained"])
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_both_pt2e_flows(kind: type[nn.RNNBase], flow: str, training: bool) -> None:
    """A name that stands in the outermost graph only is no finding in a body."""
    torch.manual_seed(0)
    model, api = Tagger(kind).train(training), FLOWS[flow]
    config = quantizer.quantization_config(qat=training)
    chosen = quantizer.XNNPACKQuantizer().set_global(config).set_module_name("head", None)
    exported = torch.export.export(model, X).module()
    prepared = (api.prepare_qat_pt2e if training else api.prepare_pt2e)(exported, chosen)
    assert loops_of(prepared, turns) == 2
    if training:
        trained(prepared.train())
        prepared.eval()
    with torch.no_grad():
        expected = [prepared(*x) for x in DATA]
    converted = api.convert_pt2e(prepared)
    assert loops_of(converted, scan) == 2
    buffer, found = operators_of(torch.export.export(converted, X))
    step = "quantized_linear" if kind is nn.RNN else f"quantized_{kind.__name__.lower()}"
    assert found.count(step) == (4 if kind is nn.RNN else 2)
    method = et.load(buffer)
    for x, prepared_result in zip(DATA, expected, strict=True):
        with torch.no_grad():
            result = converted(*x)
        torch.testing.assert_close(result, prepared_result, rtol=0, atol=1e-6 if training else 0.05)
        torch.testing.assert_close(method(*x), result, rtol=0, atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_training(kind: type[nn.RNNBase]) -> None:
    """Parameters keep their names and get gradients; what is evaluated is what is converted."""
    torch.manual_seed(0)
    model = Tagger(kind)
    prepared = quantizer.prepare_qat(model, X)
    assert loops_of(prepared, turns) == 2
    assert {name for name, _ in prepared.named_parameters()} == {name for name, _ in model.named_parameters()}
    losses = trained(prepared.train(), 12)
    assert losses[-3] < losses[0]
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in prepared.parameters())
    prepared.eval()
    expected = prepared(*X)
    assert torch.equal(prepared(*X), expected) and torch.equal(copy.deepcopy(prepared)(*X), expected)
    again = quantizer.prepare_qat(Tagger(kind), X)
    trained(again.train(), 1)
    again.load_state_dict(prepared.state_dict())
    assert torch.equal(again.eval()(*X), expected)
    program = quantizer.convert(prepared)
    torch.testing.assert_close(program.module()(*X), expected, rtol=0, atol=1e-6)
    buffer, found = operators_of(program)
    assert kind is nn.RNN or found.count(f"quantized_{kind.__name__.lower()}") == 2
    torch.testing.assert_close(et.load(buffer)(*X), expected, rtol=0, atol=1e-2)


def test_gradients_are_those_of_the_layer() -> None:
    """With fake quantization off."""
    torch.manual_seed(0)
    model = Tagger(nn.LSTM).train()
    prepared = quantizer.prepare_qat(copy.deepcopy(model), X).train()
    for _, module in observers_of(prepared):
        module.disable_fake_quant()
    for one in (model, prepared):
        one(*X).square().sum().backward()
    expected = {name: one.grad for name, one in model.named_parameters()}
    for name, one in prepared.named_parameters():
        torch.testing.assert_close(one.grad, expected[name], rtol=1e-4, atol=1e-6)


def test_weights_are_rounded_once_a_call() -> None:
    """And activations in each turn."""
    prepared = quantizer.prepare_qat(Tagger(nn.GRU), X).train()
    calls: dict[bool, list[int]] = {True: [], False: []}
    for _, body in bodies_of(prepared):
        for node, module in observers_of(body):
            module.register_forward_hook(lambda *_, found=calls[is_weight(node)]: found.append(1))  # noqa: B008
    prepared(*X)
    assert len(calls[True]) == 2 and len(calls[False]) >= 2 * STEPS


def test_dropout_between_layers_is_for_training() -> None:
    torch.manual_seed(0)
    prepared = quantizer.prepare_qat(Tagger(nn.LSTM, dropout=0.5), X)
    prepared.train()
    assert not torch.equal(prepared(*X), prepared(*X))
    prepared.eval()
    assert torch.equal(prepared(*X), prepared(*X))
    program = quantizer.convert(prepared)
    assert torch.equal(program.module()(*X), program.module()(*X))


@pytest.mark.parametrize("flow", FLOWS)
def test_loops_of_ones_own_can_be_exported_again(flow: str) -> None:
    torch.manual_seed(0)
    api, model = FLOWS[flow], Scanned().eval()
    prepared = api.prepare_pt2e(
        torch.export.export(model, X).module(), quantizer.XNNPACKQuantizer().set_global("static_int8")
    )
    for x in DATA:
        prepared(*x)
    program = torch.export.export(api.convert_pt2e(prepared), X)
    assert [str(one.dtype) for name, one in program.state_dict.items() if "_frozen" in name] == ["torch.int8"]
    buffer, found = operators_of(program)
    assert "quantized_linear" in found
    torch.testing.assert_close(et.load(buffer)(*X), model(*X), rtol=0, atol=0.1)


def test_state_that_a_model_writes_is_no_constant_of_a_body() -> None:
    """A body that reads a buffer reads what the last call has left in it."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Linear(8, 8)
            self.register_buffer("offset", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                h = torch.tanh(self.own(h) + x) + self.offset
                return h, h.clone()

            states = scan_of_torch(step, x.new_zeros(x.shape[1], 8), x)[1]
            self.offset.add_(1.0)
            return states

    torch.manual_seed(0)
    exported = torch.export.export(Counting().eval(), X)
    program = quantizer.quantize(exported, (), "dynamic_int8")
    method = et.load(et.to_edge(program).to_executorch().buffer)
    first, second = (method(*X).mean() for _ in range(2))
    assert second - first > 0.5


@pytest.mark.parametrize(
    ("kind", "preset"), [(nn.LSTM, "static_int8"), (nn.GRU, "dynamic_int8"), (nn.RNN, "int4_weight_only")]
)
def test_candidates_edit_bodies(kind: type[nn.RNNBase], preset: str) -> None:
    torch.manual_seed(0)
    model = Tagger(kind).eval()
    candidates = quantizer.Candidates.of(model, X, preset, DATA if preset == "static_int8" else None)
    assert candidates.names == ["cells", "head"]
    floats = torch.export.export(model, X)
    assert sum(layer.macs for layer in candidates.layers) == candidates.total_macs == et.count_macs(floats, X).total
    with torch.no_grad():
        whole = quantizer.quantize(model, X, preset, DATA if preset == "static_int8" else None)
        assert torch.equal(candidates.module()(*X), whole.module()(*X))
        torch.testing.assert_close(candidates.module(candidates.names)(*X), model(*X), rtol=1e-5, atol=1e-6)
        for layers in (["cells"], ["head"]):
            for instead in ("float32", "dynamic_int8", "int8_weight_only", "float16"):
                module = candidates.module(layers, instead)
                assert loops_of(module, scan) == 2
                assert torch.equal(candidates.runnable(layers, instead)(*X), module(*X))
                program = candidates.program(layers, instead)
                assert torch.equal(program.module()(*X), module(*X))
                buffer, found = operators_of(program)
                torch.testing.assert_close(et.load(buffer)(*X), module(*X), rtol=0, atol=1e-2)
                whole_layers = [name for name in found if name.endswith(("_lstm", "_gru"))]
                if "cells" not in layers and kind is not nn.RNN:
                    assert len(whole_layers) == 2
        changed = candidates.module(["cells"])(*X)
        assert not torch.equal(changed, candidates.module()(*X))  # variants share no graph
    assert candidates.report(DATA).unmatched == ()


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision(kind: type[nn.RNNBase]) -> None:
    """Weights of a body are stored in 16 bits, and its products are computed in them."""
    torch.manual_seed(0)
    model = Tagger(kind).eval()
    program = quantizer.quantize(model, X, "fp16")
    file = et.to_edge(program).to_executorch()
    text = file.dump()
    assert not re.search(r"constant @\S* : f32\[(?!2,)\d+, \d+\]", text)  # but for first states of two sequences
    assert text.count("aten::linear.out") == 5 and ": f16[2, " in text
    torch.testing.assert_close(et.load(file.buffer)(*X), program.module()(*X), rtol=0, atol=2e-3)


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_layers_that_torch_quantized(kind: type[nn.RNNBase], delegated: bool) -> None:
    """One operator a direction, whose first state is like the others; unrolled where a delegate takes steps."""
    torch.manual_seed(0)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = kind(8, 6, 2, bidirectional=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.cells(x)[0]

    model = torch.ao.quantization.quantize_dynamic(Encoder().eval(), {kind})
    module = quantizer.from_torch_quantized(model)
    torch.testing.assert_close(module(*X), model(*X), rtol=0, atol=1e-5)
    steps = None if delegated else ({0: Dim("steps", min=1, max=20)},)
    program = torch.export.export(module, X, dynamic_shapes=steps)
    assert loops_of(program.graph_module, scan) == 4
    if not delegated:
        assert operators_of(program)[1].count(f"dynamic_{kind.__name__.lower()}") == 4
    partitioner = [XnnpackPartitioner(largest=True, always=True)] if delegated else []
    file = et.to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch()
    method = et.load(file.buffer)
    for x in (X[0],) if delegated else (X[0], X[0][:1], torch.randn(20, 2, 8)):
        torch.testing.assert_close(method(x), model(x), rtol=0, atol=0.02)
