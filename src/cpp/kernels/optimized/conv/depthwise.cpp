// aten::convolution and et::convolution_clamp with one constant filter a channel on channels-last images and lines, and
// those of groups of 2, 4 or 8 channels with as many results, as in ResNeXt and RegNet.
//
// A few neighbouring pixels of an output row are computed at a time. A vector of channels of an input pixel is loaded
// once for all of them, and the filter's row once a block, so that there is less than one load a multiplication. (A
// library that computes pixel by pixel loads both operands of each.) So are filters of 3x3, 5x5 and 7x7 with stride 1
// or 2. The others load a tap for all pixels of a block, and each pixel's input for it. Of a group, each channel in
// turn is spread over the lanes of its group: no lane is empty, where a product of matrices has as many columns as a
// group has results. Sums take taps and channels in the order of such a product, and have its bits.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/optimized/conv/depthwise.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::conv::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

size_t DepthwiseLanes() { return hn::Lanes(hn::ScalableTag<float>()); }

/// A block of output pixels of one row.
struct DepthwiseBlock {
  const float* lines[7];    // the rows of the patch that lie in the image
  int64_t at;               // first number of the patch in a row, which may lie outside of it
  float* out;               // first output pixel
  int64_t first_row, rows;  // rows of the patch that lie in the image
  int64_t first_column, columns;
};

/// kPixels neighbouring output pixels, all channels. kEdge: some columns of the patch lie outside of the image.
template <int kKernel, int kStride, int kPixels, bool kEdge>
void depthwise_block(const Depthwise& w, const DepthwiseBlock& block) {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernel;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto channels = static_cast<int64_t>(w.channels);
  const V low = hn::Set(d, w.min);
  const V high = hn::Set(d, w.max);
  const float* filter = w.filter;
  over_vectors(w.channels, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    const size_t lanes = hn::Lanes(d);
    V sums[kPixels];
    const V bias = hn::LoadU(d, w.bias + c);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      sums[p] = bias;
    }
    for (int64_t row = block.first_row; row < block.rows; ++row) {
      const float* const line = block.lines[row];
      const int64_t from = block.at + static_cast<int64_t>(c);
      const float* const taps_of_row = filter + static_cast<size_t>(row * kKernel) * lanes;
      V taps[kKernel];
#pragma GCC unroll 7
      for (int t = 0; t < kKernel; ++t) {
        taps[t] = hn::LoadU(d, taps_of_row + static_cast<size_t>(t) * lanes);
      }
#pragma GCC unroll 21
      for (int j = 0; j < kColumns; ++j) {
        if (kEdge && (j < block.first_column || j >= block.columns)) {
          continue;
        }
        const V x = load(d, whole, line + (from + j * channels), left);
#pragma GCC unroll 8
        for (int p = 0; p < kPixels; ++p) {
          const int tap = j - p * kStride;
          if (tap >= 0 && tap < kKernel) {
            sums[p] = hn::MulAdd(x, taps[tap], sums[p]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      store(d, whole, limit(sums[p], low, high), block.out + p * channels + static_cast<int64_t>(c), left);
    }
    filter += static_cast<size_t>(kKernel * kKernel) * lanes;
  });
}

template <int kKernel, int kStride, int kPixels>
void depthwise_row(const Depthwise& w, size_t row) {
  constexpr int64_t kColumns = (kPixels - 1) * kStride + kKernel;
  const auto channels = static_cast<int64_t>(w.channels);
  const auto image = static_cast<int64_t>(row) / w.out_h;
  const int64_t y = static_cast<int64_t>(row) % w.out_h * kStride - w.pad_h;
  DepthwiseBlock block{};
  block.first_row = std::max<int64_t>(0, -y);
  block.rows = std::min<int64_t>(kKernel, w.in_h - y);
  for (int64_t r = block.first_row; r < block.rows; ++r) {
    const int64_t line = w.ring_rows == 0 ? image * w.in_h + y + r : (y + r) % w.ring_rows;
    block.lines[r] = w.in + line * w.in_w * channels;
  }
  float* const out = w.out + static_cast<int64_t>(row) * w.out_w * channels;
  for (int64_t start = 0; start < w.out_w; start += kPixels) {
    const int64_t pixel = std::min(start, w.out_w - kPixels);  // the last block overlaps rather than being smaller
    const int64_t x = pixel * kStride - w.pad_w;
    block.at = x * channels;
    block.out = out + pixel * channels;
    block.first_column = std::max<int64_t>(0, -x);
    block.columns = std::min<int64_t>(kColumns, w.in_w - x);
    if constexpr (kPixels >= 7) {  // narrower images have hardly a block without an edge
      if (block.first_column == 0 && block.columns == kColumns) {
        depthwise_block<kKernel, kStride, kPixels, false>(w, block);
        continue;
      }
    }
    depthwise_block<kKernel, kStride, kPixels, true>(w, block);
  }
}

template <int kKernel, int kStride>
void rows_of(const Depthwise& w, size_t begin, size_t end) {
  // The block that computes the fewest pixels twice.
  const int64_t by7 = (w.out_w + 6) / 7 * 7;
  const int64_t by8 = (w.out_w + 7) / 8 * 8;
  for (size_t row = begin; row < end; ++row) {
    if (w.out_w >= 8 && by8 <= by7) {
      depthwise_row<kKernel, kStride, 8>(w, row);
    } else if (w.out_w >= 7) {
      depthwise_row<kKernel, kStride, 7>(w, row);
    } else if (w.out_w >= 5) {
      depthwise_row<kKernel, kStride, 5>(w, row);
    } else if (w.out_w >= 4) {
      depthwise_row<kKernel, kStride, 4>(w, row);
    } else {
      depthwise_row<kKernel, kStride, 1>(w, row);
    }
  }
}

/// Channel k of each group of kGroup, in all lanes of the group.
template <int kGroup>
class Spread {
 public:
  using D = hn::ScalableTag<float>;

  Spread() {
    const D d;
    HWY_ALIGN int32_t from[hn::MaxLanes(D())];
    for (int k = 0; k < kGroup; ++k) {
      for (size_t lane = 0; lane < hn::Lanes(d); ++lane) {
        from[lane] = static_cast<int32_t>(lane) / kGroup * kGroup + k;
      }
      lanes_[k] = hn::SetTableIndices(d, from);
    }
  }
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> x, int k) const { return hn::TableLookupLanes(x, lanes_[k]); }

 private:
  decltype(hn::SetTableIndices(D(), static_cast<const int32_t*>(nullptr))) lanes_[kGroup];
};
template <>
class Spread<1> {
 public:
  HWY_INLINE hn::Vec<hn::ScalableTag<float>> operator()(hn::Vec<hn::ScalableTag<float>> x, int) const { return x; }
};

/// Taps of a window along one dimension that lie in the image.
struct TapRange {
  int64_t first, end;
};
HWY_INLINE TapRange taps_inside(int64_t begin, int64_t dilation, int64_t kernel, int64_t size) {
  const int64_t first = begin < 0 ? (dilation - 1 - begin) / dilation : 0;
  const int64_t end = begin < size ? (size - 1 - begin) / dilation + 1 : 0;
  return {first, std::min(end, kernel)};
}

/// kPixels neighbouring output pixels, all channels. `at`: the number of w.in that the window of the first one begins
/// with, which may lie beside the image: no pointer is made of it.
template <int kPixels, int kGroup>
HWY_INLINE void any_block(const Depthwise& w, int64_t at, TapRange rows, TapRange columns, float* out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto channels = static_cast<int64_t>(w.channels);
  const V low = hn::Set(d, w.min);
  const V high = hn::Set(d, w.max);
  const int64_t row_step = w.dilation_h * w.in_w * channels, tap_step = w.dilation_w * channels;
  const int64_t pixel_step = w.stride_w * channels;
  const float* filter = w.filter;
  const Spread<kGroup> spread;
  over_vectors(w.channels, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    const size_t lanes = hn::Lanes(d);
    V sums[kPixels];
    const V bias = hn::LoadU(d, w.bias + c);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      sums[p] = bias;
    }
    for (int64_t i = rows.first; i < rows.end; ++i) {
      for (int64_t j = columns.first; j < columns.end; ++j) {
        const float* const taps = filter + static_cast<size_t>((i * w.kernel_w + j) * kGroup) * lanes;
        const float* const from = w.in + (at + i * row_step + j * tap_step + static_cast<int64_t>(c));
        V x[kPixels];
#pragma GCC unroll 8
        for (int p = 0; p < kPixels; ++p) {
          x[p] = load(d, whole, from + p * pixel_step, left);
        }
#pragma GCC unroll 8
        for (int k = 0; k < kGroup; ++k) {
          const V tap = hn::LoadU(d, taps + static_cast<size_t>(k) * lanes);
#pragma GCC unroll 8
          for (int p = 0; p < kPixels; ++p) {
            sums[p] = hn::MulAdd(spread(x[p], k), tap, sums[p]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      store(d, whole, limit(sums[p], low, high), out + p * channels + static_cast<int64_t>(c), left);
    }
    filter += static_cast<size_t>(w.kernel_h * w.kernel_w * kGroup) * lanes;
  });
}

/// Output pixels [pixel, end) of a row.
template <int kGroup>
void any_row(const Depthwise& w, int64_t row, int64_t pixel, int64_t end) {
  // As many as there are registers for.
  constexpr int64_t kPixels = hn::MaxLanes(hn::ScalableTag<float>()) >= 16 || kGroup == 1 ? 8 : 4;
  const auto channels = static_cast<int64_t>(w.channels);
  const int64_t y = row % w.out_h * w.stride_h - w.pad_h;
  const TapRange rows = taps_inside(y, w.dilation_h, w.kernel_h, w.in_h);
  const int64_t line = (row / w.out_h * w.in_h + y) * w.in_w * channels;
  float* const out = w.out + row * w.out_w * channels;
  const int64_t reach = (w.kernel_w - 1) * w.dilation_w;
  const auto are_inside = [&](int64_t x, int64_t pixel, int64_t count) {
    return x >= 0 && x + (count - 1) * w.stride_w + reach < w.in_w && pixel + count <= end;
  };
  while (pixel < end) {
    const int64_t x = pixel * w.stride_w - w.pad_w;
    const int64_t at = line + x * channels;
    float* const to = out + pixel * channels;
    if (are_inside(x, pixel, kPixels)) {
      any_block<kPixels, kGroup>(w, at, rows, {0, w.kernel_w}, to);
      pixel += kPixels;
    } else if (are_inside(x, pixel, kPixels / 2)) {
      any_block<kPixels / 2, kGroup>(w, at, rows, {0, w.kernel_w}, to);
      pixel += kPixels / 2;
    } else {
      any_block<1, kGroup>(w, at, rows, taps_inside(x, w.dilation_w, w.kernel_w, w.in_w), to);
      ++pixel;
    }
  }
}

template <int kGroup>
void any_units(const Depthwise& w, size_t begin, size_t end) {
  if constexpr (static_cast<size_t>(kGroup) <= hn::MaxLanes(hn::ScalableTag<float>())) {
    for_each_row(w, begin, end,
                 [&](int64_t row, int64_t first, int64_t last) HWY_ATTR { any_row<kGroup>(w, row, first, last); });
  }
}

/// Units [begin, end) of all images.
void DepthwiseUnits(const Depthwise& w, size_t begin, size_t end) {
  if (w.group != 1) {
    w.group == 2   ? any_units<2>(w, begin, end)
    : w.group == 4 ? any_units<4>(w, begin, end)
                   : any_units<8>(w, begin, end);
  } else if (!w.is_square()) {
    any_units<1>(w, begin, end);
  } else if (w.kernel_h == 3) {
    w.stride_h == 1 ? rows_of<3, 1>(w, begin, end) : rows_of<3, 2>(w, begin, end);
  } else if (w.kernel_h == 5) {
    w.stride_h == 1 ? rows_of<5, 1>(w, begin, end) : rows_of<5, 2>(w, begin, end);
  } else {
    w.stride_h == 1 ? rows_of<7, 1>(w, begin, end) : rows_of<7, 2>(w, begin, end);
  }
}

}  // namespace et::kernels::optimized::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::conv {

HWY_EXPORT(DepthwiseLanes);
HWY_EXPORT(DepthwiseUnits);

namespace {

using runtime::PrepareContext;

// Arguments by position; the two operators differ in what follows kGroups.
using namespace ops::arguments::et_convolution_clamp;

constexpr size_t kMaxLanes = 16;

/// One item, or two, of no more than `most`.
bool are_small(const EValue& list, int64_t most) {
  const IntArrayRef items = list.to_int_list();
  return (items.size() == 1 || items.size() == 2) && items[0] >= 1 && items[0] <= most &&
         items[items.size() - 1] >= 1 && items[items.size() - 1] <= most;
}

/// One channel a group, or as many as divide the lanes of a vector and have loops.
bool is_group(int64_t channels) {
  return channels == 1 || ((channels == 2 || channels == 4 || channels == 8) &&
                           HWY_DYNAMIC_DISPATCH(DepthwiseLanes)() % static_cast<size_t>(channels) == 0);
}

bool fits(const PrepareContext& context, Arguments args) {
  if (!has_constant_filter(context, args, image_rank(args))) {
    return false;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  const int64_t channels = input.size(1);
  constexpr int64_t kMost = 1 << 15;  // no product of such numbers leaves 64 bits
  return has_padding_up_to(*args[kPadding], kMost) && are_small(*args[kStride], kMost) &&
         are_small(*args[kDilation], kMost) && !args[kTransposed]->number_as_bool() && channels > 1 &&
         is_group(weight.size(1)) && args[kGroups]->number_as_int() == channels / weight.size(1) &&
         channels % weight.size(1) == 0 && weight.size(0) == channels && weight.numel() > 0 &&
         weight.size(2) <= kMost && weight.size(-1) <= kMost;
}

Error prepare(PrepareContext& context, Arguments args, const EValue* min, const EValue* max, void** state) {
  if (context.shared() == nullptr || !fits(context, args)) {
    return Error::NotSupported;
  }
  ops::Work work = work_of(args);
  if (work.kind == ops::WorkKind::convolution) {  // groups of a few channels
    work = {ops::WorkKind::depthwise_small, ops::WorkNumbers::floating, work.units};
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, ops::kKernelCosts));
  ET_TRY(const Range range, read_range(context, min, max));
  ET_TRY(const Depthwise w,
         pack_depthwise(context, args[kWeight]->to_tensor(), *args[kBias], args[kStride]->to_int_list(),
                        args[kPadding]->to_int_list(), args[kDilation]->to_int_list(), range));
  return keep_state(context, w, state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  Depthwise w = *static_cast<const Depthwise*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  ET_RETURN_IF_ERROR(plan_call(context, "convolution", input, w.channels, w.channels, out, &w));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  w.in = input.const_data_ptr<float>();
  w.out = out.mutable_data_ptr<float>();
  // Multiplications of a chunk worth handing over to another thread: some 3 us.
  constexpr size_t kChunk = 200'000;
  const size_t unit = static_cast<size_t>((w.is_line() ? 1 : w.out_w) * w.kernel_h * w.kernel_w) * w.channels * w.group;
  threads::parallel_for(context, static_cast<size_t>(input.size(0) * (w.is_line() ? w.out_w : w.out_h)),
                        kChunk / unit + 1, [&](size_t begin, size_t end) { depthwise_units(w, begin, end); });
  return Error::Ok;
}

}  // namespace

Result<Depthwise> pack_depthwise(PrepareContext& context, const Tensor& weight, const EValue& bias, IntArrayRef stride,
                                 IntArrayRef padding, IntArrayRef dilation, Range range) {
  Depthwise w{};
  static_cast<ImageGeometry&>(w) = geometry_of(weight, stride, padding, dilation);
  w.channels = static_cast<size_t>(weight.size(0));
  w.group = static_cast<size_t>(weight.size(1));
  w.min = range.min;
  w.max = range.max;
  const auto taps = static_cast<size_t>(w.kernel_h * w.kernel_w);
  const bool taps_inside = runtime::is_contiguous_dim_order(runtime::dim_order(weight));
  const size_t tap_step = taps_inside ? 1 : w.group, group_step = taps_inside ? taps : 1;
  const size_t lanes = HWY_DYNAMIC_DISPATCH(DepthwiseLanes)(), numbers = taps * w.group;  // of a channel
  const size_t floats = round_up(w.channels, lanes) * numbers;
  const auto* const from = weight.const_data_ptr<float>();
  const auto pack = [&](float* packed) {
    std::fill_n(packed, floats, 0.0f);
    threads::parallel_for(context.pool(), w.channels, threads::grain_for(numbers), [&](size_t c, size_t end) {
      for (; c < end; ++c) {
        for (size_t i = 0; i < numbers; ++i) {
          packed[(c / lanes * numbers + i) * lanes + c % lanes] =
              from[c * numbers + i / w.group * tap_step + i % w.group * group_step];
        }
      }
    });
  };
  const Packing packing{from, uint64_t{taps} << 1 | taps_inside, uint64_t{w.channels} << 8 | w.group};
  ET_TRY(w.filter, packed_once<float>(context, packing, floats, pack));
  ET_TRY(w.bias, padded_bias(context, bias, w.channels, round_up(w.channels, kMaxLanes)));
  return w;
}

void depthwise_units(const Depthwise& w, size_t begin, size_t end) {
  HWY_DYNAMIC_DISPATCH(DepthwiseUnits)(w, begin, end);
}

ET_KERNEL_TABLE(depthwise, ConvolutionKernels<&prepare, &run, kPriorityDepthwise>::kTable)

}  // namespace et::kernels::optimized::conv
#endif  // HWY_ONCE
