"""A bundled program as plain data, table by table: the published classes of src/cpp/schema/bundled_program.fbs."""

from __future__ import annotations

from dataclasses import dataclass

from executorch_py.runtime import ScalarType

__all__ = [
    "Bool",
    "BundledMethodTestCase",
    "BundledMethodTestSuite",
    "BundledProgram",
    "Double",
    "Int",
    "Tensor",
    "Value",
    "ValueUnion",
]


@dataclass
class Tensor:
    """A tensor: its elements lie dense in ``data``, in the order of ``dim_order``."""

    scalar_type: ScalarType
    sizes: list[int]
    data: bytes
    dim_order: list[int]


@dataclass
class Int:
    """A whole number."""

    int_val: int


@dataclass
class Bool:
    """A truth value."""

    bool_val: bool


@dataclass
class Double:
    """A number."""

    double_val: float


ValueUnion = Tensor | Int | Bool | Double


@dataclass
class Value:
    """An input or an expected output."""

    val: ValueUnion


@dataclass
class BundledMethodTestCase:
    """One call of a method; without expected outputs it is for profiling only."""

    inputs: list[Value]
    expected_outputs: list[Value]


@dataclass
class BundledMethodTestSuite:
    """The test cases of a method."""

    method_name: str
    test_cases: list[BundledMethodTestCase]


@dataclass
class BundledProgram:
    """A program, the bytes of its ``.pte``, with the test cases of its methods."""

    version: int
    method_test_suites: list[BundledMethodTestSuite]
    program: bytes

    def __repr__(self) -> str:
        suites = ", ".join(f"{one.method_name}: {len(one.test_cases)} test cases" for one in self.method_test_suites)
        return f"BundledProgram({suites}; a program of {len(self.program):,} bytes)"
