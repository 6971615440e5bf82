/// What the convolution kernels of this folder share: which images and filters they take, the bias, the output's sizes.
/// (The range that a fused activation leaves: read_range of vec/numbers.h.)
///
/// For: depthwise.cpp, quantized/depthwise.cpp, transposed_convolution.cpp, window_convolution.cpp and winograd.cpp.
///      Each adds the geometry that it computes.
///
/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, [min, max,] out)
#pragma once

#include "kernels/optimized/vec/clamped_kernels.h"
#include "kernels/optimized/vec/numbers.h"
#include "kernels/optimized/vec/prepared.h"
#include "kernels/optimized/vec/priorities.h"
#include "ops/arguments.h"
#include "ops/signatures/portable/op_convolution.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::optimized::conv {

/// True for a convolution of float images with channels innermost, a constant filter, a constant bias or none, and a
/// geometry that never changes. The filter is [out, in / groups, h, w] in either order, or [in, out, h, w] when
/// transposed; callers check the groups. The bias has one number a channel. `rank` 3: of lines; 5: of volumes, in
/// either order.
inline bool has_constant_filter(const runtime::PrepareContext& context, Arguments args, int rank = 4) {
  using namespace ops::arguments::et_convolution_clamp;
  const EValue& bias = *args[kBias];
  const EValue& out = *args[args.size() - 1];
  if (!is_float(*args[kInput]) || !is_float(*args[kWeight]) || !is_float_or_none(bias) || !is_float(out) ||
      !context.is_constant(*args[kWeight]) || !(bias.is_none() || context.is_constant(bias))) {
    return false;
  }
  for (size_t i = kStride; i < args.size(); ++i) {
    if (!args[i]->is_tensor() && !context.is_constant(*args[i])) {
      return false;
    }
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const int out_channels_dim = args[kTransposed]->number_as_bool() ? 1 : 0;
  const auto has_order = [rank](const EValue& value) {
    return is_channels_last(value) || (rank == 5 && is_row_major(value));
  };
  return args[kInput]->to_tensor().dim() == rank && weight.dim() == rank && out.to_tensor().dim() == rank &&
         has_order(*args[kInput]) && has_order(out) &&
         (is_row_major(*args[kWeight]) || is_channels_last(*args[kWeight])) &&
         (bias.is_none() || bias.to_tensor().numel() == weight.size(out_channels_dim));
}

/// For kernels of images that take lines, too.
inline int image_rank(Arguments args) {
  return args[ops::arguments::et_convolution_clamp::kInput]->to_tensor().dim() == 3 ? 3 : 4;
}

/// Errors: InvalidArgument unless a call's image has the channels that the filter was packed for.
inline Error check_channels(const Tensor& input, size_t channels) {
  ET_CHECK_OR_RETURN(input.size(1) == static_cast<int64_t>(channels), InvalidArgument,
                     "convolution: %" PRId64 " channels meet a filter for %zu", input.size(1), channels);
  return Error::Ok;
}

/// True for a list that says `h` and `w`: one item for both, or two.
inline bool is_pair(const EValue& list, int64_t h, int64_t w) {
  const IntArrayRef items = list.to_int_list();
  return (items.size() == 1 || items.size() == 2) && items[0] == h && items[items.size() - 1] == w;
}

/// Of a convolution that is not transposed; 0 when the image is smaller than the kernel.
inline int64_t output_extent(int64_t in, int64_t padding, int64_t kernel, int64_t stride = 1, int64_t dilation = 1) {
  const int64_t room = in + 2 * padding - (kernel - 1) * dilation - 1;
  return room < 0 ? 0 : room / stride + 1;
}

/// Gives the output of a call these sizes, of a line those without its height. Errors: InvalidArgument when the image
/// is smaller than the kernel, which the extents say.
inline Error resize_output(KernelContext& context, const char* op, const Tensor& input, size_t channels, int64_t out_h,
                           int64_t out_w, const Tensor& out) {
  ET_CHECK_OR_RETURN(out_h > 0 && out_w > 0, InvalidArgument,
                     "%s: an input of %" PRId64 " x %" PRId64 " is smaller than the kernel", op,
                     input.dim() == 3 ? 1 : input.size(2), input.size(-1));
  const int64_t sizes[] = {input.size(0), static_cast<int64_t>(channels), input.dim() == 3 ? out_w : out_h, out_w};
  return resize_tensor(context, out, {sizes, static_cast<size_t>(input.dim())});
}

/// True when the padding's one or two items are from 0 to `most`.
inline bool has_padding_up_to(const EValue& list, int64_t most) {
  const IntArrayRef padding = list.to_int_list();
  bool fits = padding.size() == 1 || padding.size() == 2;
  for (const int64_t item : padding) {
    fits = fits && item >= 0 && item <= most;
  }
  return fits;
}

/// True for strides or dilations, one or two, of at least 1.
inline bool has_steps(const EValue& list) {
  const IntArrayRef steps = list.to_int_list();
  bool fits = steps.size() == 1 || steps.size() == 2;
  for (const int64_t step : steps) {
    fits = fits && step > 0 && step <= INT32_MAX;
  }
  return fits;
}

/// `channels` numbers of the bias, zeros without one, and zeros up to `padded`; in the Method's memory, 64-byte
/// aligned.
inline Result<const float*> padded_bias(runtime::PrepareContext& context, const EValue& bias, size_t channels,
                                        size_t padded) {
  ET_TRY(void* const memory, context.allocate(padded * sizeof(float), 64));
  auto* const out = static_cast<float*>(memory);
  const float* const from = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  for (size_t c = 0; c < padded; ++c) {
    out[c] = from != nullptr && c < channels ? from[c] : 0.0f;
  }
  return static_cast<const float*>(out);
}

/// What a call has to do.
inline ops::Work work_of(Arguments args) {
  using namespace ops::arguments::et_convolution_clamp;
  return runtime::work_of({args[kInput]->to_tensor(), args[kWeight]->to_tensor().sizes(), args[kStride],
                           args[kDilation], args[kGroups]->number_as_int(), args[kTransposed]->number_as_bool(),
                           args[args.size() - 1]->to_tensor()});
}

template <PrepareClamped kPrepare, runtime::KernelRun kRun, uint8_t kPriority>
using ConvolutionKernels =
    ClampedKernels<signature::convolution_out, signature::convolution_clamp_out, kPrepare, kRun, kPriority>;

}  // namespace et::kernels::optimized::conv
