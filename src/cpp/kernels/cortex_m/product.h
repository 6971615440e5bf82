/// Products of rows of weights with columns of inputs, a block of output channels at a time.
///
/// For: convolutions and linear layers of int8. Not for: depthwise convolutions, whose sums have few terms.
///
///     Product product(filter, requantizer);
///     ET_RETURN_IF_ERROR(product.start(context));
///     for (int32_t c = 0; c < channels; c += kBlock) {
///       ET_RETURN_IF_ERROR(product.choose(c, std::min(kBlock, channels - c), count));
///       product.multiply(inputs, depth, count, out + c, channels);   // any number of columns
///     }
#pragma once

#include "kernels/cortex_m/primitives.h"
#include "ops/image_windows.h"

namespace et::kernels::cortex_m {

/// Output channels whose starts and scales are at hand at one time.
constexpr int32_t kBlock = ops::kChannelsAtOnce;
static_assert(kColumns <= ops::kPixelsAtOnce, "planned results lie as far from their images as that needs");

/// The weights of a layer and what belongs to each of their rows.
struct Filter {
  const int8_t* weights;  ///< [channels, depth]
  int32_t depth;
  const int32_t* bias;  ///< [channels], or none
  const float* scales;  ///< [channels], or one
  int32_t scale_step;   ///< 0: one for all
  float input_scale, output_scale;
  int32_t zero_point;  ///< of the inputs

  /// Checks what the operators have in common. Errors: those of the plain kernels.
  Error read(const char* op, double scale_of_input, int64_t zero_point_of_input, const Tensor& weight,
             const Tensor& weight_scales, const OptionalTensor& bias_of_rows, const Requantizer& requantizer);
};

/// What the sums of a block of channels start from, and are multiplied by.
struct Block {
  int32_t starts[kBlock];
  float scales[kBlock];

  /// `with_zero_point`: a start holds the sum of its row times -zero_point, too.
  /// Errors: InvalidArgument when a scale is no finite float.
  Error fill(const Filter& filter, int32_t first, int32_t count, bool with_zero_point);
};

class Product {
 public:
  /// `filter` must outlive it.
  Product(const Filter& filter, const Requantizer& requantizer) : filter_(filter), output_(requantizer) {}
  /// Takes temporary memory, for so many blocks at one time. Errors: MemoryAllocationFailed.
  Error start(KernelContext& context, int32_t num_blocks = 1);

  /// Channels [first, first + count) are computed from now on, for so many columns. Makes their starts and scales.
  Error choose(int32_t first, int32_t count, int32_t columns, int32_t block = 0) {
    starts_hold_it_ = kHoldsZeroPoint && columns >= kColumns;
    choose_again(first, count, block);
    return block_->fill(filter_, first, count, starts_hold_it_);
  }
  /// The same channels and columns as when `block` was chosen last.
  void choose_again(int32_t first, int32_t count, int32_t block) {
    rows_ = filter_.weights + static_cast<ptrdiff_t>(first) * filter_.depth;
    count_ = count;
    block_ = blocks_ + block;
  }
  /// `columns` of inputs, [columns, depth] at steps of `in_step`, to rows of outputs at steps of `out_step`.
  void multiply(const int8_t* in, ptrdiff_t in_step, int32_t columns, int8_t* out, ptrdiff_t out_step) const;

 private:
  const Filter& filter_;
  Output output_;
  Block *blocks_ = nullptr, *block_ = nullptr;
  [[maybe_unused]] Value* values_ = nullptr;  // [kColumns, depth], where columns are widened
  const int8_t* rows_ = nullptr;
  int32_t count_ = 0;
  bool starts_hold_it_ = false;  // the zero point of the inputs
};

}  // namespace et::kernels::cortex_m
