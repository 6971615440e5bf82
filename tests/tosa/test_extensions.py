"""Activations of 16 bits and weights of 4: the payload is what the reference model and the kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from executorch_py.backends.tosa import EthosUPartitioner, TOSAPartitioner, reference
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import InvalidArgumentError
from tests.tosa.alone import as_program
from tests.tosa.test_lowering import CASES, IMAGE, WHOLE_CASES, _left, _quantized, _run
from tests.tosa.tools import assert_same_steps, tosa_python

SPECIFICATION = "TOSA-1.0+INT+int16+int4"
CONFIGURATIONS = {
    "a16w8": quantizer.get_symmetric_a16w8_quantization_config,
    "a8w4": quantizer.get_symmetric_a8w4_quantization_config,
}
#: What has a table of 16 bits, or recurrent states: eager's functions are not straight lines.
FUNCTIONS = {"linear and hardswish", "gelu", "silu", "tanh", "exp", "scaled and shifted", "gate", "lstm", "gru"}
#: What is integers throughout.
NORMS = {"softmax of columns", "layer norm", "layer norm of two dims", "attention", "attention as one operator"}


def _exported(name: str, config: str) -> Any:
    model, inputs = WHOLE_CASES.get(name) or CASES[name]
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS[config]())
    return _quantized(model, inputs, annotating), inputs


def _lowered(exported: Any) -> Any:
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner(SPECIFICATION)])
    assert not [name for name in _left(edge) if "quantize_per_tensor" not in name], et.delegation_report(edge)
    return edge.to_executorch()


def _same_as_the_kernels(name: str, config: str) -> bytes:
    """The payload of the one part."""
    exported, inputs = _exported(name, config)
    program = _lowered(exported)
    plain = et.to_edge_transform_and_lower(exported).to_executorch()
    is_near = config == "a16w8" and name in FUNCTIONS  # tables miss the kinks between their points
    errors = []
    for given in (inputs, *(tuple(torch.randn_like(x) * 2 for x in inputs) for _ in range(12 if is_near else 1))):
        for got, wanted in zip(_run(program, given), _run(plain, given), strict=True):
            if is_near:
                errors.append((got - wanted).abs() / wanted.abs().max())
                assert errors[-1].max() <= 1e-3
            else:
                assert_same_steps(got, wanted)
    assert not errors or torch.stack(errors).mean() <= 1e-4
    (part,) = delegates_of(bytes(program.buffer))
    return bytes(part.payload)


def _same_as_the_reference(payload: bytes, example: list[np.ndarray]) -> None:
    """Over all integers of the inputs' types."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        info = np.iinfo(example[0].dtype)
        inputs = [rng.integers(-info.max, info.max, x.shape, x.dtype, endpoint=True) for x in example]
        wanted = reference.run(payload, inputs, tosa_python())
        file = as_program(payload, inputs, wanted)
        for got, want in zip(et.Runtime.get().load_program(file).load_method("forward").execute(tuple(inputs)), wanted):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("config", CONFIGURATIONS)
@pytest.mark.parametrize("name", [*CASES, *sorted(FUNCTIONS - {"linear and hardswish"}), *sorted(NORMS)])
def test_same_numbers_as_the_kernels(name: str, config: str) -> None:
    _same_as_the_kernels(name, config)


@pytest.mark.parametrize("length", [1, 2, 7, 64, 200, 400])
@pytest.mark.parametrize("layer", [nn.Softmax, nn.LayerNorm])
def test_norms_of_16_bits_are_at_most_one_step_off(layer: type[nn.Module], length: int) -> None:
    """From torch's own quantized graph, which computes them in floats."""
    torch.manual_seed(length)
    model = layer(length) if layer is nn.LayerNorm else layer(-1)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    inputs = (torch.randn(40, length) * 3,)
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS["a16w8"]())
    exported = _quantized(model, inputs, annotating)
    program = _lowered(exported)
    scale = exported.graph.output_node().args[0][0].args[1]
    for given in (inputs[0], inputs[0] * 0.1, torch.randn(40, length)):
        (got,) = _run(program, (given,))
        steps = (got / scale).round() - (exported.module()(given) / scale).round()
        assert steps.abs().max() <= 1, "a few of a hundred round the other way"


def test_rows_that_are_too_long_for_16_bits() -> None:
    model, inputs = nn.Softmax(-1), (torch.randn(2, 600),)
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS["a16w8"]())
    partitioner = TOSAPartitioner(SPECIFICATION)
    et.to_edge_transform_and_lower(_quantized(model, inputs, annotating), partitioner=[partitioner])
    assert "a softmax over more than 511 elements of 16 bits" in " ".join(partitioner.refusals.values())


@pytest.mark.tosa
@pytest.mark.parametrize("config", CONFIGURATIONS)
@pytest.mark.parametrize(
    "name",
    ["conv and relu6", "depthwise conv, two results a channel", "conv in groups", "1-D conv", "transposed conv"]
    + ["average pool", "adaptive pool", "scaled by channel", "concatenation of slices", "gate", "lstm"]
    + ["softmax of columns", "layer norm", "attention"],
)
def test_every_bit_is_the_reference_models(name: str, config: str) -> None:
    payload = _same_as_the_kernels(name, config)
    dtype = np.int16 if config == "a16w8" else np.int8
    _same_as_the_reference(payload, [np.zeros(x.shape, dtype) for x in (WHOLE_CASES.get(name) or CASES[name])[1]])


@pytest.mark.tosa
def test_deep_products_of_16_bits() -> None:
    """Sums beyond 32 bits lose bits before they are scaled, in the kernels and in the payload."""
    model, inputs = nn.Linear(3000, 3), (torch.randn(4, 3000),)
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS["a16w8"]())
    exported = _quantized(model, inputs, annotating)
    program = _lowered(exported)
    plain = et.to_edge_transform_and_lower(exported).to_executorch()
    for x in (*inputs, torch.randn(4, 3000) * 3):
        assert torch.equal(_run(program, (x,))[0], _run(plain, (x,))[0])
    _same_as_the_reference(bytes(delegates_of(bytes(program.buffer))[0].payload), [np.zeros((4, 3000), np.int16)])


class _Scaled(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.first = function, nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.first(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 0.3,
        lambda x: x / 8,
        lambda x: torch.relu(x * torch.tensor(0.7)),
        lambda x: x.clamp(-0.2, 0.4) * 2,
        lambda x: (x * 3).clamp_min(0.1),
        lambda x: torch.relu(torch.cat([x, x], 1)),
        lambda x: nn.functional.relu6(x * 4) * 0.25,
    ],
)
def test_a_scaling_of_16_bits_wants_no_table(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """So that U55 has it, which has no such table: it is a RESCALE."""
    torch.manual_seed(0)
    inputs = (torch.randn(40, 8),)
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS["a16w8"]())
    exported = _quantized(_Scaled(function), inputs, annotating)
    partitioner = TOSAPartitioner(SPECIFICATION, "ethos-u55-128")
    program = et.to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    assert all("quantize_per" in name for name in partitioner.refusals), partitioner.refusals
    plain = et.to_edge_transform_and_lower(exported).to_executorch()
    for given in (inputs, (inputs[0] * 3,)):
        assert_same_steps(_run(program, given)[0], _run(plain, given)[0])


class _Product(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y


def test_products_far_beyond_their_result() -> None:
    """Samples in which one factor is always small: RESCALE multiplies by so much that not every product may come."""
    small = torch.tensor([[1.0, 1e-5]])
    inputs = (small, small.flip(1))
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS["a16w8"]())
    exported = quantizer.quantize(_Product().eval(), inputs, annotating, [inputs])
    program, plain = _lowered(exported), et.to_edge_transform_and_lower(exported).to_executorch()
    ones = torch.ones(1, 2)
    for given in (inputs, (ones, ones), (ones, -ones), (ones, small * 3), (-small, ones * 2e-5)):
        assert torch.equal(_run(program, given)[0], _run(plain, given)[0])


def test_weights_of_4_bits_stay_so() -> None:
    """Only where the specification has them."""
    model, inputs = nn.Linear(512, 64), (torch.randn(1, 512),)
    annotating = quantizer.TOSAQuantizer(SPECIFICATION).set_global(CONFIGURATIONS["a8w4"]())
    exported = _quantized(model, inputs, annotating)
    sizes = {}
    for specification in (SPECIFICATION, "TOSA-1.0+INT"):
        partitioner = TOSAPartitioner(specification)
        program = et.to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
        sizes[specification] = len(delegates_of(bytes(program.buffer))[0].payload)
    assert sizes["TOSA-1.0+INT"] - sizes[SPECIFICATION] == 512 * 64 // 2


def test_16_bits_without_the_extension_stay_outside() -> None:
    exported, inputs = _exported("conv and relu", "a16w8")
    partitioner = TOSAPartitioner("TOSA-1.0+INT")
    program = et.to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    assert "which a specification has with the extension int16" in " ".join(partitioner.refusals.values())
    plain = et.to_edge_transform_and_lower(exported).to_executorch()
    assert torch.equal(_run(program, inputs)[0], _run(plain, inputs)[0])


@pytest.mark.parametrize("text", ["TOSA-1.0+INT+fp16", "TOSA-1.0+INTint4", "TOSA-1.0", "TOSA-1.0+INT+"])
def test_specifications_that_are_not_known(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"must be TOSA-1\.0\+INT, where \+int16 and \+int4 may follow"):
        TOSAPartitioner(text)


@pytest.mark.tosa
@pytest.mark.parametrize("config", CONFIGURATIONS)
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_vela_takes_them(accelerator: str, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """U55 has no table of 16 bits: there the function stays outside, with that reason."""
    monkeypatch.setenv("ET_TOSA_PYTHON", str(tosa_python()))
    layers = (nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6), nn.AvgPool2d(2), nn.Sigmoid())
    annotating = quantizer.EthosUQuantizer(accelerator).set_global(CONFIGURATIONS[config]())
    exported = _quantized(nn.Sequential(*layers), IMAGE, annotating)
    partitioner = EthosUPartitioner(accelerator)
    et.to_edge_transform_and_lower(exported, partitioner=[partitioner])
    outside = [(name, why) for name, _, why in partitioner.report.on_cpu]
    if (accelerator, config) == ("ethos-u55-128", "a16w8"):
        assert [name for name, _ in outside] == ["aten.sigmoid.default"]
        assert "a function of 16 bits, ethos-u55 has tables of 8" in outside[0][1]
    else:
        assert not outside
    assert partitioner.report.cycles > 0


class _Scores(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x.transpose(-1, -2)


@pytest.mark.tosa
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_products_of_activations_of_16_bits(accelerator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vela has them for U85; our table says so before it is asked."""
    monkeypatch.setenv("ET_TOSA_PYTHON", str(tosa_python()))
    annotating = quantizer.EthosUQuantizer(accelerator).set_global(CONFIGURATIONS["a16w8"]())
    exported = _quantized(
        nn.Sequential(nn.Linear(8, 8), _Scores(), nn.Linear(4, 4)), (torch.randn(2, 4, 8),), annotating
    )
    partitioner = EthosUPartitioner(accelerator)
    et.to_edge_transform_and_lower(exported, partitioner=[partitioner])
    reasons = {name: why for name, _, why in partitioner.report.on_cpu}
    if accelerator == "ethos-u85-256":
        assert not reasons
    else:
        assert "a product of activations of 16 bits" in reasons["aten.bmm.default"]
        assert not any("Vela refuses" in why for why in reasons.values())
