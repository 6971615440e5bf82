// native_layer_norm of doubles: what norm.cpp is for floats.

#include "kernels/optimized/targets.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/norm_doubles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/tables.h"
#include "kernels/optimized/vectors-inl.h"
#include "kernels/portable/op_norm.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_NORM_DOUBLES_ONCE
#define ET_KERNELS_OPTIMIZED_NORM_DOUBLES_ONCE
namespace et::kernels::optimized {
/// A row of n elements; weight and bias may be nullptr.
struct DoubleNormRow {
  const double* x;
  double* y;
  size_t n;
  double eps;
  const double* weight;
  const double* bias;
};
}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// Writes y, and the row's mean and 1 / deviation.
void NormalizeDoubles(const DoubleNormRow& row, double* mean, double* rstd) {
  const hn::ScalableTag<double> d;
  const DoubleNormRow r = row;
  const auto count = static_cast<double>(r.n);
  const double m = sum_of([](auto v) HWY_ATTR { return v; }, r.x, r.n) / count;
  const auto vm = hn::Set(d, m);
  const double squares = sum_of(
      [vm](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, vm);
        return hn::Mul(deviation, deviation);
      },
      r.x, r.n);
  *mean = m;
  *rstd = 1.0 / std::sqrt(squares / count + r.eps);
  const auto vr = hn::Set(d, *rstd);
  over_vectors<double>(r.n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto v = hn::Mul(hn::Sub(load(d, whole, r.x + i, left), vm), vr);
    if (r.weight != nullptr) {
      v = hn::Mul(v, load(d, whole, r.weight + i, left));
    }
    if (r.bias != nullptr) {
      v = hn::Add(v, load(d, whole, r.bias + i, left));
    }
    store(d, whole, v, r.y + i, left);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(NormalizeDoubles);

namespace {

Error native_layer_norm_out(KernelContext& context, const Tensor& input, IntArrayRef normalized_shape,
                            const OptionalTensor& weight, const OptionalTensor& bias, double eps, Tensor& out0,
                            Tensor& out1, Tensor& out2) {
  const int64_t lead = input.dim() - static_cast<int64_t>(normalized_shape.size());
  bool is_plain = lead >= 0 && !normalized_shape.empty() && input.numel() > 0;
  int64_t columns = 1;
  for (size_t i = 0; is_plain && i < normalized_shape.size(); ++i) {
    is_plain = normalized_shape[i] == input.size(lead + static_cast<int64_t>(i));
    columns *= normalized_shape[i];
  }
  is_plain = is_plain && (!weight || weight->numel() == columns) && (!bias || bias->numel() == columns);
  if (!is_plain) {  // errors, and the mean of nothing
    return portable::native_layer_norm_out(context, input, normalized_shape, weight, bias, eps, out0, out1, out2);
  }
  portable::Sizes statistics(input.sizes());
  for (int64_t d = lead; d < input.dim(); ++d) {
    statistics[d] = 1;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, statistics));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, statistics));
  const auto n = static_cast<size_t>(columns);
  const DoubleNormRow first{input.const_data_ptr<double>(),
                            out0.mutable_data_ptr<double>(),
                            n,
                            eps,
                            weight ? weight->const_data_ptr<double>() : nullptr,
                            bias ? bias->const_data_ptr<double>() : nullptr};
  auto* const means = out1.mutable_data_ptr<double>();
  auto* const rstds = out2.mutable_data_ptr<double>();
  const auto normalize = HWY_DYNAMIC_POINTER(NormalizeDoubles);
  threads::parallel_for(context.pool(), static_cast<size_t>(out1.numel()), threads::grain_for(4 * n),
                        [&](size_t begin, size_t end) {
                          for (size_t r = begin; r < end; ++r) {
                            DoubleNormRow row = first;
                            row.x += r * n;
                            row.y += r * n;
                            normalize(row, means + r, rstds + r);
                          }
                        });
  return Error::Ok;
}

// native_layer_norm(input, normalized_shape, weight, bias, eps, out0, out1, out2)
bool fits_layer_norm(Arguments args) {
  const auto is_double = [](const EValue& value) {
    return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Double;
  };
  for (const size_t i : {size_t{0}, size_t{5}, size_t{6}, size_t{7}}) {
    if (!is_double(*args[i]) || !is_row_major(*args[i])) {
      return false;
    }
  }
  return (args[2]->is_none() || is_double(*args[2])) && (args[3]->is_none() || is_double(*args[3]));
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&native_layer_norm_out, &fits_layer_norm>("aten::native_layer_norm.out"),
};

}  // namespace

Span<const Kernel> norm_doubles_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
