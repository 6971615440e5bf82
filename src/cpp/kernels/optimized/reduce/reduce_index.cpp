// Extremes with their positions along one dimension: max.dim, min.dim, argmax, argmin. Not a number is the extreme
// wherever it is; of equal elements the first counts.
//
// The tensor is seen as [outer, length, inner]. inner == 1: rows, in pieces that stay in the first cache; a piece is
// searched for its extreme and, when that is better than what came before, once more for the place. Otherwise `inner`
// columns side by side keep an extreme and a place each. Element types that a float holds exactly (16-bit floats, 8-
// and 16-bit integers, bool) are converted a piece at a time.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cstring>
#include <type_traits>

#include "base/rounding.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_REDUCE_INDEX_ONCE
#define ET_KERNELS_OPTIMIZED_REDUCE_INDEX_ONCE
namespace et::kernels::optimized::reduce {

/// Places of a piece of columns are counted in integers as wide as the elements.
template <class T>
using Place = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

/// Some rows of columns side by side: x[r * stride + c] for r < rows, c < count. `first`: the number of the first row;
/// with 0 the columns' states are set, else they go on.
template <class T>
struct Columns {
  const T* x;
  size_t rows, count, stride;
  size_t first;
  T* best;          // [count]
  Place<T>* place;  // [count]
};

}  // namespace et::kernels::optimized::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

template <bool kLargest, class T>
HWY_INLINE size_t extreme_at(const T* x, size_t n, T* value) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto better = [](auto v, auto m) HWY_ATTR {
    const auto chosen = kLargest ? hn::Gt(v, m) : hn::Lt(v, m);
    if constexpr (std::is_floating_point_v<T>) {
      return hn::IfThenElse(hn::Or(chosen, hn::IsNaN(v)), v, m);
    } else {
      return hn::IfThenElse(chosen, v, m);
    }
  };
  auto m0 = hn::Set(d, x[0]);
  auto m1 = m0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    m0 = better(hn::LoadU(d, x + i), m0);
    m1 = better(hn::LoadU(d, x + i + lanes), m1);
  }
  m0 = better(m1, m0);
  HWY_ALIGN T each[hn::MaxLanes(d)];
  hn::Store(m0, d, each);
  T m = each[0];
  const auto take = [&m](T v) { m = (kLargest ? v > m : v < m) || v != v ? v : m; };
  for (size_t k = 1; k < lanes; ++k) {
    take(each[k]);
  }
  for (; i < n; ++i) {
    take(x[i]);
  }
  *value = m;
  const auto wanted = hn::Set(d, m);
  const bool is_number = m == m;
  const auto matches = [&](auto v) HWY_ATTR {
    if constexpr (std::is_floating_point_v<T>) {
      return is_number ? hn::Eq(v, wanted) : hn::IsNaN(v);
    } else {
      return hn::Eq(v, wanted);
    }
  };
  for (i = 0; i + lanes <= n; i += lanes) {
    const auto found = matches(hn::LoadU(d, x + i));
    if (!hn::AllFalse(d, found)) {
      return i + hn::FindKnownFirstTrue(d, found);
    }
  }
  while (is_number ? x[i] != m : x[i] == x[i]) {  // it is among the last elements
    ++i;
  }
  return i;
}

template <bool kLargest, class T>
HWY_INLINE void extreme_columns(const Columns<T>& columns) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  for (size_t c = 0; c < columns.count; c += lanes) {
    const size_t left = HWY_MIN(lanes, columns.count - c);
    const auto row = [&](size_t i) HWY_ATTR {
      const T* const from = columns.x + i * columns.stride + c;
      return left == lanes ? hn::LoadU(d, from) : hn::LoadN(d, from, left);
    };
    auto m = columns.first == 0 ? row(0) : hn::LoadN(d, columns.best + c, left);
    auto place = columns.first == 0 ? hn::Zero(di) : hn::LoadN(di, columns.place + c, left);
    for (size_t i = columns.first == 0 ? 1 : 0; i < columns.rows; ++i) {
      const auto v = row(i);
      auto better = kLargest ? hn::Gt(v, m) : hn::Lt(v, m);
      if constexpr (std::is_floating_point_v<T>) {
        better = hn::Or(better, hn::AndNot(hn::IsNaN(m), hn::IsNaN(v)));
      }
      m = hn::IfThenElse(better, v, m);
      const auto here = hn::Set(di, static_cast<Place<T>>(columns.first + i));
      place = hn::IfThenElse(hn::RebindMask(di, better), here, place);
    }
    hn::StoreN(m, d, columns.best + c, left);
    hn::StoreN(place, di, columns.place + c, left);
  }
}

template <class T>
size_t ExtremeAt(bool largest, const T* x, size_t n, T* value) {
  return largest ? extreme_at<true>(x, n, value) : extreme_at<false>(x, n, value);
}
template <class T>
void ExtremeColumns(bool largest, const Columns<T>& columns) {
  largest ? extreme_columns<true>(columns) : extreme_columns<false>(columns);
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

namespace {

/// Elements of a row that are treated at a time, and columns and rows of a piece of columns.
constexpr size_t kRun = 1024;
constexpr size_t kColumns = 256;
constexpr size_t kRows = 16;

/// [outer, length, inner] and where the results go; `values` may be nullptr.
struct Search {
  ScalarType dtype;
  const char* data;
  size_t outer, length, inner;
  char* values;
  int64_t* indices;

  const char* element(size_t i) const { return data + i * element_size(dtype); }
};

/// Writes n values that are of the tensor's dtype, or floats that stand for them.
template <class T>
void write_values(const Search& s, size_t at, const T* from, size_t n) {
  char* const to = s.values + at * element_size(s.dtype);
  if constexpr (std::is_same_v<T, float>) {
    if (s.dtype != ScalarType::Float) {
      floats_to(s.dtype, from, n, to);
      return;
    }
  }
  std::memcpy(to, from, n * sizeof(T));
}

/// n elements as type T: where they are, or converted to `buffer`.
template <class T>
const T* elements(const Search& s, size_t at, size_t n, T* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    if (s.dtype != ScalarType::Float) {
      floats_from(s.dtype, s.element(at), 1, n, buffer);
      return buffer;
    }
  }
  static_cast<void>(n);
  return reinterpret_cast<const T*>(s.element(at));
}

template <class T>
void search_rows(const KernelContext& context, const Search& s, bool largest) {
  HWY_EXPORT_T(Row, ExtremeAt<T>);
  const auto row = HWY_DYNAMIC_POINTER_T(Row);
  threads::parallel_for(context, s.outer, threads::grain_for(s.length), [&](size_t begin, size_t end) {
    T buffer[kRun];
    for (size_t r = begin; r < end; ++r) {
      T best{};
      size_t place = 0;
      for (size_t start = 0; start < s.length && best == best; start += kRun) {
        const size_t n = s.length - start < kRun ? s.length - start : kRun;
        T value;
        const size_t at = row(largest, elements(s, r * s.length + start, n, buffer), n, &value);
        if (start == 0 || (largest ? value > best : value < best) || value != value) {
          best = value;
          place = start + at;
        }
      }
      s.indices[r] = static_cast<int64_t>(place);
      if (s.values != nullptr) {
        write_values(s, r, &best, 1);
      }
    }
  });
}

template <class T>
void search_columns(const KernelContext& context, const Search& s, bool largest) {
  HWY_EXPORT_T(OfColumns, ExtremeColumns<T>);
  const auto of_columns = HWY_DYNAMIC_POINTER_T(OfColumns);
  const size_t pieces = divide_up(s.inner, kColumns);
  const size_t width = s.inner < kColumns ? s.inner : kColumns;
  threads::parallel_for(context, s.outer * pieces, threads::grain_for(s.length * width), [&](size_t begin, size_t end) {
    T buffer[kRows * kColumns];
    T best[kColumns];
    Place<T> place[kColumns];
    for (size_t i = begin; i < end; ++i) {
      const size_t first = i % pieces * kColumns;
      const size_t count = s.inner - first < kColumns ? s.inner - first : kColumns;
      const size_t from = i / pieces * s.length * s.inner + first;
      for (size_t start = 0; start < s.length; start += kRows) {
        const size_t rows = s.length - start < kRows ? s.length - start : kRows;
        const size_t at = from + start * s.inner;
        Columns<T> columns{nullptr, rows, count, s.inner, start, best, place};
        if (sizeof(T) == element_size(s.dtype)) {
          columns.x = reinterpret_cast<const T*>(s.element(at));
        } else {
          for (size_t r = 0; r < rows; ++r) {
            elements(s, at + r * s.inner, count, buffer + r * kColumns);
          }
          columns.x = buffer;
          columns.stride = kColumns;
        }
        of_columns(largest, columns);
      }
      const size_t to = i / pieces * s.inner + first;
      for (size_t c = 0; c < count; ++c) {
        s.indices[to + c] = place[c];
      }
      if (s.values != nullptr) {
        write_values(s, to, best, count);
      }
    }
  });
}

template <class T>
void search(const KernelContext& context, const Search& s, bool largest) {
  if (s.inner == 1) {
    search_rows<T>(context, s, largest);
  } else {
    search_columns<T>(context, s, largest);
  }
}

Error pick(KernelContext& context, const char* op, const Tensor& self, std::optional<int64_t> dim, bool keepdim,
           bool largest, const Tensor* values, const Tensor& indices) {
  portable::Sizes sizes;
  Search s{self.scalar_type(), static_cast<const char*>(self.const_data_ptr()), 1, 1, 1, nullptr, nullptr};
  if (dim.has_value() && self.dim() > 0) {
    ET_RETURN_IF_ERROR(portable::normalize_dim(op, *dim, self.dim(), &*dim));
  }
  for (int64_t d = 0; d < self.dim(); ++d) {
    const auto extent = static_cast<size_t>(self.size(d));
    const bool reduced = !dim.has_value() || d == *dim;
    (reduced ? s.length : dim.has_value() && d > *dim ? s.inner : s.outer) *= extent;
    if (!reduced || keepdim) {
      sizes.push_back(reduced ? 1 : self.size(d));
    }
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, indices, sizes));
  if (values != nullptr) {
    ET_RETURN_IF_ERROR(resize_tensor(context, *values, sizes));
    s.values = static_cast<char*>(values->mutable_data_ptr());
  }
  if (s.outer == 0 || s.inner == 0) {
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN(s.length > 0, InvalidArgument, "%s: no elements to choose from", op);
  s.indices = indices.mutable_data_ptr<int64_t>();
  switch (s.dtype) {
    case ScalarType::Double: search<double>(context, s, largest); break;
    case ScalarType::Int: search<int32_t>(context, s, largest); break;
    case ScalarType::Long: search<int64_t>(context, s, largest); break;
    default: search<float>(context, s, largest); break;
  }
  return Error::Ok;
}

Error max_dim_max(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                  Tensor& indices) {
  return pick(context, "aten::max", self, dim, keepdim, true, &values, indices);
}

Error min_dim_min(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                  Tensor& indices) {
  return pick(context, "aten::min", self, dim, keepdim, false, &values, indices);
}

Error argmax_out(KernelContext& context, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  return pick(context, "aten::argmax", self, dim, keepdim, true, nullptr, out);
}

Error argmin_out(KernelContext& context, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  return pick(context, "aten::argmin", self, dim, keepdim, false, nullptr, out);
}

bool is_real(const EValue& value) {
  const ScalarType dtype = value.to_tensor().scalar_type();
  return dtype == ScalarType::Bool || is_number(dtype);
}

bool is_index(const EValue& value) {
  return value.to_tensor().scalar_type() == ScalarType::Long && is_row_major(value);
}

/// argmax(self, dim, keepdim, out)
bool fits_place(Arguments args) { return is_real(*args[0]) && is_row_major(*args[0]) && is_index(*args[3]); }

/// max(self, dim, keepdim, values, indices)
bool fits_both(Arguments args) {
  return is_real(*args[0]) && is_row_major(*args[0]) && is_row_major(*args[3]) && is_index(*args[4]) &&
         args[3]->to_tensor().scalar_type() == args[0]->to_tensor().scalar_type();
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&argmax_out, &fits_place>("aten::argmax.out"),
    make_fitting_kernel<&argmin_out, &fits_place>("aten::argmin.out"),
    make_fitting_kernel<&max_dim_max, &fits_both>("aten::max.dim_max"),
    make_fitting_kernel<&min_dim_min, &fits_both>("aten::min.dim_min"),
};

}  // namespace

ET_KERNEL_TABLE(reduce_index, kKernels)

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
