"""et.quantization_report: figures against torchao's numeric debugger, planted defects, what cannot be matched,
pages.
"""

import copy
import gc
import html.parser
import json
import math
import operator
import weakref

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.nn import functional as F
from torchao.quantization.pt2e._numeric_debugger import (
    compare_results,
    extract_results_from_loggers,
    generate_numeric_debug_handle,
    prepare_for_propagation_comparison,
)

import executorch_py as et
from executorch_py.errors import InvalidArgumentError, InvalidTypeError
from tests.quantizer.tiny_quantizer import TinyQuantizer, converted, images, net

_Q = torch.ops.quantized_decomposed


@pytest.fixture(scope="module")
def exported():
    return torch.export.export(net(), images(1)[0])


@pytest.fixture(scope="module")
def quantized(exported):
    return converted(exported, images())


@pytest.fixture(scope="module")
def report(exported, quantized):
    return et.quantization_report(exported, quantized, images())


class _Counter(nn.Module):
    """Counts its calls."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return self.linear(x), self.calls.clone()


def test_a_metric_is_measured_before_and_after(exported, quantized):
    edge = et.to_edge_transform_and_lower(
        torch.export.export(quantized, images(1)[0]), partitioner=[XnnpackPartitioner(largest=True)]
    )
    report = et.quantization_report(
        exported,
        quantized,
        images(),
        program=edge.to_executorch(),
        metric=lambda run: sum(run(*x).sum() for x in images()),
    )
    floats = sum(exported.module()(*x).sum().item() for x in images())
    converted = sum(quantized(*x).sum().item() for x in images())
    before, after, ran = report.metrics
    assert [row.of for row in report.metrics] == ["float", "converted", "runtime"]
    assert (before.value, after.value) == (pytest.approx(floats, rel=1e-4), pytest.approx(converted, rel=1e-4))
    assert before.value != after.value and after.change == pytest.approx(after.value - before.value)
    assert ran.value == pytest.approx(after.value, rel=0.02)
    lines = report.table().splitlines()
    assert lines[0].split() == ["model", "metric", "change"] and lines[2].startswith("converted")
    assert report.as_dict()["metrics"][1]["value"] == after.value


def test_a_metric_that_is_no_number(exported, quantized):
    with pytest.raises(InvalidTypeError, match="must give a number, for the float model it gave str: most"):
        et.quantization_report(exported, quantized, images(1), metric=lambda run: "most")


def test_a_metric_begins_with_the_models_own_state():
    """What the report's own runs left in the buffer must not reach the metric."""
    model = _Counter().eval()
    exported = torch.export.export(model, (torch.randn(2, 4),))
    quantized = converted(exported, [(torch.randn(2, 4),) for _ in range(3)])
    report = et.quantization_report(
        exported, quantized, [(torch.ones(2, 4),)] * 3, metric=lambda run: run(torch.ones(2, 4))[1].sum().item()
    )
    assert [row.value for row in report.metrics] == [1.0, 1.0]


def _rows(report):
    return {row.module_path or row.name: row for row in report.layers}


# ---------------------------------------------------------------------------------------------------- figures


def test_everything_is_matched(report):
    assert report.unmatched == ()
    assert {row.op for row in report.layers} >= {"conv2d", "relu", "add", "linear", "mean", "input"}
    assert list(report.folded) and next(iter(report.folded.values())) == "conv2d", report.folded
    assert all(
        row.source.startswith("tests/quantizer/tiny_quantizer.py:") for row in report.layers if row.op != "input"
    )
    assert report.num_batches == 6


def test_output_is_what_the_models_give(report, exported, quantized):
    floats, ours = exported.module(), quantized
    with torch.no_grad():
        a = torch.cat([floats(*x) for x in images()])
        b = torch.cat([ours(*x) for x in images()])
    (row,) = report.outputs
    assert row.of == "converted"
    assert row.difference.max_error == pytest.approx(float((a - b).abs().max()), rel=1e-5)
    assert row.difference.sqnr_db == pytest.approx(20 * math.log10(float(a.norm() / (a - b).norm())), abs=1e-3)
    assert row.difference.cosine == pytest.approx(float(F.cosine_similarity(a.flatten(), b.flatten(), dim=0)), abs=1e-6)
    last = report.layers[-1].difference  # the head's result is quantized, and is the output
    assert last.max_error == row.difference.max_error


def test_layers_agree_with_torchaos_numeric_debugger():
    """On one batch torchao's own tool must find the same SQNR where it has a logger on both sides.

    Without operations in place: its loggers keep what they see, which such operations change afterwards.
    """
    program = torch.export.export(net(inplace=False), images(1)[0])
    generate_numeric_debug_handle(program)
    (x,) = images(1)[0]
    reference = prepare_for_propagation_comparison(program.module())
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(program.module(), TinyQuantizer())
    prepared(x)
    result = convert_pt2e(prepared)
    logged = prepare_for_propagation_comparison(result)
    with torch.no_grad():
        reference(x)
        logged(x)
    compared = compare_results(extract_results_from_loggers(reference), extract_results_from_loggers(logged))
    theirs = {item.actual_node_name: item.results[0] for item in compared.values()}
    ours = et.quantization_report(program, result, [(x,)])
    checked = 0
    for row in ours.layers:
        if (
            row.name in theirs
            and row.activation is None
            and theirs[row.name].actual.shape == theirs[row.name].ref.shape
        ):
            if row.op == "conv2d" and row.module_path == "stem":
                continue  # its batch norm is folded; their tool compares with the convolution alone
            assert row.difference.sqnr_db == pytest.approx(float(theirs[row.name].sqnr), abs=0.01), row.name
            checked += 1
    assert checked >= 2, (list(theirs), [row.name for row in ours.layers])


def test_alone_is_the_layer_on_float_operands(report, exported, quantized):
    """The head's own error, computed by hand from the graph's constants."""
    head = next(row for row in report.layers if row.op == "linear")
    model = net()
    linear = next(node for node in quantized.graph.nodes if node.target is torch.ops.aten.linear.default)
    integers, scales, zeros, axis, *limits = linear.args[1].args
    constants = [getattr(quantized, node.target) for node in (integers, scales, zeros)]
    weight = _Q.dequantize_per_channel(*constants, axis, *limits)
    quantize = next(user for user in linear.users if "quantize_per_tensor" in str(user.target))

    def through(y):
        return _Q.dequantize_per_tensor(_Q.quantize_per_tensor(y, *quantize.args[1:]), *quantize.args[1:])

    noise = signal = weight_noise = activation_noise = 0.0
    with torch.no_grad():
        for (x,) in images():
            features = {}
            handle = model.head.register_forward_pre_hook(
                lambda module, inputs, kept=features: kept.update(x=inputs[0])
            )
            exact = model(x)
            handle.remove()
            plain = F.linear(features["x"], weight, model.head.bias)
            noise += float((through(plain) - exact).square().sum())
            weight_noise += float((plain - exact).square().sum())
            activation_noise += float((through(exact) - exact).square().sum())
            signal += float(exact.square().sum())
    assert head.alone.sqnr_db == pytest.approx(10 * math.log10(signal / noise), abs=0.01)
    assert head.weight_sqnr_db == pytest.approx(10 * math.log10(signal / weight_noise), abs=0.01)
    assert head.activation_sqnr_db == pytest.approx(10 * math.log10(signal / activation_noise), abs=0.01)
    assert (head.weight.dtype, head.weight.granularity) == ("int8", "per channel")
    assert head.activation.low == pytest.approx((-128 - quantize.args[2]) * quantize.args[1])


def test_convolution_with_a_folded_batch_norm(report):
    """Compared with the batch norm's result, so that 8 bits cost what 8 bits cost."""
    stem = next(row for row in report.layers if row.op == "conv2d" and row.module_path == "stem")
    assert 35 < stem.weight_sqnr_db < 70
    assert stem.weight_saturated is not None and stem.weight_saturated < 0.01


# ---------------------------------------------------------------------------------------------------- planted defects


def _with_changed_scale(quantized, layer, factor, of):
    """A copy whose quantization of one layer's weight or result has another scale, as a wrong observer leaves it."""
    module = copy.deepcopy(quantized)
    node = next(node for node in module.graph.nodes if node.name == layer)
    if of == "weight":
        scales = next(
            value for value in node.args[1].args if isinstance(value, torch.fx.Node) and "scale" in value.target
        )
        getattr(module, scales.target).mul_(factor)
        return module
    while not any("quantize_per_tensor" in str(user.target) for user in node.users):
        node = next(iter(node.users))
    for quantize in [user for user in node.users if ".quantize_per_tensor" in str(user.target)]:
        for changed in (quantize, *quantize.users):
            changed.args = (changed.args[0], changed.args[1] * factor, *changed.args[2:])
    module.recompile()
    return module


@pytest.mark.parametrize("layer", ["conv2d", "conv2d_1", "conv2d_2", "linear"])
@pytest.mark.parametrize(
    ("of", "factor", "note"),
    [("weight", 1.7, ""), ("activation", 0.2, "saturated"), ("activation", 40.0, "too wide")],
)
def test_planted_scale_comes_first(exported, quantized, report, layer, of, factor, note):
    intact = report
    broken = _with_changed_scale(quantized, layer, factor, of)
    report = et.quantization_report(exported, broken, images())
    first = report.rows[0]
    wanted = {"conv2d": "stem", "conv2d_1": "block.0", "conv2d_2": "block.2", "linear": "head"}[layer]
    if of == "weight":
        assert first.module_path == wanted, str(report)
        assert first.weight_sqnr_db < 15 < _rows(intact)[wanted].weight_sqnr_db
    else:
        result = {"conv2d": "relu", "conv2d_1": "relu_"}.get(layer, layer)  # the relu behind it is what is quantized
        assert first.name == result, str(report)
        assert any(note in text for text in first.notes), str(report)
        assert [row.name for row in report.layers if any(note in text for text in row.notes)] == [first.name]
        assert note in report.summary()


def test_saturated_weight_is_named(exported):
    """A weight observer whose scale is a tenth of what it must be: most of the weight is clipped."""
    quantizer = TinyQuantizer()
    data = images()
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(copy.deepcopy(exported.module()), quantizer)
    for inputs in data:
        prepared(*inputs)
    node = next(node for node in prepared.graph.nodes if node.name == "conv2d_1")
    observer = prepared.get_submodule(node.args[1].target)
    observer.min_val.mul_(0.1)
    observer.max_val.mul_(0.1)
    report = et.quantization_report(exported, convert_pt2e(prepared), data)
    first = report.rows[0]
    assert first.module_path == "block.0"
    assert first.weight_saturated > 0.5 and any("weight saturated" in note for note in first.notes)


class _Scaled(nn.Module):
    """Divides by its input's sum: NaN and infinity where that is zero."""

    def __init__(self):
        super().__init__()
        self.linear, self.dead = nn.Linear(6, 6), nn.Linear(6, 6)
        nn.init.zeros_(self.dead.weight)
        nn.init.ones_(self.dead.bias)

    def forward(self, x):
        return self.linear(x) / x.sum(-1, keepdim=True), self.dead(x)


def test_nan_and_constants_are_named():
    torch.manual_seed(0)
    good = [(torch.rand(3, 6) + 0.1,) for _ in range(3)]
    exported = torch.export.export(_Scaled().eval(), good[0])
    result = converted(exported, good)
    report = et.quantization_report(exported, result, [(torch.zeros(3, 6),), *good])
    notes = " ".join(note for row in report.layers for note in row.notes)
    assert "are NaN or infinite" in notes
    dead = [row for row in report.layers if row.module_path == "dead"]
    assert any("all 1 on this data" in note for row in dead for note in row.notes)
    assert "NaN" in report.outputs[0].note
    json.dumps(report.as_dict(), allow_nan=False)


def test_layer_that_became_constant_is_broken(exported, quantized):
    broken = _with_changed_scale(quantized, "conv2d_1", 1e6, "activation")
    report = et.quantization_report(exported, broken, images())
    first = report.rows[0]
    assert first.broken and "same number" in first.notes[0]


# ---------------------------------------------------------------------------------------------------- other flows


def test_dynamic_quantization():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    data = [(torch.randn(5, 16),) for _ in range(4)]
    exported = torch.export.export(model, data[0])
    report = et.quantization_report(exported, converted(exported, data, TinyQuantizer(dynamic=True)), data)
    rows = _rows(report)
    assert report.unmatched == ()
    for name in ("0", "2"):
        assert rows[name].activation.dynamic and rows[name].weight.dtype == "int8"
        both = 10 ** (-rows[name].weight_sqnr_db / 10) + 10 ** (-rows[name].activation_sqnr_db / 10)
        assert rows[name].alone.sqnr_db == pytest.approx(
            -10 * math.log10(both), abs=1.0
        )  # two independent noises add up
    assert not rows["1"].is_quantized


def test_twins_are_told_apart():
    """Three products of one input: only names, modules and weights say which is which."""

    class Twins(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2), -1) @ self.value(x)

    torch.manual_seed(1)
    data = [(torch.randn(2, 5, 8),) for _ in range(3)]
    exported = torch.export.export(Twins().eval(), data[0])
    result = converted(exported, data)
    again = torch.export.export(result, data[0])  # names and origins change once more
    for form in (result, again):
        report = et.quantization_report(exported, form, data)
        assert report.unmatched == (), str(report)
        assert [row.module_path for row in report.layers if row.op == "linear"] == ["query", "key", "value"]
        assert all(row.weight_sqnr_db > 30 for row in report.layers if row.weight is not None)
        assert {row.op for row in report.layers if row.activation and row.weight is None} >= {"matmul"}


def test_eager_model_and_exported_quantized_model(quantized):
    data = images()
    again = torch.export.export(quantized, data[0])
    report = et.quantization_report(net(), again, data)
    assert report.unmatched == ()
    assert report.outputs[0].difference.sqnr_db > 20


def test_outputs_of_the_program_too(exported, quantized):
    program = et.to_edge_transform_and_lower(
        torch.export.export(quantized, images(1)[0]), partitioner=[XnnpackPartitioner(largest=True)]
    ).to_executorch()
    report = et.quantization_report(exported, quantized, images(), program=program)
    by_kind = {row.of: row.difference for row in report.outputs}
    assert set(by_kind) == {"converted", "runtime", "runtime to converted"}
    assert by_kind["runtime to converted"].sqnr_db > 40
    assert by_kind["runtime"].sqnr_db == pytest.approx(by_kind["converted"].sqnr_db, abs=1.0)


def test_integers_at_the_border_are_not_taken_for_values(exported, quantized):
    """A quantized graph that gives its last integers as they are."""
    bare = copy.deepcopy(quantized)
    output = next(node for node in bare.graph.nodes if node.op == "output")
    (dequantize,) = output.all_input_nodes
    output.replace_input_with(dequantize, dequantize.args[0])
    bare.recompile()
    report = et.quantization_report(exported, bare, images(1))
    assert report.outputs[0].note.startswith("not compared: torch.int8")
    assert math.isnan(report.outputs[0].difference.sqnr_db)


class Continued(nn.Module):
    """The network, and a function behind it."""

    def __init__(self, function):
        super().__init__()
        self.net, self.function = net(), function

    def forward(self, x):
        return self.function(self.net(x))


def test_what_has_no_counterpart_is_listed(quantized):
    report = et.quantization_report(Continued(lambda x: torch.sigmoid(x) * 2).eval(), quantized, images())
    assert {item.op for item in report.unmatched} == {"sigmoid", "mul"}
    assert "without counterpart" in report.summary()


def test_of_many_without_counterpart_the_summary_names_a_few(quantized):
    """A line had 6,500 characters where an LSTM was taken apart."""

    def sines(x):
        for _ in range(30):
            x = torch.sin(x)
        return x

    report = et.quantization_report(Continued(sines).eval(), quantized, images())
    assert len(report.unmatched) == 30
    (line,) = (line for line in report.summary().splitlines() if "without counterpart" in line)
    assert line.endswith("sin_11 and 18 more")


def test_nested_outputs_keyword_arguments_and_state():
    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x, *, mask):
            self.count.add_(1)
            return {"y": self.linear(x) * mask + self.count, "ids": x.argmax(-1)}

    torch.manual_seed(0)
    model = Stateful().eval()
    example = {"x": torch.randn(3, 4), "mask": torch.ones(3, 4)}
    exported = torch.export.export(model, (), example)
    module = copy.deepcopy(exported.module())
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(module, TinyQuantizer())
    data = [{"mask": torch.ones(3, 4), "x": torch.randn(3, 4)} for _ in range(4)]  # another order
    for item in data:
        prepared(**item)  # counts on, too: the report must begin where the float model does
    result = convert_pt2e(prepared)
    before = result.count.clone()
    report = et.quantization_report(exported, result, data)
    assert [row.output for row in report.outputs] == ["['y']", "['ids']"]
    assert "100.0 % of the integers are equal" in report.outputs[1].note
    assert torch.equal(result.count, before), "the caller's model has changed"
    assert report.outputs[0].difference.sqnr_db > 25


# ---------------------------------------------------------------------------------------------------- data


def test_data_is_streamed(exported, quantized):
    alive, most = weakref.WeakSet(), 0

    def stream():
        nonlocal most
        for _ in range(30):
            x = torch.randn(2, 3, 10, 10)
            alive.add(x)
            gc.collect()
            most = max(most, len(alive))
            yield (x,)
            del x

    report = et.quantization_report(exported, quantized, stream())
    assert report.num_batches == 30
    assert most <= 3


def test_data_loader_with_a_transform(exported, quantized, report):
    x = torch.cat([item for (item,) in images()])
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, torch.arange(len(x))), batch_size=2)
    other = et.quantization_report(exported, quantized, loader, transform=lambda item: item[0])
    assert other.outputs[0].difference.sqnr_db == pytest.approx(report.outputs[0].difference.sqnr_db, abs=1e-6)
    with pytest.raises(InvalidArgumentError, match="transform"):
        et.quantization_report(exported, quantized, loader)
    assert et.quantization_report(exported, quantized, images(), max_batches=2).num_batches == 2


# ---------------------------------------------------------------------------------------------------- errors


def test_errors_name_what_to_do(exported, quantized):
    data = images(1)
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    with pytest.raises(InvalidArgumentError, match="no item"):
        et.quantization_report(exported, quantized, [])
    with pytest.raises(InvalidTypeError, match="iterable of inputs"):
        et.quantization_report(exported, quantized, data[0][0])
    with pytest.raises(InvalidArgumentError, match="training mode"):
        et.quantization_report(net().train(), quantized, data)
    with pytest.raises(InvalidArgumentError, match="never converted"):
        et.quantization_report(exported, prepare_pt2e(copy.deepcopy(exported.module()), TinyQuantizer()), data)
    with pytest.raises(InvalidArgumentError, match="nothing in the quantized model is quantized"):
        et.quantization_report(exported, exported, data)
    with pytest.raises(InvalidArgumentError, match="swapped"):
        et.quantization_report(quantized, quantized, data)
    with pytest.raises(InvalidArgumentError, match=r"item 1 of the data \(inputs \(2, 3, 10\)\) does not run"):
        et.quantization_report(exported, quantized, [*data, (torch.zeros(2, 3, 10),)])
    with pytest.raises(InvalidTypeError, match="convert_pt2e"):
        et.quantization_report(exported, net(), data)


# ---------------------------------------------------------------------------------------------------- pages


class _Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.count, self.text = [], {}, []

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in ("meta", "link"):
            self.open.append(tag)
        assert not any(value and value.startswith("http") for _, value in attributes), "the page fetches something"

    def handle_startendtag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_page_is_whole_and_escaped(report, tmp_path):
    report.to_html(tmp_path / "report.html", title="<script>alert(1)</script>")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.count["svg"] == 1 and tags.count["table"] == 2
    assert tags.count["tr"] == 2 + len(report.layers) + len(report.outputs)
    for row in report.layers:
        assert row.name in tags.text


def test_plot_and_json(report, tmp_path):
    report.plot(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    report.to_json(tmp_path / "report.json")
    read = json.loads((tmp_path / "report.json").read_text())
    assert [row["name"] for row in read["layers"]] == [row.name for row in report.rows]


def test_text_table(report):
    text = str(report)
    assert "layers, the one that loses most first" in text
    lines = text[text.index("layers, the one") :].splitlines()
    assert len(lines) == 2 + len(report.layers)
    assert lines[2].split()[0] == report.rows[0].name
    losses = [row.alone.sqnr_db for row in report.rows if row.alone is not None]
    assert losses == sorted(losses)
    assert operator.contains(report.table(limit=1), f"and {len(report.layers) - 1} more")


# ------------------------------------------------------------------------------------------------- multiply-accumulates


def test_macs(exported, quantized):
    data = images(1)[0]
    floats, integers = et.count_macs(exported, data), et.count_macs(quantized, data)
    pixels = 2 * 10 * 10
    expected = [pixels * 8 * 3 * 9, pixels * 8 * 8 * 9, pixels * 8 * 8, 2 * 5 * 8]
    assert [row.macs for row in floats.layers] == expected
    assert [row.macs for row in integers.layers] == expected
    assert floats.share("float") == 1 and integers.share("integer") == 1
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        exported.module()(*data)
    assert counter.get_total_flops() == 2 * floats.total


def test_macs_of_other_operators():
    class Others(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2)
            self.lstm = nn.LSTM(6, 7, num_layers=2, batch_first=True)

        def forward(self, image, q, k, v, rows):
            states, _ = self.lstm(rows)
            return self.up(image), F.scaled_dot_product_attention(q, k, v), torch.baddbmm(q, q, k.mT @ k), states

    inputs = (
        torch.randn(2, 4, 3, 3),
        torch.randn(2, 5, 8),
        torch.randn(2, 9, 8),
        torch.randn(2, 9, 8),
        torch.randn(2, 10, 6),
    )
    count = et.count_macs(torch.export.export(Others().eval(), inputs), inputs)
    found = {row.op: row.macs for row in count.layers}
    assert found["conv_transpose2d"] == 2 * 4 * 9 * 3 * 4
    assert found["scaled_dot_product_attention"] == 2 * 2 * 5 * 9 * 8
    assert found["matmul"] == 2 * 8 * 8 * 9
    assert found["baddbmm"] == 2 * 5 * 8 * 8
    assert found["lstm"] == 20 * 4 * 7 * (6 + 7 + 7 + 7)
