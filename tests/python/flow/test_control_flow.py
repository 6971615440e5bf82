"""Control flow against eager: cond, map, scan and while_loop, by themselves, nested, and with all that they capture."""

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from tests.python.flow.series import Case, cases, check

X, Y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
SMALL = X * 0.1
W = {"weight": torch.arange(3.0) + 1}
BOTH = [(X,), (Y,)]
ROWS = Dim("rows", min=2, max=8)


def _rows(*counts, width=3):
    return [(torch.arange(count * width, dtype=torch.float32).reshape(count, width) - 5,) for count in counts]


# --------------------------------------------------------------------------------------------------------------- cond


def _captures(self, x):
    return torch.cond(x.sum() > 0, lambda a: a * self.weight, lambda a: a - self.weight, (x,))


def _constant_inside(self, x):
    return torch.cond(x.sum() > 0, lambda a: a + torch.tensor([1.0, 2.0, 3.0]), lambda a: a * torch.tensor(2.5), (x,))


def _constant_only(self, x):
    return torch.cond(x.sum() > 0, lambda a: torch.ones(3), lambda a: torch.full((3,), 2.0), (x,))


def _constant_tensor_only(self, x):
    return torch.cond(x.sum() > 0, lambda a: torch.tensor([4.0, 5.0]), lambda a: torch.tensor([6.0, 7.0]), (x,))


def _weight_only(self, x):
    return torch.cond(x.sum() > 0, lambda a: self.weight.clone(), lambda a: a.clone(), (x,))


def _unchanged(self, x):
    return torch.cond(x.sum() > 0, lambda a: a.clone(), lambda a: a + 1, (x,)) * 2


def _same_result_twice(self, x):
    def true(a):
        b = a * 2
        return b, b.clone(), b + 1

    return torch.cond(x.sum() > 0, true, lambda a: (a + 1, a + 2, a + 3), (x,))


def _three_levels(self, x):
    def inner(a):
        return torch.cond(a.max() > 2, lambda b: torch.cond(b.min() > 0.5, torch.sin, torch.cos, (b,)), torch.neg, (a,))

    return torch.cond(x.sum() > 0, lambda a: inner(a) + self.weight, lambda a: inner(a * 2), (x,)) + x


def _no_operands(self, x):
    return torch.cond(x.sum() > 0, lambda: self.weight + 1, lambda: self.weight - 1, ())


def _predicate_of_one_element(self, x):
    return torch.cond((x[:1] > 0), lambda a: a + 1, lambda a: a - 1, (x,))


def _input_predicate(self, flag, x):
    return torch.cond(flag, lambda a: a + 1, lambda a: a - 1, (x,))


def _integers(self, x):
    return torch.cond(x.sum() > 0, lambda a: a // 2, lambda a: a % 3, (x,))


def _several_kinds(self, x):
    return torch.cond(
        x.sum() > 0,
        lambda a: (a > 1, a.to(torch.int64), a[:2].clone()),
        lambda a: (a < -1, a.to(torch.int64) * 2, a[1:].clone()),
        (x,),
    )


def _int_results(self, x):
    n = torch.cond(x.sum() > 0, lambda a: 2, lambda a: 3, (x,))
    torch._check(n >= 0)
    torch._check(n <= 3)
    return x.new_ones(4)[:n] if False else x + n


def _chained(self, x):
    for step in range(4):
        x = torch.cond(x.sum() > step, lambda a: a * 0.5 - 1, lambda a: a + 2, (x,))
    return x


def _same_branches_twice(self, x, y):
    def true(a):
        return a * self.weight

    def false(a):
        return a + self.weight

    return torch.cond(x.sum() > 0, true, false, (x,)), torch.cond(y.sum() > 0, true, false, (y,))


def _views_of_operand(self, x):
    return (
        torch.cond(x.sum() > 0, lambda a: a.view(3, 1).clone(), lambda a: a.unsqueeze(1).clone(), (x,)).squeeze(1) * 3
    )


def _size_predicate(self, x):
    return torch.cond(x.shape[0] > 4, lambda a: a.sin(), lambda a: a.cos(), (x,))


def _size_and_data(self, x):
    return torch.cond(x.shape[0] > 4, lambda a: a * a.shape[0], lambda a: a + a.shape[0] * 2, (x,)).sum(0)


def _compound_predicate(self, x):
    n = x.shape[0]
    return torch.cond((n % 3 == 0) | (n > 6), lambda a: a + 1, lambda a: a - 1, (x,))


def _different_sizes(self, x):
    return torch.cond(x.sum() > 0, lambda a: a[:2] * 2, lambda a: torch.cat([a, a]), (x,)) + 1


def _dynamic_branches(self, x):
    return torch.cond(x.sum() > 0, lambda a: a.reshape(-1), lambda a: torch.cat([a, a * 2]).reshape(-1), (x,)) + 1


def _data_sizes_inside(self, x):
    return torch.cond(x.sum() > 0, lambda a: a[a > 1].sum(), lambda a: a[a < 0].sum() * 2, (x,))


def _item_predicate(self, n, x):
    return torch.cond(n.item() > 2, lambda a: a * 2, lambda a: a * 3, (x,))


def _reduction_after(self, x):
    y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    return (y.unsqueeze(0) @ y.unsqueeze(1)).squeeze(), y.max()


COND = [
    Case("captures", _captures, BOTH, state=W),
    Case("captures-strict", _captures, BOTH, state=W, strict=True),
    Case("constant-inside", _constant_inside, BOTH),
    Case("constant-only", _constant_only, BOTH),
    Case("constant-tensor-only", _constant_tensor_only, BOTH),
    Case("weight-only", _weight_only, BOTH, state=W),
    Case("unchanged", _unchanged, BOTH),
    Case("same-result-twice", _same_result_twice, BOTH),
    Case("three-levels", _three_levels, [(X,), (SMALL,), (Y,), (X + 5,)], state=W),
    Case("no-operands", _no_operands, BOTH, state=W),
    Case("predicate-of-one-element", _predicate_of_one_element, BOTH),
    Case("input-predicate", _input_predicate, [(torch.tensor(True), X), (torch.tensor(False), X)]),
    Case("integers", _integers, [(torch.tensor([5, -7, 9]),), (torch.tensor([-5, 7, -9]),)]),
    Case("several-kinds", _several_kinds, BOTH),
    Case("int-results", _int_results, BOTH),
    Case("chained", _chained, [(X,), (Y,), (SMALL,)]),
    Case("same-branches-twice", _same_branches_twice, [(X, Y), (Y, X), (X, X)], state=W),
    Case("views-of-operand", _views_of_operand, BOTH),
    Case("size-predicate", _size_predicate, _rows(6, 3, 8, 2), dynamic=({0: ROWS},)),
    Case("size-and-data", _size_and_data, _rows(6, 3, 8, 2), dynamic=({0: ROWS},)),
    Case("compound-predicate", _compound_predicate, _rows(6, 3, 8, 2, 7), dynamic=({0: ROWS},)),
    Case("different-sizes", _different_sizes, BOTH),
    Case("dynamic-branches", _dynamic_branches, [*_rows(6, 2), (-torch.ones(5, 3),)], dynamic=({0: ROWS},)),
    Case("data-sizes-inside", _data_sizes_inside, BOTH),
    Case("item-predicate", _item_predicate, [(torch.tensor(n), X) for n in (3, 1, 5)]),
    Case("reduction-after", _reduction_after, BOTH),
]


# ---------------------------------------------------------------------------------------------------------------- map


def _map_captures(self, xs, y):
    return torch_map(lambda x, z: torch.relu(x) * self.weight + z, xs, y)


def _map_of_several(self, xs, ys):
    return torch_map(lambda pair: (pair[0] * pair[1], pair[0].sum() > pair[1].sum()), (xs, ys))


def _map_constant(self, xs):
    return torch_map(lambda x: x + torch.tensor([1.0, 2.0, 3.0]), xs)


def _map_dynamic(self, xs):
    return torch_map(lambda x: torch.stack([x, x * 2]), xs) + xs.shape[0]


def _map_inner_dynamic(self, xs):
    return torch_map(lambda x: torch.cat([x, x]).cumsum(0), xs)


def _map_of_map(self, xs):
    return torch_map(lambda row: torch_map(lambda x: x * self.weight + 1, row), xs)


def _map_of_cond(self, xs):
    return torch_map(lambda x: torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a + self.weight, (x,)), xs)


def _map_ints(self, xs):
    return torch_map(lambda x: (x % 4, x > 4, (x * 3).to(torch.int32)), xs)


MAP = [
    Case("captures", _map_captures, [(torch.randn(4, 3), X), (torch.randn(4, 3), Y)], state=W),
    Case("of-several", _map_of_several, [(torch.randn(4, 3), torch.randn(4, 3))]),
    Case("constant", _map_constant, [(torch.randn(4, 3),)]),
    Case("dynamic", _map_dynamic, _rows(4, 8, 2, 5), dynamic=({0: ROWS},)),
    Case(
        "inner-dynamic",
        _map_inner_dynamic,
        [(torch.randn(3, n),) for n in (4, 8, 2)],
        dynamic=({1: ROWS},),
    ),
    Case(
        "both-dynamic",
        _map_inner_dynamic,
        [(torch.randn(m, n),) for m, n in ((5, 4), (4, 8), (6, 2))],
        dynamic=({0: Dim("m", min=4, max=6), 1: ROWS},),
    ),
    Case("of-map", _map_of_map, [(torch.randn(2, 4, 3),)], state=W),
    Case("of-cond", _map_of_cond, [(torch.randn(6, 3),), (torch.randn(6, 3),)], state=W),
    Case("ints", _map_ints, [(torch.arange(12).reshape(4, 3),)]),
]


# --------------------------------------------------------------------------------------------------------------- scan


def _running_sum(carry, x):
    total = carry + x
    return total, total * 2


def _scan_simple(self, start, xs):
    return scan(_running_sum, start, xs)


def _scan_dim(self, start, xs):
    return scan(_running_sum, start, xs, dim=1)


def _scan_reverse(self, start, xs):
    return scan(_running_sum, start, xs, reverse=True)


def _scan_dim_reverse(self, start, xs):
    return scan(_running_sum, start, xs, dim=1, reverse=True)


def _scan_several(self, start, xs, ys):
    def step(carry, items):
        total, count = carry
        x, y = items
        return (total + x * self.weight, count + 1), (total - y, (x > y), count + 0)

    return scan(step, (start, torch.zeros((), dtype=torch.int64)), (xs, ys))


def _scan_swaps(self, a, b, xs):
    def step(carry, x):
        first, second = carry
        return (second + 0, first + x), first.clone()

    return scan(step, (a, b), xs)


def _scan_rnn(self, h, xs):
    def step(h, x):
        h = torch.tanh(self.cell(x) + self.hidden(h))
        return h, h.clone()

    return scan(step, h, xs)


def _scan_of_cond(self, start, xs):
    def step(carry, x):
        carry = torch.cond(x.sum() > 0, lambda c, y: c + y, lambda c, y: c - self.weight, (carry, x))
        return carry, carry * 2

    return scan(step, start, xs)


def _scan_of_scan(self, start, xs):
    def outer(carry, row):
        last, all_of_them = scan(_running_sum, carry, row)
        return last, all_of_them.sum(0)

    return scan(outer, start, xs)


def _scan_bool(self, xs):
    def step(seen, x):
        seen = torch.logical_or(seen, x > 1)
        return seen, seen.logical_not()

    return scan(step, torch.zeros(3, dtype=torch.bool), xs)


def _scan_masked(self, xs, lengths):
    def step(carry, x):
        h, t = carry
        alive = (t < lengths).unsqueeze(1)
        h = torch.where(alive, torch.tanh(x + h), h)
        return (h, t + 1), h.clone()

    start = (xs.new_zeros(xs.shape[1], xs.shape[2]), torch.zeros((), dtype=torch.int64))
    (last, _), states = scan(step, start, xs)
    return last, states.transpose(0, 1)


START = torch.zeros(3)
SCAN = [
    Case("simple", _scan_simple, [(START, torch.randn(4, 3)), (X, torch.randn(4, 3))]),
    Case("strict", _scan_simple, [(START, torch.randn(4, 3)), (X, torch.randn(4, 3))], strict=True),
    Case("dim", _scan_dim, [(START, torch.randn(3, 5)), (X, torch.randn(3, 5))]),
    Case("reverse", _scan_reverse, [(START, torch.randn(4, 3)), (X, torch.randn(4, 3))]),
    Case("dim-reverse", _scan_dim_reverse, [(START, torch.randn(3, 5))]),
    Case("several", _scan_several, [(START, torch.randn(4, 3), torch.randn(4, 3))], state=W),
    Case("swaps", _scan_swaps, [(START, X, torch.randn(5, 3))]),
    Case(
        "rnn",
        _scan_rnn,
        [(torch.zeros(2, 4), torch.randn(6, 2, 3))],
        state={"cell": torch.nn.Linear(3, 4), "hidden": torch.nn.Linear(4, 4)},
    ),
    Case(
        "rnn-dynamic",
        _scan_rnn,
        [(torch.zeros(b, 4), torch.randn(t, b, 3)) for b, t in ((2, 6), (4, 3), (3, 8), (2, 2))],
        dynamic=({0: Dim("batch", min=2, max=4)}, {0: ROWS, 1: Dim("batch", min=2, max=4)}),
        state={"cell": torch.nn.Linear(3, 4), "hidden": torch.nn.Linear(4, 4)},
    ),
    Case("of-cond", _scan_of_cond, [(START, torch.randn(6, 3))], state=W),
    Case("of-scan", _scan_of_scan, [(START, torch.randn(3, 4, 3))]),
    Case("bool", _scan_bool, [(torch.randn(5, 3),), (torch.randn(5, 3),)]),
    Case(
        "masked",
        _scan_masked,
        [(torch.randn(t, b, 3), torch.arange(b) + 1) for t, b in ((5, 3), (8, 2), (2, 4))],
        dynamic=({0: ROWS, 1: Dim("batch", min=2, max=4)}, {0: Dim("batch", min=2, max=4)}),
    ),
    Case("dynamic", _scan_simple, [(START, *xs) for xs in _rows(4, 8, 2)], dynamic=(None, {0: ROWS})),
    Case("dynamic-reverse", _scan_reverse, [(START, *xs) for xs in _rows(4, 8, 2)], dynamic=(None, {0: ROWS})),
]


# --------------------------------------------------------------------------------------------------------- while_loop


def _loop(self, count, x):
    return while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2 + self.weight), (count, x))


def _loop_of_python_int(self, x):
    return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a + i), (0, x))


def _loop_over_rows(self, x):
    def body(i, total):
        return i + 1, total + x[i]

    return while_loop(lambda i, total: i < x.shape[0], body, (0, x.new_zeros(3)))[1]


def _loop_two_counters(self, x):
    def body(i, j, a):
        return j + 1, i + 2, a + i * j

    return while_loop(lambda i, j, a: i + j < 20, body, (x.shape[0], 1, x))


def _loop_swaps(self, a, b, n):
    return while_loop(lambda a, b, i: i > 0, lambda a, b, i: (b.clone(), a + b, i - 1), (a, b, n))


def _loop_leaves_as_it_is(self, x, n):
    return while_loop(
        lambda a, i: i > 0, lambda a, i: (a.unsqueeze(0).squeeze(0).clone(), i - 1), (x.unsqueeze(0).squeeze(0), n)
    )


def _loop_of_data(self, x):
    return while_loop(lambda a: a.abs().max() > 1e-1, lambda a: (a / 2,), (x,))


def _loop_in_loop(self, n, x):
    def outer(i, a):
        _, a = while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b + j), (torch.zeros_like(i), a))
        return i + 1, a * 0.5

    return while_loop(lambda i, a: i < n, outer, (torch.zeros_like(n), x))


def _loop_of_cond(self, n, x):
    def body(i, a):
        return i + 1, torch.cond((i % 2) == 0, lambda b: b * 2, lambda b: b + self.weight, (a,))

    return while_loop(lambda i, a: i < n, body, (torch.zeros_like(n), x))


def _cond_of_loop(self, x):
    def loop(a):
        return while_loop(lambda i, b: i < 3, lambda i, b: (i + 1, b * 2), (torch.tensor(0), a))[1]

    return torch.cond(x.sum() > 0, loop, lambda a: a + 1, (x,))


def _loop_bool(self, x):
    def body(go, i, a):
        return (a.sum() < 100), i + 1, a * 2

    return while_loop(lambda go, i, a: go & (i < 50), body, (x.sum() > 0, torch.tensor(0), x))


def _loop_constant(self, n, x):
    def body(i, a):
        return i + 1, a + torch.tensor([0.5, 0.25, 0.125])

    return while_loop(lambda i, a: i < n, body, (torch.zeros_like(n), x))


def _loop_dynamic(self, n, x):
    def body(i, a):
        return i + 1, torch.relu(a) @ self.square

    return while_loop(lambda i, a: i < n, body, (torch.zeros_like(n), x))[1]


def _loop_fills(self, n):
    def body(i, out):
        return i + 1, torch.where(torch.arange(8) == i, i * i, out)

    return while_loop(lambda i, out: i < n, body, (torch.zeros_like(n), torch.zeros(8, dtype=torch.int64)))[1]


def _loop_unchanged(self, n, x, y):
    return while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, a + b, b.clone()), (torch.zeros_like(n), x, y))


COUNTS = [(torch.tensor(n), x) for n, x in ((3, X), (0, Y), (5, X), (1, Y))]
WHILE = [
    Case("tensor-count", _loop, [(torch.tensor(n), X) for n in (0, 3, 9, 4)], state=W),
    Case("tensor-count-strict", _loop, [(torch.tensor(n), X) for n in (0, 3, 9)], state=W, strict=True),
    Case("python-int", _loop_of_python_int, BOTH),
    Case("over-rows", _loop_over_rows, _rows(4, 8, 2), dynamic=({0: ROWS},)),
    Case("two-counters", _loop_two_counters, _rows(4, 8, 2), dynamic=({0: ROWS},)),
    Case("swaps", _loop_swaps, [(X, Y, torch.tensor(n)) for n in (4, 0, 1)]),
    Case("leaves-as-it-is", _loop_leaves_as_it_is, [(X, torch.tensor(n)) for n in (2, 0)]),
    Case("of-data", _loop_of_data, [(X,), (X * 100,), (X * 1e-3,)]),
    Case("in-loop", _loop_in_loop, COUNTS),
    Case("of-cond", _loop_of_cond, COUNTS, state=W),
    Case("in-cond", _cond_of_loop, BOTH),
    Case("bool-carry", _loop_bool, BOTH),
    Case("constant", _loop_constant, COUNTS),
    Case(
        "dynamic",
        _loop_dynamic,
        [(torch.tensor(n), x) for n, (x,) in zip((2, 0, 3), _rows(4, 8, 2), strict=True)],
        dynamic=(None, {0: ROWS}),
        state={"square": torch.randn(3, 3)},
    ),
    Case("fills", _loop_fills, [(torch.tensor(n),) for n in (3, 0, 8)]),
    Case("unchanged", _loop_unchanged, [(torch.tensor(n), X, Y) for n in (3, 0)]),
]


def _associative(self, xs):
    return associative_scan(lambda a, b: a * b + a, xs, dim=0, combine_mode="generic")


def _associative_reverse(self, xs):
    return associative_scan(torch.add, xs, dim=1, reverse=True, combine_mode="generic")


ASSOCIATIVE = [
    Case("product", _associative, [(torch.rand(7, 3),)]),
    Case("reverse", _associative_reverse, [(torch.rand(2, 6),)]),
]


@cases(COND)
def test_cond(case):
    check(case)


@cases(MAP)
def test_map(case):
    check(case)


@cases(SCAN)
def test_scan(case):
    check(case)


@cases(WHILE)
def test_while_loop(case):
    check(case)


@cases(ASSOCIATIVE)
def test_associative_scan(case):
    check(case)


def test_a_loop_without_end_is_stopped():
    from executorch_py.errors import ExecutorchError
    from tests.python.flow.series import lower, method_of

    def forward(self, x):
        return while_loop(lambda i, a: i >= 0, lambda i, a: (i * 0, a + 1), (torch.tensor(0), x))

    method = method_of(lower(Case("endless", forward, [(X,)])))
    with pytest.raises(ExecutorchError, match="a loop went back"):
        method.execute([X])
