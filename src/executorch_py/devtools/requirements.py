"""What a program needs of a runtime: its operators, the kernel that each call got, its backends, and what is missing.

>>> for need in requirements(Path("model.pte").read_bytes()):  # doctest: +SKIP
...     print(need.method, need.operator, need.calls, need.kernels, need.missing)

For: ``etpy ops MODEL``, and tests that a target's kernels are complete. Needs no torch.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from executorch_py import _core
from executorch_py.codegen.element_types import told
from executorch_py.codegen.ops_yaml import TableError
from executorch_py.codegen.pte_operators import KernelCall, read_pte_calls
from executorch_py.codegen.select_ops import Selection
from executorch_py.errors import ExecutorchError, InvalidArgumentError, InvalidProgramError
from executorch_py.operators import registered_kernels
from executorch_py.runtime import Program, Runtime


@dataclass
class Requirement:
    """One operator, or one backend, that a method calls.

    Attributes:
        method: The method.
        operator: Name of the kernel ("aten::add.out"), or of the backend.
        calls: How many instructions call it.
        dtypes: Element types of the tensors in these calls.
        kernels: Library and variant -> how many calls got it; of a method that cannot be loaded, those that would be
            tried.
        missing: Why a call of it cannot run; "" = it can.
        is_backend: It is a backend.
    """

    method: str
    operator: str
    calls: int = 0
    dtypes: set[str] = field(default_factory=set)
    kernels: Counter[str] = field(default_factory=Counter)
    missing: str = ""
    is_backend: bool = False


def requirements(data: bytes, selection: Selection | None = None) -> list[Requirement]:
    """What the methods of a program need, and whether this process has it.

    Args:
        data: The bytes of a ``.pte`` file.
        selection: Of portable kernels, count only these as there: those of a build with ``-DET_SELECT_OPS``.

    Raises:
        InvalidProgramError: The bytes are no program.
    """
    program = Runtime.get().load_program(data)
    try:
        calls = read_pte_calls(data)
    except TableError as error:
        raise InvalidProgramError(str(error)) from None
    found: list[Requirement] = []
    for method in sorted(program.method_names):
        found += _operators(program, method, [call for call in calls if call.method == method], selection)
        found += _backends(program, method)
    return found


def _operators(
    program: Program, method: str, calls: Iterable[KernelCall], selection: Selection | None
) -> list[Requirement]:
    chosen = _chosen(program, method)
    known = registered_kernels()
    needs: dict[str, Requirement] = {}
    for call in calls:
        need = needs.setdefault(call.kernel, Requirement(method, call.kernel))
        need.calls += 1
        need.dtypes |= call.dtypes
        if chosen is not None and selection is None:
            need.kernels[chosen[call.instruction]] += 1
    for need in needs.values():
        candidates = known.get(need.operator, [])
        if selection is not None:
            candidates = [kernel for kernel in candidates if _is_selected(kernel.library, need, selection)]
            need.missing = "" if candidates else _why_not_selected(need, selection, bool(known.get(need.operator)))
        elif not candidates:
            need.missing = "no kernel is registered"
        if not need.kernels:
            need.kernels.update(dict.fromkeys((kernel.label for kernel in candidates), 0))
    return sorted(needs.values(), key=lambda need: need.operator)


def _chosen(program: Program, method: str) -> dict[int, str] | None:
    """Instruction -> the kernel that load chose; None when the method cannot be loaded."""
    try:
        loaded = program.load_method(method)
    except ExecutorchError:
        return None
    return {
        instruction: f"{library}[{variant}]" if variant else library
        for instruction, _name, library, variant in _core.kernels_of(loaded._core)
    }


def _is_selected(library: str, need: Requirement, selection: Selection) -> bool:
    if library == "prim":
        return True
    if library in ("portable", "optimized"):
        wanted = selection.dtypes(need.operator)
        return selection.has(need.operator) and (wanted is None or need.dtypes <= wanted) and library == "portable"
    return True  # a backend's or a plug-in's: selection leaves them alone


def _why_not_selected(need: Requirement, selection: Selection, is_known: bool) -> str:
    if not is_known:
        return "no kernel is registered"
    if not selection.has(need.operator):
        return "not selected"
    return f"selected without {' '.join(told(need.dtypes - (selection.dtypes(need.operator) or set())))}"


def _backends(program: Program, method: str) -> list[Requirement]:
    registry = Runtime.get().backend_registry
    needs = []
    for name, count in sorted(Counter(program.metadata(method).backends()).items()):
        missing = ""
        if name not in registry.registered_backend_names:
            missing = "no backend of that name is registered"
        elif not registry.is_available(name):
            missing = "its device or library is not there"
        needs.append(Requirement(method, name, count, missing=missing, is_backend=True))
    return needs


def read_exported(path: Path) -> Any:
    """The exported program in a file that ``torch.export.save`` wrote; operators of quantized programs are known.

    Raises:
        InvalidArgumentError: The file holds no exported program, or one with an operator that nobody has defined yet.
    """
    import torch
    import torch.ao.quantization.fx._decomposed  # registers the operators that quantized programs hold

    told: list[BaseException] = []  # torch logs why it cannot read a file, with a traceback, and raises something else

    def keep(record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1]:
            told.append(record.exc_info[1])
        return False

    loggers = [logging.getLogger(name) for name in ("torch.export", "torch.export.pt2_archive._package")]
    for logger in loggers:
        logger.addFilter(keep)
    try:
        with path.open("rb") as file:
            return torch.export.load(file)
    except OSError:
        raise
    except Exception as error:  # torch raises what its parsers raise
        reasons = [str(one).strip() for one in _with_causes([*told, error])] or [type(error).__name__]
    finally:
        for logger in loggers:
            logger.removeFilter(keep)
    for reason in reasons:
        if unknown := re.search(r"failed to resolve torch\.ops\.(\S+) to an operator", reason):
            raise InvalidArgumentError(
                f"{path} calls the operator {unknown[1]}, which torch does not know here; import the module that "
                "defines it first (etpy: --import my.operators)"
            )
    raise InvalidArgumentError(f"{path} holds no exported program (torch.export.save): {reasons[0].splitlines()[0]}")


def _with_causes(errors: Iterable[BaseException]) -> Iterator[BaseException]:
    for error in errors:
        one: BaseException | None = error
        while one is not None:
            if str(one).strip():
                yield one
            one = one.__cause__ or one.__context__


def lower_for_requirements(path: Path, partitioners: Iterable[object] = ()) -> bytes:
    """A ``.pte`` of an exported program (``torch.export.save``), with kernels of custom operators taken for granted.

    Raises:
        ExecutorchError: It cannot be lowered; says why.
    """
    from executorch_py.lowering.config import ExecutorchBackendConfig
    from executorch_py.lowering.edge import to_edge_transform_and_lower

    parts = list(partitioners) or None
    edge = to_edge_transform_and_lower(read_exported(path), partitioner=parts)  # type: ignore[arg-type]
    return edge.to_executorch(ExecutorchBackendConfig(target_kernels=True)).buffer


def table_of(needs: list[Requirement]) -> str:
    """The requirements as text, a method a block."""
    lines: list[str] = []
    width = max((len(need.operator) for need in needs), default=0)
    for method in dict.fromkeys(need.method for need in needs):
        own = [need for need in needs if need.method == method]
        operators = [need for need in own if not need.is_backend]
        lines.append(f"method {method}: {len(operators)} operators, {sum(need.calls for need in operators)} calls")
        for need in own:
            if need.missing:
                kernels = f"MISSING: {need.missing}"
            elif need.is_backend:
                kernels = "backend"
            else:
                kernels = ", ".join(f"{name} {count}" if count else name for name, count in need.kernels.items())
            dtypes = " ".join(told(need.dtypes))
            lines.append(f"  {need.operator:<{width}}  {need.calls:>4}  {dtypes:<16} {kernels}")
    missing = sorted({need.operator for need in needs if need.missing})
    lines.append(f"missing: {', '.join(missing)}" if missing else "nothing is missing")
    return "\n".join(lines)
