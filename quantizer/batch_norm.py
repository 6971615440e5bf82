"""Batch norms in training with quantization: torchao folds them with an eps and a momentum of its own.

Its pattern for a convolution and its batch norm has eps 1e-5 and momentum 0.1 written into it, and models have others (1e-3 in
MobileNetV3). The numbers of the model are noted before, written back behind, and before the folding at the end the variance takes
up the difference, so that sqrt(variance + eps) stays what the model was trained with.
"""

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

#: What torchao folds with.
_FOLDED_EPS = 1e-5
#: Running variance of a folded batch norm -> its eps, in the meta of the prepared module.
_NOTED = "executorch_py.batch_norm_eps"


def noted(model: fx.GraphModule) -> dict[str, tuple[Any, float]]:
    """Running variance -> (momentum, eps) of each batch norm."""
    return {str(node.args[4].target): (node.args[6], float(node.args[7])) for node in _batch_norms(model)}


def restore(prepared: fx.GraphModule, numbers: dict[str, tuple[Any, float]]) -> None:
    """Writes momentum and eps back into a prepared module."""
    folded = {}
    for node in _batch_norms(prepared):
        variance = node.args[4]
        momentum, eps = numbers.get(str(variance.target), (node.args[6], float(node.args[7])))
        node.args = (*node.args[:6], momentum, eps, *node.args[8:])
        for user in variance.users:
            if user.target is aten.add.Tensor:  # of the scale that the weight is trained with
                user.args = (variance, eps)
                folded[str(variance.target)] = eps
    prepared.meta[_NOTED] = folded
    prepared.recompile()


def absorb(prepared: fx.GraphModule) -> None:
    """Lets each folded variance take up the difference between its eps and the one that it is folded with."""
    with torch.no_grad():
        for target, eps in prepared.meta.pop(_NOTED, {}).items():
            prepared.get_buffer(target).add_(eps - _FOLDED_EPS)


def _batch_norms(model: fx.GraphModule) -> list[fx.Node]:
    found = [node for node in model.graph.nodes if node.target is aten.batch_norm.default]
    return [node for node in found if isinstance(node.args[4], fx.Node) and node.args[4].op == "get_attr"]
