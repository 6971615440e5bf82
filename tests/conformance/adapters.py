"""One sample of a database as a module and its inputs, ready for torch.export.

Tensors of a sample become the inputs; numbers, strings and structures are baked into the module. Complex numbers exist
only between operators, so a complex input arrives as a pair of real numbers and a complex output leaves as one.
"""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from .architectures import architecture_entries, export_as_transformers_does
from .samples import Item, example_entries, module_entries, operator_entries


@dataclass
class Sample:
    """What is exported.

    Attributes:
        model: In evaluation mode.
        args: Positional inputs.
        kwargs: Inputs by name.
        dynamic_shapes: As torch.export takes them.
        strict: Whether the example is written for the tracer of bytecode.
        is_delegated: Whether the XNNPACK delegate takes what it can.
        other_export: Another way to an exported program, for what torch.export refuses: from the model and its inputs
            by name, the program and the inputs that it takes.
        exported: The exported program, once there is one.
        note: What was special about the way there.
    """

    model: nn.Module
    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    strict: bool = False
    is_delegated: bool = False
    other_export: Callable[[nn.Module, dict[str, Any]], tuple[ExportedProgram, dict[str, Any]]] | None = None
    exported: ExportedProgram | None = None
    note: str = ""


def samples_of(item: Item, seed: int) -> Iterator[Sample]:
    """The item's samples, the same ones in every process. Raises what the database's own code raises."""
    mixed = zlib.crc32(item.key.encode()) ^ seed
    torch.manual_seed(mixed)
    random.seed(mixed)
    np.random.seed(mixed & 0xFFFFFFFF)
    maker = {
        "op": _operator_samples, "module": _module_samples, "example": _example, "architecture": _architecture,
        "special": _special,
    }[item.group]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from islice(maker(item), item.limit)


class FunctionModule(nn.Module):
    """Calls a function with the leaves of its arguments that are tensors as inputs."""

    def __init__(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.function = function
        leaves, self.structure = pytree.tree_flatten((args, kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.is_complex = [leaves[i].is_complex() for i in self.places]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor, is_complex in zip(self.places, tensors, self.is_complex, strict=True):
            leaves[place] = torch.view_as_complex(tensor) if is_complex else tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return pytree.tree_map_only(torch.Tensor, _as_real, self.function(*args, **kwargs))


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _function_sample(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Sample:
    module = FunctionModule(function, args, kwargs).eval()
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    return Sample(module, tuple(torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in tensors))


def _operator_samples(item: Item) -> Iterator[Sample]:
    entry = operator_entries()[item.name]
    # Not entry.sample_inputs, which inspects the whole call stack for each sample.
    for sample in entry.sample_inputs_func(entry, "cpu", getattr(torch, item.dtype), requires_grad=False):
        yield _function_sample(entry.op, (sample.input, *sample.args), sample.kwargs)


def _module_samples(item: Item) -> Iterator[Sample]:
    entry = module_entries()[item.name]
    dtype = getattr(torch, item.dtype)
    for given in entry.module_inputs_func(entry, device="cpu", dtype=dtype, requires_grad=False, training=False):
        constructor, forward = given.constructor_input, given.forward_input
        module = entry.module_cls(*constructor.args, **constructor.kwargs).to(dtype).eval()
        yield Sample(module, tuple(forward.args), dict(forward.kwargs))


def _special(item: Item) -> Iterator[Sample]:
    return _module_samples(item) if item.name in module_entries() else _operator_samples(item)


def _example(item: Item) -> Iterator[Sample]:
    case = example_entries()[item.name]
    model = case.model() if isinstance(case.model, type) else case.model
    for strict in (False, True):
        yield Sample(model, case.example_args, case.example_kwargs, case.dynamic_shapes, strict)


def _architecture(item: Item) -> Iterator[Sample]:
    model, args, kwargs = architecture_entries()[item.name]()
    other_export = export_as_transformers_does if item.name.startswith("transformers.") else None
    plain = Sample(model, args, kwargs, other_export=other_export)
    yield plain
    yield replace(plain, is_delegated=True)  # with the exported program: to export takes longer than all else
