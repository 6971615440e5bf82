"""Smallest sizes: those of a ``Dim``, those that torch lets in although it did not trace for them, those that are
refused.
"""

import pytest
import torch
from torch import nn
from torch.export import Dim

import executorch_py as et
from executorch_py.errors import InvalidArgumentError
from tests.python.flow.series import Call, method_of


class _Branch(nn.Module):
    def forward(self, x):
        return x * (2 if x.shape[0] > 1 else 3)


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize(
    ("derived", "least"), [(lambda dim: 2 * dim, (0, 2, 4, 6)), (lambda dim: dim + 1, (1, 2, 3, 4))], ids=["2d", "d+1"]
)
def test_bounds_of_a_dim_that_is_only_derived_from(derived, least, is_loaded, tmp_path):
    """A ``Dim`` that is the size of no input: torch keeps its bounds with the derived dim."""
    for low in range(4):
        dim = Dim("dim", min=low, max=8)
        exported = torch.export.export(
            Call(lambda _, x: x * 2), (torch.ones(8),), dynamic_shapes=(({0: derived(dim)},),)
        )
        if is_loaded:
            torch.export.save(exported, tmp_path / "model.pt2")
            exported = torch.export.load(tmp_path / "model.pt2")
        method = method_of(et.to_edge(exported).to_executorch())
        for size in range(8):
            if size >= least[low] and (size - least[low]) % (least[1] - least[0]) == 0:
                assert torch.equal(method.execute([torch.ones(size)])[0], torch.full((size,), 2.0))
            else:
                with pytest.raises(InvalidArgumentError, match=f"size {size} of dimension 0"):
                    method.execute([torch.ones(size)])


def test_auto_sees_what_a_model_does_for_one_as_torch_does():
    program = torch.export.export(_Branch(), (torch.randn(4, 3),), dynamic_shapes=({0: Dim.AUTO},))
    x = torch.randn(1, 3)
    (result,) = method_of(et.to_edge(program).to_executorch()).execute((x,))
    assert torch.equal(result, program.module()(x)) and torch.equal(result, 2 * x)


class _Squeeze(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.squeeze(*self.dims) + 1


@pytest.mark.parametrize("dims", [(), (0,), ((0, 2),)], ids=str)
@pytest.mark.parametrize("dim", [Dim.AUTO, Dim("n", min=1, max=9)], ids=["auto", "named"])
def test_a_size_that_a_squeeze_would_remove_is_refused(dim, dims):
    program = torch.export.export(_Squeeze(dims), (torch.randn(4, 3, 1),), dynamic_shapes=({0: dim},))
    method = method_of(et.to_edge(program).to_executorch())
    for n in (4, 2, 9):
        x = torch.randn(n, 3, 1)
        torch.testing.assert_close(method.execute((x,))[0], x.squeeze(*dims) + 1)
    with pytest.raises(InvalidArgumentError, match="exported for 2 to"):
        method.execute((torch.randn(1, 3, 1),))


class _Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


SLICES = [(lambda x: x[:2] * 2, 2), (lambda x: x[-2:] + 1, 2), (lambda x: x[1:2] * x[:1], 2), (lambda x: x[:1] + 1, 1)]


@pytest.mark.parametrize(("function", "least"), SLICES, ids=("first", "last", "second", "one"))
def test_a_size_that_has_no_such_slice_is_refused(function, least):
    """By the input, where the constant size of the result would be named otherwise."""
    model = _Function(function)
    program = torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes=({0: Dim.AUTO},))
    method = method_of(et.to_edge(program).to_executorch())
    for n in (4, 9, least):
        x = torch.randn(n, 3)
        torch.testing.assert_close(method.execute((x,))[0], model(x))
    with pytest.raises(InvalidArgumentError, match=rf"'x'.*dimension 0.*exported for {least} to"):
        method.execute((torch.randn(least - 1, 3),))


def test_a_slice_that_fits_every_size_demands_none():
    model = _Function(lambda x: x[:1000] * 2)
    program = torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes=({0: Dim.AUTO(max=9)},))
    method = method_of(et.to_edge(program).to_executorch())
    for n in (4, 1, 0, 9):
        x = torch.randn(n, 3)
        torch.testing.assert_close(method.execute((x,))[0], model(x))
