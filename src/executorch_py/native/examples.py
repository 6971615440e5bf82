"""What the methods of a program compute from example inputs, in the interpreter with the kernels of firmware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from executorch_py.element_types import ScalarType
from executorch_py.firmware.examples import made_up, raw_bytes
from executorch_py.method_metadata import MethodMetadata
from executorch_py.runtime import Program

from .plan import Plan
from .project import Example

__all__ = ["examples_of"]

#: How numbers that a method returns lie in memory.
_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64}


def examples_of(program: Program, plan: Plan, inputs: Sequence[Any] | None) -> list[Example]:
    """A call of each method; two where there is state, which the first leaves behind.

    Args:
        program: The program, whose state is as it begins.
        plan: The same.
        inputs: Those of ``forward``, or of the only method; the others' are made up.
    """
    methods = {name: program.load_method(name) for name in plan.methods}
    given = {}
    for name in methods:
        meta = program.metadata(name)
        takes = inputs is not None and (name == "forward" or len(methods) == 1)
        given[name] = list(inputs or []) if takes else [_made_up(methods[name], meta, i) for i in range(meta.num_inputs())]
    has_state = any(getattr(value, "name", "") for method in plan.methods.values() for value in method.values)
    return [
        _example(name, program.metadata(name), given[name], methods[name].execute(given[name]))
        for _ in range(2 if has_state else 1)
        for name in methods
    ]


def _made_up(method: Any, meta: MethodMetadata, i: int) -> Any:
    return made_up(meta.input_tensor_meta(i)) if meta.input_kind(i) == "Tensor" else method._core.input_value(i)


def _example(name: str, meta: MethodMetadata, inputs: Sequence[Any], outputs: Sequence[Any]) -> Example:
    given = [
        raw_bytes(value, meta.input_tensor_meta(i).dim_order()) if meta.input_kind(i) == "Tensor" else b""
        for i, value in enumerate(inputs)
    ]
    found: list[bytes | None] = []
    is_float = []
    for i, value in enumerate(outputs):
        is_tensor = meta.output_kind(i) == "Tensor"
        is_float.append(is_tensor and meta.output_tensor_meta(i).dtype() is ScalarType.Float)
        if is_tensor:
            found.append(raw_bytes(value, meta.output_tensor_meta(i).dim_order()))
        else:
            found.append(_NUMBERS[type(value)](value).tobytes() if type(value) in _NUMBERS else None)
    return Example(name, given, found, is_float)
