// Pointwise operators that give bool: comparisons of tensors of one dtype with tensors and numbers, whether floats are
// infinite or not a number, and the logic of bool tensors.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>
#include <limits>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "ops/signatures/portable/op_compare.h"
#include "ops/signatures/portable/op_logical.h"
#include "ops/signatures/portable/op_mul.h"
#include "ops/signatures/portable/op_unary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// A bool is a byte: read as zero or not, written as 0 or 1.
#define ET_PREDICATE(NAME, TYPE, EXPRESSION)                                                                       \
  void NAME(const PointwiseBlock& block) {                                                                         \
    pair_elements<TYPE, uint8_t>([](TYPE a, TYPE b) HWY_ATTR { return static_cast<uint8_t>(EXPRESSION); }, block); \
  }
#define ET_COMPARISON(NAME, OPERATION)              \
  ET_PREDICATE(NAME##Float, float, a OPERATION b)   \
  ET_PREDICATE(NAME##Double, double, a OPERATION b) \
  ET_PREDICATE(NAME##Byte, uint8_t, a OPERATION b)  \
  ET_PREDICATE(NAME##Char, int8_t, a OPERATION b)   \
  ET_PREDICATE(NAME##Short, int16_t, a OPERATION b) \
  ET_PREDICATE(NAME##Int, int32_t, a OPERATION b)   \
  ET_PREDICATE(NAME##Long, int64_t, a OPERATION b)

ET_COMPARISON(Eq, ==)
ET_COMPARISON(Ne, !=)
ET_COMPARISON(Lt, <)
ET_COMPARISON(Le, <=)
ET_COMPARISON(Gt, >)
ET_COMPARISON(Ge, >=)
ET_PREDICATE(And, uint8_t, (a != 0) & (b != 0))
ET_PREDICATE(Or, uint8_t, (a != 0) | (b != 0))
ET_PREDICATE(Xor, uint8_t, (a != 0) ^ (b != 0))
#undef ET_COMPARISON
#undef ET_PREDICATE

void Not(const PointwiseBlock& block) {
  map_elements<uint8_t, uint8_t>([](uint8_t x) HWY_ATTR { return static_cast<uint8_t>(x == 0); }, block);
}

#define ET_CLASS(NAME, TYPE, EXPRESSION)                                                                  \
  void NAME(const PointwiseBlock& block) {                                                                \
    map_elements<TYPE, uint8_t>([](TYPE x) HWY_ATTR { return static_cast<uint8_t>(EXPRESSION); }, block); \
  }
ET_CLASS(IsInfFloat, float, std::fabs(x) == std::numeric_limits<float>::infinity())
ET_CLASS(IsInfDouble, double, std::fabs(x) == std::numeric_limits<double>::infinity())
ET_CLASS(IsNanFloat, float, x != x)
ET_CLASS(IsNanDouble, double, x != x)
#undef ET_CLASS

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

HWY_EXPORT(IsInfFloat);
HWY_EXPORT(IsInfDouble);
HWY_EXPORT(IsNanFloat);
HWY_EXPORT(IsNanDouble);

// One comparison: its name, and its loop for operands of a dtype (nullptr where there is none).
#define ET_COMPARISON(NAME, OPERATOR)                                       \
  HWY_EXPORT(NAME##Float);                                                  \
  HWY_EXPORT(NAME##Double);                                                 \
  HWY_EXPORT(NAME##Byte);                                                   \
  HWY_EXPORT(NAME##Char);                                                   \
  HWY_EXPORT(NAME##Short);                                                  \
  HWY_EXPORT(NAME##Int);                                                    \
  HWY_EXPORT(NAME##Long);                                                   \
  struct NAME##Operator {                                                   \
    static constexpr const char* kName = OPERATOR;                          \
    static BlockFunction loop(ScalarType dtype) {                           \
      switch (dtype) {                                                      \
        case ScalarType::Float:                                             \
        case ScalarType::Half:                                              \
        case ScalarType::BFloat16: return HWY_DYNAMIC_POINTER(NAME##Float); \
        case ScalarType::Double: return HWY_DYNAMIC_POINTER(NAME##Double);  \
        case ScalarType::Byte: return HWY_DYNAMIC_POINTER(NAME##Byte);      \
        case ScalarType::Char: return HWY_DYNAMIC_POINTER(NAME##Char);      \
        case ScalarType::Short: return HWY_DYNAMIC_POINTER(NAME##Short);    \
        case ScalarType::Int: return HWY_DYNAMIC_POINTER(NAME##Int);        \
        case ScalarType::Long: return HWY_DYNAMIC_POINTER(NAME##Long);      \
        default: return nullptr;                                            \
      }                                                                     \
    }                                                                       \
  };
#define ET_LOGIC(NAME, OPERATOR)                                                                          \
  HWY_EXPORT(NAME);                                                                                       \
  struct NAME##Operator {                                                                                 \
    static constexpr const char* kName = OPERATOR;                                                        \
    static BlockFunction loop(ScalarType dtype) {                                                         \
      return dtype == ScalarType::Bool ? HWY_DYNAMIC_POINTER(NAME) : static_cast<BlockFunction>(nullptr); \
    }                                                                                                     \
  };
namespace {
ET_COMPARISON(Eq, "aten::eq")
ET_COMPARISON(Ne, "aten::ne")
ET_COMPARISON(Lt, "aten::lt")
ET_COMPARISON(Le, "aten::le")
ET_COMPARISON(Gt, "aten::gt")
ET_COMPARISON(Ge, "aten::ge")
ET_LOGIC(And, "aten::logical_and")
ET_LOGIC(Or, "aten::logical_or")
ET_LOGIC(Xor, "aten::logical_xor")
ET_LOGIC(Not, "aten::logical_not")
#undef ET_COMPARISON
#undef ET_LOGIC

bool is_bool_tensor(const EValue& value) { return value.to_tensor().scalar_type() == ScalarType::Bool; }

// fn(self, other, out)
template <class Operator>
Error choose_pair(Arguments args, PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  operation->name = Operator::kName;
  operation->function = Operator::loop(dtype);
  if (operation->function == nullptr || args[1]->to_tensor().scalar_type() != dtype ||
      !is_bool_tensor(*args[args.size() - 1])) {
    return Error::NotSupported;
  }
  operation->converts = is_small_float(dtype);
  operation->add_tensor(args, 0);
  operation->add_tensor(args, 1);
  return Error::Ok;
}

// fn(self, Scalar other, out)
template <class Operator>
Error choose_with_number(Arguments args, PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  operation->name = Operator::kName;
  operation->function = Operator::loop(dtype);
  if (operation->function == nullptr || !is_bool_tensor(*args[args.size() - 1]) ||
      (is_integral(dtype, false) && !is_whole(*args[1]))) {
    return Error::NotSupported;
  }
  operation->converts = is_small_float(dtype);
  operation->add_tensor(args, 0);
  // The number is an element of the tensor's dtype first: rounded, or wrapped.
  alignas(8) char element[8] = {};
  const EValue& number = *args[1];
  portable::store_scalar(dtype, number.is_double() ? Scalar(number.to_double()) : Scalar(number.number_as_int()),
                         element);
  if (is_small_float(dtype)) {
    operation->add_number(portable::load_one<float>(dtype, element));
    return Error::Ok;
  }
  uint64_t bits;
  std::memcpy(&bits, element, sizeof(bits));
  operation->add_number(bits);
  operation->operands[operation->num_operands - 1].element_size = static_cast<uint8_t>(element_size(dtype));
  return Error::Ok;
}

// logical_not(self, out)
Error choose_not(Arguments args, PointwiseOperation* operation) {
  if (!is_bool_tensor(*args[0]) || !is_bool_tensor(*args[args.size() - 1])) {
    return Error::NotSupported;
  }
  operation->name = NotOperator::kName;
  operation->function = NotOperator::loop(ScalarType::Bool);
  operation->add_tensor(args, 0);
  return Error::Ok;
}

// fn(self, out); integers are neither, which integers.cpp knows.
struct IsInfOperator {
  static constexpr const char* kName = "aten::isinf";
  static BlockFunction of_floats() { return HWY_DYNAMIC_POINTER(IsInfFloat); }
  static BlockFunction of_doubles() { return HWY_DYNAMIC_POINTER(IsInfDouble); }
};
struct IsNanOperator {
  static constexpr const char* kName = "aten::isnan";
  static BlockFunction of_floats() { return HWY_DYNAMIC_POINTER(IsNanFloat); }
  static BlockFunction of_doubles() { return HWY_DYNAMIC_POINTER(IsNanDouble); }
};
template <class Operator>
Error choose_class(Arguments args, PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  if (!is_floating(dtype) || !is_bool_tensor(*args[args.size() - 1])) {
    return Error::NotSupported;
  }
  operation->name = Operator::kName;
  operation->function = dtype == ScalarType::Double ? Operator::of_doubles() : Operator::of_floats();
  operation->converts = is_small_float(dtype);
  operation->add_tensor(args, 0);
  return Error::Ok;
}

// Of bool tensors, the bitwise operators are the logical ones, and a product is the logical and.
constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_pair<AndOperator>>(signature::bitwise_and_tensor_out),
    make_pointwise_kernel<&choose_not>(signature::bitwise_not_out),
    make_pointwise_kernel<&choose_pair<OrOperator>>(signature::bitwise_or_tensor_out),
    make_pointwise_kernel<&choose_pair<XorOperator>>(signature::bitwise_xor_tensor_out),
    make_pointwise_kernel<&choose_pair<EqOperator>>(signature::eq_tensor_out),
    make_pointwise_kernel<&choose_with_number<EqOperator>>(signature::eq_scalar_out),
    make_pointwise_kernel<&choose_pair<GeOperator>>(signature::ge_tensor_out),
    make_pointwise_kernel<&choose_with_number<GeOperator>>(signature::ge_scalar_out),
    make_pointwise_kernel<&choose_pair<GtOperator>>(signature::gt_tensor_out),
    make_pointwise_kernel<&choose_with_number<GtOperator>>(signature::gt_scalar_out),
    make_pointwise_kernel<&choose_class<IsInfOperator>>(signature::isinf_out),
    make_pointwise_kernel<&choose_class<IsNanOperator>>(signature::isnan_out),
    make_pointwise_kernel<&choose_pair<LeOperator>>(signature::le_tensor_out),
    make_pointwise_kernel<&choose_with_number<LeOperator>>(signature::le_scalar_out),
    make_pointwise_kernel<&choose_pair<AndOperator>>(signature::logical_and_out),
    make_pointwise_kernel<&choose_not>(signature::logical_not_out),
    make_pointwise_kernel<&choose_pair<OrOperator>>(signature::logical_or_out),
    make_pointwise_kernel<&choose_pair<XorOperator>>(signature::logical_xor_out),
    make_pointwise_kernel<&choose_pair<LtOperator>>(signature::lt_tensor_out),
    make_pointwise_kernel<&choose_with_number<LtOperator>>(signature::lt_scalar_out),
    make_pointwise_kernel<&choose_pair<AndOperator>>(signature::mul_out),
    make_pointwise_kernel<&choose_pair<NeOperator>>(signature::ne_tensor_out),
    make_pointwise_kernel<&choose_with_number<NeOperator>>(signature::ne_scalar_out),
};
constexpr auto kTable = at_priority(kPriorityBools, kKernels);

}  // namespace

ET_KERNEL_TABLE(compare, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
