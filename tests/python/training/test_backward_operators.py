"""Backward operators that PyTorch does not decompose: the decompositions beside the operators, to rounding."""

import math

import pytest
import torch
from torch import nn
from torch.export.experimental import _export_forward_backward
from torch.nn import functional as F

import executorch_py as et
from executorch_py.export.dialect.backward import BACKWARD_DECOMPOSITIONS
from executorch_py.training import TrainingModule

aten = torch.ops.aten


def check(op, *args):
    got, want = BACKWARD_DECOMPOSITIONS[op.default](*args), op(*args)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("sizes", [(5, 7), (1, 6), (3, 4, 5)], ids=str)
def test_grid_sampler(sizes, mode, padding, align_corners):
    torch.manual_seed(0)
    out = (4, 3) if len(sizes) == 2 else (2, 4, 3)
    grid = torch.empty(2, *out, len(sizes)).uniform_(-2.7, 2.7)
    op = getattr(aten, f"grid_sampler_{len(sizes)}d_backward")
    check(op, torch.randn(2, 3, *out), torch.randn(2, 3, *sizes), grid, mode, padding, align_corners, [True, True])


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_cdist(batch, p):
    torch.manual_seed(0)
    x, y = torch.randn(*batch, 4, 5), torch.randn(*batch, 6, 5)
    if p != 0.5:  # where one coordinate is equal, the derivative is infinite
        y[..., 2, :] = x[..., 1, :]
    check(aten._cdist_backward, torch.randn(*batch, 4, 6), x, y, p, torch.cdist(x, y, p))


@pytest.mark.parametrize(("shape", "dim"), [((4, 6), 0), ((4, 6), 1), ((3, 2, 5), 0), ((3, 2, 5), 2)])
def test_weight_norm(shape, dim):
    torch.manual_seed(0)
    v, g = torch.randn(shape), torch.randn([size if i == dim else 1 for i, size in enumerate(shape)])
    w, norms = aten._weight_norm_interface(v, g, dim)
    check(aten._weight_norm_interface_backward, torch.randn_like(w), v, g, norms, dim)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_replication_pad(rank):
    torch.manual_seed(0)
    x, padding = torch.randn(2, 3, *(4, 5, 6)[:rank]), [2, 1, 0, 3, 1, 1][: 2 * rank]
    grad = torch.randn_like(F.pad(x, padding, "replicate"))
    check(getattr(aten, f"replication_pad{rank}d_backward"), grad, x, padding)


def test_pools():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 6, 5)
    y, at = aten.adaptive_max_pool3d(x, [3, 4, 2])
    check(aten.adaptive_max_pool3d_backward, torch.randn_like(y), x, at)
    y, at = aten.adaptive_max_pool2d(x[0], [4, 3])
    check(aten.adaptive_max_pool2d_backward, torch.randn_like(y), x[0], at)
    options = ([3, 2, 2], [1, 2, 1], [1, 0, 1], [1, 1, 1], False)
    y, at = aten.max_pool3d_with_indices(x, *options)
    check(aten.max_pool3d_with_indices_backward, torch.randn_like(y), x, *options, at)


class Warped(nn.Module):
    """A spatial transformer: the grid is learnt."""

    def __init__(self):
        super().__init__()
        self.conv, self.theta = nn.Conv2d(2, 3, 3, padding=1), nn.Parameter(torch.randn(4, 2, 3))

    def forward(self, x):
        y = self.conv(F.pad(x, (1, 2, 0, 1), "replicate"))
        y = F.grid_sample(y, F.affine_grid(self.theta, y.shape, align_corners=False), align_corners=False)
        return F.adaptive_max_pool2d(y, 3).square().mean()


class Far(nn.Module):
    """Distances from learnt points, of a layer with a normalized weight."""

    def __init__(self):
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(5, 6))
        self.points = nn.Parameter(torch.randn(7, 6))

    def forward(self, x):
        return torch.cdist(self.layer(x), self.points).mean()


@pytest.mark.parametrize(("kind", "shape"), [(Warped, (4, 2, 6, 5)), (Far, (3, 5))])
def test_trained_by_the_runtime(kind, shape):
    torch.manual_seed(0)
    model, x = kind().train(), torch.randn(shape)
    joint = _export_forward_backward(torch.export.export(model, (x,)))
    module = TrainingModule.load(et.to_edge(joint).to_executorch().buffer)
    module.forward_backward("forward", (x,))
    model(x).backward()
    gradients = module.named_gradients()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-3, atol=1e-5)
