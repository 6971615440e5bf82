/// Products of rows of int8 and constant matrices of int8 that give int8, or floats where rows were quantized at the
/// call: linear layers, and convolutions as products of windows.
///
/// For: window_convolution.cpp, linear.cpp and dynamic_linear.cpp, which read their operators' arguments. Not for: one
/// filter a channel (depthwise.cpp).
///
///     ET_RETURN_IF_ERROR(pack_integer_product(context, matrix, &product));   // at load
///     ET_RETURN_IF_ERROR(multiply_windows(context, product, rows));          // product.in and product.out are set
///
/// Windows become rows of the form that the matrix is packed for, in blocks that the second cache holds. Sums are exact
/// in each form (integer_loops.h).
#pragma once

#include <limits>

#include "base/rounding.h"
#include "kernels/optimized/quantized/convolution.h"

namespace et::kernels::optimized::quantized {

/// How a matrix is packed, and so which loop multiplies it (integer_loops.h). Beyond the last column stand zeros.
enum class IntegerForm : uint8_t {
  kPairs,    ///< [groups][panels][pairs of depth][columns of the panel][2], int8
  kBytes,    ///< [groups][vectors of columns] of byte_record_nbytes()
  kChains,   ///< [groups][vectors of columns] of chain_nbytes()
  kQuads,    ///< i32 sums of columns [groups][columns up to whole vectors], [groups][panels][quads][columns][4], int8
  kPatches,  ///< [groups][panels][points][pairs of channels][columns of the panel][2], int16
};

/// `quad_unit` of a matrix that is packed in quads: those of a tile where the processor multiplies tiles, or 1.
size_t unit_of_quads();

/// What rows that were quantized at the call give: sums times the scales of columns and rows, and the bias.
struct FloatResults {
  float* out;            ///< [rows, groups, columns], or nullptr: results are int8
  const int32_t* zeros;  ///< [rows]
  const float* scales;   ///< [rows]
  const float* bias;     ///< [groups, columns], or nullptr
  size_t step = 1;       ///< 0: zeros and scales have one number, for all rows
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();  ///< of results
};

/// A matrix in groups of rows; `depth` numbers of a window meet each of `columns` columns of a group.
struct IntegerProduct : RowConvolution {
  size_t groups, columns;
  IntegerForm form;  ///< before it is packed: kPatches, or one that the weights decide
  const char* packed;
  bool gives_floats;      ///< `scales` are the matrix's then
  const int32_t* biases;  ///< [groups][columns up to whole vectors]; of floats: what a row's zero point is times
  const float* scales;    ///< the same, in units of the output's
  /// Numbers of a run of a window, padded to whole quads; 0: a window's numbers have no gaps. Only kQuads has such.
  size_t padded_run = 0;
  size_t quad_unit = 1;  ///< a matrix in quads is padded to a multiple of so many; zeros meet what is beyond a row
  FloatResults floats;   ///< of a call

  size_t group_channels() const { return channels / groups; }
  /// Windows are rows of the image. (Of a transposed one they may be fewer, or stand beside it.)
  bool has_rows() const {
    return taps == 1 && groups == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0 && in_h == out_h &&
           in_w == out_w;
  }
  size_t depth() const { return taps * group_channels(); }
  size_t pairs() const { return (depth() + 1) / 2; }
  size_t group_pairs() const { return (group_channels() + 1) / 2; }
  /// Taps that stand side by side in the image, and how many such runs a window has.
  size_t run_taps() const { return dilation_w == 1 ? static_cast<size_t>(kernel_w) : 1; }
  size_t runs() const { return taps / run_taps(); }
  size_t quads() const {
    return padded_run == 0 ? (depth() + 4 * quad_unit - 1) / (4 * quad_unit) * quad_unit : runs() * padded_run / 4;
  }
};

/// One whose windows are rows of `depth` numbers.
inline IntegerProduct product_of_rows(size_t depth, size_t columns) {
  IntegerProduct p{};
  p.kernel_h = p.kernel_w = p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = 1;
  p.in_h = p.out_h = 1;
  p.taps = p.groups = 1;
  p.channels = depth;
  p.columns = columns;
  return p;
}

/// One row of the stride of a transposed filter, [in, out, kernel_h, kernel_w] in either order: the taps that results
/// meet whose rows are `row` beyond a multiple of the stride. It is a matrix of [stride_w, out] columns, whose windows
/// have taps() rows and columns; taps beyond the filter are 0.
struct StrideRow {
  size_t kernel_h, kernel_w, stride_h, stride_w, row;
  size_t out_channels;
  size_t in_step, out_step, h_step, w_step;  ///< elements between neighbours of the filter

  size_t taps_h() const { return row < kernel_h ? divide_up(kernel_h - row, stride_h) : 1; }
  size_t taps_w() const { return divide_up(kernel_w, stride_w); }
  /// [taps, channels] of a column.
  void read(const int8_t* filter, size_t column, size_t channels, int8_t* to) const;
  /// Names it among all rows of filters; sizes are at most kMost.
  static constexpr size_t kMost = 255;
  uint64_t key() const;
};

/// Where a constant matrix stands: [columns, depth], where depth is [taps, channels], or [channels, taps].
struct IntegerMatrix {
  const void* numbers;             ///< int8, or two columns of the depth a byte (numerics/nibbles.h)
  bool is_packed;                  ///< the latter
  bool has_channels_first;         ///< [channels, taps]
  const StrideRow* row = nullptr;  ///< of a transposed filter at `numbers`, which is not let go then
};

/// Decides whether windows that give `out` are multiplied as patches, and what kind of work the tables have for it.
void choose_form(const Tensor& out, IntegerProduct* product, ops::Work* work);

/// Packs the matrix of product's sizes once a Program, makes its biases and scales, and lets the matrix go. Errors:
/// NotSupported for a scale that is no number; MemoryAllocationFailed.
Error pack_integer_product(runtime::PrepareContext& context, const IntegerMatrix& matrix, IntegerProduct* product);

/// All of `rows` windows, on the threads of the context. Errors: MemoryAllocationFailed.
Error multiply_windows(KernelContext& context, const IntegerProduct& product, size_t rows);

}  // namespace et::kernels::optimized::quantized
