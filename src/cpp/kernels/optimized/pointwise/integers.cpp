// Functions of one number on tensors of bools and of integers up to 32 bits. Bools stay what they are; integers are
// computed in their own type, where they wrap, and the functions that round or replace numbers leave them as they are.
//
// int64 is what the plain kernels compute in.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_activation.h"
#include "ops/signatures/portable/op_clamp.h"
#include "ops/signatures/portable/op_ternary.h"
#include "ops/signatures/portable/op_unary.h"

#ifndef ET_KERNELS_OPTIMIZED_INTEGERS_ONCE
#define ET_KERNELS_OPTIMIZED_INTEGERS_ONCE
namespace et::kernels::optimized::pointwise {

/// Bounds of an integer type's range.
struct NumberLimits {
  int64_t low, high;
};

/// The loops of one element type; nullptr where there is none. The last ones give bools.
struct WholeLoops {
  BlockFunction abs, clamp, invert, negate, relu, same, sign;
  BlockFunction is_negative, is_never, is_zero;
};

}  // namespace et::kernels::optimized::pointwise
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// A bool is a byte that may hold anything.
void BoolSame(const PointwiseBlock& block) {
  map_elements<uint8_t, uint8_t>([](uint8_t x) HWY_ATTR { return static_cast<uint8_t>(x != 0); }, block);
}
void BoolFalse(const PointwiseBlock& block) {
  map_elements<uint8_t, uint8_t>([](uint8_t) HWY_ATTR { return uint8_t{0}; }, block);
}

template <class T>
struct Integers {
  using Bits = std::make_unsigned_t<T>;

  static HWY_INLINE T negated(T x) { return static_cast<T>(Bits{0} - static_cast<Bits>(x)); }

  static void abs(const PointwiseBlock& block) {
    map_elements<T, T>([](T x) HWY_ATTR { return x < T{0} ? negated(x) : x; }, block);
  }
  static void clamp(const PointwiseBlock& block) {
    const auto range = *static_cast<const NumberLimits*>(block.parameters);
    const auto low = static_cast<T>(range.low), high = static_cast<T>(range.high);
    map_elements<T, T>(
        [low, high](T x) HWY_ATTR {
          const T y = x < low ? low : x;
          return y < high ? y : high;
        },
        block);
  }
  static void invert(const PointwiseBlock& block) {
    map_elements<T, T>([](T x) HWY_ATTR { return static_cast<T>(~x); }, block);
  }
  static void negate(const PointwiseBlock& block) {
    map_elements<T, T>([](T x) HWY_ATTR { return negated(x); }, block);
  }
  static void relu(const PointwiseBlock& block) {
    map_elements<T, T>([](T x) HWY_ATTR { return x < T{0} ? T{0} : x; }, block);
  }
  static void same(const PointwiseBlock& block) {
    map_elements<T, T>([](T x) HWY_ATTR { return x; }, block);
  }
  static void sign(const PointwiseBlock& block) {
    map_elements<T, T>([](T x) HWY_ATTR { return static_cast<T>((x > T{0}) - (x < T{0})); }, block);
  }
  static void is_negative(const PointwiseBlock& block) {
    map_elements<T, uint8_t>([](T x) HWY_ATTR { return static_cast<uint8_t>(x < T{0}); }, block);
  }
  static void is_never(const PointwiseBlock& block) {
    map_elements<T, uint8_t>([](T) HWY_ATTR { return uint8_t{0}; }, block);
  }
  static void is_zero(const PointwiseBlock& block) {
    map_elements<T, uint8_t>([](T x) HWY_ATTR { return static_cast<uint8_t>(x == T{0}); }, block);
  }

  static WholeLoops loops() {
    return {&abs, &clamp, &invert, &negate, &relu, &same, &sign, &is_negative, &is_never, &is_zero};
  }
};

WholeLoops WholeLoopsOf(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte: return Integers<uint8_t>::loops();
    case ScalarType::Char: return Integers<int8_t>::loops();
    case ScalarType::Short: return Integers<int16_t>::loops();
    case ScalarType::Int: return Integers<int32_t>::loops();
    case ScalarType::Bool: {
      WholeLoops bools{};
      bools.same = bools.sign = &BoolSame;
      bools.is_negative = bools.is_never = &BoolFalse;
      return bools;
    }
    default: return {};
  }
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

HWY_EXPORT(WholeLoopsOf);

namespace {

using Loop = BlockFunction WholeLoops::*;

/// fn(self, …, out): one dim order; out of self's type, or of bools.
template <Loop kLoop, bool kGivesBools = false>
Error choose(Arguments args, PointwiseOperation* operation) {
  const EValue& out = *args[args.size() - 1];
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  operation->function = HWY_DYNAMIC_DISPATCH(WholeLoopsOf)(dtype).*kLoop;
  if (operation->function == nullptr || out.to_tensor().scalar_type() != (kGivesBools ? ScalarType::Bool : dtype) ||
      !same_dim_order(*args[0], out)) {
    return Error::NotSupported;
  }
  operation->add_tensor(args, 0);
  return Error::Ok;
}

template <class T>
constexpr NumberLimits range_of() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}
/// What an element can be. Other types: nothing.
NumberLimits range_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte: return range_of<uint8_t>();
    case ScalarType::Char: return range_of<int8_t>();
    case ScalarType::Short: return range_of<int16_t>();
    case ScalarType::Int: return range_of<int32_t>();
    default: return {0, -1};
  }
}

// clamp(self, Scalar? min, Scalar? max, out) and hardtanh(self, Scalar min_val, Scalar max_val, out). Bounds that no
// element can have are those of the type, unless every element would have to become one.
Error choose_clamp(Arguments args, PointwiseOperation* operation) {
  NumberLimits range = range_of(args[0]->to_tensor().scalar_type());
  const NumberLimits whole = range;
  for (const size_t i : {1, 2}) {
    const EValue& bound = *args[i];
    if (bound.is_none()) {
      continue;
    }
    const double number = bound.number_as_double();
    if (!(number >= -0x1p53 && number <= 0x1p53)) {
      return Error::NotSupported;
    }
    (i == 1 ? range.low : range.high) =
        static_cast<int64_t>(number);  // hardtanh cuts fractions off; clamp gives floats then
  }
  if (range.low > whole.high || range.high < whole.low) {
    return Error::NotSupported;
  }
  operation->set_parameters(NumberLimits{std::max(range.low, whole.low), std::min(range.high, whole.high)});
  return choose<&WholeLoops::clamp>(args, operation);
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose<&WholeLoops::abs>>(signature::abs_out),
    make_pointwise_kernel<&choose<&WholeLoops::invert>>(signature::bitwise_not_out),
    make_pointwise_kernel<&choose<&WholeLoops::same>>(signature::ceil_out),
    make_pointwise_kernel<&choose_clamp>(signature::clamp_out),
    make_pointwise_kernel<&choose<&WholeLoops::same>>(signature::floor_out),
    make_pointwise_kernel<&choose_clamp>(signature::hardtanh_out),
    make_pointwise_kernel<&choose<&WholeLoops::is_never, true>>(signature::isinf_out),
    make_pointwise_kernel<&choose<&WholeLoops::is_never, true>>(signature::isnan_out),
    make_pointwise_kernel<&choose<&WholeLoops::is_zero, true>>(signature::logical_not_out),
    make_pointwise_kernel<&choose<&WholeLoops::same>>(signature::nan_to_num_out),
    make_pointwise_kernel<&choose<&WholeLoops::negate>>(signature::neg_out),
    make_pointwise_kernel<&choose<&WholeLoops::relu>>(signature::relu_out),
    make_pointwise_kernel<&choose<&WholeLoops::same>>(signature::round_out),
    make_pointwise_kernel<&choose<&WholeLoops::sign>>(signature::sign_out),
    make_pointwise_kernel<&choose<&WholeLoops::is_negative, true>>(signature::signbit_out),
    make_pointwise_kernel<&choose<&WholeLoops::same>>(signature::trunc_out),
};
constexpr auto kTable = at_priority(kPriorityIntegers, kKernels);

}  // namespace

ET_KERNEL_TABLE(integers, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
