"""Faults planted in MobileNetV2, a BERT encoder and an LSTM, delegated and not: tools name line, module and cause."""

import inspect
import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import quantizer
from executorch_py.codegen.flatbuffer import read_root
from executorch_py.devtools import Inspector, TimeScale, first_divergence
from executorch_py.devtools.inspector.events import BETWEEN
from executorch_py.devtools.inspector.record_map import nodes_by_handle
from executorch_py.lowering.config import ExecutorchBackendConfig
from tests.models.zoo import ZOO, Recurrent, settle

DELEGATED = [XnnpackPartitioner(largest=True)]


def mobilenet_v2():
    import torchvision

    torch.manual_seed(0)
    return settle(torchvision.models.mobilenet_v2(weights=None)), (torch.rand(1, 3, 64, 64),)


class Encoder(torch.nn.Module):
    """A BERT encoder as MiniLM is one, small and with random weights."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel

        torch.manual_seed(0)
        sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
        config = BertConfig(vocab_size=100, max_position_embeddings=32, **sizes)
        config._attn_implementation = "eager"
        self.bert = BertModel(config, add_pooling_layer=False).eval()

    def forward(self, tokens):
        return self.bert(tokens).last_hidden_state.mean(1)


def minilm():
    return Encoder().eval(), (torch.arange(12).reshape(1, 12),)


def lstm():
    torch.manual_seed(0)
    return Recurrent(torch.nn.LSTM).eval(), (torch.rand(2, 6, 16),)


MODELS = {"mobilenet_v2": mobilenet_v2, "minilm": minilm, "lstm": lstm}
#: A layer inside of each, and the function whose line calls it.
LAYERS = {
    "mobilenet_v2": ("features.8.conv.2", "InvertedResidual.forward"),
    "minilm": ("bert.encoder.layer.1.intermediate.dense", "BertIntermediate.forward"),
    "lstm": ("classifier", "Recurrent.forward"),
}


def lowered(model, inputs, partitioner=None):
    exported = model if isinstance(model, torch.export.ExportedProgram) else torch.export.export(model, inputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner)
    return edge.to_executorch(ExecutorchBackendConfig(sparse_weights=False))


def line_of(model, path, function):
    """The lines of the function, of the module around the layer, that may be told."""
    owner = model
    for name in path.split(".")[:-1] if path != "classifier" else []:
        owner = getattr(owner, name)
        if type(owner).__name__ == function.partition(".")[0]:
            break
    lines, first = inspect.getsourcelines(type(owner).forward)
    return inspect.getsourcefile(type(owner)).rpartition("/")[2], range(first, first + len(lines))


def names_line(where, model, path, function):
    file, lines = line_of(model, path, function)
    name, _, number = where.rpartition(":")
    return name.endswith(file) and int(number) in lines


def weight_in_file(model, path):
    """The layer's weight as the file has it: a batch norm behind it is folded in."""
    layer = model.get_submodule(path)
    weight = layer.weight.detach().double()
    parent, _, index = path.rpartition(".")
    following = model.get_submodule(parent)[int(index) + 1] if index.isdigit() else None
    if isinstance(following, torch.nn.BatchNorm2d):
        factor = following.weight.double() / (following.running_var.double() + following.eps).sqrt()
        weight = weight * factor.reshape(-1, *[1] * (weight.dim() - 1))
    return weight.detach().float().reshape(-1).numpy()


def with_other_weight(program, values):
    """The program with a weight whose values stand in reverse, which only the file shows."""
    data = np.frombuffer(program.buffer[: len(program.buffer) // 4 * 4], np.float32)
    places = [
        place
        for place in np.flatnonzero(np.isclose(data, values[0], rtol=1e-5))
        if np.allclose(data[place : place + values.size], values, rtol=1e-4, atol=1e-7)
    ]
    assert len(places) == 1, f"the weight is {len(places)} times in the file"
    changed = bytearray(program.buffer)
    start = 4 * int(places[0])
    changed[start : start + 4 * values.size] = data[places[0] : places[0] + values.size][::-1].tobytes()
    program.__dict__["buffer"] = bytes(changed)
    return program


@pytest.mark.parametrize("partitioner", [None, DELEGATED])
@pytest.mark.parametrize("name", MODELS)
def test_no_fault_no_report(name, partitioner):
    model, inputs = MODELS[name]()
    assert first_divergence(lowered(model, inputs, partitioner), model, inputs) is None


@pytest.mark.parametrize("partitioner", [None, DELEGATED])
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_that_computes_something_else(name, partitioner):
    model, inputs = MODELS[name]()
    path, function = LAYERS[name]
    program = with_other_weight(lowered(model, inputs, partitioner), weight_in_file(model, path))
    found = first_divergence(program, model, inputs)
    assert found.module_path.startswith(path.rpartition(".")[0]), str(found)
    assert names_line(found.where, model, path, function), str(found)
    if partitioner is not None:
        assert found.cause == "delegate" and "XnnpackBackend" in found.what
    else:
        assert found.cause in ("kernel", "fusion")


@pytest.mark.parametrize("partitioner", [None, DELEGATED])
def test_a_recurrent_layer_that_computes_something_else(partitioner):
    model, inputs = lstm()
    weight = model.recurrent.weight_hh_l0.detach().reshape(-1).numpy()
    found = first_divergence(with_other_weight(lowered(model, inputs, partitioner), weight), model, inputs)
    assert found.module_path == "recurrent" and found.cause == "kernel" and "lstm" in found.what, str(found)
    assert names_line(found.where, model, "classifier", "Recurrent.forward"), str(found)


@pytest.mark.parametrize(
    ("name", "old", "new", "module", "text"),
    [
        ("mobilenet_v2", b"aten::add\0", b"aten::sub\0", "features.3", "x + self.conv(x)"),
        ("minilm", b"aten::gelu\0", b"aten::silu\0", "bert.encoder.layer.0.intermediate", "act"),
        ("minilm", b"aten::add\0", b"aten::sub\0", "bert.embeddings", "embeddings"),
    ],
)
def test_a_wrong_kernel(name, old, new, module, text):
    model, inputs = MODELS[name]()
    program = lowered(model, inputs)
    assert old in program.buffer
    program.__dict__["buffer"] = program.buffer.replace(old, new)
    if new == b"aten::silu\0":  # takes no second argument: the file is refused, and says where
        with pytest.raises(et.ExecutorchError, match=r"instruction 16: aten::silu\.out has 4 arguments"):
            et.Runtime.get().load_program(program.buffer).load_method("forward")
        return
    found = first_divergence(program, model, inputs)
    assert found.cause == "kernel" and found.module_path.startswith(module), str(found)
    file, _, number = found.where.rpartition(":")
    owner = model.get_submodule(module)
    source = inspect.getsourcefile(type(owner))
    assert source.endswith(file) and text in Path(source).read_text().splitlines()[int(number) - 1]


class Slow(torch.nn.Module):
    """A layer, and far more work than all of the model around it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.register_buffer("table", torch.randn(768, 768) / 30)

    def forward(self, *args, **kwargs):
        result = self.layer(*args, **kwargs)
        slow = torch.mm(self.table + result.mean(), self.table)
        slow = torch.mm(slow, self.table)
        return result + 0 * slow.mean()


SLOW_LINES = range(inspect.getsourcelines(Slow.forward)[1] + 2, inspect.getsourcelines(Slow.forward)[1] + 4)


@pytest.mark.parametrize("partitioner", [None, DELEGATED])
@pytest.mark.parametrize("name", MODELS)
def test_a_slow_layer(name, partitioner):
    model, inputs = MODELS[name]()
    path = LAYERS[name][0]
    parent, _, own = path.rpartition(".")
    setattr(model.get_submodule(parent), own, Slow(model.get_submodule(path)))
    program = lowered(model, inputs, partitioner)
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True)
    method = loaded.load_method("forward")
    for _ in range(5):
        method.execute(inputs)
    inspector = Inspector.of(loaded, program.get_etrecord(), target_time_scale=TimeScale.US)
    lines = inspector.by_line().rows
    slow = [row for row in lines if row.key in {f"tests/devtools/test_planted_faults.py:{n}" for n in SLOW_LINES}]
    assert {row.key for row in lines[: len(slow)]} == {row.key for row in slow}, str(inspector.by_line())
    assert sum(inspector.by_line().share(row) for row in slow) > 0.5
    modules = {row.key: row for row in inspector.by_module().rows}
    assert inspector.by_module().share(modules[path]) > 0.5


@pytest.mark.parametrize("partitioner", [None, DELEGATED])
@pytest.mark.parametrize("name", MODELS)
def test_events_add_up_to_the_measured_time(name, partitioner):
    """Of the execution's own span, instructions alone: the median over runs, as a busy machine stretches any one."""
    method = ZOO[name]()["forward"]
    program = lowered(method.module, method.inputs, partitioner)
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True)
    running = loaded.load_method("forward")
    for _ in range(11):
        running.execute(method.inputs)
    inspector = Inspector.of(loaded, program.get_etrecord(), target_time_scale=TimeScale.NS)
    (whole,) = [e for block in inspector.event_blocks for e in block.events if e.name == "Method::execute"]
    instructions = [event for event in inspector.events() if event.name != BETWEEN]
    total = np.sum([event.perf_data.raw for event in instructions], axis=0)
    assert 0.95 <= np.median(total / np.array(whole.perf_data.raw)) <= 1.0
    if partitioner is None:
        assert len(instructions) == running.metadata.num_instructions()
    else:
        assert any("beside its operators" in event.name for event in instructions)
    assert inspector.by_line().total.raw == pytest.approx(whole.perf_data.raw)


def outlier_in_mobilenet_v2(model):
    """One channel of an expanding convolution is huge, and the layer behind makes it small again."""
    model.features[8].conv[0][1].weight *= 5
    model.features[8].conv[0][1].bias[3] = 3000.0
    model.features[8].conv[0][2] = torch.nn.ReLU()
    model.features[8].conv[1][0].weight[3] *= 1e-4
    return "features.8.conv.0"


def outlier_in_minilm(model):
    layer = model.bert.encoder.layer[1]
    layer.intermediate.dense.bias[5] = 3000.0
    layer.output.dense.weight[:, 5] = 0
    return "bert.encoder.layer.1.intermediate"


def outlier_in_lstm(model):
    """In the first of two layers behind the recurrent one, which itself stays in float32."""
    model.classifier = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 10))
    model.classifier[0].bias[5] = 3000.0
    model.classifier[1].weight[:, 5] = 0
    return "classifier.0"


OUTLIERS = {"mobilenet_v2": outlier_in_mobilenet_v2, "minilm": outlier_in_minilm, "lstm": outlier_in_lstm}


@pytest.mark.filterwarnings("ignore:few integers")
@pytest.mark.parametrize("partitioner", [None, DELEGATED])
@pytest.mark.parametrize("name", MODELS)
def test_a_quantized_layer_with_an_outlier(name, partitioner):
    model, inputs = MODELS[name]()
    with torch.no_grad():
        path = OUTLIERS[name](model)
    quantized = quantizer.quantize(model, inputs, "static_int8", [inputs] * 4)
    found = first_divergence(lowered(quantized, inputs, partitioner), model, inputs)
    assert found is not None and found.cause == "quantization", str(found)
    assert found.what == "an outlier" and found.module_path.startswith(path), str(found)
    assert found.where and "90 % of its values" in str(found)


def payload_in_file(data):
    """Where the first delegate's payload lies in a program."""
    root, base = read_root(data, b"ET12"), struct.unpack_from("<Q", data, 24)[0]
    delegate = root.tables(1)[0].tables(7)[0]
    segment = root.tables(4)[delegate.table(1).scalar(1, "I")]
    return base + segment.scalar(0, "Q"), segment.scalar(1, "Q")


@pytest.mark.parametrize("name", MODELS)
def test_a_failing_delegate(name):
    """A damaged payload: the error names the backend and the method, and the operator with its line where one fails."""
    model, inputs = MODELS[name]()
    data = bytearray(lowered(model, inputs, DELEGATED).buffer)
    start, size = payload_in_file(bytes(data))
    random.seed(0)
    told = []
    for place in random.sample(range(start + 8, start + size), min(size - 8, 300)):
        old, data[place] = data[place], data[place] ^ 0x55
        try:
            et.Runtime.get().load_program(bytes(data)).load_method("forward")
        except et.ExecutorchError as error:
            told.append(str(error))
        data[place] = old
    assert told and all("method 'forward'" in text and "XnnpackBackend" in text for text in told)
    steps = [text for text in told if "XnnpackBackend, aten." in text]
    assert steps, told[:3]
    names = {module for module, _ in model.named_modules()}
    for text in steps:
        module, file = re.search(r"module '([^']*)', (\S+?):\d+", text).groups()
        assert module in names and file.endswith(
            ("mobilenetv2.py", "modeling_bert.py", "zoo.py", "test_planted_faults.py")
        )


class Shuffled(torch.nn.Module):
    """A layer, and one of four operators that reads its values by a table of places."""

    def __init__(self, layer, numel, kind):
        super().__init__()
        self.layer, self.kind = layer, kind
        self.register_buffer("places", torch.randperm(numel))

    def forward(self, *args):
        result = self.layer(*args)
        values = result.flatten()
        if self.kind == "index_select":
            values = values.index_select(0, self.places)
        elif self.kind == "gather":
            values = values.gather(0, self.places)
        elif self.kind == "index":
            values = values[self.places]
        else:
            values = torch.nn.functional.embedding(self.places, values[:, None])
        return values.reshape(result.shape)


def shuffled(model, inputs, path, kind):
    """Puts ``Shuffled`` in a layer's place."""
    sizes = []
    layer = model.get_submodule(path)
    hook = layer.register_forward_hook(lambda module, args, result: sizes.append(result.numel()))
    model(*inputs)
    hook.remove()
    parent, _, own = path.rpartition(".")
    setattr(model.get_submodule(parent), own, Shuffled(layer, sizes[0], kind))
    return model.get_submodule(path).places


@pytest.mark.parametrize("kind", ["index_select", "gather", "index", "embedding"])
@pytest.mark.parametrize("partitioner", [None, DELEGATED])
@pytest.mark.parametrize("name", MODELS)
def test_a_failing_kernel(name, partitioner, kind):
    """A place behind the end, in a layer drawn by chance: the error names operator, handle, module and line."""
    model, inputs = MODELS[name]()
    layers = [path for path, one in model.named_modules() if isinstance(one, (torch.nn.Linear, torch.nn.Conv2d))]
    path = random.Random(f"{name} {kind} {partitioner is None}").choice(layers)
    places = shuffled(model, inputs, path, kind)
    program = lowered(model, inputs, partitioner)
    before = places.numpy().tobytes()
    assert program.buffer.count(before) == 1
    damaged = program.buffer.replace(before, (places + (places == places[-1]) * 2 * places.numel()).numpy().tobytes())
    with pytest.raises(et.InvalidArgumentError, match=r"index \d+ .*is out of range") as caught:
        et.Runtime.get().load_program(damaged).load_method("forward").execute(inputs)
    (told,) = caught.value.diagnostics
    lines, first = inspect.getsourcelines(Shuffled.forward)
    assert kind in lines[told.line - first] or "[self.places]" in lines[told.line - first], str(told)
    assert told.file.endswith("tests/devtools/test_planted_faults.py") and told.module_path == path
    assert told.op.startswith(f"aten::{kind}.") and f"{told.op} (handle {told.debug_handle})" in str(caught.value)
    nodes = nodes_by_handle(program.get_etrecord().edge_programs()["forward"])[told.debug_handle]
    assert any(kind in str(node.target) for node in nodes), nodes
