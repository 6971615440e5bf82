// As the published pages register kernels and a backend.
#include <executorch_py/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch_py/extension/module/module.h>
#include <executorch_py/extension/tensor/tensor.h>
#include <executorch_py/runtime/backend/interface.h>
#include <executorch_py/runtime/core/exec_aten/exec_aten.h>
#include <executorch_py/runtime/kernel/kernel_includes.h>

#undef NDEBUG
#include <cassert>

namespace my_ops {
namespace native {
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

Tensor& triple_out(KernelRuntimeContext& context, const Tensor& x, Tensor& out) {
  ET_KERNEL_CHECK_MSG(context, x.scalar_type() == out.scalar_type(), InvalidArgument, out, "dtypes differ");
  ET_KERNEL_CHECK(context, executorch::runtime::resize_tensor(out, x.sizes()) == executorch::runtime::Error::Ok,
                  InvalidArgument, out);
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (ssize_t i = 0; i < x.numel(); ++i) to[i] = 3 * from[i];
  return out;
}
EXECUTORCH_LIBRARY(my_ops, "triple.out", triple_out);
}  // namespace native
}  // namespace my_ops

using namespace executorch::runtime;

int main() {
  executorch::extension::Module module("custom.pte");
  const auto output = module.forward(executorch::extension::make_tensor_ptr({1.0f, 2.0f}));
  assert(output.ok() && output->at(0).toTensor().const_data_ptr<float>()[1] == 7);
  return 0;
}
