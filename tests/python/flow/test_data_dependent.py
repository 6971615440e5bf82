"""Sizes that only the data decides: their results, what later operators make of them, and the checks of
torch._check.
"""

import pytest
import torch
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from executorch_py.errors import ExecutorchError
from tests.python.flow.series import Case, cases, check, lower, method_of

B = Dim("b", min=2, max=8)


def _sizes(*shapes):
    return [(torch.randn(shape),) for shape in shapes]


NONE, ALL = (torch.full((6,), -1.0),), (torch.ones(6),)
VECTORS = [(torch.tensor([1.0, -1, 2, 0, 3, -2]),), NONE, ALL]


def _nonzero(self, x):
    return (x > 0).nonzero()


def _nonzero_on(self, x):
    index = (x > 0).nonzero().squeeze(1)
    picked = x[index]
    return picked * 2 + 1, index + 1, picked.sum(), torch.cat([picked, picked]), picked.unsqueeze(1) * self.row


def _masked_select(self, x):
    return torch.masked_select(x, x > 0)


def _boolean_mask(self, x):
    y = x[x > 0]
    return y, torch.relu(y - 1), y.shape[0], y.numel() * 2


def _rows_by_mask(self, x):
    rows = x[x.sum(1) > 0]
    return rows @ self.square, rows.mean(1)


def _unique(self, x):
    return torch.unique(x), torch.unique(x, return_counts=True)[1], torch.unique(x, return_inverse=True)[1]


def _unique_consecutive(self, x):
    return torch.unique_consecutive(x), torch.unique_consecutive(x, return_counts=True)


def _unique_slices(self, x):
    rows, places, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    columns, runs = torch.unique(x, dim=1), torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True)
    return rows, places, counts, columns, *runs, rows * 2


def _unique_planes(self, x):
    return torch.unique(x, dim=1, return_inverse=True), torch.unique_consecutive(x, dim=2)


def _item(self, x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x[:k] * 2


def _item_fills(self, n):
    k = n.item()
    torch._check(k >= 1, lambda: "the count must be positive")
    torch._check(k <= 10)
    return torch.zeros(k, 2) + k, torch.arange(k)


def _item_float(self, x):
    return torch.full((2,), x.max().item()) + x.sum().item()


def _item_unbounded(self, n):
    k = n.item()
    torch._check(k >= 0)
    return torch.ones(k).cumsum(0)


def _tolist(self, sizes, x):
    a, b = sizes.tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    torch._check(a + b == x.shape[0])
    return torch.split(x, [a, b])[1] * 2, torch.split(x, [a, b])[0] + 1


def _repeat_interleave(self, x, counts):
    return torch.repeat_interleave(x, counts, dim=0), torch.repeat_interleave(counts)


def _where(self, x):
    rows, columns = torch.where(x > 0)
    return rows, columns, x[rows, columns]


def _argwhere(self, x):
    return torch.argwhere(x > 0).float().sum(0)


def _twice(self, x):
    first = x[x > 0]
    return first[first > 1.5], first


def _mask_write(self, x):
    y = x.clone()
    y[y > 0] = 7.0
    return y


def _bincount(self, x):
    return torch.bincount(x)


def _count_then_pad(self, x):
    picked = x[x > 0]
    return torch.nn.functional.pad(picked, (0, 6 - picked.shape[0]))


def _check_relation(self, a, b):
    i, j = a.item(), b.item()
    torch._check(i < j, lambda: "i must be smaller than j")
    return torch.tensor([1.0]) * (j - i)


def _view_of_unbacked(self, x):
    y = x[x > 0]
    return y.view(-1, 1), y.unsqueeze(0), y.reshape(1, -1).t()


def _linear(self, x):
    return self.layer(x[x.sum(1) > 0]).softmax(-1)


def _cond_on_count(self, x):
    picked = x[x > 0]
    return torch.cond(picked.shape[0] > 2, lambda a: a * 2, lambda a: a + 1, (x,))


def _two_of_them(self, x):
    a, b = x[x > 0], x[x < 0]
    return torch.outer(a, b), torch.cat([a, b]).sort()[0], a.numel() + b.numel()


def _nonzero_twice(self, x):
    a, b = x.nonzero(), (x > 1).nonzero()
    return a, b, a.shape[0] - b.shape[0]


def _branches_of_unknown_size(self, x):
    return torch.cond(x.sum() > 0, lambda a: a[a > 0], lambda a: a[a < -1] * 2, (x,)) + 1


def _int_input(self, x, n):
    return x[:n] * n, torch.arange(n)


def _rotate(self, n, x):
    return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, torch.cat([a[1:], a[:1]])), (torch.zeros_like(n), x))[1]


def _doubled_rows(self, xs):
    return torch_map(lambda x: torch.cat([x, x]), xs), torch.cond(xs.sum() > 0, torch.sin, torch.cos, (xs,)).sum(0)


PAIRS = torch.tensor([[1, 2], [1, 2], [0, 2], [1, 0], [0, 2], [0, 2], [1, 2], [-1, 9]])
INTS = [(torch.tensor([3, 1, 1, 2, 3, 3]),), (torch.tensor([5, 5, 5, 5, 5, 5]),), (torch.arange(6),)]
DATA = [
    Case("nonzero", _nonzero, [*VECTORS]),
    Case("nonzero-2d", _nonzero, [*_sizes((3, 4)), (-torch.ones(3, 4),)]),
    Case("nonzero-on", _nonzero_on, VECTORS, state={"row": torch.randn(3)}),
    Case("nonzero-dynamic", _nonzero, _sizes((4, 3), (8, 3), (2, 3)), ({0: B},)),
    Case("nonzero-unbounded", _nonzero, _sizes((4, 3), (80, 3), (2, 3)), ({0: Dim.DYNAMIC},)),
    Case("masked-select", _masked_select, VECTORS),
    Case("boolean-mask", _boolean_mask, VECTORS),
    Case("boolean-mask-unbounded", _boolean_mask, [*VECTORS, *_sizes(100)], ({0: Dim.DYNAMIC},)),
    Case("rows-by-mask", _rows_by_mask, _sizes((4, 3), (8, 3), (2, 3)), ({0: B},), state={"square": torch.randn(3, 3)}),
    Case("unique", _unique, INTS),
    Case("unique-consecutive", _unique_consecutive, INTS),
    Case("unique-slices", _unique_slices, [(x,) for x in (PAIRS, PAIRS.sort(0).values, PAIRS * 0)]),
    Case("unique-slices-float", _unique_slices, [(PAIRS - 0.5,), (PAIRS * 0.0,)]),
    Case("unique-slices-nan", _unique_slices, [(torch.where(PAIRS == 2, torch.nan, PAIRS),), (PAIRS * 1.0,)]),
    Case("unique-planes", _unique_planes, [(PAIRS.view(2, 4, 2),), (PAIRS.view(2, 4, 2) * 0,)]),
    Case(
        "item",
        _item,
        [(torch.randn(5), torch.tensor(n)) for n in (3, 0, 5, 1)],
        refused=[((torch.randn(5), torch.tensor(6)), "u0 <= 5|<= 5"), ((torch.randn(5), torch.tensor(-1)), ">= 0")],
    ),
    Case(
        "item-fills",
        _item_fills,
        [(torch.tensor(n),) for n in (3, 10, 1)],
        refused=[((torch.tensor(0),), "a check of the model failed: u0 >= 1"), ((torch.tensor(11),), "<= 10")],
    ),
    Case("item-float", _item_float, VECTORS),
    Case(
        "item-unbounded",
        _item_unbounded,
        [(torch.tensor(n),) for n in (3, 1000, 0, 7)],
        refused=[((torch.tensor(-1),), ">= 0")],
    ),
    Case(
        "tolist",
        _tolist,
        [(torch.tensor(s), torch.randn(5, 2)) for s in ([2, 3], [0, 5], [5, 0])],
        refused=[((torch.tensor([2, 2]), torch.randn(5, 2)), "5")],
    ),
    Case(
        "repeat-interleave",
        _repeat_interleave,
        [(torch.randn(3, 2), torch.tensor(c)) for c in ([1, 0, 3], [0, 0, 0], [9, 1, 2])],
    ),
    Case("where", _where, _sizes((3, 4), (3, 4))),
    Case("argwhere", _argwhere, _sizes((3, 4), (3, 4))),
    Case("twice", _twice, VECTORS),
    Case("mask-write", _mask_write, VECTORS),
    Case("bincount", _bincount, [(torch.tensor([1, 3, 1]),), (torch.tensor([0, 0, 7]),)]),
    Case(
        "check-relation",
        _check_relation,
        [(torch.tensor(1), torch.tensor(3)), (torch.tensor(-5), torch.tensor(3))],
        refused=[((torch.tensor(3), torch.tensor(3)), "a check of the model failed: u0 < u1")],
    ),
    Case("two-of-them", _two_of_them, VECTORS),
    Case("nonzero-twice", _nonzero_twice, [(torch.tensor([1.0, 0, 3]),), (torch.zeros(3),), (torch.ones(3) * 2,)]),
    Case("branches-of-unknown-size", _branches_of_unknown_size, VECTORS),
    Case("int-input", _int_input, [(torch.randn(8), n) for n in (3, 7, 2)], (None, Dim.DYNAMIC)),
    Case(
        "unbounded-loop",
        _rotate,
        [(torch.tensor(n), torch.randn(k)) for n, k in ((2, 5), (0, 9), (3, 40))],
        (None, {0: Dim.DYNAMIC}),
    ),
    Case("unbounded-map", _doubled_rows, _sizes((4, 3), (50, 7), (3, 2)), ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)),
    Case("views", _view_of_unbacked, VECTORS),
    Case("linear", _linear, _sizes((4, 3), (8, 3), (2, 3)), ({0: B},), state={"layer": torch.nn.Linear(3, 5)}),
    Case("cond-on-count", _cond_on_count, VECTORS),
    Case("count-then-pad", _count_then_pad, VECTORS),
]


@cases(DATA)
def test_data_dependent(case):
    check(case)


class Fill(torch.nn.Module):
    def forward(self, n):
        k = n.item()
        torch._check(k >= 1, lambda: "torch keeps the condition, not this text")
        torch._check(k <= 10)
        return torch.zeros(k)


def test_a_failed_check_names_the_source_line():
    method = method_of(lower(Case("line", Fill(), [(torch.tensor(3),)])))
    with pytest.raises(ExecutorchError, match=r"u0 >= 1\n.*assert[^,]*, .*test_data_dependent\.py:\d+"):
        method.execute([torch.tensor(0)])
