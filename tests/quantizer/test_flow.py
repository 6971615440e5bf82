"""quantize, prepare, calibrate, convert: what goes in, what comes out, and what is refused with which words."""

import gc
import weakref

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.calibration.checks import QuantizationWarning
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError, NotSupportedError

decomposed = torch.ops.quantized_decomposed


class Small(nn.Module):
    """A convolution with batch norm, a residual sum, a linear head; one keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(3)
        self.head = nn.Linear(3, 5)

    def forward(self, x, scale=None):
        x = F.relu(self.bn(self.conv(x))) + x
        x = self.head(x.mean((2, 3)))
        return x if scale is None else x * scale


def small() -> nn.Module:
    torch.manual_seed(3)
    model = Small().eval()
    model.bn.running_var.uniform_(0.5, 1.5)
    model.bn.running_mean.normal_()
    return model


GENERATOR = torch.Generator().manual_seed(7)
IMAGES = torch.rand(16, 1, 3, 6, 6, generator=GENERATOR)
EXAMPLE = (IMAGES[0],)


def sqnr(actual, expected) -> float:
    actual, expected = actual.detach(), expected.detach()
    noise = (actual - expected).double().square().mean()
    return float(10 * torch.log10(expected.double().square().mean() / noise))


def count(program, operator) -> int:
    return sum(node.target is operator for node in program.graph.nodes)


@pytest.mark.parametrize(
    ("preset", "least"),
    [
        ("static_int8", 30),
        ("dynamic_int8", 30),
        ("dynamic_int4", 12),
        ("int8_weight_only", 35),
        ("int4_weight_only", 12),
        ("fp16", 55),
    ],
)
def test_presets_stay_near_the_float_model(preset, least):
    model = small()
    with torch.no_grad():
        expected = model(IMAGES[5])
        data = list(IMAGES) if preset == "static_int8" else None
        program = quantizer.quantize(model, EXAMPLE, preset, data)
        assert sqnr(program.module()(IMAGES[5]), expected) > least


def test_static_graph():
    program = quantizer.quantize(small(), EXAMPLE, "static_int8", IMAGES)
    assert not any("batch_norm" in str(node.target) for node in program.graph.nodes)
    assert count(program, decomposed.dequantize_per_channel.default) == 2  # both weights
    assert all(
        node.meta.get("stack_trace")
        for node in program.graph.nodes
        if node.op == "call_function" and node.target.namespace == "aten"
    )
    integers = [p for p in program.state_dict.values() if p.dtype == torch.int8]
    assert len(integers) == 2
    again = torch.export.export(
        program.module(), EXAMPLE
    )  # an ordinary program: it goes through torch.export once more
    torch.testing.assert_close(again.module()(IMAGES[3]), program.module()(IMAGES[3]), atol=0, rtol=0)


@pytest.mark.parametrize("observer", ["min_max", "moving_average", "histogram", "percentile", "mse"])
@pytest.mark.parametrize("activations", ["int8", "uint8", "int16"])
def test_observers_and_dtypes(observer, activations):
    model = small()
    config = quantizer.quantization_config(activations, observer=observer)
    program = quantizer.quantize(model, EXAMPLE, config, IMAGES)
    assert sqnr(program.module()(IMAGES[5]), model(IMAGES[5])) > (20 if observer == "moving_average" else 28)


def test_keyword_arguments_and_dynamic_shapes():
    model = small()
    scale = torch.tensor(2.0)
    program = quantizer.quantize(
        model,
        (torch.rand(2, 3, 6, 6),),
        "static_int8",
        [{"x": image, "scale": scale} for image in IMAGES],
        example_kwargs={"scale": scale},
        dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=8)}, "scale": None},
    )
    module = program.module()
    batch = torch.cat([*IMAGES[:5]])
    assert sqnr(module(batch, scale=scale), model(batch, scale)) > 30
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)])
    loaded = et.load(edge.to_executorch().buffer)
    for size in (2, 5, 1):
        assert sqnr(loaded(batch[:size], scale=scale), module(batch[:size], scale=scale)) > 40


def test_any_iterable_one_sample_at_a_time(capsys):
    alive: list = []

    def stream():
        for image in IMAGES:
            sample = image.clone()
            alive.append(weakref.ref(sample))
            yield {"image": sample, "label": 3}
            del sample
            gc.collect()
            assert sum(ref() is not None for ref in alive) <= 1

    program = quantizer.quantize(
        small(), EXAMPLE, "static_int8", stream(), transform=lambda sample: sample["image"], progress=True
    )
    assert count(program, decomposed.dequantize_per_tensor.default) > 0
    assert "16 samples" in capsys.readouterr().err


@pytest.mark.parametrize("preset", ["int4_weight_only", "dynamic_int4"])
def test_samples_make_int4_weights_better(preset):
    """Two layers that share an input, one whose weight is used twice; samples are a stream, and optional."""

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.twice = nn.Linear(64, 96), nn.Linear(64, 96), nn.Linear(96, 96)

        def forward(self, x):
            return self.twice(self.twice(F.gelu(self.a(x)) * self.b(x)))

    torch.manual_seed(0)
    model, mixing = Layers().eval(), torch.randn(8, 64)
    data = [(torch.randn(16, 8) @ mixing + 0.05 * torch.randn(16, 64),) for _ in range(24)]
    with torch.no_grad():
        expected = torch.cat([model(*x) for x in data[16:]])
        found = []
        for samples in (None, iter(data[:16])):
            module = quantizer.quantize(model, data[0], preset, samples).module()
            found.append(sqnr(torch.cat([module(*x) for x in data[16:]]), expected))
    assert found[1] > found[0] + 3, found


def test_data_loader():
    labels = torch.arange(16)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(IMAGES[:, 0], labels), batch_size=1)
    quantizer.quantize(small(), EXAMPLE, "static_int8", loader, transform=lambda batch: (batch[0],))
    with pytest.raises(InvalidArgumentError, match=r"sample 0.*transform=lambda"):
        quantizer.quantize(small(), EXAMPLE, "static_int8", loader)


def test_exported_program_and_steps():
    model = small()
    prepared = quantizer.prepare(torch.export.export(model, EXAMPLE), config_or_quantizer="static_int8")
    assert quantizer.calibrate(prepared, IMAGES) == 16
    program = quantizer.convert(prepared)
    whole = quantizer.quantize(model, EXAMPLE, "static_int8", IMAGES)
    assert torch.equal(program.module()(IMAGES[1]), whole.module()(IMAGES[1]))


def test_torchao_flow_with_our_quantizer():
    model = small()
    chosen = quantizer.XNNPACKQuantizer().set_global(quantizer.get_symmetric_quantization_config(is_per_channel=True))
    prepared = quantizer.prepare_pt2e(torch.export.export(model, EXAMPLE).module(), chosen)
    for image in IMAGES:
        prepared(image)
    program = torch.export.export(quantizer.convert_pt2e(prepared), EXAMPLE)
    ours = quantizer.quantize(model, EXAMPLE, chosen, IMAGES)
    torch.testing.assert_close(program.module()(IMAGES[1]), ours.module()(IMAGES[1]), atol=0, rtol=0)


@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "fp16"])
def test_state_that_is_handed_out_as_it_is(preset):
    class Hands(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 4)
            self.register_buffer("table", torch.randn(3))

        def forward(self, x):
            return self.table, self.head(x), self.head.bias

    torch.manual_seed(0)
    model, x = Hands().eval(), torch.randn(2, 4)
    program = quantizer.quantize(model, (x,), preset, [(x,)])
    outputs = et.load(et.to_edge_transform_and_lower(program).to_executorch().buffer)(x)
    assert torch.equal(outputs[0], model.table) and torch.equal(outputs[2], model.head.bias)
    assert torch.allclose(outputs[1], model(x)[1], atol=0.05)


def test_what_was_converted_is_exported_again_also_strictly():
    model, x = torch.nn.Linear(8, 4).eval(), torch.randn(2, 8)
    prepared = quantizer.prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer.XNNPACKQuantizer())
    torch.export.export(prepared, (x,), strict=True)
    prepared(x)
    converted = quantizer.convert_pt2e(prepared)
    program = torch.export.export(converted, (x,), strict=True)
    assert torch.equal(program.module()(x), converted(x))


def test_same_objects_as_torchao():
    from torchao.quantization.pt2e import quantizer as torchao

    for name in ("Quantizer", "QuantizationSpec", "SharedQuantizationSpec", "DerivedQuantizationSpec"):
        assert getattr(quantizer, name) is getattr(torchao, name)
    for name in ("FixedQParamsQuantizationSpec", "QuantizationAnnotation", "ComposableQuantizer"):
        assert getattr(quantizer, name) is getattr(torchao, name)


# ------------------------------------------------------------------------------------------------------------- training


def test_training_folds_batch_norm():
    model = small()
    batch = torch.cat([*IMAGES[:4]])
    prepared = quantizer.prepare_qat(model, (batch,), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2)}})
    optimizer = torch.optim.SGD(prepared.parameters(), lr=1e-3)
    prepared.train()
    before = prepared.conv.weight.detach().clone()
    for start in range(0, 16, 8):
        loss = prepared(torch.cat([*IMAGES[start : start + 8]])).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert not torch.equal(prepared.conv.weight, before)
    prepared.eval()
    with torch.no_grad():
        expected = prepared(batch)
    program = quantizer.convert(prepared)
    assert not any("batch_norm" in str(node.target) for node in program.graph.nodes)
    assert sqnr(program.module()(batch), expected) > 35


def test_attention_drops_only_in_training():
    torch.manual_seed(0)
    x = torch.randn(4, 2, 8)
    prepared = quantizer.prepare_qat(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5), (x,))
    shares = []
    for mode in (False, True):
        prepared.train(mode)
        shares.append({node.args[4] for node in prepared.graph.nodes if "scaled_dot" in str(node.target)})
    assert shares == [{0.0}, {0.5}]
    prepared(x)
    module = quantizer.convert(prepared).module()
    torch.testing.assert_close(module(x), module(x), rtol=0, atol=0)


def test_training_keeps_eps_and_momentum_and_folds_behind_annotated_results():
    class AnnotatesEveryConvolution(quantizer.ExampleQuantizer):
        def annotate(self, model):
            super().annotate(model)
            for node in model.graph.nodes:
                if node.target is torch.ops.aten.conv2d.default:
                    node.meta["quantization_annotation"].output_qspec = self._config.output_activation
                if node.target is torch.ops.aten.batch_norm.default:
                    node.meta.pop("quantization_annotation", None)
            return model

    torch.manual_seed(5)  # others give 33 to 41 dB: a channel of small weights has little above its steps
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4, eps=0.3, momentum=0.5))
    batch = torch.cat([*IMAGES[:8]])
    prepared = quantizer.prepare_qat(model, (batch,), AnnotatesEveryConvolution(is_qat=True))
    prepared.train()
    prepared(batch)
    expected_mean = 0.5 * F.conv2d(batch, model[0].weight).mean((0, 2, 3))
    torch.testing.assert_close(prepared.get_buffer("1.running_mean"), expected_mean.detach(), rtol=0.02, atol=5e-3)
    prepared.eval()
    with torch.no_grad():
        expected = prepared(batch)
    program = quantizer.convert(prepared)
    assert not any("batch_norm" in str(node.target) for node in program.graph.nodes)
    assert sqnr(program.module()(batch), expected) > 35


# --------------------------------------------------------------------------------------------------------------- errors


def test_calibration_data_is_missing_or_empty():
    with pytest.raises(InvalidArgumentError, match="give samples of your data"):
        quantizer.quantize(small(), EXAMPLE, "static_int8")
    for empty in ([], iter(())):
        with pytest.raises(InvalidArgumentError, match="no sample"):
            quantizer.quantize(small(), EXAMPLE, "static_int8", empty)


def test_never_calibrated():
    prepared = quantizer.prepare(small(), EXAMPLE)
    with pytest.raises(InvalidStateError, match=r"was never observed.*calibrat"):
        quantizer.convert(prepared)
    with pytest.raises(InvalidStateError, match="what prepare"):
        quantizer.convert(torch.fx.symbolic_trace(nn.ReLU()))


def test_not_a_number_names_the_layer():
    class Breaks(Small):
        def forward(self, x):
            return self.head(torch.log(self.conv(x)).mean((2, 3)))

    with pytest.raises(InvalidArgumentError, match=r"result of .*test_flow.py.* gave (NaN|infinity)"):
        quantizer.quantize(Breaks().eval(), EXAMPLE, "static_int8", IMAGES)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int8_weight_only", "int4_weight_only", "fp16"])
def test_weights_that_are_no_numbers(preset, value):
    """Of an exported program, whose parameters nobody has looked at."""
    program = torch.export.export(small(), EXAMPLE)
    with torch.no_grad():
        program.state_dict["head.weight"][0, 0] = value
    if preset == "fp16" and value == float("inf"):
        quantizer.quantize(program, config_or_quantizer=preset)  # float16 has infinities
        return
    with pytest.raises(InvalidArgumentError, match=r"head.*(NaN|infinity)"):
        quantizer.quantize(program, config_or_quantizer=preset, calibration_data=IMAGES if "static" in preset else None)


def test_weights_that_float16_has_not():
    program = torch.export.export(small(), EXAMPLE)
    with torch.no_grad():
        program.state_dict["head.weight"][0, 0] = 1e5
    with pytest.raises(InvalidArgumentError, match=r"head.*100000.*65504.*set_module_name"):
        quantizer.quantize(program, config_or_quantizer="fp16")


@pytest.mark.parametrize("observer", ["histogram", "min_max", "moving_average", "percentile", "mse"])
@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_samples_of_nothing_but_infinity(observer, value):
    """They were observed: the advice to calibrate would lead nowhere."""
    config = quantizer.quantization_config("int8", "int8", observer=observer)
    with pytest.raises(InvalidArgumentError, match="gave infinity on the calibration data"):
        quantizer.quantize(nn.Linear(4, 4).eval(), (torch.ones(2, 4),), config, [torch.full((2, 4), value)])


def test_range_that_no_scale_fits():
    class Huge(Small):
        def forward(self, x):
            return self.head(self.conv(x).mean((2, 3)) * 1e38)

    with pytest.raises(InvalidArgumentError, match=r"reaches .*set_module_name|gave infinity"):
        quantizer.quantize(Huge().eval(), EXAMPLE, "static_int8", IMAGES)


def test_constant_is_reported():
    class Dead(Small):
        def forward(self, x):
            return self.head(F.relu(self.conv(x) - 1e6).mean((2, 3)))

    with pytest.warns(QuantizationWarning, match=r"result of .*test_flow.py.* is always 0"):
        quantizer.quantize(Dead().eval(), EXAMPLE, "static_int8", IMAGES)


class Step(nn.Module):
    """One from a state of zeros, in two directions."""

    def __init__(self, kind):
        super().__init__()
        self.layer = kind(8, 4, batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


@pytest.mark.filterwarnings("error::executorch_py.quantizer.calibration.checks.QuantizationWarning")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_the_first_state_of_a_batch_of_any_size_is_no_finding(kind):
    """Zeros with the batch's size are always zero: no data would make anything else of them."""
    batch = torch.export.Dim("batch", min=2, max=9)
    samples = [(torch.randn(3, 1, 8),) for _ in range(3)]
    quantizer.quantize(Step(kind).eval(), samples[0], "static_int8", samples, dynamic_shapes=({0: batch},))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_wrong_dtype(dtype):
    with pytest.raises(InvalidTypeError, match=r"conv.weight.*model.float\(\)"):
        quantizer.quantize(small().to(dtype), (IMAGES[0].to(dtype),), "dynamic_int8")


def test_training_mode():
    with pytest.raises(InvalidStateError, match=r"model.eval\(\)"):
        quantizer.quantize(small().train(), EXAMPLE, "dynamic_int8")


def test_eager_mode_models():
    class Eager(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.fc = torch.ao.quantization.QuantStub(), nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.quant(x))

    with pytest.raises(NotSupportedError, match=r"eager-mode.*quantizer.quantize"):
        quantizer.quantize(Eager().eval(), (torch.rand(1, 3),), "dynamic_int8")


@pytest.mark.parametrize("preset", ["static_int8", "int4_weight_only", "fp16"])
def test_names_of_modules_that_are_none_in_python(preset):
    """RegNet's blocks are called block1-0: the converted program had arguments of that name."""
    model = nn.Sequential()
    model.add_module("block1-0", nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
    model.add_module("2-b", nn.Conv2d(8, 8, 3))
    model.add_module("head", nn.Conv2d(8, 32, 3))
    model.eval()
    x = torch.rand(1, 3, 8, 8, generator=GENERATOR)
    program = quantizer.quantize(model, (x,), preset, [x])
    manager = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()
    assert sqnr(et.load(manager.buffer)(x), program.module()(x)) > 40


def test_nothing_to_quantize():
    with pytest.raises(InvalidStateError, match="found nothing to quantize"):
        quantizer.quantize(nn.Softmax(-1).eval(), (torch.rand(1, 3),), "dynamic_int8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activations": "int7"}, "must be one of 'int8'"),
        ({"weights": "int2"}, "must be one of 'int8'"),
        ({"observer": "median"}, "must be one of 'min_max'"),
        ({"dynamic": True, "activations": "int16"}, "dynamic quantization needs"),
        ({"weights": "int4", "group_size": 32}, "dynamic or weight-only"),
        ({"weights": "int8", "activations": None, "group_size": 32}, "int4"),
        ({"weights": "fp16"}, "fp16 goes with fp16"),
        ({"weights": "int4", "dynamic": True, "group_size": 32, "symmetric_weights": False}, "zero points"),
        ({"qat": True, "weight_observer": "mse"}, "min_max"),
    ],
)
def test_combinations_that_are_not(options, words):
    with pytest.raises((InvalidArgumentError, NotSupportedError), match=words):
        quantizer.quantization_config(**options)


def test_names_that_are_not_there():
    chosen = quantizer.XNNPACKQuantizer().set_global("dynamic_int8").set_module_name("haed", None)
    with pytest.raises(InvalidArgumentError, match="there are head"):
        quantizer.quantize(small(), EXAMPLE, chosen)
    with pytest.raises(InvalidArgumentError, match="must be one of 'static_int8'"):
        quantizer.quantize(small(), EXAMPLE, "int8")
    with pytest.raises(InvalidTypeError, match="is a class"):
        quantizer.quantize(small(), EXAMPLE, quantizer.ExampleQuantizer)
    with pytest.raises(InvalidTypeError, match="must be a tuple"):
        quantizer.quantize(small(), IMAGES[0], "dynamic_int8")
    with pytest.raises(InvalidArgumentError, match="is_qat=True"):
        quantizer.prepare_qat(small(), EXAMPLE, "static_int8")


class Between(nn.Module):
    """Between layers that are rounded to float16: numbers that it does not have, and an operator without a kernel for
    it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)
        self.normed = nn.LocalResponseNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x) * 1e6
        return self.second(self.normed((x + 1e6) * 1e-6))


def test_float16_rounds_where_the_program_does():
    torch.manual_seed(0)
    samples = [(torch.randn(2, 4, 9, 9),) for _ in range(2)]
    program = quantizer.quantize(Between().eval(), samples[0], "fp16", samples)
    method = et.Runtime.get().load_program(et.to_edge(program).to_executorch().buffer).load_method("forward")
    for sample in samples:
        torch.testing.assert_close(method.execute(sample)[0], program.module()(*sample), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("flow", ["int4_weight_only", "int8_weight_only"])
@pytest.mark.parametrize(
    "layer", [nn.Conv2d(3, 7, 3, padding=1), nn.ConvTranspose2d(3, 7, 3), nn.Conv2d(3, 9, 1, groups=3)]
)
def test_integer_filters_of_images_of_any_size(flow, layer):
    """Two rows of 4 bits share a byte, so how many rows a filter has, its images say: also where their extents have no
    bounds.
    """
    anything = torch.export.Dim.AUTO
    module = nn.Sequential(nn.Conv2d(3, 3, 1), layer, nn.ReLU()).eval()
    exported = torch.export.export(
        module, (torch.randn(2, 3, 6, 5),), dynamic_shapes=({0: anything, 2: anything, 3: anything},)
    )
    program = quantizer.quantize(exported, config_or_quantizer=flow)
    method = et.Runtime.get().load_program(et.to_edge(program).to_executorch().buffer).load_method("forward")
    for sizes in ((2, 3, 6, 5), (3, 3, 9, 12), (2, 3, 4, 4)):
        x = torch.randn(sizes)
        torch.testing.assert_close(method.execute((x,))[0], program.module()(x), atol=1e-5, rtol=1e-5)
