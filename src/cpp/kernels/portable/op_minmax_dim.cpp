// Extremes with their positions along one dimension, and argmax/argmin. NaN counts as the extreme; of equal values the
// first is taken.
#include "kernels/portable/op_minmax_dim.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/reduce.h"

namespace et::kernels::portable {
namespace {

template <typename C>
struct Best {
  C value = C(0);
  int64_t index = -1;
  int64_t seen = 0;
};

// `values` may be nullptr when only the position is wanted.
Error pick(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim, bool largest,
           const Tensor* values, const Tensor& indices) {
  ET_CHECK_OR_RETURN(indices.scalar_type() == ScalarType::Long, InvalidType, "%s: indices are %s, must be torch.int64",
                     op, to_string(indices.scalar_type()));
  Reduction reduction;
  if (values != nullptr) {
    ET_RETURN_IF_ERROR(check_same_dtype(op, "values", *values, self));
    ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&indices, values}));
  } else {
    ET_RETURN_IF_ERROR(reduction.plan(context, op, self, dims, keepdim, {&indices}));
  }
  ET_CHECK_OR_RETURN(reduction.count() > 0 || indices.numel() == 0, InvalidArgument, "%s: no elements to choose from",
                     op);
  return dispatch_compute(self.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    reduction.run<C>(
        Best<C>{},
        [largest](Best<C>& best, const C* run, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            const bool better = largest ? run[i] > best.value : run[i] < best.value;
            if (best.index < 0 || better || (is_nan(run[i]) && !is_nan(best.value))) {
              if (!(best.index >= 0 && is_nan(best.value))) {
                best.value = run[i];
                best.index = best.seen + i;
              }
            }
          }
          best.seen += n;
        },
        [&](const Best<C>& best, char* const* outs) {
          *reinterpret_cast<int64_t*>(outs[0]) = best.index;
          if (values != nullptr) {
            store_one(values->scalar_type(), best.value, outs[1]);
          }
        });
    return Error::Ok;
  });
}

Error arg(KernelContext& context, const char* op, const Tensor& self, std::optional<int64_t> dim, bool keepdim,
          bool largest, Tensor& out) {
  if (!dim.has_value()) {
    return pick(context, op, self, {}, keepdim, largest, nullptr, out);
  }
  return pick(context, op, self, {*dim}, keepdim, largest, nullptr, out);
}

}  // namespace

Error max_dim_max(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& max,
                  Tensor& max_values) {
  return pick(context, "aten::max", self, {dim}, keepdim, true, &max, max_values);
}

Error min_dim_min(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& min,
                  Tensor& min_indices) {
  return pick(context, "aten::min", self, {dim}, keepdim, false, &min, min_indices);
}

Error argmax_out(KernelContext& context, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  return arg(context, "aten::argmax", self, dim, keepdim, true, out);
}

Error argmin_out(KernelContext& context, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  return arg(context, "aten::argmin", self, dim, keepdim, false, out);
}

}  // namespace et::kernels::portable
