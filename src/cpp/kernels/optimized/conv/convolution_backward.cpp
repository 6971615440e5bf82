// Gradients of convolution in float, as products of matrices. For each image and group, with `columns` [taps,
// positions] the windows of the image side:
//
//     gradient of the weight [window channels, taps]  = window side [window channels, positions] · columns, transposed
//     gradient of the image side                      = what columns [taps, positions] = weight, transposed · window
//     side add up to gradient of the window side                     = weight [window channels, taps] · columns
//
// The last one takes the place of the second for transposed convolutions.
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/optimized/matmul/gemm.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convolution_gradients.h"

namespace et::kernels::optimized::conv {
namespace {

using portable::ConvolutionGradients;

int64_t volume(const int64_t (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

/// Calls row(tap row, first position, image element, count, step) for each run of positions of one row of windows that
/// lie in the image, for all channels of an image and group.
template <typename Row>
void for_each_run(const ConvolutionGradients& plan, Row&& row) {
  const int64_t plane = volume(plan.image);
  int64_t tap_row = 0;
  for (int64_t channel = 0; channel < plan.image_channels; ++channel) {
    for (int64_t tap = 0; tap < volume(plan.kernel); ++tap, ++tap_row) {
      const int64_t k[3] = {tap / (plan.kernel[1] * plan.kernel[2]), tap / plan.kernel[2] % plan.kernel[1],
                            tap % plan.kernel[2]};
      int64_t start[3];
      portable::StepRange inside[3];
      for (int d = 0; d < 3; ++d) {
        start[d] = k[d] * plan.dilation[d] - plan.padding[d];
        inside[d] = portable::steps_inside(start[d], plan.stride[d], plan.window[d], plan.image[d]);
      }
      const int64_t count = inside[2].last - inside[2].first;
      for (int64_t i = inside[0].first; count > 0 && i < inside[0].last; ++i) {
        for (int64_t j = inside[1].first; j < inside[1].last; ++j) {
          const int64_t line = ((start[0] + i * plan.stride[0]) * plan.image[1] + start[1] + j * plan.stride[1]);
          row(tap_row, (i * plan.window[1] + j) * plan.window[2] + inside[2].first,
              channel * plane + line * plan.image[2] + start[2] + inside[2].first * plan.stride[2], count,
              plan.stride[2]);
        }
      }
    }
  }
}

/// The windows of an image as a matrix [taps, positions]; places outside the image are 0.
void gather_columns(const ConvolutionGradients& plan, const float* image, float* columns) {
  const int64_t positions = volume(plan.window);
  std::memset(columns, 0, static_cast<size_t>(plan.image_channels * volume(plan.kernel) * positions) * sizeof(float));
  for_each_run(plan, [&](int64_t tap, int64_t position, int64_t place, int64_t count, int64_t step) {
    float* const to = columns + tap * positions + position;
    const float* const from = image + place;
    if (step == 1) {
      std::copy_n(from, count, to);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      to[i] = from[i * step];
    }
  });
}

/// The way back: adds each element of the columns to the element of the image that it was taken from.
void scatter_columns(const ConvolutionGradients& plan, const float* columns, float* image) {
  const int64_t positions = volume(plan.window);
  for_each_run(plan, [&](int64_t tap, int64_t position, int64_t place, int64_t count, int64_t step) {
    const float* const from = columns + tap * positions + position;
    float* const to = image + place;
    for (int64_t i = 0; i < count; ++i) {
      to[i * step] += from[i];
    }
  });
}

/// A row-major matrix as an operand, as it is or transposed: along the strip elements are `across` apart.
matmul::GemmStrips strips(matmul::StridedMatrix& held, const float* data, int64_t across, int64_t along) {
  held = {data, ScalarType::Float, across, along};
  return matmul::strips_of(held);
}

class Gradients {
 public:
  Gradients(KernelContext& context, const ConvolutionGradients& plan, const float* weight, float* weight_grad)
      : context_(context),
        plan_(plan),
        taps_(plan.image_channels * volume(plan.kernel)),
        positions_(volume(plan.window)),
        weight_(weight),
        weight_grad_(weight_grad) {}

  Error init() {
    size_t nbytes;
    ET_CHECK_OR_RETURN(!mul_overflow(static_cast<size_t>(taps_), static_cast<size_t>(positions_), &nbytes) &&
                           !mul_overflow(nbytes, sizeof(float), &nbytes),
                       InvalidArgument, "aten::convolution_backward: the windows take too many bytes");
    ET_TRY(void* memory, context_.allocate_temp(nbytes));
    columns_ = static_cast<float*>(memory);
    return Error::Ok;
  }

  /// One image and group. The gradients of both sides may be nullptr. `is_first`: the weight's gradient begins here.
  Error run(int64_t group, const float* image, const float* window, float* image_grad, float* window_grad,
            bool is_first) {
    const float* const weight = weight_ + group * plan_.window_channels * taps_;
    matmul::StridedMatrix a, b;
    if (weight_grad_ != nullptr || window_grad != nullptr) {
      gather_columns(plan_, image, columns_);
    }
    if (weight_grad_ != nullptr) {
      ET_RETURN_IF_ERROR(product(plan_.window_channels, taps_, positions_, strips(a, window, positions_, 1),
                                 strips(b, columns_, positions_, 1),
                                 weight_grad_ + group * plan_.window_channels * taps_, !is_first));
    }
    if (window_grad != nullptr) {
      ET_RETURN_IF_ERROR(product(plan_.window_channels, positions_, taps_, strips(a, weight, taps_, 1),
                                 strips(b, columns_, 1, positions_), window_grad, false));
    }
    if (image_grad != nullptr) {
      ET_RETURN_IF_ERROR(product(taps_, positions_, plan_.window_channels, strips(a, weight, 1, taps_),
                                 strips(b, window, 1, positions_), columns_, false));
      scatter_columns(plan_, columns_, image_grad);
    }
    return Error::Ok;
  }

 private:
  Error product(int64_t rows, int64_t columns, int64_t depth, matmul::GemmStrips left, matmul::GemmStrips right,
                float* out, bool accumulate) {
    const matmul::Gemm gemm{static_cast<size_t>(rows),
                            static_cast<size_t>(columns),
                            static_cast<size_t>(depth),
                            left,
                            right,
                            out,
                            static_cast<size_t>(columns),
                            accumulate};
    return matmul::multiply(context_, gemm);
  }

  KernelContext& context_;
  const ConvolutionGradients& plan_;
  int64_t taps_, positions_;
  const float* weight_;
  float* weight_grad_;
  float* columns_ = nullptr;
};

void sum_channels(const Tensor& grad_output, float* bias_grad) {
  const int64_t channels = grad_output.size(1);
  const int64_t plane = portable::product(grad_output.sizes(), 2, static_cast<size_t>(grad_output.dim()));
  const float* data = grad_output.const_data_ptr<float>();
  std::fill_n(bias_grad, channels, 0.0f);
  for (int64_t n = 0; n < grad_output.size(0); ++n) {
    for (int64_t c = 0; c < channels; ++c, data += plane) {
      double sums[4] = {};
      int64_t i = 0;
      for (; i + 4 <= plane; i += 4) {
        for (int64_t j = 0; j < 4; ++j) {
          sums[j] += static_cast<double>(data[i + j]);
        }
      }
      for (; i < plane; ++i) {
        sums[0] += static_cast<double>(data[i]);
      }
      bias_grad[c] += static_cast<float>(sums[0] + sums[1] + sums[2] + sums[3]);
    }
  }
}

Error convolution_backward_out(KernelContext& context, const Tensor& grad_output, const Tensor& input,
                               const Tensor& weight, std::optional<IntArrayRef>, IntArrayRef stride,
                               IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef, int64_t groups,
                               Span<const bool> output_mask, Tensor& out0, Tensor& out1, Tensor& out2) {
  ConvolutionGradients plan;
  ET_RETURN_IF_ERROR(portable::plan_gradients(context, grad_output, input, weight,
                                              {stride, padding, dilation, transposed, {}, groups}, output_mask, out0,
                                              out1, out2, &plan));
  float* const input_grad = output_mask[0] ? out0.mutable_data_ptr<float>() : nullptr;
  float* const weight_grad = output_mask[1] ? out1.mutable_data_ptr<float>() : nullptr;
  if (output_mask[2]) {
    sum_channels(grad_output, out2.mutable_data_ptr<float>());
  }
  const int64_t image_size = plan.image_channels * volume(plan.image);
  const int64_t window_size = plan.window_channels * volume(plan.window);
  const bool is_empty = plan.batch * image_size * window_size == 0;
  if (input_grad != nullptr && out0.nbytes() != 0 && (is_empty || !transposed)) {
    std::memset(input_grad, 0, out0.nbytes());
  }
  if (is_empty) {
    if (weight_grad != nullptr && out1.nbytes() != 0) {
      std::memset(weight_grad, 0, out1.nbytes());
    }
    return Error::Ok;
  }
  Gradients gradients(context, plan, weight.const_data_ptr<float>(), weight_grad);
  ET_RETURN_IF_ERROR(gradients.init());
  const float* const image = (transposed ? grad_output : input).const_data_ptr<float>();
  const float* const window = (transposed ? input : grad_output).const_data_ptr<float>();
  for (int64_t n = 0; n < plan.batch; ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t of_image = (n * groups + g) * image_size;
      const int64_t of_window = (n * groups + g) * window_size;
      float* const image_grad = input_grad == nullptr || transposed ? nullptr : input_grad + of_image;
      float* const window_grad = input_grad == nullptr || !transposed ? nullptr : input_grad + of_window;
      ET_RETURN_IF_ERROR(gradients.run(g, image + of_image, window + of_window, image_grad, window_grad, n == 0));
    }
  }
  return Error::Ok;
}

/// fn(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
/// output_mask, out0, out1, out2): floats that are row-major.
bool fits(Arguments args) {
  for (const size_t i : {0, 1, 2, 11, 12, 13}) {
    if (!is_float(*args[i]) || !is_row_major(*args[i])) {
      return false;
    }
  }
  return true;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&convolution_backward_out, &fits>("aten::convolution_backward.out"),
};

}  // namespace

ET_KERNEL_TABLE(convolution_backward, kKernels)

}  // namespace et::kernels::optimized::conv
