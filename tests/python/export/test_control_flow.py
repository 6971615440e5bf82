"""Control flow end to end: both branches, captured values, nesting, loops, symbolic predicates."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.while_loop import while_loop

import executorch_py as et


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.arange(3.0))

    def forward(self, *inputs):
        return self.function(self, *inputs)


def _method(function, inputs, **options):
    exported = torch.export.export(Call(function), inputs, **options)
    return et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer).load_method("forward")


def _check(function, several_inputs, **options):
    method = _method(function, several_inputs[0], **options)
    model = Call(function)
    for inputs in several_inputs:
        with torch.no_grad():
            expected = model(*inputs)
        expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
        torch.testing.assert_close(method.execute(list(inputs)), expected)


X, Y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


def test_cond_runs_one_branch_and_captures():
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: a * self.weight, lambda a: a - self.weight, (x,))

    _check(forward, [(X,), (Y,)])


def test_cond_with_several_results_and_nesting():
    def inner(a):
        return torch.cond(a.sum() > 3, lambda b: b + 10, lambda b: b + 20, (a,))

    def forward(self, x):
        low, high = torch.cond(x.sum() > 0, lambda a: (inner(a), a * 3), lambda a: (a * 2, a.neg()), (x,))
        return low + 1, high

    _check(forward, [(X,), (X * 0.1,), (Y,)])


def test_cond_that_returns_its_input():
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: a.clone(), lambda a: a + 1, (x,)) * 2

    _check(forward, [(X,), (Y,)])


def test_cond_on_a_size():
    def forward(self, x):
        return torch.cond(x.shape[0] > 4, lambda a: a.sin(), lambda a: a.cos(), (x,))

    size = torch.export.Dim("size", min=2, max=8)
    _check(forward, [(torch.randn(6),), (torch.randn(3),), (torch.randn(8),)], dynamic_shapes={"inputs": ({0: size},)})


def test_map():
    def forward(self, xs, y):
        return torch_map(lambda x, z: torch.relu(x) * self.weight + z, xs, y)

    _check(forward, [(torch.randn(4, 3), torch.randn(3)), (torch.randn(4, 3), torch.randn(3))])


def test_while_loop():
    def forward(self, count, x):
        return while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2 + self.weight), (count, x))

    _check(forward, [(torch.tensor(0), X), (torch.tensor(3), Y), (torch.tensor(9), X)])


@pytest.mark.parametrize("times", [1, 3])
def test_a_loop_runs_as_often_as_the_data_says(times):
    def forward(self, count, x):
        return while_loop(lambda i, a: i > 0, lambda i, a: (i - 1, a + 1), (count, x))

    _check(forward, [(torch.tensor(times), X)])


def test_constants_made_inside_branches():
    def forward(self, x):
        return torch.cond(
            x.sum() > 0,
            lambda a: a * torch.arange(3) + torch.tensor([1.0, 2.0, 3.0]),
            lambda a: a * torch.kaiser_window(3) + torch.tensor([3.0, 2.0, 1.0]),
            (x,),
        )

    _check(forward, [(X,), (Y,)])
