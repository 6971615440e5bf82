/// Convolutions of few channels as plain products: for each pixel of the output the inputs under its kernel, side by
/// side.
///
/// For: integer convolutions of images, sound and spectrograms, first layers of most networks. The library's kernel
/// multiplies eight channels at a time. It wastes more than half of its work on three channels, and seven eighths on
/// one. It also keeps a pointer for each pixel and tap, 5 MB for a 7x7 kernel on 224 x 224 pixels. A block of rows is
/// gathered at a time and stays in the cache. Not for: many channels, where the copies cost more than they save;
/// transposed, grouped or depthwise convolutions.
#pragma once

#include "backends/xnnpack/kernels/packed_convolution.h"

namespace et::backends::xnnpack {

/// True where gathering at least halves the multiplications.
bool is_worth_gathering(const Geometry& g);

/// The convolution as a product: a 1x1 kernel over as many channels as inputs lie under it. The weight's bytes stay.
Geometry gathered(const Geometry& g);

/// Runs a convolution whose operator was made for gathered(state.geometry). `out` is resized already and not empty.
/// `scratch`: gathered_nbytes() for several runs of one instruction; nullptr: temporary memory of the run's own.
Error run_gathered(KernelContext& context, PackedConvolution& state, const Tensor& input, const Tensor& out,
                   void* scratch = nullptr);
/// Bytes of the largest block.
size_t gathered_nbytes(const Geometry& g);

}  // namespace et::backends::xnnpack
