/// A convolution of integers or of floats: what it reads of its node, and the operators that it writes.
///
/// For: emit_products.cpp, float_products.cpp. Not for: what becomes of sums.
///
///     convolution             operator            how often
///     transposed              TRANSPOSE_CONV2D    once
///     one input a group       DEPTHWISE_CONV2D    once
///     others                  CONV2D              once a group
///
/// An NPU without the strides of a convolution gets it in blocks: pixels of as many rows and columns as a stride has
/// become the channels of one, so that windows move by 1.
#pragma once

#include <algorithm>
#include <string>

#include "backends/tosa/compiler/lowering.h"
#include "backends/tosa/compiler/windows.h"
#include "ops/arguments.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {

/// Positions of arguments.
struct ConvolutionArguments {
  size_t input, weight, bias, stride, padding, dilation, transposed, groups;
};
inline constexpr ConvolutionArguments kConvolutionOfIntegers = [] {
  using namespace ops::arguments::et_quantized_convolution;
  return ConvolutionArguments{kInput, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kGroups};
}();
inline constexpr ConvolutionArguments kConvolutionOfFloats = [] {
  using namespace ops::arguments::convolution;
  return ConvolutionArguments{kInput, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kGroups};
}();

struct Convolution {
  /// Output channels that one operator gives.
  struct Group {
    size_t first = 0, count = 0;
  };

  Window rows, columns;
  int64_t groups = 1, in_channels = 1, out_channels = 1;
  bool transposed = false;
  Shape out;  ///< of the image

  Convolution() = default;
  /// In one dimension or two; op_support.h has taken the node.
  Convolution(const ir::Node& node, const ConvolutionArguments& at);
  /// Rows times a matrix: a convolution of 1x1.
  static Convolution of_rows(int32_t rows, int32_t out_channels);

  /// Whether an NPU with strides up to this gets it in blocks.
  bool takes_blocks(int64_t max_stride) const {
    return !transposed && groups == 1 && std::max(rows.stride, columns.stride) > max_stride &&
           rows.dilation * columns.dilation == 1;
  }
  /// The same sums from blocks; what of them it reads; weights [out, in, rows, columns] for them.
  Convolution in_blocks() const;
  TensorId blocks_of(Lowering& lowering, TensorId image, int64_t zero_point) const;
  std::string weights_in_blocks(const std::string& values) const;

  bool is_depthwise() const { return !transposed && groups > 1 && in_channels == groups; }
  std::vector<Group> parts() const;
  /// Dims of one operator's weight as the IR has them, how they are permuted, and what the operator wants.
  std::vector<int64_t> weight_dims() const;
  std::vector<size_t> weight_order() const;
  Shape weight_shape() const;
  /// One operator's weight at `from`, of `element` bytes a number, in that shape.
  std::string arranged_weights(const void* from, size_t element) const {
    return passes::permuted_bytes(from, element, weight_dims(), weight_order());
  }

  /// What windows reach of an image.
  TensorId cropped(Lowering& lowering, TensorId image) const {
    return transposed ? image : lowering.crop(image, rows.crop, columns.crop);
  }
  /// The channels that a group reads.
  TensorId part_of(Lowering& lowering, TensorId image, const Group& group) const;
  /// One operator; `image` is cropped, `bias` has one number or one for each of its output channels.
  TensorId convolve(Lowering& lowering, TensorId image, TensorId weight, TensorId bias, int64_t zero_point) const;
};

}  // namespace et::backends::tosa::compiler
