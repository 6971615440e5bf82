/// Geometry of a convolution as the library wants it, from the arguments of aten::convolution and its integer twin.
///
/// For: convolution.cpp and quantized_convolution.cpp. One-dimensional convolutions are two-dimensional ones with one
/// row, three-dimensional ones have images whose channels are those of all planes under the kernel (volume.h).
#pragma once

#include "backends/xnnpack/kernels/library.h"
#include "backends/xnnpack/kernels/transposed.h"
#include "ops/costs.h"

namespace et::backends::xnnpack {

/// Of the first of three dimensions.
struct Depth {
  uint32_t kernel = 1, stride = 1, padding = 0, dilation = 1;

  bool is_trivial() const { return kernel == 1 && stride == 1 && padding == 0; }
};

struct Geometry {
  Pair kernel, stride, padding, dilation, output_padding;
  Depth depth;
  bool transposed;
  uint32_t groups;
  size_t in_channels, out_channels;  ///< of an image: in_channels are depth.kernel times those of the tensor

  /// Inputs of all channels under the kernel.
  size_t window_size() const { return size_t{kernel.h} * kernel.w * in_channels; }
};

/// The arguments that say it.
struct ConvolutionValues {
  const EValue *input, *weight, *stride, *padding, *dilation, *transposed, *output_padding, *groups;
};
/// Errors: NotSupported, silently, so that another kernel is taken.
Result<Geometry> read_geometry(const ConvolutionValues& values);

struct Extent {
  int64_t h, w;
};
/// Rows and columns of the output of `batch` images; those of a batch of none may be empty, but for their border.
/// Errors: InvalidArgument when the input is smaller than the kernel.
Result<Extent> output_extent(const Geometry& g, int64_t batch, int64_t in_h, int64_t in_w);

/// Planes of the output of `in_d` planes; 0 when there are too few.
int64_t output_planes(const Depth& depth, int64_t in_d);

/// Offers what a convolution costs in the library (runtime/kernel_offer.h). `weight` has the sizes of the operator's.
Error offer_convolution(const Geometry& g, const Tensor& input, const Tensor& weight, const Tensor& out,
                        ops::WorkNumbers numbers, void** state);

/// The weight as the library wants it, [groups][out / groups][height][width][planes][in / groups]: the constant itself
/// or a copy. Elements of 1 or 4 bytes.
class LibraryWeight {
 public:
  LibraryWeight() = default;
  LibraryWeight(const LibraryWeight&) = delete;
  LibraryWeight& operator=(const LibraryWeight&) = delete;
  ~LibraryWeight() { delete[] copy_; }

  /// `weight` has an image layout (layout.h). Errors: MemoryAllocationFailed.
  Error make(const Tensor& weight, const Geometry& g);
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }

 private:
  Error permute(const Tensor& weight, Span<const size_t> shape, Span<const size_t> permutation);

  const void* data_ = nullptr;
  unsigned char* copy_ = nullptr;
};

}  // namespace et::backends::xnnpack
