/// Rows of a matrix that a loop reads number by number, all at the same place.
///
/// For: tiles of products, whose many rows would take a pointer each. Not for: fewer rows than four.
///
///     RowPointers<float, 12> x(first, step);
///     for (size_t k = 0; k < depth; ++k, x.advance(1)) { … *x(i) … }
#pragma once

#include <cstddef>

namespace et::kernels::optimized {

/// Keeps a pointer to each third of kRows rows, `step` numbers apart: an address of x86 has room for one step or two.
/// Of as many pointers as rows GCC keeps some in vectors, and fetches them with the units that multiply (12 rows of
/// floats: 71 and 83 thousand million multiplications a second, Intel Xeon).
template <class T, size_t kRows>
class RowPointers {
 public:
  RowPointers(const T* first, size_t step) : step_(step) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kPointers; ++i) {
      at_[i] = first + 3 * i * step;
    }
  }
  const T* operator()(size_t row) const { return at_[row / 3] + row % 3 * step_; }
  void advance(size_t numbers) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kPointers; ++i) {
      at_[i] += numbers;
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
      asm("" : "+r"(at_[i]));  // NOLINT(hicpp-no-assembler): so that no pointers of other rows are made of it
#endif
    }
  }

 private:
  static constexpr size_t kPointers = (kRows + 2) / 3;
  const T* at_[kPointers];
  size_t step_;
};

}  // namespace et::kernels::optimized
