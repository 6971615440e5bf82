"""``torch._check`` and its kin are checked at run time: a failed one ends the call, and the method stays usable."""

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py.errors import InvalidArgumentError


class TakeFirst(nn.Module):
    def forward(self, x, n):
        count = n.item()
        torch._check(count >= 2)
        torch._check(count < 5, lambda: "count is too large")
        return x[:count] * 1


class AssertPositive(nn.Module):
    def forward(self, x):
        torch._assert_async((x > 0).all(), "every value must be positive")
        return x.sqrt()


class CheckedBranch(nn.Module):
    def forward(self, x, n):
        def take(x, n):
            count = n.item()
            torch._check(count >= 2)
            torch._check(count <= 4)
            return x[:count].sum()

        return torch.cond(x.sum() > 0, take, lambda x, n: x.sum() * n, (x, n))


def _program(model, inputs, **config):
    exported = torch.export.export(model, inputs)
    return et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(**config) if config else None)


def test_checks_of_numbers():
    x = torch.randn(6)
    module = et.load(_program(TakeFirst(), (x, torch.tensor(3))).buffer)
    assert torch.equal(module(x, torch.tensor(4)), x[:4])
    for count in (1, 5, 100, -1):
        with pytest.raises(InvalidArgumentError, match=r"^a check of the model failed: u0 (>= 2|< 5|<= )"):
            module(x, torch.tensor(count))
    assert torch.equal(module(x, torch.tensor(2)), x[:2])


def test_checks_of_tensors():
    module = et.load(_program(AssertPositive(), (torch.ones(3),)).buffer)
    assert torch.equal(module(torch.tensor([1.0, 4.0, 9.0])), torch.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(InvalidArgumentError, match=r"every value must be positive(.|\n)*test_checks.py"):
        module(torch.tensor([1.0, -4.0, 9.0]))


def test_checks_inside_a_branch_hold_only_where_it_runs():
    x = torch.ones(6)
    module = et.load(_program(CheckedBranch(), (x, torch.tensor(3))).buffer)
    assert module(x, torch.tensor(3)) == 3
    assert module(-x, torch.tensor(100)) == -600
    with pytest.raises(InvalidArgumentError, match="a check of the model failed"):
        module(x, torch.tensor(5))


def test_a_compatible_file_leaves_checks_out():
    x = torch.randn(6)
    program = _program(TakeFirst(), (x, torch.tensor(3)), compatible=True)
    assert "assert" not in program.dump()
