// What softmax and log_softmax pass back: grad_input = (grad - sum(grad * output)) * output, or grad - exp(output) *
// sum(grad).
#include "kernels/portable/op_softmax_backward.h"

#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

template <typename C>
void pass_back(C* grad, const C* output, int64_t n, bool log) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(log ? grad[i] : grad[i] * output[i]);
  }
  const C total = static_cast<C>(sum);
  for (int64_t i = 0; i < n; ++i) {
    grad[i] = log ? grad[i] - std::exp(output[i]) * total : (grad[i] - total) * output[i];
  }
}

Error softmax_backward(KernelContext& context, const char* op, const Tensor& grad_output, const Tensor& output,
                       int64_t dim, ScalarType input_dtype, const Tensor& out, bool log) {
  const ScalarType dtype = output.scalar_type();
  ET_RETURN_IF_ERROR(normalize_dim(op, dim, output.dim(), &dim));
  ET_CHECK_OR_RETURN(is_floating(dtype), InvalidType, "%s: output is %s, must be floating", op, to_string(dtype));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "grad_output", grad_output, output));
  ET_CHECK_OR_RETURN(equal(grad_output.sizes(), output.sizes()), InvalidArgument, "%s: grad_output %s, output %s", op,
                     ShapeText(grad_output.sizes()).text, ShapeText(output.sizes()).text);
  ET_CHECK_OR_RETURN(out.scalar_type() == input_dtype && is_floating(input_dtype), InvalidType,
                     "%s: grad_input is %s, the input was %s", op, to_string(out.scalar_type()),
                     to_string(input_dtype));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, output.sizes()));
  if (output.numel() == 0) {
    return Error::Ok;
  }
  const bool is_number = output.dim() == 0;
  const int64_t length = is_number ? 1 : output.size(dim);
  const Tensor* const tensors[] = {&out, &grad_output, &output};
  int64_t strides[3];
  Window windows[3];
  for (size_t k = 0; k < 3; ++k) {
    strides[k] = is_number ? 1 : tensors[k]->stride(dim);
    windows[k] = is_number ? window_of(*tensors[k]) : select_of(*tensors[k], dim, 0);
  }
  LoopNest lanes(windows[0].sizes);
  for (size_t k = 0; k < 3; ++k) {
    lanes.add(windows[k].data, windows[k].strides, tensors[k]->element_size());
  }
  lanes.simplify();
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(length) * 2 * sizeof(C)));
    C* const grad = static_cast<C*>(memory);
    C* const values = grad + length;
    lanes.for_each_run([&](char* const* pointers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        load(dtype, pointers[1] + i * lanes.run_stride(1), strides[1], length, grad);
        load(dtype, pointers[2] + i * lanes.run_stride(2), strides[2], length, values);
        pass_back(grad, static_cast<const C*>(values), length, log);
        store(input_dtype, static_cast<const C*>(grad), length, pointers[0] + i * lanes.run_stride(0), strides[0]);
      }
    });
    return Error::Ok;
  });
}

}  // namespace

Error softmax_backward_data_out(KernelContext& context, const Tensor& grad_output, const Tensor& output, int64_t dim,
                                ScalarType input_dtype, Tensor& grad_input) {
  return softmax_backward(context, "aten::_softmax_backward_data", grad_output, output, dim, input_dtype, grad_input,
                          false);
}

Error log_softmax_backward_data_out(KernelContext& context, const Tensor& grad_output, const Tensor& output,
                                    int64_t dim, ScalarType input_dtype, Tensor& out) {
  return softmax_backward(context, "aten::_log_softmax_backward_data", grad_output, output, dim, input_dtype, out,
                          true);
}

}  // namespace et::kernels::portable
