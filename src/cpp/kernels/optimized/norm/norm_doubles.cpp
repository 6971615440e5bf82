// native_layer_norm and native_group_norm of doubles: what norm.cpp is for floats.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/op_norm.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_NORM_DOUBLES_ONCE
#define ET_KERNELS_OPTIMIZED_NORM_DOUBLES_ONCE
namespace et::kernels::optimized::norm {
/// A row of n elements; weight and bias may be nullptr.
struct DoubleNormRow {
  const double* x;
  double* y;
  size_t n;
  double eps;
  const double* weight;
  const double* bias;
};
}  // namespace et::kernels::optimized::norm
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// The mean and 1 / deviation of n elements.
void StatisticsOfDoubles(const double* x, size_t n, double eps, double* mean, double* rstd) {
  const hn::ScalableTag<double> d;
  const auto count = static_cast<double>(n);
  const double m = sum_of([](auto v) HWY_ATTR { return v; }, x, n) / count;
  const auto vm = hn::Set(d, m);
  const double squares = sum_of(
      [vm](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, vm);
        return hn::Mul(deviation, deviation);
      },
      x, n);
  *mean = m;
  *rstd = 1.0 / std::sqrt(squares / count + eps);
}

/// Writes y, and the row's mean and 1 / deviation.
void NormalizeDoubles(const DoubleNormRow& row, double* mean, double* rstd) {
  const hn::ScalableTag<double> d;
  const DoubleNormRow r = row;
  StatisticsOfDoubles(r.x, r.n, r.eps, mean, rstd);
  const auto vm = hn::Set(d, *mean);
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

/// y = x * scale + shift.
void ScaleDoubles(const double* x, double* y, size_t n, double scale, double shift) {
  const hn::ScalableTag<double> d;
  const auto vs = hn::Set(d, scale);
  const auto vt = hn::Set(d, shift);
  over_vectors<double>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    store(d, whole, hn::MulAdd(load(d, whole, x + i, left), vs, vt), y + i, left);
  });
}

}  // namespace et::kernels::optimized::norm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::norm {

HWY_EXPORT(NormalizeDoubles);
HWY_EXPORT(ScaleDoubles);
HWY_EXPORT(StatisticsOfDoubles);

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

Error native_group_norm_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                            const OptionalTensor& bias, int64_t batch, int64_t channels, int64_t spatial, int64_t group,
                            double eps, Tensor& out0, Tensor& out1, Tensor& out2) {
  const bool is_plain = batch > 0 && channels > 0 && spatial > 0 && group > 0 && channels % group == 0 &&
                        input.dim() >= 2 && batch == input.size(0) && channels == input.size(1) &&
                        spatial == input.numel() / (input.size(0) * input.size(1)) &&
                        (!weight || weight->numel() == channels) && (!bias || bias->numel() == channels);
  if (!is_plain) {  // errors, and the mean of nothing
    return portable::native_group_norm_out(context, input, weight, bias, batch, channels, spatial, group, eps, out0,
                                           out1, out2);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, {batch, group}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, {batch, group}));
  const auto* const x = input.const_data_ptr<double>();
  auto* const y = out0.mutable_data_ptr<double>();
  auto* const means = out1.mutable_data_ptr<double>();
  auto* const rstds = out2.mutable_data_ptr<double>();
  const double* const w = weight ? weight->const_data_ptr<double>() : nullptr;
  const double* const b = bias ? bias->const_data_ptr<double>() : nullptr;
  const auto per_group = static_cast<size_t>(channels / group);
  const auto plane = static_cast<size_t>(spatial);
  const size_t n = per_group * plane;
  const auto statistics_of = HWY_DYNAMIC_POINTER(StatisticsOfDoubles);
  const auto scale_row = HWY_DYNAMIC_POINTER(ScaleDoubles);
  threads::parallel_for(context.pool(), static_cast<size_t>(batch * group), threads::grain_for(4 * n),
                        [&](size_t begin, size_t end) {
                          for (size_t g = begin; g < end; ++g) {
                            statistics_of(x + g * n, n, eps, means + g, rstds + g);
                            for (size_t c = 0; c < per_group; ++c) {
                              const size_t channel = g % static_cast<size_t>(group) * per_group + c;
                              const double scale = rstds[g] * (w == nullptr ? 1.0 : w[channel]);
                              const double shift = (b == nullptr ? 0.0 : b[channel]) - means[g] * scale;
                              const size_t at = g * n + c * plane;
                              scale_row(x + at, y + at, plane, scale, shift);
                            }
                          }
                        });
  return Error::Ok;
}

bool is_double(const EValue& value) {
  return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Double;
}

/// Row-major doubles at the places that are named, doubles or None as weight and bias.
bool fits_norm(Arguments args, std::initializer_list<size_t> tensors, size_t weight, size_t bias) {
  for (const size_t i : tensors) {
    if (!is_double(*args[i]) || !is_row_major(*args[i])) {
      return false;
    }
  }
  return (args[weight]->is_none() || is_double(*args[weight])) && (args[bias]->is_none() || is_double(*args[bias]));
}

// native_layer_norm(input, normalized_shape, weight, bias, eps, out0, out1, out2)
bool fits_layer_norm(Arguments args) { return fits_norm(args, {0, 5, 6, 7}, 2, 3); }
// native_group_norm(input, weight, bias, N, C, HxW, group, eps, out0, out1, out2)
bool fits_group_norm(Arguments args) { return fits_norm(args, {0, 8, 9, 10}, 1, 2); }

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&native_group_norm_out, &fits_group_norm>("aten::native_group_norm.out"),
    make_fitting_kernel<&native_layer_norm_out, &fits_layer_norm>("aten::native_layer_norm.out"),
};
constexpr auto kTable = at_priority(kPriorityDoubles, kKernels);

}  // namespace

ET_KERNEL_TABLE(norm_doubles, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::norm
#endif  // HWY_ONCE
