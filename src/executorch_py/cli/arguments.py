"""What several commands take: models by name, inputs of a run, numbers."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from executorch_py.element_types import torch_name
from executorch_py.errors import InvalidArgumentError
from executorch_py.runtime import Method, ScalarType, TensorInfo

__all__ = ["add_inputs", "import_module", "inputs_of", "lowered", "model_of", "positive", "resolve"]


def import_module(module: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(module)


def resolve(name: str) -> Any:
    """The object that ``package.module:attribute`` names; the current folder counts."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidArgumentError(f"{name!r} names no object, write package.module:name")
    found = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def model_of(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What a factory makes: a model, positional and keyword arguments."""
    factory = resolve(name)
    if not callable(factory):
        raise InvalidArgumentError(
            f"{name} is of type {type(factory).__name__}, must be a function that returns (model, example_inputs)"
        )
    made = factory()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], tuple):
        raise InvalidArgumentError(f"{name} must return (model, example_inputs) or (model, example_inputs, kwargs)")
    model = made[0].eval() if hasattr(made[0], "eval") else made[0]
    return model, made[1], dict(made[2]) if len(made) == 3 else {}


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


def lowered(arguments: argparse.Namespace) -> tuple[Any, Any, tuple[Any, ...], dict[str, Any]]:
    import torch

    from executorch_py.graphs.torch_quantized import require_exportable
    from executorch_py.lowering.edge import to_edge_transform_and_lower

    model, inputs, kwargs = model_of(arguments.model)
    partitioners = [resolve(name)() for name in arguments.partitioner]
    require_exportable(model)
    exported = torch.export.export(model, inputs, kwargs or None)
    program = to_edge_transform_and_lower(exported, partitioner=partitioners or None).to_executorch()
    return program, model, inputs, kwargs


def add_inputs(parser: argparse.ArgumentParser, program: str = "a .pte file") -> None:
    """The options that say what runs, on what; ``program`` tells of the first."""
    parser.add_argument("program", help=program)
    parser.add_argument("--method", default="forward")
    parser.add_argument(
        "--input", action="append", default=[], help=".npy file (a number: JSON); in order, rest generated"
    )
    parser.add_argument("--data", action="append", help=".ptd file with external weights; may be repeated")
    parser.add_argument("--threads", type=int, help="0: all processors")
