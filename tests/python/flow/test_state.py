"""Mutable state against eager: initial values, persistence, sharing, reset, several instances, every way of writing."""

import copy

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import executorch_py as et
from tests.python.flow.series import Call, Case, cases, check, compare, lower, method_of

X = torch.tensor([1.0, 2.0, 3.0])
BOTH = [(X,), (-X,), (X * 0.5,)]


def _add(self, x):
    self.total.add_(x)
    return self.total * 2


def _is_output(self, x):
    self.total.add_(x)
    return self.total


def _old_is_output(self, x):
    old = self.total.clone()
    self.total.copy_(x)
    return old, x + old


def _slice(self, x):
    self.total[1:].mul_(x[1:])
    self.total[0] = x.sum()
    return self.total.sum()


def _copy(self, x):
    self.total.copy_(self.total * 0.5 + x)
    return x.clone()


def _index_put(self, x, position):
    self.cache[position] = x
    return self.cache.sum(0)


def _index_put_columns(self, x, position):
    self.cache[:, position] = x
    return self.cache + 0


def _index_copy(self, x, position):
    self.cache.index_copy_(0, position, x)
    return self.cache.clone()


def _scatter(self, x, position):
    self.cache.scatter_(0, position, x)
    return self.cache.mean()


def _integer(self, x):
    self.count += 1
    self.flags.logical_or_(x > 1)
    return self.count, self.flags


def _swap(self, x):
    old = self.a.clone()
    self.a.copy_(self.b + x)
    self.b.copy_(old)
    return self.a - self.b


def _in_branch(self, x):
    def true(a):
        self.total.add_(a)
        return a * 2

    def false(a):
        self.total.zero_()
        return a.neg()

    return torch.cond(x.sum() > 0, true, false, (x,)), self.total * 1


def _in_one_branch(self, x):
    def true(a):
        self.total[1:].mul_(2)
        return a * 2

    return torch.cond(x.sum() > 0, true, lambda a: a + 1, (x,)), self.total.sum()


def _in_nested_branch(self, x):
    def inner(b):
        self.total.add_(b)
        return b * 2

    def true(a):
        return torch.cond(a.max() > 1, inner, lambda b: b.neg(), (a,))

    return torch.cond(x.sum() > 0, true, lambda a: a + 1, (x,)), self.total * 2


def _in_loop(self, n, x):
    def body(i, a):
        self.total.add_(a)
        return i + 1, a * 0.5

    _, y = while_loop(lambda i, a: i < n, body, (torch.zeros_like(n), x))
    return y, self.total * 1


def _from_branch(self, x):
    new = torch.cond(x.sum() > 0, lambda t, a: t + a, lambda t, a: t.clone(), (self.total, x))
    self.total.copy_(new)
    return new + 1


def _by_loop(self, x):
    _, new = while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 0.5 + x), (torch.tensor(0), self.total))
    self.total.copy_(new)
    return self.total


def _through_view(self, x):
    self.cache.view(-1)[2:5] = x
    self.cache.t()[0].add_(1)
    return self.cache


def _only_read_after_loop(self, n, x):
    def body(i, a):
        return i + 1, a + self.total

    _, y = while_loop(lambda i, a: i < n, body, (torch.zeros_like(n), x))
    self.total.add_(1)
    return y


def _dynamic_cache(self, x, position):
    self.cache[position] = x
    length = position.shape[0]
    return self.cache[:length] * 2


def _dynamic_slice(self, x):
    n = x.shape[0]
    self.cache[:n] = x
    return self.cache.sum(0)


def _ring(self, x):
    self.cache.copy_(torch.cat([self.cache[1:], x.unsqueeze(0)]))
    return self.cache.mean(0)


def _input_mutated(self, x):
    x.add_(1)
    self.total.add_(x)
    return self.total + x


class Unregistered(nn.Module):
    """Writes a tensor that it holds in a plain object, as caches of transformers are held."""

    def __init__(self):
        super().__init__()
        self.held = {"count": torch.zeros(3)}

    def forward(self, x):
        self.held["count"].to(torch.float32).add_(x)
        return self.held["count"] * 2


TOTAL = {"total": torch.arange(3.0)}
CACHE = {"cache": torch.arange(12.0).reshape(4, 3)}
STATE = [
    Case("add", _add, BOTH, state=TOTAL),
    Case("strict", _add, BOTH, state=TOTAL, strict=True),
    Case("is-output", _is_output, BOTH, state=TOTAL),
    Case("old-is-output", _old_is_output, BOTH, state=TOTAL),
    Case("slice", _slice, BOTH, state=TOTAL),
    Case("copy", _copy, BOTH, state=TOTAL),
    Case("index-put", _index_put, [(X, torch.tensor([i])) for i in (0, 3, 1)], state=CACHE),
    Case(
        "index-put-columns",
        _index_put_columns,
        [(torch.randn(4, 2), torch.tensor([i, 2])) for i in (0, 1)],
        state=CACHE,
    ),
    Case("index-copy", _index_copy, [(torch.randn(2, 3), torch.tensor(p)) for p in ([0, 3], [2, 1])], state=CACHE),
    Case("scatter", _scatter, [(torch.randn(1, 3), torch.tensor([p])) for p in ([0, 3, 1], [2, 1, 1])], state=CACHE),
    Case("integer", _integer, BOTH, state={"count": torch.tensor(5), "flags": torch.zeros(3, dtype=torch.bool)}),
    Case("swap", _swap, BOTH, state={"a": torch.ones(3), "b": torch.arange(3.0)}),
    Case("in-branch", _in_branch, BOTH, state=TOTAL),
    Case("in-one-branch", _in_one_branch, BOTH, state=TOTAL),
    Case("in-nested-branch", _in_nested_branch, BOTH, state=TOTAL),
    Case("in-loop", _in_loop, [(torch.tensor(n), X) for n in (2, 0, 3)], state=TOTAL),
    Case("from-branch", _from_branch, BOTH, state=TOTAL),
    Case("by-loop", _by_loop, BOTH, state=TOTAL),
    Case("through-view", _through_view, BOTH, state=CACHE),
    Case("read-in-loop", _only_read_after_loop, [(torch.tensor(n), X) for n in (2, 0, 3)], state=TOTAL),
    Case(
        "dynamic-cache",
        _dynamic_cache,
        [(torch.randn(n, 3), torch.arange(n)) for n in (2, 4, 3)],
        ({0: Dim("n", min=2, max=4)}, {0: Dim("n", min=2, max=4)}),
        state=CACHE,
    ),
    Case(
        "dynamic-slice",
        _dynamic_slice,
        [(torch.randn(n, 3),) for n in (2, 4, 3)],
        ({0: Dim("n", min=2, max=4)},),
        state=CACHE,
    ),
    Case("ring", _ring, BOTH, state=CACHE),
    Case("unregistered", Unregistered(), BOTH),
    Case("input-mutated", _input_mutated, BOTH, state=TOTAL),
]


@cases(STATE)
def test_state(case):
    check(case)


def _run(method, *inputs):
    return method.execute(list(inputs))


def test_reset_and_independent_methods():
    program = et.Runtime.get().load_program(lower(Case("reset", _add, BOTH, state=TOTAL)).buffer)
    first = program.load_method("forward")
    start = _run(first, X)[0]
    assert not torch.equal(_run(first, X)[0], start)
    first.reset_state()
    torch.testing.assert_close(_run(first, X)[0], start)
    other = program.load_method("forward", session=program.new_session())
    torch.testing.assert_close(_run(other, X)[0], start)
    _run(other, X)
    compare(_run(first, X), [start + 2 * X])


class Cached(nn.Module):
    """A KV cache that two methods share: prefill takes many rows, decode one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 4))
        self.register_buffer("length", torch.zeros(1, dtype=torch.int64))
        self.project = nn.Linear(4, 4)

    def forward(self, x):
        rows = self.length + torch.arange(x.shape[0])
        self.cache[rows] = self.project(x)
        self.length.add_(x.shape[0])
        mask = torch.arange(8) < self.length
        return (x @ self.cache.t()).masked_fill(~mask, -torch.inf).softmax(-1) @ self.cache


@pytest.mark.parametrize("compatible", [False])
def test_prefill_and_decode_share_a_cache(compatible):
    model, eager = Cached().eval(), None
    eager = copy.deepcopy(model)
    exported = {
        "prefill": torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("rows", min=2, max=6)},)),
        "decode": torch.export.export(model, (torch.randn(1, 4),)),
    }
    program = et.Runtime.get().load_program(
        et.to_edge(exported).to_executorch(et.ExecutorchBackendConfig(compatible=compatible)).buffer
    )
    prefill, decode = program.load_method("prefill"), program.load_method("decode")
    for _ in range(2):
        for method, rows in ((prefill, 4), (decode, 1), (decode, 1), (prefill, 2)):
            x = torch.randn(rows, 4)
            with torch.no_grad():
                compare(_run(method, x), [eager(x)])
        prefill.reset_state()
        eager.cache.zero_()
        eager.length.zero_()


def test_batch_norm_in_training_mode():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train()
    eager = copy.deepcopy(model)
    with torch.no_grad():
        exported = torch.export.export(model, (torch.randn(2, 3, 6, 6),))
        method = method_of(et.to_edge(exported).to_executorch())
        for _ in range(3):
            x = torch.randn(2, 3, 6, 6)
            compare(_run(method, x), [eager(x)])
    assert int(eager[1].num_batches_tracked) == 3


def test_state_survives_a_refused_call():
    case = Case("refused", _add, [(X,)], state=TOTAL)
    method = method_of(lower(case))
    before = _run(method, X)[0]
    with pytest.raises(et.InvalidArgumentError):
        _run(method, torch.ones(4))
    compare(_run(method, X), [before + 2 * X])


def test_call_holds_what_it_was_given():
    assert list(Call(_add, **TOTAL).state_dict()) == ["total"]


class _TwoNames(nn.Module):
    """A buffer that the module holds by a second name, which it did not register."""

    def __init__(self, write) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))
        self.other = self.total
        self.write = write

    def forward(self, x):
        return self.write(self, x)


@pytest.mark.parametrize(
    "write",
    [
        lambda self, x: (self.total.add_(x), self.other * 2)[1],
        lambda self, x: (self.other.add_(x), self.total * 2)[1],
        lambda self, x: (self.total[1:].add_(x[1:]), self.other[:2].mul_(3), self.total + self.other)[2],
        lambda self, x: torch.cond(x.sum() > 0, lambda x: x + self.other, lambda x: x * 2, (self.total.add_(x),)),
    ],
    ids=["first", "second", "both", "branch"],
)
def test_a_buffer_of_two_names(write):
    model = _TwoNames(write)
    with torch.no_grad():
        exported = torch.export.export(copy.deepcopy(model), (X,))
    method = method_of(et.to_edge(exported).to_executorch())
    for x in (X, -3 * X, X * 0.5):
        torch.testing.assert_close(method.execute([x])[0], model(x.clone()))
