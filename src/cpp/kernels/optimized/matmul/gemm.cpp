#include "kernels/optimized/matmul/gemm.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <type_traits>

#include "base/rounding.h"
#include "kernels/optimized/amx/gemm_tiles.h"
#include "kernels/optimized/amx/tiles.h"
#include "kernels/optimized/matmul/gemm_block-inl.h"
#include "kernels/optimized/matmul/gemm_pairs.h"
#include "kernels/optimized/vec/half-inl.h"
#include "kernels/portable/arithmetic.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_GEMM_ONCE
#define ET_KERNELS_OPTIMIZED_GEMM_ONCE
namespace et::kernels::optimized::matmul {

/// Rows and columns that are packed at a time: about 2 MiB each, whatever the size of the matrices.
inline constexpr size_t kPanel = 2048;

}  // namespace et::kernels::optimized::matmul
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::matmul::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;

size_t StripRows() { return kTileRows; }
size_t VectorBytes() { return hn::Lanes(Tag<uint8_t>()); }

template <class T>
struct Numbers {
  using V = hn::Vec<Tag<T>>;
  static constexpr size_t kSteps = 1;
  static HWY_INLINE V load(const T* right) { return hn::LoadU(Tag<T>(), right); }
  static HWY_INLINE V broadcast(const T* left) { return hn::Set(Tag<T>(), *left); }
  static HWY_INLINE V mul_add(V a, V b, V sum) {
    if constexpr (std::is_integral_v<T>) {
      return hn::Add(sum, hn::Mul(a, b));
    } else {
      return hn::MulAdd(a, b, sum);
    }
  }
};

void MultiplyFloat(const GemmBlock<float>& block) { multiply_block<Numbers<float>>(block); }
void MultiplyDouble(const GemmBlock<double>& block) { multiply_block<Numbers<double>>(block); }
void MultiplyInt(const GemmBlock<int32_t>& block) { multiply_block<Numbers<int32_t>>(block); }
void MultiplyLong(const GemmBlock<int64_t>& block) { multiply_block<Numbers<int64_t>>(block); }

template <class T, class To>
void pack_strided(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
                  To* out) {
  const T* const from = static_cast<const T*>(matrix.data) + static_cast<int64_t>(k) * matrix.along +
                        static_cast<int64_t>(first) * matrix.across;
  if (matrix.across == 1) {
    for (size_t s = 0; s < depth; ++s) {
      const T* const line = from + static_cast<int64_t>(s) * matrix.along;
      for (size_t i = 0; i < count; ++i) {
        out[s * width + i] = static_cast<To>(line[i]);
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
          out[s * width + i] = static_cast<To>(line[static_cast<int64_t>(s) * matrix.along]);
        }
      }
    }
  }
  for (size_t s = 0; count < width && s < depth; ++s) {
    for (size_t i = count; i < width; ++i) {
      out[s * width + i] = To(0);
    }
  }
}

/// As pack_strided for lines of Half, which vectors convert before they are written across.
void pack_half(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
               float* out) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kSteps = 64;
  float line[kSteps];
  for (size_t start = 0; start < depth; start += kSteps) {
    const size_t steps = HWY_MIN(kSteps, depth - start);
    for (size_t i = 0; i < count; ++i) {
      const Half* const from = static_cast<const Half*>(matrix.data) + static_cast<int64_t>(k + start) +
                               static_cast<int64_t>(first + i) * matrix.across;
      size_t s = 0;
      for (; s + lanes <= steps; s += lanes) {
        hn::StoreU(half_to_float(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from) + s)), d, line + s);
      }
      for (; s < steps; ++s) {
        line[s] = from[s];
      }
      for (s = 0; s < steps; ++s) {
        out[(start + s) * width + i] = line[s];
      }
    }
    for (size_t s = 0; count < width && s < steps; ++s) {
      for (size_t i = count; i < width; ++i) {
        out[(start + s) * width + i] = 0.0f;
      }
    }
  }
}

void PackFloat(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
               float* out) {
  if (matrix.dtype == ScalarType::Float) {
    pack_strided<float>(matrix, k, depth, first, count, width, out);
  } else if (matrix.dtype == ScalarType::BFloat16) {
    pack_strided<BFloat16>(matrix, k, depth, first, count, width, out);
  } else if (matrix.along == 1) {
    pack_half(matrix, k, depth, first, count, width, out);
  } else {
    pack_strided<Half>(matrix, k, depth, first, count, width, out);
  }
}

/// As GemmStripsOf::pack_pairs.
void PackPairs(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
               BFloat16* out) {
  const BFloat16* const from = static_cast<const BFloat16*>(matrix.data) + static_cast<int64_t>(k) * matrix.along +
                               static_cast<int64_t>(first) * matrix.across;
  const size_t pairs = depth / 2;
  if (matrix.across == 1) {
    for (size_t p = 0; p < pairs; ++p) {
      const BFloat16* const line = from + static_cast<int64_t>(2 * p) * matrix.along;
      pack_pair(line, line + matrix.along, count, out + 2 * p * width);
    }
  } else {
    constexpr size_t kSteps = 16;  // as above
    for (size_t start = 0; start < pairs; start += kSteps) {
      const size_t end = HWY_MIN(pairs, start + kSteps);
      for (size_t i = 0; i < count; ++i) {
        const BFloat16* const line = from + static_cast<int64_t>(i) * matrix.across;
        if (matrix.along == 1) {
          for (size_t p = start; p < end; ++p) {
            hwy::CopyBytes<2 * sizeof(BFloat16)>(line + 2 * p, out + 2 * (p * width + i));
          }
        } else {
          for (size_t p = start; p < end; ++p) {
            out[2 * (p * width + i)] = line[static_cast<int64_t>(2 * p) * matrix.along];
            out[2 * (p * width + i) + 1] = line[static_cast<int64_t>(2 * p + 1) * matrix.along];
          }
        }
      }
    }
  }
  for (size_t p = 0; count < width && p < pairs; ++p) {
    hwy::ZeroBytes(out + 2 * (p * width + count), 2 * (width - count) * sizeof(BFloat16));
  }
  if (depth % 2 != 0) {
    BFloat16* const last = out + 2 * pairs * width;
    hwy::ZeroBytes(last, 2 * width * sizeof(BFloat16));
    for (size_t i = 0; i < count; ++i) {
      last[2 * i] = from[static_cast<int64_t>(i) * matrix.across + static_cast<int64_t>(2 * pairs) * matrix.along];
    }
  }
}

void PackDouble(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
                double* out) {
  pack_strided<double>(matrix, k, depth, first, count, width, out);
}

void PackInt(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
             int32_t* out) {
  switch (matrix.dtype) {
    case ScalarType::Byte: pack_strided<uint8_t>(matrix, k, depth, first, count, width, out); break;
    case ScalarType::Char: pack_strided<int8_t>(matrix, k, depth, first, count, width, out); break;
    case ScalarType::Short: pack_strided<int16_t>(matrix, k, depth, first, count, width, out); break;
    default: pack_strided<int32_t>(matrix, k, depth, first, count, width, out); break;
  }
}

void PackLong(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width,
              int64_t* out) {
  pack_strided<int64_t>(matrix, k, depth, first, count, width, out);
}

}  // namespace et::kernels::optimized::matmul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::matmul {

HWY_EXPORT(StripRows);
HWY_EXPORT(VectorBytes);
HWY_EXPORT(PackPairs);

/// The compiled functions for sums of type T.
template <typename T>
struct GemmFunctions {
  void (*multiply_block)(const GemmBlock<T>& block);
  void (*pack)(const StridedMatrix& matrix, size_t k, size_t depth, size_t first, size_t count, size_t width, T* out);
};
template <typename T>
GemmFunctions<T> functions_for();
#define ET_GEMM(NAME, T)                                                           \
  HWY_EXPORT(Multiply##NAME);                                                      \
  HWY_EXPORT(Pack##NAME);                                                          \
  template <>                                                                      \
  GemmFunctions<T> functions_for<T>() {                                            \
    return {HWY_DYNAMIC_POINTER(Multiply##NAME), HWY_DYNAMIC_POINTER(Pack##NAME)}; \
  }
ET_GEMM(Float, float)
ET_GEMM(Double, double)
ET_GEMM(Int, int32_t)
ET_GEMM(Long, int64_t)
#undef ET_GEMM

namespace {

/// Packs strips of rows or columns [start, start + count) of an operand for steps [k, k + depth). `room`: steps of a
/// strip.
template <typename P, typename Pack>
void pack_panel(threads::ThreadPool* pool, Pack pack, const void* state, size_t k, size_t depth, size_t room,
                size_t start, size_t count, size_t width, P* out) {
  threads::parallel_for(
      pool, divide_up(count, width), threads::grain_for(2 * depth * width), [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          const size_t first = i * width;
          pack(state, k, depth, start + first, std::min(width, count - first), width, out + first * room);
        }
      });
}

/// The product of two packed panels, in blocks that share what the second cache holds.
template <typename T, typename P>
void multiply_panels(threads::ThreadPool* pool, void (*multiply_block)(const GemmBlock<T, P>& block),
                     const GemmBlock<T, P>& panels, size_t strip_rows, size_t strip_columns) {
  const size_t block_rows = 8 * strip_rows;
  const size_t block_columns = 8 * strip_columns;
  const size_t down = divide_up(panels.rows, block_rows);
  const size_t across = divide_up(panels.columns, block_columns);
  const size_t work = block_rows * block_columns * panels.depth / 16;  // a vector instruction does 16 products or so
  threads::parallel_for(pool, down * across, threads::grain_for(work), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t row = i % down * block_rows;
      const size_t column = i / down * block_columns;
      multiply_block({panels.left + row * panels.depth, panels.right + column * panels.depth, panels.depth,
                      std::min(block_rows, panels.rows - row), std::min(block_columns, panels.columns - column),
                      panels.out + row * panels.out_stride + column, panels.out_stride, panels.accumulate,
                      panels.row_bias == nullptr ? nullptr : panels.row_bias + row});
    }
  });
}

/// Steps that are packed at a time: a strip of the right operand then fills most of the first cache.
template <typename P>
constexpr size_t kDepthBlock = sizeof(P) < 4 ? 512 : 256;

/// Rows and columns of the strips that a function for blocks takes.
struct StripSizes {
  size_t rows, columns;

  /// Of vectors with elements of so many bytes.
  static StripSizes of_vectors(size_t bytes) {
    return {HWY_DYNAMIC_DISPATCH(StripRows)(), 2 * HWY_DYNAMIC_DISPATCH(VectorBytes)() / bytes};
  }
};

/// As multiply(), of operands that are packed as elements of type P, `unit` steps at a time.
template <typename P, size_t unit, typename T, typename PackLeft, typename PackRight>
Error multiply_packed(KernelContext& context, const GemmOf<T>& gemm, StripSizes strips, PackLeft pack_left,
                      PackRight pack_right, void (*multiply_block)(const GemmBlock<T, P>& block)) {
  constexpr size_t kDepthBlock = matmul::kDepthBlock<P>;
  const size_t strip_rows = strips.rows, strip_columns = strips.columns;
  const size_t panel_rows = round_up(std::min(gemm.rows, kPanel), strip_rows);
  const size_t panel_columns = round_up(std::min(gemm.columns, kPanel), strip_columns);
  const size_t deepest = round_up(std::min(gemm.depth, kDepthBlock), unit);
  ET_TRY(void* const memory, context.allocate_temp((panel_rows + panel_columns) * deepest * sizeof(P)));
  auto* const left = static_cast<P*>(memory);
  P* const right = left + panel_rows * deepest;
  for (size_t column = 0; column < gemm.columns; column += panel_columns) {
    const size_t columns = std::min(panel_columns, gemm.columns - column);
    for (size_t k = 0; k < gemm.depth; k += kDepthBlock) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "matrix product: cancelled");
      const size_t depth = std::min(kDepthBlock, gemm.depth - k);
      const size_t room = round_up(depth, unit);
      pack_panel(context.pool(), pack_right, gemm.right.state, k, depth, room, column, columns, strip_columns, right);
      for (size_t row = 0; row < gemm.rows; row += panel_rows) {
        const size_t rows = std::min(panel_rows, gemm.rows - row);
        pack_panel(context.pool(), pack_left, gemm.left.state, k, depth, room, row, rows, strip_rows, left);
        multiply_panels<T, P>(
            context.pool(), multiply_block,
            {left, right, room, rows, columns, gemm.out + row * gemm.out_stride + column, gemm.out_stride,
             gemm.accumulate || k > 0, gemm.row_bias == nullptr || k > 0 ? nullptr : gemm.row_bias + row},
            strip_rows, strip_columns);
      }
    }
  }
  return Error::Ok;
}

/// Operands of BFloat16 as multiply_tile_block takes them.
Error multiply_by_tiles(KernelContext& context, const Gemm& gemm) {
  // Zeros in the steps behind `depth`, up to whole tiles.
  const auto fill = [](size_t depth, size_t width, BFloat16* out) {
    const size_t filled = round_up(depth, 2);
    std::fill(out + filled * width, out + round_up(depth, amx::kTileSteps) * width, BFloat16(0));
  };
  const auto pack_left = [&](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                             BFloat16* out) {
    const size_t room = round_up(depth, amx::kTileSteps);
    if (gemm.left.pack_rows != nullptr) {
      return gemm.left.pack_rows(state, k, depth, first, count, width, room, out);
    }
    alignas(64) BFloat16 pairs[kDepthBlock<BFloat16> * amx::kTileStripRows];
    gemm.left.pack_pairs(state, k, depth, first, count, width, pairs);
    fill(depth, width, pairs);
    transpose_pairs(pairs, room / 2, width, out);
  };
  const auto pack_right = [&](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                              BFloat16* out) {
    const size_t room = round_up(depth, amx::kTileSteps);
    if (gemm.right.pack_rows == nullptr) {
      gemm.right.pack_pairs(state, k, depth, first, count, width, out);
      return fill(depth, width, out);
    }
    alignas(64) BFloat16 rows[kDepthBlock<BFloat16> * amx::kTileStripColumns];
    gemm.right.pack_rows(state, k, depth, first, count, width, room, rows);
    transpose_pairs(rows, width, room / 2, out);
  };
  return multiply_packed<BFloat16, amx::kTileSteps>(context, gemm, {amx::kTileStripRows, amx::kTileStripColumns},
                                                    pack_left, pack_right, &amx::multiply_tile_block);
}

}  // namespace

template <typename T>
Error multiply(KernelContext& context, const GemmOf<T>& gemm) {
  if (gemm.rows == 0 || gemm.columns == 0) {
    return Error::Ok;
  }
  if (gemm.depth == 0) {
    for (size_t r = 0; !gemm.accumulate && r < gemm.rows; ++r) {
      std::fill_n(gemm.out + r * gemm.out_stride, gemm.columns, gemm.row_bias == nullptr ? T(0) : gemm.row_bias[r]);
    }
    return Error::Ok;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (gemm.left.pack_pairs != nullptr && gemm.right.pack_pairs != nullptr) {
      if (const MultiplyPairs multiply_block = pairs_function()) {
        return amx::has_bfloat16_tiles()
                   ? multiply_by_tiles(context, gemm)
                   : multiply_packed<BFloat16, 2>(context, gemm, StripSizes::of_vectors(sizeof(float)),
                                                  gemm.left.pack_pairs, gemm.right.pack_pairs, multiply_block);
      }
    }
  }
  return multiply_packed<T, 1>(context, gemm, StripSizes::of_vectors(sizeof(T)), gemm.left.pack, gemm.right.pack,
                               functions_for<T>().multiply_block);
}

/// As GemmStripsOf::pack_rows.
static void pack_contiguous(const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                            size_t room, BFloat16* out) {
  const auto& matrix = *static_cast<const StridedMatrix*>(state);
  const BFloat16* const from =
      static_cast<const BFloat16*>(matrix.data) + static_cast<int64_t>(first) * matrix.across + k;
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(from + static_cast<int64_t>(i) * matrix.across, depth, out + i * room);
    std::fill_n(out + i * room + depth, room - depth, BFloat16(0));
  }
  std::fill_n(out + count * room, (width - count) * room, BFloat16(0));
}

template <typename T>
GemmStripsOf<T> strips_for(const StridedMatrix& matrix) {
  static constexpr auto kPack = [](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                                   T* out) {
    functions_for<T>().pack(*static_cast<const StridedMatrix*>(state), k, depth, first, count, width, out);
  };
  GemmStripsOf<T> strips{kPack, &matrix};
  if (matrix.dtype == ScalarType::BFloat16) {
    strips.pack_pairs = [](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                           BFloat16* out) {
      HWY_DYNAMIC_DISPATCH(PackPairs)(*static_cast<const StridedMatrix*>(state), k, depth, first, count, width, out);
    };
    if (matrix.along == 1) {
      strips.pack_rows = &pack_contiguous;
    }
  }
  return strips;
}

#define ET_INSTANTIATE(T)                                                     \
  template Error multiply<T>(KernelContext & context, const GemmOf<T>& gemm); \
  template GemmStripsOf<T> strips_for<T>(const StridedMatrix& matrix);
ET_INSTANTIATE(float)
ET_INSTANTIATE(double)
ET_INSTANTIATE(int32_t)
ET_INSTANTIATE(int64_t)
#undef ET_INSTANTIATE

}  // namespace et::kernels::optimized::matmul
#endif  // HWY_ONCE
