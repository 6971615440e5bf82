/// Sorting elements together with where they came from.
///
/// For: sorting and its relatives (op_sort.cpp, op_unique.cpp), on elements copied into temporary memory.
#pragma once

#include <cstdint>

#include "kernels/portable/arithmetic.h"
#include "runtime/kernel.h"

namespace et::kernels::portable {

template <typename C>
struct Item {
  C value;
  int64_t index;
};

/// NaN counts as the largest value.
template <typename C>
bool sorts_before(C a, C b) {
  return is_nan(b) ? !is_nan(a) : a < b;
}

/// Merge sort: stable, without recursion and in time n log n whatever the input. `other` is scratch of the same length;
/// before(a, b): a comes in front of b. False when the caller asked to stop; the items must not be used then.
template <typename T, typename Before>
bool merge_sort(const runtime::KernelContext& context, T* items, T* other, int64_t n, const Before& before) {
  constexpr int64_t kLook = 4096;  // items between two looks

  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t start = 0; start < n; start += 2 * width) {
      const int64_t middle = start + width < n ? start + width : n;
      const int64_t end = start + 2 * width < n ? start + 2 * width : n;
      int64_t a = start;
      int64_t b = middle;
      for (int64_t i = start; i < end; ++i) {
        if (i % kLook == 0 && context.cancelled()) {
          return false;
        }
        other[i] = b < end && (a == middle || before(items[b], items[a])) ? items[b++] : items[a++];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      items[i] = other[i];
    }
  }
  return true;
}

/// merge_sort by value.
template <typename C>
bool sort_items(const runtime::KernelContext& context, Item<C>* items, Item<C>* other, int64_t n,
                bool descending = false) {
  return merge_sort(context, items, other, n, [descending](const Item<C>& a, const Item<C>& b) {
    return descending ? sorts_before(b.value, a.value) : sorts_before(a.value, b.value);
  });
}

}  // namespace et::kernels::portable
