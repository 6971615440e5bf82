"""Weights that a model computes from its parameters, by weight norm or a mask, in front of a batch norm and behind."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import pruning, quantizer

GENERATOR = torch.Generator().manual_seed(12)


def rand(*sizes):
    return torch.randn(*sizes, generator=GENERATOR)


def computed_weights(kind):
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten(), nn.Linear(144, 3)
    )
    model[1].running_var.uniform_(0.5, 2)
    if kind == "weight_norm":
        for i in (0, 3, 5):
            torch.nn.utils.parametrizations.weight_norm(model[i])
    else:
        pruning.Pruner(model, 0.5)
    return model.eval()


@pytest.mark.parametrize("kind", ["weight_norm", "mask"])
@pytest.mark.parametrize("preset", ["static_int8", "dynamic_int8", "int4_weight_only"])
def test_weights_that_the_model_computes(kind, preset):
    """In front of a batch norm they ended in an error of torchao's; delegates leave layers that have them."""
    model, data = computed_weights(kind), [rand(2, 3, 8, 8) for _ in range(4)]
    program = quantizer.quantize(model, (data[0],), preset, data if preset == "static_int8" else None)
    assert not any("batch_norm" in str(node.target) for node in program.graph.nodes)
    edge = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)])
    with torch.no_grad():
        exact, ours = model(data[0]), et.load(edge.to_executorch().buffer)(data[0])
    assert (ours - exact).abs().max() < (0.3 if "int4" in preset else 0.05) * exact.abs().max()
