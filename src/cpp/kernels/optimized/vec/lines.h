/// A walk over the lines of a dense tensor along one dimension, which threads share.
///
/// For: kernels whose output has the shape of their input, a line of which depends on nothing else (softmax, and what
///      it passes back). Not for: reductions (reduction_shape.h).
///
///     for_each_line(context, self, dim, 8, [&](size_t first, size_t rows, size_t n) { … },
///                   [&](size_t first, size_t columns, size_t n, size_t stride) { … });
#pragma once

#include <algorithm>

#include "base/rounding.h"
#include "runtime/kernel_types.h"
#include "threads/parallel.h"

namespace et::kernels::optimized {

/// Columns that are treated at a time, so that threads can share one wide block and rows stay in the cache.
inline constexpr size_t kLineColumns = 64;

/// Calls rows(first, count, n) for `count` lines along `dim` at a time where their n elements lie side by side, from
/// element `first` of the tensor's memory on. Calls columns(first, columns, n, stride) for pieces of at most
/// kLineColumns lines side by side where the elements are `stride` apart. `tensor` has elements; `dim` is 0 for one
/// without dimensions; `cost`: of an element, next to a copy.
template <typename Rows, typename Columns>
void for_each_line(KernelContext& context, const Tensor& tensor, int64_t dim, size_t cost, const Rows& rows,
                   const Columns& columns) {
  const auto n = static_cast<size_t>(tensor.dim() == 0 ? 1 : tensor.size(dim));
  const auto inner = static_cast<size_t>(tensor.dim() == 0 ? 1 : tensor.stride(dim));
  const size_t outer = static_cast<size_t>(tensor.numel()) / (n * inner);
  if (inner == 1) {
    threads::parallel_for(context, outer, threads::grain_for(cost * n),
                          [&](size_t begin, size_t end) { rows(begin * n, end - begin, n); });
    return;
  }
  const size_t pieces = divide_up(inner, kLineColumns);
  threads::parallel_for(context, outer * pieces, threads::grain_for(cost * n * kLineColumns),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end && !context.cancelled(); ++i) {
                            const size_t first = i % pieces * kLineColumns;
                            columns(i / pieces * n * inner + first, std::min(kLineColumns, inner - first), n, inner);
                          }
                        });
}

}  // namespace et::kernels::optimized
