// et::quantized_convolution with one constant int8 filter a channel on channels-last images and lines of int8.
//
// Two taps at a time: their inputs, widened to 16 bits, are interleaved, multiplied by interleaved weights and added in
// pairs to sums of 32 bits, one instruction for two multiplications of each channel. (The library's kernels for x86
// widen every input and weight to 32 bits and multiply those.) Sums, scales and rounding are those of the plain kernel
// (docs/reference/numerics.md), bit for bit.
//
// Where one instruction multiplies four bytes of each channel (AVX-512 with VNNI), four rows of a column are
// interleaved instead: once for all the outputs that the column is under.

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rounding.h"
#include "kernels/optimized/quantized/convolution.h"
#include "kernels/optimized/quantized/output-inl.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_convolution.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_DEPTHWISE_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_DEPTHWISE_ONCE
namespace et::kernels::optimized::quantized {

constexpr size_t kMaxTaps = 256;

/// One depthwise convolution of integers. A group is a vector of 16-bit lanes of channels; the last one is moved to the
/// front until it is whole, so that it computes some channels a second time. Within a group sums stand in two vectors
/// of 32 bits, as interleaving puts them: of each 8 channels the first 4 in the first.
struct QuantizedDepthwise : RowConvolution {
  size_t group, groups;
  const int16_t*
      weights;  // [groups][pairs of taps][2][2 * lanes of 32 bits], taps interleaved; a tap too many has zeros
  const int32_t* biases;  // [groups][group]: less what the input's zero point contributes
  const float* scales;    // [groups][group]: of the products, in units of the output's

  // The same for columns of bytes, where the processor multiplies those; quads is 0 elsewhere.
  size_t quads;                // fours of rows that a filter has, the last one filled with zeros
  const int8_t* quad_weights;  // [pieces][kernel_w][quads][a piece's channels, as interleaving puts them][4]
  const int32_t* quad_biases;  // [pieces][a piece's channels]; of inputs that are unsigned, 128 more each
  const float* quad_scales;

  size_t first_channel(size_t g) const {
    const size_t last = channels > group ? channels - group : 0;
    return g * group < last ? g * group : last;
  }
};

/// Channels that stand in a vector at a time: as many as there are of 64, then what is left of 32 or 16, moved to the
/// front until it is whole. Calls piece(first channel, channels, channels in the pieces before).
template <typename Piece>
void for_each_piece(size_t channels, Piece&& piece) {
  size_t before = 0;
  for (size_t c = 0; c < channels;) {
    const size_t left = channels - c;
    const size_t size = left > 32 && channels >= 64 ? 64 : left > 16 && channels >= 32 ? 32 : 16;
    const size_t first = left < size ? channels - size : c;
    piece(first, size, before);
    before += size;
    c = first + size;
  }
}
}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

size_t QuantizedDepthwiseGroup() { return hn::Lanes(hn::ScalableTag<int16_t>()); }

/// One group of channels of one pixel. kTaps: 0 for any number. kWhole: the image has at least a group of channels.
template <size_t kTaps, bool kWhole>
HWY_INLINE void depthwise_group(const QuantizedDepthwise& w, const int8_t* const* taps, size_t g, int8_t* pixel) {
  const hn::ScalableTag<int16_t> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const size_t half = hn::Lanes(d32), count = kTaps != 0 ? kTaps : w.taps, pairs = (count + 1) / 2;
  const size_t c = w.first_channel(g);
  const int16_t* const weights = w.weights + g * pairs * 4 * half;
  const auto load = [&](size_t t) HWY_ATTR {
    return hn::PromoteTo(d16, kWhole ? hn::LoadU(d8, taps[t] + c) : hn::LoadN(d8, taps[t] + c, w.channels));
  };
  auto low = hn::LoadU(d32, w.biases + 2 * g * half);
  auto high = hn::LoadU(d32, w.biases + 2 * g * half + half);
  for (size_t p = 0; p < pairs; ++p) {
    const auto a = load(2 * p);
    const auto b = 2 * p + 1 < count ? load(2 * p + 1) : hn::Zero(d16);
    const int16_t* const pair = weights + p * 4 * half;
    low = hn::Add(low, hn::WidenMulPairwiseAdd(d32, hn::InterleaveLower(d16, a, b), hn::LoadU(d16, pair)));
    high = hn::Add(high, hn::WidenMulPairwiseAdd(d32, hn::InterleaveUpper(d16, a, b), hn::LoadU(d16, pair + 2 * half)));
  }
  const float* const scales = w.scales + 2 * g * half;
  const ToOutput<decltype(d32)> to_output(d32, w);
  const auto in_order = hn::ReorderDemote2To(d16, to_output(low, scales), to_output(high, scales + half));
  if (kWhole) {
    hn::StoreU(hn::DemoteTo(d8, in_order), d8, pixel + c);
  } else {
    hn::StoreN(hn::DemoteTo(d8, in_order), d8, pixel + c, w.channels);
  }
}

template <size_t kTaps, bool kWhole>
HWY_INLINE void depthwise_rows(const QuantizedDepthwise& w, size_t begin, size_t end) {
  const auto pixel_step = static_cast<int64_t>(w.channels);
  const int8_t* taps[kMaxTaps];
  int64_t steps[kMaxTaps];
  conv::for_each_row(w, begin, end, [&](int64_t row, int64_t first, int64_t last) HWY_ATTR {
    const int64_t top = row % w.out_h * w.stride_h - w.pad_h;
    const int8_t* const image = w.in + row / w.out_h * w.in_h * w.in_w * pixel_step;
    int8_t* to = w.out + (row * w.out_w + first) * pixel_step;
    bool follows = false;  // the pixel before lay inside of the image from left to right
    for (int64_t x = first; x < last; ++x, to += pixel_step) {
      const int64_t left = x * w.stride_w - w.pad_w;
      const bool is_inside = left >= 0 && left + (w.kernel_w - 1) * w.dilation_w < w.in_w;
      if (follows && is_inside) {
        for (size_t t = 0; t < w.taps; ++t) {
          taps[t] += steps[t];
        }
      } else {
        size_t t = 0;
        for (int64_t i = 0; i < w.kernel_h; ++i) {
          const int64_t in_y = top + i * w.dilation_h;
          for (int64_t j = 0; j < w.kernel_w; ++j, ++t) {
            const int64_t in_x = left + j * w.dilation_w;
            const bool has = in_y >= 0 && in_y < w.in_h && in_x >= 0 && in_x < w.in_w;
            taps[t] = has ? image + (in_y * w.in_w + in_x) * pixel_step : w.beside;
            steps[t] = has ? w.stride_w * pixel_step : 0;
          }
        }
      }
      follows = is_inside;
      for (size_t g = 0; g < w.groups; ++g) {
        depthwise_group<kTaps, kWhole>(w, taps, g, to);
      }
    }
  });
}

#if HWY_TARGET <= HWY_AVX3_DL

size_t QuantizedDepthwiseHasQuads() { return 1; }

/// Four bytes of each channel from as many rows of a column, in four vectors.
template <class D8, class D32 = hn::Repartition<int32_t, D8>>
HWY_INLINE void interleave(D8 d8, const int8_t* const* at, hn::Vec<D8>* quad) {
  const hn::Repartition<uint16_t, D8> d16;
  const hn::Repartition<int8_t, D8> di8;
  const auto load = [&](size_t i)
                        HWY_ATTR { return hn::Xor(hn::BitCast(d8, hn::LoadU(di8, at[i])), hn::Set(d8, 0x80)); };
  const auto a = load(0), b = load(1), c = load(2), d = load(3);
  const auto low_ab = hn::BitCast(d16, hn::InterleaveLower(d8, a, b));
  const auto high_ab = hn::BitCast(d16, hn::InterleaveUpper(d8, a, b));
  const auto low_cd = hn::BitCast(d16, hn::InterleaveLower(d8, c, d));
  const auto high_cd = hn::BitCast(d16, hn::InterleaveUpper(d8, c, d));
  quad[0] = hn::BitCast(d8, hn::InterleaveLower(d16, low_ab, low_cd));
  quad[1] = hn::BitCast(d8, hn::InterleaveUpper(d16, low_ab, low_cd));
  quad[2] = hn::BitCast(d8, hn::InterleaveLower(d16, high_ab, high_cd));
  quad[3] = hn::BitCast(d8, hn::InterleaveUpper(d16, high_ab, high_cd));
}

/// A row of the output, one piece of kLanes channels. `rows`: where the rows under it begin, in fours, or nullptr
/// beside the image.
template <size_t kWidth, size_t kQuads, size_t kStride, size_t kLanes>
HWY_INLINE void quad_row(const QuantizedDepthwise& w, const int8_t* const* rows, size_t first, size_t before,
                         int8_t* to) {
  const hn::CappedTag<uint8_t, kLanes> d8;
  const hn::Repartition<int8_t, decltype(d8)> di8;
  const hn::Repartition<int16_t, decltype(d8)> d16;
  const hn::Repartition<int32_t, decltype(d8)> d32;
  constexpr size_t kSums = divide_up(kWidth, kStride);  // outputs that a column is under
  constexpr size_t kQuarter = kLanes / 4;
  using Sum = hn::Vec<decltype(d32)>;
  const int8_t* const weights = w.quad_weights + before * 4 * kWidth * kQuads;
  const int32_t* const biases = w.quad_biases + before;
  const float* const scales = w.quad_scales + before;
  const auto channels = static_cast<int64_t>(w.channels);
  const ToOutput<decltype(d32)> to_output(d32, w);
  Sum sums[kSums * 4];
#pragma GCC unroll 28
  for (size_t i = 0; i < kSums * 4; ++i) {
    sums[i] = hn::LoadU(d32, biases + i % 4 * kQuarter);
  }
  for (int64_t x = 0; x < w.out_w + static_cast<int64_t>(kSums) - 1; ++x) {
#pragma GCC unroll 2
    for (size_t s = 0; s < kStride; ++s) {
      const int64_t column = x * static_cast<int64_t>(kStride) + static_cast<int64_t>(s) - w.pad_w;
      const bool has = column >= 0 && column < w.in_w;
#pragma GCC unroll 2
      for (size_t q = 0; q < kQuads; ++q) {
        const int8_t* at[4];
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; ++i) {
          const int8_t* const row = rows[4 * q + i];
          at[i] = has && row != nullptr ? row + column * channels + first : w.beside;
        }
        hn::Vec<decltype(d8)> quad[4];
        interleave(d8, at, quad);
#pragma GCC unroll 8
        for (size_t o = 0; o < kSums; ++o) {
          const size_t tap = o * kStride + s;
          if (tap < kWidth) {
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; ++i) {
              const auto weight = hn::LoadU(di8, weights + ((tap * kQuads + q) * 4 + i) * kLanes);
              sums[4 * o + i] = hn::SumOfMulQuadAccumulate(d32, quad[i], weight, sums[4 * o + i]);
            }
          }
        }
      }
    }
    const Sum* const done = sums + 4 * (kSums - 1);
    if (x + 1 >= static_cast<int64_t>(kSums)) {
      const auto low = hn::ReorderDemote2To(d16, to_output(done[0], scales), to_output(done[1], scales + kQuarter));
      const auto high = hn::ReorderDemote2To(d16, to_output(done[2], scales + 2 * kQuarter),
                                             to_output(done[3], scales + 3 * kQuarter));
      hn::StoreU(hn::ReorderDemote2To(di8, low, high), di8, to + first);
      to += channels;
    }
#pragma GCC unroll 28
    for (size_t moved = 4; moved < kSums * 4; ++moved) {  // from the last one
      sums[kSums * 4 + 3 - moved] = sums[kSums * 4 - 1 - moved];
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      sums[i] = hn::LoadU(d32, biases + i * kQuarter);
    }
  }
}

template <size_t kWidth, size_t kQuads, size_t kStride>
HWY_INLINE void quad_rows(const QuantizedDepthwise& w, size_t begin, size_t end) {
  for (size_t r = begin; r < end; ++r) {
    const auto row = static_cast<int64_t>(r);
    const int64_t top = row % w.out_h * w.stride_h - w.pad_h;
    const auto row_bytes = static_cast<int64_t>(w.in_w * static_cast<int64_t>(w.channels));
    const int8_t* const image = w.in + row / w.out_h * w.in_h * row_bytes;
    int8_t* const to = w.out + row * w.out_w * static_cast<int64_t>(w.channels);
    const int8_t* rows[4 * kQuads];
    for (int64_t i = 0; i < static_cast<int64_t>(4 * kQuads); ++i) {
      const int64_t y = top + i;
      rows[i] = i < w.kernel_h && y >= 0 && y < w.in_h ? image + y * row_bytes : nullptr;
    }
    for_each_piece(w.channels, [&](size_t first, size_t size, size_t before) HWY_ATTR {
      if (size == 64) {
        quad_row<kWidth, kQuads, kStride, 64>(w, rows, first, before, to);
      } else if (size == 32) {
        quad_row<kWidth, kQuads, kStride, 32>(w, rows, first, before, to);
      } else {
        quad_row<kWidth, kQuads, kStride, 16>(w, rows, first, before, to);
      }
    });
  }
}

void QuantizedDepthwiseQuads(const QuantizedDepthwise& w, size_t begin, size_t end) {
  if (w.kernel_w == 3) {
    w.stride_w == 1 ? quad_rows<3, 1, 1>(w, begin, end) : quad_rows<3, 1, 2>(w, begin, end);
  } else if (w.kernel_w == 5) {
    w.stride_w == 1 ? quad_rows<5, 2, 1>(w, begin, end) : quad_rows<5, 2, 2>(w, begin, end);
  } else {
    w.stride_w == 1 ? quad_rows<7, 2, 1>(w, begin, end) : quad_rows<7, 2, 2>(w, begin, end);
  }
}

#else

size_t QuantizedDepthwiseHasQuads() { return 0; }
void QuantizedDepthwiseQuads(const QuantizedDepthwise&, size_t, size_t) {}

#endif

/// Units [begin, end) of all images.
void QuantizedDepthwiseRows(const QuantizedDepthwise& w, size_t begin, size_t end) {
  if (w.channels < w.group) {
    depthwise_rows<0, false>(w, begin, end);
  } else if (w.taps == 9) {
    depthwise_rows<9, true>(w, begin, end);
  } else if (w.taps == 1) {
    depthwise_rows<1, true>(w, begin, end);  // a batch norm between joined tensors
  } else if (w.taps == 3) {
    depthwise_rows<3, true>(w, begin, end);
  } else if (w.taps == 25) {
    depthwise_rows<25, true>(w, begin, end);
  } else {
    depthwise_rows<0, true>(w, begin, end);
  }
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(QuantizedDepthwiseGroup);
HWY_EXPORT(QuantizedDepthwiseRows);
HWY_EXPORT(QuantizedDepthwiseHasQuads);
HWY_EXPORT(QuantizedDepthwiseQuads);

namespace {

using runtime::PrepareContext;

using namespace ops::arguments::et_quantized_convolution;

bool fits(const PrepareContext& context, Arguments args, QuantizedDepthwise* w) {
  if (!read_quantized_convolution(context, args, w)) {
    return false;
  }
  const int64_t channels = args[kInput]->to_tensor().size(1);
  const Tensor weight = args[kWeight]->to_tensor();
  w->channels = static_cast<size_t>(channels);
  w->taps = static_cast<size_t>(w->kernel_h * w->kernel_w);
  return channels > 1 && args[kGroups]->number_as_int() == channels && weight.size(0) == channels &&
         weight.size(1) == 1 && w->taps <= kMaxTaps;
}

/// Where channel `lane` of a group stands among its sums.
size_t place_of(size_t group, size_t lane) {
  const size_t within = lane % 8;
  return (within < 4 ? 0 : group / 2) + lane / 8 * 4 + within % 4;
}

/// Weights, biases and scales as the loops want them, in the Method's memory. Errors: NotSupported for a scale that is
/// no number.
Error pack(PrepareContext& context, Arguments args, QuantizedDepthwise* w) {
  const size_t group = w->group, pairs = (w->taps + 1) / 2, padded = w->groups * group;
  ET_TRY(void* const weights_memory, context.allocate(padded * pairs * 2 * sizeof(int16_t), 64));
  ET_TRY(void* const biases_memory, context.allocate(padded * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(padded * sizeof(float), 64));
  auto* const weights = static_cast<int16_t*>(weights_memory);
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  std::fill_n(weights, padded * pairs * 2, int16_t{0});
  std::fill_n(biases, padded, 0);
  std::fill_n(scales, padded, 1.0f);

  const auto* const filter = args[kWeight]->to_tensor().const_data_ptr<int8_t>();
  for (size_t g = 0; g < w->groups; ++g) {
    const size_t first = w->first_channel(g);
    for (size_t lane = 0; lane < group && first + lane < w->channels; ++lane) {
      const size_t c = first + lane, place = place_of(group, lane);
      uint32_t sum = 0;
      for (size_t t = 0; t < w->taps; ++t) {
        const int8_t value = filter[c * w->taps + t];
        weights[(g * pairs + t / 2) * 2 * group + 2 * place + t % 2] = value;
        sum += static_cast<uint32_t>(int32_t{value});
      }
      biases[g * group + place] = w->start_of(c, sum);
      if (!w->scale_of(c, &scales[g * group + place])) {
        return Error::NotSupported;
      }
    }
  }
  w->weights = weights;
  w->biases = biases;
  w->scales = scales;
  return Error::Ok;
}

/// Columns of 3, 5 or 7 bytes, in fours, where a vector of 16 channels is whole.
bool takes_quads(const QuantizedDepthwise& w) {
  return HWY_DYNAMIC_DISPATCH(QuantizedDepthwiseHasQuads)() != 0 && w.channels >= 16 && w.kernel_h == w.kernel_w &&
         (w.kernel_w == 3 || w.kernel_w == 5 || w.kernel_w == 7) && w.stride_w <= 2 && w.dilation_h == 1 &&
         w.dilation_w == 1;
}

/// What columns of bytes want beside the rest, in the Method's memory.
Error pack_quads(PrepareContext& context, Arguments args, QuantizedDepthwise* w) {
  const auto width = static_cast<size_t>(w->kernel_w), height = static_cast<size_t>(w->kernel_h);
  w->quads = (height + 3) / 4;
  size_t padded = 0;
  for_each_piece(w->channels, [&](size_t /*first*/, size_t size, size_t /*before*/) { padded += size; });
  ET_TRY(void* const weights_memory, context.allocate(padded * 4 * width * w->quads, 64));
  ET_TRY(void* const biases_memory, context.allocate(padded * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(padded * sizeof(float), 64));
  auto* const weights = static_cast<int8_t*>(weights_memory);
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  std::memset(weights, 0, padded * 4 * width * w->quads);
  const auto* const filter = args[kWeight]->to_tensor().const_data_ptr<int8_t>();
  bool has_scales = true;
  for_each_piece(w->channels, [&](size_t first, size_t size, size_t before) {
    for (size_t lane = 0; lane < size; ++lane) {
      // Interleaving goes by 16 channels; of each, four after four go to the first vector, the second, …
      const size_t place = lane % 16 / 4 * (size / 4) + lane / 16 * 4 + lane % 4;
      const int8_t* const taps = filter + (first + lane) * w->taps;
      uint32_t sum = 0;
      for (size_t y = 0; y < height; ++y) {
        for (size_t x = 0; x < width; ++x) {
          const int8_t value = taps[y * width + x];
          sum += static_cast<uint32_t>(int32_t{value});
          weights[before * 4 * width * w->quads + ((x * w->quads + y / 4) * size + place) * 4 + y % 4] = value;
        }
      }
      biases[before + place] = static_cast<int32_t>(static_cast<uint32_t>(w->start_of(first + lane, sum)) - 128u * sum);
      has_scales = w->scale_of(first + lane, &scales[before + place]) && has_scales;
    }
  });
  w->quad_weights = weights;
  w->quad_biases = biases;
  w->quad_scales = scales;
  return has_scales ? Error::Ok : Error::NotSupported;
}

Error prepare(PrepareContext& context, Arguments args, void** state) {
  // On Arm the library's kernels multiply 16 bits as well.
  QuantizedDepthwise w{};
  if (!HWY_ARCH_X86 || !fits(context, args, &w)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work_of_integers(args), ops::kKernelCosts));
  w.group = HWY_DYNAMIC_DISPATCH(QuantizedDepthwiseGroup)();
  w.groups = divide_up(w.channels, w.group);
  ET_RETURN_IF_ERROR(add_pixel_beside(context, w.group, &w));
  ET_RETURN_IF_ERROR(takes_quads(w) ? pack_quads(context, args, &w) : pack(context, args, &w));
  return keep_plan(context, args, w, state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& w = *static_cast<const QuantizedDepthwise*>(state);
  return run_rows(
      context, args, w, w.taps, 200'000,
      w.quads != 0 ? HWY_DYNAMIC_POINTER(QuantizedDepthwiseQuads) : HWY_DYNAMIC_POINTER(QuantizedDepthwiseRows));
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::quantized_convolution_out, kPriorityDepthwise),
};

}  // namespace

ET_KERNEL_TABLE(depthwise, kKernels)

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
