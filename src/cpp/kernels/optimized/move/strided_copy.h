/// Copies between windows of one element type, fast: runs of bytes where both sides are contiguous, tiled transposes
/// where they are contiguous along different dimensions, shared among threads.
///
/// For: everything that moves elements without changing them. Windows are described as in the portable kernels.
/// Not for: conversions (portable::copy_window).
///
///     Window window = window_of(self);  std::swap(window.strides[0], window.strides[1]); …
///     copy_elements(context, window, window_of(out));
#pragma once

#include "kernels/portable/strided_copy.h"

namespace et::kernels::optimized::move {

using portable::Window;
using runtime::KernelContext;

/// Copies `from` to `to`. Same dtype and sizes; strides of `from` may be 0 or negative, those of `to` are positive and
/// distinct elements of `to` are distinct memory. The windows must not overlap.
void copy_elements(KernelContext& context, const Window& from, const Window& to);

}  // namespace et::kernels::optimized::move
