"""Whole flows of the tutorials: demonstration backend, quantized border, language model, training, weights."""

from __future__ import annotations

import math
import os
import tempfile
from typing import Any

import torch
from torch import nn
from torch.export import Dim, export
from torch.nn import functional as F

from .shared import PICTURE, XY, Image, Linears, Sums, X, exported, run, same, use, xnnpack


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


class Products(nn.Module):
    def forward(self, a, x, b):
        y = torch.mm(a, x) + b
        a = y - a
        return torch.mm(a, x) + b


SQUARES = tuple(torch.randn(2, 2) for _ in range(3))


def _sine() -> Any:
    to_backend = use("exir.backend.backend_api", "to_backend")
    use("exir.backend.test.backend_with_compiler_demo", "BackendWithCompilerDemo")
    program = use("exir", "to_edge")(export(Sine(), (torch.ones(1),))).exported_program()
    return to_backend("BackendWithCompilerDemo", program, [])


def demo_backend_whole_module():
    lowered = _sine()
    assert lowered.backend_id == "BackendWithCompilerDemo" and b"sin" in lowered.processed_bytes
    assert b"numel:1, dtype:torch.float32" in lowered.processed_bytes
    assert lowered.original_module is not None and len(lowered.buffer()) > 0


def demo_backend_in_a_module():
    class Rest(nn.Module):
        def __init__(self, bias):
            super().__init__()
            self.bias = bias

        def forward(self, a, b):
            return a + b + self.bias

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.rest, self.lowered = Rest(torch.ones(1) * 0.3), _sine()

        def forward(self, x):
            a = self.lowered(x)
            b = self.lowered(a)
            return a, b, self.rest(a, b)

    program = use("exir", "to_edge")(export(Both(), (torch.ones(1),))).exported_program()
    module = program.graph_module
    assert module.lowered_module_0.backend_id == "BackendWithCompilerDemo"
    assert b"sin" in module.lowered_module_0.processed_bytes and module.lowered_module_0.original_module is not None
    calls = [n for n in program.graph.nodes if "call_delegate" in str(n.target)]
    assert len(calls) == 2


def demo_backend_by_partitioner():
    to_backend = use("exir.backend.backend_api", "to_backend")
    partitioner = use("exir.backend.test.op_partitioner_demo", "AddMulPartitionerDemo")
    module = to_backend(use("exir", "to_edge")(exported(Products(), SQUARES)).exported_program(), partitioner())
    for lowered in (module.graph_module.lowered_module_0, module.graph_module.lowered_module_1):
        assert lowered.original_module is not None
        assert lowered.processed_bytes.index(b"mm") < lowered.processed_bytes.index(b"add")


def demo_backend_by_manager():
    partitioner = use("exir.backend.test.op_partitioner_demo", "AddMulPartitionerDemo")
    config, planning = use("exir", "ExecutorchBackendConfig"), use("exir.passes", "MemoryPlanningPass")
    edge = use("exir", "to_edge")(exported(Products(), SQUARES)).to_backend(partitioner())
    program = edge.to_executorch(config(passes=[], memory_planning_pass=planning()))
    assert program.exported_program() is not None and program.buffer
    assert len([n for n in edge.exported_program().graph.nodes if "call_delegate" in str(n.target)]) == 2


def demo_backend_refuses_others():
    to_backend = use("exir.backend.backend_api", "to_backend")
    use("exir.backend.test.backend_with_compiler_demo", "BackendWithCompilerDemo")
    program = use("exir", "to_edge")(exported(Linears(), X)).exported_program()
    try:
        to_backend("BackendWithCompilerDemo", program, [])
    except Exception as error:
        assert "BackendWithCompilerDemo" in str(error)
    else:
        raise AssertionError("an operator that the backend has not was taken")


def several_backends_in_turn():
    to_backend = use("exir.backend.backend_api", "to_backend")
    first, second = use("exir.backend.test.op_partitioner_demo", "AddAttributePartitionerDemo", "AddMulPartitionerDemo")
    program = use("exir", "to_edge")(exported(Products(), SQUARES)).exported_program()
    both = to_backend(to_backend(program, first()), second())
    payloads = [m.processed_bytes for n, m in both.graph_module.named_children() if n.startswith("lowered_module")]
    assert len(payloads) == 4 and sum(b"add" in one for one in payloads) == 2


def partitioners_first_come():
    first = use("exir.backend.test.op_partitioner_demo", "AddAttributePartitionerDemo")
    lower = use("exir", "to_edge_transform_and_lower")
    edge = lower(exported(Sums(), XY), partitioner=[first(), xnnpack()()])
    targets = [str(n.target) for n in edge.exported_program().graph.nodes if n.op == "call_function"]
    assert not any("add" in one for one in targets), targets


def _quantized(model: nn.Module, inputs: tuple) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    prepared = prepare_pt2e(export(model.eval(), inputs).module(), quantizer().set_global(config()))
    prepared(*inputs)
    return export(convert_pt2e(prepared), inputs)


def quantized_border():
    inputs_pass, outputs_pass = use("exir.passes.quantize_io_pass", "QuantizeInputs", "QuantizeOutputs")
    edge = use("exir", "to_edge")(_quantized(Linears(), X))
    edge = edge.transform([inputs_pass(edge, [0]), outputs_pass(edge, [0])])
    names = {
        f"{side}0_{key}" for side in ("input", "output") for key in ("scale", "zp", "quant_min", "quant_max", "dtype")
    }
    assert edge.config_methods == names
    graph = edge.exported_program().graph
    x = next(n for n in graph.nodes if n.name == edge.exported_program().graph_signature.user_inputs[0])
    (result,) = next(reversed(graph.nodes)).args[0]
    assert "dequantize_per_tensor" in str(x.users.copy().popitem()[0].target)
    assert "quantize_per_tensor" in str(result.target) and "dequantize" not in str(result.target)


def quantized_border_refused():
    inputs_pass = use("exir.passes.quantize_io_pass", "QuantizeInputs")
    edge = use("exir", "to_edge")(exported())
    try:
        edge.transform([inputs_pass(edge, [0])])
    except Exception:
        return
    raise AssertionError("an input that is not quantized was taken for one that is")


def quantized_aware_training():
    from torchao.quantization.pt2e import allow_exported_model_train_eval, move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    prepared = prepare_qat_pt2e(export(model, PICTURE).module(), quantizer().set_global(config(is_qat=True)))
    allow_exported_model_train_eval(prepared)
    prepared.train()
    prepared(*PICTURE)
    move_exported_model_to_eval(prepared)
    want = prepared(*PICTURE)
    converted = export(convert_pt2e(prepared), PICTURE)
    program = use("exir", "to_edge_transform_and_lower")(converted, partitioner=[xnnpack()()]).to_executorch()
    same(run(program.buffer, *PICTURE)[0], want, 0.1)


def quantizer_filter():
    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    asked = []
    one = quantizer().set_global(config())
    one.set_filter_function(lambda node: (asked.append(node.name), False)[1])
    module = one.annotate(one.transform_for_annotation(export(Image().eval(), PICTURE).module()))
    assert asked and not any("quantization_annotation" in n.meta for n in module.graph.nodes if "conv" in n.name)


def torchao_on_linears():
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, quantize_

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    quantize_(model, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)))
    x = (torch.randn(3, 64),)
    program = use("exir", "to_edge_transform_and_lower")(export(model, x), partitioner=[xnnpack()()]).to_executorch()
    same(run(program.buffer, *x)[0], model(*x), 0.1)


def torchao_on_embeddings():
    from torchao.quantization.granularity import PerAxis
    from torchao.quantization.quant_api import IntxWeightOnlyConfig, quantize_

    model = nn.Sequential(nn.Embedding(20, 32), nn.Linear(32, 4)).eval()
    config = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
    quantize_(model, config, lambda m, name: isinstance(m, nn.Embedding))
    tokens = (torch.randint(0, 20, (1, 5)),)
    edge = use("exir", "to_edge_transform_and_lower")(export(model, tokens), partitioner=[xnnpack()()])
    assert edge.exported_program() is not None


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (one.view(b, t, 2, 8).transpose(1, 2) for one in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places, self.norm = nn.Embedding(50, 16), nn.Embedding(32, 16), nn.LayerNorm(16)
        self.attention, self.head = Attention(), nn.Linear(16, 50, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        x = x + self.attention(self.norm(x))
        return self.head(F.gelu(x)[:, [-1], :])


METADATA = {"get_bos_id": 1, "get_eos_ids": [2, 3], "get_max_seq_len": 32, "use_kv_cache": False, "get_scale": 0.5}


def _language(longest: int) -> tuple:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    model, tokens = Language().eval(), (torch.randint(0, 50, (1, longest)),)
    shapes = ({1: Dim("length", max=longest)},)
    with sdpa_kernel([SDPBackend.MATH]), torch.no_grad():
        module = export(model, tokens, dynamic_shapes=shapes).module()
        return model, export(module, tokens, dynamic_shapes=shapes)


def _speaks(buffer: bytes, model: nn.Module) -> None:
    for length in (31, 1, 7):
        tokens = torch.randint(0, 50, (1, length))
        same(run(buffer, tokens)[0], model(tokens))


def language_model():
    config = use("exir", "EdgeCompileConfig")(_check_ir_validity=False)
    model, program = _language(31)
    edge = use("exir", "to_edge")(program, constant_methods=METADATA, compile_config=config)
    buffer = edge.to_executorch().buffer
    module = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(buffer)
    assert module.run_method("get_bos_id", ()) == [1] and module.run_method("use_kv_cache", ()) == [False]
    assert module.run_method("get_scale", ()) == [0.5] and set(METADATA) <= set(module.method_names())
    _speaks(buffer, model)


def language_model_on_xnnpack():
    config = use("backends.xnnpack.utils.configs", "get_xnnpack_edge_compile_config")()
    model, program = _language(31)
    lower = use("exir", "to_edge_transform_and_lower")
    edge = lower(program, partitioner=[xnnpack()()], compile_config=config, constant_methods=METADATA)
    info = use("devtools.backend_debug", "get_delegation_info")(edge.exported_program().graph_module)
    assert info.num_delegated_subgraphs >= 1
    _speaks(edge.to_executorch().buffer, model)


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 8, 4))

    def forward(self, x, position):
        self.keys.index_copy_(1, position, x)
        return torch.softmax(x @ self.keys.transpose(1, 2) / math.sqrt(4), -1) @ self.keys


def cache_as_state():
    inputs = (torch.randn(1, 1, 4), torch.tensor([0]))
    program = use("exir", "to_edge")(export(Cache(), inputs)).to_executorch()
    module, eager = (
        use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(program.buffer),
        Cache(),
    )
    for step in range(3):
        x = torch.randn(1, 1, 4)
        same(module.forward([x, torch.tensor([step])])[0], eager(x, torch.tensor([step])))


def state_with_initial_values():
    passes = use("exir.passes.init_mutable_pass", "InitializedMutableBufferPass")
    config = use("exir", "ExecutorchBackendConfig")

    class Places(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache_pos", torch.arange(4.0))

        def forward(self, x):
            self.cache_pos.add_(x)
            return self.cache_pos * 1

    program = use("exir", "to_edge")(export(Places(), (torch.ones(4),)))
    buffer = program.to_executorch(config(passes=[passes(["cache_pos"])])).buffer
    assert run(buffer, torch.ones(4))[0].tolist() == [1, 2, 3, 4]


class Xor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.loss = nn.Linear(2, 10), nn.Linear(10, 2), nn.CrossEntropyLoss()

    def forward(self, x, label):
        guess = self.second(torch.sigmoid(self.first(x)))
        return self.loss(guess, label), guess.detach().argmax(dim=1)


def _joint() -> Any:
    from torch.export.experimental import _export_forward_backward

    joint = _export_forward_backward(export(Xor(), (torch.randn(1, 2), torch.ones(1, dtype=torch.int64))))
    return use("exir", "to_edge")(joint)


def training_graph():
    program = _joint()
    outputs = next(reversed(program.exported_program().graph.nodes)).args[0]
    assert len(outputs) == 6  # loss, guess, and a gradient for each parameter


def training_in_python():
    load, sgd = use("extension.training", "_load_for_executorch_for_training_from_buffer", "get_sgd_optimizer")
    edge = _joint()
    with torch.no_grad():
        buffer = edge.to_executorch().buffer
    module, data = load(buffer), [([1.0, 1.0], 0), ([0.0, 0.0], 0), ([1.0, 0.0], 1), ([0.0, 1.0], 1)]
    optimizer, losses = None, []
    for step in range(40):
        x, label = data[step % 4]
        losses.append(float(module.forward_backward("forward", (torch.tensor([x]), torch.tensor([label])))[0]))
        if optimizer is None:
            optimizer = sgd(module.named_parameters(), 0.1, 0, 0, 0, False)
        optimizer.step(module.named_gradients())
    assert sorted(module.named_gradients()) == ["first.bias", "first.weight", "second.bias", "second.weight"]
    assert all(math.isfinite(one) for one in losses) and losses[0] != losses[4]


def trained_weights_outside():
    config = use("exir", "ExecutorchBackendConfig")(external_mutable_weights=True)
    edge = _joint()
    with torch.no_grad():
        program = edge.to_executorch(config)
    with tempfile.TemporaryDirectory() as folder:
        program.write_tensor_data_to_file(folder)
        (name,) = os.listdir(folder)
        assert name.endswith(".ptd") and os.path.getsize(os.path.join(folder, name)) > 4 * (20 + 10 + 20 + 2)


def weights_apart_from_program():
    tag = use("exir.passes.external_constants_pass", "delegate_external_constants_pass_unlifted")
    model = Linears().eval()
    module = export(model, X).module()
    tag(module=module, gen_tag_fn=lambda node: "model")
    lower = use("exir", "to_edge_transform_and_lower")
    program = lower(export(module, X), partitioner=[xnnpack()()]).to_executorch()
    with tempfile.TemporaryDirectory() as folder:
        program.write_tensor_data_to_file(folder)
        (name,) = os.listdir(folder)
        assert name == "model.ptd"
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
    load = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")
    same(load(program.buffer, data).forward(list(X))[0], model(*X))


def pass_takes_out_copies():
    base, ops = use("exir.pass_base", "ExportPass"), use("exir.dialects._ops", "ops")

    class Without(base):
        def call_operator(self, op, args, kwargs, meta):
            if op not in (ops.edge.aten.clone.default, ops.edge.dim_order_ops._clone_dim_order.default):
                return super().call_operator(op, args, kwargs, meta)
            return args[0]

    class Copies(nn.Module):
        def forward(self, x):
            return (x + 1).clone() * 2

    edge = use("exir", "to_edge")(exported(Copies(), X)).transform([Without()])
    assert not any("clone" in str(n.target) for n in edge.exported_program().graph.nodes)
    same(run(edge.to_executorch().buffer, *X)[0], (X[0] + 1) * 2)


def pass_replaces_a_pattern():
    from torch.fx import subgraph_rewriter

    ops, result = use("exir.dialects._ops", "ops"), use("exir.pass_base", "PassResult")

    def pattern(x, y):
        return ops.edge.aten.mul.Tensor(ops.edge.aten.add.Tensor(x, y), y)

    def replacement(x, y):
        return ops.edge.aten.sub.Tensor(x, y)

    def rewrite(graph_module):
        replaced = subgraph_rewriter.replace_pattern_with_filters(graph_module, pattern, replacement)
        return result(graph_module, len(replaced) == 1)

    graph_module = use("exir", "to_edge")(exported(Sums(), XY)).exported_program().graph_module
    assert rewrite(graph_module).modified
    assert sum("sub" in str(n.target) for n in graph_module.graph.nodes) == 1


def node_and_its_source():
    inspect_node = use("exir.print_program", "inspect_node")
    graph = use("exir", "to_edge")(exported(Image(), PICTURE)).exported_program().graph
    node = next(n for n in graph.nodes if n.op == "call_function" and "conv" in str(n.target))
    text = inspect_node(graph, node)
    assert "stacktrace" in text and "self.conv(x)" in text


def table_of_operators():
    get = use("devtools.backend_debug", "get_delegation_info")
    edge = use("exir", "to_edge_transform_and_lower")(exported(Image(), PICTURE), partitioner=[xnnpack()()])
    info = get(edge.exported_program().graph_module)
    frame = info.get_operator_delegation_dataframe()
    assert list(frame.columns) == ["op_type", "occurrences_in_delegated_graphs", "occurrences_in_non_delegated_graphs"]
    assert frame["op_type"].iloc[-1] == "Total"


def devices_apart():
    config, planning = use("exir", "ExecutorchBackendConfig"), use("exir.passes", "MemoryPlanningPass")
    options = config(enable_non_cpu_memory_planning=True, memory_planning_pass=planning())
    same(run(use("exir", "to_edge")(exported(Sums(), XY)).to_executorch(options).buffer, *XY)[0], Sums()(*XY))


def image_of_any_size():
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(8, 10)
    ).eval()
    shapes = ({2: Dim("h", min=16, max=64), 3: Dim("w", min=16, max=64)},)
    program = export(model, (torch.randn(1, 1, 16, 16),), dynamic_shapes=shapes)
    buffer = use("exir", "to_edge_transform_and_lower")(program, partitioner=[xnnpack()()]).to_executorch().buffer
    method = use("runtime", "Runtime").get().load_program(buffer).load_method("forward")
    for size in ((1, 1, 16, 16), (1, 1, 32, 20), (1, 1, 64, 64)):
        x = torch.randn(size)
        same(method.execute([x])[0], model(x))
