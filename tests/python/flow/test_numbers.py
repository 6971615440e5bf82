"""Arithmetic of sizes and of numbers that the data hold, and what torch.export assumed of such arithmetic.

Every function of a number that torch.export leaves in a graph gives what Python gives. A branch that Python took on a
number is in the program alone, so sizes that would take the other one are refused, as torch's own program refuses them.
"""

import io
import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import executorch_py as et  # noqa: E402

FUNCTIONS = {
    "and": lambda n: n & 3,
    "or": lambda n: n | 8,
    "shift left": lambda n: n << 2,
    "shift right": lambda n: n >> 1,
    "root": lambda n: n**0.5,
    "reciprocal": lambda n: n**-1,
    "cube": lambda n: n**3,
    "power of two": lambda n: 2**n,
    "power of half": lambda n: 0.5**n,
    "float power": lambda n: (n / 2) ** 1.5,
    "sym_sqrt": torch._sym_sqrt,
    "round": lambda n: round(n / 8),
    "round to none": lambda n: round(n / 8, None),
    "round to 0": lambda n: round(n / 8, 0),
    "round to 1": lambda n: round(n / 8, 1),
    "round to 2": lambda n: round(n / 40, 2),  # 0.025, 0.075, …: ties in binary only
    "round to 15": lambda n: round(n / 7, 15),
    "floor": lambda n: math.floor(n / 3),
    "ceil": lambda n: math.ceil(n / 3),
    "trunc": lambda n: math.trunc((n - 5) / 3),
    "absolute": lambda n: abs(n - 5),
    "float remainder": lambda n: (n / 2) % 3,
    "float quotient": lambda n: (n / 2) // 3,
    "both": lambda n: torch.sym_not((n > 3) & (n < 8)),
}


class Computes(nn.Module):
    def __init__(self, function, source: str) -> None:
        super().__init__()
        self.function = function
        self.source = source

    def forward(self, x, i):
        number = {"size": lambda: x.shape[0], "int": lambda: i, "data": lambda: i.item()}[self.source]()
        value = self.function(number)
        return x + value, value


def _inputs(source: str, n: int) -> tuple:
    x = torch.arange(2.0 * (n if source == "size" else 3)).reshape(-1, 2)
    return x, n if source == "int" else torch.tensor(n) if source == "data" else 0


@pytest.mark.parametrize("source", ["size", "int", "data"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numbers(name, source):
    model = Computes(FUNCTIONS[name], source)
    shapes = {"size": ({0: Dim.AUTO}, None), "int": (None, Dim.AUTO), "data": None}[source]
    try:
        exported = torch.export.export(model, _inputs(source, 6), dynamic_shapes=shapes)
    except Exception as error:  # what torch refuses of the data alone is none of ours
        assert source == "data", error
        return
    module = et.load(et.to_edge(exported).to_executorch().buffer)
    for n in (6, 3, 4, 5, 7, 9, 13, 17):
        inputs = _inputs(source, n)
        expected, value = model(*inputs)
        result, computed = module(*inputs)
        assert type(computed) is type(value), (n, computed, value)
        assert computed == (pytest.approx(value, rel=1e-14) if name in ("float power", "root") else value), n
        torch.testing.assert_close(result, expected)


class Sizes(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        return torch.zeros(n & 14), x[: n & 14], torch.arange(n << 1), x.repeat(n >> 1, 1)


def test_sizes_that_are_computed_on_bits():
    exported = torch.export.export(Sizes(), (torch.randn(6, 2),), dynamic_shapes=({0: Dim.AUTO},))
    module = et.load(et.to_edge(exported).to_executorch().buffer)
    for n in (6, 7, 4, 9):
        x = torch.randn(n, 2)
        for actual, expected in zip(module(x), Sizes()(x), strict=True):
            assert torch.equal(actual, expected)


BRANCHES = {
    "trunc": lambda n: int(n * 0.3) > 2,
    "quotient": lambda n: n / 2 > 4.5,
    "floor": lambda n: math.floor(n * 0.7) % 2 == 1,
    "ceil": lambda n: math.ceil(n / 4) == 3,
    "round": lambda n: round(n / 3) == 3,
    "decimals": lambda n: round(n / 3, 1) < 4.0,
    "root": lambda n: n**0.5 >= 3.2,
    "square": lambda n: n**2 > 90,
    "bit": lambda n: (n & 1) == 0,
    "bits": lambda n: (n & 14) > 8 and (n | 1) < 14,
    "distance": lambda n: abs(n - 10) < 2,
    "whole": lambda n: n / 2 == n // 2,
}


class Branches(nn.Module):
    def __init__(self, test) -> None:
        super().__init__()
        self.test = test

    def forward(self, *inputs):
        (x,) = inputs
        return x * 2 if self.test(x.shape[0]) else x + 1


@pytest.mark.parametrize("saved", [False, True], ids=["exported", "saved"])
@pytest.mark.parametrize("name", BRANCHES)
def test_sizes_that_would_take_the_other_branch_are_refused(name, saved):
    model = Branches(BRANCHES[name])
    exported = torch.export.export(model, (torch.randn(10, 2),), dynamic_shapes=(({0: Dim.AUTO},),))
    if saved:
        file = io.BytesIO()
        torch.export.save(exported, file)
        file.seek(0)
        exported = torch.export.load(file)
    module, torchs = et.load(et.to_edge(exported).to_executorch().buffer), exported.module()
    refused = 0
    for n in (10, 3, 5, 7, 8, 9, 11, 12, 13, 16, 22):
        x = torch.randn(n, 2)
        try:
            torchs(x)
        except (AssertionError, RuntimeError):
            with pytest.raises(et.InvalidArgumentError, match=r"inputs?.*(must satisfy .*shape\[0\]|was given)"):
                module(x)
            refused += 1
        else:
            assert torch.equal(module(x), model(x)), n
    assert 0 < refused < 10


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.int64, torch.int64),
        (torch.float32, torch.float32),
        (torch.uint8, torch.int16),
        (torch.int32, torch.float32),
    ],
)
def test_a_choice_between_two_ways_binds_no_size(dtypes, invert):
    """torch's isin asks whether to sort."""

    class Contains(nn.Module):
        def forward(self, x, y):
            return torch.isin(x, y, invert=invert)

    def inputs(n, m):
        return torch.randint(0, 5, (n, 3)).to(dtypes[0]), torch.randint(0, 2, (m,)).to(dtypes[1])

    shapes = ({0: Dim("n", min=0, max=50)}, {0: Dim("m", min=0, max=50)})
    exported = torch.export.export(Contains(), inputs(9, 20), dynamic_shapes=shapes)
    module = et.load(et.to_edge(exported).to_executorch().buffer)
    for n, m in ((9, 20), (50, 2), (2, 50), (1, 1), (3, 0), (0, 3)):
        x, y = inputs(n, m)
        assert torch.equal(module(x, y), Contains()(x, y)), (n, m)
