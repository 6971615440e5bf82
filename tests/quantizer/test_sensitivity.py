"""Variants of a quantized model, the sweep over its layers, and accuracy control."""

import math

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError
from tests.quantizer.tiny_quantizer import TinyQuantizer, images, net


class Outlier(nn.Module):
    """One channel of ``wide`` is 2000 times as large as the others, and nobody needs it: the value between wide and
    head is what cannot be quantized."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.wide, self.head = (nn.Linear(16, 16) for _ in range(4))
        with torch.no_grad():
            self.wide.weight[0] *= 2000
            self.head.weight[:, 0] = 0

    def forward(self, x):
        x = self.second(F.relu(self.first(x)))
        return self.head(self.wide(F.relu(x)))


def outlier():
    torch.manual_seed(0)
    return Outlier().eval()


def rows(count=6):
    generator = torch.Generator().manual_seed(2)
    return [(torch.randn(8, 16, generator=generator),) for _ in range(count)]


def cosine_with(model, data):
    """The metric: cosine with the float model's outputs, the mean over the data."""
    with torch.no_grad():
        expected = [model(*x) for x in data]

    def metric(run):
        return sum(F.cosine_similarity(run(*x), y).mean().item() for x, y in zip(data, expected, strict=True)) / len(
            data
        )

    return metric


@pytest.fixture(scope="module")
def candidates():
    return quantizer.Candidates.of(net(), images(1)[0], "static_int8", images())


# ---------------------------------------------------------------------------------------------------- variants


def test_layers(candidates):
    assert candidates.names == ["stem", "block.0", "block.2", "add", "mean", "head"]
    macs = {layer.name: layer.macs for layer in candidates.layers}
    assert macs["block.0"] == 2 * 100 * 8 * 8 * 9
    assert candidates.integer_share() == 1 and candidates.integer_share(candidates.names) == 0
    assert candidates.integer_share(["block.0"]) == pytest.approx(1 - macs["block.0"] / sum(macs.values()))


@torch.no_grad()
def test_both_ends(candidates):
    """Nothing in float is what quantize() gives; everything in float is the float model."""
    full = quantizer.quantize(net(), images(1)[0], "static_int8", images()).module()
    none, all_of_it = candidates.module(), candidates.module(candidates.names)
    for (x,) in images():
        assert torch.equal(none(x), full(x))
        assert torch.allclose(all_of_it(x), net()(x), atol=1e-6)
    assert not any("quantize" in str(node.target) for node in all_of_it.graph.nodes)


@torch.no_grad()
@pytest.mark.parametrize("floats", [["stem"], ["block.0"], ["block.2", "head"]])
def test_variant_is_the_hybrid_configuration(candidates, floats):
    """The same numbers as a quantizer that was told to leave these layers."""
    hybrid = quantizer.XNNPACKQuantizer().set_global("static_int8")
    hybrid.set_filter_function(quantizer.float_filter(floats))
    expected = quantizer.quantize(net(), images(1)[0], hybrid, images()).module()
    actual = candidates.module(floats)
    counts = [sum("dequantize" in str(node.target) for node in m.graph.nodes) for m in (expected, actual)]
    assert counts[0] == counts[1]
    for (x,) in images():
        assert torch.allclose(actual(x), expected(x), atol=1e-6)


def test_runnable_variants_share_dequantized_weights(candidates):
    floats = candidates.names[:1]
    x = images(1)[0]
    first, second = candidates.runnable(), candidates.runnable(floats)
    with torch.no_grad():
        assert torch.equal(first(*x), candidates.module()(*x))
        assert torch.equal(second(*x), candidates.module(floats)(*x))
    owned = [{b.data_ptr() for n, b in m.named_buffers() if n.startswith("_dequantized_")} for m in (first, second)]
    assert owned[1] < owned[0], owned
    assert not any("dequantize_per_channel" in str(node.target) for node in first.graph.nodes if node.op != "get_attr")


def test_variant_runs_on_the_runtime(candidates):
    program = candidates.program(["block.0"])
    module = et.load(
        et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )
    for (x,) in images(2):
        assert torch.allclose(module(x), program.module()(x), atol=0.02)
    with pytest.raises(InvalidArgumentError, match="'nothing' is no layer"):
        candidates.module(["nothing"])


@torch.no_grad()
@pytest.mark.parametrize("preset", ["dynamic_int8", "dynamic_int4", "int8_weight_only"])
def test_variants_of_other_presets(preset):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    x = torch.randn(4, 64)
    candidates = quantizer.Candidates.of(model, (x,), preset)
    assert candidates.names == ["0", "2"]
    assert torch.allclose(candidates.module(["0", "2"])(x), model(x), atol=1e-6)
    assert torch.equal(candidates.module()(x), quantizer.quantize(model, (x,), preset).module()(x))
    errors = [float((candidates.module(floats)(x) - model(x)).abs().max()) for floats in ([], ["0"], ["2"])]
    assert min(errors) > 0


def test_quantizer_of_a_users_own():
    candidates = quantizer.Candidates.of(net(), images(1)[0], TinyQuantizer(), images())
    assert candidates.names == ["stem", "block.0", "block.2", "head"]
    x = images(1)[0][0]
    assert torch.allclose(candidates.module(candidates.names)(x), net()(x), atol=1e-6)


# ---------------------------------------------------------------------------------------------------- sweep


def test_sweep_finds_the_outlier():
    model, data = outlier(), rows()
    report = quantizer.sensitivity(model, data[0], "static_int8", data)
    assert set(report.most_sensitive(2)) == {"wide", "head"}, str(report)
    by_name = {row.layer: row for row in report.rows}
    assert by_name["wide"].sqnr_db < 15 < 30 < by_name["first"].sqnr_db
    assert set(report.below(20)) == {"wide", "head"}
    together = quantizer.sensitivity(
        model, data[0], "static_int8", data, mode="without", groups={"tail": ["wide", "head"]}
    )
    assert together.most_sensitive(1) == ["tail"]
    assert together.rows[0].loss > 15  # dB that leaving both in float gains
    assert "tail" in str(together)


def test_figures_of_the_sweep_are_those_of_the_conversion():
    """One layer's row against a conversion in which only that layer is quantized."""
    model, data = outlier(), rows()
    report = quantizer.sensitivity(model, data[0], "static_int8", data)
    only = quantizer.XNNPACKQuantizer().set_module_name("second", "static_int8")
    quantized = quantizer.quantize(model, data[0], only, data).module()
    with torch.no_grad():
        y = torch.cat([model(*x) for x in data])
        error = torch.cat([quantized(*x) for x in data]) - y
    expected = 20 * math.log10(float(y.norm() / error.norm()))
    row = next(row for row in report.rows if row.layer == "second")
    assert row.sqnr_db == pytest.approx(expected, abs=0.01)


def test_sweep_by_a_metric():
    model, data = outlier(), rows()
    metric = cosine_with(model, data)
    report = quantizer.sensitivity(model, data[0], "static_int8", data, metric=metric, layers=["first", "wide"])
    assert [row.layer for row in report.rows] == ["wide", "first"]
    assert report.float_metric == pytest.approx(1, abs=1e-6) and report.quantized_metric < 0.99
    assert report.rows[0].loss == pytest.approx(report.float_metric - report.rows[0].metric)
    distance = quantizer.sensitivity(
        model,
        data[0],
        "static_int8",
        data,
        metric=lambda run: 1 - metric(run),
        higher_is_better=False,
        layers=["first", "wide"],
    )
    assert [row.layer for row in distance.rows] == ["wide", "first"]
    with pytest.raises(InvalidArgumentError, match="metric"):
        report.below(20)


def test_misuse_of_the_sweep():
    model, data = outlier(), rows(2)
    with pytest.raises(InvalidArgumentError, match="nothing to measure on"):
        quantizer.sensitivity(model, data[0], "static_int8")
    with pytest.raises(InvalidArgumentError, match="read once"):
        quantizer.sensitivity(model, data[0], "static_int8", iter(data))
    with pytest.raises(InvalidArgumentError, match="must be 'only' or 'without'"):
        quantizer.sensitivity(model, data[0], "static_int8", data, mode="some")
    with pytest.raises(InvalidArgumentError, match="'nose' is no layer"):
        quantizer.sensitivity(model, data[0], "static_int8", data, layers=["nose"])
    with pytest.raises(InvalidArgumentError, match="group 'tail'; layers are first"):
        quantizer.sensitivity(model, data[0], "static_int8", data, groups={"tail": "nose.*"})
    with pytest.raises(InvalidArgumentError, match="makes no integers"):
        quantizer.sensitivity(model, data[0], "fp16", data)
    with pytest.raises(InvalidArgumentError, match="NaN"):
        quantizer.sensitivity(model, data[0], "static_int8", data, metric=lambda run: math.nan)


# ---------------------------------------------------------------------------------------------------- accuracy control


def _controlled(model, data, metric, **options):
    options = {
        "max_drop": 0.005,
        "partitioner": [XnnpackPartitioner(largest=True)],
        "fallbacks": ["float32"],
        **options,
    }
    return quantizer.quantize_to_accuracy(model, data[0], "static_int8", data, metric=metric, **options)


def test_everything_stays_quantized_when_it_holds():
    model, data = net(), images()
    result = _controlled(model, data, cosine_with(model, data), max_drop=0.01)
    assert result.float_layers == () and result.sensitivity is None
    assert [step.what for step in result.steps] == ["all layers quantized"]
    assert result.chosen.integer_share == 1
    assert result.chosen.latency_ms > 0 and result.float_latency_ms > 0
    assert len(result.executorch_program.buffer) == result.chosen.nbytes < result.float_nbytes + 8192


def test_layers_that_lose_go_back_to_float():
    model, data = outlier(), rows()
    metric = cosine_with(model, data)
    result = _controlled(model, data, metric)
    assert set(result.float_layers) == {"wide", "head"}, str(result)
    assert not result.steps[0].holds and result.steps[0].metric < 0.99
    assert result.limit == pytest.approx(result.float_metric - 0.005)
    assert result.chosen.metric >= result.limit and result.chosen.runtime_metric >= result.limit
    module = et.load(result.executorch_program.buffer)
    assert metric(module) == pytest.approx(result.chosen.runtime_metric)
    assert metric(result.model.module()) == pytest.approx(result.chosen.metric)
    assert result.chosen.integer_share == pytest.approx(0.5)
    text = str(result)
    assert "chosen" in text and "in float32: wide, head" in text


def test_a_loss_may_rise_by_a_share():
    model, data = outlier(), rows()
    metric = cosine_with(model, data)
    result = _controlled(
        model, data, lambda run: 2 - metric(run), max_drop=0.004, relative=True, higher_is_better=False
    )
    assert result.limit == pytest.approx(1.004, abs=1e-5)
    assert result.chosen.metric <= result.limit
    assert set(result.float_layers) == {"wide", "head"}


def test_sweep_by_the_metric_itself_and_own_lowering():
    model, data = outlier(), rows()
    lowered = []

    def lower(program):
        lowered.append(program)
        return et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch()

    result = _controlled(model, data, cosine_with(model, data), sweep_metric=True, lower=lower, partitioner=None)
    assert set(result.float_layers) == {"wide", "head"}
    assert result.sensitivity.float_metric is not None and len(lowered) >= 2


class Tamed(Outlier):
    """The large channel is made small again before the next layer: only the result of ``wide`` has no good scale."""

    def __init__(self):
        super().__init__()
        self.register_buffer("gain", torch.cat([torch.full((1,), 1 / 2000), torch.ones(15)]))

    def forward(self, x):
        x = self.second(F.relu(self.first(x)))
        return self.head(self.wide(F.relu(x)) * self.gain)


def tamed():
    torch.manual_seed(0)
    model = Tamed().eval()
    with torch.no_grad():
        model.head.weight[:, 0] = 0.2
    return model


@pytest.mark.parametrize("fallback", ["dynamic_int8", "float16"])
def test_layers_fall_back_to_other_numbers(fallback):
    model, data = tamed(), rows()
    metric = cosine_with(model, data)
    result = _controlled(model, data, metric, fallbacks=[fallback])
    assert result.chosen.instead == fallback and "wide" in result.float_layers, str(result)
    assert result.chosen.runtime_metric >= result.limit
    assert result.chosen.integer_share == pytest.approx(et.count_macs(result.model, data[0]).share())
    assert fallback != "dynamic_int8" or result.chosen.integer_share == 1
    assert metric(result.model.module()) == pytest.approx(result.chosen.metric)
    assert f"in {fallback}: " in str(result)


class Spread(nn.Module):
    """Four bits are enough for the second of three layers, whose weights are signs."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
        self.table = nn.Embedding(8, 64)
        with torch.no_grad():
            self.second.weight.copy_(self.second.weight.sign() / 8)

    def forward(self, x, place):
        x = F.relu(self.first(x)) + self.table(place)
        return self.third(F.relu(self.second(x)))


@pytest.mark.parametrize("preset", ["int4_weight_only", "dynamic_int4"])
def test_layers_of_4_bits_fall_back_to_8(preset):
    torch.manual_seed(0)
    model, generator = Spread().eval(), torch.Generator().manual_seed(3)
    data = [(torch.randn(4, 64, generator=generator), torch.tensor([0, 3, 5, 7])) for _ in range(4)]
    metric = cosine_with(model, data)
    result = quantizer.quantize_to_accuracy(
        model, data[0], preset, data=data, metric=metric, max_drop=0.002, fallbacks=["int8_weight_only"]
    )
    assert not result.steps[0].holds and result.chosen.instead == "int8_weight_only", str(result)
    assert result.chosen.metric >= result.limit and result.chosen.runtime_metric >= result.limit
    assert any(
        step.holds and step.float_layers in (("first",), ("third",), ("first", "third")) for step in result.steps
    )
    holding = [step for step in result.steps if step.holds and step.instead == "int8_weight_only"]
    timed = [len(step.float_layers) for step in holding if step.latency_ms is not None]
    others = [len(step.float_layers) for step in holding if step.latency_ms is None]
    assert max(timed) <= min(others, default=4)  # those with most of it in 4 bits
    by_hand = quantizer.XNNPACKQuantizer().set_global(preset)
    for name in result.float_layers:
        by_hand.set_module_name(name, "int8_weight_only")
    same = quantizer.quantize(model, data[0], by_hand)
    with torch.no_grad():
        assert torch.equal(result.model.module()(*data[0]), same.module()(*data[0]))
    buffer = et.to_edge_transform_and_lower(same).to_executorch().buffer
    assert abs(result.chosen.nbytes - len(buffer)) < 256 < result.float_nbytes - len(buffer)
    runs = quantizer.Candidates.of(model, data[0], preset)
    assert runs.can_be(["first"], "int8_weight_only") and not runs.can_be(["table"], "int8_weight_only")
    for layer in ("first", "third"):  # dequantized once for all variants: each must get its own
        exact = runs.module([layer], "int8_weight_only")(*data[0])
        assert torch.equal(runs.runnable([layer], "int8_weight_only")(*data[0]), exact)
    assert not quantizer.Candidates.of(model, data[0], "dynamic_int8").can_be(["first"], "int8_weight_only")


def test_the_fastest_fallback_is_taken():
    model, data = tamed(), rows()
    result = _controlled(model, data, cosine_with(model, data), fallbacks=["float32", "dynamic_int8", "float16"])
    timed = [step for step in result.steps if step.latency_ms is not None]
    assert {step.instead for step in timed} == {"float32", "dynamic_int8", "float16"}, str(result)
    assert result.chosen.latency_ms == min(step.latency_ms for step in timed)
    with pytest.raises(InvalidArgumentError, match="fallbacks are"):
        _controlled(model, data, cosine_with(model, data), fallbacks=["int4"])


def test_a_fallback_that_fits_no_layer_is_named():
    """It was said to hold with every layer in float only, where float32 was not permitted."""
    model, data = outlier(), rows()
    with pytest.raises(
        InvalidStateError, match=r"int8_weight_only for single layers \(int8_weight_only: fits none .* permit float32"
    ):
        _controlled(model, data, cosine_with(model, data), fallbacks=["int8_weight_only"])


def test_what_cannot_be_held_is_an_error():
    model, data = outlier(), rows(3)
    metric = cosine_with(model, data)
    with pytest.raises(InvalidArgumentError, match="float model's metric is NaN"):
        _controlled(model, data, lambda run: float("nan"))
    with pytest.raises(InvalidArgumentError, match="float model's metric is infinite"):  # all would hold
        _controlled(model, data, lambda run: float("inf"), higher_is_better=False)
    with pytest.raises(InvalidArgumentError, match="min_integer_share is 80, must be a share"):
        _controlled(model, data, metric, min_integer_share=80)
    with pytest.raises(InvalidTypeError, match="must give a number, for the float model it gave str"):
        _controlled(model, data, lambda run: "good")
    with pytest.raises(InvalidTypeError, match="NoneType"):
        _controlled(model, data, lambda run: None)
    with pytest.raises(InvalidArgumentError, match="max_drop"):
        _controlled(model, data, metric, max_drop=-1)
    calls = iter(range(1000))
    with pytest.raises(InvalidStateError, match="with every layer in float"):
        _controlled(model, data, lambda run: -float(next(calls)))  # worse at each call
    with pytest.raises(InvalidStateError, match=r"it holds with 50\.0%"):
        _controlled(model, data, metric, min_integer_share=0.9)


def test_metric_is_checked_on_the_runtime():
    """A metric that the programs fail, whatever the graphs give."""
    model, data = net(), images(3)

    def metric(run):
        return 0.0 if isinstance(run, et.Module) else 1.0

    with pytest.raises(InvalidStateError, match="not on the runtime"):
        _controlled(model, data, metric)
