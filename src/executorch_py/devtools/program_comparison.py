"""``compare(a, b)``: two programs beside each other, in sizes, operators, times and numbers.

Example:
    >>> print(compare("float.pte", "int8.pte", inputs))  # doctest: +SKIP
    compare: float.pte, int8.pte
      size            a        b        b / a
      file            13.5 MiB 3.6 MiB  0.27
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from executorch_py._shown import Card, Shown, counted, nbytes_text
from executorch_py.codegen.flatbuffer import DamagedError
from executorch_py.codegen.pte_operators import instructions_of
from executorch_py.devtools.comparison import Comparison, Tolerance
from executorch_py.devtools.comparison import compare as compare_outputs
from executorch_py.devtools.inspector.events import PerfData
from executorch_py.devtools.validate import as_module
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from executorch_py.runtime import Method

__all__ = ["OperatorCount", "ProgramComparison", "SizePair", "compare"]


#: Memory of a loaded method beside its arenas, which methods of one program share in part.
_OTHER = "other memory"


@dataclass(frozen=True)
class SizePair:
    """A figure of both programs, in bytes or as a count."""

    name: str
    a: int
    b: int


@dataclass(frozen=True)
class OperatorCount:
    """How often a kernel, or a delegate of a backend, is called."""

    name: str
    a: int
    b: int


@dataclass(repr=False)
class ProgramComparison(Shown):
    """What :func:`compare` found.

    Attributes:
        names: What the two are called.
        method: Name of the method.
        sizes: Bytes of the file, of planned and other memory; instructions.
        operators: Kernels and delegates, those whose counts differ first.
        times: Seconds of each run, of both, taken in turns; empty without inputs.
        outputs: Output by output, ``b`` beside ``a``; empty without inputs.
    """

    names: tuple[str, str]
    method: str
    sizes: list[SizePair]
    operators: list[OperatorCount]
    times: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    outputs: list[Comparison] = field(default_factory=list)

    @property
    def speedup(self) -> float | None:
        """Median time of ``a`` over that of ``b``: above 1 ``b`` is faster. ``None`` without inputs."""
        return statistics.median(self.times[0]) / statistics.median(self.times[1]) if self.times[0] else None

    @property
    def is_equal(self) -> bool:
        """Whether sizes, operators and numbers are the same. Times and other memory may differ."""
        sizes = all(one.a == one.b for one in self.sizes if one.name != _OTHER)
        return (
            sizes
            and all(one.a == one.b for one in self.operators)
            and all(one.max_error == 0.0 for one in self.outputs)
        )

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "names": list(self.names),
            "method": self.method,
            "sizes": {one.name: [one.a, one.b] for one in self.sizes},
            "operators": {one.name: [one.a, one.b] for one in self.operators},
            "times": {"a": self.times[0], "b": self.times[1], "speedup": self.speedup},
            "outputs": [vars(one) for one in self.outputs],
        }

    def _card(self) -> Card:
        rows = [(one.name, _size_text(one, one.a), _size_text(one, one.b), _ratio(one.a, one.b)) for one in self.sizes]
        if self.times[0]:
            for name, share in (("median", 50), ("90th percentile", 90)):
                first, second = (PerfData(times).percentile(share) for times in self.times)
                rows.append(
                    (f"time, {name}", f"{first * 1e3:.4g} ms", f"{second * 1e3:.4g} ms", f"{second / first:.2f}")
                )
        for index, one in enumerate(self.outputs):
            figures = one.note or f"SQNR {one.sqnr_db:.1f} dB, max error {one.max_error:.3g}"
            rows.append((f"output {index}", "", figures, "equal" if one.max_error == 0.0 else ""))
        rows += [
            (one.name, str(one.a), str(one.b), "" if one.a == one.b else f"{one.b - one.a:+d}")
            for one in self.operators
        ]
        facts = [f"a is {self.names[0]}", f"b is {self.names[1]}", f"method {self.method}"]
        return Card("compare", facts, ("", "a", "b", "b / a"), rows)


def compare(
    a: Any,
    b: Any,
    inputs: Sequence[Any] | None = None,
    *,
    method: str = "forward",
    runs: int = 20,
    tolerance: Tolerance | None = None,
) -> ProgramComparison:
    """Compares two programs: sizes and operators, and with inputs times and numbers.

    Args:
        a: What ``to_executorch`` returned, the bytes or path of a ``.pte``, a Program or a Module.
        b: The other one.
        inputs: Positional arguments of one call, as ``Method.execute`` takes them.
        method: Name of the method, which both have.
        runs: How often each runs; they take turns, so that both see the same machine.
        tolerance: What ``passed`` of the outputs means.

    Raises:
        NotFoundError: One of the two has no such method.
        InvalidArgumentError: ``runs`` is below 1, the numbers of outputs differ, or one does not take the inputs.
        InvalidTypeError: One does not take the inputs; says which.
    """
    if runs < 1:
        raise InvalidArgumentError(f"runs is {runs}, must be at least 1")
    programs = [as_module(one).program for one in (a, b)]
    for name, program in zip("ab", programs, strict=True):
        if method not in program.method_names:
            raise NotFoundError(f"{name} has no method '{method}'; it has {', '.join(sorted(program.method_names))}")
    files = [_bytes_of(one) for one in (a, b)]
    methods = [program.load_method(method) for program in programs]
    found = ProgramComparison(
        (_name_of(a), _name_of(b)), method, _sizes(files, methods), _operators(files, methods, method)
    )
    if inputs is not None:
        found.times, outputs = _run(found.names, methods, list(inputs), runs)
        if len(outputs[0]) != len(outputs[1]):
            raise InvalidArgumentError(f"a has {counted(len(outputs[0]), 'output')}, b has {len(outputs[1])}")
        found.outputs = [
            compare_outputs(other, one, tolerance or Tolerance()) for one, other in zip(*outputs, strict=True)
        ]
    return found


def _bytes_of(program: Any) -> bytes | None:
    """The bytes of the file, where they are to be had."""
    if isinstance(program, (bytes, bytearray, memoryview)):
        return bytes(program)
    if isinstance(program, (str, os.PathLike)):
        with open(program, "rb") as file:
            return file.read()
    return getattr(program, "buffer", None)


def _name_of(program: Any) -> str:
    return os.fspath(program) if isinstance(program, (str, os.PathLike)) else type(program).__name__


def _sizes(files: list[bytes | None], methods: list[Method]) -> list[SizePair]:
    usage = [one.memory_usage() for one in methods]
    pairs = [
        SizePair("planned memory", *(one["planned"] for one in usage)),
        SizePair(_OTHER, *(one["other"] for one in usage)),
        SizePair("instructions", *(one.metadata.num_instructions() for one in methods)),
    ]
    if files[0] is not None and files[1] is not None:
        pairs.insert(0, SizePair("file", len(files[0]), len(files[1])))
    return pairs


def _operators(files: list[bytes | None], methods: list[Method], method: str) -> list[OperatorCount]:
    counts = []
    for data, one in zip(files, methods, strict=True):
        delegates = Counter(f"delegate of {name}" for name in one.metadata.backends())
        counts.append(_kernels(data, one, method) + delegates)
    names = sorted({*counts[0], *counts[1]}, key=lambda name: (counts[0][name] == counts[1][name], name))
    return [OperatorCount(name, counts[0][name], counts[1][name]) for name in names]


def _kernels(data: bytes | None, method: Method, name: str) -> Counter[str]:
    """How often each kernel is called; once each where the file's bytes are not to be had."""
    if data is not None:
        try:
            return Counter(kernel for kernel in instructions_of(data)[name] if kernel)
        except (DamagedError, KeyError):  # a file with another head: the names are known all the same
            pass
    return Counter(method.metadata.operators())


def _run(
    names: Sequence[str], methods: list[Method], inputs: list[Any], runs: int
) -> tuple[tuple[list[float], list[float]], list[list[Any]]]:
    outputs = []
    for name, method in zip(names, methods, strict=True):  # the first run warms up, and gives the numbers
        if method.metadata.uses_state():
            method.reset_state()
        try:
            outputs.append(method.execute(inputs))
        except (InvalidArgumentError, InvalidTypeError) as error:
            raise type(error)(f"{name}: {error}; two programs are compared on the same inputs") from None
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for method, taken in zip(methods, times, strict=True):
            start = time.perf_counter()
            method.execute(inputs)
            taken.append(time.perf_counter() - start)
    return times, outputs


def _size_text(pair: SizePair, value: int) -> str:
    return str(value) if pair.name == "instructions" else nbytes_text(value)


def _ratio(a: int, b: int) -> str:
    return f"{b / a:.2f}" if a else ("" if not b else "new")
