"""Attention with a mask that is known when the model is quantized, so that a scale fits its scores.

What hides an element is minus infinity, or nearly. On integers it is a number below the smallest score of its row,
whose share rounds to none.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from executorch_py.graphs.nodes import arguments_of

from .annotation import LARGEST
from .lifting import constant_value
from .matching import SOFTMAX, depends_on_inputs, is_float32

aten = torch.ops.aten

#: How far a hidden score is below the smallest of its row: a share of at most exp(-8), less than a step of 8 bits.
_BELOW = 8.0

Formula = Callable[..., torch.Tensor]


def _hiding(kept: torch.Tensor) -> Formula:
    """Scores, of which those that are not ``kept`` are hidden."""
    shown, gone = kept.float(), (~kept).float()

    def hide(x: torch.Tensor) -> torch.Tensor:
        given = (one.reshape(*(1,) * (x.dim() - one.dim()), *one.shape) for one in (shown, gone, gone * _BELOW))
        keeps, hides, lowers = given
        return x * keeps + (x.amin(-1, True) * hides - lowers)

    return hide


def _known(node: Any) -> torch.Tensor | None:
    """The value of what depends on no input."""
    if not isinstance(node, fx.Node) or depends_on_inputs(node) or node.graph.owning_module is None:
        return None
    value = constant_value(node.graph.owning_module, node)
    return value if isinstance(value, torch.Tensor) else None


def _kept(mask: torch.Tensor | None) -> torch.Tensor | None:
    """Which scores a mask keeps, where it does nothing else, and leaves some of each row."""
    if mask is None or mask.dim() == 0:
        return None
    if mask.dtype != torch.bool:
        gone = mask < -LARGEST
        if not bool((gone | (mask == 0)).all()):
            return None
        mask = ~gone
    return mask if bool(mask.any(-1).all()) and not bool(mask.all()) else None


def _goes_to_softmax(node: fx.Node) -> bool:
    """Whether only a softmax of rows reads a node."""
    last = (-1, node.meta["val"].dim() - 1)
    return all(user.target in SOFTMAX and arguments_of(user)["dim"] in last for user in node.users)


def _of_attention(node: fx.Node) -> Formula | None:
    """With a mask that is known, or a causal one."""
    given = arguments_of(node)
    rows, columns = (given[name].meta["val"].shape[-2] for name in ("query", "key"))
    if given["dropout_p"] or given["enable_gqa"] or not (isinstance(rows, int) and isinstance(columns, int)):
        return None
    is_causal = given["is_causal"] and given["attn_mask"] is None
    mask = torch.ones(rows, columns, dtype=torch.bool).tril() if is_causal else _known(given["attn_mask"])
    kept = _kept(mask)
    if kept is None:
        return None
    hide = _hiding(kept)

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **options: Any) -> torch.Tensor:
        factor = options.get("scale") or query.shape[-1] ** -0.5
        return hide((query @ key.transpose(-2, -1)) * factor).softmax(-1) @ value

    return attention


def _of_sum(node: fx.Node) -> Formula | None:
    """Scores and a mask of zeros and minus infinity."""
    for i in (0, 1):
        mask, scores = node.args[i], node.args[1 - i]
        if is_float32(scores) and is_float32(mask) and _goes_to_softmax(node):
            kept = _kept(_known(mask))
            if kept is not None:
                hide = _hiding(kept)
                return lambda *both, place=1 - i, **_: hide(both[place])
    return None


def _of_filling(node: fx.Node) -> Formula | None:
    """Scores that are filled with minus infinity where a mask says so."""
    scores, mask, number = node.args[:3]
    if not (isinstance(number, (int, float)) and number < -LARGEST and is_float32(scores) and _goes_to_softmax(node)):
        return None
    value = _known(mask)
    kept = None if value is None else _kept(~value)
    if kept is None:
        return None
    hide = _hiding(kept)
    return lambda x, *_: hide(x)


#: Operator -> what a node of it is replaced by; None: it stays.
FORMS_OF_MASKS: dict[Any, Callable[[fx.Node], Formula | None]] = {
    torch.ops.aten.scaled_dot_product_attention.default: _of_attention,
    torch.ops.aten.add.Tensor: _of_sum,
    torch.ops.aten.masked_fill.Scalar: _of_filling,
}
