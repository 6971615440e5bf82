// Pointwise operators that give bool: comparisons of tensors of one dtype with tensors and numbers, whether floats are
// infinite or not a number, and the negation of bools.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>
#include <limits>

#include "kernels/optimized/pointwise/pair_loops-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_compare.h"
#include "ops/signatures/portable/op_logical.h"
#include "ops/signatures/portable/op_unary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

#define ET_COMPARISON(NAME, OPERATION)              \
  struct NAME {                                     \
    template <class T>                              \
    HWY_INLINE uint8_t operator()(T a, T b) const { \
      return static_cast<uint8_t>(a OPERATION b);   \
    }                                               \
  };                                                \
  PairLoops NAME##Loops() {                         \
    PairLoops loops = element_loops<NAME>();        \
    loops.floats = &PairElements<float, NAME>;      \
    loops.doubles = &PairElements<double, NAME>;    \
    return loops;                                   \
  }
ET_COMPARISON(Eq, ==)
ET_COMPARISON(Ne, !=)
ET_COMPARISON(Lt, <)
ET_COMPARISON(Le, <=)
ET_COMPARISON(Gt, >)
ET_COMPARISON(Ge, >=)
#undef ET_COMPARISON

#define ET_CLASS(NAME, EXPRESSION)                                                                  \
  template <class T>                                                                                \
  void NAME(const PointwiseBlock& block) {                                                          \
    map_elements<T, uint8_t>([](T x) HWY_ATTR { return static_cast<uint8_t>(EXPRESSION); }, block); \
  }
ET_CLASS(IsInf, std::fabs(x) == std::numeric_limits<T>::infinity())
ET_CLASS(IsNan, std::isnan(x))
ET_CLASS(Not, x == 0)
#undef ET_CLASS
NumberLoops IsInfLoops() { return {&IsInf<float>, &IsInf<double>}; }
NumberLoops IsNanLoops() { return {&IsNan<float>, &IsNan<double>}; }
BlockFunction NotLoops() { return &Not<uint8_t>; }

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

ET_PAIR_OPERATOR(Eq, "aten::eq", kCheap)
ET_PAIR_OPERATOR(Ne, "aten::ne", kCheap)
ET_PAIR_OPERATOR(Lt, "aten::lt", kCheap)
ET_PAIR_OPERATOR(Le, "aten::le", kCheap)
ET_PAIR_OPERATOR(Gt, "aten::gt", kCheap)
ET_PAIR_OPERATOR(Ge, "aten::ge", kCheap)
ET_PAIR_OPERATOR(IsInf, "aten::isinf", kCheap)
ET_PAIR_OPERATOR(IsNan, "aten::isnan", kCheap)
ET_PAIR_OPERATOR(Not, "aten::logical_not", kCheap)

namespace {

/// fn(self, …, out): bools by a loop of self's type; nullptr where there is none. Adds self.
Error choose_truth(Arguments args, const char* name, BlockFunction function, PointwiseOperation* operation) {
  operation->name = name;
  operation->function = function;
  operation->converts = is_small_float(args[0]->to_tensor().scalar_type());
  operation->add_tensor(args, 0);
  const bool gives_bools = args[args.size() - 1]->to_tensor().scalar_type() == ScalarType::Bool;
  return function != nullptr && gives_bools ? Error::Ok : Error::NotSupported;
}

// fn(self, other, out)
template <class Operator>
Error choose_comparison(Arguments args, PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  if (args[1]->to_tensor().scalar_type() != dtype) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(choose_truth(args, Operator::kName, Operator::loops().of(dtype), operation));
  operation->add_tensor(args, 1);
  return Error::Ok;
}

// fn(self, Scalar other, out)
template <class Operator>
Error choose_comparison_with_number(Arguments args, PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  if (is_integral(dtype, false) && !is_whole(*args[1])) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(choose_truth(args, Operator::kName, Operator::loops().of(dtype), operation));
  add_element(*args[1], dtype, operation);
  return Error::Ok;
}

// logical_not(self, out)
Error choose_not(Arguments args, PointwiseOperation* operation) {
  const bool is_bool = args[0]->to_tensor().scalar_type() == ScalarType::Bool;
  return choose_truth(args, NotOperator::kName, is_bool ? NotOperator::loops() : nullptr, operation);
}

// fn(self, out); integers are neither, which integers.cpp knows.
template <class Operator>
Error choose_class(Arguments args, PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const NumberLoops loops = Operator::loops();
  return choose_truth(args, Operator::kName,
                      dtype == ScalarType::Double ? loops.doubles
                      : is_up_to_float(dtype)     ? loops.floats
                                                  : nullptr,
                      operation);
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_not>(signature::bitwise_not_out),
    make_pointwise_kernel<&choose_comparison<EqOperator>>(signature::eq_tensor_out),
    make_pointwise_kernel<&choose_comparison_with_number<EqOperator>>(signature::eq_scalar_out),
    make_pointwise_kernel<&choose_comparison<GeOperator>>(signature::ge_tensor_out),
    make_pointwise_kernel<&choose_comparison_with_number<GeOperator>>(signature::ge_scalar_out),
    make_pointwise_kernel<&choose_comparison<GtOperator>>(signature::gt_tensor_out),
    make_pointwise_kernel<&choose_comparison_with_number<GtOperator>>(signature::gt_scalar_out),
    make_pointwise_kernel<&choose_class<IsInfOperator>>(signature::isinf_out),
    make_pointwise_kernel<&choose_class<IsNanOperator>>(signature::isnan_out),
    make_pointwise_kernel<&choose_comparison<LeOperator>>(signature::le_tensor_out),
    make_pointwise_kernel<&choose_comparison_with_number<LeOperator>>(signature::le_scalar_out),
    make_pointwise_kernel<&choose_not>(signature::logical_not_out),
    make_pointwise_kernel<&choose_comparison<LtOperator>>(signature::lt_tensor_out),
    make_pointwise_kernel<&choose_comparison_with_number<LtOperator>>(signature::lt_scalar_out),
    make_pointwise_kernel<&choose_comparison<NeOperator>>(signature::ne_tensor_out),
    make_pointwise_kernel<&choose_comparison_with_number<NeOperator>>(signature::ne_scalar_out),
};

}  // namespace

ET_KERNEL_TABLE(compare, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
