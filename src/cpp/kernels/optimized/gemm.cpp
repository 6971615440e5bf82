#include "kernels/optimized/gemm.h"

#include "kernels/optimized/targets.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_GEMM_ONCE
#define ET_KERNELS_OPTIMIZED_GEMM_ONCE
namespace et::kernels::optimized {

/// Steps that are packed at a time: a strip of the right operand then fills most of the first cache.
inline constexpr size_t kDepthBlock = 256;
/// Rows and columns that are packed at a time: about 2 MiB each, whatever the size of the matrices.
inline constexpr size_t kPanel = 2048;

/// A block of the product from packed strips: rows of `left` strips, columns of `right` strips.
struct GemmBlock {
  const float* left;   // strips [depth, rows of a strip]
  const float* right;  // strips [depth, columns of a strip]
  size_t depth;
  size_t rows, columns;
  float* out;
  size_t out_stride;
  bool accumulate;
};

}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

// A tile of kRows x 2 vectors of sums, with the operands, fills the registers: 32 of 64 bytes or 16 of 32 bytes.
constexpr size_t kRows = hn::MaxLanes(Tag()) >= 16 ? 12 : 6;

size_t StripRows() { return kRows; }
size_t StripColumns() { return 2 * hn::Lanes(Tag()); }

/// out[kRows, two vectors] (+)= left strip · right strip.
HWY_INLINE void multiply_tile(const float* left, const float* right, size_t depth, float* out, size_t out_stride,
                              bool accumulate) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  V sum0[kRows], sum1[kRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    sum0[r] = hn::Zero(d);
    sum1[r] = hn::Zero(d);
  }
  for (size_t k = 0; k < depth; ++k) {
    const V b0 = hn::LoadU(d, right);
    const V b1 = hn::LoadU(d, right + lanes);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const V a = hn::Set(d, left[r]);
      sum0[r] = hn::MulAdd(a, b0, sum0[r]);
      sum1[r] = hn::MulAdd(a, b1, sum1[r]);
    }
    left += kRows;
    right += 2 * lanes;
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    float* const to = out + r * out_stride;
    if (accumulate) {
      sum0[r] = hn::Add(sum0[r], hn::LoadU(d, to));
      sum1[r] = hn::Add(sum1[r], hn::LoadU(d, to + lanes));
    }
    hn::StoreU(sum0[r], d, to);
    hn::StoreU(sum1[r], d, to + lanes);
  }
}

void MultiplyBlock(const GemmBlock& block) {
  const size_t width = StripColumns();
  for (size_t c = 0; c < block.columns; c += width) {
    const float* const right = block.right + c * block.depth;
    const size_t columns = HWY_MIN(width, block.columns - c);
    for (size_t r = 0; r < block.rows; r += kRows) {
      const float* const left = block.left + r * block.depth;
      const size_t rows = HWY_MIN(kRows, block.rows - r);
      float* const out = block.out + r * block.out_stride + c;
      if (rows == kRows && columns == width) {
        multiply_tile(left, right, block.depth, out, block.out_stride, block.accumulate);
        continue;
      }
      HWY_ALIGN float tile[kRows * 2 * hn::MaxLanes(Tag())];
      multiply_tile(left, right, block.depth, tile, width, false);
      for (size_t i = 0; i < rows; ++i) {
        float* const to = out + i * block.out_stride;
        for (size_t j = 0; j < columns; ++j) {
          to[j] = tile[i * width + j] + (block.accumulate ? to[j] : 0.0f);
        }
      }
    }
  }
}

template <class T>
void pack_strided(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
                  float* out) {
  const T* const from = static_cast<const T*>(matrix.data) + static_cast<int64_t>(k) * matrix.along +
                        static_cast<int64_t>(first) * matrix.across;
  if (matrix.across == 1) {
    for (size_t s = 0; s < depth; ++s) {
      const T* const line = from + static_cast<int64_t>(s) * matrix.along;
      for (size_t i = 0; i < count; ++i) {
        out[s * width + i] = static_cast<float>(line[i]);
      }
    }
  } else {
    // A few steps at a time, so that the lines of the strip stay in the cache while all its rows pass.
    constexpr size_t kSteps = 16;
    for (size_t start = 0; start < depth; start += kSteps) {
      const size_t end = HWY_MIN(depth, start + kSteps);
      for (size_t i = 0; i < count; ++i) {
        const T* const line = from + static_cast<int64_t>(i) * matrix.across;
        for (size_t s = start; s < end; ++s) {
          out[s * width + i] = static_cast<float>(line[static_cast<int64_t>(s) * matrix.along]);
        }
      }
    }
  }
  for (size_t s = 0; count < width && s < depth; ++s) {
    for (size_t i = count; i < width; ++i) {
      out[s * width + i] = 0.0f;
    }
  }
}

void PackStrided(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
                 float* out) {
  if (matrix.dtype == ScalarType::Float) {
    pack_strided<float>(matrix, k, depth, first, count, width, out);
  } else if (matrix.dtype == ScalarType::BFloat16) {
    pack_strided<BFloat16>(matrix, k, depth, first, count, width, out);
  } else {
    pack_strided<Half>(matrix, k, depth, first, count, width, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(StripRows);
HWY_EXPORT(StripColumns);
HWY_EXPORT(MultiplyBlock);
HWY_EXPORT(PackStrided);

namespace {

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

/// Packs strips of rows or columns [start, start + count) of an operand for steps [k, k + depth).
void pack_panel(threads::ThreadPool* pool, const GemmStrips& strips, size_t k, size_t depth, size_t start, size_t count,
                size_t width, float* out) {
  threads::parallel_for(pool, (count + width - 1) / width, threads::grain_for(2 * depth * width),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; ++i) {
                            const size_t first = i * width;
                            strips.pack(strips.state, k, depth, start + first, std::min(width, count - first), width,
                                        out + first * depth);
                          }
                        });
}

/// The product of two packed panels, in blocks that share what the second cache holds.
void multiply_panels(threads::ThreadPool* pool, const GemmBlock& panels, size_t strip_rows, size_t strip_columns) {
  const size_t block_rows = 8 * strip_rows;
  const size_t block_columns = 8 * strip_columns;
  const size_t down = (panels.rows + block_rows - 1) / block_rows;
  const size_t across = (panels.columns + block_columns - 1) / block_columns;
  const auto multiply_block = HWY_DYNAMIC_POINTER(MultiplyBlock);
  const size_t work = block_rows * block_columns * panels.depth / 16;  // a vector instruction does 16 products or so
  threads::parallel_for(pool, down * across, threads::grain_for(work), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t row = i % down * block_rows;
      const size_t column = i / down * block_columns;
      multiply_block({panels.left + row * panels.depth, panels.right + column * panels.depth, panels.depth,
                      std::min(block_rows, panels.rows - row), std::min(block_columns, panels.columns - column),
                      panels.out + row * panels.out_stride + column, panels.out_stride, panels.accumulate});
    }
  });
}

}  // namespace

Error multiply(KernelContext& context, const Gemm& gemm) {
  if (gemm.rows == 0 || gemm.columns == 0) {
    return Error::Ok;
  }
  if (gemm.depth == 0) {
    for (size_t r = 0; !gemm.accumulate && r < gemm.rows; ++r) {
      std::fill_n(gemm.out + r * gemm.out_stride, gemm.columns, 0.0f);
    }
    return Error::Ok;
  }
  const size_t strip_rows = HWY_DYNAMIC_DISPATCH(StripRows)();
  const size_t strip_columns = HWY_DYNAMIC_DISPATCH(StripColumns)();
  const size_t panel_rows = round_up(std::min(gemm.rows, kPanel), strip_rows);
  const size_t panel_columns = round_up(std::min(gemm.columns, kPanel), strip_columns);
  const size_t deepest = std::min(gemm.depth, kDepthBlock);
  ET_TRY(void* const memory, context.allocate_temp((panel_rows + panel_columns) * deepest * sizeof(float)));
  auto* const left = static_cast<float*>(memory);
  float* const right = left + panel_rows * deepest;
  for (size_t column = 0; column < gemm.columns; column += panel_columns) {
    const size_t columns = std::min(panel_columns, gemm.columns - column);
    for (size_t k = 0; k < gemm.depth; k += kDepthBlock) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "matrix product: cancelled");
      const size_t depth = std::min(kDepthBlock, gemm.depth - k);
      pack_panel(context.pool(), gemm.right, k, depth, column, columns, strip_columns, right);
      for (size_t row = 0; row < gemm.rows; row += panel_rows) {
        const size_t rows = std::min(panel_rows, gemm.rows - row);
        pack_panel(context.pool(), gemm.left, k, depth, row, rows, strip_rows, left);
        multiply_panels(context.pool(),
                        {left, right, depth, rows, columns, gemm.out + row * gemm.out_stride + column, gemm.out_stride,
                         gemm.accumulate || k > 0},
                        strip_rows, strip_columns);
      }
    }
  }
  return Error::Ok;
}

GemmStrips strips_of(const StridedMatrix& matrix) {
  static constexpr auto kPack = [](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                                   float* out) {
    HWY_DYNAMIC_DISPATCH(PackStrided)(*static_cast<const StridedMatrix*>(state), k, depth, first, count, width, out);
  };
  return {kPack, &matrix};
}

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
