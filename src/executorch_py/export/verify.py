"""Is a program in a dialect? Every node that breaks a rule is named, with the rule and its source line.

| dialect | its nodes |
|---|---|
| ``aten-autograd-safe`` | ATen and custom operators that gradients can pass, whole, in place as the model wrote |
| ``aten`` | ATen and custom operators in functional form |
| ``core-aten`` | the members of Core ATen, and custom operators |
| ``edge`` | what the compiler takes: copies for views, operators and element types with a kernel, row-major tensors |
| ``backend:<id>`` | Edge and the operators that the backend registered for itself |

In all of them a program calls operators, symbolic arithmetic, control flow and delegates, and nothing else.

    >>> verify_dialect(torch.export.export(model, inputs), "aten-autograd-safe")  # doctest: +SKIP
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._export.verifier import Verifier
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py._arguments import instance, text
from executorch_py.errors import Diagnostic, ErrorCode, InvalidArgumentError, VerificationError
from executorch_py.exir.backend.dialect import BackendDialect, backend_dialect, owner_of
from executorch_py.graphs.dtypes import dtype_code
from executorch_py.graphs.rewriting import nodes_with_bodies
from executorch_py.graphs.sources import source_of
from executorch_py.operators import known_operators

from .dialect.custom_operators import operator_name
from .dialect.edge import EdgeVerifier
from .dialect.operators import COPY_TO_VIEW, VIEW_TO_COPY
from .gradients import gradient_refusal

#: A rule looks at one node and says what is wrong with it, or "".
Rule = Callable[[fx.Node], str]


@dataclass(frozen=True)
class Dialect:
    """A name and its rules, in the order of their messages."""

    name: str
    rules: tuple[tuple[str, Rule], ...]


def verify_dialect(program: ExportedProgram, dialect: str) -> None:
    """Checks every node of a program, those of control flow's branches included.

    Args:
        program: What torch.export, ``to_edge`` or a pass gave.
        dialect: "aten-autograd-safe", "aten", "core-aten", "edge" or "backend:<id>".

    Raises:
        VerificationError: Lists each violation: rule, what is wrong, node, source line. ``.diagnostics`` has them one
            by one.
        InvalidArgumentError: There is no such dialect, or no backend of that id registered one.
        InvalidTypeError: ``program`` is no exported program, or ``dialect`` no string.
    """
    instance(
        "the program", program, ExportedProgram, "an ExportedProgram; exported_program() of an edge program gives it"
    )
    text("the dialect", dialect)
    found = list(_violations(program, _dialect(dialect)))
    if found:
        lines = "\n".join(f"  {item}" for item in found)
        count = "1 node breaks" if len(found) == 1 else f"{len(found)} nodes break"
        raise VerificationError(f"{count} the rules of the dialect {dialect}:\n{lines}", diagnostics=found)


def _violations(program: ExportedProgram, dialect: Dialect) -> Iterator[Diagnostic]:
    for node in nodes_with_bodies(program.graph_module):
        for rule, check in dialect.rules:
            if reason := check(node):
                source = source_of(node)
                yield Diagnostic(
                    f"{rule}: {reason}",
                    ErrorCode.Internal,
                    op=str(node.target) if node.op == "call_function" else None,
                    node=node.name,
                    module_path=source.module_path or None,
                    file=source.file or None,
                    line=source.line or None,
                )
                break  # what follows from the first violation says nothing new


# ---------------------------------------------------------------------------------------------------------------- rules


def _is_graph_of_calls(node: fx.Node) -> str:
    if node.op in ("placeholder", "get_attr", "output"):
        return ""
    if node.op != "call_function":
        return f"a node of kind {node.op}; torch.export gives calls of functions only"
    target = node.target
    if isinstance(target, (OpOverload, HigherOrderOperator)) or target is operator.getitem:
        return ""
    if target in _symbolic_functions():
        return ""
    return f"{getattr(target, '__name__', target)} is no operator; call one of torch.ops"


def _symbolic_functions() -> set[Any]:
    verifier = EdgeVerifier()
    return {*Verifier().allowed_builtin_ops(), *verifier.allowed_builtin_ops(), torch.sym_max, torch.sym_min,
            torch.sym_not, torch.sym_ite, torch.sym_float, torch.sym_int, torch.sym_sqrt, round}  # fmt: skip


def _has_type(node: fx.Node) -> str:
    if node.op in ("placeholder", "call_function") and "val" not in node.meta:
        return "the node has no value in node.meta['val']; a pass that makes nodes must set it"
    return ""


def _is_dispatched(node: fx.Node) -> str:
    if isinstance(node.target, OpOverload) and node.target.namespace in ("prims", "prim"):
        return "the operator is an internal one of PyTorch; use ATen's"
    return ""


def _is_functional(node: fx.Node) -> str:
    if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
        return "the operator changes its arguments; run_decompositions() or to_edge() gives its functional form"
    return ""


def _is_core(node: fx.Node) -> str:
    if _is_aten(node) and torch.Tag.core not in node.target.tags:
        return "the operator is no member of Core ATen; run_decompositions() with torch's default table decomposes it"
    return ""


def _is_copy(node: fx.Node) -> str:
    if isinstance(node.target, OpOverload) and node.target in VIEW_TO_COPY and node.target not in COPY_TO_VIEW:
        return f"a view; Edge has its copy, {VIEW_TO_COPY[node.target]}"
    return ""


def _has_storable_values(node: fx.Node) -> str:
    for value in pytree.tree_leaves(node.meta.get("val")):
        if not isinstance(value, torch.Tensor):
            continue
        if value.layout != torch.strided:
            return f"a tensor of layout {value.layout}; convert with to_dense()"
        if dtype_code(value.dtype) is None:
            return f"values of dtype {value.dtype}; convert with tensor.to()"
        if value.device.type not in ("cpu", "meta"):
            return f"a tensor on {value.device}; export the model on the CPU"
        if isinstance(node.target, OpOverload) and not _is_row_major(value):
            return "the result is not row-major; Edge leaves memory orders to the compiler"
    return ""


def _has_kernel(node: fx.Node) -> str:
    if not isinstance(node.target, OpOverload):
        return ""
    info = known_operators().get(operator_name(node.target))
    if info is None:
        return (
            "the runtime has no such operator; to_edge() decomposes it, or a kernel library brings it"
            if _is_aten(node)
            else ""
        )
    dtype = _main_dtype(node)
    if dtype is not None and not info.takes(dtype_code(dtype)):
        return f"no kernel takes {dtype}; convert to another dtype before it"
    return ""


def _belongs_to(dialect: BackendDialect) -> Rule:
    def rule(node: fx.Node) -> str:
        if not isinstance(node.target, OpOverload):
            return ""
        name = operator_name(node.target)
        owner = owner_of(name)
        if owner is not None and owner != dialect.backend_id:
            return f"the operator belongs to the backend {owner}"
        if owner is None and node.target.namespace == dialect.namespace:
            return f"{dialect.backend_id} has registered no operator {name}"
        return ""

    return rule


def _belongs_to_no_backend(node: fx.Node) -> str:
    owner = owner_of(operator_name(node.target)) if isinstance(node.target, OpOverload) else None
    return f"the operator belongs to the backend {owner}; its dialect is backend:{owner}" if owner else ""


def _backend_check(dialect: BackendDialect) -> Rule:
    def rule(node: fx.Node) -> str:
        return (dialect.check(node) or "") if dialect.check is not None else ""

    return rule


def _is_aten(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.namespace == "aten"


def _main_dtype(node: fx.Node) -> torch.dtype | None:
    """Of the first tensor argument, else of the first result: what chooses the kernel, as in
    driver/check_kernels.cpp.
    """
    for source in [*node.all_input_nodes, node]:
        for value in pytree.tree_leaves(source.meta.get("val")):
            if isinstance(value, torch.Tensor):
                return value.dtype
    return None


def _is_row_major(value: torch.Tensor) -> bool:
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if not isinstance(size, int) or not isinstance(stride, int):
            return True  # symbolic sizes: the importer decides
        if size != 1 and stride != expected:
            return value.numel() == 0
        expected *= size
    return True


_COMMON: tuple[tuple[str, Rule], ...] = (
    ("calls operators only", _is_graph_of_calls),
    ("every value has a type", _has_type),
    ("operators of ATen or of users", _is_dispatched),
)
_ATEN = (*_COMMON, ("functional", _is_functional))
_EDGE = (
    *_ATEN,
    ("no views", _is_copy),
    ("values that a file can hold", _has_storable_values),
    ("operators with a kernel", _has_kernel),
)

_DIALECTS = {
    "aten-autograd-safe": (*_COMMON, ("gradients can pass", gradient_refusal)),
    "aten": _ATEN,
    "core-aten": (*_ATEN, ("Core ATen", _is_core)),
    "edge": (*_EDGE, ("operators of no backend", _belongs_to_no_backend)),
}


def _dialect(name: str) -> Dialect:
    if name.startswith("backend:"):
        of_backend = backend_dialect(name.removeprefix("backend:"))
        own = ("operators of Edge or of the backend", _belongs_to(of_backend))
        return Dialect(name, (*_EDGE, own, ("the backend's own rules", _backend_check(of_backend))))
    if name not in _DIALECTS:
        raise InvalidArgumentError(f"there is no dialect '{name}'; there are {', '.join(_DIALECTS)} and backend:<id>")
    return Dialect(name, _DIALECTS[name])
