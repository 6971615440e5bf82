"""Operators that the delegate has not, between integers; cells and attention; buffers that a model writes."""

import copy

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.calibration.checks import QuantizationWarning
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F

import executorch_py as et
from executorch_py import pruning, quantizer
from executorch_py.errors import InvalidArgumentError, InvalidStateError, NotSupportedError

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


class Counting(nn.Module):
    """A buffer that each call writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.calls += 1
        return self.linear(x) + self.calls


def test_calibration_leaves_the_models_state():
    model, data = Counting().eval(), [rand(2, 4) for _ in range(5)]
    program = quantizer.quantize(model, (data[0],), "static_int8", data)
    assert model.calls == 0
    assert program.state_dict["calls"] == 0
    run = et.load(et.to_edge_transform_and_lower(program).to_executorch().buffer)
    first, second = run(data[0]).clone(), run(data[0])
    torch.testing.assert_close(second, first + 1)


class Remembering(nn.Module):
    """A recurrent state and a counter that the model writes and returns, and an input that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 4))
        self.register_buffer("calls", torch.tensor(0))
        self.linear = nn.Linear(4, 4)

    def forward(self, x, seen):
        self.state.copy_(torch.tanh(self.linear(x + self.state)))
        self.calls += 1
        return self.state, self.calls, seen.add_(1)


@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "fp16"])
def test_state_that_is_returned(preset):
    model, data = Remembering().eval(), [(rand(2, 4), torch.zeros(1)) for _ in range(5)]
    program = quantizer.quantize(model, data[0], preset, data)
    run, converted = et.load(et.to_edge_transform_and_lower(program).to_executorch().buffer), program.module()
    for call, (x, seen) in enumerate(data):
        state, calls, changed = run(x, seen)
        torch.testing.assert_close(state, converted(x, torch.zeros(1))[0], atol=0.02, rtol=0)
        assert calls == call + 1 and seen == 1 and changed == 1


class Adapting(nn.Module):
    """A mean that moves with each call, and an input that is counted up."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x, seen):
        self.mean.mul_(0.5).add_(x.mean(0))
        return self.linear(x) + self.mean, seen.add_(1)


def test_measuring_leaves_state_and_data():
    """The float model, its quantized forms and the user's own module share their buffers; none may see another's
    calls.
    """
    model, data = Adapting().eval(), [(rand(2, 4), torch.zeros(1)) for _ in range(6)]

    def size(run):
        return float(run(data[0][0], torch.zeros(1))[0].abs().mean())

    program = quantizer.quantize(model, data[0], "static_int8", data)
    lowered = et.to_edge(program).to_executorch()
    report = et.quantization_report(model, program, data, program=lowered, metric=size)
    of = {row.of: row for row in report.outputs if row.output == "[0]"}
    assert of["runtime to converted"].difference.sqnr_db > 40
    assert of["runtime"].difference.sqnr_db == pytest.approx(of["converted"].difference.sqnr_db, abs=1)
    float_size, converted_size, runtime_size = (row.value for row in report.metrics)
    assert float_size == size(Adapting.forward.__get__(copy.deepcopy(model)))
    assert runtime_size == pytest.approx(converted_size, abs=0.02)
    sweep = quantizer.sensitivity(model, data[0], "static_int8", data)
    assert all(row.sqnr_db > 15 for row in sweep.rows)
    quantizer.quantize_to_accuracy(model, data[0], "static_int8", data, metric=size, max_drop=1.0)
    assert not model.mean.any() and not any(seen for _, seen in data)


X = (rand(2, 4),)


def two_layers():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()


def test_part_in_training_mode_is_refused():
    model = two_layers()
    model[1].train()
    with pytest.raises(InvalidStateError, match=r"'1', a Dropout, is in training mode"):
        quantizer.quantize(model, X, "dynamic_int8")


def test_what_is_quantized_already_is_refused():
    program = quantizer.quantize(two_layers(), X, "static_int8", [X])
    with pytest.raises(InvalidStateError, match="quantized already"):
        quantizer.quantize(program, config_or_quantizer="dynamic_int8")
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = two_layers()
    quantize_(model, Int8WeightOnlyConfig())
    with pytest.raises(NotSupportedError, match=r"'0.weight' is a Int8Tensor.*to_edge_transform_and_lower"):
        quantizer.quantize(model, X, "static_int8", [X])


def test_configuration_for_training_is_refused():
    with pytest.raises(InvalidArgumentError, match="prepare_qat"):
        quantizer.quantize(two_layers(), X, quantizer.quantization_config(qat=True), [X])


def test_arrays_are_no_samples():
    with pytest.raises(InvalidArgumentError, match=r"torch\.from_numpy"):
        quantizer.quantize(two_layers(), X, "static_int8", [X[0].numpy()])


def test_operator_that_is_not_there_is_a_warning():
    choice = quantizer.XNNPACKQuantizer().set_global("static_int8")
    choice.set_operator_type(torch.ops.aten.conv2d.default, "dynamic_int8")
    with pytest.warns(QuantizationWarning, match=r"no operator of the model is aten.conv2d.default"):
        quantizer.quantize(two_layers(), X, choice, [X])


def test_transposed_convolutions_train_with_their_batch_norm():
    """Their channels lie along the second axis, which torchao's fused fake quantization refused at the first call."""
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 6, 2, stride=2), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 2, 1)
    )  # fmt: skip
    x = rand(4, 3, 8, 8)
    prepared = quantizer.prepare_qat(model, (x,))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    losses = []
    prepared.train()
    for _ in range(8):
        loss = (prepared(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0], losses
    prepared.eval()
    with torch.no_grad():
        trained = prepared(x)
    program = quantizer.convert(prepared)
    scales = [node.args[1] for node in program.graph.nodes if "dequantize_per_channel" in str(node.target)]
    assert len(scales) == 3
    run = et.load(
        et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )
    assert (run(x) - trained).abs().max() < 0.05


def computed_weights(kind):
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten(), nn.Linear(144, 3)
    )
    model[1].running_var.uniform_(0.5, 2)
    if kind == "weight_norm":
        for i in (0, 3, 5):
            torch.nn.utils.parametrizations.weight_norm(model[i])
    else:
        pruning.Pruner(model, 0.5)
    return model.eval()


@pytest.mark.parametrize("kind", ["weight_norm", "mask"])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int4_weight_only"])
def test_weights_that_the_model_computes(kind, preset):
    """In front of a batch norm they ended in an error of torchao's; delegates leave layers that have them."""
    model, data = computed_weights(kind), [rand(2, 3, 8, 8) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), preset, data if preset == "static_int8" else None)
    assert not any("batch_norm" in str(node.target) for node in program.graph.nodes)
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)])
    with torch.no_grad():
        exact, ours = model(data[0]), et.load(edge.to_executorch().buffer)(data[0])
    assert (ours - exact).abs().max() < (0.3 if "int4" in preset else 0.05) * exact.abs().max()


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
