"""Attention with fewer heads than ``nn.MultiheadAttention`` allows for its width."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from executorch_py.errors import NotSupportedError


class SmallerAttention(nn.Module):
    """``nn.MultiheadAttention`` without some of its heads: the same arguments and results.

    Attributes:
        in_proj_weight: [3 * heads * head_dim, embed_dim]: queries, keys, values.
        in_proj_bias: [3 * heads * head_dim], or None.
        out_proj: From heads * head_dim to embed_dim.
    """

    #: nn.TransformerEncoderLayer reads it, and leaves its shortcut for whole attention layers out where it is False.
    _qkv_same_embed_dim = False

    def __init__(self, attention: nn.MultiheadAttention, stay: torch.Tensor) -> None:
        super().__init__()
        self.embed_dim, self.head_dim = attention.embed_dim, attention.head_dim
        self.num_heads, self.batch_first = len(stay), attention.batch_first
        self.dropout = attention.dropout
        rows = (stay[:, None] * self.head_dim + torch.arange(self.head_dim, device=stay.device)).reshape(-1)
        all_rows = torch.cat([rows + part * self.embed_dim for part in range(3)])
        self.in_proj_weight = nn.Parameter(attention.in_proj_weight.detach()[all_rows].clone())
        bias = attention.in_proj_bias
        self.in_proj_bias = None if bias is None else nn.Parameter(bias.detach()[all_rows].clone())
        old = attention.out_proj
        self.out_proj = nn.Linear(
            len(rows), self.embed_dim, bias=old.bias is not None, device=old.weight.device, dtype=old.weight.dtype
        )
        with torch.no_grad():
            self.out_proj.weight.copy_(old.weight[:, rows])
            if old.bias is not None:
                self.out_proj.bias.copy_(old.bias)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As ``nn.MultiheadAttention.forward``."""
        batched = query.dim() == 3
        inputs = [t if batched else t.unsqueeze(0) for t in (query, key, value)]
        if batched and not self.batch_first:
            inputs = [t.transpose(0, 1) for t in inputs]
        weights = self.in_proj_weight.chunk(3)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for x, w, b in zip(inputs, weights, biases, strict=True)
        )
        mask = self._mask(
            attn_mask, key_padding_mask if batched or key_padding_mask is None else key_padding_mask[None], q, k
        )
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
            probabilities = (scores if mask is None else scores + mask).softmax(-1)
            attended = F.dropout(probabilities, dropout) @ v
            shown = probabilities.mean(1) if average_attn_weights else probabilities
        else:
            attended, shown = F.scaled_dot_product_attention(q, k, v, mask, dropout), None
        out = self.out_proj(attended.transpose(1, 2).flatten(2))
        if not batched:
            return out.squeeze(0), None if shown is None else shown.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), shown

    def _mask(
        self, attn_mask: torch.Tensor | None, padding: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor
    ) -> torch.Tensor | None:
        """Both masks as numbers to add, [batch or 1, 1, queries, keys]."""
        mask = None
        if attn_mask is not None:
            if attn_mask.dim() == 3:
                raise NotSupportedError("an attn_mask of rank 3 names the heads that were there before pruning")
            mask = _added(attn_mask, q)[None, None]
        if padding is not None:
            added = _added(padding, q)[:, None, None]
            mask = added if mask is None else mask + added
        return mask


def remove_heads(
    model: nn.Module, amount: float, is_wanted: Callable[[nn.Module], bool], importance: str
) -> dict[str, tuple[int, int]]:
    """Replaces attention layers by smaller ones, in place: layer -> (heads before, heads after).

    Raises:
        NotSupportedError: A layer has settings that have no smaller form; the message names it.
    """
    gone: dict[str, tuple[int, int]] = {}
    for name, module in list(model.named_modules()):
        if not isinstance(module, nn.MultiheadAttention) or not is_wanted(module):
            continue
        count = min(int(amount * module.num_heads), module.num_heads - 1)
        if not count:
            continue
        if not module._qkv_same_embed_dim or module.bias_k is not None or module.add_zero_attn:
            raise NotSupportedError(
                f"'{name}': attention with kdim, vdim, add_bias_kv or add_zero_attn cannot lose heads"
            )
        stay = head_scores(module, importance).topk(module.num_heads - count).indices.sort().values
        path, _, last = name.rpartition(".")
        setattr(model.get_submodule(path), last, SmallerAttention(module, stay).train(module.training))
        gone[name] = (module.num_heads, len(stay))
    return gone


@torch.no_grad()
def head_scores(attention: nn.MultiheadAttention, importance: str) -> torch.Tensor:
    """Importance of each head, [heads]: the norm of its weights, or what the loss would change to first order."""

    def per_head(tensor: torch.Tensor) -> torch.Tensor:
        if importance == "taylor":
            tensor = torch.zeros_like(tensor) if tensor.grad is None else tensor * tensor.grad
        return tensor.detach()

    projections = per_head(attention.in_proj_weight).view(3, attention.num_heads, -1).transpose(0, 1).flatten(1)
    out = (
        per_head(attention.out_proj.weight)
        .view(attention.embed_dim, attention.num_heads, -1)
        .transpose(0, 1)
        .flatten(1)
    )
    weights = torch.cat([projections, out], 1)
    if importance == "taylor":
        return weights.sum(1).abs()
    return weights.norm(p=1 if importance == "l1" else 2, dim=1)


def _added(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
