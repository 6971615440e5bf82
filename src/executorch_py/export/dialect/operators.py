"""Which operators stay whole in the Edge dialect, and how views become copies. Tables only.

Edge is Core ATen in its functional form: views are ``*_copy`` operators, nothing is mutated. Beyond Core ATen it keeps
a few operators whole for which the runtime has one good kernel. A backend or a kernel library wants them as one
operator, and a decomposition would cost several passes over the data. ``ExecutorchBackendConfig(compatible=True)``
decomposes those of them that the official runtime lacks.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py.graphs.nodes import arguments_of
from executorch_py.operator_facts import OPERATORS, overload, overloads

from .decompositions import OWN_DECOMPOSITIONS
from .overloads import OVERLOAD_DECOMPOSITIONS

aten = torch.ops.aten

#: Recurrent layers. Decomposed they are unrolled over time, so that the graph grows with the sequence and only fits its
#: length.
RECURRENT: tuple[OpOverload, ...] = overloads(lambda op: op.base_name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))

#: Kept whole by default, each for the reason in the table.
KEPT_WHOLE: tuple[OpOverload, ...] = overloads(lambda op: bool(op.keep))

#: Operators that torch takes apart, whose result is new memory for sure: writing to it touches nothing else.
FRESH: tuple[OpOverload, ...] = overloads(lambda op: "fresh" in op.tags)

#: Operators that move elements, and leave them as they are. A dropout that is still there computes.
MOVING: frozenset[OpOverload] = frozenset(overloads(lambda op: bool(op.moves) and "dropout" not in op.tags))

#: Operators that limit elements to a range of numbers.
LIMITING: frozenset[OpOverload] = frozenset(overloads(lambda op: "clamps" in op.tags))


def is_whole(node: fx.Node) -> bool:
    """False for a call of an operator in KEPT_WHOLE that its kernel does not cover.

    That is attention that drops weights at random, or whose query, key and value have batch dims that broadcast. It is
    also recurrent layers that drop states at random or mix dtypes, norms of other orders, other dtypes or dims that are
    apart, and block diagonals of several dtypes. Standard deviations of complex numbers and linear layers whose bias
    broadcasts belong to it, too.
    """
    if node.target is aten.linear.default:
        return _has_plain_bias(node)
    if node.target in RECURRENT:
        return _is_plain_recurrent(node)
    if node.target is aten.linalg_vector_norm.default:
        return _is_plain_norm(node)
    if node.target is aten.std.correction:
        return not node.args[0].meta["val"].is_complex()
    if node.target is aten.block_diag.default:
        return len({tensor.meta["val"].dtype for tensor in node.args[0]}) == 1
    if node.target is not aten.scaled_dot_product_attention.default:
        return True
    given = arguments_of(node)
    query, key, value = (given[name].meta["val"].shape[:-2] for name in ("query", "key", "value"))
    return not given["dropout_p"] and (bool(given["enable_gqa"]) or query == key == value)


def _is_plain_recurrent(node: fx.Node) -> bool:
    arguments = arguments_of(node)
    tensors = [value.meta["val"] for name, value in _flat(arguments) if name != "batch_sizes"]
    return not (arguments["train"] and arguments["dropout"]) and len({tensor.dtype for tensor in tensors}) == 1


def _has_plain_bias(node: fx.Node) -> bool:
    _, weight, bias = arguments_of(node).values()
    if bias is None:
        return True
    weight = weight.meta["val"]
    return bool(weight.dim() != 2 or tuple(bias.meta["val"].shape) == (weight.shape[0],))


def _is_plain_norm(node: fx.Node) -> bool:
    arguments = arguments_of(node)
    value = arguments["self"].meta["val"]
    dims = arguments["dim"]
    dims = [dims] if isinstance(dims, int) else sorted(d % max(value.dim(), 1) for d in dims or ())
    return bool(
        arguments["ord"] == 2
        and arguments["dtype"] is None
        and value.dtype in {torch.float16, torch.bfloat16, torch.float32, torch.float64}
        and all(next_dim == dim + 1 for dim, next_dim in itertools.pairwise(dims))
    )


def _flat(arguments: Mapping[str, Any]) -> Iterator[tuple[str, fx.Node]]:
    for name, value in arguments.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, fx.Node):
                yield name, item


#: Of these, what the official runtime has a kernel for; the rest is decomposed for files that it is to load.
PUBLISHED_WHOLE: tuple[OpOverload, ...] = overloads(lambda op: bool(op.keep) and op.is_published)

#: A view of Core ATen and the copy that stands for it in Edge.
VIEW_TO_COPY: dict[OpOverload, OpOverload] = {
    overload(view.name): overload(view.copy) for view in OPERATORS.values() if view.copy
}

COPY_TO_VIEW: dict[OpOverload, OpOverload] = {copy: view for view, copy in VIEW_TO_COPY.items()}

#: Statements that torch.export leaves in the graph and that types and range constraints say as well.
DROPPED: frozenset[OpOverload] = frozenset(
    {
        aten._assert_tensor_metadata.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
    }
)


@functools.lru_cache(maxsize=8)
def decomposition_table(kept: frozenset[OpOverload] = frozenset()) -> Mapping[OpOverload, Any]:
    """Torch's decompositions to Core ATen, without those that would undo what Edge keeps.

    Operators that torch's own choice leaves although they are neither core nor composite are decomposed, too, where
    torch knows how.

    Args:
        kept: operators that stay whole.
    """
    table = dict(torch._decomp.core_aten_decompositions().items())
    for op, function in torch._decomp.decomposition_table.items():
        if isinstance(op, OpOverload) and torch.Tag.core not in op.tags and not op._schema.is_mutable:
            table.setdefault(op, function)
    table.update(OWN_DECOMPOSITIONS)
    table.update(OVERLOAD_DECOMPOSITIONS)
    for op in (*overloads(lambda op: "irreducible" in op.tags), *COPY_TO_VIEW, *kept):
        table.pop(op, None)
    table.pop(aten.convolution_overrideable.default, None)
    table.pop(aten._upsample_bilinear2d_aa.default, None)
    return table


@functools.lru_cache(maxsize=4096)
def is_composite(op: OpOverload) -> bool:
    """Whether PyTorch implements ``op`` by other operators only (CompositeImplicitAutograd)."""
    return bool(op._can_decompose()) and torch._C._dispatch_has_kernel_for_dispatch_key(
        op.name(), torch._C.DispatchKey.CompositeImplicitAutograd
    )
