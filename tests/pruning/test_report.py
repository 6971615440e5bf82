"""The report's figures against ones counted by hand, and its errors."""

import copy

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import pruning
from executorch_py.errors import InvalidArgumentError
from executorch_py.pruning.comparison import count_macs


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 10)).eval()


def test_figures():
    before, after, x = model(), pruning.prune_weights(model(), 0.75), torch.randn(1, 3, 8, 8)
    report = pruning.report(before, after, (x,), metric=lambda run: float(run(x).argmax()))
    parameters = 16 * 27 + 16 + 10 * 1024 + 10
    macs = 16 * 27 * 64 + 10 * 1024
    assert report.before.parameters == report.before.non_zeros == report.after.parameters == parameters
    assert report.after.non_zeros == 16 * 27 // 4 + 16 + 10 * 256 + 10
    assert report.before.macs == report.before.non_zero_macs == report.after.macs == macs
    assert report.after.non_zero_macs == macs // 4
    assert report.after.file_nbytes < 0.6 * report.before.file_nbytes
    assert report.before.latency_ms > 0 and report.after.latency_ms > 0
    assert report.before.metric == float(before(x).argmax())
    assert [layer.name for layer in report.layers] == ["0.weight", "3.weight"]
    text = str(report)
    assert "non-zero MACs" in text and "3.weight" in text and "75.0 %" in text and "metric" in text


def test_smaller_model_and_masks():
    before, x = model(), torch.randn(1, 3, 8, 8)
    after = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)).eval()
    pruning.Pruner(after, 0.5, layers={"0": None})
    report = pruning.report(before, after, (x,))
    assert report.masks == ("3.weight",) and "not permanent" in str(report)
    assert "10x1024 → 10x512" in str(report)
    assert report.after.macs == 8 * 27 * 64 + 10 * 512
    assert report.after.non_zero_macs == 8 * 27 * 64 + 10 * 256
    assert report.before.metric is None and "metric" not in str(report)


def test_shared_layers_and_functions_are_counted():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return (self.layer(self.layer(x)) @ torch.ones(8, 2)).sum()

    net = pruning.prune_weights(Net(), 0.5)
    assert count_macs(net, (torch.ones(4, 8),)) == (4 * 64 * 2 + 4 * 16, 4 * 64 + 4 * 16)


def test_attention_is_counted_as_in_the_graph():
    """torch runs an encoder in one operator, which has no count: a model without half of its heads had as many as
    before.
    """
    torch.manual_seed(0)
    x, layer = torch.randn(2, 6, 32), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    smaller = pruning.prune_heads(net, 0.5).model
    for model in (net, smaller):
        expected = et.count_macs(torch.export.export(model, (x,)), (x,)).total
        assert count_macs(model, (x,)) == (expected, expected)
    rows, products = 2 * 6, 2 * 2 * 6 * 6 * 32
    sparse = pruning.prune_weights(copy.deepcopy(net), 0.5)
    assert count_macs(sparse, (x,)) == (2 * (rows * 8 * 32 * 32 + products), 2 * (rows * 4 * 32 * 32 + products))
    assert torch.backends.mha.get_fastpath_enabled()


def test_errors():
    x = torch.randn(1, 3, 8, 8)
    broken = model()
    with torch.no_grad():
        broken[3].bias[0] = float("nan")
    for arguments, message in (
        ((model(), broken, (x,)), r"'3\.bias' of the model after has elements that are NaN"),
        ((model(), model(), x), "inputs is Tensor"),
        ((model(), model(), ()), "inputs is tuple"),
        ((model(), model, (x,)), "'after' is function"),
        ((model(), model(), (x,), lambda run: float("nan")), "the metric gave nan for the model before"),
        ((model(), model(), (x,), lambda run: "good"), "the metric gave str for the model before"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            pruning.report(*arguments)
