/// Three-dimensional convolution as a two-dimensional one: the planes under the kernel lie side by side in the channels
/// of an image, one image for each plane of the output.
///
/// For: packed_convolution.cpp. Images are made for some planes at a time, so that they stay in a cache.
/// Not for: floats of few channels a group, which direct kernels take (is_worth_groups in geometry.cpp).
#pragma once

#include "backends/xnnpack/kernels/packed_convolution.h"

namespace et::backends::xnnpack {

/// run_convolution for tensors [batch, channels, planes, rows, columns].
Error run_volume(KernelContext& context, PackedConvolution& state, const Tensor& input, const Tensor& out);

}  // namespace et::backends::xnnpack
