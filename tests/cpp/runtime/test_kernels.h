/// A few kernels and a backend for tests of the runtime, so that they need no kernel library.
#pragma once

#include <cstring>
#include <string>

#include "runtime/backend.h"
#include "runtime/kernel_types.h"

namespace et::test {

using kernels::EValue;
using kernels::KernelContext;
using kernels::Tensor;
using runtime::IntArrayRef;

/// out = a + b, equal sizes, float.
inline Error add_out(KernelContext& context, const Tensor& a, const Tensor& b, Tensor& out) {
  ET_CHECK_OR_RETURN(a.scalar_type() == ScalarType::Float && b.scalar_type() == ScalarType::Float &&
                         out.scalar_type() == ScalarType::Float && equal(a.sizes(), b.sizes()),
                     InvalidArgument, "test::add: arguments differ");
  ET_RETURN_IF_ERROR(resize_tensor(context, out, a.sizes()));
  for (int64_t i = 0; i < a.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = a.const_data_ptr<float>()[i] + b.const_data_ptr<float>()[i];
  }
  return Error::Ok;
}

/// out = self + value.
inline Error add_scalar_out(KernelContext& context, const Tensor& self, double value, Tensor& out) {
  ET_CHECK_OR_RETURN(self.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float, InvalidArgument,
                     "test::add_scalar: dtype");
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  for (int64_t i = 0; i < self.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = self.const_data_ptr<float>()[i] + static_cast<float>(value);
  }
  return Error::Ok;
}

/// out = the elements of self that are positive.
inline Error positive_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_CHECK_OR_RETURN(
      self.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float && out.dim() == 1,
      InvalidArgument, "test::positive: dtype or rank");
  int64_t n = 0;
  for (int64_t i = 0; i < self.numel(); ++i) {
    n += self.const_data_ptr<float>()[i] > 0 ? 1 : 0;
  }
  const int64_t sizes[] = {n};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  n = 0;
  for (int64_t i = 0; i < self.numel(); ++i) {
    if (self.const_data_ptr<float>()[i] > 0) {
      out.mutable_data_ptr<float>()[n++] = self.const_data_ptr<float>()[i];
    }
  }
  return Error::Ok;
}

/// Always fails.
inline Error fail_out(KernelContext&, const Tensor&, Tensor&) {
  ET_CHECK_OR_RETURN(false, InvalidArgument, "index 7 is out of range");
  return Error::Ok;
}

/// out[0] = number of items of the list.
inline Error count_out(KernelContext& context, Span<const Tensor> list, Tensor& out) {
  const int64_t sizes[] = {1};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  out.mutable_data_ptr<float>()[0] = static_cast<float>(list.size());
  return Error::Ok;
}

inline const runtime::Kernel kTestKernels[] = {
    runtime::make_kernel<&add_out, 0b11>("test::add.out"),
    runtime::make_kernel<&add_scalar_out, 0b1>("test::add_scalar.out"),
    runtime::make_kernel<&positive_out>("test::positive.out"),
    runtime::make_kernel<&fail_out, 0b1>("test::fail.out"),
    runtime::make_kernel<&count_out>("test::count.out"),
};

/// Adds the number in its payload ("3") to its input.
class AddBackend final : public runtime::BackendInterface {
 public:
  bool is_available() const override { return available; }
  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec>) const override {
    ET_CHECK_OR_RETURN(processed->size() == 1 && context.args.size() == 2, DelegateInvalidCompatibility, "payload");
    ++live;
    return static_cast<runtime::DelegateHandle*>(new float(static_cast<float>(*processed->data() - '0')));
  }
  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<EValue* const> args) const override {
    Tensor out = args[1]->to_tensor();
    return add_scalar_out(context.kernel, args[0]->to_tensor(), *static_cast<float*>(handle), out);
  }
  void destroy(runtime::DelegateHandle* handle) const override {
    --live;
    delete static_cast<float*>(handle);
  }

  bool available = true;
  mutable int live = 0;
};

}  // namespace et::test
