"""Bundled programs as bytes, in the published format (src/cpp/schema/bundled_program.fbs). Files go both ways.

Slots are the places of the fields there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from executorch_py.codegen.flatbuffer import Aligned, DamagedError, Numbers, Scalar, Table, encode, read_root
from executorch_py.devtools.bundled_program import schema
from executorch_py.errors import InvalidProgramError
from executorch_py.runtime import ScalarType

if TYPE_CHECKING:  # it needs torch; a file as plain data does not
    from executorch_py.devtools.bundled_program.core import BundledProgram

__all__ = ["deserialize_from_flatbuffer_to_bundled_program", "encoded", "serialize_from_bundled_program_to_flatbuffer"]

_IDENTIFIER = b"BP08"
#: Members of the union of values, in the order of the file.
_TENSOR, _INT, _BOOL, _DOUBLE = 1, 2, 3, 4


def serialize_from_bundled_program_to_flatbuffer(bundled_program: BundledProgram) -> bytes:
    """The bytes of a ``.bpte`` file."""
    return encoded(bundled_program.serialize_to_schema())


def encoded(bundle: schema.BundledProgram) -> bytes:
    """The bytes of a bundle that is plain data."""
    suites = [
        {
            0: suite.method_name,
            1: [
                {0: [_put(one) for one in case.inputs], 1: [_put(one) for one in case.expected_outputs]}
                for case in suite.test_cases
            ],
        }
        for suite in bundle.method_test_suites
    ]
    return encode(_IDENTIFIER, {0: Scalar("I", bundle.version), 1: suites, 2: Aligned(bundle.program, 32)})


def deserialize_from_flatbuffer_to_bundled_program(flatbuffer: bytes) -> schema.BundledProgram:
    """A bundled program as plain data.

    Raises:
        InvalidProgramError: The bytes are not a bundled program.
    """
    try:
        root = read_root(flatbuffer, _IDENTIFIER)
        suites = [
            schema.BundledMethodTestSuite(
                suite.text(0),
                [
                    schema.BundledMethodTestCase(
                        [_get(one) for one in case.tables(0)], [_get(one) for one in case.tables(1)]
                    )
                    for case in suite.tables(1)
                ],
            )
            for suite in root.tables(1)
        ]
        return schema.BundledProgram(root.scalar(0, "I"), suites, root.raw(2))
    except DamagedError as error:
        hint = "; it is a program without test cases" if bytes(flatbuffer[4:8]) == b"ET12" else ""
        raise InvalidProgramError(
            f"the bytes are no bundled program: {error}{hint}. "
            "Write one with serialize_from_bundled_program_to_flatbuffer, or with `etpy bundle`"
        ) from None


def _put(value: schema.Value) -> dict[int, Any]:
    one = value.val
    if isinstance(one, schema.Tensor):
        fields = {
            0: Scalar("b", int(one.scalar_type)),
            1: Numbers("i", one.sizes),
            2: Aligned(one.data, 16),
            3: Aligned(bytes(one.dim_order)),
        }
        return {0: Scalar("B", _TENSOR), 1: fields}
    if isinstance(one, schema.Int):
        return {0: Scalar("B", _INT), 1: {0: Scalar("q", one.int_val)}}
    if isinstance(one, schema.Bool):
        return {0: Scalar("B", _BOOL), 1: {0: Scalar("?", one.bool_val)}}
    return {0: Scalar("B", _DOUBLE), 1: {0: Scalar("d", one.double_val)}}


def _get(value: Table) -> schema.Value:
    kind, one = value.scalar(0, "B"), value.table(1)
    if one is None or kind not in (_TENSOR, _INT, _BOOL, _DOUBLE):
        raise DamagedError(f"a value of kind {kind}, which is none")
    if kind == _INT:
        return schema.Value(schema.Int(one.scalar(0, "q")))
    if kind == _BOOL:
        return schema.Value(schema.Bool(one.scalar(0, "?")))
    if kind == _DOUBLE:
        return schema.Value(schema.Double(one.scalar(0, "d")))
    code = one.scalar(0, "b")
    if code not in ScalarType._value2member_map_:
        raise DamagedError(f"a tensor of the element type {code}, which is none")
    return schema.Value(schema.Tensor(ScalarType(code), one.numbers(1), one.raw(2), list(one.raw(3))))
