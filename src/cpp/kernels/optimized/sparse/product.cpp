#include "kernels/optimized/sparse/product.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/optimized/vec/transpose4-inl.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_SPARSE_PRODUCT_ONCE
#define ET_KERNELS_OPTIMIZED_SPARSE_PRODUCT_ONCE
namespace et::kernels::optimized::sparse {

/// Some rows of the weight times one packed strip.
struct SparseStrip {
  const SparseProduct* product;
  const float* right;   // [columns, width]
  size_t width;         // 1, 2 or 4 vectors
  size_t first, count;  // positions, count <= width
};

/// Rows that are kept back until they can be written position by position.
inline constexpr size_t kHeldRows = 16;

}  // namespace et::kernels::optimized::sparse
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::sparse::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

size_t VectorLanes() { return hn::Lanes(Tag()); }

/// to[kVectors] = limit(bias + sum of values[i] * right[columns[i]]), i < count. Two sums a vector hide an addition's
/// latency where one vector alone would wait for it.
template <size_t kVectors>
HWY_INLINE void sum_row(const float* values, const uint32_t* columns, size_t count, const float* right, float bias,
                        float min, float max, float* to) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const size_t width = kVectors * lanes;
  V even[kVectors], odd[kVectors];
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) {
    even[v] = hn::Set(d, bias);
    odd[v] = hn::Zero(d);
  }
  size_t i = 0;
  for (; i + 2 <= count; i += 2) {
    const V w0 = hn::Set(d, values[i]);
    const V w1 = hn::Set(d, values[i + 1]);
    const float* const x0 = right + columns[i] * width;
    const float* const x1 = right + columns[i + 1] * width;
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      even[v] = hn::MulAdd(w0, hn::LoadU(d, x0 + v * lanes), even[v]);
      odd[v] = hn::MulAdd(w1, hn::LoadU(d, x1 + v * lanes), odd[v]);
    }
  }
  if (i < count) {
    const V w0 = hn::Set(d, values[i]);
    const float* const x0 = right + columns[i] * width;
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      even[v] = hn::MulAdd(w0, hn::LoadU(d, x0 + v * lanes), even[v]);
    }
  }
  const V low = hn::Set(d, min);
  const V high = hn::Set(d, max);
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) {
    // Comparisons with a NaN are false, so that it stays.
    V sum = hn::Add(even[v], odd[v]);
    sum = hn::IfThenElse(hn::Lt(sum, low), low, sum);
    sum = hn::IfThenElse(hn::Gt(sum, high), high, sum);
    hn::StoreU(sum, d, to + v * lanes);
  }
}

/// to[p, r] = from[r, p] for r < rows, p < count.
HWY_INLINE void store_transposed(const float* from, size_t width, size_t rows, size_t count, float* to,
                                 size_t position_stride) {
  size_t p = 0;
  for (; p + 4 <= count; p += 4) {
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      transpose4(reinterpret_cast<const char*>(from + r * width + p),
                 reinterpret_cast<char*>(to + p * position_stride + r), static_cast<int64_t>(width * sizeof(float)),
                 static_cast<int64_t>(position_stride * sizeof(float)));
    }
    for (; r < rows; ++r) {
      for (size_t i = 0; i < 4; ++i) {
        to[(p + i) * position_stride + r] = from[r * width + p + i];
      }
    }
  }
  for (; p < count; ++p) {
    for (size_t r = 0; r < rows; ++r) {
      to[p * position_stride + r] = from[r * width + p];
    }
  }
}

template <size_t kVectors>
void some_rows(const SparseStrip& strip, size_t begin, size_t end) {
  const SparseProduct& p = *strip.product;
  const SparseMatrix& left = *p.left;
  const auto* const values = static_cast<const float*>(left.weight.values);
  const size_t width = strip.width;
  const bool direct = p.position_stride == 1 && strip.count == width;
  HWY_ALIGN float held[kHeldRows * 4 * hn::MaxLanes(Tag())];
  for (size_t r = begin; r < end; r += kHeldRows) {
    const size_t rows = HWY_MIN(kHeldRows, end - r);
    for (size_t i = 0; i < rows; ++i) {
      const size_t start = left.starts[p.first_row + r + i];
      const size_t count = left.starts[p.first_row + r + i + 1] - start;
      float* const to = direct ? p.out + (r + i) * p.row_stride + strip.first : held + i * width;
      sum_row<kVectors>(values + start, left.columns + start, count, strip.right,
                        p.bias == nullptr ? 0.0f : p.bias[r + i], p.min, p.max, to);
    }
    if (direct) {
      continue;
    }
    if (p.position_stride != 1) {
      store_transposed(held, width, rows, strip.count, p.out + strip.first * p.position_stride + r, p.position_stride);
      continue;
    }
    for (size_t i = 0; i < rows; ++i) {
      float* const to = p.out + (r + i) * p.row_stride + strip.first;
      for (size_t k = 0; k < strip.count; ++k) {
        to[k] = held[i * width + k];
      }
    }
  }
}

void MultiplyStrip(const SparseStrip& strip, size_t begin, size_t end) {
  switch (strip.width / hn::Lanes(Tag())) {
    case 1: return some_rows<1>(strip, begin, end);
    case 2: return some_rows<2>(strip, begin, end);
    default: return some_rows<4>(strip, begin, end);
  }
}

void PackRows(const matmul::StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
              float* out) {
  const float* const from =
      static_cast<const float*>(matrix.data) + static_cast<int64_t>(first) * matrix.across + static_cast<int64_t>(k);
  const auto across = static_cast<size_t>(matrix.across);
  const auto row = static_cast<int64_t>(across * sizeof(float));
  const auto step = static_cast<int64_t>(width * sizeof(float));
  size_t s = 0;
  // Few steps at a time: their lines stay in the first cache while all positions pass.
  for (; s + 4 <= depth; s += 4) {
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      transpose4(reinterpret_cast<const char*>(from + i * across + s), reinterpret_cast<char*>(out + s * width + i),
                 row, step);
    }
    for (; i < width; ++i) {
      for (size_t j = 0; j < 4; ++j) {
        out[(s + j) * width + i] = i < count ? from[i * across + s + j] : 0.0f;
      }
    }
  }
  for (; s < depth; ++s) {
    for (size_t i = 0; i < width; ++i) {
      out[s * width + i] = i < count ? from[i * across + s] : 0.0f;
    }
  }
}

/// Dot products of rows [begin, end) of the weight with kX rows x.
template <size_t kX>
HWY_INLINE void some_dots(const SparseDots& p, size_t begin, size_t end) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const SparseWeight& w = p.left->weight;
  const float* value = static_cast<const float*>(w.values) + p.left->starts[begin];
  // A vector that begins before this can be read whole.
  const float* const whole =
      static_cast<const float*>(w.values) + (w.num_values < lanes ? 0 : w.num_values - lanes + 1);
  const float* const behind = static_cast<const float*>(w.values) + w.num_values;
  const uint64_t ones = lanes >= 64 ? ~uint64_t{0} : (uint64_t{1} << lanes) - 1;
  const auto spread = [&](uint64_t bits) HWY_ATTR {
    const auto mask = hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(&bits));
    const V dense = HWY_LIKELY(value < whole)
                        ? hn::LoadExpand(mask, d, value)
                        : hn::Expand(hn::LoadN(d, value, static_cast<size_t>(behind - value)), mask);
    value += hwy::PopCount(bits);
    return dense;
  };
  for (size_t r = begin; r < end; ++r) {
    const uint64_t* const mask = w.mask + r * w.words;
    V even[kX], odd[kX];
    for (size_t i = 0; i < kX; ++i) {
      even[i] = odd[i] = hn::Zero(d);
    }
    size_t column = 0;
    for (size_t j = 0; j < w.words; ++j, column += 64) {
      uint64_t word = mask[j];
      if (column + 64 <= w.columns) {
        for (size_t c = 0; c < 64; c += 2 * lanes, word >>= lanes) {
          const V first = spread(word & ones);
          word >>= lanes;
          const V second = spread(word & ones);
          for (size_t i = 0; i < kX; ++i) {
            const float* const x = p.x + i * w.columns + column + c;
            even[i] = hn::MulAdd(first, hn::LoadU(d, x), even[i]);
            odd[i] = hn::MulAdd(second, hn::LoadU(d, x + lanes), odd[i]);
          }
        }
        continue;
      }
      for (size_t c = column; c < w.columns; c += lanes, word >>= lanes) {
        const V dense = spread(word & ones);
        for (size_t i = 0; i < kX; ++i) {
          even[i] = hn::MulAdd(dense, hn::LoadN(d, p.x + i * w.columns + c, HWY_MIN(lanes, w.columns - c)), even[i]);
        }
      }
    }
    for (size_t i = 0; i < kX; ++i) {
      float sum = hn::ReduceSum(d, hn::Add(even[i], odd[i])) + (p.bias == nullptr ? 0.0f : p.bias[r]);
      sum = sum < p.min ? p.min : sum;
      p.out[i * w.rows + r] = sum > p.max ? p.max : sum;
    }
  }
}

void Dots(const SparseDots& dots, size_t begin, size_t end) {
  switch (dots.positions) {
    case 1: return some_dots<1>(dots, begin, end);
    case 2: return some_dots<2>(dots, begin, end);
    case 3: return some_dots<3>(dots, begin, end);
    default: return some_dots<4>(dots, begin, end);
  }
}

}  // namespace et::kernels::optimized::sparse::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::sparse {

HWY_EXPORT(VectorLanes);
HWY_EXPORT(MultiplyStrip);
HWY_EXPORT(PackRows);
HWY_EXPORT(Dots);

namespace {

/// Positions of a strip: as many vectors as leave the packed strip in the first caches.
size_t strip_width(size_t columns, size_t positions) {
  constexpr size_t kStripFloats = 16384;
  const size_t lanes = HWY_DYNAMIC_DISPATCH(VectorLanes)();
  size_t vectors = 4;
  while (vectors > 1 && (vectors * lanes * columns > kStripFloats || vectors * lanes >= 2 * positions)) {
    vectors /= 2;
  }
  return vectors * lanes;
}

void pack(const SparseProduct& product, SparseStrip& strip, float* memory) {
  product.right.pack(product.right.state, 0, product.left->weight.columns, strip.first, strip.count, strip.width,
                     memory);
  strip.right = memory;
}

/// Each task packs strips of its own, one after the other, and multiplies all rows by them.
Error share_positions(KernelContext& context, const SparseProduct& product, size_t width, size_t tasks) {
  const size_t strips = divide_up(product.positions, width);
  const size_t strip_floats = product.left->weight.columns * width;
  ET_TRY(void* const memory, context.allocate_temp(tasks * strip_floats * sizeof(float)));
  const auto multiply = HWY_DYNAMIC_POINTER(MultiplyStrip);
  threads::parallel_tasks(context.pool(), tasks, [&](size_t task) {
    float* const packed = static_cast<float*>(memory) + task * strip_floats;
    for (size_t i = strips * task / tasks; i < strips * (task + 1) / tasks && !context.cancelled(); ++i) {
      SparseStrip strip{&product, nullptr, width, i * width, std::min(width, product.positions - i * width)};
      pack(product, strip, packed);
      multiply(strip, 0, product.rows);
    }
  });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "sparse product: cancelled");
  return Error::Ok;
}

/// One strip at a time for all threads, which share the rows.
Error share_rows(KernelContext& context, const SparseProduct& product, size_t width) {
  const size_t columns = product.left->weight.columns;
  ET_TRY(void* const memory, context.allocate_temp(columns * width * sizeof(float)));
  const auto multiply = HWY_DYNAMIC_POINTER(MultiplyStrip);
  const size_t blocks = divide_up(product.rows, kHeldRows);
  const size_t work = product.left->weight.num_values / product.left->weight.rows * kHeldRows * width / 16;
  for (size_t first = 0; first < product.positions; first += width) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "sparse product: cancelled");
    SparseStrip strip{&product, nullptr, width, first, std::min(width, product.positions - first)};
    pack(product, strip, static_cast<float*>(memory));
    threads::parallel_for(context, blocks, threads::grain_for(work), [&](size_t begin, size_t end) {
      multiply(strip, begin * kHeldRows, std::min(end * kHeldRows, product.rows));
    });
  }
  return Error::Ok;
}

}  // namespace

Error make_sparse_matrix(runtime::PrepareContext& context, const SparseWeight& weight, bool only_dots,
                         SparseMatrix* out) {
  ET_TRY(
      void* const memory,
      context.allocate((weight.rows + 1 + (only_dots ? 0 : weight.num_values)) * sizeof(uint32_t), alignof(uint32_t)));
  auto* const starts = static_cast<uint32_t*>(memory);
  uint32_t* const columns = starts + weight.rows + 1;
  uint32_t next = 0;
  for (size_t r = 0; r < weight.rows; ++r) {
    starts[r] = next;
    for (size_t j = 0; j < weight.words; ++j) {
      uint64_t bits = weight.mask[r * weight.words + j];
      if (only_dots) {
        next += static_cast<uint32_t>(count_ones(bits));
        continue;
      }
      for (; bits != 0; bits &= bits - 1) {
        columns[next++] = static_cast<uint32_t>(64 * j) + static_cast<uint32_t>(__builtin_ctzll(bits));
      }
    }
  }
  starts[weight.rows] = next;
  *out = {weight, starts, only_dots ? nullptr : columns};
  return Error::Ok;
}

Error multiply_sparse(KernelContext& context, const SparseProduct& product) {
  if (product.rows == 0 || product.positions == 0) {
    return Error::Ok;
  }
  const size_t width = strip_width(product.left->weight.columns, product.positions);
  const size_t strips = divide_up(product.positions, width);
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t work = product.left->weight.num_values * product.positions / 16;
  if (threads == 1 || work < threads::kGrainElements) {
    return share_positions(context, product, width, 1);
  }
  if (strips >= threads) {
    return share_positions(context, product, width, std::min(strips, 2 * threads));
  }
  return share_rows(context, product, width);
}

void dot_sparse(KernelContext& context, const SparseDots& dots) {
  const SparseWeight& weight = dots.left->weight;
  const auto rows = HWY_DYNAMIC_POINTER(Dots);
  threads::parallel_for(context, weight.rows, threads::grain_for(weight.columns * dots.positions / 2),
                        [&](size_t begin, size_t end) { rows(dots, begin, end); });
}

matmul::GemmStrips strips_of_rows(const matmul::StridedMatrix& matrix) {
  static constexpr auto kPack = [](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                                   float* out) {
    HWY_DYNAMIC_DISPATCH(PackRows)(*static_cast<const matmul::StridedMatrix*>(state), k, depth, first, count, width,
                                   out);
  };
  return {kPack, &matrix};
}

}  // namespace et::kernels::optimized::sparse
#endif  // HWY_ONCE
