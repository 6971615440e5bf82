"""Values of an ETDump: tensors out of the debug buffer, and how far two lists of values are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from executorch_py.devtools.comparison import compare
from executorch_py.devtools.etdump import schema_flatcc as schema
from executorch_py.errors import InvalidArgumentError, InvalidProgramError, NotSupportedError
from executorch_py.graphs.dtypes import dtype_of

__all__ = ["compare_results", "inflate"]


def inflate(value: schema.Value, buffer: bytes | None) -> Any:
    """The value that an event recorded; ``None`` for a tensor without a debug buffer.

    Raises:
        InvalidProgramError: The tensor does not lie in the buffer.
    """
    if value.val == "Tensor" and value.tensor is not None:
        return _tensor(value.tensor, buffer)
    if value.val == "TensorList" and value.tensor_list is not None:
        return [_tensor(one, buffer) for one in value.tensor_list.tensors]
    if value.val == "Int" and value.int_value is not None:
        return value.int_value.int_val
    if value.val == "Bool" and value.bool_value is not None:
        return value.bool_value.bool_val
    if value.val == "Float" and value.float_value is not None:
        return value.float_value.float_val
    if value.val == "Double" and value.double_value is not None:
        return value.double_value.double_val
    return None


def _tensor(tensor: schema.Tensor, buffer: bytes | None) -> torch.Tensor | None:
    if buffer is None:
        return None
    dtype = dtype_of(int(tensor.scalar_type))
    last = sum((size - 1) * stride for size, stride in zip(tensor.sizes, tensor.strides, strict=False))
    start, is_empty = tensor.offset or 0, math.prod(tensor.sizes) == 0
    end = start + (0 if is_empty else (last + 1) * dtype.itemsize)
    if (
        len(tensor.sizes) != len(tensor.strides)
        or min(*tensor.sizes, *tensor.strides, start, 0) < 0
        or end > len(buffer)
        or math.prod(filter(None, tensor.sizes)) >= 1 << 62  # of no elements, and PyTorch counts the others
    ):
        raise InvalidProgramError(
            f"a tensor of the ETDump has shape {tuple(tensor.sizes)} at byte {start} of the debug buffer, which has "
            f"{len(buffer)}; give the debug buffer that was written with this ETDump"
        )
    if is_empty:
        return torch.empty(tensor.sizes, dtype=dtype)
    flat = torch.frombuffer(bytearray(buffer[start:end]), dtype=dtype)
    return flat.as_strided(tensor.sizes, tensor.strides)


def compare_results(
    reference_output: Sequence[Any], run_output: Sequence[Any], metrics: list[str] | None = None, plot: bool = False
) -> dict[str, list[float]]:
    """How far the outputs of a run are from reference outputs, output by output.

    Args:
        reference_output: What is expected.
        run_output: What the program gave.
        metrics: Of ``snr`` (dB), ``mse`` and ``cosine``; ``None``: all.
        plot: Refused; ``Inspector.to_html`` draws.

    Raises:
        InvalidArgumentError: The numbers of outputs differ, or a metric is unknown.
    """
    if plot:
        raise NotSupportedError("compare_results draws nothing; Inspector.to_html(path) writes a page with pictures")
    if len(reference_output) != len(run_output):
        raise InvalidArgumentError(f"there are {len(run_output)} outputs, expected {len(reference_output)}")
    known = ("snr", "mse", "cosine")
    wanted = [name.lower() for name in metrics or known]
    if unknown := sorted(set(wanted) - set(known)):
        raise InvalidArgumentError(f"unknown metrics {', '.join(unknown)}; there are {', '.join(known)}")
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for expected, actual in zip(reference_output, run_output, strict=True):
        comparison = compare(actual, expected)
        values = {"snr": comparison.sqnr_db, "mse": _mean_squared(actual, expected), "cosine": comparison.cosine}
        for name in wanted:
            found[name].append(values[name])
    return found


def _mean_squared(actual: Any, expected: Any) -> float:
    first, second = torch.as_tensor(actual).double(), torch.as_tensor(expected).double()
    return float((first - second).square().mean()) if first.shape == second.shape else math.inf
