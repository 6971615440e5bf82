// et::quantized_convolution of int8, in groups or depthwise: of images with channels innermost, and of sequences.
#include "kernels/cortex_m/depthwise.h"
#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/move.h"
#include "kernels/cortex_m/product.h"
#include "kernels/portable/convolution_extents.h"
#include "runtime/features.h"

namespace et::kernels::cortex_m {
namespace {

constexpr const char* kOp = "et::quantized_convolution";

struct Geometry : ImageWindows {
  int32_t batch, in_channels, out_channels, groups;
  int32_t channel_step, tap_step;  ///< from an input channel of a row of the filter to the next one, and from a tap

  bool is_depthwise() const { return groups == in_channels && groups == out_channels; }
  /// Columns are the pixels of the input as they lie there.
  bool is_pointwise() const {
    return groups == 1 && kernel[0] * kernel[1] == 1 && stride[0] * stride[1] == 1 && (padding[0] | padding[1]) == 0;
  }
};

/// Copies what the window of a pixel shows of a group's channels, in the order of the filter's rows and with the zero
/// point for padding.
void gather(const Geometry& g, const int8_t* image, int32_t zero_point, int32_t pixel, int8_t* to) {
  const int32_t row = pixel / g.out[1], column = pixel % g.out[1];
  const int32_t channels = g.in_channels / g.groups, taps = g.kernel[0] * g.kernel[1];
  const int32_t top = row * g.stride[0] - g.padding[0], left = column * g.stride[1] - g.padding[1];
  const int32_t bottom = top + (g.kernel[0] - 1) * g.dilation[0], right = left + (g.kernel[1] - 1) * g.dilation[1];
  if (top < 0 || left < 0 || bottom >= g.in[0] || right >= g.in[1]) {
    std::memset(to, zero_point, static_cast<size_t>(taps * channels));
  }
  const bool is_run = g.channel_step == 1 && g.groups == 1 && g.dilation[1] == 1;
  const int32_t first = is_run ? std::max<int32_t>(-left, 0) : 0;
  const int32_t last = is_run ? std::min(g.kernel[1], g.in[1] - left) : g.kernel[1];
  for (int32_t kh = 0, h = top; kh < g.kernel[0]; ++kh, h += g.dilation[0]) {
    if (h < 0 || h >= g.in[0]) {
      continue;
    }
    const int8_t* const line = image + static_cast<ptrdiff_t>(h) * g.in[1] * g.in_channels;
    int8_t* const target = to + kh * g.kernel[1] * g.tap_step;
    if (is_run) {  // neighbouring taps are neighbours in the image
      copy_bytes(line + (left + first) * channels, (last - first) * channels, target + first * channels);
      continue;
    }
    for (int32_t kw = 0, w = left; kw < last; ++kw, w += g.dilation[1]) {
      if (w >= 0 && w < g.in[1]) {
        const int8_t* const from = line + static_cast<ptrdiff_t>(w) * g.in_channels;
        for (int32_t c = 0; c < channels; ++c) {
          target[kw * g.tap_step + c * g.channel_step] = from[c];
        }
      }
    }
  }
}

/// Each group: columns of a few neighbouring windows at a time.
Error convolve(KernelContext& context, const Geometry& g, const Filter& filter, const Requantizer& requantizer,
               const int8_t* in, int8_t* out) {
  const int32_t in_per_group = g.in_channels / g.groups, out_per_group = g.out_channels / g.groups;
  const int32_t pixels = g.out[0] * g.out[1];
  Product product(filter, requantizer);
  ET_RETURN_IF_ERROR(product.start(context));
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(kColumns * filter.depth) + 1, 1));
  auto* const columns = static_cast<int8_t*>(memory);
  for (int32_t group = 0; group < g.groups; ++group) {
    for (int32_t c = 0; c < out_per_group; c += kBlock) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      const int32_t first = group * out_per_group + c;
      ET_RETURN_IF_ERROR(product.choose(first, std::min(kBlock, out_per_group - c), pixels));
      for (int32_t n = 0; n < g.batch; ++n) {
        const int8_t* const image = in + static_cast<ptrdiff_t>(n) * g.in[0] * g.in[1] * g.in_channels +
                                    static_cast<ptrdiff_t>(group) * in_per_group;
        int8_t* to = out + static_cast<ptrdiff_t>(n) * pixels * g.out_channels + first;
        const int32_t step = ops::pixel_step(image, to);
        int32_t pixel = step > 0 ? 0 : pixels - 1;
        to += static_cast<ptrdiff_t>(pixel) * g.out_channels;
        const ptrdiff_t out_step = step * g.out_channels;
        if (g.is_pointwise()) {
          product.multiply(image + static_cast<ptrdiff_t>(pixel) * g.in_channels, step * g.in_channels, pixels, to,
                           out_step);
          continue;
        }
        for (int32_t left = pixels; left > 0;) {
          const int32_t count = std::min(kColumns, left);
          for (int32_t i = 0; i < count; ++i, pixel += step) {
            gather(g, image, filter.zero_point, pixel, columns + i * filter.depth);
          }
          product.multiply(columns, filter.depth, count, to, out_step);
          to += count * out_step;
          left -= count;
        }
      }
    }
  }
  return Error::Ok;
}

Error convolve_depthwise(KernelContext& context, const Geometry& g, const Filter& filter,
                         const Requantizer& requantizer, const int8_t* in, int8_t* out) {
  const ptrdiff_t in_image = static_cast<ptrdiff_t>(g.in[0]) * g.in[1] * g.in_channels;
  const ptrdiff_t out_image = static_cast<ptrdiff_t>(g.out[0]) * g.out[1] * g.in_channels;
  Depthwise depthwise(filter, g, g.in_channels, requantizer);
  ET_RETURN_IF_ERROR(depthwise.start(context));
  for (int32_t c = 0; c < g.in_channels; c += kBlock) {
    ET_RETURN_IF_ERROR(depthwise.choose(c, std::min(kBlock, g.in_channels - c)));
    for (int32_t n = 0; n < g.batch; ++n) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      depthwise.convolve(in + n * in_image + c, out + n * out_image + c);
    }
  }
  return Error::Ok;
}

/// Copies each sequence of [batch, rows, columns] as [batch, columns, rows].
void transpose(const Tensor& like, int64_t batch, int64_t rows, int64_t columns, const void* from, void* to) {
  Move move(like);
  move.add(batch, rows * columns, rows * columns);
  move.add(columns, 1, rows);
  move.add(rows, columns, 1);
  move.run(from, to);
}

/// Sequences are computed as images of one row: apart from a tensor that has its steps innermost.
template <typename Run>
[[gnu::noinline]] Error convolve_sequences(KernelContext& context, const Geometry& g, const Tensor& input,
                                           const Tensor& out, const Run& run) {
  const size_t in_bytes = is_channels_last(input, 3) ? 0 : input.nbytes();
  const size_t out_bytes = is_channels_last(out, 3) ? 0 : out.nbytes();
  ET_TRY(void* const memory, context.allocate_temp(in_bytes + out_bytes + 1, 1));
  auto* const image = static_cast<int8_t*>(memory);
  if (in_bytes > 0) {
    transpose(input, g.batch, g.in_channels, g.in[1], input.const_data_ptr(), image);
  }
  int8_t* const result = out_bytes > 0 ? image + in_bytes : out.mutable_data_ptr<int8_t>();
  ET_RETURN_IF_ERROR(run(in_bytes > 0 ? image : input.const_data_ptr<int8_t>(), result));
  if (out_bytes > 0) {
    transpose(out, g.batch, g.out[1], g.out_channels, result, out.mutable_data_ptr());
  }
  return Error::Ok;
}

/// `sizes`: of the output. Errors: those of the plain kernel. (Apart, so that its stack is free when sums are made.)
[[gnu::noinline, gnu::cold]] Error read_geometry(const Tensor& input, const Tensor& weight,
                                                 const portable::ConvolutionNumbers& numbers, Geometry* g,
                                                 int64_t* sizes) {
  const int64_t groups = numbers.groups;
  ET_CHECK_OR_RETURN(groups > 0 && groups <= weight.size(0) && weight.size(1) * groups == input.size(1) &&
                         static_cast<int32_t>(weight.size(0)) % static_cast<int32_t>(groups) == 0,
                     InvalidArgument, "%s: input %s and weight %s do not fit together in %" PRId64 " groups", kOp,
                     ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text, groups);
  sizes[0] = input.size(0), sizes[1] = weight.size(0);
  portable::ConvolutionExtents extents;
  ET_RETURN_IF_ERROR(portable::plan_extents(kOp, input, weight.sizes(), numbers, &extents, sizes));
  for (size_t d = 0; d < 2; ++d) {
    g->in[d] = static_cast<int32_t>(extents.in[d + 1]);
    g->out[d] = static_cast<int32_t>(extents.out[d + 1]);
    g->kernel[d] = static_cast<int32_t>(extents.kernel[d + 1]);
    g->stride[d] = static_cast<int32_t>(extents.stride[d + 1]);
    g->padding[d] = static_cast<int32_t>(extents.padding[d + 1]);
    g->dilation[d] = static_cast<int32_t>(extents.dilation[d + 1]);
  }
  g->batch = static_cast<int32_t>(input.size(0));
  g->in_channels = static_cast<int32_t>(input.size(1));
  g->out_channels = static_cast<int32_t>(weight.size(0));
  g->groups = static_cast<int32_t>(groups);
  const bool is_last = is_channels_last(weight);
  g->channel_step = is_last ? 1 : g->kernel[0] * g->kernel[1];
  g->tap_step = is_last ? static_cast<int32_t>(weight.size(1)) : 1;
  return Error::Ok;
}

/// Positions of windows are computed in 32 bits.
bool are_small(IntArrayRef numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n >= 0 && n < 1 << 15; });
}

/// False where what is written would be read later.
[[gnu::cold]] bool lies_well(Arguments args) {
  const Tensor input = args[0]->to_tensor(), out = args[16]->to_tensor();
  if (lie_apart(input, out)) {
    return true;
  }
  Geometry g;
  int64_t sizes[4];
  ops::Distances least;
  return input.dim() == 4 &&
         read_geometry(input, args[3]->to_tensor(),
                       {args[6]->to_int_list(), args[7]->to_int_list(), args[8]->to_int_list(), false,
                        args[10]->to_int_list(), args[11]->number_as_int()},
                       &g, sizes) == Error::Ok &&
         std::equal(sizes, sizes + 4, out.sizes().begin()) &&
         ops::may_overlap(g, g.batch, g.in_channels, g.out_channels, g.groups, &least) &&
         least.allow(input.const_data_ptr(), out.const_data_ptr());
}

/// An image with its channels innermost, or a sequence with its channels or its steps innermost.
bool lies_as_taken(const Tensor& tensor) {
  return is_channels_last(tensor) ||
         (runtime::has(runtime::Feature::kSequences) && tensor.dim() == 3 && tensor.numel() <= INT32_MAX &&
          (is_channels_last(tensor, 3) || portable::is_contiguous(tensor)));
}

}  // namespace

bool fits_quantized_convolution(Arguments args) {
  if (!is_int8(*args[0]) || !is_int8(*args[3]) || !is_int8(*args[16])) {
    return false;
  }
  const Tensor input = args[0]->to_tensor(), weight = args[3]->to_tensor(), out = args[16]->to_tensor();
  return !args[9]->number_as_bool() && lies_as_taken(input) && weight.dim() == input.dim() && weight.numel() > 0 &&
         (is_channels_last(weight) || portable::is_contiguous(weight)) && lies_as_taken(out) &&
         out.dim() == input.dim() && are_small(input.sizes().subspan(2, input.sizes().size() - 2)) &&
         are_small(weight.sizes()) && are_small(args[6]->to_int_list()) && are_small(args[7]->to_int_list()) &&
         are_small(args[8]->to_int_list()) && lies_well(args);
}

Error quantized_convolution_out(KernelContext& context, const Tensor& input, double input_scale,
                                int64_t input_zero_point, const Tensor& weight, const Tensor& weight_scales,
                                const OptionalTensor& bias, IntArrayRef stride, IntArrayRef padding,
                                IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
                                double output_scale, int64_t output_zero_point, int64_t output_min, int64_t output_max,
                                Tensor& out) {
  Geometry g;
  {
    int64_t sizes[4];  // portable::Sizes has room for more dimensions
    ET_RETURN_IF_ERROR(
        read_geometry(input, weight, {stride, padding, dilation, transposed, output_padding, groups}, &g, sizes));
    ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, input.sizes().size()}));
  }
  ET_TRY(const Requantizer requantizer,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  Filter filter;
  ET_RETURN_IF_ERROR(filter.read(kOp, input_scale, input_zero_point, weight, weight_scales, bias, requantizer));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto run = [&](const int8_t* image, int8_t* result) {
    return (g.is_depthwise() ? &convolve_depthwise : &convolve)(context, g, filter, requantizer, image, result);
  };
  if (runtime::has(runtime::Feature::kSequences) && input.dim() == 3) {
    return convolve_sequences(context, g, input, out, run);
  }
  return run(input.const_data_ptr<int8_t>(), out.mutable_data_ptr<int8_t>());
}

}  // namespace et::kernels::cortex_m
