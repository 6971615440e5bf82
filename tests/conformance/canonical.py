"""Answers that are not unique: what of them is, by name of the database entry.

A rule takes the sample and the outputs of one side and returns tensors that are equal for all right answers. Of a
singular value decomposition these are the singular values and the product of the factors. Of a sort with ties they are
the values and what the indices lead to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.ops import unique_parts

from .adapters import Sample

Rule = Callable[[Sample, list[Any]], list[Any]]


def canonical(name: str) -> Rule | None:
    """The rule for a database entry, if its answers are not unique."""
    return _RULES.get(name)


def _argument(sample: Sample, position: int, name: str, default: Any) -> Any:
    """An argument of the operator that is no tensor, as the sample gives it."""
    model = sample.model
    args, kwargs = torch.utils._pytree.tree_unflatten(model.leaves, model.structure)
    return kwargs.get(name, args[position] if len(args) > position else default)


def _selected(position: int, default: Any) -> Rule:
    """Values, and indices into a dimension of the input: the indices must lead to the values."""

    def rule(sample: Sample, outputs: list[Any]) -> list[Any]:
        source = sample.args[0]
        values, indices = outputs
        dim = _argument(sample, position, "dim", default)
        if source.dim() == 0:
            return [values, indices]
        if values.dim() < source.dim():
            return [values, source.gather(dim, indices.unsqueeze(dim)).squeeze(dim)]
        return [values, source.gather(dim, indices)]

    return rule


def _sorting(sample: Sample, outputs: list[Any]) -> list[Any]:
    """Indices that sort a dimension."""
    source = sample.args[0]
    if source.dim() == 0:
        return outputs
    return [source.gather(_argument(sample, 1, "dim", -1), outputs[0])]


def _singular(sample: Sample, outputs: list[Any]) -> list[Any]:
    """Singular vectors: their sign is free. Complex ones arrive as pairs of real numbers."""
    return unique_parts.of_svd(*outputs)


def _eigen(sample: Sample, outputs: list[Any]) -> list[Any]:
    """Eigenvectors of a symmetric matrix: their sign is free."""
    return unique_parts.of_eigh(*outputs)


def _general_eigen(sample: Sample, outputs: list[Any]) -> list[Any]:
    """Eigenvalues in any order, and eigenvectors that are ones; complex numbers arrive as pairs of real ones."""
    values, *vectors = [torch.view_as_complex(output).to(torch.complex128) for output in outputs]
    parts = unique_parts.of_eig(sample.args[0], values, vectors[0] if vectors else None)
    return [(torch.view_as_real(part) if part.is_complex() else part).to(outputs[0].dtype) for part in parts]


def _low_rank(sample: Sample, outputs: list[Any]) -> list[Any]:
    """A decomposition found with random projections: the signs of its vectors are free, and the last ones are not
    exact.
    """
    u, s, v = outputs
    return [s, (u * s.unsqueeze(-2)) @ v.mT]


_RULES: dict[str, Rule] = {
    "sort": _selected(1, -1),
    "topk": _selected(2, -1),
    "kthvalue": _selected(2, -1),
    "mode": _selected(1, -1),
    "argsort": _sorting,
    "linalg.svd": _singular,
    "svd_lowrank": _low_rank,
    "pca_lowrank": _low_rank,
    "linalg.eigh": _eigen,
    "linalg.eig": _general_eigen,
    "linalg.eigvals": _general_eigen,
}
