"""DelegationReport: a table of operators and where they go. Works where torch is not installed (``etpy inspect``).

delegation_report.py makes it from Edge programs; ``print`` it:

method forward: 5 of 6 operators are delegated, in 2 parts
  VendorBackend: 5 operators in 2 parts
  not delegated: 1 operator: the vendor has no such operator, or the delegate's format cannot say it

method forward
  operator                        source       module  goes to
  aten.convolution.default        model.py:12  conv    VendorBackend, part 0
  aten.native_layer_norm.default  model.py:15  norm    the runtime's kernels: the vendor has no such operator, …
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from executorch_py._shown import Told, counted
from executorch_py.errors import InvalidProgramError
from executorch_py.text_table import aligned

#: Name of the report in a program's named data; ``ExecutorchBackendConfig(debug_info=False)`` leaves it out.
KEY = "executorch_py.delegation"

_LARGEST = 64 << 20  # bytes of a report


@dataclass(frozen=True)
class DelegatedOperator:
    """One operator of an Edge program.

    Attributes:
        name: Name of the fx node.
        op: "aten.convolution.default".
        source: "model.py:12", empty when it is not known.
        module_path: Path of the module that it comes from.
        backend: Id of the backend that takes it; empty = the runtime's kernels do.
        part: Number of its part in the method; -1 when it is not delegated.
        refusals: Backend id -> why that backend did not take it; of the one that took it what its part costs, where
            costs decided.
    """

    name: str
    op: str
    source: str
    module_path: str
    backend: str = ""
    part: int = -1
    refusals: dict[str, str] = field(default_factory=dict)

    @property
    def is_compile_time(self) -> bool:
        """Nothing of it is left at run time; a backend's refusal begins with "compile time" then."""
        return not self.backend and any(reason.startswith("compile time") for reason in self.refusals.values())

    @property
    def costs(self) -> str:
        """What its part costs in the backend that took it, and in the kernels; empty where costs did not decide."""
        return self.refusals.get(self.backend, "")

    @property
    def reason(self) -> str:
        """Why it is not delegated, in one line; empty when it is."""
        if self.backend:
            return ""
        if not self.refusals:
            return "no partitioner looked at it"
        if len(self.refusals) == 1:
            return next(iter(self.refusals.values()))
        return "; ".join(f"{backend}: {reason}" for backend, reason in sorted(self.refusals.items()))


@dataclass(frozen=True, repr=False)
class DelegationReport(Told):
    """What ``delegation_report`` found: method -> its operators in order. ``print`` it, or read the rows."""

    methods: dict[str, list[DelegatedOperator]]

    def delegated(self, method: str = "forward") -> list[DelegatedOperator]:
        """The operators that backends take."""
        return [row for row in self.methods[method] if row.backend]

    def refused(self, method: str = "forward") -> list[DelegatedOperator]:
        """The operators that stay with the runtime's kernels."""
        return [row for row in self.methods[method] if not row.backend and not row.is_compile_time]

    def summary(self) -> str:
        """A few lines a method: how much goes where, and the reasons for the rest."""
        return "\n".join(line for method in self.methods for line in self._summary(method))

    def table(self, only_refused: bool = False) -> str:
        """All operators in order (or only those that no backend took), a line each; methods without any are left
        out.
        """
        blocks = []
        for method in self.methods:
            rows = self.refused(method) if only_refused else self.methods[method]
            if not rows:
                continue
            lines: list[tuple[str, ...]] = [(row.op, row.source, row.module_path, _destination(row)) for row in rows]
            blocks.append("\n".join([f"method {method}", *aligned(("operator", "source", "module", "goes to"), lines)]))
        return "\n\n".join(blocks)

    def __str__(self) -> str:
        return f"{self.summary()}\n\n{self.table()}"

    def to_bytes(self) -> bytes:
        """The report as it stands in a program (named data ``KEY``): compressed JSON, by column; see ``_packed``."""
        packed = {method: _packed(rows) for method, rows in self.methods.items()}
        return zlib.compress(json.dumps(packed, separators=(",", ":")).encode(), 9)

    @staticmethod
    def from_bytes(data: bytes) -> DelegationReport:
        """The report that ``to_bytes`` wrote, of this version or one before it (a list a row).

        Raises:
            InvalidProgramError: The bytes are something else.
        """
        try:
            # A file may come from anybody: a few bytes must not become gigabytes.
            text = zlib.decompressobj().decompress(data, _LARGEST)
            methods = json.loads(text).items()
            return DelegationReport(
                {
                    name: _unpacked(found) if isinstance(found, dict) else [DelegatedOperator(*row) for row in found]
                    for name, found in methods
                }
            )
        except (zlib.error, ValueError, TypeError, LookupError, AttributeError) as error:
            raise InvalidProgramError(f"the program's delegation report is damaged: {error}") from None

    def _summary(self, method: str) -> Iterator[str]:
        rows = [row for row in self.methods[method] if not row.is_compile_time]
        taken = self.delegated(method)
        parts = len({(row.backend, row.part) for row in taken})
        yield f"method {method}: {len(taken)} of {len(rows)} operators are delegated, in {counted(parts, 'part')}"
        for backend, count in sorted(Counter(row.backend for row in taken).items()):
            own = len({row.part for row in taken if row.backend == backend})
            yield f"  {backend}: {counted(count, 'operator')} in {counted(own, 'part')}"
            costs = {row.part: row.costs for row in taken if row.backend == backend and row.costs}
            yield from (f"    part {part}: {text}" for part, text in sorted(costs.items()))
        for reason, count in Counter(row.reason for row in self.refused(method)).most_common():
            yield f"  not delegated: {counted(count, 'operator')}: {reason}"


#: "linear_12" is "linear" and 12; other names have the number -1.
_NUMBERED = re.compile(r"(.+)_(0|[1-9]\d{0,8})", re.DOTALL)


def _packed(rows: list[DelegatedOperator]) -> dict[str, list]:
    """Columns instead of rows, each as its different values and their positions.

    Names are different in all rows. Without their numbers they are not, and the numbers count up. So what is kept of
    each is how far it is from the one after the last of its kind. A recurrent layer's steps have thousands of rows.
    """
    columns: list[list[Any]] = [list(column) for column in zip(*(asdict(row).values() for row in rows))]
    steps: list[int] = []
    if columns:
        last: dict[str, int] = {}
        for at, name in enumerate(columns[0]):
            match = _NUMBERED.fullmatch(name)
            kind, number = (match[1], int(match[2])) if match else (name, -1)
            steps.append(number - last.get(kind, -2) - 1)
            last[kind] = number
            columns[0][at] = kind
    values, positions = [], []
    for column in columns:
        known: dict[str, int] = {}
        positions.append([known.setdefault(json.dumps(value), len(known)) for value in column])
        values.append([json.loads(value) for value in known])
    return {"steps": steps, "values": values, "positions": positions}


def _unpacked(packed: dict[str, list]) -> list[DelegatedOperator]:
    columns = [
        [values[at] for at in positions]
        for values, positions in zip(packed["values"], packed["positions"], strict=True)
    ]
    last: dict[str, int] = {}
    rows = []
    for step, kind, *rest in zip(packed["steps"], *columns, strict=True):
        last[kind] = last.get(kind, -2) + 1 + step
        rows.append(DelegatedOperator(kind if last[kind] < 0 else f"{kind}_{last[kind]}", *rest))
    return rows


def _destination(row: DelegatedOperator) -> str:
    if row.backend:
        return f"{row.backend}, part {row.part}"
    return row.reason if row.is_compile_time else f"the runtime's kernels: {row.reason}"
