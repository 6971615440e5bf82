// Reductions over dimensions that lie side by side in memory: sum, mean, amax, amin, var; global average pooling.
//
// The tensor is seen as [outer, length, inner] with the reduced dimensions in the middle. inner == 1: rows are reduced to
// numbers. Otherwise rows of `inner` are added up, which is how channels-last images are averaged.

#include "kernels/optimized/targets.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/tables.h"
#include "kernels/optimized/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

float SumRow(const float* x, size_t n) {
  return sum_of([](auto v) HWY_ATTR { return v; }, x, n);
}

float MaxRow(const float* x, size_t n) { return max_of(x, n); }

float MinRow(const float* x, size_t n) {
  float least = x[0];
  for (size_t i = 0; i < n; ++i) {
    least = x[i] < least || x[i] != x[i] ? x[i] : least;
    if (least != least) {
      break;
    }
  }
  return least;
}

/// Sum of squared deviations from the row's mean.
float DeviationRow(const float* x, size_t n) {
  const hn::ScalableTag<float> d;
  const auto mean = hn::Set(d, SumRow(x, n) / static_cast<float>(n));
  return sum_of(
      [mean](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, mean);
        return hn::Mul(deviation, deviation);
      },
      x, n);
}

/// y[c] = sum over n rows, for `count` columns of rows that are `stride` apart. Four rows are added before they meet the
/// sum, which halves the traffic and the rounding error.
void SumColumns(const float* x, float* y, size_t n, size_t count, size_t stride) {
  const hn::ScalableTag<float> d;
  over_vectors(count, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    const float* row = x + c;
    size_t i = 0;
    for (; i + 4 <= n; i += 4, row += 4 * stride) {
      s0 = hn::Add(s0, load(d, whole, row, left));
      s1 = hn::Add(s1, load(d, whole, row + stride, left));
      s2 = hn::Add(s2, load(d, whole, row + 2 * stride, left));
      s3 = hn::Add(s3, load(d, whole, row + 3 * stride, left));
    }
    for (; i < n; ++i, row += stride) {
      s0 = hn::Add(s0, load(d, whole, row, left));
    }
    store(d, whole, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), y + c, left);
  });
}

void ExtremeColumns(const float* x, float* y, size_t n, size_t count, size_t stride, bool largest) {
  const hn::ScalableTag<float> d;
  over_vectors(count, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    auto m = load(d, whole, x + c, left);
    for (size_t i = 1; i < n; ++i) {
      const auto v = load(d, whole, x + i * stride + c, left);
      const auto better = largest ? hn::Gt(v, m) : hn::Lt(v, m);
      m = hn::IfThenElse(hn::Or(better, hn::IsNaN(v)), v, m);
    }
    store(d, whole, m, y + c, left);
  });
}

void ScaleInPlace(float* x, size_t n, float factor) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  over_vectors(n, [&](auto whole, size_t i, size_t left)
                      HWY_ATTR { store(d, whole, hn::Mul(load(d, whole, x + i, left), f), x + i, left); });
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(SumRow);
HWY_EXPORT(MaxRow);
HWY_EXPORT(MinRow);
HWY_EXPORT(DeviationRow);
HWY_EXPORT(SumColumns);
HWY_EXPORT(ExtremeColumns);
HWY_EXPORT(ScaleInPlace);

namespace {

using portable::Sizes;

enum class Reduction { kSum, kMean, kMax, kMin, kVariance };

/// Marks the dimensions of a dim list (none given: all). False for a dim out of range.
bool mark_dims(int64_t rank, IntArrayRef dims, bool* reduced) {
  for (int64_t d = 0; d < rank; ++d) {
    reduced[d] = dims.empty();
  }
  for (const int64_t dim : dims) {
    if (dim < -rank || dim >= rank) {
      return false;
    }
    reduced[dim < 0 ? dim + rank : dim] = true;
  }
  return true;
}

/// True when the reduced dimensions are neighbours in memory and the others lie in the same order in `out`.
bool fits_reduction(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out) {
  if (!is_float(self) || !is_float(out)) {
    return false;
  }
  const auto order = runtime::dim_order(self.to_tensor());
  const auto out_order = runtime::dim_order(out.to_tensor());
  bool reduced[runtime::kMaxRank];
  if (!mark_dims(static_cast<int64_t>(order.size()), dims, reduced)) {
    return false;
  }
  uint8_t kept_index[runtime::kMaxRank];  // dimension of `out` for each one that stays
  uint8_t next = 0;
  for (size_t d = 0; d < order.size(); ++d) {
    kept_index[d] = keepdim ? static_cast<uint8_t>(d) : next;
    next = static_cast<uint8_t>(next + (reduced[d] ? 0 : 1));
  }
  int changes = 0;
  size_t place = 0;  // in out_order
  for (size_t i = 0; i < order.size(); ++i) {
    changes += i > 0 && reduced[order[i]] != reduced[order[i - 1]] ? 1 : 0;
    if (reduced[order[i]]) {
      continue;
    }
    while (keepdim && place < out_order.size() && reduced[out_order[place]]) {
      ++place;
    }
    if (place >= out_order.size() || out_order[place] != kept_index[order[i]]) {
      return false;
    }
    ++place;
  }
  return changes <= (order.empty() || !reduced[order[0]] ? 2 : 1);
}

Error reduce(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
             const Tensor& out, Reduction what, double correction = 0) {
  bool reduced[runtime::kMaxRank];
  ET_CHECK_OR_RETURN(mark_dims(self.dim(), dims, reduced), InvalidArgument,
                     "%s: a dim is out of range for rank %" PRId64, op, self.dim());
  Sizes sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!reduced[d]) {
      sizes.push_back(self.size(d));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  size_t outer = 1;
  size_t length = 1;
  size_t inner = 1;
  bool seen = false;
  for (const uint8_t d : runtime::dim_order(self)) {
    const auto extent = static_cast<size_t>(self.size(d));
    seen = seen || reduced[d];
    (reduced[d] ? length : seen ? inner : outer) *= extent;
  }
  const float* const x = self.const_data_ptr<float>();
  float* const y = out.mutable_data_ptr<float>();
  const auto results = static_cast<size_t>(out.numel());
  if (results == 0) {
    return Error::Ok;
  }
  if (length == 0) {
    const bool extreme = what == Reduction::kMax || what == Reduction::kMin;
    ET_CHECK_OR_RETURN(!extreme, InvalidArgument, "%s: the dimension to reduce has no elements", op);
    for (size_t i = 0; i < results; ++i) {
      y[i] = what == Reduction::kSum ? 0.0f : NAN;
    }
    return Error::Ok;
  }
  const auto count = static_cast<float>(length);
  const auto left = static_cast<float>(static_cast<double>(length) - correction);
  const float divisor = what == Reduction::kMean       ? count
                        : what == Reduction::kVariance ? (left > 0 ? left : 0.0f)
                                                       : 1.0f;
  if (inner == 1) {
    const auto row = what == Reduction::kMax        ? HWY_DYNAMIC_POINTER(MaxRow)
                     : what == Reduction::kMin      ? HWY_DYNAMIC_POINTER(MinRow)
                     : what == Reduction::kVariance ? HWY_DYNAMIC_POINTER(DeviationRow)
                                                    : HWY_DYNAMIC_POINTER(SumRow);
    threads::parallel_for(context.pool(), outer, threads::grain_for(length), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        const float value = row(x + r * length, length);
        y[r] = what == Reduction::kMean || what == Reduction::kVariance ? value / divisor : value;
      }
    });
    return Error::Ok;
  }
  constexpr size_t kPiece = 256;  // columns that one step treats: a few lines of each row
  const size_t pieces = (inner + kPiece - 1) / kPiece;
  const auto sum = HWY_DYNAMIC_POINTER(SumColumns);
  const auto extreme = HWY_DYNAMIC_POINTER(ExtremeColumns);
  const auto scale = HWY_DYNAMIC_POINTER(ScaleInPlace);
  threads::parallel_for(context.pool(), outer * pieces, threads::grain_for(length * (inner < kPiece ? inner : kPiece)),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; ++i) {
                            const size_t first = i % pieces * kPiece;
                            const size_t columns = inner - first < kPiece ? inner - first : kPiece;
                            const float* const from = x + i / pieces * length * inner + first;
                            float* const to = y + i / pieces * inner + first;
                            if (what == Reduction::kMax || what == Reduction::kMin) {
                              extreme(from, to, length, columns, inner, what == Reduction::kMax);
                              continue;
                            }
                            sum(from, to, length, columns, inner);
                            if (what == Reduction::kMean) {
                              scale(to, columns, 1.0f / divisor);
                            }
                          }
                        });
  return Error::Ok;
}

IntArrayRef list_or_all(const std::optional<IntArrayRef>& dims) { return dims ? *dims : IntArrayRef(); }

Error mean_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim, bool keepdim,
               std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::mean", self, list_or_all(dim), keepdim, out, Reduction::kMean);
}

Error sum_intlist_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim, bool keepdim,
                      std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::sum", self, list_or_all(dim), keepdim, out, Reduction::kSum);
}

Error amax_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amax", self, dim, keepdim, out, Reduction::kMax);
}

Error amin_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amin", self, dim, keepdim, out, Reduction::kMin);
}

Error var_correction_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim,
                         std::optional<Scalar> correction, bool keepdim, Tensor& out) {
  return reduce(context, "aten::var", self, list_or_all(dim), keepdim, out, Reduction::kVariance,
                correction ? correction->to<double>() : 1.0);
}

Error adaptive_avg_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef, Tensor& out) {
  return reduce(context, "aten::_adaptive_avg_pool2d", self, {-2, -1}, true, out, Reduction::kMean);
}

IntArrayRef list_of(const EValue& value) { return value.is_none() ? IntArrayRef() : value.to_int_list(); }

/// reduce(self, dim, keepdim, [dtype,] out)
bool fits_dims(Arguments args) {
  return fits_reduction(*args[0], list_of(*args[1]), args[2]->number_as_bool(), *args[args.size() - 1]);
}

/// Rows only: var(self, dim, correction, keepdim, out)
bool fits_variance(Arguments args) {
  if (!fits_reduction(*args[0], list_of(*args[1]), args[3]->number_as_bool(), *args[4])) {
    return false;
  }
  const Tensor self = args[0]->to_tensor();
  bool reduced[runtime::kMaxRank];
  mark_dims(self.dim(), list_of(*args[1]), reduced);
  return self.dim() > 0 && reduced[runtime::dim_order(self).back()];
}

/// One average for each image and channel: _adaptive_avg_pool2d(self, output_size, out)
bool fits_global_pool(Arguments args) {
  const IntArrayRef size = args[1]->to_int_list();
  const bool one = !size.empty() && size.front() == 1 && size.back() == 1;
  return one && args[0]->is_tensor() && args[0]->to_tensor().dim() >= 3 &&
         fits_reduction(*args[0], {-2, -1}, true, *args[2]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&adaptive_avg_pool2d_out, &fits_global_pool>("aten::_adaptive_avg_pool2d.out"),
    make_fitting_kernel<&amax_out, &fits_dims>("aten::amax.out"),
    make_fitting_kernel<&amin_out, &fits_dims>("aten::amin.out"),
    make_fitting_kernel<&mean_out, &fits_dims>("aten::mean.out"),
    make_fitting_kernel<&sum_intlist_out, &fits_dims>("aten::sum.IntList_out"),
    make_fitting_kernel<&var_correction_out, &fits_variance>("aten::var.correction_out"),
};

}  // namespace

Span<const Kernel> reduce_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
