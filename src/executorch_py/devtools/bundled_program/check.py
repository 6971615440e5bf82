"""Runs the test cases of a bundled program, here.

Example:
    >>> report = run_test_cases(Path("model.bpte").read_bytes())  # doctest: +SKIP
    >>> report.passed  # doctest: +SKIP
    True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from executorch_py._shown import Card, Shown, counted
from executorch_py.devtools.bundled_program import schema
from executorch_py.devtools.bundled_program.serialize import deserialize_from_flatbuffer_to_bundled_program
from executorch_py.devtools.comparison import Comparison, Tolerance, compare
from executorch_py.errors import InvalidArgumentError
from executorch_py.graphs.dtypes import dtype_of
from executorch_py.runtime import Runtime

__all__ = ["CheckReport", "CheckedOutput", "run_test_cases"]


@dataclass(frozen=True)
class CheckedOutput:
    """One output of one test case."""

    method: str
    case: int
    output: int
    comparison: Comparison


@dataclass(repr=False)
class CheckReport(Shown):
    """What :func:`run_test_cases` found.

    Attributes:
        outputs: Every output that has an expected value.
        num_cases: How many cases ran.
    """

    outputs: list[CheckedOutput]
    num_cases: int

    @property
    def passed(self) -> bool:
        """Whether every output is as expected."""
        return all(one.comparison.passed for one in self.outputs)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        outputs = [
            {"method": one.method, "case": one.case, "output": one.output, **vars(one.comparison)}
            for one in self.outputs
        ]
        return {"cases": self.num_cases, "passed": self.passed, "outputs": outputs}

    def _card(self) -> Card:
        rows = [
            (
                one.method,
                str(one.case),
                str(one.output),
                _figures(one.comparison),
                "pass" if one.comparison.passed else "FAIL",
            )
            for one in self.outputs
        ]
        facts = [counted(self.num_cases, "test case"), "all pass" if self.passed else "not all pass"]
        return Card("bundled program", facts, ("method", "case", "output", "error", ""), rows)


def run_test_cases(data: bytes, tolerance: Tolerance | None = None) -> CheckReport:
    """Runs every test case of a ``.bpte`` and compares with what it expects.

    Args:
        data: The bytes of the file.
        tolerance: What passes; by dtype otherwise (1e-4 of the largest for float32, 0 for integers).

    Raises:
        InvalidProgramError: The bytes are no bundled program.
        InvalidArgumentError: A case has another number of outputs than its method gives, or a damaged tensor.
    """
    bundled = deserialize_from_flatbuffer_to_bundled_program(data)
    program = Runtime.get().load_program(bundled.program)
    found, cases = [], 0
    for suite in bundled.method_test_suites:
        method = program.load_method(suite.method_name, session=program.new_session())
        for index, case in enumerate(suite.test_cases):
            cases += 1
            if method.metadata.uses_state():
                method.reset_state()
            outputs = method.execute([value_of(one) for one in case.inputs])
            expected = [value_of(one) for one in case.expected_outputs]
            if expected and len(expected) != len(outputs):
                raise InvalidArgumentError(
                    f"test case {index} of method '{suite.method_name}' expects {len(expected)} outputs, there are "
                    f"{len(outputs)}"
                )
            for number, (wanted, got) in enumerate(zip(expected, outputs, strict=False)):
                found.append(CheckedOutput(suite.method_name, index, number, compare(got, wanted, tolerance)))
    return CheckReport(found, cases)


def value_of(value: schema.Value) -> Any:
    """The tensor, number or bool that stands in a file.

    Raises:
        InvalidArgumentError: A tensor's bytes, sizes and order of dimensions do not fit together.
    """
    one = value.val
    if isinstance(one, schema.Int):
        return one.int_val
    if isinstance(one, schema.Bool):
        return one.bool_val
    if isinstance(one, schema.Double):
        return one.double_val
    dtype, order = dtype_of(int(one.scalar_type)), list(one.dim_order)
    count = 1
    for size in one.sizes:
        count *= size
    if (
        sorted(order) != list(range(len(one.sizes)))
        or count * dtype.itemsize != len(one.data)
        or min(one.sizes, default=0) < 0
    ):
        raise InvalidArgumentError(
            f"a tensor of the bundled program has sizes {one.sizes}, order {order} and {len(one.data)} bytes, which do "
            "not fit"
        )
    flat = torch.frombuffer(bytearray(one.data), dtype=dtype) if count else torch.empty(0, dtype=dtype)
    return flat.reshape([one.sizes[i] for i in order]).permute([order.index(i) for i in range(len(order))])


def _figures(one: Comparison) -> str:
    return one.note or f"{one.max_error:.3g}"
