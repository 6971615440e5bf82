"""Proof on real data: digits, pruned by half and run by the C++ runtime over all 900 held-out images.

``python -m tests.pruning.test_digits`` prints the figures of five seeds.
"""

from __future__ import annotations

import copy

import pytest
import torch

import executorch_py as et
from executorch_py import pruning, quantizer
from tests.pruning import digits

#: Points of accuracy that pruning by half may cost.
MOST_LOST = 0.01


def program(model: torch.nn.Module) -> et.Module:
    exported = torch.export.export(model.eval(), (torch.rand(1, 1, 8, 8),))
    return et.load(et.to_edge(exported).to_executorch().buffer)


def prune_weights(seed: int) -> torch.nn.Module:
    """Half of all weights, by a cubic schedule while training goes on."""
    model = copy.deepcopy(digits.trained(seed))
    pruner = pruning.Pruner(model, 0.5, scope="global", schedule=pruning.Schedule("cubic", steps=60, every=5))
    digits.train(model, seed, epochs=10, rate=1e-3, after_step=pruner.step)
    return pruner.finish()


def prune_neurons(seed: int) -> torch.nn.Module:
    """Half of the channels of each layer, then training."""
    smaller = pruning.prune_neurons(digits.trained(seed), (torch.rand(1, 1, 8, 8),), 0.5).model
    return digits.train(smaller, seed, epochs=25, rate=3e-3)


def integers(model: torch.nn.Module, seed: int) -> et.Module:
    """The model in static int8, calibrated on training images; zeros stay zero in symmetric weights."""
    x, _, _, _ = digits.images(seed)
    quantized = quantizer.quantize(model, (x[:1],), "static_int8", [(x[i : i + 1],) for i in range(128)])
    return et.load(et.to_edge(quantized).to_executorch().buffer)


def figures(seed: int) -> dict[str, float]:
    models = {"float": digits.trained(seed), "weights": prune_weights(seed), "neurons": prune_neurons(seed)}
    found = {name: digits.accuracy(program(model), seed) for name, model in models.items()}
    return {**found, "weights + int8": digits.accuracy(integers(models["weights"], seed), seed)}


def test_half_of_the_weights_or_channels_can_go():
    pytest.importorskip("sklearn")
    float_accuracy = digits.accuracy(program(digits.trained(0)), 0)
    assert float_accuracy >= 0.98

    model = prune_weights(0)
    rows = [row for row in pruning.sparsity(model) if row.name.endswith("weight") and "norm" not in row.name]
    assert abs(sum(row.zeros for row in rows) / sum(row.elements for row in rows) - 0.5) < 1e-3
    assert digits.accuracy(program(model), 0) >= float_accuracy - MOST_LOST
    assert digits.accuracy(integers(model, 0), 0) >= float_accuracy - MOST_LOST

    smaller = prune_neurons(0)
    assert smaller.conv2.out_channels == 24 and smaller.classifier.out_features == 10
    report = pruning.report(
        digits.trained(0), smaller, (torch.rand(1, 1, 8, 8),), metric=lambda run: digits.accuracy(run, 0)
    )
    assert report.after.macs < 0.3 * report.before.macs and report.after.file_nbytes < 0.4 * report.before.file_nbytes
    assert report.after.metric >= float_accuracy - MOST_LOST


if __name__ == "__main__":
    rows = [figures(seed) for seed in range(5)]
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"{name:14s} mean {sum(values) / len(values):.4f}  " + " ".join(f"{value:.4f}" for value in values))
