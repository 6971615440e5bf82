"""Programs and their modules as models: whether they train is in their graph; batch norms that no convolution takes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidStateError

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
