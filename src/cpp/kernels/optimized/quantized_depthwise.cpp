// et::quantized_convolution with one constant int8 filter a channel on channels-last images of int8.
//
// Two taps at a time: their inputs, widened to 16 bits, are interleaved, multiplied by interleaved weights and added in pairs
// to sums of 32 bits, one instruction for two multiplications of each channel. (The library's kernels for x86 widen every
// input and weight to 32 bits and multiply those.) Sums, scales and rounding are those of the plain kernel (docs/numerics.md),
// bit for bit.

#include "kernels/optimized/targets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/quantized_depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/clamped_convolution.h"
#include "kernels/optimized/quantized_arguments.h"
#include "kernels/optimized/table.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_DEPTHWISE_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_DEPTHWISE_ONCE
namespace et::kernels::optimized {

constexpr size_t kMaxTaps = 32;

/// One depthwise convolution of integers. A group is a vector of 16-bit lanes of channels; the last one is moved to the front
/// until it is whole, so that it computes some channels a second time. Within a group sums stand in two vectors of 32 bits, as
/// interleaving puts them: of each 8 channels the first 4 in the first.
struct QuantizedDepthwise {
  size_t channels, group, groups, taps;
  const int16_t*
      weights;  // [groups][pairs of taps][2][2 * lanes of 32 bits], taps interleaved; a tap too many has zeros
  const int32_t* biases;  // [groups][group]: less what the input's zero point contributes
  const float* scales;    // [groups][group]: of the products, in units of the output's
  const int8_t* beside;   // [at least channels, group]: a pixel of zero points
  float input_scale, output_scale;
  float low, high;  // bounds less the zero point
  int32_t zero_point;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;

  // Of a call.
  const int8_t* in;  // [batch, in_h, in_w, channels]
  int8_t* out;       // [batch, out_h, out_w, channels]
  int64_t in_h, in_w, out_h, out_w;

  size_t first_channel(size_t g) const {
    const size_t last = channels > group ? channels - group : 0;
    return g * group < last ? g * group : last;
  }
};
}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

size_t QuantizedDepthwiseGroup() { return hn::Lanes(hn::ScalableTag<int16_t>()); }

/// Sums in units of the output's scale, as its integers. What is bounded to less than 2^22 becomes an integer, rounded to the
/// nearest even one, when 1.5 * 2^23 is added: the float's last bits.
template <class D, class V>
HWY_INLINE V to_output(D d, const QuantizedDepthwise& w, V sum, const float* scales) {
  const hn::RebindToFloat<D> df;
  constexpr float kShift = 12582912.0f;
  constexpr int32_t kShiftBits = 0x4B400000;
  const auto units = hn::Mul(hn::ConvertTo(df, sum), hn::LoadU(df, scales));
  const auto bounded = hn::Min(hn::Max(units, hn::Set(df, w.low)), hn::Set(df, w.high));
  return hn::Sub(hn::BitCast(d, hn::Add(bounded, hn::Set(df, kShift))), hn::Set(d, kShiftBits - w.zero_point));
}

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
  const auto in_order =
      hn::ReorderDemote2To(d16, to_output(d32, w, low, scales), to_output(d32, w, high, scales + half));
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
  for (size_t r = begin; r < end; ++r) {
    const auto row = static_cast<int64_t>(r);
    const int64_t top = row % w.out_h * w.stride_h - w.pad_h;
    const int8_t* const image = w.in + row / w.out_h * w.in_h * w.in_w * pixel_step;
    int8_t* to = w.out + row * w.out_w * pixel_step;
    bool follows = false;  // the pixel before lay inside of the image from left to right
    for (int64_t x = 0; x < w.out_w; ++x, to += pixel_step) {
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
  }
}

/// Output rows [begin, end) of all images.
void QuantizedDepthwiseRows(const QuantizedDepthwise& w, size_t begin, size_t end) {
  if (w.channels < w.group) {
    depthwise_rows<0, false>(w, begin, end);
  } else if (w.taps == 9) {
    depthwise_rows<9, true>(w, begin, end);
  } else if (w.taps == 25) {
    depthwise_rows<25, true>(w, begin, end);
  } else {
    depthwise_rows<0, true>(w, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(QuantizedDepthwiseGroup);
HWY_EXPORT(QuantizedDepthwiseRows);

namespace {

using runtime::PrepareContext;

using namespace ops::quantized_convolution_arguments;

bool is_byte_image(const EValue& value) {
  return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Char && value.to_tensor().dim() == 4;
}

/// One item, or two; false for a number of items, or an item, that is none of a convolution.
bool read_pair(const EValue& list, int64_t least, int64_t* h, int64_t* w) {
  const IntArrayRef items = list.to_int_list();
  if (items.size() != 1 && items.size() != 2) {
    return false;
  }
  *h = items[0];
  *w = items[items.size() - 1];
  constexpr int64_t kMost = 1 << 20;  // no product of such numbers leaves 64 bits
  return *h >= least && *w >= least && *h <= kMost && *w <= kMost;
}

bool fits(const PrepareContext& context, Arguments args, QuantizedDepthwise* w) {
  for (size_t i = 0; i < kOut; ++i) {
    if (i != kInput && !args[i]->is_none() && !context.is_constant(*args[i])) {
      return false;
    }
  }
  if (!is_byte_image(*args[kInput]) || !is_byte_image(*args[kWeight]) || !is_byte_image(*args[kOut]) ||
      !is_channels_last(*args[kInput]) || !is_channels_last(*args[kOut]) ||
      !(is_row_major(*args[kWeight]) || is_channels_last(*args[kWeight]))) {
    return false;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const Tensor scales = args[kWeightScales]->to_tensor();
  const int64_t channels = args[kInput]->to_tensor().size(1);
  w->kernel_h = weight.size(2);
  w->kernel_w = weight.size(3);
  w->channels = static_cast<size_t>(channels);
  w->taps = static_cast<size_t>(w->kernel_h * w->kernel_w);
  const IntegerRange range(ScalarType::Char);
  const EValue& bias = *args[kBias];
  const bool has_fitting_bias = bias.is_none() || (bias.to_tensor().scalar_type() == ScalarType::Int &&
                                                   bias.to_tensor().dim() == 1 && bias.to_tensor().numel() == channels);
  return !args[kTransposed]->number_as_bool() && channels > 1 && args[kGroups]->number_as_int() == channels &&
         weight.size(0) == channels && weight.size(1) == 1 && w->taps > 0 && w->taps <= kMaxTaps && has_fitting_bias &&
         scales.scalar_type() == ScalarType::Float && is_row_major(*args[kWeightScales]) &&
         (scales.numel() == 1 || scales.numel() == channels) && read_scale(*args[kInputScale], &w->input_scale) &&
         read_scale(*args[kOutputScale], &w->output_scale) && range.has(*args[kInputZeroPoint]) &&
         range.has(*args[kOutputZeroPoint]) && range.has(*args[kOutputMin]) && range.has(*args[kOutputMax]) &&
         args[kOutputMin]->number_as_int() <= args[kOutputMax]->number_as_int() &&
         read_pair(*args[kStride], 1, &w->stride_h, &w->stride_w) &&
         read_pair(*args[kPadding], 0, &w->pad_h, &w->pad_w) &&
         read_pair(*args[kDilation], 1, &w->dilation_h, &w->dilation_w);
}

/// Where channel `lane` of a group stands among its sums.
size_t place_of(size_t group, size_t lane) {
  const size_t within = lane % 8;
  return (within < 4 ? 0 : group / 2) + lane / 8 * 4 + within % 4;
}

/// Weights, biases and scales as the loops want them, in the Method's memory. Errors: NotSupported for a scale that is no
/// number.
Error pack(PrepareContext& context, Arguments args, QuantizedDepthwise* w) {
  const size_t group = w->group, pairs = (w->taps + 1) / 2, padded = w->groups * group;
  ET_TRY(void* const weights_memory, context.allocate(padded * pairs * 2 * sizeof(int16_t), 64));
  ET_TRY(void* const biases_memory, context.allocate(padded * sizeof(int32_t), 64));
  ET_TRY(void* const scales_memory, context.allocate(padded * sizeof(float), 64));
  const size_t beside = std::max(w->channels, group);
  ET_TRY(void* const beside_memory, context.allocate(beside, 64));
  const auto input_zero = static_cast<int32_t>(args[kInputZeroPoint]->number_as_int());
  std::memset(beside_memory, static_cast<int8_t>(input_zero), beside);
  auto* const weights = static_cast<int16_t*>(weights_memory);
  auto* const biases = static_cast<int32_t*>(biases_memory);
  auto* const scales = static_cast<float*>(scales_memory);
  std::fill_n(weights, padded * pairs * 2, int16_t{0});
  std::fill_n(biases, padded, 0);
  std::fill_n(scales, padded, 1.0f);

  const auto* const filter = args[kWeight]->to_tensor().const_data_ptr<int8_t>();
  const Tensor given = args[kWeightScales]->to_tensor();
  const auto* const weight_scales = given.const_data_ptr<float>();
  const int32_t* const bias = args[kBias]->is_none() ? nullptr : args[kBias]->to_tensor().const_data_ptr<int32_t>();
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
      const uint32_t start = bias == nullptr ? 0 : static_cast<uint32_t>(bias[c]);
      biases[g * group + place] = static_cast<int32_t>(start - static_cast<uint32_t>(input_zero) * sum);
      const float scale = w->input_scale * weight_scales[given.numel() == 1 ? 0 : c] / w->output_scale;
      if (!std::isfinite(scale)) {
        return Error::NotSupported;
      }
      scales[g * group + place] = scale;
    }
  }
  w->weights = weights;
  w->biases = biases;
  w->scales = scales;
  w->beside = static_cast<const int8_t*>(beside_memory);
  return Error::Ok;
}

Error prepare(PrepareContext& context, Arguments args, void** state) {
  // On Arm the library's kernels multiply 16 bits as well.
  QuantizedDepthwise w{};
  if (!HWY_ARCH_X86 || !fits(context, args, &w)) {
    return Error::NotSupported;
  }
  w.group = HWY_DYNAMIC_DISPATCH(QuantizedDepthwiseGroup)();
  w.groups = (w.channels + w.group - 1) / w.group;
  w.zero_point = static_cast<int32_t>(args[kOutputZeroPoint]->number_as_int());
  w.low = static_cast<float>(args[kOutputMin]->number_as_int() - w.zero_point);
  w.high = static_cast<float>(args[kOutputMax]->number_as_int() - w.zero_point);
  ET_RETURN_IF_ERROR(pack(context, args, &w));
  ET_TRY(void* const memory, context.allocate(sizeof(QuantizedDepthwise), alignof(QuantizedDepthwise)));
  *state = new (memory) QuantizedDepthwise(w);
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  QuantizedDepthwise w = *static_cast<const QuantizedDepthwise*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[kOut]->to_tensor();
  ET_RETURN_IF_ERROR(check_channels(input, w.channels));
  w.in_h = input.size(2);
  w.in_w = input.size(3);
  w.out_h = output_extent(w.in_h, w.pad_h, w.kernel_h, w.stride_h, w.dilation_h);
  w.out_w = output_extent(w.in_w, w.pad_w, w.kernel_w, w.stride_w, w.dilation_w);
  ET_RETURN_IF_ERROR(resize_output(context, "et::quantized_convolution", input, w.channels, w.out_h, w.out_w, out));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  w.in = input.const_data_ptr<int8_t>();
  w.out = out.mutable_data_ptr<int8_t>();
  constexpr size_t kChunk = 200'000;  // multiplications that are worth handing over to another thread
  const size_t row = static_cast<size_t>(w.out_w) * w.taps * w.channels;
  const auto rows = HWY_DYNAMIC_POINTER(QuantizedDepthwiseRows);
  threads::parallel_for(context.pool(), static_cast<size_t>(input.size(0) * w.out_h), kChunk / row + 1,
                        [&](size_t begin, size_t end) { rows(w, begin, end); });
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    {"et::quantized_convolution.out", "TdiTTtlllblidiiio", &run, &prepare, nullptr, runtime::kPriorityLibrary + 1},
};

}  // namespace

ET_KERNEL_TABLE(quantized_depthwise, kKernels)

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
