"""What the methods of a program compute from example inputs, in the interpreter with the kernels of firmware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from executorch_py.element_types import ScalarType
from executorch_py.firmware.examples import made_up, raw_bytes
from executorch_py.method_metadata import MethodMetadata, TensorInfo
from executorch_py.runtime import Program

from .plan import Method, Plan
from .project import Example

__all__ = ["examples_of", "inputs_of", "value_bytes"]

#: How numbers lie in memory.
_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64}


def inputs_of(program: Program, plan: Plan, inputs: Sequence[Any] | None) -> dict[str, list[Any]]:
    """Inputs of each method: those given are of ``forward``, or of the only method; others are made up."""
    given = {}
    for name in plan.methods:
        meta, method = program.metadata(name), program.load_method(name)
        takes = inputs is not None and (name == "forward" or len(plan.methods) == 1)
        made = [_made_up(method, meta, i) for i in range(0 if takes else meta.num_inputs())]
        given[name] = list(inputs or ()) if takes else made
    return given


def examples_of(program: Program, plan: Plan, inputs: Mapping[str, Sequence[Any]]) -> list[Example]:
    """A call of each method, ``forward`` first, and of dynamic ones another; two where there is state, which the first
    leaves behind.
    """
    names = sorted(plan.methods, key=lambda name: name != "forward")
    methods = {name: program.load_method(name) for name in names}
    has_state = any(getattr(value, "name", "") for method in plan.methods.values() for value in method.values)
    # First the largest sizes: what kernels take then is what they are given.
    dynamic = [name for name in names if plan.methods[name].is_dynamic]
    largest = inputs_of(program, plan, None) if dynamic else {}
    calls: list[tuple[str, Sequence[Any]]] = [(name, largest[name]) for name in dynamic]
    calls += [(name, inputs[name]) for _ in range(2 if has_state else 1) for name in names]
    return [_example(plan.methods[name], program.metadata(name), given, methods[name].execute(list(given)))
            for name, given in calls]  # fmt: skip


def _made_up(method: Any, meta: MethodMetadata, i: int) -> Any:
    return made_up(meta.input_tensor_meta(i)) if meta.input_kind(i) == "Tensor" else method._core.input_value(i)


def _example(method: Method, meta: MethodMetadata, inputs: Sequence[Any], outputs: Sequence[Any]) -> Example:
    infos = [meta.input_tensor_meta(i) if meta.input_kind(i) == "Tensor" else None for i in range(len(inputs))]
    given = [value_bytes(value, info) or b"" for value, info in zip(inputs, infos, strict=True)]
    results = [meta.output_tensor_meta(i) if meta.output_kind(i) == "Tensor" else None for i in range(len(outputs))]
    found = [value_bytes(value, info) for value, info in zip(outputs, results, strict=True)]
    sizes = [
        tuple(value.shape) if info is not None else None
        for value, info in zip((*inputs, *outputs), (*infos, *results), strict=True)
    ]
    is_float = [info is not None and info.dtype() is ScalarType.Float for info in results]
    return Example(method.name, given, found, is_float, sizes if method.is_dynamic else ())


def value_bytes(value: Any, info: TensorInfo | None) -> bytes | None:
    """A tensor or a number as it lies in memory of generated code; None for None and texts."""
    if info is not None:
        return raw_bytes(value, info.dim_order())
    return _NUMBERS[type(value)](value).tobytes() if type(value) in _NUMBERS else None
