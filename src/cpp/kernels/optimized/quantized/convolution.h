/// What the integer convolutions of this folder share: reading the arguments of et::quantized_convolution at load.
///
/// For: quantized/depthwise.cpp, grouped.cpp and window_convolution.cpp, which add the filters that they take, and
/// linear.cpp, whose numbers are the same. Not for: integers other than int8; the plain kernel runs then.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "kernels/optimized/conv/images.h"
#include "kernels/optimized/quantized/arguments.h"
#include "runtime/shared_cache.h"
#include "runtime/stateful_kernel.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::quantized {

/// A convolution of channels-last images of int8 by a constant filter of int8, not transposed.
struct QuantizedConvolution : conv::ImageGeometry {
  int32_t input_zero_point;
  int32_t zero_point;  ///< of the output
  float low, high;     ///< bounds of the output, less its zero point
  float input_scale, output_scale;
  const float* weight_scales;
  bool has_one_scale;
  const int32_t* bias;  ///< nullptr = none

  /// What the sum of a channel begins with: its bias, less what the input's zero point contributes to its weights' sum.
  /// All of it wraps in 32 bits.
  int32_t start_of(size_t channel, uint32_t sum_of_weights) const {
    const uint32_t first = bias == nullptr ? 0 : static_cast<uint32_t>(bias[channel]);
    return static_cast<int32_t>(first - static_cast<uint32_t>(input_zero_point) * sum_of_weights);
  }

  /// Of a channel's sums, in units of the output's scale. False where that is no number.
  bool scale_of(size_t channel, float* scale) const {
    *scale = input_scale * weight_scales[has_one_scale ? 0 : channel] / output_scale;
    return std::isfinite(*scale);
  }
};

/// One whose threads share rows of the output, or pixels of a line. The state of a kernel, copied for each call.
struct RowConvolution : QuantizedConvolution {
  size_t channels, taps;
  const int8_t* beside;  ///< [at least channels]: a pixel of zero points

  // Of a call.
  const int8_t* in;  ///< [batch, in_h, in_w, channels]
  int8_t* out;       ///< [batch, out_h, out_w, its channels]
};

/// Gives `w` its pixel beside the image, of at least `least` bytes.
inline Error add_pixel_beside(runtime::PrepareContext& context, size_t least, RowConvolution* w) {
  const size_t size = w->channels > least ? w->channels : least;
  ET_TRY(void* const pixel, context.allocate(size, 64));
  std::memset(pixel, static_cast<int8_t>(w->input_zero_point), size);
  w->beside = static_cast<const int8_t*>(pixel);
  return Error::Ok;
}

/// Keeps a plan whose weights are packed, so that the filter can go.
template <class Plan>
Error keep_plan(runtime::PrepareContext& context, Arguments args, const Plan& plan, void** state) {
  ET_TRY(void* const memory, context.allocate(sizeof(Plan), alignof(Plan)));
  *state = new (memory) Plan(plan);
  const Tensor filter = args[ops::arguments::et_quantized_convolution::kWeight]->to_tensor();
  runtime::release(context.shared(), filter.const_data_ptr());
  return Error::Ok;
}

/// Gives `w` and the output the sizes of a call, and `w` the images. Errors: InvalidArgument for images that do not
/// fit.
inline Error start_rows(KernelContext& context, Arguments args, RowConvolution* w, size_t out_channels) {
  using namespace ops::arguments::et_quantized_convolution;
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[kOut]->to_tensor();
  ET_RETURN_IF_ERROR(conv::plan_call(context, "et::quantized_convolution", input, w->channels, out_channels, out, w));
  w->in = input.const_data_ptr<int8_t>();
  w->out = out.mutable_data_ptr<int8_t>();
  return Error::Ok;
}

/// Runs rows(w, begin, end) over all units of the output (conv::for_each_row), each thread at least `chunk`
/// multiplications, of which an element takes `cost`.
template <class Plan>
Error run_rows(KernelContext& context, Arguments args, Plan w, size_t cost, size_t chunk,
               void (*rows)(const Plan&, size_t, size_t)) {
  ET_RETURN_IF_ERROR(start_rows(context, args, &w, w.channels));
  const int64_t images = args[ops::arguments::et_quantized_convolution::kInput]->to_tensor().size(0);
  const int64_t units = w.is_line() ? w.out_w : w.out_h;
  if (images * units > 0) {
    const size_t unit = static_cast<size_t>(w.is_line() ? 1 : w.out_w) * w.channels * cost;
    threads::parallel_for(context, static_cast<size_t>(images * units), chunk / unit + 1,
                          [&](size_t begin, size_t end) { rows(w, begin, end); });
  }
  return Error::Ok;
}

/// What a call has to do.
inline ops::Work work_of_integers(Arguments args) {
  using namespace ops::arguments::et_quantized_convolution;
  ops::Work work =
      runtime::work_of({args[kInput]->to_tensor(), args[kWeight]->to_tensor().sizes(), args[kStride], args[kDilation],
                        args[kGroups]->number_as_int(), args[kTransposed]->number_as_bool(), args[kOut]->to_tensor()});
  work.numbers = ops::WorkNumbers::int8;
  return work;
}

/// One item, or two; false for a number of items, or an item, that is none of a convolution.
inline bool read_pair(const EValue& list, int64_t least, int64_t* h, int64_t* w) {
  const IntArrayRef items = list.to_int_list();
  if (items.size() != 1 && items.size() != 2) {
    return false;
  }
  *h = items[0];
  *w = items[items.size() - 1];
  constexpr int64_t kMost = 1 << 20;  // no product of such numbers leaves 64 bits
  return *h >= least && *w >= least && *h <= kMost && *w <= kMost;
}

/// One item for a line; one, or two, for an image. False for other numbers of items, and items of no convolution.
inline bool read_steps(const EValue& list, bool is_line, int64_t least, int64_t of_line, int64_t* h, int64_t* w) {
  if (!read_pair(list, least, h, w) || (is_line && list.to_int_list().size() != 1)) {
    return false;
  }
  *h = is_line ? of_line : *h;
  return true;
}

/// Where an operator has the numbers of its integers.
struct AffinePlaces {
  size_t input_scale, input_zero_point, weight_scales, bias, output_scale, output_zero_point, output_min, output_max;
};

/// Scales, zero points, bounds and the bias of a product of int8 with `channels` results. False for what is no number
/// of int8, or of another size.
inline bool read_affine(Arguments args, const AffinePlaces& at, int64_t channels, QuantizedConvolution* c) {
  const EValue& bias = *args[at.bias];
  const Tensor scales = args[at.weight_scales]->to_tensor();
  const IntegerRange range(ScalarType::Char);
  if ((!bias.is_none() && (bias.to_tensor().scalar_type() != ScalarType::Int || bias.to_tensor().dim() != 1 ||
                           bias.to_tensor().numel() != channels)) ||
      !is_row_major(*args[at.weight_scales]) || scales.scalar_type() != ScalarType::Float ||
      (scales.numel() != 1 && scales.numel() != channels) || !read_scale(*args[at.input_scale], &c->input_scale) ||
      !read_scale(*args[at.output_scale], &c->output_scale) || !range.has(*args[at.input_zero_point]) ||
      !range.has(*args[at.output_zero_point]) || !range.has(*args[at.output_min]) || !range.has(*args[at.output_max]) ||
      args[at.output_min]->number_as_int() > args[at.output_max]->number_as_int()) {
    return false;
  }
  c->input_zero_point = static_cast<int32_t>(args[at.input_zero_point]->number_as_int());
  c->zero_point = static_cast<int32_t>(args[at.output_zero_point]->number_as_int());
  c->low = static_cast<float>(args[at.output_min]->number_as_int() - c->zero_point);
  c->high = static_cast<float>(args[at.output_max]->number_as_int() - c->zero_point);
  c->weight_scales = scales.const_data_ptr<float>();
  c->has_one_scale = scales.numel() == 1;
  c->bias = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<int32_t>();
  return true;
}

/// All but the input is what it was at load.
inline bool has_constant_rest(const runtime::PrepareContext& context, Arguments args) {
  using namespace ops::arguments::et_quantized_convolution;
  for (size_t i = 0; i < kOut; ++i) {
    if (i != kInput && !args[i]->is_none() && !context.is_constant(*args[i])) {
      return false;
    }
  }
  return true;
}

/// False for a call that is of another kind. Groups and the filter's sizes are left to the caller. A line of pixels is
/// an image of one row.
inline bool read_quantized_convolution(const runtime::PrepareContext& context, Arguments args,
                                       QuantizedConvolution* c) {
  using namespace ops::arguments::et_quantized_convolution;
  const bool is_line = args[kInput]->is_tensor() && args[kInput]->to_tensor().dim() == 3;
  const auto is_image = [&](size_t i) {
    return args[i]->is_tensor() && args[i]->to_tensor().scalar_type() == ScalarType::Char &&
           args[i]->to_tensor().dim() == (is_line ? 3 : 4);
  };
  if (!has_constant_rest(context, args) || !is_image(kInput) || !is_image(kWeight) || !is_image(kOut) ||
      !is_channels_last(*args[kInput]) || !is_channels_last(*args[kOut]) ||
      !(is_row_major(*args[kWeight]) || is_channels_last(*args[kWeight])) || args[kTransposed]->number_as_bool()) {
    return false;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  c->kernel_h = is_line ? 1 : weight.size(2);
  c->kernel_w = weight.size(-1);
  return weight.numel() > 0 && read_steps(*args[kStride], is_line, 1, 1, &c->stride_h, &c->stride_w) &&
         read_steps(*args[kPadding], is_line, 0, 0, &c->pad_h, &c->pad_w) &&
         read_steps(*args[kDilation], is_line, 1, 1, &c->dilation_h, &c->dilation_w) &&
         read_affine(args,
                     {kInputScale, kInputZeroPoint, kWeightScales, kBias, kOutputScale, kOutputZeroPoint, kOutputMin,
                      kOutputMax},
                     weight.size(0), c);
}

}  // namespace et::kernels::optimized::quantized
