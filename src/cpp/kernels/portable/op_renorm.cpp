// Scales each slice of a tensor down to a largest norm.
#include "kernels/portable/op_renorm.h"

#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

double norm_of(const Window& slice, double p) {
  LoopNest nest(slice.sizes);
  nest.add(slice.data, slice.strides, slice.element_size());
  nest.simplify();
  double total = 0.0;
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double x = std::fabs(load_one<double>(slice.dtype, pointers[0] + i * nest.run_stride(0)));
      if (std::isinf(p)) {
        total = x > total || std::isnan(x) ? x : total;
      } else {
        total += p == 2.0 ? x * x : std::pow(x, p);
      }
    }
  });
  return std::isinf(p) ? total : p == 2.0 ? std::sqrt(total) : std::pow(total, 1.0 / p);
}

}  // namespace

Error renorm_out(KernelContext& context, const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm,
                 Tensor& out) {
  constexpr const char* kOp = "aten::renorm";
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()), InvalidType, "%s: self is %s, takes floating types", kOp,
                     to_string(self.scalar_type()));
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 2, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  const double power = p.to<double>();
  const double limit = maxnorm.to<double>();
  ET_CHECK_OR_RETURN(power > 0.0 && limit >= 0.0, InvalidArgument,
                     "%s: p is %g, must be positive; maxnorm is %g, must not be negative", kOp, power, limit);
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  for (int64_t i = 0; i < self.size(dim) && !context.cancelled(); ++i) {
    const Window from = select_of(self, dim, i);
    const Window to = select_of(out, dim, i);
    const double norm = norm_of(from, power);
    const double factor = norm > limit ? limit / (norm + 1e-7) : 1.0;
    LoopNest nest(to.sizes);
    nest.add(to.data, to.strides, to.element_size());
    nest.add(from.data, from.strides, from.element_size());
    nest.simplify();
    nest.for_each_run([&](char* const* pointers, int64_t n) {
      for (int64_t k = 0; k < n; ++k) {
        const double x = load_one<double>(from.dtype, pointers[1] + k * nest.run_stride(1));
        store_one<double>(to.dtype, x * factor, pointers[0] + k * nest.run_stride(0));
      }
    });
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
