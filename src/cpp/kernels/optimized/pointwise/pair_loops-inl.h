// Loops of operators of two operands, made of a functor for each kind of elements and compiled once a target. Included
// inside the target's pass only.
//
//     struct Add { … V operator()(D d, V a, V b) const };     // of vectors
//     struct AddWhole { … T operator()(T a, T b) const };     // of single integers
//     PairLoops AddLoops() { return element_loops<AddWhole, std::make_unsigned>(number_loops<Add>()); }

#if defined(ET_KERNELS_OPTIMIZED_PAIR_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_PAIR_LOOPS_INL_H_
#undef ET_KERNELS_OPTIMIZED_PAIR_LOOPS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_PAIR_LOOPS_INL_H_
#endif

#include "kernels/optimized/pointwise/pair_operators.h"
#include "kernels/optimized/pointwise/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {

template <class T, class Fn>
void PairNumbers(const PointwiseBlock& block) {
  pair_numbers<T>(Fn(), block);
}
template <class T, class Fn>
void PairElements(const PointwiseBlock& block) {
  pair_elements<T, decltype(Fn()(T{}, T{}))>(Fn(), block);
}

template <class Fn>
PairLoops number_loops() {
  PairLoops loops;
  loops.floats = &PairNumbers<float, Fn>;
  loops.doubles = &PairNumbers<double, Fn>;
  return loops;
}

template <class T>
struct Itself {
  using type = T;
};
/// `others` with the loops of integers, which Fn sees as Element<T>::type: std::make_unsigned where both signs have the
/// same bits.
template <class Fn, template <class> class Element = Itself>
PairLoops element_loops(PairLoops others = {}) {
  others.chars = &PairElements<typename Element<int8_t>::type, Fn>;
  others.bytes = &PairElements<typename Element<uint8_t>::type, Fn>;
  others.shorts = &PairElements<typename Element<int16_t>::type, Fn>;
  others.ints = &PairElements<typename Element<int32_t>::type, Fn>;
  others.longs = &PairElements<typename Element<int64_t>::type, Fn>;
  return others;
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
