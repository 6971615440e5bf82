"""Quantization: the XNNPACK quantizer's choices, several quantizers, one of your own, what converted models do."""

from __future__ import annotations

import copy
import os
import tempfile
from typing import Any

import torch
from torch import nn
from torch.export import export

from .shared import PICTURE, Image, Linears, X, run, same, use, xnnpack


def _names() -> Any:
    return use("backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config")


def _prepared(quantizer: Any, model: nn.Module, inputs: tuple) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    prepared = prepare_pt2e(export(model.eval(), inputs).module(), quantizer)
    prepared(*inputs)
    return prepared


def _converted(quantizer: Any, model: nn.Module, inputs: tuple) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    return convert_pt2e(_prepared(quantizer, model, inputs))


def _weights_quantized(module: Any, operator: str) -> list[bool]:
    """Of each node of an operator, whether its weight was dequantized."""
    return [
        "dequantize" in str(node.args[1].target)
        for node in module.graph.nodes
        if node.op == "call_function" and f"aten.{operator}." in str(node.target)
    ]


def quantizer_by_module_name():
    quantizer, config = _names()
    one = quantizer().set_module_name(module_name="a", quantization_config=config(is_per_channel=True))
    assert _weights_quantized(_converted(one, Linears(), X), "linear") == [True, False]


def quantizer_by_module_type():
    quantizer, config = _names()
    one = quantizer().set_module_type(module_type=nn.Linear, quantization_config=config())
    converted = _converted(one, Image(), PICTURE)
    assert _weights_quantized(converted, "conv2d") == [False] and _weights_quantized(converted, "linear") == [True]


def quantizer_by_operator():
    quantizer, config = _names()
    one = quantizer().set_operator_type(operator_type=torch.ops.aten.conv2d.default, quantization_config=config())
    converted = _converted(one, Image(), PICTURE)
    assert _weights_quantized(converted, "conv2d") == [True] and _weights_quantized(converted, "linear") == [False]


def quantizer_filters_nodes():
    quantizer, config = _names()
    one = quantizer().set_global(config())
    one.set_filter_function(filter_fn=lambda node: "linear" in node.name)
    converted = _converted(one, Image(), PICTURE)
    assert _weights_quantized(converted, "conv2d") == [False] and _weights_quantized(converted, "linear") == [True]


def quantizer_ranges():
    """The limits of weights and activations are those of the configuration."""
    quantizer, config = _names()
    one = quantizer().set_global(config(act_qmin=-100, act_qmax=99, weight_qmin=-63, weight_qmax=63))
    converted = _converted(one, Linears(), X)
    limits = {
        tuple(node.args[3:5])
        for node in converted.graph.nodes
        if node.op == "call_function" and "quantize_per_tensor" in str(node.target)
    }
    assert (-100, 99) in limits and (-63, 63) in limits, limits


def quantizer_per_channel_scales():
    quantizer, config = _names()
    converted = _converted(quantizer().set_global(config(is_per_channel=True)), Linears(), X)
    per_channel = [n for n in converted.graph.nodes if "dequantize_per_channel" in str(n.target)]
    assert len(per_channel) == 2


def quantizer_dynamic_scales():
    quantizer, config = _names()
    converted = _converted(quantizer().set_global(config(is_per_channel=True, is_dynamic=True)), Linears(), X)
    chosen = [n for n in converted.graph.nodes if "choose_qparams" in str(n.target)]
    assert len(chosen) == 2


def quantizers_composed():
    from torchao.quantization.pt2e.quantizer import ComposableQuantizer

    quantizer, config = _names()
    static = quantizer().set_operator_type(torch.ops.aten.conv2d.default, config())
    dynamic = quantizer().set_module_type(nn.Linear, config(is_dynamic=True))
    converted = _converted(ComposableQuantizer([static, dynamic]), Image(), PICTURE)
    assert _weights_quantized(converted, "conv2d") == [True]
    assert sum("choose_qparams" in str(n.target) for n in converted.graph.nodes) == 1


def quantizer_of_your_own():
    """Annotations say what goes into a node and comes out of it; a shared one takes another's scale."""
    from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver
    from torchao.quantization.pt2e.quantizer import (
        QuantizationAnnotation,
        QuantizationSpec,
        Quantizer,
        SharedQuantizationSpec,
    )

    activation = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=2**-12),
    )
    weight = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_tensor_symmetric,
        observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=2**-12),
    )

    class Mine(Quantizer):
        def annotate(self, model):
            for node in model.graph.nodes:
                if node.target == torch.ops.aten.linear.default:
                    source, matrix = node.args[:2]
                    node.meta["quantization_annotation"] = QuantizationAnnotation(
                        input_qspec_map={source: activation, matrix: weight},
                        output_qspec=activation,
                        _annotated=True,
                    )
                elif node.target == torch.ops.aten.relu.default:
                    edge = (node.args[0], node)
                    node.meta["quantization_annotation"] = QuantizationAnnotation(
                        input_qspec_map={node.args[0]: activation},
                        output_qspec=SharedQuantizationSpec(edge),
                        _annotated=True,
                    )
            return model

        def validate(self, model):
            return None

    model = Linears()
    converted = _converted(Mine(), model, X)
    same(converted(*X), model(*X), 0.1)
    program = use("exir", "to_edge_transform_and_lower")(export(converted, X), partitioner=[xnnpack()()])
    same(run(program.to_executorch().buffer, *X)[0], converted(*X), 0.05)


def quantized_model_is_saved():
    quantizer, config = _names()
    converted = _converted(quantizer().set_global(config(is_per_channel=True)), Image(), PICTURE)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "quantized.pt2")
        torch.export.save(export(converted, PICTURE), path)
        loaded = torch.export.load(path)
    same(loaded.module()(*PICTURE), converted(*PICTURE))
    program = use("exir", "to_edge_transform_and_lower")(loaded, partitioner=[xnnpack()()]).to_executorch()
    same(run(program.buffer, *PICTURE)[0], converted(*PICTURE), 0.05)


def quantized_without_a_backend():
    """Portable kernels run what is not delegated."""
    use("kernels.quantized")
    quantizer, config = _names()
    converted = _converted(quantizer().set_global(config()), Linears(), X)
    program = use("exir", "to_edge")(
        export(converted, X), compile_config=use("exir", "EdgeCompileConfig")(_check_ir_validity=False)
    ).to_executorch()
    same(run(program.buffer, *X)[0], converted(*X), 0.05)


def quantized_weights_are_smaller():
    quantizer, config = _names()
    model, x = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).eval(), (torch.randn(1, 256),)
    lower = use("exir", "to_edge_transform_and_lower")
    plain = lower(export(model, x), partitioner=[xnnpack()()]).to_executorch()
    converted = _converted(quantizer().set_global(config(is_per_channel=True)), copy.deepcopy(model), x)
    small = lower(export(converted, x), partitioner=[xnnpack()()]).to_executorch()
    assert len(small.buffer) < 0.4 * len(plain.buffer)


def batch_norm_is_folded():
    quantizer, config = _names()
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    with torch.no_grad():
        model[1].running_mean.uniform_(-1, 1)
        model[1].running_var.uniform_(0.5, 2)
    want = model(*PICTURE)
    converted = _converted(quantizer().set_global(config(is_per_channel=True)), model, PICTURE)
    assert not any("batch_norm" in str(n.target) for n in converted.graph.nodes)
    same(converted(*PICTURE), want, 0.1)


def language_model_quantized():
    """As the page on language models of one's own: dynamic, per channel, then lowered to XNNPACK."""
    from .tutorials import Language

    quantizer, config = _names()
    tokens = (torch.randint(0, 50, (1, 9)),)
    torch.manual_seed(0)
    model = Language().eval()
    one = quantizer().set_global(config(is_per_channel=True, is_dynamic=True))
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]), torch.no_grad():
        converted = _converted(one, model, tokens)
        program = export(converted, tokens)
    edge_config = use("backends.xnnpack.utils.configs", "get_xnnpack_edge_compile_config")()
    lower = use("exir", "to_edge_transform_and_lower")
    edge = lower(program, partitioner=[xnnpack()()], compile_config=edge_config)
    same(run(edge.to_executorch().buffer, *tokens)[0], converted(*tokens), 0.05)
