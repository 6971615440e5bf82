"""Models by name (a saved ExportedProgram, or a function of the user's), and how they become programs."""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgumentError, NotFoundError

__all__ = ["add_lowering", "backend_names", "import_module", "lowered", "model_of", "partitioner_of", "resolve"]

#: What a name of a model may be, for ``--help``.
MODEL = "a saved ExportedProgram (.pt2), or package.module:function, which returns (model, example_inputs[, kwargs])"
_DYNAMIC = re.compile(r"(?P<input>\w+)\.(?P<dim>\d+)(=(?P<name>[A-Za-z_]\w*))?(:(?P<low>\d+)\.\.(?P<high>\d+))?")


def import_module(module: str) -> Any:
    """A module; the current folder counts."""
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
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, dir(found), 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise NotFoundError(f"{name}: {getattr(found, '__name__', found)} has no {part}{meant}")
        found = getattr(found, part)
    return found


def model_of(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model, positional and keyword arguments: what a function makes, or what a .pt2 file holds."""
    if name.endswith(".pt2"):
        from executorch_py.devtools.requirements import read_exported

        exported = read_exported(Path(name))
        args, kwargs = exported.example_inputs or ((), {})
        return exported, tuple(args), dict(kwargs)
    factory = resolve(name)
    is_module = hasattr(factory, "state_dict") and not isinstance(factory, type)
    if is_module or not callable(factory):
        raise InvalidArgumentError(
            f"{name} is of type {type(factory).__name__}, must be a function that returns (model, example_inputs)"
        )
    made = factory()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], tuple):
        raise InvalidArgumentError(f"{name} must return (model, example_inputs) or (model, example_inputs, kwargs)")
    model = made[0].eval() if hasattr(made[0], "eval") else made[0]
    return model, made[1], dict(made[2]) if len(made) == 3 else {}


def add_lowering(parser: argparse.ArgumentParser) -> None:
    """The options of commands that make a program of a model."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="NAME",
        help="delegate to this backend, by the name of its folder; may be repeated",
    )
    parser.add_argument("--partitioner", action="append", default=[], help="package.module:Class; may be repeated")
    parser.add_argument("--quantize", metavar="PRESET", help="static_int8, dynamic_int8, int4_weight_only, fp16 …")
    parser.add_argument(
        "--data", help="package.module:function, which returns samples to calibrate with; otherwise the example inputs"
    )
    parser.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="INPUT.DIM[=NAME][:LOW..HIGH]",
        help="a size that may change, such as x.0=batch:1..64; equal names are equal sizes; may be repeated",
    )


def lowered(arguments: argparse.Namespace) -> tuple[Any, Any, tuple[Any, ...], dict[str, Any]]:
    """The program that the options of :func:`add_lowering` describe, its model and its inputs."""
    import torch

    from executorch_py.lowering.edge import to_edge_transform_and_lower

    partitioners = [partitioner_of(name) for name in arguments.backend]
    partitioners += [resolve(name)() for name in arguments.partitioner]
    model, inputs, kwargs = model_of(arguments.model)
    exported = _exported(model, inputs, kwargs, arguments.dynamic)
    if arguments.quantize:
        exported = _quantized(exported, arguments, (inputs, kwargs))
    elif arguments.data:
        raise InvalidArgumentError("--data gives samples for --quantize, which is missing")
    program = to_edge_transform_and_lower(exported, partitioner=partitioners or None).to_executorch()
    assert isinstance(exported, torch.export.ExportedProgram)
    return program, model, inputs, kwargs


def _exported(model: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Sequence[str]) -> Any:
    import torch

    from executorch_py.graphs.torch_quantized import require_exportable

    if isinstance(model, torch.export.ExportedProgram):
        if dynamic:
            raise InvalidArgumentError(
                "--dynamic is for a model that is exported here; sizes of a .pt2 are what they are"
            )
        return model
    require_exportable(model)
    shapes = _dynamic_shapes(model, inputs, kwargs, dynamic) if dynamic else None
    return torch.export.export(model, inputs, kwargs or None, dynamic_shapes=shapes)


def _dynamic_shapes(
    model: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any], texts: Sequence[str]
) -> dict[str, dict[int, Any] | None]:
    """``--dynamic`` as torch.export takes it."""
    from torch.export import Dim

    bound = inspect.signature(model.forward).bind(*inputs, **kwargs).arguments
    shapes: dict[str, Any] = dict.fromkeys(bound)
    symbols: dict[str, tuple[tuple[int | None, int | None], Any]] = {}
    for text in texts:
        found = _DYNAMIC.fullmatch(text)
        if found is None:
            raise InvalidArgumentError(
                f"--dynamic {text} is none, write INPUT.DIM[=NAME][:LOW..HIGH], as x.0=batch:1..64"
            )
        name, dim = found["input"], int(found["dim"])
        if name not in shapes or not hasattr(bound[name], "shape"):
            raise InvalidArgumentError(
                f"--dynamic {text}: the model has no tensor '{name}'; it takes {', '.join(shapes)}"
            )
        if dim >= len(bound[name].shape):
            raise InvalidArgumentError(f"--dynamic {text}: '{name}' has the shape {tuple(bound[name].shape)}")
        limits = (int(found["low"]), int(found["high"])) if found["low"] else (None, None)
        symbol = found["name"] or f"{name}_{dim}"
        known = symbols.setdefault(symbol, (limits, Dim(symbol, min=limits[0], max=limits[1])))
        if limits not in (known[0], (None, None)):
            raise InvalidArgumentError(f"--dynamic {text}: '{symbol}' has other limits before")
        shapes[name] = {**(shapes[name] or {}), dim: known[1]}
    return shapes


def _quantized(exported: Any, arguments: argparse.Namespace, example: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    from executorch_py.quantizer.flow.flow import quantize

    if arguments.data:
        samples = resolve(arguments.data)()
    else:
        if example[1]:
            raise InvalidArgumentError("give samples to calibrate with: --data package.module:function")
        samples = [example[0]]
    return quantize(exported, (), arguments.quantize, samples)


def backend_names() -> list[str]:
    """The backends that models can be compiled for here, by the names of their folders."""
    backends = importlib.import_module("executorch_py.backends")
    return sorted(
        one.name for one in pkgutil.iter_modules(backends.__path__) if one.ispkg and not one.name.startswith("_")
    )


def partitioner_of(name: str, always: bool = False) -> Any:
    """A backend's partitioner, by the backend's name.

    Args:
        name: Name of its folder.
        always: Have it take what it can also where kernels are as fast, if it has that option.

    Raises:
        NotFoundError: There is no such backend; names those that there are.
    """
    from executorch_py.exir.backend.partitioner import Partitioner

    known = backend_names()
    if name not in known:
        raise NotFoundError(f"there is no backend '{name}'; there are {', '.join(known)}")
    package = importlib.import_module(f"executorch_py.backends.{name}")
    for public in package.__all__:
        found: Any = getattr(package, public)
        if isinstance(found, type) and issubclass(found, Partitioner) and Partitioner in found.__bases__:
            options: Any = {"always": True} if always and "always" in inspect.signature(found).parameters else {}
            return found(**options)
    raise NotFoundError(f"the backend '{name}' has no partitioner")
