// renorm: scales each slice of a row-major tensor of floats down to a largest norm of order 1 or 2, or the largest
// element.
//
// Sums of powers are taken in double, as in the portable kernel, which serves the other orders.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/op_renorm.h"
#include "kernels/portable/shape.h"

#ifndef ET_KERNELS_OPTIMIZED_RENORM_ONCE
#define ET_KERNELS_OPTIMIZED_RENORM_ONCE
namespace et::kernels::optimized::norm {
enum class NormOrder { kOne, kTwo, kInfinity };
}  // namespace et::kernels::optimized::norm
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class V>
HWY_INLINE V combine(NormOrder order, V total, V x) {
  switch (order) {
    case NormOrder::kOne: return hn::Add(total, hn::Abs(x));
    case NormOrder::kTwo: return hn::MulAdd(x, x, total);
    default: {
      const V y = hn::Abs(x);
      return hn::IfThenElse(hn::Or(hn::Gt(y, total), hn::IsNaN(y)), y, total);
    }
  }
}

/// What n elements of a slice add to `total`.
double FoldRow(NormOrder order, const float* x, size_t n, double total) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const size_t lanes = hn::Lanes(d);
  auto t0 = hn::Zero(d), t1 = t0, t2 = t0, t3 = t0;
  const auto take = [&](size_t i) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(df, x + i)); };
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    t0 = combine(order, t0, take(i));
    t1 = combine(order, t1, take(i + lanes));
    t2 = combine(order, t2, take(i + 2 * lanes));
    t3 = combine(order, t3, take(i + 3 * lanes));
  }
  for (; i < n; i += lanes) {  // zeros behind the end add nothing
    t0 = combine(order, t0, hn::PromoteTo(d, hn::LoadN(df, x + i, std::min(lanes, n - i))));
  }
  if (order != NormOrder::kInfinity) {
    return total + hn::ReduceSum(d, hn::Add(hn::Add(t0, t1), hn::Add(t2, t3)));
  }
  HWY_ALIGN double each[4 * hn::MaxLanes(d)];
  hn::Store(t0, d, each);
  hn::Store(t1, d, each + lanes);
  hn::Store(t2, d, each + 2 * lanes);
  hn::Store(t3, d, each + 3 * lanes);
  for (size_t k = 0; k < 4 * lanes; ++k) {
    total = each[k] > total || std::isnan(each[k]) ? each[k] : total;
  }
  return total;
}

/// totals[i] takes x[i] in, for slices of one element a row.
void FoldEach(NormOrder order, const float* x, size_t n, double* totals) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  over_vectors<double>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto v = hn::PromoteTo(d, whole.value ? hn::LoadU(df, x + i) : hn::LoadN(df, x + i, left));
    store(d, whole, combine(order, load(d, whole, totals + i, left), v), totals + i, left);
  });
}

/// y = x * factor, or x * factors[i] where those are given.
void ScaleRun(const float* x, float* y, size_t n, float factor, const float* factors) {
  const hn::ScalableTag<float> d;
  const auto splat = hn::Set(d, factor);
  over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto by = factors == nullptr ? splat : load(d, whole, factors + i, left);
    store(d, whole, hn::Mul(load(d, whole, x + i, left), by), y + i, left);
  });
}

}  // namespace et::kernels::optimized::norm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::norm {

HWY_EXPORT(FoldEach);
HWY_EXPORT(FoldRow);
HWY_EXPORT(ScaleRun);

namespace {

constexpr size_t kChunk = 512;  // elements that are converted at a time

/// A tensor as [outer, slices, inner], walked in runs of elements that lie side by side.
struct Slices {
  size_t outer = 1, slices = 1, inner = 1;

  /// A run has one element of each slice, rather than elements of one slice.
  bool lie_across() const { return inner == 1; }
  /// visit(place of the first element, its slice, number of elements, at most kChunk)
  template <typename Visit>
  void each_run(const Visit& visit) const {
    const size_t rows = lie_across() ? outer : outer * slices;
    const size_t columns = lie_across() ? slices : inner;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; c += kChunk) {
        visit(r * columns + c, lie_across() ? c : r % slices, std::min(kChunk, columns - c));
      }
    }
  }
};

void sum_slices(const Tensor& self, const Slices& s, NormOrder order, double* totals) {
  const auto fold_row = HWY_DYNAMIC_POINTER(FoldRow);
  const auto fold_each = HWY_DYNAMIC_POINTER(FoldEach);
  float buffer[kChunk];
  s.each_run([&](size_t at, size_t slice, size_t n) {
    const float* const x = elements_of(self, at, n, buffer);
    if (s.lie_across()) {
      fold_each(order, x, n, totals + slice);
    } else {
      totals[slice] = fold_row(order, x, n, totals[slice]);
    }
  });
}

void scale_slices(const Tensor& self, const Tensor& out, const Slices& s, const float* factors) {
  const auto scale = HWY_DYNAMIC_POINTER(ScaleRun);
  float buffer[kChunk];
  s.each_run([&](size_t at, size_t slice, size_t n) {
    const float* const x = elements_of(self, at, n, buffer);
    float* const y = elements_for(out, at, buffer);
    scale(x, y, n, factors[slice], s.lie_across() ? factors + slice : nullptr);
    write_elements(out, at, n, y);
  });
}

Error renorm_out(KernelContext& context, const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm,
                 Tensor& out) {
  const double power = p.to<double>();
  const double limit = maxnorm.to<double>();
  const bool is_known = power == 1.0 || power == 2.0 || (std::isinf(power) && power > 0);
  if (!is_known || !(limit >= 0.0) || self.dim() < 2) {
    return portable::renorm_out(context, self, p, dim, maxnorm, out);  // and the errors
  }
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::renorm", dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  const auto axis = static_cast<size_t>(dim);
  const auto rank = static_cast<size_t>(self.dim());
  const Slices s{static_cast<size_t>(portable::product(self.sizes(), 0, axis)), static_cast<size_t>(self.size(dim)),
                 static_cast<size_t>(portable::product(self.sizes(), axis + 1, rank))};
  ET_TRY(void* const memory, context.allocate_temp(s.slices * (sizeof(double) + sizeof(float))));
  auto* const totals = static_cast<double*>(memory);
  auto* const factors = reinterpret_cast<float*>(totals + s.slices);
  std::fill_n(totals, s.slices, 0.0);
  const NormOrder order = power == 1.0 ? NormOrder::kOne : power == 2.0 ? NormOrder::kTwo : NormOrder::kInfinity;
  sum_slices(self, s, order, totals);
  for (size_t i = 0; i < s.slices; ++i) {
    const double norm = order == NormOrder::kTwo ? std::sqrt(totals[i]) : totals[i];
    factors[i] = norm > limit ? static_cast<float>(limit / (norm + 1e-7)) : 1.0f;
  }
  scale_slices(self, out, s, factors);
  return Error::Ok;
}

// renorm(self, p, dim, maxnorm, out)
bool fits_renorm(Arguments args) {
  return is_up_to_float(*args[0]) && is_up_to_float(*args[4]) &&
         args[0]->to_tensor().scalar_type() == args[4]->to_tensor().scalar_type() && is_row_major(*args[0]) &&
         is_row_major(*args[4]);
}

constexpr Kernel kKernels[] = {make_fitting_kernel<&renorm_out, &fits_renorm>("aten::renorm.out")};

}  // namespace

ET_KERNEL_TABLE(renorm, kKernels)

}  // namespace et::kernels::optimized::norm
#endif  // HWY_ONCE
