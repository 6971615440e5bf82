"""Tables: what operators do to the channels of their tensors. channels.py has a rule for each.

A name is an operator with all of its overloads. What no table has ends the way of a channel.
"""

from typing import Any

import torch

aten = torch.ops.aten


def _named(names: str) -> frozenset[Any]:
    """Operators by name; those that this torch does not have are left out."""
    return frozenset(getattr(aten, name) for name in names.split() if hasattr(aten, name))


#: Convolution -> its spatial dimensions, and whether it is transposed.
CONVOLUTIONS: dict[Any, tuple[int, bool]] = {
    **{getattr(aten, f"conv{rank}d"): (rank, False) for rank in (1, 2, 3)},
    **{getattr(aten, f"conv_transpose{rank}d"): (rank, True) for rank in (1, 2, 3)},
}
#: What leaves every element where it is.
STAYS = _named(
    "contiguous clone alias detach to type_as _to_copy lift_fresh_copy dropout feature_dropout alpha_dropout"
)
#: What moves elements, whatever they are.
MOVES = _named(
    "view reshape _unsafe_view flatten unflatten permute transpose t mT movedim swapaxes swapdims squeeze unsqueeze "
    "expand "
    "expand_as repeat tile flip roll chunk split split_with_sizes tensor_split unsafe_chunk unsafe_split slice narrow "
    "unbind pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle repeat_interleave unfold diagonal"
)
#: What takes elements by their places: of a layer's channels all must stay.
TAKES = _named("select index index_select gather")
#: What makes one element of several along dimensions that it names.
REDUCTIONS = _named(
    "sum mean amax amin max min var std norm linalg_vector_norm argmax argmin logsumexp prod var_mean std_mean median "
    "any all"
)
#: What computes with all elements along a dimension, and keeps its size.
ALONG = _named("softmax log_softmax _softmax _log_softmax cumsum cumprod sort")
#: What works over the last dimensions of images and lines -> how many these are.
SPATIAL: dict[Any, int] = {
    **{
        operator: rank
        for rank in (1, 2, 3)
        for operator in _named(
            f"max_pool{rank}d avg_pool{rank}d adaptive_avg_pool{rank}d adaptive_max_pool{rank}d "
            f"upsample_nearest{rank}d _upsample_nearest_exact{rank}d reflection_pad{rank}d replication_pad{rank}d"
        )
    },
    aten.upsample_linear1d: 1,
    aten.upsample_bilinear2d: 2,
    aten.upsample_bicubic2d: 2,
    aten.upsample_trilinear3d: 3,
}
#: What makes tensors of a size that the code computes.
MADE = _named(
    "full full_like zeros zeros_like ones ones_like empty empty_like new_zeros new_ones new_full new_empty arange "
    "scalar_tensor rand rand_like randn randn_like"
)
