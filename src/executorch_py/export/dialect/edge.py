"""Is a program in the Edge dialect? The verifier that torch runs, and a check whose errors help.

torch's verifier answers with a type name; ``check_edge`` names the operator, the source line and the way out.
"""

import math
import operator
from collections.abc import Collection
from typing import Any

import torch
from torch._export.verifier import Verifier
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.errors import Diagnostic, ErrorCode, NotSupportedError
from executorch_py.graphs.dtypes import dtype_code
from executorch_py.graphs.sources import source_of


class EdgeVerifier(Verifier):
    """Edge: functional operators, tensors with known types, symbolic arithmetic, control flow, calls of delegates."""

    dialect = "EDGE"

    def allowed_builtin_ops(self) -> list:
        return [*super().allowed_builtin_ops(), operator.xor, operator.pos, math.sqrt]

    def allowed_getattr_types(self) -> tuple[type[Any], ...]:
        return (*super().allowed_getattr_types(), torch.Tensor)


def check_edge(method: str, program: ExportedProgram, exceptions: Collection[OpOverload] = ()) -> None:
    """Checks every operator and dtype of a program.

    Args:
        method: Name for messages.
        program: An Edge program.
        exceptions: Operators that pass though the runtime has no kernel for them (a backend takes them).

    Raises:
        NotSupportedError: Lists every breach with operator, source line and what to do.
    """
    found: list[Diagnostic] = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if reason := _breach(node, exceptions):
            source = source_of(node)
            found.append(
                Diagnostic(
                    reason,
                    ErrorCode.NotSupported,
                    method=method,
                    op=str(node.target),
                    node=node.name,
                    module_path=source.module_path or None,
                    file=source.file or None,
                    line=source.line or None,
                )
            )
    if found:
        lines = "\n".join(f"  {item}" for item in found)
        raise NotSupportedError(f"method '{method}' is not in the Edge dialect:\n{lines}", diagnostics=found)


def _breach(node: Any, exceptions: Collection[OpOverload]) -> str:
    target = node.target
    if isinstance(target, OpOverload):
        if target._schema.is_mutable and target not in exceptions:
            return "the operator changes its arguments; use its functional form"
        if target.namespace == "prims":
            return (
                "the operator is an internal one of PyTorch that a decomposition left; "
                "keep its caller whole (preserve_ops)"
            )
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.Tensor):
            if dtype_code(value.dtype) is None:
                return f"values of dtype {value.dtype} are not supported; convert to another dtype (tensor.to)"
            if value.layout != torch.strided:
                return f"tensors of layout {value.layout} are not supported; convert with to_dense()"
    return ""
