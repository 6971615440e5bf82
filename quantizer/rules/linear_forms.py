"""Products with a constant, whichever operator says them, written as the linear layers that they are.

    x @ W          torch.mm          torch.addmm(b, x, W)         torch.inner(x, W)
    W @ x          torch.bmm         torch.tensordot(x, W, 1)     torch.einsum("bti,ihd->bthd", x, W)

become ``aten.linear`` of x and of the constant with a row for each output channel; a constant that is added to the
result of one becomes its bias. So the rows for linear in a quantizer's table, its kernels and its fallbacks serve them
all. Not for: products of activations, products in which each element of a batch has a matrix of its own, and lookups
(an activation made of integers, or a single column, as in tables of rotations).

>>> as_linear(module, lambda node: True)  # x @ W.T + b is linear(x, W, b)  # doctest: +SKIP

Stands before annotation, in ``transform_for_annotation``. The product's node stays, with its name, module and source
line; the constant's new order is computed where the constant is quantized. Views around the product bring dimensions
into order; the usual forms need none.
"""

import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from executorch_py.graphs.patterns import Pattern
from executorch_py.graphs.rewriting import inherited_meta

from .matching import ADD, Operators, depends_on_inputs, is_constant, is_float32, is_mask, ops

aten = torch.ops.aten

#: In ``Node.meta``: the operator that a linear layer was written as.
WRITTEN_AS = "executorch_py.written_as"

#: Between a product and its bias, where they leave the last dimension as it is.
_RESHAPED = ops("view.default", "reshape.default", "_unsafe_view.default")

_TRANSPOSE = Pattern(
    "y = permute(matrix, [1, 0]) | t(matrix) | transpose(matrix, 0, 1) | transpose(matrix, 1, 0) | numpy_T(matrix) | "
    "mT(matrix)"
)


@dataclass(frozen=True)
class _Product:
    """Two factors, dimension by dimension as einsum names them, and what is added.

    Attributes:
        factors: Nodes.
        labels: A letter for each dimension of the factors.
        result: A letter for each dimension of the result. What is in both factors and not here is summed over.
        alpha: Number that the product is multiplied by.
        added: Node that is added, or None.
        beta: Number that ``added`` is multiplied by.
    """

    factors: tuple[Any, Any]
    labels: tuple[str, str]
    result: str
    alpha: float = 1
    added: fx.Node | None = None
    beta: float = 1


def as_linear(model: fx.GraphModule, wanted: Callable[[fx.Node], bool]) -> fx.GraphModule:
    """Writes products with a constant as ``aten.linear``, in place, where ``wanted(node)``."""
    writer = _Writer(model.graph)
    for node in list(model.graph.nodes):
        form = _FORMS.get(node.target) if node.op == "call_function" else None
        if form is not None and is_float32(node) and (product := form(node)) is not None:
            layer = _layer(product)
            if layer is not None and wanted(node):
                writer.write(node, product, layer)
    if writer.changed:
        model.graph.eliminate_dead_code()
        model.recompile()
    return model


# -------------------------------------------------------------------------------------------------------- the operators


def _mm(node: fx.Node) -> _Product:
    return _Product((node.args[0], node.args[1]), ("mk", "kn"), "mn")


def _bmm(node: fx.Node) -> _Product:
    return _Product((node.args[0], node.args[1]), ("bmk", "bkn"), "bmn")


def _with_sum(node: fx.Node, labels: tuple[str, str], result: str) -> _Product | None:
    """Of addmm and its kind: what is added stands in front."""
    added, first, second = node.args
    alpha: Any = node.kwargs.get("alpha", 1)
    beta: Any = node.kwargs.get("beta", 1)
    return _Product((first, second), labels, result, alpha, added, beta) if isinstance(added, fx.Node) else None


def _matmul(node: fx.Node) -> _Product | None:
    ranks = [_rank(factor) for factor in node.args[:2]]
    if 0 in ranks or max(ranks) > len(string.ascii_uppercase):
        return None
    first, second = (string.ascii_uppercase[-(rank - 2) :] if rank > 2 else "" for rank in ranks)
    labels = (first + "mk"[-ranks[0] :], second + "kn"[: ranks[1]])
    result = max(first, second, key=len) + "m" * (ranks[0] > 1) + "n" * (ranks[1] > 1)
    return _Product((node.args[0], node.args[1]), labels, result)


def _inner(node: fx.Node) -> _Product | None:
    ranks = [_rank(factor) for factor in node.args[:2]]
    if 0 in ranks:
        return None
    first, second = string.ascii_uppercase[: ranks[0] - 1], string.ascii_lowercase[: ranks[1] - 1]
    return _Product((node.args[0], node.args[1]), (first + "z", second + "z"), first + second)


def _tensordot(node: fx.Node) -> _Product | None:
    a, b, *over = node.args
    labels = [list(letters[: _rank(x)]) for letters, x in ((string.ascii_uppercase, a), (string.ascii_lowercase, b))]
    for dim, other in zip(*over, strict=True):
        labels[1][other] = labels[0][dim]
    result = [letter for own, others in (labels, labels[::-1]) for letter in own if letter not in others]
    return _Product((a, b), ("".join(labels[0]), "".join(labels[1])), "".join(result))


def _einsum(node: fx.Node) -> _Product | None:
    equation, factors = str(node.args[0]).replace(" ", ""), node.args[1]
    if not isinstance(factors, (list, tuple)) or len(factors) != 2:
        return None
    left, arrow, result = equation.partition("->")
    labels = left.split(",")
    ranks = [_rank(factor) - len(one.replace("...", "")) for factor, one in zip(factors, labels, strict=True)]
    free = [letter for letter in string.ascii_letters if letter not in equation]
    dots = "".join(free[: max((rank for rank, one in zip(ranks, labels, strict=True) if "..." in one), default=0)])
    labels = [one.replace("...", dots[len(dots) - rank :]) for rank, one in zip(ranks, labels, strict=True)]
    if not arrow:
        joined = "".join(labels)
        result = "..." + "".join(sorted(letter for letter in set(joined) - set(dots) if joined.count(letter) == 1))
    return _Product((factors[0], factors[1]), (labels[0], labels[1]), result.replace("...", dots))


def _rank(node: Any) -> int:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value.dim() if isinstance(value, torch.Tensor) else 0


_FORMS: dict[Any, Callable[[fx.Node], _Product | None]] = {
    **dict.fromkeys(ops("mm.default"), _mm),
    **dict.fromkeys(ops("bmm.default"), _bmm),
    **dict.fromkeys(ops("matmul.default", "mv.default"), _matmul),
    **dict.fromkeys(ops("addmm.default"), lambda node: _with_sum(node, ("mk", "kn"), "mn")),
    **dict.fromkeys(ops("addmv.default"), lambda node: _with_sum(node, ("mk", "k"), "m")),
    **dict.fromkeys(ops("baddbmm.default"), lambda node: _with_sum(node, ("bmk", "bkn"), "bmn")),
    **dict.fromkeys(ops("inner.default"), _inner),
    **dict.fromkeys(ops("tensordot.default"), _tensordot),
    **dict.fromkeys(ops("einsum.default"), _einsum),
}

#: Operators that may be written as linear.
FORMS: Operators = frozenset(_FORMS)


# -------------------------------------------------------------------------------------------------------- linear layers


@dataclass(frozen=True)
class _Layer:
    """A product as linear(x, weight): which dimensions of either go where.

    Attributes:
        x: The activation, and the letters of its dimensions.
        weight: The same of the constant.
        batch: Letters of x that the result has.
        columns: Letters that are summed over.
        rows: Letters of the constant that the result has, in the result's order.
        result: Letters of the result.
    """

    x: tuple[fx.Node, str]
    weight: tuple[fx.Node, str]
    batch: str
    columns: str
    rows: str
    result: str


def _layer(product: _Product) -> _Layer | None:
    """The layer that a product is; None where it is none."""
    behind = [_behind_expansion(*pair) for pair in zip(product.factors, product.labels, strict=True)]
    constant = [is_constant(node) for node, _ in behind]
    if constant.count(True) != 1:
        return None
    place = constant.index(True)
    x, weight = (product.factors[1 - place], product.labels[1 - place]), behind[place]
    if not is_float32(x[0]) or not is_float32(weight[0]) or not depends_on_inputs(x[0]) or is_mask(x[0]):
        return None
    sizes, fixed = (dict(zip(labels, node.meta["val"].shape, strict=True)) for node, labels in (x, weight))
    if len(sizes) < len(x[1]) or len(fixed) < len(weight[1]):
        return None  # a diagonal
    for letter in set(sizes) & set(fixed) & set(product.result):
        if fixed[letter] == 1:
            del fixed[letter]
        elif sizes[letter] == 1:
            del sizes[letter]
        else:
            return None  # a matrix for each element of a batch
    batch = "".join(letter for letter in sizes if letter in product.result)
    columns = "".join(letter for letter in sizes if letter not in product.result)
    rows = "".join(letter for letter in product.result if letter in fixed)
    if sorted(batch + rows) != sorted(product.result) or sorted(columns + rows) != sorted(fixed):
        return None
    if any(sizes[letter] != fixed[letter] for letter in columns) or math.prod(fixed[letter] for letter in columns) < 2:
        return None
    return _Layer(x, weight, batch, columns, rows, product.result)


def _behind_expansion(node: Any, labels: str) -> tuple[Any, str]:
    """What was expanded along dimensions in front, with the letters that it has itself."""
    while isinstance(node, fx.Node) and node.target is aten.expand.default and _rank(node.args[0]) > 1:
        source: Any = node.args[0]
        if tuple(source.meta["val"].shape[-2:]) != tuple(node.meta["val"].shape[-2:]):
            break
        node, labels = source, labels[len(labels) - _rank(source) :]
    return node, labels


class _Writer:
    """Writes layers into a graph; what is computed of constants is there once."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._constants: dict[Any, fx.Node] = {}
        self.changed = False

    def write(self, node: fx.Node, product: _Product, layer: _Layer) -> None:
        """Makes a linear layer of a product, in place."""
        self.changed = True
        x, weight = self._input(node, layer), self._weight(node, layer, product.alpha)
        added = product.added
        if added is None:
            bias = self._bias_behind(node, layer)
        else:
            bias = self._bias(node, layer, added, product.beta)
        users = list(node.users)
        node.meta[WRITTEN_AS] = node.target
        node.target, node.kwargs = aten.linear.default, {}
        node.args = (x, weight) if bias is None else (x, weight, bias)
        node.meta["val"] = _value(node, node.target, node.args)
        last = self._result(node, layer)
        if added is not None and bias is None:
            last = self._behind(last, aten.add.Tensor, last, added, alpha=product.beta)
        if last is not node:
            for user in users:
                user.replace_input_with(node, last)

    def _input(self, node: fx.Node, layer: _Layer) -> fx.Node:
        """The activation with what is summed over in its last dimension."""

        def call(target: Any, *args: Any) -> fx.Node:
            with self._graph.inserting_before(node):
                return _call(self._graph, node, target, args)

        x = _ordered(call, *layer.x, layer.batch + layer.columns)
        return x if len(layer.columns) == 1 else call(aten.flatten.using_ints, x, len(layer.batch), -1)

    def _weight(self, node: fx.Node, layer: _Layer, alpha: float) -> fx.Node:
        """The constant, [rows, columns]."""
        weight, labels = layer.weight
        wanted = layer.rows + layer.columns
        if labels == wanted[::-1] and len(labels) == 2 and (source := _transposed_of(weight)) is not None:
            weight, labels = source, wanted
        sizes = dict(zip(labels, weight.meta["val"].shape, strict=True))
        weight = _ordered(lambda *call: self._constant(node, *call), weight, labels, wanted)
        if len(layer.rows) != 1 or len(layer.columns) != 1:
            shape = [math.prod(sizes[letter] for letter in side) for side in (layer.rows, layer.columns)]
            weight = self._constant(node, aten.reshape.default, weight, shape)
        return weight if alpha == 1 else self._constant(node, aten.mul.Tensor, weight, alpha)

    def _bias(self, node: fx.Node, layer: _Layer, added: Any, factor: float) -> fx.Node | None:
        """``factor * added`` as a bias, [rows]; None where it is no constant, or not the same for all of the batch."""
        if not is_float32(added) or not is_constant(added):
            return None
        shape = _without_ones(added.meta["val"].shape)
        if len(shape) > len(layer.result):
            return None
        labels = layer.result[len(layer.result) - len(shape) :]
        sizes = {letter: size for letter, size in zip(labels, shape, strict=True) if size != 1}
        if not set(sizes) <= set(layer.rows):
            return None

        def call(target: Any, source: fx.Node, *args: Any) -> fx.Node:
            return self._constant(node, target, source, *args)

        bias = call(aten.reshape.default, added, list(sizes.values()))
        bias = _ordered(call, bias, "".join(sizes), "".join(letter for letter in layer.rows if letter in sizes))
        if len(sizes) < len(layer.rows):
            bias = call(aten.reshape.default, bias, [sizes.get(letter, 1) for letter in layer.rows])
            fixed = dict(zip(layer.weight[1], layer.weight[0].meta["val"].shape, strict=True))
            bias = call(aten.expand.default, bias, [fixed[letter] for letter in layer.rows])
        if len(layer.rows) != 1:
            bias = call(aten.reshape.default, bias, [-1])
        return bias if factor == 1 else call(aten.mul.Tensor, bias, factor)

    def _bias_behind(self, node: fx.Node, layer: _Layer) -> fx.Node | None:
        """The bias that is added to the product, by itself or behind views that keep the last dimension.

        The sum goes.
        """
        last, user = node, _only_user(node)
        while user is not None and user.target in _RESHAPED and _rank(user) > 0:
            if user.meta["val"].shape[-1] != node.meta["val"].shape[-1]:
                return None
            last, user = user, _only_user(user)
        if user is None or user.target not in ADD or not is_float32(user):
            return None
        first, second = user.args[:2]
        factor: Any = user.kwargs.get("alpha", 1)
        added: Any = second if first is last else first
        if added is first and (factor != 1 or user.target is aten.add_.Tensor):
            return None
        if user.meta["val"].shape != last.meta["val"].shape or _rank(added) == 0:
            return None
        if last is not node and len(_without_ones(added.meta["val"].shape)) > 1:
            return None
        bias = self._bias(node, layer, added, factor)
        if bias is not None:
            _hoist(bias, node)
            user.replace_all_uses_with(last)
            self._graph.erase_node(user)
        return bias

    def _result(self, node: fx.Node, layer: _Layer) -> fx.Node:
        """The layer's result with the dimensions in the product's order."""
        last = node
        if len(layer.rows) > 1:
            sizes = dict(zip(layer.weight[1], layer.weight[0].meta["val"].shape, strict=True))
            shape = [sizes[letter] for letter in layer.rows]
            last = self._behind(last, aten.unflatten.int, last, len(layer.batch), shape)
        elif not layer.rows:
            last = self._behind(last, aten.squeeze.dim, last, len(layer.batch))

        def call(target: Any, source: fx.Node, *args: Any) -> fx.Node:
            return self._behind(source, target, source, *args)

        return _ordered(call, last, layer.batch + layer.rows, layer.result)

    def _behind(self, last: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        with self._graph.inserting_after(last):
            return _call(self._graph, last, target, args, kwargs)

    def _constant(self, node: fx.Node, target: Any, source: fx.Node, *args: Any) -> fx.Node:
        """A call of a constant, right behind it and once for all that need it."""
        key = (target, source, str(args))
        if key not in self._constants:
            with self._graph.inserting_after(source):
                self._constants[key] = _call(self._graph, node, target, (source, *args))
        return self._constants[key]


def _ordered(call: Callable[..., fx.Node], node: fx.Node, labels: Sequence[str], wanted: str) -> fx.Node:
    """``node`` with its dimensions in the order ``wanted``; what is not in it has one element."""
    for dim in reversed(range(len(labels))):
        if labels[dim] not in wanted:
            node = call(aten.squeeze.dim, node, dim)
    left = "".join(letter for letter in labels if letter in wanted)
    return node if left == wanted else call(aten.permute.default, node, [left.index(letter) for letter in wanted])


def _transposed_of(node: fx.Node) -> fx.Node | None:
    """The matrix that ``node`` is the transpose of."""
    found = _TRANSPOSE.match(node, lambda match: _rank(match["matrix"]) == 2)
    return found["matrix"] if found else None


def _without_ones(shape: Sequence[Any]) -> list[Any]:
    """A shape without the ones in front."""
    start = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return list(shape[start:])


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _hoist(constant: fx.Node, node: fx.Node) -> None:
    """Moves a constant, and what it is computed of, before ``node`` where it stands behind."""
    if node < constant:
        for source in constant.all_input_nodes:
            _hoist(source, node)
        node.prepend(constant)


def _call(
    graph: fx.Graph, like: fx.Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> fx.Node:
    new = graph.call_function(target, args, kwargs or {})
    new.meta = inherited_meta(like, _value(like, target, args, kwargs or {}))
    return new


def _value(like: fx.Node, target: Any, args: Any, kwargs: dict[str, Any] | None = None) -> Any:
    fakes = fx.map_arg(args, lambda node: node.meta["val"])
    with like.meta["val"].fake_mode, torch.no_grad():
        return target(*fakes, **(kwargs or {}))
