// Max pooling of row-major images without indices, for the element types that no library takes: 16-bit floats, doubles, i64;
// and of lines of floats.
//
// A row of results is made in two steps: the largest of the rows under its windows, element by element, and from that, with what is
// no number's largest around it, the largest of each window.

#include "kernels/optimized/targets.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/max_pool.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/float_runs.h"
#include "kernels/optimized/table.h"
#include "kernels/portable/op_pool.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_MAX_POOL_ONCE
#define ET_KERNELS_OPTIMIZED_MAX_POOL_ONCE
namespace et::kernels::optimized {
/// The largest of `count` windows of `kernel` elements that are `dilation` apart, `stride` from one window to the next.
struct PoolRow {
  size_t count, kernel, stride, dilation;
};
}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// Not a number wins.
template <typename T>
HWY_INLINE T larger(T m, T v) {
  return v > m || v != v ? v : m;
}

/// m[i] = the larger of m[i] and x[i].
template <typename T>
void LargerOf(const T* HWY_RESTRICT x, T* HWY_RESTRICT m, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    m[i] = larger(m[i], x[i]);
  }
}

/// y[i] = the largest of kKernel elements from x[i * step] on that lie `dilation` apart. kStep: the step, 0 where it is another.
template <size_t kKernel, size_t kStep, typename T>
HWY_INLINE void largest_of(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, size_t n, const PoolRow& row) {
  const size_t step = kStep == 0 ? row.stride : kStep;
  const T* const x1 = x + row.dilation;
  const T* const x2 = kKernel == 2 ? x1 : x1 + row.dilation;
  for (size_t i = 0; i < n; ++i) {
    const T m = larger(x[i * step], x1[i * step]);
    y[i] = kKernel == 2 ? m : larger(m, x2[i * step]);
  }
}

template <size_t kStep, typename T>
HWY_INLINE void largest_of_windows(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, size_t n, const PoolRow& row) {
  const size_t step = kStep == 0 ? row.stride : kStep;
  if (row.kernel == 2) {
    largest_of<2, kStep>(x, y, n, row);
    return;
  }
  if (row.kernel == 3) {
    largest_of<3, kStep>(x, y, n, row);
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    y[i] = x[i * step];
  }
  for (size_t k = 1; k < row.kernel; ++k) {
    const T* const from = x + k * row.dilation;
    for (size_t i = 0; i < n; ++i) {
      y[i] = larger(y[i], from[i * step]);
    }
  }
}

template <typename T>
void LargestOfWindows(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, const PoolRow& row) {
  constexpr size_t kPiece =
      512;  // results that stay in the first cache until all elements of their windows have passed
  const PoolRow p = row;
  for (size_t start = 0; start < p.count; start += kPiece) {
    const size_t n = HWY_MIN(kPiece, p.count - start);
    const T* const from = x + start * p.stride;
    if (p.stride == 1) {
      largest_of_windows<1>(from, y + start, n, p);
    } else if (p.stride == 2) {
      largest_of_windows<2>(from, y + start, n, p);
    } else {
      largest_of_windows<0>(from, y + start, n, p);
    }
  }
}

#define ET_POOL(NAME, T)                                                    \
  void LargerOf##NAME(const T* x, T* m, size_t n) { LargerOf<T>(x, m, n); } \
  void LargestOfWindows##NAME(const T* x, T* y, const PoolRow& row) { LargestOfWindows<T>(x, y, row); }
ET_POOL(Float, float)
ET_POOL(Double, double)
ET_POOL(Long, int64_t)
#undef ET_POOL

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

template <typename T>
struct PoolLoops {
  void (*larger)(const T* x, T* m, size_t n);
  void (*windows)(const T* x, T* y, const PoolRow& row);
};
template <typename T>
PoolLoops<T> pool_loops();
#define ET_POOL(NAME, T)                                                                       \
  HWY_EXPORT(LargerOf##NAME);                                                                  \
  HWY_EXPORT(LargestOfWindows##NAME);                                                          \
  template <>                                                                                  \
  PoolLoops<T> pool_loops<T>() {                                                               \
    return {HWY_DYNAMIC_POINTER(LargerOf##NAME), HWY_DYNAMIC_POINTER(LargestOfWindows##NAME)}; \
  }
ET_POOL(Float, float)
ET_POOL(Double, double)
ET_POOL(Long, int64_t)
#undef ET_POOL

namespace {

/// One of the two directions of a pooling.
struct Direction {
  int64_t in, out, kernel, stride, padding, dilation;

  /// Elements from the first that the first window has to the last that the last one has, padding included.
  int64_t extent() const { return (out - 1) * stride + (kernel - 1) * dilation + 1; }
};

int64_t item(IntArrayRef list, size_t i, int64_t otherwise) {
  return list.empty() ? otherwise : list[list.size() == 1 ? 0 : i];
}

/// False for what the portable kernel is to take, or to refuse.
bool plan(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
          bool ceil_mode, Direction (&directions)[2]) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Direction& d = directions[i];
    d.in = self.size(self.dim() - 2 + static_cast<int64_t>(i));
    d.kernel = item(kernel, i, 1);
    d.stride = item(stride, i, d.kernel);
    d.padding = item(padding, i, 0);
    d.dilation = item(dilation, i, 1);
    constexpr int64_t kMost = 4096;
    const auto is_small = [](int64_t value, int64_t least) { return value >= least && value <= kMost; };
    if (d.in == 0 || !is_small(d.kernel, 1) || !is_small(d.stride, 1) || !is_small(d.padding, 0) ||
        !is_small(d.dilation, 1) || 2 * d.padding > d.dilation * (d.kernel - 1) + 1 || ceil_mode) {
      return false;
    }
    const int64_t room = d.in + 2 * d.padding - d.dilation * (d.kernel - 1) - 1;
    if (room < 0) {
      return false;
    }
    d.out = room / d.stride + 1;
  }
  return true;
}

/// A row of results from one row of elements: whole windows as they lie, those that hang over its ends one by one.
template <typename T>
void pool_row(const PoolLoops<T>& loops, const PoolRow& row, const T* x, const Direction& d, T least, T* y) {
  const int64_t reach = (d.kernel - 1) * d.dilation;
  const int64_t first = std::min((d.padding + d.stride - 1) / d.stride, d.out);
  const int64_t room = d.in + d.padding - reach - 1;
  const int64_t last = std::max(first, std::min(room < 0 ? 0 : room / d.stride + 1, d.out));
  const auto window_of = [&](int64_t i) {
    T largest = least;
    for (int64_t k = 0; k < d.kernel; ++k) {
      const int64_t at = i * d.stride - d.padding + k * d.dilation;
      if (at >= 0 && at < d.in) {
        largest = x[at] > largest || x[at] != x[at] ? x[at] : largest;
      }
    }
    return largest;
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

template <typename T>
Error pool(KernelContext& context, const Tensor& self, const Direction (&directions)[2], const Tensor& out) {
  constexpr T kLeast =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  const Direction& rows = directions[0];
  const Direction& columns = directions[1];
  const auto width = static_cast<size_t>(columns.in);
  const auto results = static_cast<size_t>(columns.out);
  const auto padded = static_cast<size_t>(std::max(columns.extent(), columns.padding + columns.in));
  const bool converts = std::is_same_v<T, float> && self.scalar_type() != ScalarType::Float;
  // A row of the largest, one as it was read, and one of results; for each task.
  const size_t per_task = (padded + width + results + 15) / 16 * 16;
  const auto planes = static_cast<size_t>(self.numel() / (rows.in * columns.in));
  const size_t threads = context.pool() == nullptr ? 1 : context.pool()->num_threads();
  const size_t tasks = threads == 1 ? 1 : std::min(planes, 4 * threads);
  ET_TRY(void* const memory, context.allocate_temp(tasks * per_task * sizeof(T)));
  const PoolLoops<T> loops = pool_loops<T>();
  const PoolRow row{results, static_cast<size_t>(columns.kernel), static_cast<size_t>(columns.stride),
                    static_cast<size_t>(columns.dilation)};
  threads::parallel_tasks(context.pool(), tasks, [&](size_t task) {
    T* const largest = static_cast<T*>(memory) + task * per_task;
    T* const read = largest + padded;
    T* const made = read + width;
    for (size_t plane = task * planes / tasks; plane < (task + 1) * planes / tasks; ++plane) {
      const auto* const from = static_cast<const char*>(self.const_data_ptr()) +
                               plane * static_cast<size_t>(rows.in) * width * self.element_size();
      auto* const to = static_cast<char*>(out.mutable_data_ptr()) +
                       plane * static_cast<size_t>(rows.out) * results * out.element_size();
      for (int64_t h = 0; h < rows.out; ++h) {
        const int64_t only = h * rows.stride - rows.padding;
        if (rows.kernel == 1 && !converts && only >= 0 && only < rows.in) {
          pool_row(loops, row, reinterpret_cast<const T*>(from) + static_cast<size_t>(only) * width, columns, kLeast,
                   reinterpret_cast<T*>(to) + static_cast<size_t>(h) * results);
          continue;
        }
        std::fill_n(largest, padded, kLeast);
        for (int64_t k = 0; k < rows.kernel; ++k) {
          const int64_t at = h * rows.stride - rows.padding + k * rows.dilation;
          if (at < 0 || at >= rows.in) {
            continue;
          }
          const char* const line = from + static_cast<size_t>(at) * width * self.element_size();
          const T* x = reinterpret_cast<const T*>(line);
          if constexpr (std::is_same_v<T, float>) {
            if (converts) {
              floats_from(self.scalar_type(), line, 1, width, read);
              x = read;
            }
          }
          loops.larger(x, largest + columns.padding, width);
        }
        char* const target = to + static_cast<size_t>(h) * results * out.element_size();
        loops.windows(largest, converts ? made : reinterpret_cast<T*>(target), row);
        if constexpr (std::is_same_v<T, float>) {
          if (converts) {
            floats_to(out.scalar_type(), made, results, target);
          }
        }
      }
    }
  });
  return Error::Ok;
}

Error max_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out) {
  Direction directions[2];
  if (self.numel() == 0 || !plan(self, kernel_size, stride, padding, dilation, ceil_mode, directions)) {
    return portable::max_pool2d_out(context, self, kernel_size, stride, padding, dilation, ceil_mode, out);
  }
  portable::Sizes sizes(self.sizes());
  sizes[self.dim() - 2] = directions[0].out;
  sizes[self.dim() - 1] = directions[1].out;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  switch (self.scalar_type()) {
    case ScalarType::Double: return pool<double>(context, self, directions, out);
    case ScalarType::Long: return pool<int64_t>(context, self, directions, out);
    default: return pool<float>(context, self, directions, out);
  }
}

/// max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode, out): row-major images of one dtype.
bool fits_images(Arguments args) {
  const Tensor self = args[0]->to_tensor();
  const Tensor out = args[6]->to_tensor();
  return out.scalar_type() == self.scalar_type() && (self.dim() == 3 || self.dim() == 4) && out.dim() == self.dim() &&
         is_row_major(*args[0]) && is_row_major(*args[6]);
}

bool fits_max_pool(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const bool is_taken = dtype == ScalarType::Half || dtype == ScalarType::BFloat16 || dtype == ScalarType::Double ||
                        dtype == ScalarType::Long;
  return is_taken && fits_images(args);
}

/// Lines of floats, which a library would turn to channels-last images first.
bool fits_lines(Arguments args) {
  const Tensor self = args[0]->to_tensor();
  const IntArrayRef kernel = args[1]->to_int_list();
  return self.scalar_type() == ScalarType::Float && !kernel.empty() && kernel[0] == 1 && fits_images(args) &&
         self.size(self.dim() - 2) == 1;
}

constexpr Kernel before_a_library(Kernel kernel) {
  kernel.priority = runtime::kPriorityLibrary + 1;
  return kernel;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&max_pool2d_out, &fits_max_pool>("et::max_pool2d.out"),
    before_a_library(make_fitting_kernel<&max_pool2d_out, &fits_lines>("et::max_pool2d.out")),
};

}  // namespace

ET_KERNEL_TABLE(max_pool, kKernels)

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
