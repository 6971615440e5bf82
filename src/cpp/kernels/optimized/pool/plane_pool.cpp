// Pooling of row-major images without indices: the largest elements of floats, doubles, bytes and i64, and means of
// floats. Images with channels innermost are image_pool.cpp's.
//
// A row of results is made in two steps: the rows under its windows become one, element by element, and from that, with
// what changes nothing around it, comes what each window has. Rows that are alone are read where they lie.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/rounding.h"
#include "kernels/optimized/pool/image_pool.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/arithmetic.h"
#include "kernels/portable/op_pool.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_PLANE_POOL_ONCE
#define ET_KERNELS_OPTIMIZED_PLANE_POOL_ONCE
namespace et::kernels::optimized::pool {
/// `count` windows of `kernel` elements that are `dilation` apart, `stride` from one window to the next.
struct PoolRow {
  size_t count, kernel, stride, dilation;
};
}  // namespace et::kernels::optimized::pool
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pool::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// Not a number wins.
struct Largest {
  template <typename T>
  HWY_INLINE T operator()(T m, T v) const {
    return v > m || portable::is_nan(v) ? v : m;
  }
};
struct SumOf {
  template <typename T>
  HWY_INLINE T operator()(T m, T v) const {
    return m + v;
  }
};

/// m[i] = what m[i] and x[i] become.
template <class Combine, typename T>
void combine_rows(const T* HWY_RESTRICT x, T* HWY_RESTRICT m, size_t n) {
  const Combine combine;
  for (size_t i = 0; i < n; ++i) {
    m[i] = combine(m[i], x[i]);
  }
}

/// y[i] = what kKernel elements from x[i * step] on become that lie `dilation` apart. kStep: the step, 0 where it is
/// another.
template <class Combine, size_t kKernel, size_t kStep, typename T>
HWY_INLINE void combine_few(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, size_t n, const PoolRow& row) {
  const Combine combine;
  const size_t step = kStep == 0 ? row.stride : kStep;
  const T* const x1 = x + row.dilation;
  const T* const x2 = kKernel == 2 ? x1 : x1 + row.dilation;
  for (size_t i = 0; i < n; ++i) {
    const T m = combine(x[i * step], x1[i * step]);
    y[i] = kKernel == 2 ? m : combine(m, x2[i * step]);
  }
}

template <class Combine, size_t kStep, typename T>
HWY_INLINE void combine_windows(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, size_t n, const PoolRow& row) {
  const Combine combine;
  const size_t step = kStep == 0 ? row.stride : kStep;
  if (row.kernel == 2) {
    combine_few<Combine, 2, kStep>(x, y, n, row);
    return;
  }
  if (row.kernel == 3) {
    combine_few<Combine, 3, kStep>(x, y, n, row);
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    y[i] = x[i * step];
  }
  for (size_t k = 1; k < row.kernel; ++k) {
    const T* const from = x + k * row.dilation;
    for (size_t i = 0; i < n; ++i) {
      y[i] = combine(y[i], from[i * step]);
    }
  }
}

template <class Combine, typename T>
void pool_windows(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, const PoolRow& row) {
  constexpr size_t kPiece =
      512;  // results that stay in the first cache until all elements of their windows have passed
  const PoolRow p = row;
  for (size_t start = 0; start < p.count; start += kPiece) {
    const size_t n = HWY_MIN(kPiece, p.count - start);
    const T* const from = x + start * p.stride;
    if (p.stride == 1) {
      combine_windows<Combine, 1>(from, y + start, n, p);
    } else if (p.stride == 2) {
      combine_windows<Combine, 2>(from, y + start, n, p);
    } else {
      combine_windows<Combine, 0>(from, y + start, n, p);
    }
  }
}

#define ET_POOL(NAME, COMBINE, T)                                                    \
  void Combine##NAME(const T* x, T* m, size_t n) { combine_rows<COMBINE>(x, m, n); } \
  void Windows##NAME(const T* x, T* y, const PoolRow& row) { pool_windows<COMBINE>(x, y, row); }
ET_POOL(LargestFloats, Largest, float)
ET_POOL(LargestChars, Largest, int8_t)
ET_POOL(LargestBytes, Largest, uint8_t)
ET_POOL(LargestDoubles, Largest, double)
ET_POOL(LargestLongs, Largest, int64_t)
ET_POOL(SumFloats, SumOf, float)
#undef ET_POOL

/// y[i] /= counts[i] * factor
void DivideByCounts(float* HWY_RESTRICT y, const float* HWY_RESTRICT counts, float factor, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    y[i] /= counts[i] * factor;
  }
}

}  // namespace et::kernels::optimized::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pool {

HWY_EXPORT(DivideByCounts);

#define ET_POOL(NAME)        \
  HWY_EXPORT(Combine##NAME); \
  HWY_EXPORT(Windows##NAME);
ET_POOL(LargestFloats)
ET_POOL(LargestChars)
ET_POOL(LargestBytes)
ET_POOL(LargestDoubles)
ET_POOL(LargestLongs)
ET_POOL(SumFloats)
#undef ET_POOL
#define ET_LOOPS(NAME) {HWY_DYNAMIC_POINTER(Combine##NAME), HWY_DYNAMIC_POINTER(Windows##NAME)}

namespace {

/// The loops of one operation, and what changes nothing in it.
template <typename T>
struct PoolLoops {
  void (*rows)(const T* x, T* m, size_t n);
  void (*windows)(const T* x, T* y, const PoolRow& row);
};

/// One of the two directions of a pooling.
struct Direction : PoolWindows {
  int64_t out;

  bool takes_one() const { return kernel == 1 && stride == 1 && padding == 0; }
  explicit Direction(const PoolWindows& windows) : PoolWindows(windows), out(windows.count()) {}
  /// Elements from the first that the first window has to the last that the last one has, padding included.
  int64_t extent() const { return (out - 1) * stride + (kernel - 1) * dilation + 1; }
};

/// What a mean divides by.
struct Divisors {
  const float* columns = nullptr;  // [results of a row]; nullptr: nothing is divided
  int64_t fixed = 0;               // for all windows
};

/// A row of results from one row of elements: whole windows as they lie, those that hang over its ends one by one.
template <typename T, typename Combine>
void pool_row(const PoolLoops<T>& loops, const PoolRow& row, const T* x, const Direction& d, T neutral,
              const Combine& combine, T* y) {
  const int64_t reach = (d.kernel - 1) * d.dilation;
  const int64_t first = std::min(divide_up(d.padding, d.stride), d.out);
  const int64_t room = d.in + d.padding - reach - 1;
  const int64_t last = std::max(first, std::min(room < 0 ? 0 : room / d.stride + 1, d.out));
  const auto window_of = [&](int64_t i) {
    T result = neutral;
    for (int64_t k = 0; k < d.kernel; ++k) {
      const int64_t at = i * d.stride - d.padding + k * d.dilation;
      if (at >= 0 && at < d.in) {
        result = combine(result, x[at]);
      }
    }
    return result;
  };
  for (int64_t i = 0; i < first; ++i) {
    y[i] = window_of(i);
  }
  if (last > first) {
    PoolRow whole = row;
    whole.count = static_cast<size_t>(last - first);
    loops.windows(x + first * d.stride - d.padding, y + first, whole);
  }
  for (int64_t i = last; i < d.out; ++i) {
    y[i] = window_of(i);
  }
}

/// The dimensions of a pooling; `planes` is a single one of images.
struct Directions {
  Direction planes, rows, columns;

  bool has_results() const { return planes.out > 0 && rows.out > 0 && columns.out > 0; }
  int64_t elements() const { return planes.in * rows.in * columns.in; }
  /// The same windows; a plane of which each takes one element is a row, as local_response_norm has them across
  /// channels.
  Directions simplified() const {
    if (!rows.takes_one() || !columns.takes_one() || rows.in * columns.in > INT32_MAX) {
      return *this;
    }
    const auto of_one = [](int64_t in) { return Direction(PoolWindows{in, 1, 1, 0, 1, false, false}); };
    return {of_one(1), planes, of_one(rows.in * columns.in)};
  }
};

Directions directions_of(const Tensor& self, size_t spatial, IntArrayRef kernel_size, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, bool counts_padding) {
  const auto along = [&](size_t i) {
    return Direction(
        windows_along(self, i, kernel_size, stride, padding, dilation, ceil_mode, counts_padding, spatial));
  };
  const Direction single(PoolWindows{1, 1, 1, 0, 1, false, false});
  return {spatial == 3 ? along(0) : single, along(spatial - 2), along(spatial - 1)};
}

/// What a task needs to make the rows of results of some images.
template <typename T>
struct Scratch {
  T* combined;  // what the rows of windows became, with their padding
  T* read;      // a row, converted
  T* made;      // results before they are converted
};

/// A row of results: of the planes under window `d` and the rows of these under window `h`.
template <typename T, typename Combine>
void pool_rows(const Tensor& self, const char* image, const Directions& all, int64_t d, int64_t h,
               const PoolLoops<T>& loops, const PoolRow& row, T neutral, const Combine& combine,
               const Scratch<T>& scratch, T* y) {
  const auto width = static_cast<size_t>(all.columns.in);
  const bool converts = std::is_same_v<T, float> && self.scalar_type() != ScalarType::Float;
  const auto line_at = [&](int64_t plane, int64_t at) {
    return image + static_cast<size_t>(plane * all.rows.in + at) * width * self.element_size();
  };
  const int64_t plane = d * all.planes.stride - all.planes.padding, only = h * all.rows.stride - all.rows.padding;
  const bool is_inside = plane >= 0 && plane < all.planes.in && only >= 0 && only < all.rows.in;
  if (all.planes.kernel == 1 && all.rows.kernel == 1 && !converts && is_inside) {
    return pool_row(loops, row, reinterpret_cast<const T*>(line_at(plane, only)), all.columns, neutral, combine, y);
  }
  std::fill(scratch.combined, scratch.read, neutral);
  for (int64_t p = 0; p < all.planes.kernel; ++p) {
    const int64_t from = plane + p * all.planes.dilation;
    for (int64_t k = 0; from >= 0 && from < all.planes.in && k < all.rows.kernel; ++k) {
      const int64_t at = only + k * all.rows.dilation;
      if (at < 0 || at >= all.rows.in) {
        continue;
      }
      const char* const line = line_at(from, at);
      const T* x = reinterpret_cast<const T*>(line);
      if constexpr (std::is_same_v<T, float>) {
        if (converts) {
          floats_from(self.scalar_type(), line, 1, width, scratch.read);
          x = scratch.read;
        }
      }
      loops.rows(x, scratch.combined + all.columns.padding, width);
    }
  }
  loops.windows(scratch.combined, y, row);
}

/// A pooling of all images. `neutral` changes nothing in `combine`, which is what the loops do.
template <typename T, typename Combine>
Error pool(KernelContext& context, const Tensor& self, const Directions& all, const PoolLoops<T>& loops, T neutral,
           const Combine& combine, const Divisors& divisors, const Tensor& out) {
  const Direction& columns = all.columns;
  const auto width = static_cast<size_t>(columns.in);
  const auto results = static_cast<size_t>(columns.out);
  const auto padded = static_cast<size_t>(std::max(columns.extent(), columns.padding + columns.in));
  const bool converts = std::is_same_v<T, float> && self.scalar_type() != ScalarType::Float;
  const size_t per_task = (padded + width + results + 15) / 16 * 16;
  const int64_t lines = all.planes.out * all.rows.out;  // of an image's results
  const auto images = static_cast<size_t>(self.numel() / all.elements());
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t tasks = threads == 1 ? 1 : std::min(images, 4 * threads);
  ET_TRY(void* const memory, context.allocate_temp(tasks * per_task * sizeof(T)));
  const PoolRow row{results, static_cast<size_t>(columns.kernel), static_cast<size_t>(columns.stride),
                    static_cast<size_t>(columns.dilation)};
  threads::parallel_tasks(context.pool(), tasks, [&](size_t task) {
    T* const combined = static_cast<T*>(memory) + task * per_task;
    const Scratch<T> scratch{combined, combined + padded, combined + padded + width};
    for (size_t image = task * images / tasks; image < (task + 1) * images / tasks; ++image) {
      const auto* const from = static_cast<const char*>(self.const_data_ptr()) +
                               image * static_cast<size_t>(all.elements()) * self.element_size();
      auto* target = static_cast<char*>(out.mutable_data_ptr()) +
                     image * static_cast<size_t>(lines) * results * out.element_size();
      for (int64_t line = 0; line < lines && !context.cancelled(); ++line, target += results * out.element_size()) {
        const int64_t d = line / all.rows.out, h = line % all.rows.out;
        T* const y = converts ? scratch.made : reinterpret_cast<T*>(target);
        pool_rows(self, from, all, d, h, loops, row, neutral, combine, scratch, y);
        if constexpr (std::is_same_v<T, float>) {
          if (divisors.columns != nullptr) {
            const int64_t counted = divisors.fixed != 0
                                        ? divisors.fixed
                                        : std::max<int64_t>(all.planes[d].counted * all.rows[h].counted, 1);
            HWY_DYNAMIC_DISPATCH(DivideByCounts)(y, divisors.columns, static_cast<float>(counted), results);
          }
          if (converts) {
            floats_to(out.scalar_type(), scratch.made, results, target);
          }
        }
      }
    }
  });
  return Error::Ok;
}

/// Gives the output the sizes of what the windows make.
Error resize(KernelContext& context, const Tensor& self, size_t spatial, const Directions& all, const Tensor& out) {
  portable::Sizes sizes(self.sizes());
  if (spatial == 3) {
    sizes[self.dim() - 3] = all.planes.out;
  }
  sizes[self.dim() - 2] = all.rows.out;
  sizes[self.dim() - 1] = all.columns.out;
  return resize_tensor(context, out, sizes);
}

/// The largest elements of windows; `otherwise` takes what has none.
template <size_t kSpatial, auto kOtherwise>
Error max_pool_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out) {
  const Directions all = directions_of(self, kSpatial, kernel_size, stride, padding, dilation, ceil_mode, false);
  if (self.numel() == 0 || !all.has_results()) {
    return kOtherwise(context, self, kernel_size, stride, padding, dilation, ceil_mode, out);
  }
  ET_RETURN_IF_ERROR(resize(context, self, kSpatial, all, out));
  const auto largest = [&](const auto& loops, auto least) {
    const auto larger = [](auto m, auto v) { return v > m || portable::is_nan(v) ? v : m; };
    return pool(context, self, kSpatial == 3 ? all.simplified() : all, loops, least, larger, {}, out);
  };
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  switch (self.scalar_type()) {
    case ScalarType::Char: return largest(PoolLoops<int8_t> ET_LOOPS(LargestChars), int8_t{-128});
    case ScalarType::Byte: return largest(PoolLoops<uint8_t> ET_LOOPS(LargestBytes), uint8_t{0});
    case ScalarType::Long: return largest(PoolLoops<int64_t> ET_LOOPS(LargestLongs), INT64_MIN);
    case ScalarType::Double: return largest(PoolLoops<double> ET_LOOPS(LargestDoubles), double{kLeast});
    default: return largest(PoolLoops<float> ET_LOOPS(LargestFloats), kLeast);
  }
}

/// Means of windows; `otherwise` as above.
template <size_t kSpatial, auto kOtherwise>
Error avg_pool_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                   IntArrayRef padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override,
                   Tensor& out) {
  const Directions all = directions_of(self, kSpatial, kernel_size, stride, padding, {}, ceil_mode, count_include_pad);
  if (self.numel() == 0 || !all.has_results() || divisor_override == 0) {
    return kOtherwise(context, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out);
  }
  ET_RETURN_IF_ERROR(resize(context, self, kSpatial, all, out));
  const Directions simple = kSpatial == 3 ? all.simplified() : all;
  const Direction& columns = simple.columns;
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(columns.out) * sizeof(float)));
  auto* const counts = static_cast<float*>(memory);
  for (int64_t i = 0; i < columns.out; ++i) {
    counts[i] = divisor_override ? 1.0f : static_cast<float>(std::max<int64_t>(columns[i].counted, 1));
  }
  const Divisors divisors{counts, divisor_override.value_or(0)};
  return pool(
      context, self, simple, PoolLoops<float> ET_LOOPS(SumFloats), 0.0f, [](float m, float v) { return m + v; },
      divisors, out);
}

/// fn(self, …, out): row-major images of one element type, or volumes.
template <int64_t kSpatial>
bool fits_images(Arguments args) {
  const EValue& out = *args[args.size() - 1];
  const Tensor self = args[0]->to_tensor();
  return out.to_tensor().scalar_type() == self.scalar_type() &&
         (self.dim() == kSpatial + 1 || self.dim() == kSpatial + 2) && out.to_tensor().dim() == self.dim() &&
         is_row_major(*args[0]) && is_row_major(out);
}

template <int64_t kSpatial>
bool fits_max_pool(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const bool is_taken = is_up_to_float(dtype) || dtype == ScalarType::Double || dtype == ScalarType::Long ||
                        dtype == ScalarType::Char || dtype == ScalarType::Byte;
  return is_taken && fits_images<kSpatial>(args);
}

template <int64_t kSpatial>
bool fits_avg_pool(Arguments args) {
  return is_up_to_float(*args[0]) && fits_images<kSpatial>(args);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&max_pool_out<2, &portable::max_pool2d_out>, &fits_max_pool<2>>("et::max_pool2d.out"),
    make_fitting_kernel<&max_pool_out<3, &portable::max_pool3d_out>, &fits_max_pool<3>>("et::max_pool3d.out"),
    make_fitting_kernel<&avg_pool_out<2, &portable::avg_pool2d_out>, &fits_avg_pool<2>>("aten::avg_pool2d.out"),
    make_fitting_kernel<&avg_pool_out<3, &portable::avg_pool3d_out>, &fits_avg_pool<3>>("aten::avg_pool3d.out"),
};

}  // namespace

ET_KERNEL_TABLE(plane_pool, kKernels)

}  // namespace et::kernels::optimized::pool
#endif  // HWY_ONCE
