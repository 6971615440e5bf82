/// Operators of two operands, tensors or a tensor and a number: which loop computes them, and in which element type.
///
/// For: binary.cpp, compare.cpp, division.cpp, pairs.cpp. Such an operator is a struct with its name, the cost of an
/// element, and its loops, which are the target's AddLoops():
///
///     ET_PAIR_OPERATOR(Add, "aten::add", kCheap)
///     make_pointwise_kernel<&choose_pair<AddOperator>>(signature::add_out)
///
/// pair_loops-inl.h makes loops of functors.
#pragma once

#include <optional>

#include "kernels/optimized/pointwise/pointwise.h"
#include "ops/signatures/portable/op_add_sub.h"

namespace et::kernels::optimized::pointwise {

/// An operator's loops by element type; nullptr where there is none. Floats of 16 bits have `floats` unless the
/// operator rounds in between, where ATen does.
struct PairLoops {
  BlockFunction floats = nullptr, doubles = nullptr;
  BlockFunction chars = nullptr, bytes = nullptr, shorts = nullptr, ints = nullptr, longs = nullptr;
  BlockFunction halves = nullptr, bfloats = nullptr, bools = nullptr;

  BlockFunction of(ScalarType dtype) const {
    switch (dtype) {
      case ScalarType::Float: return floats;
      case ScalarType::Half: return halves != nullptr ? halves : floats;
      case ScalarType::BFloat16: return bfloats != nullptr ? bfloats : floats;
      case ScalarType::Double: return doubles;
      case ScalarType::Char: return chars;
      case ScalarType::Byte: return bytes;
      case ScalarType::Short: return shorts;
      case ScalarType::Int: return ints;
      case ScalarType::Long: return longs;
      case ScalarType::Bool: return bools;
      default: return nullptr;
    }
  }
};

#define ET_PAIR_OPERATOR(NAME, OPERATOR, COST)                          \
  HWY_EXPORT(NAME##Loops);                                              \
  namespace {                                                           \
  struct NAME##Operator {                                               \
    static constexpr const char* kName = OPERATOR;                      \
    static constexpr size_t kCost = COST;                               \
    static auto loops() { return HWY_DYNAMIC_DISPATCH(NAME##Loops)(); } \
  };                                                                    \
  }

/// The dtype that self, other and out all have; nothing when they differ, which is a matter of promotion.
inline std::optional<ScalarType> one_dtype(const EValue& self, const EValue& other, const EValue& out) {
  const ScalarType dtype = out.to_tensor().scalar_type();
  const bool same = self.to_tensor().scalar_type() == dtype && other.to_tensor().scalar_type() == dtype;
  return same ? std::optional<ScalarType>(dtype) : std::nullopt;
}

/// A Scalar argument as the next operand, an element of `dtype`; `times` a whole number where dtype is one of integers.
/// A float of 16 bits is rounded as an element unless the operator takes the number as it is. False for a number that
/// would change the dtype.
bool add_scalar(const EValue& value, const EValue* times, ScalarType dtype, bool rounds, PointwiseOperation* operation);

/// A Scalar argument as the next operand, an element of `dtype` as ATen casts it: rounded, or wrapped. As the float
/// that this is where the operation converts its operands.
void add_element(const EValue& value, ScalarType dtype, PointwiseOperation* operation);

/// True for operands of other types than the output's, which is float, that are taken in float: 16-bit floats, integers
/// beside a floating operand, bools.
bool meet_in_float(const EValue& self, const EValue& other, const EValue& out);
/// True for integers or bools whose result is a float.
bool become_floats(const EValue& self, const EValue& other, const EValue& out);

/// fn(self, other, …, out) by these loops. Errors: NotSupported for types that they are not for.
Error choose_pair_loop(Arguments args, const char* name, const PairLoops& loops, PointwiseOperation* operation);

// fn(self, other, [alpha,] out)
template <class Operator>
Error choose_pair(Arguments args, PointwiseOperation* operation) {
  operation->cost = Operator::kCost;
  return choose_pair_loop(args, Operator::kName, Operator::loops(), operation);
}

// fn(self, other, out) of floats, which integers become: atan2 and its like.
template <class Operator>
Error choose_float_pair(Arguments args, PointwiseOperation* operation) {
  if (become_floats(*args[0], *args[1], *args[args.size() - 1])) {
    operation->name = Operator::kName;
    operation->cost = Operator::kCost;
    operation->function = Operator::loops().floats;
    operation->converts = true;
    operation->add_tensor(args, 0);
    operation->add_tensor(args, 1);
    return Error::Ok;
  }
  return choose_pair<Operator>(args, operation);
}

/// fn(self, Scalar other, [Scalar alpha,] …, out): the number, times alpha, as an operand of self's dtype.
/// `rounds`: as an element of 16 bits where self has those.
Error choose_number_loop(Arguments args, const char* name, const PairLoops& loops, const EValue* alpha, bool rounds,
                         PointwiseOperation* operation);

// fn(self, Scalar other, [Scalar alpha,] out). Sums take the number as an element, products and quotients as it is, as
// ATen does.
template <class Operator, bool kScaled>
Error choose_with_number(Arguments args, PointwiseOperation* operation) {
  return choose_number_loop(args, Operator::kName, Operator::loops(), kScaled ? args[2] : nullptr, kScaled, operation);
}

}  // namespace et::kernels::optimized::pointwise
