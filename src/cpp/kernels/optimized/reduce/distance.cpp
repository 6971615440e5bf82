// Distances between points: each point of one set against a block of points of the other, which lie transposed, so that
// a vector holds one coordinate of neighbouring points and no sum crosses lanes.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_DISTANCE_
#define ET_KERNELS_OPTIMIZED_DISTANCE_
namespace et::kernels::optimized::reduce {

/// The norms with a loop of their own.
enum class Norm : uint8_t { Zero, One, Two, Infinity };

/// out[i][j] = distance of points i and j for j in [begin(i), columns); begin(i) is first + i + 1 for pairs of one set,
/// else 0.
template <typename T>
struct DistanceBlock {
  const T* points;      // [rows, width]
  const T* transposed;  // [width, stride], zeros behind the last point
  size_t rows, columns, width, stride;
  bool triangle;
  size_t first;  // number of the first row, for a triangle
  T* out;        // [rows, columns], or for a triangle the rows' right parts, one behind the other
  Norm norm;
};

}  // namespace et::kernels::optimized::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// sum with the difference of one coordinate.
template <Norm kNorm, class D, class V = hn::Vec<D>>
HWY_INLINE V step(D d, V sum, V a, V b) {
  const V difference = hn::Sub(a, b);
  if constexpr (kNorm == Norm::Two) {
    return hn::MulAdd(difference, difference, sum);
  } else if constexpr (kNorm == Norm::One) {
    return hn::Add(sum, hn::Abs(difference));
  } else if constexpr (kNorm == Norm::Zero) {
    const V counted = hn::IfThenElseZero(hn::Ne(difference, hn::Zero(d)), hn::Set(d, hn::TFromD<D>(1)));
    return hn::Add(sum, hn::IfThenElse(hn::IsNaN(difference), difference, counted));
  } else {
    const V size = hn::Abs(difference);
    return hn::IfThenElse(hn::Or(hn::Gt(size, sum), hn::IsNaN(size)), size, sum);
  }
}

/// Row `i` against points [j, j + kVectors vectors), of which `count` are written.
template <Norm kNorm, size_t kVectors, class T>
HWY_INLINE void distances(const DistanceBlock<T>& block, const T* point, size_t j, size_t count, T* out) {
  const hn::ScalableTag<T> d;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) {
    sum = hn::Zero(d);
  }
  const T* column = block.transposed + j;
  for (size_t k = 0; k < block.width; ++k, column += block.stride) {
    const auto a = hn::Set(d, point[k]);
    for (size_t v = 0; v < kVectors; ++v) {
      sums[v] = step<kNorm>(d, sums[v], a, hn::LoadU(d, column + v * kLanes));
    }
  }
  for (size_t v = 0; v < kVectors && v * kLanes < count; ++v) {
    const auto distance = kNorm == Norm::Two ? hn::Sqrt(sums[v]) : sums[v];
    hn::StoreN(distance, d, out + v * kLanes, HWY_MIN(kLanes, count - v * kLanes));
  }
}

template <Norm kNorm, class T>
void distances_of(const DistanceBlock<T>& block) {
  constexpr size_t kVectors = 8;  // sums that hide each other's latency
  constexpr size_t kWidth = kVectors * hn::MaxLanes(hn::ScalableTag<T>());
  T* out = block.out;
  for (size_t i = 0; i < block.rows; ++i) {
    const size_t begin = block.triangle ? block.first + i + 1 : 0;
    for (size_t j = begin; j < block.columns; j += kWidth) {
      const size_t count = HWY_MIN(kWidth, block.columns - j);
      const T* const point = block.points + i * block.width;
      if (count * 2 <= kWidth) {
        distances<kNorm, kVectors / 2>(block, point, j, count, out);
      } else {
        distances<kNorm, kVectors>(block, point, j, count, out);
      }
      out += count;
    }
  }
}

template <class T>
void Distances(const DistanceBlock<T>& block) {
  switch (block.norm) {
    case Norm::Zero: return distances_of<Norm::Zero>(block);
    case Norm::One: return distances_of<Norm::One>(block);
    case Norm::Two: return distances_of<Norm::Two>(block);
    case Norm::Infinity: return distances_of<Norm::Infinity>(block);
  }
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

namespace {

using portable::Sizes;

template <typename T>
void run(const DistanceBlock<T>& block) {
  HWY_EXPORT_T(OfBlock, Distances<T>);
  HWY_DYNAMIC_DISPATCH_T(OfBlock)(block);
}

/// What the vector code reads beyond the last point at most: a group of vectors.
constexpr size_t kPadding = 8 * 64;

/// Points [rows, width] as [width, rows + padding], zeros in the padding.
template <typename T>
void transpose_points(const T* points, size_t rows, size_t width, size_t stride, T* out) {
  for (size_t k = 0; k < width; ++k) {
    for (size_t j = 0; j < rows; ++j) {
      out[k * stride + j] = points[j * width + k];
    }
    std::fill(out + k * stride + rows, out + (k + 1) * stride, T(0));
  }
}

Norm norm_of(double p) { return p == 0 ? Norm::Zero : p == 1 ? Norm::One : p == 2 ? Norm::Two : Norm::Infinity; }

template <typename T>
Error distances_between(KernelContext& context, const Tensor& x1, const Tensor& x2, const Sizes& batch, double p,
                        const Tensor& out) {
  const auto rows = static_cast<size_t>(x1.size(-2)), columns = static_cast<size_t>(x2.size(-2));
  const auto width = static_cast<size_t>(x1.size(-1));
  const size_t stride = columns + kPadding / sizeof(T);
  ET_TRY(void* memory, context.allocate_temp(stride * width * sizeof(T)));
  T* const transposed = static_cast<T*>(memory);
  const T* known = nullptr;  // the points that lie there
  T* to = out.mutable_data_ptr<T>();
  // The position of a batch in an input, whose sizes of 1 are repeated.
  const auto offset_of = [&](const Tensor& x, int64_t b) {
    int64_t offset = 0, stride_of = x.size(-2) * x.size(-1);
    for (int64_t d = x.dim() - 3, k = static_cast<int64_t>(batch.size()) - 1; k >= 0; --k, --d) {
      if (d >= 0) {
        offset += x.size(d) == 1 ? 0 : b % batch[k] * stride_of;
        stride_of *= x.size(d);
      }
      b /= batch[k];
    }
    return offset;
  };
  for (int64_t b = 0; b < batch.numel(); ++b, to += rows * columns) {
    const T* const left = x1.const_data_ptr<T>() + offset_of(x1, b);
    const T* const right = x2.const_data_ptr<T>() + offset_of(x2, b);
    if (right != known) {
      transpose_points(right, columns, width, stride, transposed);
      known = right;
    }
    threads::parallel_for(context, rows, threads::grain_for(columns * width), [&](size_t begin, size_t end) {
      run(DistanceBlock<T>{left + begin * width, transposed, end - begin, columns, width, stride, false, 0,
                           to + begin * columns, norm_of(p)});
    });
  }
  return Error::Ok;
}

Error cdist_forward_out(KernelContext& context, const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t>,
                        Tensor& out) {
  constexpr const char* kOp = "aten::_cdist_forward";
  ET_CHECK_OR_RETURN(x1.size(-1) == x2.size(-1), InvalidArgument,
                     "%s: points of x1 have %" PRId64 " coordinates, those of x2 have %" PRId64, kOp, x1.size(-1),
                     x2.size(-1));
  const auto batch_of = [](const Tensor& x) {
    return IntArrayRef(x.sizes()).subspan(0, static_cast<size_t>(x.dim()) - 2);
  };
  Sizes batch;
  ET_RETURN_IF_ERROR(portable::broadcast_sizes(kOp, batch_of(x1), batch_of(x2), &batch));
  Sizes sizes = batch;
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {  // nothing bounds the width of no points
    return Error::Ok;
  }
  return x1.scalar_type() == ScalarType::Float ? distances_between<float>(context, x1, x2, batch, p, out)
                                               : distances_between<double>(context, x1, x2, batch, p, out);
}

template <typename T>
Error distances_within(KernelContext& context, const Tensor& self, double p, const Tensor& out) {
  const auto rows = static_cast<size_t>(self.size(0)), width = static_cast<size_t>(self.size(1));
  const size_t stride = rows + kPadding / sizeof(T);
  ET_TRY(void* memory, context.allocate_temp(stride * width * sizeof(T)));
  T* const transposed = static_cast<T*>(memory);
  const T* const points = self.const_data_ptr<T>();
  transpose_points(points, rows, width, stride, transposed);
  T* const to = out.mutable_data_ptr<T>();
  threads::parallel_for(context, rows, threads::grain_for(rows * width / 2), [&](size_t begin, size_t end) {
    const size_t before = begin * (2 * rows - begin - 1) / 2;  // distances of the rows above
    run(DistanceBlock<T>{points + begin * width, transposed, end - begin, rows, width, stride, true, begin, to + before,
                         norm_of(p)});
  });
  return Error::Ok;
}

Error pdist_forward_out(KernelContext& context, const Tensor& self, double p, Tensor& out) {
  const int64_t rows = self.size(0);
  ET_TRY(const int64_t pairs, portable::count_pairs("aten::_pdist_forward", rows));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {pairs}));
  if (pairs == 0) {  // nothing bounds the width of no points
    return Error::Ok;
  }
  return self.scalar_type() == ScalarType::Float ? distances_within<float>(context, self, p, out)
                                                 : distances_within<double>(context, self, p, out);
}

/// Row-major tensors of one floating type, and a norm known now that has a loop.
bool fits(const EValue& self, const EValue& other, const EValue& p, const EValue& out) {
  const ScalarType dtype = self.to_tensor().scalar_type();
  const double norm = p.number_as_double();
  return (dtype == ScalarType::Float || dtype == ScalarType::Double) && other.to_tensor().scalar_type() == dtype &&
         out.to_tensor().scalar_type() == dtype && is_row_major(self) && is_row_major(other) && is_row_major(out) &&
         (norm == 0 || norm == 1 || norm == 2 || norm == HUGE_VAL);
}
bool fits_cdist(Arguments args) {
  return args[0]->to_tensor().dim() >= 2 && args[1]->to_tensor().dim() >= 2 &&
         fits(*args[0], *args[1], *args[2], *args[4]);
}
bool fits_pdist(Arguments args) {
  return args[0]->to_tensor().dim() == 2 && fits(*args[0], *args[0], *args[1], *args[2]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&cdist_forward_out, &fits_cdist>("aten::_cdist_forward.out"),
    make_fitting_kernel<&pdist_forward_out, &fits_pdist>("aten::_pdist_forward.out"),
};

}  // namespace

ET_KERNEL_TABLE(distance, kKernels)

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
