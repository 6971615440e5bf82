// any and all of numbers and bools; and the extremes of bools, which are the same (reduction.h).

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "kernels/optimized/reduce/reduction.h"
#include "kernels/optimized/vec/element_bits.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// True for reductions that look for an element that is false.
inline bool finds_false(const ReductionJob& job) { return job.what == Reduction::kAll || job.what == Reduction::kMin; }

template <typename T>
void TruthRows(const ReductionJob& job, size_t begin, size_t end) {
  constexpr size_t kPiece = 512;  // looked at as a whole: vectors are faster than leaving early
  const T mask = bits_of_truth<T>(is_floating(job.self.scalar_type()));
  const bool find_false = finds_false(job);
  const size_t length = job.shape.length;
  const T* x = job.from<T>() + begin * length;
  uint8_t* const y = job.to<uint8_t>();
  for (size_t r = begin; r < end; ++r, x += length) {
    T found = 0;
    for (size_t at = 0; at < length && found == 0; at += kPiece) {
      const size_t stop = std::min(length, at + kPiece);
      for (size_t i = at; i < stop; ++i) {
        found = static_cast<T>(found | (find_false ? static_cast<T>((x[i] & mask) == 0) : (x[i] & mask)));
      }
    }
    y[r] = (found != 0) != find_false ? 1 : 0;
  }
}

template <typename T>
void TruthColumns(const ReductionJob& job, size_t first, size_t to, size_t columns) {
  const T mask = bits_of_truth<T>(is_floating(job.self.scalar_type()));
  const bool find_false = finds_false(job);
  const T* HWY_RESTRICT x = job.from<T>() + first;
  T found[kPieceColumns] = {};  // as wide as elements, so that nothing is narrowed in the loop
  for (size_t r = 0; r < job.shape.length; ++r, x += job.shape.inner) {
    for (size_t c = 0; c < columns; ++c) {
      found[c] = static_cast<T>(found[c] | (find_false ? static_cast<T>((x[c] & mask) == 0) : (x[c] & mask)));
    }
  }
  uint8_t* const y = job.to<uint8_t>() + to;
  for (size_t c = 0; c < columns; ++c) {
    y[c] = (found[c] != 0) != find_false ? 1 : 0;
  }
}

ReductionLoops LoopsOfTruth(size_t width) {
  return with_bits_type(width, [](auto bits) {
    using T = decltype(bits);
    return ReductionLoops{&TruthRows<T>, &TruthColumns<T>};
  });
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(LoopsOfTruth);

/// Results are bools; of bytes ATen makes bytes.
ReductionLoops loops_of_truth(Reduction what, ScalarType from, ScalarType to) {
  const bool is_truth = what == Reduction::kAny || what == Reduction::kAll;
  const bool is_extreme = what == Reduction::kMax || what == Reduction::kMin;
  const bool of_bools = from == ScalarType::Bool && to == from;
  const bool of_numbers = is_number(from) && (to == ScalarType::Bool || (from == ScalarType::Byte && to == from));
  const bool takes = is_truth ? of_bools || of_numbers : is_extreme && of_bools;
  return takes ? HWY_DYNAMIC_DISPATCH(LoopsOfTruth)(element_size(from)) : ReductionLoops();
}

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
