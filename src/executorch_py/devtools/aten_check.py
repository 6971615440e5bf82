"""``compare_with_aten``: each instruction of a program computed once more by ATen, from what the runtime's kernel read.

The runtime runs the program one instruction after the other. ATen's operator gets the arguments that the kernel had.
Its results are held against those that the kernel wrote. So an error stays where it is made: what follows is compared
on the runtime's own values. Operators that ATen does not have are written with ATen's (aten_forms.py). Not compared are
delegates, random numbers, and kernels without a counterpart; the report counts them.

Example:
    >>> print(compare_with_aten(program, inputs))  # doctest: +SKIP
    method forward: 66 instructions computed again by ATen, all agree
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from executorch_py import _core
from executorch_py._shown import Told, counted
from executorch_py.devtools.aten_forms import FORMS, PRIMS
from executorch_py.devtools.comparison import Comparison, Tolerance, compare
from executorch_py.devtools.validate import as_module
from executorch_py.errors import InvalidArgumentError
from executorch_py.text_table import aligned

__all__ = ["AtenReport", "AtenRow", "compare_with_aten"]

#: Largest ``max|actual - expected| / max|expected|`` of one operator, by dtype.
_RELATIVE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 1.6e-2}
#: Where numbers cancel, an error of so many roundings of the largest one that went in passes.
_ROUNDINGS = 8
#: Kernels of which only these results have one answer: eigenvectors have any sign.
_UNIQUE: dict[str, tuple[int, ...]] = {
    "aten::_linalg_eigh.eigenvalues": (0,),
    "aten::_linalg_svd.U": (1,),
    "aten::linalg_eig.out": (),
}
#: What ATen raises for arguments that it does not take.
_REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)


@dataclass(frozen=True)
class AtenRow:
    """An instruction beside ATen; of several runs, as in a loop, the worst.

    Attributes:
        instruction: Its number in the method.
        operator: The kernel's operator, "aten::add.out".
        where: "file:line" of the user's Python; "" where the file does not say it.
        module_path: Path of its module.
        result: Which of its results.
        comparison: The kernel's result beside ATen's.
    """

    instruction: int
    operator: str
    where: str
    module_path: str
    result: int
    comparison: Comparison


@dataclass(frozen=True, repr=False)
class AtenReport(Told):
    """What :func:`compare_with_aten` found.

    Attributes:
        method: Name of the method.
        rows: The instructions that were compared, in the order of the program.
        not_compared: Reason -> operator -> how many of its instructions.
    """

    method: str
    rows: tuple[AtenRow, ...]
    not_compared: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def differing(self) -> tuple[AtenRow, ...]:
        """The instructions whose results differ, the first one first."""
        return tuple(row for row in self.rows if not row.comparison.passed)

    @property
    def passed(self) -> bool:
        """True when every result that was compared agrees."""
        return not self.differing

    def __bool__(self) -> bool:
        return self.passed

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        rows = [{**vars(row), "comparison": vars(row.comparison)} for row in self.rows]
        return {"method": self.method, "passed": self.passed, "instructions": rows, "not_compared": self.not_compared}

    def __str__(self) -> str:
        wrong = self.differing
        verdict = f"{len(wrong)} differ" if wrong else "all agree"
        lines = [f"method {self.method}: {counted(len(self.rows), 'instruction')} computed again by ATen, {verdict}"]
        for reason, operators in self.not_compared.items():
            names = ", ".join(name if count == 1 else f"{count} {name}" for name, count in operators.items())
            lines.append(f"  not compared, {reason}: {names}")
        if wrong:
            head = ("instruction", "operator", "max error", "relative", "module", "line")
            lines += aligned(head, [_cells(row) for row in wrong], right=(0, 2, 3))
        return "\n".join(lines)


def _cells(row: AtenRow) -> list[str]:
    found = row.comparison
    figures = [found.note, ""] if found.note else [f"{found.max_error:.2e}", f"{found.relative_error:.2e}"]
    return [str(row.instruction), row.operator, *figures, row.module_path, row.where]


def compare_with_aten(
    program: Any,
    inputs: Sequence[Any] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    leaves: Sequence[Any] | None = None,
    method: str = "forward",
    tolerance: Tolerance | None = None,
) -> AtenReport:
    """Runs a program and computes each of its instructions once more by ATen, from the same arguments.

    Args:
        program: What ``to_executorch()`` gave, the bytes or path of a ``.pte``, a Program or a Module.
        inputs: Positional arguments of one call.
        kwargs: Keyword arguments of the call.
        leaves: The method's inputs one by one, as ``Method.execute`` takes them, instead of the arguments.
        method: Name of the method.
        tolerance: What passes; by the result's dtype otherwise (float32: 1e-5 of its largest value, or eight roundings
            of the largest number that went in). Integers must be equal, but for a step of integer operators.

    Raises:
        Others: What loading and running the program raise.
    """
    bound = as_module(program).new_session().method(method)
    given = bound._flatten(tuple(inputs), dict(kwargs or {})) if leaves is None else leaves
    watcher = _Watcher(tolerance)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bound.method._core.execute_observed([_as_torch(leaf) for leaf in given], watcher)
    rows = sorted(watcher.worst.values(), key=lambda row: row.instruction)
    return AtenReport(method, tuple(rows), watcher.not_compared())


def _as_torch(value: Any) -> Any:
    """Tensors of the call as torch's, so that all values that are seen are torch's."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if not hasattr(value, "__array_interface__"):
        return value
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view("uint16").copy()).view(torch.bfloat16)
    return torch.from_numpy(value.copy())


class _Watcher:
    """Sees each instruction after it ran."""

    def __init__(self, tolerance: Tolerance | None) -> None:
        self.worst: dict[int, AtenRow] = {}
        self._skipped: dict[int, tuple[str, str]] = {}
        self._tolerance = tolerance

    def __call__(
        self, number: int, name: str, before: list[Any], written: dict[int, Any], module: str, file: str, line: int
    ) -> None:
        reference = _reference(name)
        if isinstance(reference, _Reference) and reference.draws(before):
            reference = "random numbers"
        if isinstance(reference, str):
            self._skipped[number] = (reference, name)
            return
        try:
            expected = reference.results(before, written)
        except _REFUSALS as error:
            self._skipped[number] = (f"ATen refuses ({str(error).splitlines()[0]:.90})", name)
            return
        where = f"{file}:{line}" if file else ""
        actual = _leaves(written.values())
        if len(actual) != len(expected):
            raise InvalidArgumentError(f"{name} wrote {len(actual)} results, ATen has {len(expected)}")
        for index, (ours, atens) in enumerate(zip(actual, expected, strict=True)):
            if ours is None:
                continue  # one that nobody wants
            if index not in _UNIQUE.get(name, (index,)):
                continue
            limit = self._tolerance or _limit(reference, ours, before)
            comparison = _compared(ours, atens, limit, reference.is_formula)
            if not comparison.passed and (exact := _in_double(reference, before, written)):
                better = _compared(ours, exact[index], limit, reference.is_formula)
                comparison = better if better.passed else comparison
            found = AtenRow(number, name, where, module, index, comparison)
            if number not in self.worst or _badness(found) > _badness(self.worst[number]):
                self.worst[number] = found

    def not_compared(self) -> dict[str, dict[str, int]]:
        counts = Counter(self._skipped.values())
        reasons = sorted({reason for reason, _ in counts})
        return {one: {name: n for (reason, name), n in sorted(counts.items()) if reason == one} for one in reasons}


def _in_double(reference: _Reference, before: list[Any], written: dict[int, Any]) -> list[Any]:
    """ATen's results from arguments in float64: near a pole, or where numbers cancel, its own rounding is larger."""

    def widened(value: Any) -> Any:
        if isinstance(value, list):
            return [widened(one) for one in value]
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    try:
        return reference.results([widened(one) for one in before], written)
    except _REFUSALS:
        return []


def _badness(row: AtenRow) -> tuple[bool, float]:
    return (not row.comparison.passed, row.comparison.relative_error)


def _compared(ours: Any, atens: Any, limit: Tolerance, is_formula: bool) -> Comparison:
    if isinstance(ours, torch.Tensor) and isinstance(atens, torch.Tensor):
        if ours.dtype != atens.dtype and (is_formula or torch.can_cast(atens.dtype, ours.dtype)):
            atens = atens.to(ours.dtype)  # as ATen's own out variants do
        if ours.is_complex() and atens.is_complex():
            ours, atens = torch.view_as_real(ours.resolve_conj()), torch.view_as_real(atens.resolve_conj())
    return compare(ours, atens, limit)


def _limit(reference: _Reference, ours: Any, before: Iterable[Any]) -> Tolerance:
    if not isinstance(ours, torch.Tensor):
        return Tolerance()
    if not (ours.dtype.is_floating_point or ours.is_complex()):
        return Tolerance(absolute=1.0 if reference.is_formula and ours.dtype != torch.bool else 0.0)
    dtype = ours.dtype.to_real()
    given = [one for one in _leaves(before) if isinstance(one, torch.Tensor) and one.is_floating_point()]
    largest = max((float(one.abs().nan_to_num(0, 0, 0).max()) for one in given if one.numel()), default=0.0)
    return Tolerance(_RELATIVE.get(dtype, 0.1), absolute=_ROUNDINGS * torch.finfo(dtype).eps * largest)


def _leaves(values: Iterable[Any]) -> list[Any]:
    return [leaf for one in values for leaf in (one if isinstance(one, (list, tuple)) else [one])]


@dataclass(frozen=True)
class _Reference:
    """How ATen computes what a kernel does.

    Attributes:
        names: Names of the kernel's arguments; those behind them are results.
        call: ATen's operator, or a formula.
        takes: Names that it takes; ``None``: by position.
        is_formula: It is written with ATen's operators, rather than one of them.
        is_random: It may draw random numbers.
    """

    names: tuple[str, ...]
    call: Callable[..., Any]
    takes: frozenset[str] | None
    is_formula: bool
    is_random: bool = False

    def draws(self, before: list[Any]) -> bool:
        """Whether a call draws random numbers: attention and recurrent layers do not without dropout or training."""
        given = dict(zip(self.names, before, strict=False))
        return self.is_random and all(given.get(name, True) for name in ("dropout", "dropout_p", "train"))

    def results(self, before: list[Any], written: dict[int, Any]) -> list[Any]:
        """ATen's results from copies of the arguments."""
        if self.takes is None:
            return [self.call(*before[: min(written)])]
        given = dict(zip(self.names, before, strict=False))
        given = {name: value for name, value in given.items() if name in self.takes}
        first = next(iter(_leaves(written.values())))
        if "dtype" in self.takes and "dtype" not in self.names and isinstance(first, torch.Tensor):
            given["dtype"] = first.dtype
        found = self.call(**given)
        return list(found) if isinstance(found, (tuple, list)) else [found]


@functools.cache
def _reference(kernel: str) -> _Reference | str:
    """ATen's counterpart of a kernel; why there is none."""
    if kernel in PRIMS:
        return _Reference((), PRIMS[kernel], None, True)
    rows = _rows().get(kernel, [])
    known = [found for row in rows if (found := _of_row(*row)) is not None]
    if known:  # several operators may call a kernel: the one that takes all of its arguments
        return max(known, key=lambda one: 0 if isinstance(one, str) else len({*one.names} & (one.takes or frozenset())))
    operator = None if rows else _operator(kernel)  # a kernel of the user's
    if operator is None:
        return "a delegate" if "::" not in kernel else "no operator of ATen"
    return _of_operator(_operator(kernel.partition(".")[0]) or operator, _argument_names(operator._schema))


def _of_row(name: str, schema: str, kernel_schema: str) -> _Reference | str | None:
    """The counterpart of an operator of the table; ``None`` where ATen and the formulas have none."""
    names = _argument_names(torch._C.parse_schema(kernel_schema))
    if name in FORMS:
        return _Reference(names, FORMS[name], frozenset(_argument_names(torch._C.parse_schema(schema))), True)
    operator = _operator(name)
    return None if operator is None else _of_operator(operator, names)


def _argument_names(schema: Any) -> tuple[str, ...]:
    return tuple(one.name for one in schema.arguments if not one.is_out)


def _of_operator(operator: Any, names: tuple[str, ...]) -> _Reference | str:
    if "empty" in operator._schema.name:
        return "memory as it is"
    takes = frozenset(_argument_names(operator._schema))
    return _Reference(names, operator, takes, False, torch.Tag.nondeterministic_seeded in operator.tags)


@functools.cache
def _rows() -> dict[str, list[tuple[str, str, str]]]:
    """Kernel -> (operator, its schema, the kernel's schema) of the rows of the table that have it."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name, kernel, schema, kernel_schema, *_ in _core.operator_table():
        found.setdefault(kernel or name, []).append((name, schema, kernel_schema or schema))
    return found


def _operator(name: str) -> Any:
    """Torch's operator of a name, "aten::add.Tensor"; ``None`` where torch has none."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return None if packet is None else getattr(packet, overload or "default", None)
