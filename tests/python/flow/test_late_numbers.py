"""Numbers that are known when a method runs, as arguments of operators whose kernels prepare themselves when it is
loaded.

A padding that is the size of another input, an image that takes the size of another one, a bound that the data hold.
"""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from executorch_py.backends.xnnpack import XnnpackPartitioner  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import executorch_py as et  # noqa: E402

_WEIGHTS = {
    "dense": ((8, 4, 3, 3), 1),
    "wide": ((64, 64, 3, 3), 1),
    "seven": ((8, 4, 7, 7), 1),
    "depthwise": ((4, 1, 3, 3), 4),
    "depthwise of five": ((16, 1, 5, 5), 16),
    "pointwise": ((8, 4, 1, 1), 1),
    "grouped": ((8, 2, 3, 3), 2),
}


class Call(nn.Module):
    def __init__(self, function, weight=None) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("weight", weight)

    def forward(self, x, number):
        return self.function(x, self.weight, number)


def _check(model, x, number, others, dynamic_shapes, partitioner=None):
    exported = torch.export.export(model.eval(), (x, number), dynamic_shapes=dynamic_shapes)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner)
    module = et.load(edge.to_executorch().buffer)
    for other in (number, *others, number):
        torch.testing.assert_close(module(x, other), model(x, other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner(largest=True)]], ids=["own", "xnnpack"])
@pytest.mark.parametrize("argument", ["padding", "stride", "dilation"])
@pytest.mark.parametrize("kind", _WEIGHTS)
def test_convolutions(kind, argument, partitioner):
    shape, groups = _WEIGHTS[kind]
    model = Call(
        lambda x, w, y: F.conv2d(x, w, groups=groups, **{"padding": 1, argument: (1, y.shape[0])}), torch.randn(shape)
    )
    x, sizes = torch.randn(1, shape[1] * groups, 12, 30), {0: Dim("n", min=1, max=4)}
    _check(model, x, torch.zeros(2), (torch.zeros(1), torch.zeros(4)), (None, sizes), partitioner)


_OTHERS = {
    "transposed": lambda x, w, y: F.conv_transpose2d(x, w, padding=(0, y.shape[0])),
    "transposed lines": lambda x, w, y: F.conv_transpose1d(x[:, :, 0], w[:, :, 0], stride=5, output_padding=y.shape[0]),
    "lines": lambda x, w, y: F.conv1d(x[:, :, 0], w[:, :, 0], padding=y.shape[0]),
    "one size": lambda x, w, y: F.interpolate(x, size=(y.shape[0], 8), mode="bilinear"),
    "both sizes": lambda x, w, y: F.interpolate(x, size=(y.shape[0] * 2, y.shape[0]), mode="bilinear"),
    "corners": lambda x, w, y: F.interpolate(x, size=(y.shape[0] * 2, 9), mode="bilinear", align_corners=True),
    "clamped convolution": lambda x, w, y: F.conv2d(x, w).clamp(max=y.shape[0] - 2),
    "clamped product": lambda x, w, y: F.linear(x, w.flatten()[:30].view(1, 30)).clamp(min=-1, max=y.shape[0] - 2),
    "scaled sum": lambda x, w, y: torch.addmm(
        x[0, 0, :, :12], x[0, 0], w.flatten()[:360].view(30, 12), alpha=y.shape[0]
    ),
}


@pytest.mark.parametrize("name", _OTHERS)
def test_other_operators(name):
    x, sizes = torch.randn(1, 40, 12, 30), {0: Dim("n", min=2, max=4)}
    model = Call(_OTHERS[name], torch.randn(40, 40, 3, 3))
    _check(model, x, torch.zeros(3), (torch.zeros(2), torch.zeros(4)), (None, sizes))


def test_a_number_of_the_data():
    def padded(x, w, n):
        padding = n.item()
        torch._check(padding >= 1)
        torch._check(padding <= 3)
        return F.conv2d(x, w, padding=(1, padding)).relu()

    model, x = Call(padded, torch.randn(8, 4, 3, 3)), torch.randn(1, 4, 12, 12)
    _check(model, x, torch.tensor(2), (torch.tensor(1), torch.tensor(3)), None)
