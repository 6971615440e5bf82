"""What of a matrix decomposition is the same for all right answers, to the sign of vectors and the order of
eigenvalues.

Each function takes the outputs of one side and returns tensors that may be compared with those of the other.
"""

from __future__ import annotations

import torch


def of_svd(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> list[torch.Tensor]:
    """Singular values [..., k] and, where there are vectors, u [..., m, k or m] * s @ vh [..., k or n, n]."""
    rank = s.shape[-1]
    return [s, (u[..., :rank] * s.unsqueeze(-2)) @ vh[..., :rank, :]] if u.numel() else [s]


def of_eigh(values: torch.Tensor, vectors: torch.Tensor) -> list[torch.Tensor]:
    """Eigenvalues [..., n] of a symmetric matrix and, where there are vectors, the matrix that they make."""
    return [values, (vectors * values.unsqueeze(-2)) @ vectors.mT] if vectors.numel() else [values]


def of_eig(matrix: torch.Tensor, values: torch.Tensor, vectors: torch.Tensor | None) -> list[torch.Tensor]:
    """Complex eigenvalues [..., n] in one order and, where there are vectors, how far they are from ones, and their
    lengths.
    """
    order = (values.real.round(decimals=3) * 1e4 + values.imag).argsort(dim=-1)
    parts = [values.gather(-1, order)]
    if vectors is not None:
        residual = matrix.to(vectors.dtype) @ vectors - vectors * values.unsqueeze(-2)
        parts += [residual.abs(), vectors.norm(dim=-2)]
    return parts
