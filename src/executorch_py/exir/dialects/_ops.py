"""``ops.edge.aten.add.Tensor``: names of operators as partitioners and passes for Edge write them.

fx keeps plain ``torch.ops`` targets, so ``ops.edge.X`` is ``torch.ops.X`` itself and compares equal with a node's target.

    >>> from executorch_py.exir.dialects._ops import ops as exir_ops
    >>> exir_ops.edge.aten.add.Tensor is torch.ops.aten.add.Tensor
    True
"""

from typing import Any

import torch


class _EdgeNamespace:
    """``ops.edge``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops, name)


class _Ops:
    """``ops``: ``ops.edge`` and, as ``torch.ops``, everything else."""

    def __init__(self) -> None:
        self.edge = _EdgeNamespace()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops, name)


ops = _Ops()
