"""Integers between the parts of a delegate and operators that it has not, and between layers that it leaves."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer

GENERATOR = torch.Generator().manual_seed(12)


def rand(*sizes):
    return torch.randn(*sizes, generator=GENERATOR)


class Attention(nn.Module):
    """Queries, keys and values from one product, handed out by unbind."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(2, 7, 3, 4, 6).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(2, 7, 24))


class Upsampled(nn.Module):
    """Nearest upsampling, which the delegate has not, on one of two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        a = F.relu(self.a(x))
        return self.b(torch.cat([a, F.interpolate(F.max_pool2d(a, 8), scale_factor=8)], 1))  # the delegate goes up to 5


@pytest.mark.parametrize(
    ("model", "data", "operator"),
    [(Attention(), [rand(2, 7, 24) for _ in range(4)], "unbind_copy"),
     (Upsampled(), [rand(1, 3, 8, 8) for _ in range(4)], "upsample_nearest2d")],
    ids=["attention", "upsampled"],
)  # fmt: skip
def test_operators_between_delegates_work_on_integers(model, data, operator):
    program = quantizer.quantize(model.eval(), (data[0],), "static_int8", data)
    manager = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    body = manager.dump().split("method @forward")[1].splitlines()
    (line,) = [line for line in body if f"= aten::{operator}" in line]
    assert ": i8[" in line, line
    assert not any("quantized_decomposed::quantize" in line for line in body), body
    with torch.no_grad():
        torch.testing.assert_close(et.load(manager.buffer)(data[0]), program.module()(data[0]), atol=0.02, rtol=0)


class TwoReaders(nn.Module):
    """Two layers take the same integers."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(32, 16, bias=False), nn.Linear(32, 16, bias=False)

    def forward(self, x):
        x = torch.relu(x) + 0.1
        return self.left(x), self.right(x)


@pytest.mark.parametrize("int4", ["left", "right"])
def test_integers_reach_a_layer_whose_neighbour_is_not_delegated(int4):
    """The dequantize went to the part before the layer, which had nothing else to do, and the layer became one of
    floats.
    """
    torch.manual_seed(0)
    model, data = TwoReaders().eval(), [(torch.randn(1, 9, 32),) for _ in range(3)]
    choice = quantizer.XNNPACKQuantizer().set_global("static_int8")
    choice.set_module_name(int4, quantizer.quantization_config(weights="int4"))
    program = quantizer.quantize(model, data[0], choice, data)
    manager = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    text = manager.dump().split("method @forward")[1]
    assert "delegate @0" in text and text.count("et::quantized_linear") == 1
    for line in text.splitlines():
        if "quantized_decomposed::dequantize" in line:  # at the output only
            assert line.split("=")[0].strip() in text.rsplit("return", 1)[1]
    actual = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(data[0])
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(actual, program.module()(*data[0]), strict=True))


def test_weights_with_one_scale_and_a_zero_point_beside_others():
    """A quantizer of the user's own: the file was refused when it was loaded, with a bias when it was made."""
    from torchao.quantization.pt2e import MinMaxObserver

    class Affine(quantizer.Quantizer):
        def annotate(self, model):
            whole = MinMaxObserver.with_args(eps=2**-16)
            spec = quantizer.QuantizationSpec(torch.int8, whole, -128, 127, torch.per_tensor_affine)
            for node in model.graph.nodes:
                if node.target is torch.ops.aten.linear.default:
                    node.meta["quantization_annotation"] = quantizer.QuantizationAnnotation(
                        dict.fromkeys(node.args[:2], spec), spec, _annotated=True
                    )
            return model

        def validate(self, model):
            pass

    torch.manual_seed(0)
    model, data = TwoReaders().eval(), [(torch.randn(1, 9, 32),) for _ in range(3)]
    model.left.weight.data[0, 0] = 0.3  # its zero point is not 0, which the library has not
    model.right.weight.data.clamp_(-0.17, 0.169)
    program = quantizer.quantize(model, data[0], Affine(), data)
    manager = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    assert "delegate @0" in manager.dump()
    actual = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(data[0])
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(actual, program.module()(*data[0]), strict=True))
