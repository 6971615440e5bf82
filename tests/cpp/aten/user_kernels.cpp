// Kernels on at::Tensor as a user would write them: one calls ATen's own operators, one makes a data-dependent output.
#include <ATen/Functions.h>

#include "runtime/kernel_types.h"
#include "runtime/plugin.h"

namespace {

using namespace et::kernels;  // NOLINT(google-build-using-namespace): one file, which is all about them
using et::Error;

Error softplus_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  at::softplus_out(out, self);
  return Error::Ok;
}

/// The positive elements, how ever many they are.
Error positive_out(KernelContext& context, const Tensor& self, Tensor& out) {
  const Tensor found = self.masked_select(self.gt(0));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, found.sizes()));
  out.copy_(found);
  return Error::Ok;
}

/// ATen throws: the shapes do not fit.
Error wrong_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  out.copy_(at::mm(self, self));
  return Error::Ok;
}

const Kernel kKernels[] = {make_kernel<&softplus_out>("test_aten::softplus.out"),
                           make_kernel<&positive_out>("test_aten::positive.out"),
                           make_kernel<&wrong_out>("test_aten::wrong.out")};
const et::runtime::Plugin kPlugin = {"test_aten", kKernels, std::size(kKernels), nullptr, 0};

}  // namespace

ET_EXPORT_PLUGIN(kPlugin)
