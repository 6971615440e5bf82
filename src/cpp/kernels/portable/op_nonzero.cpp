#include "kernels/portable/op_nonzero.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"

namespace et::kernels::portable {
namespace {

// Calls f(position) for each element that is not zero, in row-major order; position counts elements.
template <typename F>
void for_each_nonzero(const Tensor& self, F&& f) {
  LoopNest nest(self.sizes());
  nest.add(self.const_data_ptr(), self.strides(), self.element_size());
  nest.merge();
  const ScalarType dtype = self.scalar_type();
  int64_t position = 0;
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    for (int64_t i = 0; i < n; ++i, ++position) {
      if (load_one<double>(dtype, pointers[0] + i * nest.run_stride(0)) != 0.0) {
        f(position);
      }
    }
  });
}

}  // namespace

Error nonzero_out(KernelContext& context, const Tensor& self, Tensor& out) {
  constexpr const char* kOp = "aten::nonzero";
  ET_CHECK_OR_RETURN(out.scalar_type() == ScalarType::Long, InvalidType, "%s: out is %s, must be torch.int64", kOp,
                     to_string(out.scalar_type()));
  ET_CHECK_OR_RETURN(!is_complex(self.scalar_type()), InvalidType, "%s: complex numbers are not supported", kOp);
  int64_t count = 0;
  for_each_nonzero(self, [&](int64_t) { ++count; });
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {count, self.dim()}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  auto* rows = static_cast<int64_t*>(out.mutable_data_ptr());
  const int64_t row_stride = out.stride(0);
  const int64_t column_stride = out.stride(1);
  int64_t row = 0;
  for_each_nonzero(self, [&](int64_t position) {
    if (row == count) {
      return;  // a hostile program planned the output over self: writing it made more of them
    }
    for (int64_t d = self.dim() - 1; d >= 0; --d) {
      rows[row * row_stride + d * column_stride] = position % self.size(d);
      position /= self.size(d);
    }
    ++row;
  });
  return Error::Ok;
}

Error nonzero_static_out(KernelContext& context, const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  constexpr const char* kOp = "aten::nonzero_static";
  ET_CHECK_OR_RETURN(out.scalar_type() == ScalarType::Long && size >= 0, InvalidArgument,
                     "%s: out is %s, must be torch.int64; size is %" PRId64, kOp, to_string(out.scalar_type()), size);
  ET_CHECK_OR_RETURN(!is_complex(self.scalar_type()), InvalidType, "%s: complex numbers are not supported", kOp);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {size, self.dim()}));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&out}));
  auto* rows = static_cast<int64_t*>(out.mutable_data_ptr());
  const int64_t rank = self.dim();
  int64_t row = 0;
  for_each_nonzero(self, [&](int64_t position) {
    if (row < size) {
      for (int64_t d = rank - 1; d >= 0; --d) {
        rows[row * rank + d] = position % self.size(d);
        position /= self.size(d);
      }
      ++row;
    }
  });
  for (int64_t i = row * rank; i < size * rank; ++i) {
    rows[i] = fill_value;
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
