// et::quantized_convolution with a constant int8 filter in groups of 4 or 8 channels with as many results, as in
// ResNeXt and RegNet, on channels-last images and lines of int8. One instruction multiplies four bytes of each lane
// (AVX-512 with VNNI).
//
// A lane is a result. Four channels of a group are a lane's four bytes. They are spread over the lanes of their group,
// so that no lane is empty; a product of matrices has as many columns as a group has results. Sums, scales and rounding
// are those of the plain kernel (docs/reference/numerics.md), bit for bit. (Groups of 16 take 1.5 of the time of a
// library's product, whose columns they fill.)

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/optimized/quantized/convolution.h"
#include "kernels/optimized/quantized/output-inl.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/quantized/op_convolution.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_GROUPED_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_GROUPED_ONCE
namespace et::kernels::optimized::quantized {

constexpr size_t kGroupedLanes = 16;  // results of a piece
constexpr size_t kMaxGroupedTaps = 121;

/// One convolution in groups. A piece is 16 channels; the last one is moved to the front until it is whole, so that it
/// computes some channels a second time.
struct QuantizedGrouped : RowConvolution {
  size_t group, pieces;
  const int8_t* weights;  // [pieces][taps][group / 4][16][4]
  // [pieces][16]: less what the input's zero point contributes, and 128, which makes inputs unsigned
  const int32_t* biases;
  const float* scales;  // [pieces][16]: of the products, in units of the output's

  size_t first_channel(size_t piece) const { return std::min(piece * kGroupedLanes, channels - kGroupedLanes); }
};

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3_DL

size_t QuantizedGroupedHasLoops() { return 1; }

/// kPixels neighbouring output pixels, all channels. `taps`: where each tap of the first pixel's window begins; the
/// next pixel's is the tap's step further on.
template <size_t kGroup, size_t kPixels>
HWY_INLINE void grouped_pixels(const QuantizedGrouped& w, const int8_t* const* taps, const int64_t* steps, int8_t* to) {
  const hn::CappedTag<int32_t, kGroupedLanes> d32;
  const hn::Repartition<uint8_t, decltype(d32)> du8;
  const hn::Repartition<int8_t, decltype(d32)> d8;
  const hn::Rebind<int8_t, decltype(d32)> d_out;
  constexpr size_t kSteps = kGroup / 4;
  HWY_ALIGN int32_t from[kSteps][kGroupedLanes];
  for (size_t s = 0; s < kSteps; ++s) {
    for (size_t lane = 0; lane < kGroupedLanes; ++lane) {
      from[s][lane] = static_cast<int32_t>(lane / kGroup * kSteps + s);
    }
  }
  const auto flip = hn::Set(du8, 0x80);
  const ToOutput<decltype(d32)> to_output(d32, w);
  const int8_t* weights = w.weights;
  for (size_t piece = 0; piece < w.pieces; ++piece) {
    const size_t c = w.first_channel(piece);
    hn::Vec<decltype(d32)> sums[kPixels];
#pragma GCC unroll 8
    for (size_t p = 0; p < kPixels; ++p) {
      sums[p] = hn::LoadU(d32, w.biases + piece * kGroupedLanes);
    }
    for (size_t t = 0; t < w.taps; ++t) {
      hn::Vec<decltype(d32)> x[kPixels];
#pragma GCC unroll 8
      for (size_t p = 0; p < kPixels; ++p) {
        const int8_t* const pixel = taps[t] + static_cast<int64_t>(p) * steps[t] + c;
        x[p] = hn::BitCast(d32, hn::Xor(hn::BitCast(du8, hn::LoadDup128(d8, pixel)), flip));
      }
#pragma GCC unroll 4
      for (size_t s = 0; s < kSteps; ++s) {
        const auto weight = hn::LoadU(d8, weights);
        const auto lanes = hn::SetTableIndices(d32, from[s]);
#pragma GCC unroll 8
        for (size_t p = 0; p < kPixels; ++p) {
          const auto spread = hn::BitCast(du8, hn::TableLookupLanes(x[p], lanes));
          sums[p] = hn::SumOfMulQuadAccumulate(d32, spread, weight, sums[p]);
        }
        weights += 4 * kGroupedLanes;
      }
    }
#pragma GCC unroll 8
    for (size_t p = 0; p < kPixels; ++p) {
      hn::StoreU(to_output.bytes(sums[p], w.scales + piece * kGroupedLanes), d_out, to + p * w.channels + c);
    }
  }
}

template <size_t kGroup>
void grouped_rows(const QuantizedGrouped& w, size_t begin, size_t end) {
  const auto channels = static_cast<int64_t>(w.channels);
  const int64_t reach = (w.kernel_w - 1) * w.dilation_w;
  const int8_t* taps[kMaxGroupedTaps];
  int64_t steps[kMaxGroupedTaps];
  conv::for_each_row(w, begin, end, [&](int64_t row, int64_t first, int64_t last) HWY_ATTR {
    const int64_t top = row % w.out_h * w.stride_h - w.pad_h;
    const int8_t* const image = w.in + row / w.out_h * w.in_h * w.in_w * channels;
    int8_t* const out = w.out + row * w.out_w * channels;
    for (int64_t x = first; x < last;) {
      const int64_t left = x * w.stride_w - w.pad_w;
      // Pixels from here on whose windows lie in the image from left to right.
      const int64_t inside = left < 0 || left + reach >= w.in_w ? 0 : (w.in_w - 1 - reach - left) / w.stride_w + 1;
      const int64_t pixels = std::min(inside, last - x);
      size_t t = 0;
      for (int64_t i = 0; i < w.kernel_h; ++i) {
        const int64_t in_y = top + i * w.dilation_h;
        for (int64_t j = 0; j < w.kernel_w; ++j, ++t) {
          const int64_t in_x = left + j * w.dilation_w;
          const bool has = in_y >= 0 && in_y < w.in_h && in_x >= 0 && in_x < w.in_w;
          taps[t] = has ? image + (in_y * w.in_w + in_x) * channels : w.beside;
          steps[t] = has ? w.stride_w * channels : 0;
        }
      }
      int8_t* const to = out + x * channels;
      if (pixels >= 8) {
        grouped_pixels<kGroup, 8>(w, taps, steps, to);
        x += 8;
      } else if (pixels >= 4) {
        grouped_pixels<kGroup, 4>(w, taps, steps, to);
        x += 4;
      } else {
        grouped_pixels<kGroup, 1>(w, taps, steps, to);
        ++x;
      }
    }
  });
}

/// Units [begin, end) of all images.
void QuantizedGroupedRows(const QuantizedGrouped& w, size_t begin, size_t end) {
  if (w.group == 4) {
    grouped_rows<4>(w, begin, end);
  } else {
    grouped_rows<8>(w, begin, end);
  }
}

#else

size_t QuantizedGroupedHasLoops() { return 0; }
void QuantizedGroupedRows(const QuantizedGrouped&, size_t, size_t) {}

#endif

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(QuantizedGroupedHasLoops);
HWY_EXPORT(QuantizedGroupedRows);

namespace {

using runtime::PrepareContext;

using namespace ops::arguments::et_quantized_convolution;

bool fits(const PrepareContext& context, Arguments args, QuantizedGrouped* w) {
  if (HWY_DYNAMIC_DISPATCH(QuantizedGroupedHasLoops)() == 0 || !read_quantized_convolution(context, args, w)) {
    return false;
  }
  const int64_t channels = args[kInput]->to_tensor().size(1);
  const Tensor weight = args[kWeight]->to_tensor();
  const int64_t group = weight.size(1);
  w->channels = static_cast<size_t>(channels);
  w->group = static_cast<size_t>(group);
  w->taps = static_cast<size_t>(w->kernel_h * w->kernel_w);
  w->pieces = divide_up(w->channels, kGroupedLanes);
  return (group == 4 || group == 8) && channels % group == 0 && channels > group && w->channels >= kGroupedLanes &&
         args[kGroups]->number_as_int() == channels / group && weight.size(0) == channels && w->taps <= kMaxGroupedTaps;
}

/// Weights, biases and scales as the loops want them, in the Method's memory. Errors: NotSupported for a scale that is
/// no number.
Error pack(PrepareContext& context, Arguments args, QuantizedGrouped* w) {
  const size_t piece_bytes = w->taps * w->group * kGroupedLanes, lanes = w->pieces * kGroupedLanes;
  ET_TRY(void* const weights_memory, context.allocate(w->pieces * piece_bytes, 64));
  ET_TRY(void* const biases_memory, context.allocate(lanes * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(lanes * sizeof(float), 64));
  auto* const weights = static_cast<int8_t*>(weights_memory);
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  const auto* const filter = args[kWeight]->to_tensor().const_data_ptr<int8_t>();
  const bool taps_inside = is_row_major(*args[kWeight]);
  const size_t tap_step = taps_inside ? 1 : w->group, channel_step = taps_inside ? w->taps : 1;
  for (size_t piece = 0; piece < w->pieces; ++piece) {
    for (size_t lane = 0; lane < kGroupedLanes; ++lane) {
      const size_t c = w->first_channel(piece) + lane, place = piece * kGroupedLanes + lane;
      uint32_t sum = 0;
      for (size_t t = 0; t < w->taps; ++t) {
        for (size_t k = 0; k < w->group; ++k) {
          const int8_t value = filter[c * w->taps * w->group + t * tap_step + k * channel_step];
          sum += static_cast<uint32_t>(int32_t{value});
          weights[piece * piece_bytes + ((t * w->group + k / 4 * 4) * kGroupedLanes) + lane * 4 + k % 4] = value;
        }
      }
      biases[place] = static_cast<int32_t>(static_cast<uint32_t>(w->start_of(c, sum)) - 128u * sum);
      if (!w->scale_of(c, &scales[place])) {
        return Error::NotSupported;
      }
    }
  }
  w->weights = weights;
  w->biases = biases;
  w->scales = scales;
  return Error::Ok;
}

Error prepare(PrepareContext& context, Arguments args, void** state) {
  QuantizedGrouped w{};
  if (!fits(context, args, &w)) {
    return Error::NotSupported;
  }
  // A lane multiplies four bytes at a time, where depthwise ones take a byte.
  constexpr double kOfDepthwise = 0.4;
  const ops::Work work{ops::WorkKind::depthwise_small, ops::WorkNumbers::int8, work_of_integers(args).units};
  ET_RETURN_IF_ERROR(runtime::offer_work(state, work, ops::kKernelCosts, kOfDepthwise));
  ET_RETURN_IF_ERROR(add_pixel_beside(context, 0, &w));
  ET_RETURN_IF_ERROR(pack(context, args, &w));
  return keep_plan(context, args, w, state);
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& w = *static_cast<const QuantizedGrouped*>(state);
  return run_rows(context, args, w, w.taps * w.group, 800'000, HWY_DYNAMIC_POINTER(QuantizedGroupedRows));
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::quantized_convolution_out, kPriorityGroups),
};

}  // namespace

ET_KERNEL_TABLE(grouped, kKernels)

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
