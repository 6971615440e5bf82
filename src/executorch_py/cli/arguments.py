"""What commands take that run a program: its inputs, from files or made, and numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from executorch_py.element_types import torch_name
from executorch_py.errors import InvalidArgumentError
from executorch_py.runtime import Method, ScalarType, TensorInfo

__all__ = ["add_inputs", "inputs_of", "positive"]


def _numpy_dtype(dtype: ScalarType) -> np.dtype[Any]:
    if dtype is ScalarType.BFloat16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(torch_name(dtype))


def _random_input(info: TensorInfo, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values that any model takes: standard normal numbers, zeros for integers (an index is always in range)."""
    dtype = _numpy_dtype(info.dtype())
    if dtype.kind in "iub":
        return np.zeros(info.sizes(), dtype)
    return random.standard_normal(info.sizes()).astype(dtype)


def _input_of(text: str, info: TensorInfo | None) -> Any:
    """The array in a file, or the value (``info`` is ``None``) that JSON says."""
    try:
        if info is None:
            return json.loads(text)
        with open(text, "rb") as file:
            array = np.lib.format.read_array(file)
    except ValueError as error:
        what = "is no value in JSON" if info is None else "cannot be read as a .npy file"
        raise InvalidArgumentError(f"--input {text} {what}: {error}") from None
    # numpy stores the dtypes of extension packages as bytes without a meaning.
    is_bfloat16 = info is not None and info.dtype() is ScalarType.BFloat16 and array.dtype.str == "|V2"
    return array.view(_numpy_dtype(ScalarType.BFloat16)) if is_bfloat16 else array


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def inputs_of(method: Method, paths: Sequence[str]) -> list[Any]:
    """The inputs of a run: from files, in order; what is left is generated, or as it was at export."""
    metadata = method.metadata
    if len(paths) > metadata.num_inputs():
        raise InvalidArgumentError(
            f"{len(paths)} inputs were given, method '{metadata.name()}' takes {metadata.num_inputs()}"
        )
    random = np.random.default_rng(0)
    inputs: list[Any] = []
    for index in range(metadata.num_inputs()):
        kind = metadata.input_kind(index)
        if index < len(paths):
            info = metadata.input_tensor_meta(index) if kind == "Tensor" else None
            inputs.append(_input_of(paths[index], info))
        elif kind == "Tensor":
            inputs.append(_random_input(metadata.input_tensor_meta(index), random))
        else:
            inputs.append(method._core.input_value(index))
    return inputs


def add_inputs(parser: argparse.ArgumentParser, program: str = "a .pte file") -> None:
    """The options that say what runs, on what; ``program`` tells of the first."""
    parser.add_argument("program", help=program)
    parser.add_argument("--method", default="forward")
    parser.add_argument(
        "--input", action="append", default=[], help=".npy file (a number: JSON); in order, rest generated"
    )
    parser.add_argument("--data", action="append", help=".ptd file with external weights; may be repeated")
    parser.add_argument("--threads", type=int, help="0: all processors")
