/// Rows of a matrix that a loop reads number by number, all at the same place.
///
/// For: tiles of products, whose many rows would take a pointer each.
/// Not for: rows that are not equally far apart.
///
///     RowPointers<float, 12> x(first, step);
///     for (size_t k = 0; k < depth; ++k, x.advance(1)) { … *x(i) … }
#pragma once

#include <cstddef>

#include "base/rounding.h"

namespace et::kernels::optimized {

/// kRows rows, `step` numbers apart. Of more than eight it keeps a pointer to each third one: an address of x86 has
/// room for one step or two. Of as many pointers as rows GCC keeps some in vectors, and fetches them with the units
/// that multiply (12 rows of floats: 71 and 83 thousand million multiplications a second, Intel Xeon). Fewer rows have
/// pointers enough, and are 1 to 2 % slower by thirds.
template <class T, size_t kRows>
class RowPointers {
 public:
  RowPointers(const T* first, size_t step) : step_(step) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kPointers; ++i) {
      at_[i] = first + kOfAPointer * i * step;
    }
  }
  const T* operator()(size_t row) const { return at_[row / kOfAPointer] + row % kOfAPointer * step_ + offset_; }
  void advance(size_t numbers) {
    if constexpr (kPointers == 1) {
      offset_ += numbers;
      return;
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < kPointers; ++i) {
      at_[i] += numbers;
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
      asm("" : "+r"(at_[i]));  // NOLINT(hicpp-no-assembler): so that no pointers of other rows are made of it
#endif
    }
  }

 private:
  static constexpr size_t kOfAPointer = kRows > 8 ? 3 : kRows;
  static constexpr size_t kPointers = divide_up(kRows, kOfAPointer);
  const T* at_[kPointers];
  size_t step_, offset_ = 0;
};

}  // namespace et::kernels::optimized
