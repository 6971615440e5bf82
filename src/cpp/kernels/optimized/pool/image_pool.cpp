// Windows over images with channels innermost. A pixel is some vectors of channels, so a window is added up (or
// compared) pixel by pixel, four vectors at a time. Where windows overlap much, rows go first: what each column of a
// row of windows comes to makes one row of pixels, and the windows over that have one row.

#include "kernels/optimized/pool/image_pool.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/optimized/vec/vectors-inl.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_IMAGE_POOL_ONCE
#define ET_KERNELS_OPTIMIZED_IMAGE_POOL_ONCE
namespace et::kernels::optimized::pool {
/// A row of windows.
struct ImageRow {
  const void* in;          // the first row of pixels that the windows have
  void* out;               // [count, channels]
  int64_t rows, row_step;  // of a window; elements from one to the next
  const Taps* columns;     // [count]; nullptr: one pixel each, all there are
  int64_t count, column_step;
  int64_t channels;
  int64_t counted_rows;  // as how many the rows count in a mean; 0: its sum is left as it is
  const ImagePool* pool;
};
}  // namespace et::kernels::optimized::pool
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pool::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// Each reduction has the element types it reads and writes, a vector of numbers of the latter for `Lanes` of the
/// former, and where it starts. It also has what a pixel adds, and what is left at the end of window `i`.
struct LargestFloats {
  using T = float;
  using Tag = hn::ScalableTag<float>;
  template <class D>
  struct State {
    hn::Vec<D> largest;
    hn::Mask<D> has_nan;
  };
  explicit LargestFloats(const ImageRow&) {}
  template <class D>
  HWY_INLINE State<D> start(D d) const {
    return {hn::Set(d, -std::numeric_limits<float>::infinity()), hn::MaskFalse(d)};
  }
  template <class D>
  HWY_INLINE void add(D, hn::Vec<D> x, State<D>& state) const {
    state.largest = hn::Max(state.largest, x);
    state.has_nan = hn::Or(state.has_nan, hn::IsNaN(x));
  }
  template <class D>
  HWY_INLINE hn::Vec<D> finish(D d, const State<D>& state, int64_t) const {
    return hn::IfThenElse(state.has_nan, hn::NaN(d), state.largest);
  }
};

template <typename Integer>
struct LargestIntegers {
  using T = Integer;
  using Tag = hn::ScalableTag<T>;
  template <class D>
  using State = hn::Vec<D>;
  explicit LargestIntegers(const ImageRow&) {}
  template <class D>
  HWY_INLINE State<D> start(D d) const {
    return hn::Set(d, std::numeric_limits<T>::lowest());
  }
  template <class D>
  HWY_INLINE void add(D, hn::Vec<D> x, State<D>& state) const {
    state = hn::Max(state, x);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> finish(D, State<D> state, int64_t) const {
    return state;
  }
};

/// As how many elements window `i` of a row counts.
HWY_INLINE int64_t divisor_of(const ImageRow& row, int64_t i) {
  const int64_t counted = row.counted_rows * row.columns[i].counted;
  return row.pool->divisor != 0 ? row.pool->divisor : counted != 0 ? counted : 1;
}

struct MeansOfFloats {
  using T = float;
  using Tag = hn::ScalableTag<float>;
  template <class D>
  using State = hn::Vec<D>;
  explicit MeansOfFloats(const ImageRow& of) : row(of) {}
  template <class D>
  HWY_INLINE State<D> start(D d) const {
    return hn::Zero(d);
  }
  template <class D>
  HWY_INLINE void add(D, hn::Vec<D> x, State<D>& state) const {
    state = hn::Add(state, x);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> finish(D d, State<D> state, int64_t i) const {
    return row.counted_rows == 0 ? state : hn::Div(state, hn::Set(d, static_cast<float>(divisor_of(row, i))));
  }
  const ImageRow& row;
};

/// Sums in 32 bits; the tag is that of the elements, a quarter of a vector.
template <typename Integer>
struct MeansOfIntegers {
  using T = Integer;
  using Tag = hn::Rebind<T, hn::ScalableTag<int32_t>>;
  template <class D>
  using State = hn::Vec<hn::Rebind<int32_t, D>>;
  explicit MeansOfIntegers(const ImageRow& of) : row(of) {}
  template <class D>
  HWY_INLINE State<D> start(D) const {
    return hn::Zero(hn::Rebind<int32_t, D>());
  }
  template <class D>
  HWY_INLINE void add(D, hn::Vec<D> x, State<D>& state) const {
    state = hn::Add(state, hn::PromoteTo(hn::Rebind<int32_t, D>(), x));
  }
  template <class D>
  HWY_INLINE hn::Vec<D> finish(D d, State<D> state, int64_t i) const {
    const hn::Rebind<int32_t, D> d32;
    const hn::RebindToFloat<decltype(d32)> df;
    const ImagePool& pool = *row.pool;
    const auto zeros = static_cast<int32_t>(row.rows * row.columns[i].count) * pool.in_zero_point;
    const float scale = pool.scale * (1.0f / static_cast<float>(divisor_of(row, i)));
    const auto units = hn::Mul(hn::ConvertTo(df, hn::Sub(state, hn::Set(d32, zeros))), hn::Set(df, scale));
    const auto bounded = hn::Min(hn::Max(units, hn::Set(df, pool.low)), hn::Set(df, pool.high));
    return narrow(d, hn::Add(hn::NearestInt(bounded), hn::Set(d32, pool.out_zero_point)));
  }
  const ImageRow& row;
};

/// kVectors vectors of channels of window `i`. kWhole: they are all there; otherwise there are `left` channels.
template <class Reduction, size_t kVectors, bool kWhole, class D>
HWY_INLINE void pool_channels(D d, const ImageRow& row, const Reduction& reduction, int64_t i, int64_t channel,
                              size_t left) {
  using T = typename Reduction::T;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  typename Reduction::template State<D> states[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    states[v] = reduction.start(d);
  }
  const int64_t first = row.columns == nullptr ? i : row.columns[i].first;
  const int64_t count = row.columns == nullptr ? 1 : row.columns[i].count;
  const T* line = static_cast<const T*>(row.in) + first * row.channels + channel;
  for (int64_t r = 0; r < row.rows; ++r, line += row.row_step) {
    const T* x = line;
    for (int64_t k = 0; k < count; ++k, x += row.column_step) {
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) {
        const auto at = x + static_cast<int64_t>(v) * lanes;
        reduction.add(d, kWhole ? hn::LoadU(d, at) : hn::LoadN(d, at, left), states[v]);
      }
    }
  }
  T* const out = static_cast<T*>(row.out) + i * row.channels + channel;
  for (size_t v = 0; v < kVectors; ++v) {
    const auto result = reduction.finish(d, states[v], i);
    if (kWhole) {
      hn::StoreU(result, d, out + static_cast<int64_t>(v) * lanes);
    } else {
      hn::StoreN(result, d, out, left);
    }
  }
}

/// kLanes: of a vector. The largest vectors are taken four at a time; there are fewer channels for smaller ones.
template <class Reduction, size_t kLanes>
HWY_INLINE void pool_row(const ImageRow& row) {
  using T = typename Reduction::T;
  constexpr size_t kMost = hn::MaxLanes(typename Reduction::Tag());
  const hn::CappedTag<T, kLanes> d;
  const Reduction reduction(row);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < row.count; ++i) {
    int64_t c = 0;
    for (; kLanes == kMost && c + 4 * lanes <= row.channels; c += 4 * lanes) {
      pool_channels<Reduction, kLanes == kMost ? 4 : 1, true>(d, row, reduction, i, c, 0);
    }
    if (row.channels < lanes) {
      pool_channels<Reduction, 1, false>(d, row, reduction, i, c, static_cast<size_t>(row.channels));
      continue;
    }
    for (; c < row.channels; c += lanes) {  // at the end some channels a second time rather than fewer at a time
      pool_channels<Reduction, 1, true>(d, row, reduction, i, HWY_MIN(c, row.channels - lanes), 0);
    }
  }
}

/// In the largest vectors that the channels fill.
template <class Reduction>
HWY_INLINE void pool_row_of(const ImageRow& row) {
  constexpr size_t kMost = hn::MaxLanes(typename Reduction::Tag());
  const auto channels = static_cast<size_t>(row.channels);
  if (channels >= kMost || kMost <= 4) {
    pool_row<Reduction, kMost>(row);
  } else if (channels >= kMost / 2 || kMost <= 8) {
    pool_row<Reduction, kMost / 2>(row);
  } else {
    pool_row<Reduction, kMost / 4>(row);
  }
}

void PoolRowOf(const ImageRow& row) {
  switch (row.pool->kind) {
    case Pooling::kLargestFloat: return pool_row_of<LargestFloats>(row);
    case Pooling::kLargestChar: return pool_row_of<LargestIntegers<int8_t>>(row);
    case Pooling::kLargestByte: return pool_row_of<LargestIntegers<uint8_t>>(row);
    case Pooling::kMeanFloat: return pool_row_of<MeansOfFloats>(row);
    case Pooling::kMeanChar: return pool_row_of<MeansOfIntegers<int8_t>>(row);
    case Pooling::kMeanByte: return pool_row_of<MeansOfIntegers<uint8_t>>(row);
  }
}

}  // namespace et::kernels::optimized::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pool {

HWY_EXPORT(PoolRowOf);

namespace {

bool is_mean(Pooling kind) { return kind >= Pooling::kMeanFloat; }
bool is_float(Pooling kind) { return kind == Pooling::kLargestFloat || kind == Pooling::kMeanFloat; }

/// True where rows go first: each column of the image under a row of windows is then looked at once for all of them.
bool takes_rows_first(const ImagePool& pool) {
  if (pool.kind > Pooling::kMeanFloat || pool.out_h == 0 || pool.out_w == 0) {
    return false;
  }
  // Of a window in the middle, which no edge cuts.
  const int64_t rows = pool.rows[pool.out_h / 2].count, columns = pool.columns[pool.out_w / 2].count;
  const int64_t apart = pool.out_w * rows * columns;
  const int64_t rows_first = pool.in_w * (rows + 1) + pool.out_w * columns;
  return rows > 1 && columns > 1 && 5 * rows_first < 4 * apart;
}

}  // namespace

int64_t PoolWindows::count() const {
  constexpr int64_t kMost = 1 << 20;  // no product of such numbers leaves 64 bits
  const auto is_small = [](int64_t value, int64_t least) { return value >= least && value <= kMost; };
  if (in <= 0 || in > INT32_MAX || !is_small(kernel, 1) || !is_small(stride, 1) || !is_small(padding, 0) ||
      !is_small(dilation, 1) || 2 * padding > dilation * (kernel - 1) + 1) {
    return 0;
  }
  const int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  if (room < 0) {
    return 0;
  }
  const int64_t out = room / stride + 1;
  return ceil_mode && (out - 1) * stride >= in + padding ? out - 1 : out;  // none begins in the padding at the end
}

PoolWindows windows_along(const Tensor& self, size_t i, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                          IntArrayRef dilation, bool ceil_mode, bool counts_padding, size_t spatial) {
  const auto item = [i, spatial](IntArrayRef list, int64_t otherwise) {
    if (list.empty()) {
      return otherwise;
    }
    return list.size() == 1 ? list[0] : list.size() == spatial ? list[i] : int64_t{-1};  // which no count is made of
  };
  const int64_t size = item(kernel, 1);
  return {self.size(self.dim() - static_cast<int64_t>(spatial - i)),
          size,
          item(stride, size),
          item(padding, 0),
          item(dilation, 1),
          ceil_mode,
          counts_padding};
}

Taps PoolWindows::operator[](int64_t i) const {
  const int64_t begin = i * stride - padding;
  const int64_t skipped = begin < 0 ? (dilation - 1 - begin) / dilation : 0;
  const int64_t first = begin + skipped * dilation;
  const int64_t there = first < in ? (in - 1 - first) / dilation + 1 : 0;
  const int64_t taps = std::max<int64_t>(0, std::min(kernel - skipped, there));
  const int64_t padded = std::min(begin + kernel, in + padding) - begin;
  return {taps == 0 ? 0 : first, taps, counts_padding ? padded : taps};
}

Error pool_images(KernelContext& context, const ImagePool& pool) {
  constexpr size_t kWorthWaking = 20'000;  // elements read
  const size_t element_size = is_float(pool.kind) ? sizeof(float) : 1;
  const int64_t line = pool.in_w * pool.channels, out_line = pool.out_w * pool.channels;
  const bool rows_first = takes_rows_first(pool);
  const auto rows = static_cast<size_t>(pool.batch * pool.out_h);
  if (rows == 0 || out_line == 0) {
    return Error::Ok;
  }
  const int64_t window = pool.rows[pool.out_h / 2].count * pool.columns[pool.out_w / 2].count;
  const size_t work = rows * static_cast<size_t>(out_line * std::max<int64_t>(window, 1));
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t slots = std::clamp<size_t>(work / kWorthWaking, 1, std::min(threads, rows));
  const size_t line_nbytes = rows_first ? (static_cast<size_t>(line) * element_size + 63) / 64 * 64 : 0;
  ET_TRY(void* const memory, context.allocate_temp(slots * line_nbytes, 64));
  const auto compute = HWY_DYNAMIC_POINTER(PoolRowOf);
  threads::parallel_tasks(slots > 1 ? context.pool() : nullptr, slots, [&](size_t slot) {
    for (size_t r = rows * slot / slots; r < rows * (slot + 1) / slots && !context.cancelled(); ++r) {
      const auto image = static_cast<int64_t>(r) / pool.out_h;
      const Taps& taps = pool.rows[static_cast<int64_t>(r) % pool.out_h];
      ImageRow row{};
      row.pool = &pool;
      row.channels = pool.channels;
      row.in = static_cast<const char*>(pool.in) +
               static_cast<size_t>((image * pool.in_h + taps.first) * line) * element_size;
      row.rows = taps.count;
      row.row_step = pool.row_dilation * line;
      if (rows_first) {
        row.out = static_cast<char*>(memory) + slot * line_nbytes;
        row.count = pool.in_w;
        compute(row);
        row.in = row.out;
        row.rows = 1;
      }
      row.out = static_cast<char*>(pool.out) + r * static_cast<size_t>(out_line) * element_size;
      row.columns = pool.columns;
      row.count = pool.out_w;
      row.column_step = pool.column_dilation * pool.channels;
      row.counted_rows = is_mean(pool.kind) ? std::max<int64_t>(taps.counted, 1) : 0;
      compute(row);
    }
  });
  return Error::Ok;
}

}  // namespace et::kernels::optimized::pool
#endif  // HWY_ONCE
