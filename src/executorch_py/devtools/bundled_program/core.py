"""BundledProgram: a program and the test cases for it, checked against each other.

Example:
    >>> suite = MethodTestSuite("forward", [MethodTestCase(inputs, model(*inputs))])  # doctest: +SKIP
    >>> bundle = BundledProgram(program, [suite])  # doctest: +SKIP
    >>> Path("model.bpte").write_bytes(serialize_from_bundled_program_to_flatbuffer(bundle))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from executorch_py._shown import Told, counted
from executorch_py.devtools.bundled_program import schema
from executorch_py.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch_py.element_types import torch_name
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from executorch_py.graphs.dtypes import dtype_code
from executorch_py.runtime import MethodMetadata, Runtime, ScalarType

__all__ = ["BUNDLED_PROGRAM_SCHEMA_VERSION", "BundledProgram"]

#: What the published package writes into the files of this layout.
BUNDLED_PROGRAM_SCHEMA_VERSION = 2


class BundledProgram(Told):
    """A program with test cases for its methods.

    Attributes:
        executorch_program: What ``to_executorch`` returned; ``None`` when the program came from a file.
        method_test_suites: The test cases, method by method.
    """

    def __init__(
        self,
        executorch_program: Any | None,
        method_test_suites: Sequence[MethodTestSuite],
        pte_file_path: str | None = None,
    ) -> None:
        """Bundles test cases with a program.

        Args:
            executorch_program: What ``to_executorch`` returned.
            method_test_suites: The test cases.
            pte_file_path: The ``.pte`` file, when ``executorch_program`` is ``None``.

        Raises:
            InvalidArgumentError: Both programs are given, or none; or a case does not fit its method: says which.
            NotFoundError: The program has no method of a suite's name.
        """
        if (executorch_program is None) == (pte_file_path is None):
            raise InvalidArgumentError("give executorch_program or pte_file_path, one of them")
        self.executorch_program = executorch_program
        self.method_test_suites = list(method_test_suites)
        self._buffer: bytes | None = None
        self._pte_file_path = pte_file_path
        program = Runtime.get().load_program(self._program_bytes())
        for suite in self.method_test_suites:
            if suite.method_name not in program.method_names:
                known = ", ".join(sorted(program.method_names))
                raise NotFoundError(f"the program has no method '{suite.method_name}' to test; it has {known}")
            metadata = program.metadata(suite.method_name)
            for index, case in enumerate(suite.test_cases):
                _require_fit(f"test case {index} of method '{suite.method_name}'", case, metadata)

    def _program_bytes(self) -> bytes:
        if self._buffer is None:
            program, path = self.executorch_program, self._pte_file_path
            self._buffer = bytes(program.buffer) if program is not None else Path(path or "").read_bytes()
        return self._buffer

    def serialize_to_schema(self) -> schema.BundledProgram:
        """The bundle as plain data, as it stands in the file."""
        suites = [
            schema.BundledMethodTestSuite(
                suite.method_name,
                [
                    schema.BundledMethodTestCase(
                        [_value(one) for one in case.inputs], [_value(one) for one in case.expected_outputs]
                    )
                    for case in suite.test_cases
                ],
            )
            for suite in self.method_test_suites
        ]
        return schema.BundledProgram(BUNDLED_PROGRAM_SCHEMA_VERSION, suites, self._program_bytes())

    def __repr__(self) -> str:
        suites = ", ".join(
            f"{one.method_name}: {counted(len(one.test_cases), 'test case')}" for one in self.method_test_suites
        )
        return f"BundledProgram({suites}; a program of {len(self._program_bytes()):,} bytes)"


def _require_fit(where: str, case: MethodTestCase, metadata: MethodMetadata) -> None:
    """Whether the method takes these inputs and gives such outputs."""
    for kind, values, count in (
        ("input", case.inputs, metadata.num_inputs()),
        ("expected output", case.expected_outputs, metadata.num_outputs()),
    ):
        outputs = kind != "input"
        if len(values) != count and not (outputs and not values):
            raise InvalidArgumentError(f"{where} has {len(values)} {kind}s, the method has {count}")
        for index, value in enumerate(values):
            known = metadata.output_kind(index) if outputs else metadata.input_kind(index)
            place = f"{kind} {index} of {where}"
            if (known == "Tensor") != isinstance(value, torch.Tensor):
                raise InvalidTypeError(f"{place} is a {type(value).__name__}, the method has a {known} there")
            if known != "Tensor":
                continue
            info = metadata.output_tensor_meta(index) if outputs else metadata.input_tensor_meta(index)
            if dtype_code(value.dtype) != info.dtype():
                wanted = f"torch.{torch_name(info.dtype())}"
                raise InvalidTypeError(f"{place} has dtype {value.dtype}, the method has {wanted} there")
            bounds = info.bounds()
            if len(bounds) != value.dim() or any(
                not low <= size <= high for size, (low, high) in zip(value.shape, bounds, strict=False)
            ):
                takes = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in bounds)
                raise InvalidArgumentError(f"{place} has shape {tuple(value.shape)}, the method has ({takes}) there")


def _value(value: Any) -> schema.Value:
    if isinstance(value, bool):
        return schema.Value(schema.Bool(value))
    if isinstance(value, int):
        return schema.Value(schema.Int(value))
    if isinstance(value, float):
        return schema.Value(schema.Double(value))
    return schema.Value(_tensor(value))


def _tensor(value: torch.Tensor) -> schema.Tensor:
    """A tensor's elements in its own order of dimensions, or row by row when they do not lie dense."""
    value = value.detach().cpu()
    order = list(value.dim_order()) if _is_dense(value) else list(range(value.dim()))
    dense = value.permute(order).contiguous()
    data = dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""
    code = dtype_code(value.dtype)
    if code is None:
        raise InvalidArgumentError(f"a tensor of {value.dtype} is in a test case, which the format has no dtype for")
    return schema.Tensor(ScalarType(code), list(value.shape), data, order)


def _is_dense(value: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps or overlap, in some order of the dimensions."""
    expected = 1
    for stride, size in sorted(
        (stride, size) for stride, size in zip(value.stride(), value.shape, strict=True) if size != 1
    ):
        if stride != expected:
            return False
        expected *= size
    return True
