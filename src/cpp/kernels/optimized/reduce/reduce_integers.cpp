// Sums and products of integers into int64, and their extremes (reduction.h). Loops are plain: integers may be combined
// in any order, so the compiler makes vectors of them for each instruction set.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <limits>

#include "kernels/optimized/reduce/reduction.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// Sums and products are taken unsigned, so that they wrap.
template <typename T>
struct WrappingSum {
  using Total = uint64_t;
  static constexpr Total kFirst = 0;
  static Total combine(Total a, Total b) { return a + b; }
};
template <typename T>
struct WrappingProd {
  using Total = uint64_t;
  static constexpr Total kFirst = 1;
  static Total combine(Total a, Total b) { return a * b; }
};
template <typename T>
struct Largest {
  using Total = T;
  static constexpr Total kFirst = std::numeric_limits<T>::lowest();
  static Total combine(Total a, Total b) { return a > b ? a : b; }
};
template <typename T>
struct Least {
  using Total = T;
  static constexpr Total kFirst = std::numeric_limits<T>::max();
  static Total combine(Total a, Total b) { return a < b ? a : b; }
};

template <class Op, typename T>
void IntegerRows(const ReductionJob& job, size_t begin, size_t end) {
  using Total = typename Op::Total;
  const size_t n = job.shape.length;
  const T* x = job.from<T>() + begin * n;
  for (size_t r = begin; r < end; ++r, x += n) {
    Total total = Op::kFirst;
    for (size_t i = 0; i < n; ++i) {
      total = Op::combine(total, static_cast<Total>(x[i]));
    }
    job.to<Total>()[r] = total;
  }
}

template <class Op, typename T>
void IntegerColumns(const ReductionJob& job, size_t first, size_t to, size_t columns) {
  using Total = typename Op::Total;
  const T* HWY_RESTRICT x = job.from<T>() + first;
  Total* const HWY_RESTRICT y = job.to<Total>() + to;
  std::fill(y, y + columns, Op::kFirst);
  for (size_t r = 0; r < job.shape.length; ++r, x += job.shape.inner) {
    for (size_t c = 0; c < columns; ++c) {
      y[c] = Op::combine(y[c], static_cast<Total>(x[c]));
    }
  }
}

template <template <typename> class Op>
ReductionLoops loops_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
    case ScalarType::Byte: return {&IntegerRows<Op<uint8_t>, uint8_t>, &IntegerColumns<Op<uint8_t>, uint8_t>};
    case ScalarType::Char: return {&IntegerRows<Op<int8_t>, int8_t>, &IntegerColumns<Op<int8_t>, int8_t>};
    case ScalarType::Short: return {&IntegerRows<Op<int16_t>, int16_t>, &IntegerColumns<Op<int16_t>, int16_t>};
    case ScalarType::Int: return {&IntegerRows<Op<int32_t>, int32_t>, &IntegerColumns<Op<int32_t>, int32_t>};
    case ScalarType::Long: return {&IntegerRows<Op<int64_t>, int64_t>, &IntegerColumns<Op<int64_t>, int64_t>};
    default: return {};
  }
}

ReductionLoops LoopsOfIntegers(Reduction what, ScalarType dtype) {
  switch (what) {
    case Reduction::kSum: return loops_of<WrappingSum>(dtype);
    case Reduction::kProd: return loops_of<WrappingProd>(dtype);
    case Reduction::kMax: return loops_of<Largest>(dtype);
    case Reduction::kMin: return loops_of<Least>(dtype);
    default: return {};
  }
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(LoopsOfIntegers);

/// Totals are int64, extremes of the element's own type; those of bools are truths.
ReductionLoops loops_of_integers(Reduction what, ScalarType from, ScalarType to) {
  const bool is_total = what == Reduction::kSum || what == Reduction::kProd;
  const bool takes = is_total ? to == ScalarType::Long : to == from && from != ScalarType::Bool;
  return takes ? HWY_DYNAMIC_DISPATCH(LoopsOfIntegers)(what, from) : ReductionLoops();
}

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
