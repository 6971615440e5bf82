"""Products inside of cells, attention and bodies of loops, which a quantizer finds by name or takes apart."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer

GENERATOR = torch.Generator().manual_seed(12)


def rand(*sizes):
    return torch.randn(*sizes, generator=GENERATOR)


class Attention(nn.Module):
    """A query, a key and a value, each of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))

    def forward(self, x):
        return F.scaled_dot_product_attention(*(layer(x) for layer in self.layers))


class Cells(nn.Module):
    """Recurrent cells, a step by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(6, 9), nn.GRUCell(9, 4), nn.RNNCell(4, 5)

    def forward(self, x, h, c):
        h, c = self.lstm(x, (h, c))
        return self.rnn(self.gru(h)), h, c


@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int4_weight_only"])
def test_recurrent_cells(preset):
    torch.manual_seed(1)
    model, data = Cells().eval(), [(rand(2, 6), rand(2, 9), rand(2, 9)) for _ in range(4)]
    program = quantizer.quantize(model, data[0], preset, data if preset == "static_int8" else None)
    assert sum("aten.linear" in str(node.target) for node in program.graph.nodes) == 6
    manager = et.to_edge_transform_and_lower(program).to_executorch()
    for ours, exact in zip(et.load(manager.buffer)(*data[0]), model(*data[0]), strict=True):
        assert (ours - exact).abs().max() < (0.2 if "int4" in preset else 0.03)


def test_attentions_products_named_alone():
    """``matmul`` stands inside of attention; naming it was without effect, and in silence."""
    config = quantizer.quantization_config()
    choice = quantizer.XNNPACKQuantizer().set_global(config).set_operator_type(torch.ops.aten.matmul.default, config)
    data = [rand(2, 7, 24) for _ in range(4)]
    program = quantizer.quantize(Attention().eval(), (data[0],), choice, data)
    products = [node for node in program.graph.nodes if "aten.matmul" in str(node.target)]
    assert len(products) == 2
    for node in products:
        assert all("dequantize" in str(argument.target) for argument in node.args), node


class Body(nn.Module):
    """A product in the body of a loop, with its weight from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.weight, self.out = nn.Parameter(rand(2, 8)), nn.Parameter(rand(8, 8) / 3), nn.Linear(8, 4)

    def forward(self, x):
        def step(state, row):
            state = torch.tanh(row + state @ self.weight)
            return state, state.clone()

        return self.out(scan(step, self.state, x)[1])


def test_products_in_bodies_are_quantized_where_they_are_named():
    model, x = Body().eval(), rand(5, 2, 8)
    choice = quantizer.XNNPACKQuantizer().set_global("static_int8")
    choice.set_operator_type(torch.ops.aten.matmul.default, "static_int8")
    program = quantizer.quantize(model, (x,), choice, [(x,)])
    body = program.graph_module.scan_combine_graph_0.graph
    assert sum("dequantize" in str(node.target) for node in body.nodes) == 5  # two for the product, three for the sum
    buffer = et.to_edge_transform_and_lower(program).to_executorch().buffer
    (got,) = et.Runtime.get().load_program(buffer).load_method("forward").execute((x,))
    torch.testing.assert_close(got, program.module()(x), atol=0.02, rtol=0)
