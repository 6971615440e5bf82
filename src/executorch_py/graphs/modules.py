"""An ExportedProgram as a module that runs in eager PyTorch, whatever names its parameters have.

``ExportedProgram.module()`` hangs parameters and buffers into an ``fx.GraphModule`` and writes Python source that reads
them. Where a model names a submodule like an attribute of that class (``code``, ``graph``), like a keyword, or with a
quote, PyTorch ends in an error about something else. Here such a part of a path gets another name: ``code_``.

>>> module = module_of(torch.export.export(model, inputs))  # doctest: +SKIP
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import keyword

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind

__all__ = ["module_of", "with_free_names"]

#: Set on a module behind its constructor.
_SET_LATER = frozenset({"_in_spec", "_out_spec", "_guards_fn"})


def module_of(program: ExportedProgram, *, check_guards: bool = True) -> fx.GraphModule:
    """What ``program.module()`` gives; parameters whose names a GraphModule cannot have are named anew in it."""
    return with_free_names(program).module(check_guards=check_guards)  # type: ignore[return-value]


def with_free_names(program: ExportedProgram) -> ExportedProgram:
    """The program itself, or one of the same graph and tensors with other names for what no GraphModule can hold."""
    signature = program.graph_signature
    held = [str(spec.target) for spec in signature.input_specs if spec.kind is not InputKind.USER_INPUT and spec.target]
    paths = {*held, *program.state_dict, *program.constants}
    if all(map(_is_free, paths)):
        return program
    renamed = _new_names(paths)
    new = copy.copy(program)
    new._graph_signature = ExportGraphSignature(
        [
            spec if spec.target is None else dataclasses.replace(spec, target=renamed.get(spec.target, spec.target))
            for spec in signature.input_specs
        ],
        [
            spec
            if spec.target is None or spec.kind is OutputKind.USER_INPUT_MUTATION  # an input's name
            else dataclasses.replace(spec, target=renamed.get(spec.target, spec.target))
            for spec in signature.output_specs
        ],
    )
    new._state_dict = {renamed[name]: value for name, value in program.state_dict.items()}
    new._constants = {renamed[name]: value for name, value in program.constants.items()}
    return new


@functools.cache
def _attributes() -> frozenset[str]:
    """Names that a GraphModule needs for itself."""
    return frozenset(dir(fx.GraphModule(torch.nn.Module(), fx.Graph()))) | _SET_LATER


def _is_free(path: str) -> bool:
    first, *rest = path.split(".")
    return first not in _attributes() and all(map(_is_readable, (first, *rest)))


def _is_readable(part: str) -> bool:
    """Whether Python source can have a name behind a dot, or as ``getattr(x, "name")``."""
    return not keyword.iskeyword(part) and not set(part) & set("'\"\\\n\r")


def _new_names(paths: set[str]) -> dict[str, str]:
    """Path -> path with each part that is not free replaced, the same way wherever it stands in the same module."""
    taken: dict[str, set[str]] = {}  # of a module, by its path
    for path in paths:
        parts = path.split(".")
        for i, part in enumerate(parts):
            taken.setdefault(".".join(parts[:i]), set()).add(part)
    made: dict[str, str] = {"": ""}

    def name_of(path: str) -> str:
        if path not in made:
            owner, _, part = path.rpartition(".")
            new = part
            if not _is_free(part if not owner else f"_.{part}"):
                new = "".join("_" if letter in "'\"\\\n\r" else letter for letter in part)
                while new in taken[owner] or not _is_free(new if not owner else f"_.{new}"):
                    new += "_"
                taken[owner].add(new)
            made[path] = f"{name_of(owner)}.{new}" if owner else new
        return made[path]

    return {path: name_of(path) for path in sorted(paths)}
