"""Higher-order operators beside control flow: what eager computes, or an error that names the line and a remedy."""

import warnings

import pytest
import torch
import torch._higher_order_ops as hops
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import executorch_py as et
from executorch_py.errors import NotSupportedError


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(-1, 1, 6))
        self.layer = nn.Linear(6, 6)
        self.register_buffer("count", torch.zeros(6))

    def forward(self, *inputs):
        return self.function(self, *inputs)


def _lowered(function, inputs, strict=False, **options):
    torch.manual_seed(0)
    model = Call(function).eval()
    exported = torch.export.export(model, inputs, strict=strict, **options)
    return model, et.to_edge(exported).to_executorch()


def _check(function, several_inputs, **options):
    """``several_inputs``: what one program is called with, one after another."""
    model, program = _lowered(function, several_inputs[0], **options)
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    for inputs in several_inputs:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model(*inputs))
        torch.testing.assert_close(method.execute(list(inputs)), expected, rtol=1e-4, atol=1e-5)


def _heads(seed, heads=4, time=16):
    return torch.randn(2, heads, time, 8, generator=torch.Generator().manual_seed(seed))


def _causal(b, h, q, kv):
    return q >= kv


CAUSAL = create_block_mask(_causal, None, None, 16, 16, device="cpu")
DOCUMENTS = torch.tensor([0] * 5 + [1] * 7 + [2] * 4)


def _relative(self, q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j) * 0.1)


def _captured(self, q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score * self.weight[h] + self.weight[j % 6])


def _soft_cap(self, q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: 5 * torch.tanh(score / 5), scale=0.7)


def _alibi_and_mask(self, q, k, v):
    return flex_attention(
        q,
        k,
        v,
        score_mod=lambda score, b, h, i, j: score + torch.exp2(-(h + 1) * 2.0) * (j - i),
        block_mask=CAUSAL,
    )


def _mask_made_inside(self, q, k, v):
    mask = create_block_mask(_causal, None, None, q.shape[2], k.shape[2], device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


def _documents(self, q, k, v):
    def same(b, h, i, j):
        return (DOCUMENTS[i] == DOCUMENTS[j]) & (j <= i + 1)

    return flex_attention(q, k, v, block_mask=create_block_mask(same, None, None, 16, 16, device="cpu"))


def _rows_without_keys(self, q, k, v):
    mask = create_block_mask(lambda b, h, i, j: (i > 3) & (i >= j), None, None, 16, 16, device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


def _logsumexp(self, q, k, v):
    return flex_attention(q, k, v, block_mask=CAUSAL, return_lse=True)


@pytest.mark.parametrize(
    "function",
    [_relative, _captured, _soft_cap, _alibi_and_mask, _mask_made_inside, _documents, _rows_without_keys, _logsumexp],
)
def test_flex_attention(function):
    _check(function, [(_heads(1), _heads(2), _heads(3)), (_heads(4), _heads(5), _heads(6))])


def test_flex_attention_with_shared_heads_and_other_lengths():
    def forward(self, q, k, v):
        return flex_attention(q, k, v, enable_gqa=True, score_mod=lambda score, b, h, i, j: score - (i - j).abs() * 0.2)

    _check(forward, [(_heads(1), _heads(2, heads=2, time=9), _heads(3, heads=2, time=9))])


@torch.compiler.nested_compile_region
def _region(x, weight):
    return (x * weight).relu() + 1


def _no_grad(self, x):
    with torch.no_grad():
        y = x * 2
        self.count.add_(y.sum(0))
    return y + self.weight


def _autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = self.layer(x)
    return y.float()


def _in_a_branch(self, x):
    def positive(a):
        return hops.hints_wrapper(lambda b: (b * self.weight).relu(), (a,), {}, hints={"inside": True})

    return torch.cond(x.sum() > 0, positive, lambda a: a - 1, (x,))


WRAPPERS = {
    "associative_scan": lambda self, x: hops.associative_scan(lambda a, b: a * b + 0.5, x, 0, combine_mode="generic"),
    "autocast": _autocast,
    "checkpoint": lambda self, x: torch.utils.checkpoint.checkpoint(
        lambda a: self.layer(a).relu(), x, use_reentrant=False
    ),
    "hints_wrapper": lambda self, x: hops.hints_wrapper(lambda a: a.relu() + 1, (x,), {}, hints={"fast": True}),
    "in_a_branch": _in_a_branch,
    "invoke_subgraph": lambda self, x: _region(_region(x, self.weight), self.weight),
    "jvp": lambda self, x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    "map": lambda self, x: hops.map(lambda row: row * self.weight, x),
    "nested": lambda self, x: hops.strict_mode(
        lambda a: (hops.hints_wrapper(lambda b: b.sin(), (a,), {}, hints={}),), (x,)
    ),
    "no_grad": _no_grad,
    "scan": lambda self, x: hops.scan(lambda carry, row: (carry + row, carry * row), torch.zeros(6), x),
    "strict_mode": lambda self, x: hops.strict_mode(lambda a: (a + 1, a * self.weight), (x,)),
    "vmap": lambda self, x: torch.vmap(lambda row: row.sin() @ self.weight)(x),
    "while_loop": lambda self, x: hops.while_loop(lambda a: a.sum() < 100, lambda a: (a.abs() * 2 + 1,), (x,)),
}


@pytest.mark.parametrize("name", sorted(WRAPPERS))
def test_computations_that_are_called_through_an_operator(name):
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(7))
    _check(WRAPPERS[name], [(x,), (-x,)])


def test_strict_export_wraps_more():
    x = torch.randn(4, 6)
    _check(lambda self, x: hops.foreach_map(torch.add, [x, x * 2], [x, self.weight]), [(x,)], strict=True)
    _check(WRAPPERS["hints_wrapper"], [(x,)], strict=True)


def test_out_dtype_sums_integers_in_int32():
    def forward(self, a, b):
        return hops.out_dtype(torch.ops.aten.mm.default, torch.int32, a, b)

    generator = torch.Generator().manual_seed(0)
    draw = [torch.randint(-128, 128, size, dtype=torch.int8, generator=generator) for size in ((4, 6), (6, 5))]
    _check(forward, [tuple(draw)])


def test_a_print_is_left_out_with_a_warning():
    def forward(self, x):
        hops.print("sum {}", x.sum())
        return x + 1

    with pytest.warns(UserWarning, match=r"test_higher_order.py:\d+.*the model prints here"):
        _check(forward, [(torch.randn(3),)])


def test_gradients_that_export_loses_are_refused():
    with pytest.raises(NotSupportedError, match=r"without its data, as it does for torch.func.grad"):
        _lowered(lambda self, x: torch.func.grad(lambda a: (a**2).sum())(x), (torch.randn(3),))


def test_an_unknown_operator_is_refused_with_its_line_and_a_remedy():
    from executorch_py.export.importer import control_flow

    exported = torch.export.export(
        Call(lambda self, x: torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))), (torch.randn(3),)
    )
    edge = et.to_edge(exported)
    writer = control_flow._WRITERS.pop("cond")
    try:
        with pytest.raises(NotSupportedError, match=r"test_higher_order.py:\d+.*'cond' has no form.*write the comp"):
            edge.to_executorch()
    finally:
        control_flow._WRITERS["cond"] = writer


def test_every_higher_order_operator_of_torch_is_known():
    """What torch can leave in a graph is written, inlined, expanded, or refused with a remedy of its own."""
    from torch._ops import _higher_order_ops

    from executorch_py.export.functional import higher_order
    from executorch_py.export.importer import control_flow

    known = {
        *control_flow._WRITERS,
        *control_flow._REMEDIES,
        *higher_order._WRAPPERS,
        *higher_order._EXPANDED,
        *("auto_functionalized", "auto_functionalized_v2", "wrap_with_autocast", "wrap_with_set_grad_enabled"),
        *("executorch_call_delegate", "associative_scan", "print"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        present = {
            op.name() if callable(getattr(op, "name", None)) else name
            for name, op in _higher_order_ops.items()
            if not type(op).__module__.startswith(
                "torch._inductor"
            )  # its own, behind any export; there once it is loaded
        }
    assert present <= known, sorted(present - known)
