"""Arguments of the published configuration and setters of XNNPACKQuantizer steer something, or are refused in words."""

import inspect

import pytest
import torch
from torch import nn

from executorch_py import quantizer
from executorch_py.errors import ExecutorchError

#: Argument of get_symmetric_quantization_config -> a value that is not the default.
ARGUMENTS = {
    "is_per_channel": True,
    "is_qat": True,
    "is_dynamic": True,
    "act_qmin": -100,
    "act_qmax": 100,
    "weight_qmin": -63,
    "weight_qmax": 63,
}
#: Setter -> published keywords that quantize the first layer alone, and a first argument that is refused.
SETTERS = {
    "set_module_name": ({"module_name": "0"}, 3),
    "set_module_type": ({"module_type": nn.Conv2d}, None),
    "set_operator_type": ({"operator_type": torch.ops.aten.conv2d.default}, nn.Conv2d),
    "set_object_type": ({"operator_type": torch.ops.aten.conv2d}, "conv2d"),
}
X = torch.randn(1, 3, 6, 6)


def annotated(one: quantizer.XNNPACKQuantizer) -> set[str]:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 5)).eval()
    graph = torch.export.export(model, (X,)).module()
    graph = one.annotate(one.transform_for_annotation(graph))
    return {node.name for node in graph.graph.nodes if "quantization_annotation" in node.meta}


def test_each_argument_of_the_configuration():
    known = set(inspect.signature(quantizer.get_symmetric_quantization_config).parameters)
    assert set(ARGUMENTS) <= known
    plain = str(quantizer.get_symmetric_quantization_config())
    for name, value in ARGUMENTS.items():
        assert str(quantizer.get_symmetric_quantization_config(**{name: value})) != plain, name


@pytest.mark.parametrize("setter", SETTERS)
def test_each_setter_by_its_published_keywords(setter):
    keywords, wrong = SETTERS[setter]
    config = quantizer.get_symmetric_quantization_config()
    one = quantizer.XNNPACKQuantizer()
    assert getattr(one, setter)(**keywords, quantization_config=config) is one
    found = annotated(one)
    assert "conv2d" in found and "linear" not in found
    with pytest.raises(ExecutorchError, match="must be"):
        getattr(one, setter)(wrong, config)


def test_the_filter_and_the_global_configuration():
    one = quantizer.XNNPACKQuantizer().set_global(quantization_config=quantizer.get_symmetric_quantization_config())
    assert {"conv2d", "linear"} <= annotated(one)
    one.set_filter_function(filter_fn=lambda node: node.name != "conv2d")
    assert "conv2d" not in annotated(one)
    for wrong in ("conv2d", None, 3):
        with pytest.raises(ExecutorchError, match="must be"):
            one.set_filter_function(wrong)


def test_every_setter_is_looked_at():
    setters = {name for name in dir(quantizer.XNNPACKQuantizer) if name.startswith("set_")}
    assert setters == {*SETTERS, "set_global", "set_filter_function"}
