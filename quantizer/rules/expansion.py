"""Takes operators apart that are made of others which a quantizer knows.

torch.export leaves recurrent layers and attention whole. Here a recurrent layer becomes a loop whose body is a step
(loops.py), attention and cells become linear layers and products. Behind layers, gates become their product, and what
puts zeros beside a tensor's elements says so: a zero is not the integer 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from executorch_py.export.decompose.decomposer import keeping, without_mkldnn
from executorch_py.export.decompose.rewrites import LAYER_OF_CELL
from executorch_py.graphs.nodes import arguments_of
from executorch_py.graphs.recurrent import mark_recurrent
from executorch_py.graphs.rewriting import inherited_meta

from .loops import is_one_operator, scan, written
from .matching import LINEAR, MATMUL, Operators, ops

#: Operator -> what is in it that a quantizer may want.
EXPANDED: dict[Any, Operators] = {
    **dict.fromkeys((*LAYER_OF_CELL, *LAYER_OF_CELL.values()), LINEAR),
    **dict.fromkeys(ops("scaled_dot_product_attention.default"), MATMUL),
}


def _glu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    half = x.shape[dim] // 2
    return x.narrow(dim, 0, half) * torch.sigmoid(x.narrow(dim, half, half))


def _triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    return torch.where(torch.ones(x.shape[-2:], dtype=torch.bool).triu(diagonal), x, 0.0)


def _tril(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    return torch.where(torch.ones(x.shape[-2:], dtype=torch.bool).tril(diagonal), x, 0.0)


def _im2col(
    x: torch.Tensor, kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> torch.Tensor:
    height, width = padding
    padded = torch.constant_pad_nd(x, [width, width, height, height])
    return torch.nn.functional.unfold(padded, kernel, dilation, 0, stride)


def _zeros_like(x: torch.Tensor, **_: Any) -> torch.Tensor:
    return torch.zeros(x.shape)  # which reads no floats


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, scale: float | None = None, **__: Any
) -> torch.Tensor:
    """Attention to all rows: none is left out, so that softmax needs no care for rows of nothing."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    return ((query @ key.transpose(-2, -1)) * factor).softmax(-1) @ value


def _written(node: fx.Node) -> Callable[..., Any]:
    """What an operator of EXPANDED is replaced by."""
    given = arguments_of(node)
    is_attention = node.target is torch.ops.aten.scaled_dot_product_attention.default
    if is_attention and not any(given[name] for name in ("attn_mask", "dropout_p", "is_causal", "enable_gqa")):
        return _attention
    return written(node.target)


#: What a node is replaced by, called like it; None: it stays.
Form = Callable[[fx.Node], Callable[..., torch.Tensor] | None]
#: Operator -> the same as others, of which integers are made behind a layer.
FORMS: dict[Any, Form] = {
    torch.ops.aten.glu.default: lambda _: _glu,
    torch.ops.aten.triu.default: lambda _: _triu,
    torch.ops.aten.tril.default: lambda _: _tril,
    torch.ops.aten.im2col.default: lambda _: _im2col,
    torch.ops.aten.zeros_like.default: lambda _: _zeros_like,
}

#: Stay whole inside: what the tables of quantizers name, and what lowering knows better as it is.
_KEPT = [
    torch.ops.aten.linear.default,
    torch.ops.aten.matmul.default,
    torch.ops.aten.softmax.int,
    torch.ops.aten.dropout.default,
    torch.ops.aten.layer_norm.default,
    torch.ops.aten.conv1d.default,
    torch.ops.aten.conv2d.default,
]


def expand(
    model: fx.GraphModule,
    wanted: Callable[[fx.Node, Operators], bool],
    forms: Mapping[Any, Form],
    follows: Callable[[fx.Node], bool],
) -> fx.GraphModule:
    """Replaces operators, in place: those of EXPANDED where ``wanted(node, what is in it)``, of ``forms`` where
    ``follows(node)``.
    """
    changed = False
    for node in list(model.graph.nodes):
        if node.op != "call_function":
            continue
        made: Callable[..., Any] | None = None
        if node.target in forms and _gives_floats(node) and _has_known_sizes(node) and follows(node):
            made = forms[node.target](node)
        if made is None and node.target in EXPANDED and wanted(node, EXPANDED[node.target]):
            made = _written(node)
        if made is not None:
            _replace(model, node, made)
            changed = True
    if changed:
        model.graph.eliminate_dead_code()
        model.recompile()
    return model


def _gives_floats(node: fx.Node) -> bool:
    """Whether the result is a float32 tensor, or the first of several."""
    value = node.meta.get("val")
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    return isinstance(first, torch.Tensor) and first.dtype == torch.float32


def _has_known_sizes(node: fx.Node) -> bool:
    """Whether the sizes that an operator is written with are numbers: all, or those beside the batch."""
    shape = node.all_input_nodes[0].meta["val"].shape
    divided = arguments_of(node)["dim"] if node.target is torch.ops.aten.glu.default else -1
    reads_batch = node.target is torch.ops.aten.zeros_like.default or divided in (0, -len(shape))
    return all(isinstance(size, int) for size in (shape if reads_batch else shape[1:]))


def _replace(model: fx.GraphModule, node: fx.Node, operator: Callable[..., Any]) -> None:
    traced = _traced(node, operator)
    inputs = iter(leaf for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, fx.Node))
    new: dict[fx.Node, Any] = {}
    with model.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                new[inner] = next(inputs)
            elif inner.op == "get_attr":
                name = f"_{node.name}_{inner.target}".replace(".", "_")
                held = getattr(traced, inner.target)
                if isinstance(held, fx.GraphModule):
                    model.add_module(name, _with_meta_of(node, held))
                else:
                    model.register_buffer(name, held)
                new[inner] = model.graph.get_attr(name)
                new[inner].meta["val"] = inner.meta.get("val")
            elif inner.op == "call_function":
                new[inner] = model.graph.node_copy(inner, lambda old: new[old])
                new[inner].meta = inherited_meta(node, inner.meta.get("val"))
                if inner.target is scan:
                    mark_recurrent(new[inner], is_one_operator=is_one_operator(node))
            else:
                results = fx.map_arg(inner.args[0], lambda old: new[old])
    if isinstance(results, fx.Node):
        node.replace_all_uses_with(results)
    else:
        for user in list(node.users):  # getitem
            user.replace_all_uses_with(results[user.args[1]])
            model.graph.erase_node(user)
    model.graph.erase_node(node)


def _with_meta_of(node: fx.Node, body: fx.GraphModule) -> fx.GraphModule:
    """A body whose nodes belong to the module that ``node`` belongs to."""
    for inner in body.graph.nodes:
        if inner.op == "call_function":
            inner.meta = inherited_meta(node, inner.meta.get("val"))
    return body


def _traced(node: fx.Node, operator: Callable[..., Any]) -> fx.GraphModule:
    """What an operator, called like ``node``, is made of for the types of its arguments."""
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    given = [leaf.meta["val"] for leaf in leaves if isinstance(leaf, fx.Node)]
    mode = next(value.fake_mode for value in given if hasattr(value, "fake_mode"))
    with mode:  # tracing tells inputs apart by identity: query, key and value may be one
        values = [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) for v in given]

    def call(*inputs: Any) -> Any:
        remaining = iter(inputs)
        filled = [next(remaining) if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return operator(*args, **kwargs)

    with (
        torch.no_grad(),
        enable_python_dispatcher(),
        keeping(_KEPT),
        without_mkldnn(),
        sdpa_kernel(SDPBackend.MATH),
        mode,
    ):
        return make_fx(call, _allow_non_fake_inputs=True)(*values)
