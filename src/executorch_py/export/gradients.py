"""Can gradients pass an operator? Found out by trying: the operator and its derivative on tensors without data.

For: the dialect "aten-autograd-safe" (verify.py). PyTorch has no table that says it: an operator may have no
derivative, or none for one of its arguments, or refuse gradients altogether, as out variants do.
"""

import contextlib
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

_REFUSALS = ("not implemented", "support automatic differentiation", "not differentiable")


def gradient_refusal(node: fx.Node) -> str:
    """Why gradients cannot pass ``node``, in PyTorch's words; "" when they can, or when nothing there has gradients."""
    if not isinstance(node.target, OpOverload) or node.target.namespace != "aten":
        return ""
    try:
        args, kwargs = pytree.tree_map_only(fx.Node, _differentiable, (node.args, node.kwargs))
        modes = [v.fake_mode for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, FakeTensor)]
        with torch.enable_grad(), modes[0] if modes else contextlib.nullcontext():
            results = [
                value
                for value in pytree.tree_leaves(node.target(*args, **kwargs))
                if isinstance(value, torch.Tensor) and value.requires_grad
            ]
            if results:
                inputs = [
                    v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor) and v.requires_grad
                ]
                torch.autograd.grad(results, inputs, [torch.ones_like(r) for r in results], allow_unused=True)
    except (RuntimeError, AssertionError) as error:  # NotImplementedError is a RuntimeError
        text = str(error).split("\n")[0]
        return text if any(refusal in text for refusal in _REFUSALS) else ""
    return ""


def _differentiable(node: fx.Node) -> Any:
    """The node's fake value, as the result of a computation that gradients came through."""

    def one(value: torch.Tensor) -> torch.Tensor:
        if not (value.is_floating_point() or value.is_complex()):
            return value
        with torch.enable_grad():
            return value.detach().requires_grad_(True).clone()

    return pytree.tree_map_only(torch.Tensor, one, node.meta.get("val"))
