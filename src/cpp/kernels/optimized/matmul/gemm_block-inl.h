// The tiles of a block of a packed product (gemm.cpp, gemm_pairs.cpp), once for each target.

#if defined(ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H
#undef ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H
#else
#define ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H
#endif

#include <type_traits>

#include <hwy/highway.h>

#include "kernels/optimized/matmul/gemm_pairs.h"
#include "kernels/portable/arithmetic.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::matmul::HWY_NAMESPACE {

/// A tile of kTileRows x 2 vectors of sums, with the operands, fills the registers: 32 of 64 bytes or 16 of 32 bytes.
constexpr size_t kTileRows = HWY_MAX_BYTES >= 64 ? 12 : 6;

/// out[R, two vectors] (+)= left strip · right strip. `Operands` says how the strips' elements are multiplied: `kSteps`
/// of the depth at a time, `load` of a vector's columns, `broadcast` of a row's elements, `mul_add` of the two to the
/// sums.
template <class Operands, size_t R, class P, class T>
HWY_INLINE void multiply_tile(const P* left, const P* right, size_t depth, T* out, size_t out_stride, bool accumulate,
                              const T* row_bias) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kSteps = Operands::kSteps;
  const size_t lanes = hn::Lanes(d);
  V sum0[R], sum1[R];
#pragma GCC unroll 16
  for (size_t r = 0; r < R; ++r) {
    sum0[r] = sum1[r] = row_bias == nullptr ? hn::Zero(d) : hn::Set(d, row_bias[r]);
  }
  for (size_t k = 0; k < depth; k += kSteps) {
    const auto b0 = Operands::load(right);
    const auto b1 = Operands::load(right + kSteps * lanes);
#pragma GCC unroll 16
    for (size_t r = 0; r < R; ++r) {
      const auto a = Operands::broadcast(left + kSteps * r);
      sum0[r] = Operands::mul_add(a, b0, sum0[r]);
      sum1[r] = Operands::mul_add(a, b1, sum1[r]);
    }
    left += kSteps * kTileRows;
    right += 2 * kSteps * lanes;
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < R; ++r) {
    T* const to = out + r * out_stride;
    if (accumulate) {
      sum0[r] = hn::Add(sum0[r], hn::LoadU(d, to));
      sum1[r] = hn::Add(sum1[r], hn::LoadU(d, to + lanes));
    }
    hn::StoreU(sum0[r], d, to);
    hn::StoreU(sum1[r], d, to + lanes);
  }
}

/// multiply_tile of the rows that are left: all of a strip's, two thirds or a third of them.
template <class Operands, class P, class T>
HWY_INLINE void multiply_rows(size_t rows, const P* left, const P* right, size_t depth, T* out, size_t out_stride,
                              bool accumulate, const T* row_bias) {
  if (rows > kTileRows / 3 * 2) {
    multiply_tile<Operands, kTileRows>(left, right, depth, out, out_stride, accumulate, row_bias);
  } else if (rows > kTileRows / 3) {
    multiply_tile<Operands, kTileRows / 3 * 2>(left, right, depth, out, out_stride, accumulate, row_bias);
  } else {
    multiply_tile<Operands, kTileRows / 3>(left, right, depth, out, out_stride, accumulate, row_bias);
  }
}

template <class Operands, class T, class P>
HWY_INLINE void multiply_block(const GemmBlock<T, P>& block) {
  const size_t width = 2 * hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<T>());
  for (size_t c = 0; c < block.columns; c += width) {
    const P* const right = block.right + c * block.depth;
    const size_t columns = HWY_MIN(width, block.columns - c);
    for (size_t r = 0; r < block.rows; r += kTileRows) {
      const P* const left = block.left + r * block.depth;
      const size_t rows = HWY_MIN(kTileRows, block.rows - r);
      T* const out = block.out + r * block.out_stride + c;
      const T* const bias = block.row_bias == nullptr ? nullptr : block.row_bias + r;
      if (rows % (kTileRows / 3) == 0 && columns == width) {
        multiply_rows<Operands>(rows, left, right, block.depth, out, block.out_stride, block.accumulate, bias);
        continue;
      }
      HWY_ALIGN T tile[kTileRows * 2 * (HWY_MAX_BYTES / sizeof(T))];
      multiply_rows<Operands>(rows, left, right, block.depth, tile, width, false, static_cast<const T*>(nullptr));
      for (size_t i = 0; i < rows; ++i) {
        T* const to = out + i * block.out_stride;
        for (size_t j = 0; j < columns; ++j) {
          const T before = block.accumulate ? to[j] : bias != nullptr ? bias[i] : T(0);
          to[j] = portable::wrapping_add(tile[i * width + j], before);
        }
      }
    }
  }
}

}  // namespace et::kernels::optimized::matmul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
