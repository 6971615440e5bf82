"""Is a program in the Edge dialect? What torch's verifier checks after every change of an Edge program."""

import math
import operator
from typing import Any

import torch
from torch._export.verifier import Verifier


class EdgeVerifier(Verifier):
    """Edge: functional operators, tensors with known types, symbolic arithmetic, control flow, calls of delegates."""

    dialect = "EDGE"

    def allowed_builtin_ops(self) -> list:
        return [*super().allowed_builtin_ops(), operator.xor, operator.pos, math.sqrt]

    def allowed_getattr_types(self) -> tuple[type[Any], ...]:
        return (*super().allowed_getattr_types(), torch.Tensor)
