// Gradients of convolution: with respect to the input, the weight and the bias. One walk over all products of the
// forward pass serves both gradients: input element x weight element → output element.
#include "kernels/portable/op_convolution_backward.h"

#include <cstring>

#include "base/checked_math.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/convolution_gradients.h"

namespace et::kernels::portable {
namespace {

constexpr const char* kOp = "aten::convolution_backward";

// Calls f(image element, weight element, window element) for each product.
template <typename F>
void for_each_product(const ConvolutionGradients& w, F&& f) {
  const int64_t image_plane = w.image[0] * w.image[1] * w.image[2];
  const int64_t window_plane = w.window[0] * w.window[1] * w.window[2];
  const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
  if (image_plane * w.image_channels == 0 || window_plane * w.window_channels == 0) {
    return;  // nothing bounds the other sizes
  }
  for (int64_t n = 0; n < w.batch; ++n) {
    for (int64_t g = 0; g < w.groups; ++g) {
      for (int64_t o = 0; o < w.window_channels; ++o) {
        const int64_t window_channel = g * w.window_channels + o;
        for (int64_t position = 0; position < window_plane; ++position) {
          const int64_t at[3] = {position / (w.window[1] * w.window[2]), position / w.window[2] % w.window[1],
                                 position % w.window[2]};
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t k[3] = {tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1],
                                  tap % w.kernel[2]};
            int64_t place = 0;
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              const int64_t x = at[d] * w.stride[d] + k[d] * w.dilation[d] - w.padding[d];
              inside = inside && x >= 0 && x < w.image[d];
              place = inside ? place * w.image[d] + x : 0;
            }
            for (int64_t i = 0; inside && i < w.image_channels; ++i) {
              const int64_t image_channel = g * w.image_channels + i;
              f((n * w.groups * w.image_channels + image_channel) * image_plane + place,
                (window_channel * w.image_channels + i) * taps + tap,
                (n * w.groups * w.window_channels + window_channel) * window_plane + position);
            }
          }
        }
      }
    }
  }
}

Result<double*> zeros(KernelContext& context, int64_t count) {
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(count) * sizeof(double)));
  std::memset(memory, 0, static_cast<size_t>(count) * sizeof(double));
  return static_cast<double*>(memory);
}

double at(const Tensor& tensor, int64_t i) {
  return load_one<double>(tensor.scalar_type(), tensor.const_data_ptr(), i);
}

Error size_gradient(KernelContext& context, bool wanted, IntArrayRef sizes, const Tensor& out) {
  if (!wanted) {
    return resize_tensor(context, out, {0});
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return check_row_major(kOp, {&out});
}

}  // namespace

Error plan_gradients(KernelContext& context, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                     const ConvolutionNumbers& numbers, Span<const bool> output_mask, const Tensor& out0,
                     const Tensor& out1, const Tensor& out2, ConvolutionGradients* plan) {
  ET_RETURN_IF_ERROR(check_rank(kOp, "weight", weight, 3, 5));
  const int64_t spatial = weight.dim() - 2;
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, spatial + 2, spatial + 2));
  ET_RETURN_IF_ERROR(check_rank(kOp, "grad_output", grad_output, spatial + 2, spatial + 2));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&grad_output, &input, &weight}));
  ET_CHECK_OR_RETURN(is_floating(input.scalar_type()) && output_mask.size() == 3, InvalidArgument,
                     "%s: input is %s, output_mask has %zu entries", kOp, to_string(input.scalar_type()),
                     output_mask.size());
  const Tensor& image = numbers.is_transposed ? grad_output : input;
  const Tensor& window = numbers.is_transposed ? input : grad_output;
  const int64_t groups = numbers.groups;
  int64_t of_groups = 0;
  ET_CHECK_OR_RETURN(
      groups > 0 && !mul_overflow(weight.size(1), groups, &of_groups) && image.size(1) == of_groups &&
          window.size(1) == weight.size(0) && weight.size(0) % groups == 0 && image.size(0) == window.size(0),
      InvalidArgument, "%s: shapes %s, %s and %s with %" PRId64 " groups do not go together", kOp,
      ShapeText(grad_output.sizes()).text, ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text, groups);
  plan->batch = image.size(0);
  plan->groups = groups;
  plan->image_channels = weight.size(1);
  plan->window_channels = weight.size(0) / groups;
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t i = d - (3 - spatial);
    const auto item = static_cast<size_t>(i);
    plan->image[d] = i >= 0 ? image.size(2 + i) : 1;
    plan->window[d] = i >= 0 ? window.size(2 + i) : 1;
    plan->kernel[d] = i >= 0 ? weight.size(2 + i) : 1;
    plan->stride[d] = i >= 0 ? list_item(numbers.stride, item, 1) : 1;
    plan->padding[d] = i >= 0 ? list_item(numbers.padding, item, 0) : 0;
    plan->dilation[d] = i >= 0 ? list_item(numbers.dilation, item, 1) : 1;
    ET_RETURN_IF_ERROR(
        check_window(kOp, plan->window[d], plan->kernel[d], plan->stride[d], plan->padding[d], plan->dilation[d]));
  }
  ET_RETURN_IF_ERROR(size_gradient(context, output_mask[0], input.sizes(), out0));
  ET_RETURN_IF_ERROR(size_gradient(context, output_mask[1], weight.sizes(), out1));
  return size_gradient(context, output_mask[2], {grad_output.size(1)}, out2);
}

Error convolution_backward_out(KernelContext& context, const Tensor& grad_output, const Tensor& input,
                               const Tensor& weight, std::optional<IntArrayRef>, IntArrayRef stride,
                               IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef, int64_t groups,
                               Span<const bool> output_mask, Tensor& out0, Tensor& out1, Tensor& out2) {
  ConvolutionGradients plan;
  ET_RETURN_IF_ERROR(plan_gradients(context, grad_output, input, weight,
                                    {stride, padding, dilation, transposed, {}, groups}, output_mask, out0, out1, out2,
                                    &plan));
  ET_TRY(double* input_grad, zeros(context, output_mask[0] ? input.numel() : 0));
  ET_TRY(double* weight_grad, zeros(context, output_mask[1] ? weight.numel() : 0));
  for_each_product(plan, [&](int64_t image_at, int64_t weight_at, int64_t window_at) {
    const int64_t input_at = transposed ? window_at : image_at;
    const double grad = at(grad_output, transposed ? image_at : window_at);
    if (output_mask[0]) {
      input_grad[input_at] += grad * at(weight, weight_at);
    }
    if (output_mask[1]) {
      weight_grad[weight_at] += grad * at(input, input_at);
    }
  });
  if (output_mask[0]) {
    store(out0.scalar_type(), input_grad, input.numel(), out0.mutable_data_ptr(), 1);
  }
  if (output_mask[1]) {
    store(out1.scalar_type(), weight_grad, weight.numel(), out1.mutable_data_ptr(), 1);
  }
  if (output_mask[2]) {
    const int64_t channels = grad_output.size(1);
    const int64_t plane = product(grad_output.sizes(), 2, static_cast<size_t>(grad_output.dim()));
    ET_TRY(double* bias_grad, zeros(context, channels));
    for (int64_t i = 0; i < grad_output.numel(); ++i) {
      bias_grad[i / plane % channels] += at(grad_output, i);
    }
    store(out2.scalar_type(), bias_grad, channels, out2.mutable_data_ptr(), 1);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
