/// Convolutions of float images and lines whose channels lie outermost.
///
/// For: convolution.cpp and plane_depthwise.cpp. Not for: images with channels innermost (clamped_convolution.h).
#pragma once

#include "kernels/optimized/conv/clamped_convolution.h"

namespace et::kernels::optimized::conv {

// Beside those of priorities.h.
inline constexpr uint8_t kPriorityPlanes = kPriorityGroups + 1;
inline constexpr uint8_t kPriorityPlaneDepthwise = kPriorityGroups + 2;

/// True for a convolution of row-major images or lines, with a constant filter and a geometry that never changes.
inline bool has_constant_planes(const runtime::PrepareContext& context, Arguments args, bool is_transposed = false) {
  using namespace ops::arguments::et_convolution_clamp;
  const EValue& bias = *args[kBias];
  for (size_t i = kStride; i < args.size(); ++i) {
    if (!args[i]->is_tensor() && !context.is_constant(*args[i])) {
      return false;
    }
  }
  if (!context.is_constant(*args[kWeight]) || !(bias.is_none() || context.is_constant(bias))) {
    return false;
  }
  for (const size_t i : {size_t{kInput}, size_t{kWeight}, args.size() - 1}) {
    const bool is_other_order = is_transposed && i != kWeight && is_channels_last(*args[i]);
    if (!is_float(*args[i]) || !(is_row_major(*args[i]) || is_other_order)) {
      return false;
    }
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const auto rank = weight.dim();
  const int channels_dim = is_transposed ? 1 : 0;
  return (rank == 3 || rank == 4) && args[kInput]->to_tensor().dim() == rank && is_float_or_none(bias) &&
         (bias.is_none() || bias.to_tensor().numel() == weight.size(channels_dim)) &&
         args[kTransposed]->number_as_bool() == is_transposed;
}

}  // namespace et::kernels::optimized::conv
