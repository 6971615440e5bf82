// et::quantized_convolution: convolution and transposed convolution of integers in one, two and three dimensions,
// grouped or not, in any dim order. et::dynamic_convolution: the same of floats that become integers at the call, not
// transposed.
#include "kernels/quantized/op_convolution.h"

#include "base/checked_math.h"
#include "kernels/portable/convolution_extents.h"
#include "kernels/portable/fused_clamp.h"
#include "kernels/quantized/affine.h"
#include "numerics/nibbles.h"
#include "numerics/run_time_quantization.h"

namespace et::kernels::quantized {
namespace {

constexpr const char* kOp = "et::quantized_convolution";
constexpr const char* kDynamicOp = "et::dynamic_convolution";

/// Everything in three spatial dimensions: one- and two-dimensional convolutions have leading sizes of 1.
struct Geometry : portable::ConvolutionExtents {
  int64_t batch, in_channels, out_channels, groups;
  bool transposed;
  // Strides in elements: batch, channel, the three spatial dimensions. Weight: [out or in channels, per group, …].
  int64_t in_strides[5], out_strides[5], weight_strides[5];
};

/// Where tap `k` reads for position `o` of the output along dimension d; -1: nowhere.
int64_t input_position(const Geometry& g, int d, int64_t o, int64_t k) {
  if (!g.transposed) {
    const int64_t position = o * g.stride[d] + k * g.dilation[d] - g.padding[d];
    return position >= 0 && position < g.in[d] ? position : -1;
  }
  const int64_t scaled = o + g.padding[d] - k * g.dilation[d];
  const int64_t position = scaled / g.stride[d];
  return scaled >= 0 && scaled % g.stride[d] == 0 && position < g.in[d] ? position : -1;
}

/// The weights of one output channel: 8 bits each.
struct Bytes {
  const int8_t* first;
  int64_t in_stride;
  int8_t at(int64_t offset, int64_t channel) const { return first[offset + channel * in_stride]; }
};

/// The same from pairs of rows of 4 bits (numerics/nibbles.h). Rows are output channels, or input channels when
/// transposed.
struct Nibbles {
  const uint8_t* first;  // of the pair that row 0 belongs to
  int64_t in_stride;     // elements to the next input channel of a row
  int64_t pair_stride;
  int64_t row;
  bool transposed;
  int8_t at(int64_t offset, int64_t channel) const {
    const int64_t of = transposed ? row + channel : row;
    const uint8_t pair = first[offset + of / 2 * pair_stride + (transposed ? 0 : channel * in_stride)];
    return of % 2 == 0 ? low_nibble(pair) : high_nibble(pair);
  }
};

Bytes filter_of(const Geometry& g, const int8_t* weights, int64_t group, int64_t out_channel) {
  const int64_t in_per_group = g.in_channels / g.groups;
  const int64_t out_per_group = g.out_channels / g.groups;
  // Weight of (output channel, input channel): [oc, ic in group] or, transposed, [ic, oc in group].
  return {weights + (g.transposed ? (out_channel % out_per_group) * g.weight_strides[1] +
                                        group * in_per_group * g.weight_strides[0]
                                  : out_channel * g.weight_strides[0]),
          g.weight_strides[g.transposed ? 0 : 1]};
}

Nibbles filter_of(const Geometry& g, const uint8_t* weights, int64_t group, int64_t out_channel) {
  const int64_t column = out_channel % (g.out_channels / g.groups);
  return {weights + (g.transposed ? column * g.weight_strides[1] : 0), g.weight_strides[1], g.weight_strides[0],
          g.transposed ? group * (g.in_channels / g.groups) : out_channel, g.transposed};
}

/// Sum for one element of the output: what lies in the padding is the zero point and adds nothing.
template <typename T, typename Filter>
Sum<T> window_sum(const Geometry& g, const T* image, const Filter& filter, int32_t zero_point, const int64_t* position,
                  Sum<T> sum) {
  const int64_t in_per_group = g.in_channels / g.groups;
  const int64_t planes = in_per_group > 0 ? g.kernel[0] : 0;  // nothing bounds the sizes of a filter without elements
  for (int64_t kd = 0; kd < planes; ++kd) {
    const int64_t d = input_position(g, 0, position[0], kd);
    for (int64_t kh = 0; d >= 0 && kh < g.kernel[1]; ++kh) {
      const int64_t h = input_position(g, 1, position[1], kh);
      for (int64_t kw = 0; h >= 0 && kw < g.kernel[2]; ++kw) {
        const int64_t w = input_position(g, 2, position[2], kw);
        if (w < 0) {
          continue;
        }
        const T* from = image + d * g.in_strides[2] + h * g.in_strides[3] + w * g.in_strides[4];
        const int64_t tap = kd * g.weight_strides[2] + kh * g.weight_strides[3] + kw * g.weight_strides[4];
        for (int64_t c = 0; c < in_per_group; ++c) {
          sum = multiply_add(sum, static_cast<Sum<T>>(static_cast<int32_t>(from[c * g.in_strides[1]]) - zero_point),
                             static_cast<Sum<T>>(filter.at(tap, c)));
        }
      }
    }
  }
  return sum;
}

/// Calls take(position, offset in the output) for all elements of one of its channels.
template <typename Take>
void for_each_position(const Geometry& g, Take take) {
  int64_t position[3];
  for (position[0] = 0; position[0] < g.out[0]; ++position[0]) {
    for (position[1] = 0; position[1] < g.out[1]; ++position[1]) {
      for (position[2] = 0; position[2] < g.out[2]; ++position[2]) {
        take(position,
             position[0] * g.out_strides[2] + position[1] * g.out_strides[3] + position[2] * g.out_strides[4]);
      }
    }
  }
}

/// W: int8_t, or uint8_t for packed weights.
template <typename T, typename W>
Error convolve(KernelContext& context, const Geometry& g, const Tensor& input, const Tensor& weight,
               const OptionalTensor& bias, int32_t zero_point, const ProductScales& scales,
               const Requantizer& requantize, const Tensor& out) {
  const int64_t in_per_group = g.in_channels / g.groups;
  const int64_t out_per_group = g.out_channels / g.groups;
  const int surplus = surplus_of<T>(in_per_group * g.kernel[0] * g.kernel[1] * g.kernel[2], kWeightedBits);
  const int32_t* const start = bias.has_value() ? bias->const_data_ptr<int32_t>() : nullptr;
  const auto* const weights = static_cast<const W*>(weight.const_data_ptr());
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t oc = 0; oc < g.out_channels; ++oc) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      const int64_t group = oc / out_per_group;
      const auto filter = filter_of(g, weights, group, oc);
      const T* const image = input.const_data_ptr<T>() + n * g.in_strides[0] + group * in_per_group * g.in_strides[1];
      T* const target = out.mutable_data_ptr<T>() + n * g.out_strides[0] + oc * g.out_strides[1];
      const Sum<T> initial = start == nullptr ? 0 : start[oc];
      const float scale = scales[oc];
      for_each_position(g, [&](const int64_t* position, int64_t offset) {
        const Sum<T> sum = window_sum(g, image, filter, zero_point, position, initial);
        target[offset] = static_cast<T>(requantize(sum, scale, surplus));
      });
    }
  }
  return Error::Ok;
}

Error read_geometry(const char* op, const Tensor& input, const Tensor& weight,
                    const portable::ConvolutionNumbers& numbers, const Tensor& out, Geometry* g, Sizes* sizes) {
  const bool transposed = numbers.is_transposed;
  const int64_t groups = numbers.groups;
  ET_RETURN_IF_ERROR(check_rank(op, "weight", weight, 3, 5));
  ET_RETURN_IF_ERROR(check_rank(op, "input", input, weight.dim(), weight.dim()));
  const int64_t spatial = weight.dim() - 2;
  g->transposed = transposed;
  g->batch = input.size(0);
  g->in_channels = input.size(1);
  g->groups = groups;
  int64_t rows = weight.size(0);
  if (weight.scalar_type() == ScalarType::Byte) {  // pairs of rows: how many it is, the image on their side says
    ET_RETURN_IF_ERROR(check_rank(op, "out", out, weight.dim(), weight.dim()));
    rows = transposed ? input.size(1) : out.size(1);
    ET_CHECK_OR_RETURN(weight.size(0) == packed_count(rows), InvalidArgument,
                       "%s: weight %s holds no pairs of %" PRId64 " rows", op, ShapeText(weight.sizes()).text, rows);
  }
  int64_t of_groups = 0;  // channels on the side that the weight has one group of
  const bool is_known = groups > 0 && !mul_overflow(weight.size(1), groups, &of_groups);
  g->out_channels = transposed ? of_groups : rows;
  const int64_t weight_in = transposed ? rows : of_groups;
  ET_CHECK_OR_RETURN(
      is_known && weight_in == g->in_channels && g->in_channels % groups == 0 && g->out_channels % groups == 0,
      InvalidArgument, "%s: input %s and weight %s do not fit together in %" PRId64 " groups", op,
      ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text, groups);
  *sizes = Sizes(input.sizes());
  (*sizes)[1] = g->out_channels;
  ET_RETURN_IF_ERROR(portable::plan_extents(op, input, Sizes(weight.sizes()), numbers, g, sizes->data()));
  portable::spread_strides(input, spatial, g->in_strides);
  portable::spread_strides(weight, spatial, g->weight_strides);
  return Error::Ok;
}

}  // namespace

Error quantized_convolution_out(KernelContext& context, const Tensor& input, double input_scale,
                                int64_t input_zero_point, const Tensor& weight, const Tensor& weight_scales,
                                const OptionalTensor& bias, IntArrayRef stride, IntArrayRef padding,
                                IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
                                double output_scale, int64_t output_zero_point, int64_t output_min, int64_t output_max,
                                Tensor& out) {
  ET_RETURN_IF_ERROR(check_activation(kOp, "input", input));
  ET_RETURN_IF_ERROR(check_activation(kOp, "out", out, &input));
  const bool is_packed = weight.scalar_type() == ScalarType::Byte;
  ET_CHECK_OR_RETURN(is_packed || weight.scalar_type() == ScalarType::Char, InvalidType,
                     "%s: weight is %s, must be torch.int8, or torch.uint8 with two rows a byte", kOp,
                     to_string(weight.scalar_type()));
  Geometry g;
  Sizes sizes;
  ET_RETURN_IF_ERROR(read_geometry(kOp, input, weight, {stride, padding, dilation, transposed, output_padding, groups},
                                   out, &g, &sizes));
  ET_RETURN_IF_ERROR(check_weight_scales(kOp, weight_scales, g.out_channels));
  ET_RETURN_IF_ERROR(check_bias(kOp, bias, g.out_channels));
  ET_TRY(const Affine of_input, Affine::make(kOp, "input", input.scalar_type(), input_scale, input_zero_point));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_TRY(const ProductScales scales, ProductScales::make(kOp, of_input.scale, weight_scales, requantize.scale()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  portable::spread_strides(out, weight.dim() - 2, g.out_strides);
  if (out.numel() == 0) {
    return Error::Ok;
  }
  return dispatch<Activations>(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = is_packed ? &convolve<T, uint8_t> : &convolve<T, int8_t>;
    return run(context, g, input, weight, bias, of_input.zero_point, scales, requantize, out);
  });
}

Error dynamic_convolution_out(KernelContext& context, const Tensor& input, const Tensor& weight,
                              const Tensor& weight_scales, const OptionalTensor& bias, IntArrayRef stride,
                              IntArrayRef padding, IntArrayRef dilation, int64_t groups, bool symmetric,
                              int64_t quant_min, int64_t quant_max, double eps, const std::optional<Scalar>& min,
                              const std::optional<Scalar>& max, Tensor& out) {
  ET_CHECK_OR_RETURN(input.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float &&
                         weight.scalar_type() == ScalarType::Char,
                     InvalidType, "%s: input is %s, weight %s and out %s, must be torch.float32, int8 and float32",
                     kDynamicOp, to_string(input.scalar_type()), to_string(weight.scalar_type()),
                     to_string(out.scalar_type()));
  const RunTimeQuantization choice{false, symmetric, quant_min, quant_max, static_cast<float>(eps)};
  ET_CHECK_OR_RETURN(choice.is_valid(), InvalidArgument, "%s: eps %g or the range of integers is none", kDynamicOp,
                     eps);
  Geometry g;
  Sizes sizes;
  ET_RETURN_IF_ERROR(read_geometry(kDynamicOp, input, weight, {stride, padding, dilation, false, IntArrayRef(), groups},
                                   out, &g, &sizes));
  ET_RETURN_IF_ERROR(check_weight_scales(kDynamicOp, weight_scales, g.out_channels));
  ET_CHECK_OR_RETURN(!bias.has_value() || (bias->scalar_type() == ScalarType::Float && bias->numel() == g.out_channels),
                     InvalidArgument, "%s: the bias must be %" PRId64 " numbers of torch.float32", kDynamicOp,
                     g.out_channels);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  portable::spread_strides(out, weight.dim() - 2, g.out_strides);
  if (out.numel() == 0) {
    return Error::Ok;
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(input.numel()) * sizeof(int16_t)));
  auto* const integers = static_cast<int16_t*>(memory);  // less the zero point, in the input's order
  float in_scale = 1;
  const bool is_finite = choice.for_each_row(
      input.const_data_ptr<float>(), 1, input.numel(), integers,
      [&](int64_t, const int16_t*, const RowParameters& chosen) { in_scale = static_cast<float>(chosen.scale); });
  ET_CHECK_OR_RETURN(is_finite, InvalidArgument, "%s: the input is not finite, so it has no integers", kDynamicOp);
  const int64_t in_per_group = g.in_channels / groups, out_per_group = g.out_channels / groups;
  const float* const scales = weight_scales.const_data_ptr<float>();
  const float* const biases = bias.has_value() ? bias->const_data_ptr<float>() : nullptr;
  float* const results = out.mutable_data_ptr<float>();
  for (int64_t oc = 0; oc < g.out_channels; ++oc) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kDynamicOp);
    const int64_t group = oc / out_per_group;
    const Bytes filter = filter_of(g, weight.const_data_ptr<int8_t>(), group, oc);
    const float scale = scales[weight_scales.numel() == 1 ? 0 : oc], shift = biases == nullptr ? 0.0f : biases[oc];
    for (int64_t n = 0; n < g.batch; ++n) {
      const int16_t* const image = integers + n * g.in_strides[0] + group * in_per_group * g.in_strides[1];
      float* const target = results + n * g.out_strides[0] + oc * g.out_strides[1];
      for_each_position(g, [&](const int64_t* position, int64_t offset) {
        const auto sum = static_cast<int32_t>(window_sum(g, image, filter, 0, position, int64_t{0}));
        target[offset] = static_cast<float>(sum) * scale * in_scale + shift;
      });
    }
  }
  return portable::clamp_in_place(kDynamicOp, min, max, out);
}

}  // namespace et::kernels::quantized
