// Normalisation: native_layer_norm and native_group_norm. Batch norm is in batch_norm.cpp.
//
// Rows are read two or three times while they are in the cache: mean, then squared deviations from it, then the result.
// That is as exact as Welford's method and needs no division in the loop. Tensors of 16-bit floats are converted first, and
// what comes out is rounded once.

#include "kernels/optimized/targets.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/float_tensors.h"
#include "kernels/optimized/table.h"
#include "kernels/optimized/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void MeanAndRstd(const float* x, size_t n, float eps, float* mean, float* rstd) {
  const hn::ScalableTag<float> d;
  const float m = sum_of([](auto v) HWY_ATTR { return v; }, x, n) / static_cast<float>(n);
  const auto vm = hn::Set(d, m);
  const float squares = sum_of(
      [vm](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, vm);
        return hn::Mul(deviation, deviation);
      },
      x, n);
  *mean = m;
  *rstd = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
}

/// y = (x - mean) * rstd * weight[i] + bias[i]; weight and bias may be nullptr.
void NormalizeRow(const float* x, float* y, size_t n, float mean, float rstd, const float* weight, const float* bias) {
  const hn::ScalableTag<float> d;
  const auto vm = hn::Set(d, mean);
  const auto vr = hn::Set(d, rstd);
  over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto v = hn::Mul(hn::Sub(load(d, whole, x + i, left), vm), vr);
    if (weight != nullptr) {
      v = hn::Mul(v, load(d, whole, weight + i, left));
    }
    if (bias != nullptr) {
      v = hn::Add(v, load(d, whole, bias + i, left));
    }
    store(d, whole, v, y + i, left);
  });
}

/// y = x * scale + shift with one scale for the whole row.
void ScaleRow(const float* x, float* y, size_t n, float scale, float shift) {
  const hn::ScalableTag<float> d;
  const auto vs = hn::Set(d, scale);
  const auto vb = hn::Set(d, shift);
  over_vectors(n, [&](auto whole, size_t i, size_t left)
                      HWY_ATTR { store(d, whole, hn::MulAdd(load(d, whole, x + i, left), vs, vb), y + i, left); });
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(MeanAndRstd);
HWY_EXPORT(NormalizeRow);
HWY_EXPORT(ScaleRow);

namespace {

using portable::Sizes;

Result<const float*> floats_or_null(KernelContext& context, const OptionalTensor& tensor) {
  if (!tensor) {
    return static_cast<const float*>(nullptr);
  }
  return floats_of(context, *tensor);
}

/// Errors: InvalidArgument unless an optional parameter has `count` elements.
Error check_count(const char* op, const char* name, const OptionalTensor& tensor, int64_t count) {
  ET_CHECK_OR_RETURN(!tensor || tensor->numel() == count, InvalidArgument,
                     "%s: %s has %" PRId64 " elements, needs %" PRId64, op, name, tensor->numel(), count);
  return Error::Ok;
}

Error native_layer_norm_out(KernelContext& context, const Tensor& input, IntArrayRef normalized_shape,
                            const OptionalTensor& weight, const OptionalTensor& bias, double eps, Tensor& out0,
                            Tensor& out1, Tensor& out2) {
  const int64_t lead = input.dim() - static_cast<int64_t>(normalized_shape.size());
  bool matches = lead >= 0 && !normalized_shape.empty();
  int64_t columns = 1;
  for (size_t i = 0; matches && i < normalized_shape.size(); ++i) {
    matches = normalized_shape[i] == input.size(lead + static_cast<int64_t>(i));
    columns *= normalized_shape[i];
  }
  ET_CHECK_OR_RETURN(matches, InvalidArgument,
                     "aten::native_layer_norm: normalized_shape %s is not the end of the shape %s",
                     portable::ShapeText(normalized_shape).text, portable::ShapeText(input.sizes()).text);
  ET_RETURN_IF_ERROR(check_count("aten::native_layer_norm", "weight", weight, columns));
  ET_RETURN_IF_ERROR(check_count("aten::native_layer_norm", "bias", bias, columns));
  Sizes statistics(input.sizes());
  for (int64_t d = lead; d < input.dim(); ++d) {
    statistics[d] = 1;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, statistics));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, statistics));
  if (out1.numel() == 0 || columns == 0) {
    for (const Tensor* out : {&out1, &out2}) {  // the mean of nothing
      ET_TRY(float* const values, floats_for(context, *out));
      std::fill_n(values, out->numel(), NAN);
      write_floats(context, *out, values);
    }
    return Error::Ok;
  }
  ET_TRY(const float* const x, floats_of(context, input));
  ET_TRY(float* const y, floats_for(context, out0));
  ET_TRY(float* const means, floats_for(context, out1));
  ET_TRY(float* const rstds, floats_for(context, out2));
  ET_TRY(const float* const w, floats_or_null(context, weight));
  ET_TRY(const float* const b, floats_or_null(context, bias));
  const auto n = static_cast<size_t>(columns);
  const auto statistics_of = HWY_DYNAMIC_POINTER(MeanAndRstd);
  const auto normalize = HWY_DYNAMIC_POINTER(NormalizeRow);
  threads::parallel_for(context.pool(), static_cast<size_t>(out1.numel()), threads::grain_for(4 * n),
                        [&](size_t begin, size_t end) {
                          for (size_t r = begin; r < end; ++r) {
                            statistics_of(x + r * n, n, static_cast<float>(eps), means + r, rstds + r);
                            normalize(x + r * n, y + r * n, n, means[r], rstds[r], w, b);
                          }
                        });
  write_floats(context, out0, y);
  write_floats(context, out1, means);
  write_floats(context, out2, rstds);
  return Error::Ok;
}

Error native_group_norm_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight,
                            const OptionalTensor& bias, int64_t batch, int64_t channels, int64_t spatial, int64_t group,
                            double eps, Tensor& out0, Tensor& out1, Tensor& out2) {
  ET_CHECK_OR_RETURN(batch >= 0 && channels >= 0 && spatial >= 0 && group > 0 && channels % group == 0 &&
                         batch * channels * spatial == input.numel(),
                     InvalidArgument,
                     "aten::native_group_norm: N %" PRId64 ", C %" PRId64 ", HxW %" PRId64 " and group %" PRId64
                     " do not fit shape %s",
                     batch, channels, spatial, group, portable::ShapeText(input.sizes()).text);
  ET_RETURN_IF_ERROR(check_count("aten::native_group_norm", "weight", weight, channels));
  ET_RETURN_IF_ERROR(check_count("aten::native_group_norm", "bias", bias, channels));
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, input.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, {batch, group}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, {batch, group}));
  const auto per_group = static_cast<size_t>(channels / group);
  const auto s = static_cast<size_t>(spatial);
  const size_t n = per_group * s;
  if (n == 0) {
    return Error::Ok;
  }
  ET_TRY(const float* const x, floats_of(context, input));
  ET_TRY(float* const y, floats_for(context, out0));
  ET_TRY(float* const means, floats_for(context, out1));
  ET_TRY(float* const rstds, floats_for(context, out2));
  ET_TRY(const float* const w, floats_or_null(context, weight));
  ET_TRY(const float* const b, floats_or_null(context, bias));
  const auto statistics_of = HWY_DYNAMIC_POINTER(MeanAndRstd);
  const auto scale_row = HWY_DYNAMIC_POINTER(ScaleRow);
  threads::parallel_for(context.pool(), static_cast<size_t>(batch * group), threads::grain_for(4 * n),
                        [&](size_t begin, size_t end) {
                          for (size_t g = begin; g < end; ++g) {
                            statistics_of(x + g * n, n, static_cast<float>(eps), means + g, rstds + g);
                            for (size_t c = 0; c < per_group; ++c) {
                              const size_t channel = (g % static_cast<size_t>(group)) * per_group + c;
                              const float scale = rstds[g] * (w == nullptr ? 1.0f : w[channel]);
                              const float shift = (b == nullptr ? 0.0f : b[channel]) - means[g] * scale;
                              scale_row(x + g * n + c * s, y + g * n + c * s, s, scale, shift);
                            }
                          }
                        });
  write_floats(context, out0, y);
  write_floats(context, out1, means);
  write_floats(context, out2, rstds);
  return Error::Ok;
}

bool is_up_to_float_or_none(const EValue& value) { return value.is_none() || is_up_to_float(value); }

/// The input and the three outputs, the first of which is args[first_out]: floats of up to 32 bits, the first two in one dim order.
bool fits_outputs(Arguments args, size_t first_out) {
  for (const size_t i : {size_t{0}, first_out, first_out + 1, first_out + 2}) {
    if (!is_up_to_float(*args[i])) {
      return false;
    }
  }
  return same_dim_order(*args[0], *args[first_out]);
}

// native_layer_norm(input, normalized_shape, weight, bias, eps, out0, out1, out2)
bool fits_layer_norm(Arguments args) {
  return fits_outputs(args, 5) && is_row_major(*args[0]) && is_up_to_float_or_none(*args[2]) &&
         is_up_to_float_or_none(*args[3]);
}
// native_group_norm(input, weight, bias, N, C, HxW, group, eps, out0, out1, out2)
bool fits_group_norm(Arguments args) {
  return fits_outputs(args, 8) && is_row_major(*args[0]) && is_up_to_float_or_none(*args[1]) &&
         is_up_to_float_or_none(*args[2]);
}
constexpr Kernel kKernels[] = {
    make_fitting_kernel<&native_group_norm_out, &fits_group_norm>("aten::native_group_norm.out"),
    make_fitting_kernel<&native_layer_norm_out, &fits_layer_norm>("aten::native_layer_norm.out"),
};

}  // namespace

ET_KERNEL_TABLE(norm, kKernels)

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
