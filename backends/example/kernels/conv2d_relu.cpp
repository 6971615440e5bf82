// example::conv2d_relu on the "device": the arithmetic of the delegate, called as an operator.
#include "backends/example/kernels.h"
#include "backends/example/runtime/operators.h"

namespace et::backends::example {
namespace {

constexpr const char* kName = "example::conv2d_relu";

/// Fills `shape` from the arguments and checks that they fit together.
Error make_shape(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                 IntArrayRef padding, IntArrayRef dilation, int64_t groups, ConvShape& shape) {
  ET_CHECK_OR_RETURN(input.scalar_type() == ScalarType::Float && weight.scalar_type() == ScalarType::Float &&
                         (!bias.has_value() || bias->scalar_type() == ScalarType::Float),
                     NotSupported, "%s: takes Float tensors only", kName);
  ET_CHECK_OR_RETURN(input.dim() == 4 && weight.dim() == 4 && groups > 0 && input.size(1) == weight.size(1) * groups &&
                         weight.size(0) % groups == 0,
                     InvalidArgument, "%s: input [n, c, h, w] and weight [o, c / %d, kh, kw] do not fit", kName,
                     static_cast<int>(groups));
  ET_CHECK_OR_RETURN(!bias.has_value() || (bias->dim() == 1 && bias->size(0) == weight.size(0)), InvalidArgument,
                     "%s: the bias must have one number for each output channel", kName);
  shape = {input.size(0),
           input.size(1),
           input.size(2),
           input.size(3),
           weight.size(0),
           0,
           0,
           weight.size(2),
           weight.size(3),
           {},
           {},
           {},
           groups};
  for (size_t d = 0; d < 2; ++d) {
    ET_CHECK_OR_RETURN(stride.size() == 2 && padding.size() == 2 && dilation.size() == 2 && stride[d] > 0 &&
                           padding[d] >= 0 && padding[d] <= INT16_MAX && dilation[d] > 0 && dilation[d] <= INT16_MAX,
                       InvalidArgument, "%s: two strides, paddings and dilations, of sensible sizes", kName);
    shape.stride[d] = stride[d];
    shape.padding[d] = padding[d];
    shape.dilation[d] = dilation[d];
    const int64_t reach = dilation[d] * (weight.size(static_cast<int64_t>(2 + d)) - 1) + 1;
    const int64_t padded = input.size(static_cast<int64_t>(2 + d)) + 2 * padding[d];
    ET_CHECK_OR_RETURN(reach <= padded, InvalidArgument, "%s: the filter is larger than the padded input", kName);
    (d == 0 ? shape.out_height : shape.out_width) = (padded - reach) / stride[d] + 1;
  }
  return Error::Ok;
}

}  // namespace

Error conv2d_relu_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups, Tensor& out) {
  ConvShape shape;
  ET_RETURN_IF_ERROR(make_shape(input, weight, bias, stride, padding, dilation, groups, shape));
  const int64_t sizes[] = {shape.batch, shape.out_channels, shape.out_height, shape.out_width};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  conv2d(shape, input.const_data_ptr<float>(), weight.const_data_ptr<float>(),
         bias.has_value() ? bias->const_data_ptr<float>() : nullptr, /*relu=*/true, out.mutable_data_ptr<float>());
  return Error::Ok;
}

}  // namespace et::backends::example
