"""Decomposition to Edge: right numbers, only Edge operators, what is to stay whole stays."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  defines the operators
from torch.nn import functional as F

from executorch_py.export.decompose.decomposer import decompose
from executorch_py.export.decompose.quantized_forms import canonical_quantization
from executorch_py.export.dialect.operators import KEPT_WHOLE, RECURRENT, VIEW_TO_COPY
from executorch_py.export.functional.functionalize import functionalize
from executorch_py.export.importer.programs import operator_name

TABLE = set(re.findall(r'- schema: "(\S+?)\(', Path("src/cpp/ops/ops.yaml").read_text()))
X = torch.randn(2, 3, 8, 8)
S = torch.randn(2, 5, 16)

CASES = {
    "conv_padding_same": (lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3), padding="same"), (X,)),
    "conv_unbatched": (lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3)), (X[0],)),
    "conv_transpose": (lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 2, 2), stride=2, output_padding=1), (X,)),
    "conv1d_groups": (lambda x: F.conv1d(x, torch.ones(5, 1, 3), groups=5, padding=1), (S,)),
    "layer_norm": (lambda x: F.layer_norm(x, (16,)), (S,)),
    "layer_norm_f16": (lambda x: F.layer_norm(x, (16,)), (S.half(),)),
    "group_norm": (lambda x: F.group_norm(x, 3), (X,)),
    "instance_norm": (lambda x: F.instance_norm(x), (X,)),
    "rms_norm": (lambda x: F.rms_norm(x, (16,)), (S,)),
    "pools": (lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 3)), (X,)),
    "adaptive_to_one": (lambda x: F.adaptive_avg_pool2d(x, 1), (X,)),
    "activations": (
        lambda x: (F.relu6(x), F.gelu(x), F.elu(x), F.mish(x), F.softplus(x), F.prelu(x, x[0, 0, 0, :1])),
        (S[None],),
    ),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(1), F.softmin(x, 0)), (S,)),
    "softmax_dtype": (lambda x: x.softmax(-1, dtype=torch.float64), (S,)),
    "same_argument_twice": (
        lambda x, y: (torch.addmm(x, x, x), torch.addmm(x, x, y), torch.addmm(x, y, x)),
        (torch.randn(3, 3), torch.randn(3, 3)),
    ),
    "attention_self": (lambda x: F.scaled_dot_product_attention(x, x, x), (torch.randn(1, 2, 4, 8),)),
    "views": (
        lambda x: (
            x.t(),
            x.reshape(-1),
            x.unflatten(1, (2, 2)),
            x.movedim(0, 1),
            x.expand(2, 3, 4),
            x.T,
            x[:, None, ::2],
            x.unbind(0),
            x.split(2, 1),
            x.chunk(2, 1),
        ),
        (torch.randn(3, 4),),
    ),
    "view_of_transposed": (lambda x: x.transpose(0, 1).reshape(4, 3).transpose(0, 1) * 2, (torch.randn(3, 4),)),
    "matmuls": (lambda a, b: (a @ a.mT, a @ b, b @ b.t(), b[0] @ b[1]), (torch.randn(2, 3, 4), torch.randn(4, 4))),
    "einsum": (lambda a, b: torch.einsum("bij,jk->bik", a, b), (torch.randn(2, 3, 4), torch.randn(4, 5))),
    "pads": (
        lambda x: (
            F.pad(x, (1, 2)),
            F.pad(x, (1, 1), mode="reflect"),
            F.pad(x, (1, 1), mode="replicate"),
            F.pad(x, (2, 1), mode="circular"),
        ),
        (S,),
    ),
    "reductions": (
        lambda x: (x.std(), x.var(0), x.norm(), x.logsumexp(1), x.cumsum(0), x.max(), x.argmax(1), x.all(), x.median()),
        (torch.randn(3, 4),),
    ),
    "indexing": (
        lambda x, i: (
            x[i],
            x[i, :2],
            x.index_select(0, i),
            x.gather(0, i[:, None].expand(2, 4)),
            x.take_along_dim(i[:, None], 0),
        ),
        (torch.randn(3, 4), torch.tensor([2, 0])),
    ),
    "scatter": (
        lambda x, i: (
            x.scatter(0, i[None], 1.0),
            x.index_add(0, i, x[i]),
            x.masked_fill(x > 0, 2.0),
            torch.where(x > 0, x, 0.0),
        ),
        (torch.randn(3, 2), torch.tensor([2, 0])),
    ),
    "creation": (
        lambda x: (
            torch.arange(4) + x.size(0),
            torch.zeros_like(x),
            torch.eye(3),
            x.new_full((2,), 3.0),
            torch.linspace(0, 1, 5),
        ),
        (torch.randn(3),),
    ),
    "types": (lambda x: (x.double(), x.to(torch.int32), x.long() // 2, x.bool(), x.half() + 1), (torch.randn(3),)),
    "resize": (
        lambda x: (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, size=(5, 7), mode="bilinear"),
            F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
        ),
        (X,),
    ),
    "lstm_projection": (lambda x: nn.LSTM(16, 8, proj_size=4, batch_first=True)(x)[0].shape and x, (S,)),
}


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def _edge(function, inputs, **options):
    exported = torch.export.export(Function(function), inputs)
    return decompose(functionalize(exported), **options)


@pytest.mark.parametrize("name", CASES)
def test_edge_computes_what_eager_computes(name):
    function, inputs = CASES[name]
    torch.manual_seed(0)
    edge = _edge(function, inputs)
    torch.testing.assert_close(edge.module()(*inputs), function(*inputs), equal_nan=True)
    for node in edge.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            assert node.target not in VIEW_TO_COPY, "a view is left"
            assert operator_name(node.target) in TABLE, f"{node.target} is not in the operator table"
            value = node.meta["val"]
            assert "debug_handle" in node.meta and (not isinstance(value, torch.Tensor) or value.is_contiguous())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_become_plain_operators(kind):
    model = kind(4, 6, num_layers=2, bidirectional=True).eval()
    inputs = (torch.randn(5, 2, 4),)
    exported = functionalize(torch.export.export(model, inputs))
    edge = decompose(exported, frozenset(KEPT_WHOLE) - set(RECURRENT))
    torch.testing.assert_close(edge.module()(*inputs), model(*inputs))
    assert not [n for n in edge.graph.nodes if "mkldnn" in str(n.target) or n.target in RECURRENT]
    assert [n for n in decompose(exported).graph.nodes if n.target in RECURRENT]


def test_equal_operators_share_one_trace(monkeypatch):
    from executorch_py.export.decompose import decomposer as module

    traced = []
    original = module.Decomposer._trace
    monkeypatch.setattr(
        module.Decomposer, "_trace", lambda self, node, *a: traced.append(node.target) or original(self, node, *a)
    )
    _edge(lambda x: F.tanhshrink(F.tanhshrink(F.logsigmoid(F.logsigmoid(x)))), (S,))
    assert len(traced) == len(set(traced))


def test_kept_operators_stay_whole_where_the_filter_says_so():
    op = torch.ops.aten.rsub.Tensor
    first = _edge(lambda x: torch.rsub(x, x), (S,), kept=frozenset({op}), keep_filter=lambda node: True)
    second = _edge(lambda x: torch.rsub(x, x), (S,), kept=frozenset({op}), keep_filter=lambda node: False)
    assert op in {node.target for node in first.graph.nodes}
    assert op not in {node.target for node in second.graph.nodes}


def test_dynamic_shapes_stay_dynamic():
    batch = torch.export.Dim("batch", min=2, max=32)
    model = Function(lambda x: F.layer_norm(x.flatten(1), (12,)).reshape(x.shape[0] * 3, 4).softmax(-1))
    exported = torch.export.export(model, (torch.randn(4, 3, 4),), dynamic_shapes={"inputs": ({0: batch},)})
    edge = decompose(functionalize(exported))
    for size in (2, 7, 32):
        inputs = torch.randn(size, 3, 4)
        torch.testing.assert_close(edge.module()(inputs), model(inputs))


def test_branches_are_decomposed():
    model = Function(lambda x: torch.cond(x.sum() > 0, lambda y: F.hardtanh(y.t()), lambda y: F.relu6(y.t() * 2), (x,)))
    inputs = (torch.randn(3, 4),)
    edge = decompose(functionalize(torch.export.export(model, inputs)))
    torch.testing.assert_close(edge.module()(*inputs), model(*inputs))
    bodies = [m for name, m in edge.graph_module.named_children() if "graph" in name]
    assert bodies and all(torch.ops.aten.t.default not in {n.target for n in body.graph.nodes} for body in bodies)


#: What stands between a function and its rounding to float16 -> whether the function may round instead.
BEHIND = {
    "a view": (lambda x: x.view(-1), True),
    "another order": (lambda x: x.flip(0), True),
    "the largest": (lambda x: x.amax(1), True),
    "windows": (lambda x: F.max_pool1d(x, 2), True),
    "chosen": (lambda x: x[torch.tensor([1, 0])], True),
    "zeros": (torch.tril, True),
    "bounds": (F.relu6, True),
    "bounds that float16 has": (lambda x: x.clamp(0, 1), True),
    "bounds that it has not": (lambda x: x.clamp(0, 1 / 3), False),
    "bounds in tensors": (lambda x: x.clamp(torch.tensor(0.0), torch.tensor(1 / 3)), False),
    "a function": (torch.sin, False),
    "a dropout": (lambda x: F.dropout(x, 0.5, training=True), False),
}


@pytest.mark.parametrize("name", BEHIND)
def test_rounding_to_float16_moves_before_what_keeps_elements(name):
    behind, moves = BEHIND[name]
    convert = torch.ops.quantized_decomposed.convert_element_type.no_fuse

    def rounded(x):
        return convert(convert(x, torch.float16), torch.float32)

    program = torch.export.export(Function(lambda x: rounded(behind(torch.exp(rounded(x))))), (torch.randn(4, 4),))
    graph = canonical_quantization(functionalize(program)).graph
    (exp,) = graph.find_nodes(op="call_function", target=torch.ops.aten.exp.default)
    assert (exp.meta["val"].dtype == torch.float16) == moves
