"""Programs and their modules as models: whether they train is in their graph; batch norms that no convolution takes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError, InvalidStateError

IMAGES = [torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(i)) for i in range(4)]
EXAMPLE = (IMAGES[0],)


def model() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(128, 4)]
    return nn.Sequential(*layers).eval()


def in_front() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.BatchNorm2d(3), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(128, 4)]
    return nn.Sequential(*layers, nn.ReLU(), nn.BatchNorm1d(4)).eval()


def test_the_module_of_a_program():
    exported = torch.export.export(model(), EXAMPLE)
    expected = quantizer.quantize(exported, (), "static_int8", IMAGES).module()(*EXAMPLE)
    program = quantizer.quantize(exported.module(), EXAMPLE, "static_int8", IMAGES)
    assert torch.equal(program.module()(*EXAMPLE), expected)
    prepared = quantizer.prepare_qat(exported.module(), EXAMPLE)
    prepared.train()
    prepared(*EXAMPLE)
    quantizer.convert(prepared)
    with pytest.raises(InvalidStateError, match="quantized already"):
        quantizer.quantize(program.module(), EXAMPLE, "static_int8", IMAGES)


@pytest.mark.parametrize("form", [lambda exported: exported, lambda exported: exported.module()])
@pytest.mark.parametrize(
    ("make", "words"),
    [(model, "batch_norm.* is in training mode"), (lambda: nn.Sequential(nn.Dropout(0.5), *model()[4:]), "dropout")],
)
def test_programs_that_train(make: Callable[[], nn.Module], words: str, form: Callable[[Any], Any]):
    """They were quantized as they train: statistics of each batch, values left out by chance."""
    image = (torch.randn(4, 8, 4, 4),) if words == "dropout" else EXAMPLE
    exported = torch.export.export(make().train(), image)
    with pytest.raises(InvalidStateError, match=words):
        quantizer.quantize(form(exported), image, "dynamic_int8")


class Standardized(nn.Conv2d):
    """As ResNets with weight standardization have it: a batch norm of the filter, without statistics of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filters = self.weight.reshape(1, self.out_channels, -1)
        weight = nn.functional.batch_norm(filters, None, None, training=True, momentum=0.0).reshape_as(self.weight)
        return nn.functional.conv2d(x, weight, self.bias)


UNTRACKED = {
    "filters": lambda: nn.Sequential(Standardized(3, 8, 3), nn.ReLU(), Standardized(8, 4, 1)),
    "batches": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False), nn.Conv2d(8, 4, 1)
    ),
    "instances": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.Conv2d(8, 4, 1)),
}


@pytest.mark.parametrize("flow", ["static_int8", "training"])
@pytest.mark.parametrize("name", UNTRACKED)
def test_norms_without_statistics_are_the_same_in_both_modes(name: str, flow: str):
    """They were taken for layers in training mode and refused; a convolution before one stayed float."""
    torch.manual_seed(0)
    layers = UNTRACKED[name]().eval()
    exact = layers(*EXAMPLE)
    program = _training(layers) if flow == "training" else quantizer.quantize(layers, EXAMPLE, flow, IMAGES)
    manager = et.to_edge_transform_and_lower(program).to_executorch()
    assert manager.dump().count("et::quantized_convolution.out") == 2
    (out,) = et.Runtime.get().load_program(manager.buffer).load_method("forward").execute(EXAMPLE)
    assert 10 * torch.log10(exact.square().mean() / (out - exact).square().mean()) > 28


def test_instance_norms_train_and_stop_training():
    """Their running statistics went on following the data in eval mode, and in the converted program."""
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, track_running_stats=True), nn.Conv2d(8, 4, 1)
    ).eval()
    like = copy.deepcopy(layers).train()
    program = _training(layers)
    assert not any(module.training for module in layers.modules())  # as it was given
    like(*EXAMPLE)
    like.eval()
    (held,) = [value for name, value in program.state_dict.items() if name.endswith("running_var")]
    torch.testing.assert_close(held, like[1].running_var, rtol=1e-2, atol=0)
    out = program.module()(*EXAMPLE)
    exact = like(*EXAMPLE)
    assert 10 * torch.log10(exact.square().mean() / (out - exact).square().mean()) > 28
    assert torch.equal(program.module()(*EXAMPLE), out)
    with pytest.raises(InvalidStateError, match=r"instance_norm.* is in training mode"):
        quantizer.quantize(torch.export.export(like.train(), EXAMPLE), (), "static_int8", IMAGES)


def test_averages_over_all_batches_are_refused_by_name():
    """torch.export's own words were about a symbol u0."""
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=None))
    with pytest.raises(InvalidArgumentError, match=r"'1', a BatchNorm2d, has momentum=None.*give it a number"):
        quantizer.prepare_qat(layers, EXAMPLE)
    quantizer.quantize(layers.eval(), EXAMPLE, "static_int8", IMAGES)


def _training(layers: nn.Module) -> torch.export.ExportedProgram:
    prepared = quantizer.prepare_qat(layers, EXAMPLE)
    prepared.train()
    prepared(*EXAMPLE)
    prepared.eval()
    return quantizer.convert(prepared)


@pytest.mark.parametrize("flow", ["static_int8", "dynamic_int8", "training"])
def test_batch_norms_that_stay_take_no_time(flow: str, monkeypatch: pytest.MonkeyPatch):
    """torchao's conversion exported 96 patterns where it saw one: half a minute."""
    from torchao.quantization.pt2e import qat_utils

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("torchao exports its patterns")

    monkeypatch.setattr(qat_utils, "_get_aten_graph_module_for_pattern", refuse)
    program = _training(in_front()) if flow == "training" else quantizer.quantize(in_front(), EXAMPLE, flow, IMAGES)
    norms = [node for node in program.graph.nodes if node.target is torch.ops.aten.batch_norm.default]
    # The one of images between integers is a convolution there.
    assert len(norms) == (2 if flow == "static_int8" else 3)
    assert not any(node.args[5] for node in norms)
    expected = program.module()(*EXAMPLE)
    ours = et.load(et.to_edge_transform_and_lower(program).to_executorch().buffer)(*EXAMPLE)
    torch.testing.assert_close(ours, expected, atol=0.02, rtol=0)
