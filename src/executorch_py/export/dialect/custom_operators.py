"""Operators that the compiler's table does not have: users' own, backends', and what a kernel library brings.

An operator needs a torch schema (``torch.library`` or C++'s TORCH_LIBRARY) with a fake implementation, and a kernel
whose name and parameters follow from that schema (codegen/kernel_form.py). Whether the kernel is there is checked
before lowering, with the line of the model and the declaration to write.

    >>> find_custom_operators({"forward": edge_program})  # doctest: +SKIP
    {'my::scale': CustomOperator(kernel='my::scale.out', changed=0, signature='Tdo')}
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py.codegen.kernel_form import KernelForm
from executorch_py.codegen.ops_yaml import TableError, parse_schema
from executorch_py.errors import Diagnostic, ErrorCode, NotSupportedError, OperatorMissingError
from executorch_py.graphs.rewriting import nodes_with_bodies
from executorch_py.graphs.sources import source_of
from executorch_py.operators import kernels_of_operator, known_operators

from .in_place import operator_of

#: Namespaces whose operators are not for users to implement, though they may: what lacks there, the compiler names.
_PYTORCHS = ("aten", "prims", "prim")


@dataclass(frozen=True)
class CustomOperator:
    """What the compiler needs to know of an operator that it does not know; see KernelForm."""

    kernel: str
    changed: int
    signature: str


@dataclass
class _Found:
    operators: dict[str, CustomOperator] = field(default_factory=dict)
    missing: list[Diagnostic] = field(default_factory=list)
    impossible: list[Diagnostic] = field(default_factory=list)


def operator_name(op: OpOverload) -> str:
    """``aten.add.Tensor`` -> "aten::add.Tensor"; the default overload has no suffix."""
    overload = op._overloadname
    return op._schema.name if overload == "default" else f"{op._schema.name}.{overload}"


def find_custom_operators(
    programs: Mapping[str, ExportedProgram], target_kernels: bool | Collection[str] = ()
) -> dict[str, CustomOperator]:
    """The custom operators of Edge programs, by name, each with a kernel in this process.

    Args:
        programs: Method name -> Edge program.
        target_kernels: Kernels that need not be here, by name; True: none need.

    Raises:
        OperatorMissingError: An operator has no kernel; names its source line and the declaration of the kernel.
        NotSupportedError: No kernel can be written for an operator's schema, or the registered one has other
            parameters.
    """
    found = _Found()
    for method, program in programs.items():
        for node, op in _calls(program):
            if not node.meta.get("delegation_tag") and not _goes_along(node):
                _look(found, method, node, op, target_kernels)
    for diagnostics, error in ((found.impossible, NotSupportedError), (found.missing, OperatorMissingError)):
        if diagnostics:
            lines = "\n".join(f"  {item}" for item in diagnostics)
            raise error(f"custom operators cannot be lowered:\n{lines}", diagnostics=diagnostics)
    return found.operators


def _goes_along(node: fx.Node) -> bool:
    """An integer weight of delegated operators: each part takes its own along, and the node is dropped."""
    taken = bool(node.users) and all(user.meta.get("delegation_tag") for user in node.users)
    return taken and "dequantize" in str(node.target) and all(n.op != "call_function" for n in node.all_input_nodes)


def _calls(program: ExportedProgram) -> Iterator[tuple[fx.Node, OpOverload]]:
    for node in nodes_with_bodies(program.graph_module):
        op = operator_of(node) or node.target
        if node.op == "call_function" and isinstance(op, OpOverload):
            yield node, op


def _look(found: _Found, method: str, node: fx.Node, op: OpOverload, target_kernels: bool | Collection[str]) -> None:
    name = operator_name(op)
    if name in found.operators or name in known_operators():
        return
    try:
        form = kernel_form(op)
    except TableError as error:
        if op.namespace in _PYTORCHS:
            return  # an assertion, say: the importer and the compiler say what can be done
        found.impossible.append(_diagnostic(method, node, op, str(error), ErrorCode.NotSupported))
        return
    # e and E: T and t that an output may lie over, which is the kernel's own business
    signatures = [
        kernel.signature.translate({ord("e"): "T", ord("E"): "t"}) for kernel in kernels_of_operator(form.name)
    ]
    if signatures and not {form.signature, ""} & set(signatures):
        reason = (
            f"the registered kernel {form.name} has other parameters ({signatures[0]}) than the operator's schema asks "
            f"for ({form.signature}); declare it as {form.declaration}"
        )
        found.impossible.append(_diagnostic(method, node, op, reason, ErrorCode.NotSupported))
    elif signatures or target_kernels is True or (target_kernels and form.name in target_kernels):
        found.operators[name] = CustomOperator(form.name, form.changed, form.signature)
    elif op.namespace in _PYTORCHS:
        return
    else:
        reason = (
            f"no kernel {form.name} is registered. Write {form.declaration} and load its library with "
            f"executorch_py.load_kernel_library() (docs/how-to/custom_operators.md), let a backend take the operator, "
            f"or, if only the target has the kernel, name it in ExecutorchBackendConfig(target_kernels=...)"
        )
        found.missing.append(_diagnostic(method, node, op, reason, ErrorCode.OperatorMissing))


def kernel_form(op: OpOverload) -> KernelForm:
    """The kernel of ``op``: that of its out variant, when torch knows one with the same arguments.

    Raises:
        TableError: No kernel can be written for its schema.
    """
    schema = parse_schema(_schema_text(op))
    for overload in op._overloadpacket.overloads():
        other = getattr(op._overloadpacket, overload)
        if other is not op and any(a.is_out for a in other._schema.arguments):
            try:
                return KernelForm.of(schema, parse_schema(_schema_text(other)))
            except TableError:
                continue  # of another overload
    return KernelForm.of(schema)


def _schema_text(op: OpOverload) -> str:
    return str(op._schema)


def _diagnostic(method: str, node: fx.Node, op: OpOverload, reason: str, code: ErrorCode) -> Diagnostic:
    source = source_of(node)
    return Diagnostic(
        reason,
        code,
        method=method,
        op=operator_name(op),
        node=node.name,
        module_path=source.module_path or None,
        file=source.file or None,
        line=source.line or None,
    )
