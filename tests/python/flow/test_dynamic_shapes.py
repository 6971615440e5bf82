"""Dynamic shapes against eager: every form of torch.export, sizes going up and down, bounds enforced by name."""

import io

import pytest
import torch
import torch.nn.functional as F
from executorch_py.backends.example import ExamplePartitioner
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import executorch_py as et
from executorch_py.errors import InvalidArgumentError
from tests.python.flow.series import Call, Case, cases, check, lower, method_of

B = Dim("b", min=2, max=8)
N = Dim("n", min=3, max=8)
T = Dim("t", min=1, max=16)
SQUARE = {"square": torch.randn(4, 4)}


def _x(*shapes):
    return [(torch.randn(shape),) for shape in shapes]


def _arange(*shapes):
    return [(torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape),) for shape in shapes]


def _squeezed_numbers(self, x):
    """torch lets dim 0 of a number pass, which has none."""
    return x.sum().squeeze(0) + x, x.amax().squeeze(), x[0, 0].squeeze(-1)


def _local_response(self, x):
    """torch takes it apart into views by sizes that it reads from a tensor."""
    return torch.nn.functional.local_response_norm(torch.cat([x, x], 1), 3)


def _relu(self, x):
    return torch.relu(x) + 1


def _twice(self, x, y):
    return torch.cat([x, y]).sum(0), y.view(-1, 2, 3) * x.unsqueeze(1)


def _longer(self, x, y):
    return y[1:] - y[:-1] + x


def _equal(self, x, y):
    return x + y, x @ y.t()


def _fewer(self, x, y):
    return x.sum() + y, x[1:].shape[0]


FORMS = [
    Case("bounds", _relu, _x((4, 3), (8, 3), (2, 3)), ({0: B},), refused=[(_x((9, 3))[0], "input 0.*9.*2.*8")]),
    Case("lower-bound", _relu, _x((4, 3)), ({0: B},), refused=[(_x((1, 3))[0], "size 1 of dimension 0.*2.*8")]),
    Case("static-dim-kept", _relu, _x((4, 3)), ({0: B},), refused=[(_x((4, 4))[0], "dimension 1.*takes 3")]),
    Case(
        "twice",
        _twice,
        [(torch.randn(n, 3), torch.randn(2 * n, 3)) for n in (3, 8, 2, 5)],
        ({0: B}, {0: 2 * B}),
        refused=[
            ((torch.randn(3, 3), torch.randn(7, 3)), "7 of dimension 0"),
            ((torch.randn(3, 3), torch.randn(8, 3)), "must agree"),
        ],
    ),
    Case(
        "one-more",
        _longer,
        [(torch.randn(n), torch.randn(n + 1)) for n in (3, 8, 2)],
        ({0: B}, {0: B + 1}),
        refused=[((torch.randn(3), torch.randn(3)), "must agree")],
    ),
    Case(
        "equal-dims",
        _equal,
        [(torch.randn(n, 3), torch.randn(n, 3)) for n in (3, 8, 2)],
        ({0: B}, {0: B}),
        refused=[((torch.randn(3, 3), torch.randn(4, 3)), "must agree")],
    ),
    Case(
        "equal-dims-found-by-auto",
        _equal,
        [(torch.randn(n, 3), torch.randn(n, 3)) for n in (3, 8, 2)],
        ({0: Dim.AUTO}, {0: Dim.AUTO}),
        refused=[((torch.randn(3, 3), torch.randn(4, 3)), "must agree")],
    ),
    # torch traces with sizes from 2 on, and its programs take 1 and 0
    Case("auto", _relu, _x((4, 3), (9, 3), (200, 3), (1, 3), (0, 3)), ({0: Dim.AUTO},)),
    Case("squeeze-of-numbers", _squeezed_numbers, _x((4, 3), (9, 3)), ({0: Dim.AUTO},)),
    Case(
        "sizes-that-operators-read",
        _local_response,
        _x((3, 4, 7, 5), (1, 4, 2, 9)),
        ({0: Dim.AUTO, 2: B, 3: Dim.AUTO},),
    ),
    Case("dynamic", _relu, _x((4, 3), (9, 5), (200, 7)), ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)),
    Case("auto-with-bounds", _relu, _x((4, 3), (9, 3)), ({0: Dim.AUTO(min=3, max=9)},), refused=[(_x((2, 3))[0], "2")]),
    Case("static-hint", _relu, _x((4, 3), (8, 3)), ({0: B, 1: Dim.STATIC},)),
    Case("several-symbols", _relu, _x((4, 3, 5), (2, 16, 9), (8, 1, 3)), ({0: B, 1: T, 2: Dim("w", max=9)},)),
    Case(
        "no-upper-bound", _relu, _x((4, 3), (1000, 3), (2, 3)), ({0: Dim("n", min=2)},), refused=[(_x((1, 3))[0], "1")]
    ),
    Case("strict", _relu, _x((4, 3), (8, 3), (2, 3)), ({0: B},), strict=True),
    Case(
        "shape-as-int-input",
        lambda self, x, n: (x * n, n + 1),
        [(torch.randn(3), 4), (torch.randn(3), 4)],
        refused=[((torch.randn(3), 5), "became part")],
    ),
]

# ------------------------------------------------------------------------------------------- operators that make shapes


def _views(self, x):
    b = x.shape[0]
    return (
        x.view(b, -1),
        x.reshape(-1),
        x.flatten(1),
        x.flatten(0, 1),
        x.reshape(b * 2, 2, 3),
        x.transpose(0, 1).reshape(4, -1),
        x.unsqueeze(0).squeeze(0),
        x.permute(2, 0, 1).contiguous(),
    )


def _views_of_outputs(self, x):
    y = x * 2
    return y.view(-1), y, y.view(-1, 2)


def _cat(self, x, y):
    return torch.cat([x, y, x], 0), torch.stack([x[:1], y[:1]]), torch.cat([x, y], 0).sum(1)


def _split(self, x):
    first, second = x.split([1, x.shape[0] - 1])
    third, fourth = x.split(2, dim=1)
    return first, second * 2, third, fourth, x.chunk(2, dim=1)[1]


def _slices(self, x):
    n = x.shape[0]
    return x[1:], x[:-1], x[n // 2 - 2 :], x[: n // 2], x[1 : n - 1], x[::2], x[n - 1], x[-2:], x[:, 1:3]


def _expand(self, x, y):
    n = x.shape[0]
    return y.expand(n, 3), y.unsqueeze(0).expand_as(x), y.repeat(n, 2), x[:1].expand(n, -1)


def _made(self, x):
    n = x.shape[0]
    return (
        torch.arange(n),
        torch.full((n, 2), 3.5),
        torch.zeros(n * 2 + 1),
        torch.ones_like(x),
        torch.arange(1, n + 1).float() / n,
        x.new_zeros(n - 1, n),
        torch.eye(n),
        torch.linspace(0.0, 1.0, 5) * n,
    )


def _pad(self, x):
    n = x.shape[-1]
    return (
        F.pad(x, (1, 2)),
        F.pad(x, (0, 16 - n)),
        F.pad(x.unsqueeze(0), (2, 1), mode="reflect"),
        F.pad(x.unsqueeze(0), (2, 1), mode="replicate"),
    )


def _numbers(self, x):
    n, m = x.shape
    return n + m, n * m, n // 2, n % 3, (n + 1) // 2 * 2, n / 2, -n, max(n, 5), min(n, m), n**2, n > 4, x.numel()


def _reductions(self, x):
    return (
        x.sum(),
        x.mean(0),
        x.amax(1),
        x.cumsum(0),
        x.argmax(0),
        x.softmax(0),
        x.var(0),
        x.sort(0)[0],
        x.topk(2, 0)[0],
    )


def _attention(self, x):
    length = x.shape[1]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    scores = x @ x.transpose(1, 2) / 2
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask), scores.masked_fill(~mask, -torch.inf).softmax(
        -1
    ) @ x


def _causal(self, x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def _positions(self, x):
    return x + self.table[: x.shape[1]], F.embedding(torch.arange(x.shape[1]), self.table)


def _gather(self, x, index):
    return x[index], x.index_select(0, index), x.gather(0, index.unsqueeze(1).expand(-1, x.shape[1])), x[:, None][index]


def _scatter(self, x, index):
    zeros = torch.zeros_like(x)
    return zeros.index_add(0, index, x), zeros.index_copy(0, index, x), zeros.scatter(0, index[:, None].expand_as(x), x)


def _in_place(self, x):
    y = x * 2
    y[1:] += x[:-1]
    y[0] = 5
    y[:, 1].mul_(3)
    return y


def _roll(self, x):
    return x.roll(1, 0), x.flip(0), x.t() @ x, torch.outer(x[:, 0], x[:, 1]), x.diagonal(), x.tril(), x.unfold(0, 2, 1)


def _where(self, x):
    index = torch.arange(x.shape[0]).unsqueeze(1)
    return torch.where(index < x.shape[0] // 2, x, -x), (index % 2 == 0) & (x > 0)


def _meshgrid(self, x, y):
    a, b = torch.meshgrid(x, y, indexing="ij")
    return a + b, torch.cartesian_prod(x, y)


def _einsum(self, x, y):
    return torch.einsum("bij,bjk->bik", x, y), torch.bmm(x, y), torch.matmul(x, y).sum((1, 2))


OPERATORS = [
    Case("views", _views, _x((4, 4, 3), (8, 4, 3), (2, 4, 3)), ({0: B},)),
    Case("views-of-outputs", _views_of_outputs, _x((4, 2), (8, 2), (2, 2)), ({0: B},)),
    Case(
        "cat",
        _cat,
        [(torch.randn(n, 3), torch.randn(t, 3)) for n, t in ((4, 5), (8, 16), (2, 1))],
        ({0: B}, {0: T}),
    ),
    Case("split", _split, _x((4, 4), (8, 4), (3, 4)), ({0: N},)),
    Case("slices", _slices, _arange((8, 4), (16, 4), (9, 4)), ({0: Dim("m", min=8, max=16)},)),
    Case("expand", _expand, [(torch.randn(n, 3), torch.randn(3)) for n in (4, 8, 2)], ({0: B}, None)),
    Case("made", _made, _x((4, 2), (8, 2), (3, 2)), ({0: N},)),
    Case("pad", _pad, _x((2, 4), (2, 16), (2, 3)), ({1: Dim("t", min=3, max=16)},)),
    Case("numbers", _numbers, _x((4, 3), (8, 9), (2, 5)), ({0: B, 1: Dim("m", max=9)},)),
    Case("reductions", _reductions, _x((4, 3), (8, 3), (2, 3)), ({0: B},)),
    Case("attention", _attention, _x((4, 5, 4), (8, 16, 4), (2, 1, 4)), ({0: B, 1: T},)),
    Case("causal", _causal, _x((4, 5, 4), (8, 16, 4), (2, 1, 4)), ({0: B, 1: T},)),
    Case(
        "positions",
        _positions,
        _x((4, 5, 4), (8, 16, 4), (2, 1, 4)),
        ({0: B, 1: T},),
        state={"table": torch.randn(16, 4)},
    ),
    Case(
        "gather",
        _gather,
        [(torch.randn(n, 3), torch.randint(0, n, (t,))) for n, t in ((4, 3), (8, 2), (2, 2), (8, 8))],
        ({0: B}, {0: Dim("k", min=2, max=8)}),
    ),
    Case("scatter", _scatter, [(torch.randn(n, 3), torch.randperm(n)) for n in (4, 8, 2)], ({0: B}, {0: B})),
    Case("in-place", _in_place, _x((4, 3), (8, 3), (3, 3)), ({0: N},)),
    Case("roll", _roll, _x((4, 4), (8, 4), (3, 4)), ({0: Dim("n", min=3, max=8)},)),
    Case("where", _where, _x((4, 3), (8, 3), (2, 3)), ({0: B},)),
    Case(
        "meshgrid",
        _meshgrid,
        [(torch.randn(n), torch.randn(t)) for n, t in ((4, 5), (8, 1), (2, 16))],
        ({0: B}, {0: T}),
    ),
    Case(
        "einsum",
        _einsum,
        [(torch.randn(b, t, 4), torch.randn(b, 4, t)) for b, t in ((4, 5), (8, 16), (2, 2))],
        ({0: B, 1: Dim("tt", min=2, max=16)}, {0: B, 2: Dim("tt", min=2, max=16)}),
    ),
]

# --------------------------------------------------------------------------------------------------------------- layers


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.b = nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2)
        self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)

    def forward(self, x):
        y = F.relu(self.norm(self.a(x)))
        return (
            self.up(self.b(y)),
            F.max_pool2d(y, 2),
            F.avg_pool2d(y, 3, stride=2, padding=1, ceil_mode=True),
            F.adaptive_avg_pool2d(y, 1),
            F.adaptive_avg_pool2d(y, (2, 2)),
            F.interpolate(y, scale_factor=2.0),
            F.interpolate(y, size=x.shape[-2:], mode="bilinear"),
        )


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.norm, self.head = nn.GroupNorm(2, 8), nn.Linear(8, 5)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, tokens):
        x = self.layer(self.embedding(tokens))
        x = self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.head(x), x.mean(1), x[:, -1]


H = Dim("half", min=4, max=12)
W = Dim("wide", min=4, max=12)
LAYERS = [
    Case(
        "convolutions",
        Convolutions(),
        _x((2, 3, 16, 12), (4, 3, 24, 24), (1, 3, 8, 10)),
        ({0: Dim("n", max=4), 2: 2 * H, 3: 2 * W},),
    ),
    Case(
        "convolutions-auto",
        Convolutions(),
        _x((2, 3, 16, 12), (3, 3, 20, 24)),
        ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},),
    ),
    Case(
        "sequence",
        Sequence(),
        [(torch.randint(0, 20, s),) for s in ((2, 5), (4, 16), (3, 2))],
        ({0: Dim("n", max=4), 1: Dim("len", min=2, max=16)},),
    ),
]

# ------------------------------------------------------------------------------------------------------ guards of torch


def _even_only(self, x):
    return x.view(x.shape[0] // 2, 2, 3).sum(1)


def _branch_on_size(self, x):
    return x * 2 if x.shape[0] > 3 else x - 1


def _divisible(self, x):
    return x.reshape(-1, 4)


def _odd_only(self, x):
    return x[1:].reshape(-1, 2, 3).sum(1)


GUARDS = [
    Case("sum-auto", _odd_only, _x((5, 3), (9, 3)), ({0: Dim.AUTO},), refused=[(_x((6, 3))[0], "must satisfy")]),
    Case(
        "even",
        _even_only,
        _x((4, 3), (8, 3), (6, 3)),
        ({0: 2 * Dim("half", min=1, max=4)},),
        refused=[(_x((5, 3))[0], "5")],
    ),
    Case(
        "even-auto",
        _even_only,
        _x((4, 3), (8, 3), (6, 3)),
        ({0: Dim.AUTO},),
        refused=[(_x((5, 3))[0], "must satisfy .*shape")],
    ),
    Case("branch-auto", _branch_on_size, _x((4, 3), (8, 3)), ({0: Dim.AUTO},), refused=[(_x((3, 3))[0], "3|> 3|>= 4")]),
    Case("divisible-auto", _divisible, _x((4, 3), (8, 3)), ({0: Dim.AUTO},), refused=[(_x((3, 3))[0], "3|%|Mod")]),
]


@cases(FORMS)
def test_forms(case):
    check(case)


@cases(OPERATORS)
def test_operators(case):
    check(case)


@cases(LAYERS)
def test_layers(case):
    check(case)


@cases(GUARDS)
def test_guards(case):
    check(case)


@cases([OPERATORS[0], OPERATORS[2], OPERATORS[10], LAYERS[0]])
def test_delegates(case):
    check(case, [ExamplePartitioner()])


def test_a_message_names_input_dim_bounds_and_value():
    def forward(self, image, scale):
        return image * scale

    case = Case("named", forward, [(torch.randn(4, 3), torch.randn(3))], ({0: B}, None))
    method = method_of(lower(case))
    with pytest.raises(InvalidArgumentError, match=r"input 0 \('.*'\).*9.*dimension 0.*2 to 8"):
        method.execute([torch.randn(9, 3), torch.randn(3)])
    with pytest.raises(InvalidArgumentError, match=r"input 0 \('.*'\).*1.*dimension 0.*2 to 8"):
        method.execute([torch.randn(1, 3), torch.randn(3)])


def test_memory_is_planned_from_the_upper_bounds():
    program = lower(Case("planned", _relu, _x((4, 3)), ({0: B},)))
    (report,) = program.memory_report
    assert report["planned_nbytes"] >= 8 * 3 * 4


def test_out_takes_dynamic_results():
    method = method_of(lower(Case("out", _relu, _x((4, 3)), ({0: B},))))
    for n in (4, 8, 2):
        x, out = torch.randn(n, 3), torch.full((n, 3), torch.nan)
        (result,) = method.execute([x], out=[out])
        assert result is out
        torch.testing.assert_close(out, torch.relu(x) + 1)


def test_guards_of_a_program_that_was_saved_and_loaded():
    """torch keeps them as text only."""
    exported = torch.export.export(Call(_divisible), (torch.randn(4, 3),), dynamic_shapes=(({0: Dim.AUTO},),))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    method = method_of(et.to_edge(torch.export.load(file)).to_executorch())
    assert method.execute([torch.randn(8, 3)])[0].shape == (6, 4)
    with pytest.raises(et.ExecutorchError, match="must satisfy"):
        method.execute([torch.randn(5, 3)])


class _Cache:
    """Registered with pytree: its tensors have names of their own, and torch's guards use these."""

    def __init__(self, keys, values):
        self.layers = [keys, values]


pytree.register_pytree_node(
    _Cache,
    lambda cache: ([cache.layers], None),
    lambda children, _: _Cache(*children[0]),
    serialized_type_name="test_dynamic_shapes.Cache",
    flatten_with_keys_fn=lambda cache: ([(pytree.GetAttrKey("layers"), cache.layers)], None),
)


class _Attends(nn.Module):
    def forward(self, x, cache):
        keys, values = cache.layers
        return (x + values) * (2 if keys.shape[0] % 2 == 0 else 3)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_guards_on_tensors_in_a_container_of_the_user(is_loaded, caplog):
    """Of transformers' caches lowering said that guards were not checked; of a program that was loaded they were
    not.
    """
    inputs = torch.randn(4), _Cache(torch.randn(4), torch.randn(4))
    sizes = {0: Dim.AUTO}
    exported = torch.export.export(_Attends(), inputs, dynamic_shapes=(sizes, [[sizes, sizes]]))
    if is_loaded:
        exported.example_inputs = None  # of a class that torch.load does not trust
        file = io.BytesIO()
        torch.export.save(exported, file)
        file.seek(0)
        exported = torch.export.load(file)
    method = method_of(et.to_edge(exported).to_executorch())
    assert "not checked" not in caplog.text
    x = torch.randn(6)
    assert torch.equal(method.execute([x, x, x])[0], 4 * x)
    with pytest.raises(et.ExecutorchError, match="must satisfy"):
        method.execute([torch.randn(5)] * 3)


def test_guard_of_a_derived_size_is_in_the_words_of_the_input():
    half = Dim("half", min=1, max=8)
    exported = torch.export.export(
        Call(lambda _, x: x.chunk(2)[0].reshape(-1, 4) * x.reshape(2, -1, 4)),
        (torch.randn(8, 4),),
        dynamic_shapes=(({0: 2 * half},),),
    )
    method = method_of(et.to_edge(exported).to_executorch())
    with pytest.raises(et.ExecutorchError, match=r"must satisfy \(\w+\.shape\[0\] // 2\) != 1"):
        method.execute([torch.randn(2, 4)])
