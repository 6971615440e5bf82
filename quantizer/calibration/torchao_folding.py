"""torchao's own ``prepare_pt2e`` with a quantizer of this package folds batch norms as ours does (flow/pt2e_flow.py).

torchao folds before it asks the quantizer for anything, and in the wrong way where somebody else reads the layer's
result or its weight. So its two functions of folding look first whose quantizer is at work. With quantizers of others
they are as they were.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from torch import fx

from ..spec.pt2e import convert_prepared
from . import batch_norm

_PACKAGE = __name__.rsplit(".", 2)[0]
_FOLDING = ("_fuse_conv_bn_", "_fuse_linear_bn_")


def _folding(theirs: Callable[[fx.GraphModule], None]) -> Callable[[fx.GraphModule], None]:
    @functools.wraps(theirs)
    def fold(m: fx.GraphModule) -> None:
        if not _is_ours(sys._getframe(1).f_locals.get("quantizer")):
            return theirs(m)
        batch_norm.fold(m)

    return fold


def _is_ours(quantizer: Any) -> bool:
    """Whether this package has the quantizer's class or one that it builds on, or that of a part of a composed one."""
    return any(one.__module__.startswith(_PACKAGE) for one in type(quantizer).__mro__) or any(
        _is_ours(part) for part in getattr(quantizer, "quantizers", ())
    )


_flow = sys.modules[convert_prepared.__module__]
for _name in _FOLDING:
    setattr(_flow, _name, _folding(getattr(_flow, _name)))
