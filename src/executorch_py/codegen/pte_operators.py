"""Which kernels a `.pte` file calls, and with which element types. For select_ops.py, at build time, and `etpy ops`.

Reads only operators, instructions and the element types of tensors, with the standard library. Every offset is checked:
a damaged file is an error, not a crash. Slots are positions of fields in src/cpp/schema/program.fbs.
Not for: looking into a file (pte_dump, `etpy inspect`).
"""

from __future__ import annotations

from dataclasses import dataclass

from .flatbuffer import DamagedError, Table, read_root
from .ops_yaml import DTYPES, TableError

_DTYPE_NAMES = {number: name for name, number in DTYPES.items()}

# Members of the unions of program.fbs.
_TENSOR, _TENSOR_LIST, _OPTIONAL_TENSOR_LIST = 5, 10, 11
_KERNEL_CALL = 1


def _tensor_dtypes(values: list[Table], index: int) -> set[str]:
    """Element types of the tensors that value `index` holds."""
    if not 0 <= index < len(values):
        raise TableError(f"value {index} of {len(values)}")
    kind, content = values[index].scalar(0, "B"), values[index].table(1)
    if content is None:
        return set()
    if kind == _TENSOR:
        return {_DTYPE_NAMES[content.scalar(0, "b")]} if content.scalar(0, "b") in _DTYPE_NAMES else set()
    if kind in (_TENSOR_LIST, _OPTIONAL_TENSOR_LIST):
        return set().union(*(_tensor_dtypes(values, item) for item in content.numbers(0) if item >= 0))
    return set()


@dataclass(frozen=True)
class KernelCall:
    """One instruction that calls a kernel."""

    method: str
    instruction: int
    kernel: str
    dtypes: frozenset[str]  # element types of its tensors


def read_pte_calls(data: bytes) -> list[KernelCall]:
    """The kernel calls of all methods of a program, in order.

    Raises:
        TableError: The bytes are not a program.
    """
    try:
        return _calls_of(read_root(data, b"ET12"))
    except DamagedError as error:
        raise TableError(f"not a .pte file: {error}") from None


def _kernel_names(plan: Table) -> list[str]:
    return [op.text(0) + (f".{op.text(1)}" if op.text(1) else "") for op in plan.tables(6)]


def instructions_of(data: bytes) -> dict[str, list[str]]:
    """Method -> what each instruction of its first chain calls: a kernel such as ``aten::add.out``, or "".

    Raises:
        DamagedError: The bytes are not a program.
    """
    found: dict[str, list[str]] = {}
    for plan in read_root(data, b"ET12").tables(1):
        names = _kernel_names(plan)
        first = next(iter(plan.tables(5)), None)
        calls = [(one.scalar(0, "B"), one.table(1)) for one in (first.tables(2) if first else ())]
        found[plan.text(0)] = [
            names[call.scalar(0, "i")] if kind == _KERNEL_CALL and call is not None else "" for kind, call in calls
        ]
    return found


def _calls_of(program: Table) -> list[KernelCall]:
    calls: list[KernelCall] = []
    for plan in program.tables(1):
        method = plan.text(0)
        values = plan.tables(2)
        names = _kernel_names(plan)
        for chain in plan.tables(5):
            for position, instruction in enumerate(chain.tables(2)):
                call = instruction.table(1)
                if instruction.scalar(0, "B") != _KERNEL_CALL or call is None:
                    continue
                index = call.scalar(0, "i")
                if not 0 <= index < len(names):
                    raise TableError(f"operator {index} of {len(names)}")
                dtypes = frozenset().union(*(_tensor_dtypes(values, argument) for argument in call.numbers(1)))
                calls.append(KernelCall(method, position, names[index], dtypes))
    return calls


def read_pte_operators(data: bytes) -> dict[str, set[str]]:
    """Kernel name → element types of its tensors, over all methods of a program.

    Raises:
        TableError: The bytes are not a program.
    """
    kernels: dict[str, set[str]] = {}
    for call in read_pte_calls(data):
        kernels.setdefault(call.kernel, set()).update(call.dtypes)
    return kernels
