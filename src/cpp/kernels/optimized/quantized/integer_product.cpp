#include "kernels/optimized/quantized/integer_product.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "kernels/optimized/quantized/output-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"
#include "numerics/nibbles.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_INTEGER_PRODUCT_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_INTEGER_PRODUCT_ONCE
namespace et::kernels::optimized::quantized {

constexpr size_t kPanelVectors = 2;
/// Rows that are worth a copy of a panel in 16 bits; fewer widen its weights as they meet them.
constexpr size_t kRowsOfACopy = 16;

/// A part of a call: windows of one group as rows of 16 bits, and some of the panels that they meet.
struct IntegerBlock {
  size_t group, first_row, rows, begin, end;
  int16_t* x;      // [rows, stride]
  size_t stride;   // numbers
  int16_t* panel;  // a copy
};

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using SumTag = hn::ScalableTag<int32_t>;
using WideTag = hn::Repartition<int16_t, SumTag>;

/// Sums, a row's pair, two vectors of weights and a product stand in registers; with one row more of AVX2's sixteen a
/// sum would go through memory.
constexpr size_t kTileRows = hn::MaxLanes(SumTag()) >= 16 ? 8 : 5;

size_t IntegerLanes() { return hn::Lanes(SumTag()); }

/// to[i] = from[i] - zero
HWY_INLINE void widen(const int8_t* from, size_t n, int16_t zero, int16_t* to) {
  const WideTag d;
  const hn::Rebind<int8_t, WideTag> db;
  const size_t lanes = hn::Lanes(d);
  const auto less = hn::Set(d, zero);
  if (n < lanes) {
    for (size_t i = 0; i < n; ++i) {
      to[i] = static_cast<int16_t>(from[i] - zero);
    }
    return;
  }
  for (size_t i = 0; i < n; i += lanes) {
    i = HWY_MIN(i, n - lanes);  // the last vector overlaps the one before
    hn::StoreU(hn::Sub(hn::PromoteTo(d, hn::LoadU(db, from + i)), less), d, to + i);
  }
}

/// The windows of rows [first_row, first_row + rows).
void IntegerRows(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t channels = p.group_channels(), depth = p.depth();
  const auto zero = static_cast<int16_t>(p.input_zero_point);
  const auto pixel = static_cast<int64_t>(p.channels);
  const bool joins = p.dilation_w == 1 && p.groups == 1;  // pixels of a row of a window stand side by side
  for (size_t r = 0; r < block.rows; ++r) {
    int16_t* to = block.x + r * block.stride;
    std::fill(to + depth, to + depth + depth % 2, int16_t{0});
    const auto row = static_cast<int64_t>(block.first_row + r);
    const int64_t y = row / p.out_w, top = y % p.out_h * p.stride_h - p.pad_h;
    const int64_t left = row % p.out_w * p.stride_w - p.pad_w;
    const int8_t* const image = p.in + y / p.out_h * p.in_h * p.in_w * pixel + block.group * channels;
    for (int64_t i = 0; i < p.kernel_h; ++i) {
      const int64_t in_y = top + i * p.dilation_h;
      const int64_t begin = joins ? std::min(std::max<int64_t>(-left, 0), p.kernel_w) : 0;
      const int64_t end = joins ? std::max(std::min(p.in_w - left, p.kernel_w), begin) : 0;
      const size_t width = static_cast<size_t>(p.kernel_w) * channels;
      if (in_y < 0 || in_y >= p.in_h) {
        std::fill(to, to + width, int16_t{0});
      } else if (joins) {
        const size_t before = static_cast<size_t>(begin) * channels, behind = static_cast<size_t>(end) * channels;
        std::fill(to, to + before, int16_t{0});
        if (before < behind) {
          widen(image + (in_y * p.in_w + left + begin) * pixel, behind - before, zero, to + before);
        }
        std::fill(to + behind, to + width, int16_t{0});
      } else {
        for (int64_t j = 0; j < p.kernel_w; ++j) {
          const int64_t in_x = left + j * p.dilation_w;
          int16_t* const tap = to + static_cast<size_t>(j) * channels;
          if (in_x < 0 || in_x >= p.in_w) {
            std::fill(tap, tap + channels, int16_t{0});
          } else {
            widen(image + (in_y * p.in_w + in_x) * pixel, channels, zero, tap);
          }
        }
      }
      to += width;
    }
  }
}

HWY_INLINE hn::Vec<WideTag> load_weights(const int8_t* from) {
  return hn::PromoteTo(WideTag(), hn::LoadU(hn::Rebind<int8_t, WideTag>(), from));
}
HWY_INLINE hn::Vec<WideTag> load_weights(const int16_t* from) { return hn::LoadU(WideTag(), from); }

/// kRows rows times kVectors vectors of columns, of which the last `left` columns count.
template <size_t kRows, size_t kVectors, class W>
HWY_INLINE void multiply_tile(const IntegerProduct& p, const int16_t* x, size_t stride, const W* weights, size_t column,
                              size_t left, int8_t* out, size_t out_stride) {
  const SumTag d;
  const WideTag d16;
  const hn::Rebind<int8_t, SumTag> d_out;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<SumTag> sums[kRows * kVectors];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      sums[r * kVectors + v] = hn::LoadU(d, p.biases + column + v * lanes);
    }
  }
  const size_t pairs = p.pairs();
  for (size_t k = 0; k < pairs; ++k) {
    hn::Vec<WideTag> w[kVectors];
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      w[v] = load_weights(weights + 2 * v * lanes);
    }
    weights += 2 * kVectors * lanes;
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, x + r * stride, sizeof(pair));
      const auto both = hn::BitCast(d16, hn::Set(d, pair));
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        auto& sum = sums[r * kVectors + v];
        sum = hn::Add(sum, hn::WidenMulPairwiseAdd(d, both, w[v]));
      }
    }
    x += 2;
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      const auto units = to_output(d, p, sums[r * kVectors + v], p.scales + column + v * lanes);
      const auto integers = hn::DemoteTo(d_out, units);
      int8_t* const to = out + r * out_stride + v * lanes;
      v + 1 < kVectors || left == lanes ? hn::StoreU(integers, d_out, to) : hn::StoreN(integers, d_out, to, left);
    }
  }
}

/// All rows of a block times a panel, in as few tiles as possible, whose heights differ by one at most.
template <size_t kVectors, class W>
void multiply_panel(const IntegerProduct& p, const IntegerBlock& block, const W* weights, size_t column, size_t left,
                    int8_t* out) {
  const size_t out_stride = p.groups * p.columns;
  for_even_tiles<kTileRows>(block.rows, [&](auto height, size_t row) HWY_ATTR {
    multiply_tile<decltype(height)::value, kVectors>(p, block.x + row * block.stride, block.stride, weights, column,
                                                     left, out + row * out_stride, out_stride);
  });
}

template <size_t kVectors>
void multiply_panel(const IntegerProduct& p, const IntegerBlock& block, const int8_t* weights, size_t column,
                    size_t left, int8_t* out) {
  if (block.rows < kRowsOfACopy) {
    multiply_panel<kVectors, int8_t>(p, block, weights, column, left, out);
    return;
  }
  widen(weights, p.pairs() * 2 * kVectors * IntegerLanes(), 0, block.panel);
  multiply_panel<kVectors, int16_t>(p, block, block.panel, column, left, out);
}

/// Panels [begin, end) of a block's group.
void IntegerPanels(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t lanes = IntegerLanes(), wide = kPanelVectors * lanes;
  const size_t padded = (p.columns + lanes - 1) / lanes * lanes, depth = 2 * p.pairs();
  for (size_t panel = block.begin; panel < block.end; ++panel) {
    const size_t first = panel * wide, count = HWY_MIN(wide, p.columns - first);
    const int8_t* const weights = p.weights + (block.group * padded + first) * depth;
    int8_t* const out = p.out + (block.first_row * p.groups + block.group) * p.columns + first;
    const size_t column = block.group * padded + first;
    count > lanes ? multiply_panel<2>(p, block, weights, column, count - lanes, out)
                  : multiply_panel<1>(p, block, weights, column, count, out);
  }
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(IntegerLanes);
HWY_EXPORT(IntegerPanels);
HWY_EXPORT(IntegerRows);

namespace {

constexpr char kMaker = 0;  // its address names our entries in the shared cache

struct Packing {
  const IntegerProduct* product;
  const IntegerMatrix* matrix;
  size_t lanes;

  size_t columns() const { return (product->columns + lanes - 1) / lanes * lanes; }  // of a group
  /// One column of the matrix in the order of a window.
  void read(size_t column, int8_t* buffer, int8_t* to) const {
    const size_t depth = product->depth(), taps = product->taps, channels = product->group_channels();
    const int8_t* from = static_cast<const int8_t*>(matrix->numbers) + column * depth;
    if (matrix->is_packed) {
      unpack_nibbles(static_cast<const uint8_t*>(matrix->numbers) + column * packed_count(depth), depth, buffer);
      from = buffer;
    }
    for (size_t t = 0; t < taps; ++t) {
      for (size_t c = 0; c < channels; ++c) {
        to[t * channels + c] = from[matrix->has_channels_first ? c * taps + t : t * channels + c];
      }
    }
  }
};

Result<void*> pack(void* argument) {
  const auto& packing = *static_cast<const Packing*>(argument);
  const IntegerProduct& p = *packing.product;
  const size_t lanes = packing.lanes, wide = kPanelVectors * lanes, depth = 2 * p.pairs();
  const size_t nbytes = p.groups * packing.columns() * depth;
  void* memory = nullptr;
  const std::unique_ptr<int8_t, decltype(&std::free)> column(static_cast<int8_t*>(std::calloc(2, depth)), &std::free);
  if (column == nullptr || posix_memalign(&memory, 64, nbytes) != 0) {
    ET_LOG_ERROR("no memory for a matrix of %zu integers", nbytes);
    return Error::MemoryAllocationFailed;
  }
  auto* const packed = static_cast<int8_t*>(memory);
  std::fill_n(packed, nbytes, int8_t{0});
  for (size_t n = 0; n < p.groups * p.columns; ++n) {
    packing.read(n, column.get() + depth, column.get());
    const size_t of_group = n % p.columns, first = of_group / wide * wide;
    const size_t width = std::min(wide, packing.columns() - first);
    int8_t* const to = packed + (n / p.columns * packing.columns() + first) * depth + of_group % wide * 2;
    for (size_t k = 0; k < depth; ++k) {
      to[k / 2 * 2 * width + k % 2] = column.get()[k];
    }
  }
  return memory;
}

}  // namespace

Error pack_integer_product(runtime::PrepareContext& context, const IntegerMatrix& matrix, IntegerProduct* product) {
  IntegerProduct& p = *product;
  Packing packing{&p, &matrix, HWY_DYNAMIC_DISPATCH(IntegerLanes)()};
  const size_t padded = p.groups * packing.columns();
  ET_TRY(void* const biases_memory, context.allocate(padded * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(padded * sizeof(float), 64));
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  std::fill_n(biases, padded, 0);
  std::fill_n(scales, padded, 0.0f);
  for (size_t n = 0; n < p.groups * p.columns; ++n) {
    const size_t place = n / p.columns * packing.columns() + n % p.columns;
    biases[place] = p.bias == nullptr ? 0 : p.bias[n];
    if (!p.scale_of(n, &scales[place])) {
      return Error::NotSupported;
    }
  }
  p.biases = biases;
  p.scales = scales;
  const uint64_t form = (matrix.is_packed ? 1 : 0) | (matrix.has_channels_first ? 2 : 0);
  const runtime::SharedCache::Key key{&kMaker, matrix.numbers, nullptr, uint64_t{p.columns} << 32 | p.depth(),
                                      uint64_t{p.groups} << 34 | uint64_t{p.taps} << 2 | form};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &pack, &packing, &std::free));
  p.weights = static_cast<const int8_t*>(packed);
  context.shared()->release(matrix.numbers);
  return Error::Ok;
}

Error multiply_windows(KernelContext& context, const IntegerProduct& p, size_t rows) {
  constexpr size_t kBlockNumbers = 96 << 10, kLeastRows = 48;  // half of a second cache
  constexpr size_t kWorthSharing = 2'000'000;                  // multiplications
  const size_t wide = kPanelVectors * HWY_DYNAMIC_DISPATCH(IntegerLanes)();
  const size_t panels = (p.columns + wide - 1) / wide;
  // A line more than whole ones, so that rows do not meet in one set of a cache.
  IntegerBlock part{};
  part.stride = (p.depth() + 31) / 32 * 32 + 32;
  const size_t block = std::min(rows, std::max(kBlockNumbers / part.stride, kLeastRows));
  const size_t blocks = (rows + block - 1) / block, units = p.groups * blocks * panels;
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t worth = rows * p.groups * p.columns * p.depth() / kWorthSharing + 1;
  const size_t chunks = threads == 1 ? 1 : std::min({units, 2 * threads, worth});
  const size_t copy = block < kRowsOfACopy ? 0 : 2 * p.pairs() * wide;
  const size_t numbers = (block * part.stride + copy + 31) / 32 * 32;
  ET_TRY(void* const memory, context.allocate_temp(chunks * numbers * sizeof(int16_t) + 64));
  auto* const scratch = reinterpret_cast<int16_t*>((reinterpret_cast<uintptr_t>(memory) + 63) / 64 * 64);
  threads::parallel_tasks(context.pool(), chunks, [&](size_t chunk) {
    const size_t end = (chunk + 1) * units / chunks;
    IntegerBlock b = part;
    b.x = scratch + chunk * numbers;
    b.panel = b.x + block * part.stride;
    for (size_t unit = chunk * units / chunks; unit < end; unit += b.end - b.begin) {
      const size_t of = unit / panels;
      b.group = of / blocks;
      b.first_row = of % blocks * block;
      b.rows = std::min(block, rows - b.first_row);
      b.begin = unit % panels;
      b.end = std::min(panels, b.begin + (end - unit));
      HWY_DYNAMIC_DISPATCH(IntegerRows)(p, b);
      HWY_DYNAMIC_DISPATCH(IntegerPanels)(p, b);
    }
  });
  return Error::Ok;
}

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
