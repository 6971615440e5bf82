// A depthwise convolution between two of 1x1, the first of which may be left out. The plain way: the expanded image
// whole, then pixel by pixel.
#include "kernels/portable/op_separable_convolution.h"

#include <limits>

#include "base/checked_math.h"
#include "kernels/portable/convolution_extents.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

constexpr const char* kOp = "et::separable_convolution";

/// One of the three: a weight [out, in, height, width], a bias and a range.
struct Filter {
  const float* weight;
  int64_t strides[4];
  const float* bias;
  float min, max;

  float at(int64_t out, int64_t in, int64_t y, int64_t x) const {
    return weight[out * strides[0] + in * strides[1] + y * strides[2] + x * strides[3]];
  }
  float start(int64_t out) const { return bias == nullptr ? 0.0f : bias[out]; }
  float limit(float value) const {
    const float above = value < min ? min : value;
    return above > max ? max : above;
  }
};

/// Errors: InvalidType for other elements than floats; InvalidArgument unless the sizes are [out, in, …] and [out].
Error read_filter(const char* name, const Tensor& weight, const OptionalTensor& bias, int64_t out, int64_t in,
                  const std::optional<Scalar>& min, const std::optional<Scalar>& max, Filter* filter) {
  ET_CHECK_OR_RETURN(weight.scalar_type() == ScalarType::Float, InvalidType, "%s: %s is %s, must be torch.float32", kOp,
                     name, to_string(weight.scalar_type()));
  ET_CHECK_OR_RETURN(weight.dim() == 4 && weight.size(0) == out && weight.size(1) == in, InvalidArgument,
                     "%s: %s %s is not (%" PRId64 ", %" PRId64 ", height, width)", kOp, name,
                     ShapeText(weight.sizes()).text, out, in);
  if (bias.has_value()) {
    ET_CHECK_OR_RETURN(bias->scalar_type() == ScalarType::Float, InvalidType,
                       "%s: the bias of %s is %s, must be torch.float32", kOp, name, to_string(bias->scalar_type()));
    ET_CHECK_OR_RETURN(bias->dim() == 1 && bias->size(0) == out, InvalidArgument,
                       "%s: the bias of %s is %s for %" PRId64 " channels", kOp, name, ShapeText(bias->sizes()).text,
                       out);
  }
  filter->weight = weight.const_data_ptr<float>();
  for (size_t d = 0; d < 4; ++d) {
    filter->strides[d] = weight.strides()[d];
  }
  filter->bias = bias.has_value() ? bias->const_data_ptr<float>() : nullptr;
  filter->min = min.has_value() ? min->to<float>() : -std::numeric_limits<float>::infinity();
  filter->max = max.has_value() ? max->to<float>() : std::numeric_limits<float>::infinity();
  return Error::Ok;
}

/// Errors: InvalidArgument unless the filter is 1x1.
Error check_pixel_filter(const char* name, const Tensor& weight) {
  ET_CHECK_OR_RETURN(weight.size(2) == 1 && weight.size(3) == 1, InvalidArgument, "%s: %s %s is not 1x1", kOp, name,
                     ShapeText(weight.sizes()).text);
  return Error::Ok;
}

/// An image; numbers are at data[channel * strides[1] + y * strides[2] + x * strides[3]].
struct Image {
  const float* data;
  int64_t strides[4];

  float at(int64_t channel, int64_t y, int64_t x) const {
    return data[channel * strides[1] + y * strides[2] + x * strides[3]];
  }
};

}  // namespace

Error separable_convolution_out(KernelContext& context, const Tensor& input, const OptionalTensor& expand_weight,
                                const OptionalTensor& expand_bias, const std::optional<Scalar>& expand_min,
                                const std::optional<Scalar>& expand_max, const Tensor& weight,
                                const OptionalTensor& bias, IntArrayRef stride, IntArrayRef padding,
                                const std::optional<Scalar>& min, const std::optional<Scalar>& max,
                                const Tensor& project_weight, const OptionalTensor& project_bias,
                                const std::optional<Scalar>& project_min, const std::optional<Scalar>& project_max,
                                Tensor& out) {
  for (const Tensor* image : {&input, static_cast<const Tensor*>(&out)}) {
    ET_CHECK_OR_RETURN(image->scalar_type() == ScalarType::Float, InvalidType,
                       "%s: an image is %s, must be torch.float32", kOp, to_string(image->scalar_type()));
  }
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, 4, 4));
  ET_RETURN_IF_ERROR(check_rank(kOp, "weight", weight, 4, 4));
  ET_RETURN_IF_ERROR(check_rank(kOp, "project_weight", project_weight, 4, 4));
  const int64_t in_channels = input.size(1), channels = weight.size(0), out_channels = project_weight.size(0);
  Filter expand{}, depthwise{}, project{};
  if (expand_weight.has_value()) {
    ET_RETURN_IF_ERROR(read_filter("expand_weight", *expand_weight, expand_bias, channels, in_channels, expand_min,
                                   expand_max, &expand));
    ET_RETURN_IF_ERROR(check_pixel_filter("expand_weight", *expand_weight));
  }
  ET_RETURN_IF_ERROR(read_filter("weight", weight, bias, channels, 1, min, max, &depthwise));
  ET_RETURN_IF_ERROR(read_filter("project_weight", project_weight, project_bias, out_channels, channels, project_min,
                                 project_max, &project));
  ET_RETURN_IF_ERROR(check_pixel_filter("project_weight", project_weight));
  ET_CHECK_OR_RETURN(expand_weight.has_value() || in_channels == channels, InvalidArgument,
                     "%s: input %s meets a depthwise weight %s", kOp, ShapeText(input.sizes()).text,
                     ShapeText(weight.sizes()).text);
  ConvolutionExtents e;
  Sizes sizes(input.sizes());
  ET_RETURN_IF_ERROR(plan_extents(kOp, input, weight.sizes(), {stride, padding, {}}, &e, sizes.data()));
  sizes[1] = out_channels;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }

  const int64_t height = e.in[1], width = e.in[2];
  int64_t pixels = height * width, floats = 0;  // each fits 31 bits
  const bool fits = !mul_overflow(expand_weight.has_value() ? pixels + 1 : 1, channels, &floats) &&
                    floats <= INT64_MAX / static_cast<int64_t>(sizeof(float));
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: %" PRId64 " channels of %" PRId64 " pixels are too many", kOp,
                     channels, pixels);
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(floats) * sizeof(float)));
  auto* const pixel = static_cast<float*>(memory);  // [channels]
  float* const expanded = pixel + channels;         // [height, width, channels]
  for (int64_t n = 0; n < input.size(0); ++n) {
    Image image{input.const_data_ptr<float>() + n * input.strides()[0],
                {0, input.strides()[1], input.strides()[2], input.strides()[3]}};
    if (expand_weight.has_value()) {
      float* next = expanded;
      for (int64_t i = 0; i < pixels; ++i) {
        for (int64_t c = 0; c < channels; ++c) {
          float sum = expand.start(c);
          for (int64_t k = 0; k < in_channels; ++k) {
            sum += image.at(k, i / width, i % width) * expand.at(c, k, 0, 0);
          }
          *next++ = expand.limit(sum);
        }
      }
      image = {expanded, {0, 1, width * channels, channels}};
    }
    for (int64_t oy = 0; oy < e.out[1]; ++oy) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      for (int64_t ox = 0; ox < e.out[2]; ++ox) {
        for (int64_t c = 0; c < channels; ++c) {
          float sum = depthwise.start(c);
          for (int64_t ky = 0; ky < e.kernel[1]; ++ky) {
            const int64_t y = oy * e.stride[1] - e.padding[1] + ky;
            for (int64_t kx = 0; y >= 0 && y < height && kx < e.kernel[2]; ++kx) {
              const int64_t x = ox * e.stride[2] - e.padding[2] + kx;
              sum += x >= 0 && x < width ? image.at(c, y, x) * depthwise.at(c, 0, ky, kx) : 0.0f;
            }
          }
          pixel[c] = depthwise.limit(sum);
        }
        float* const to =
            out.mutable_data_ptr<float>() + n * out.strides()[0] + oy * out.strides()[2] + ox * out.strides()[3];
        for (int64_t o = 0; o < out_channels; ++o) {
          float sum = project.start(o);
          for (int64_t c = 0; c < channels; ++c) {
            sum += pixel[c] * project.at(o, c, 0, 0);
          }
          to[o * out.strides()[1]] = project.limit(sum);
        }
      }
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
