// Divisions that round and their remainders: div with a rounding mode, floor_divide, remainder, fmod, of floats,
// doubles and integers.
//
// The remainder of floats is exact: a - q b with q = trunc(a / b), which a fused multiply-add (or doubles) leaves
// unrounded while q is a whole number of floats. Larger quotients are computed one by one by the standard library.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>
#include <string_view>
#include <type_traits>

#include "kernels/optimized/pointwise/pair_loops-inl.h"
#include "kernels/optimized/vec/domains-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_div.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// a - q b, exact for whole q up to 2^23 (doubles: 2^52), with a / b in [q, q + 1) or rounded up to q.
template <class D, class V>
HWY_INLINE V rest_of(D d, V a, V b, V q) {
#if HWY_NATIVE_FMA
  return static_cast<void>(d), hn::NegMulAdd(q, b, a);
#else
  return in_doubles(d, [](auto, auto x, auto y, auto n) HWY_ATTR { return hn::Sub(x, hn::Mul(n, y)); }, a, b, q);
#endif
}

/// fmod(a, b), `quotient` being a / b.
template <class D, class V>
HWY_INLINE V remainder_to_zero(D d, V a, V b, V quotient) {
  using T = hn::TFromD<D>;
  const auto by_element = [](T x, T y) HWY_ATTR { return std::fmod(x, y); };
  const V x = hn::Abs(a), y = hn::Abs(b), t = hn::Abs(quotient);
  const auto is_number = hn::And(hn::Lt(x, hn::Inf(d)), hn::Gt(y, hn::Zero(d)));
#if !HWY_NATIVE_FMA
  if constexpr (sizeof(T) == sizeof(double)) {
    return repair_pair(d, a, b, hn::NaN(d), hn::Not(is_number), by_element);
  } else
#endif
  {
    constexpr T kExact = sizeof(T) == sizeof(double) ? T(0x1p52) : T(0x1p23);
    V rest = rest_of(d, x, y, hn::Trunc(t));
    rest = hn::IfThenElse(hn::Lt(rest, hn::Zero(d)), hn::Add(rest, y), rest);  // t was rounded up to a whole number
    rest = hn::CopySign(hn::IfThenElse(hn::Lt(x, y), x, rest), a);             // also where y is infinite
    rest = hn::IfThenElse(is_number, rest, hn::NaN(d));
    const auto valid = hn::Or(hn::Lt(t, hn::Set(d, kExact)), hn::Not(is_number));
    return HWY_LIKELY(hn::AllTrue(d, valid)) ? rest : repair_pair(d, a, b, rest, valid, by_element);
  }
}

/// True where a remainder is not zero and has not the sign of b.
template <class D, class V>
HWY_INLINE hn::Mask<D> has_other_sign(D d, V rest, V b) {
  const auto zero = hn::Zero(d);
  return hn::And(hn::Ne(rest, zero), hn::Xor(hn::Lt(rest, zero), hn::Lt(b, zero)));
}

struct Fmod {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return remainder_to_zero(d, a, b, hn::Div(a, b));
  }
};

struct Remainder {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const V rest = remainder_to_zero(d, a, b, hn::Div(a, b));
    return hn::IfThenElse(has_other_sign(d, rest, b), hn::Add(rest, b), rest);
  }
};

/// Source: Python's float floor division, which ATen follows; it rounds after each step.
template <class Round>
struct FloorQuotient {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const Round round;
    const V zero = hn::Zero(d), one = hn::Set(d, hn::TFromD<D>{1});
    const V ratio = hn::Div(a, b);
    const V rest = remainder_to_zero(d, a, b, ratio);
    V quotient = round(d, hn::Div(round(d, hn::Sub(a, rest)), b));
    quotient = hn::IfThenElse(has_other_sign(d, rest, b), round(d, hn::Sub(quotient, one)), quotient);
    V whole = hn::Floor(quotient);
    const auto is_short = hn::Gt(hn::Sub(quotient, whole), hn::Set(d, hn::TFromD<D>(0.5)));
    whole = hn::IfThenElse(is_short, round(d, hn::Add(whole, one)), whole);
    whole = hn::IfThenElse(hn::Eq(quotient, zero), hn::CopySign(zero, ratio), whole);
    return hn::IfThenElse(hn::Eq(b, zero), ratio, whole);
  }
};

template <class Round>
struct TruncQuotient {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return hn::Trunc(Round()(d, hn::Div(a, b)));
  }
};

/// a / b towards zero, for b other than 0; wraps. Floats of twice the bits hold the quotient of integers: one that is
/// not whole is further from the next whole number than it can be rounded.
template <class T>
HWY_INLINE T whole_quotient(T a, T b) {
  if constexpr (sizeof(T) <= 2) {
    return static_cast<T>(static_cast<int32_t>(static_cast<float>(a) / static_cast<float>(b)));
  } else if constexpr (sizeof(T) == 4) {
    const double quotient = static_cast<double>(a) / static_cast<double>(b);
    return static_cast<T>(quotient == 0x1p31 ? -0x1p31 : quotient);
  } else {
    return b == -1 ? static_cast<T>(-static_cast<uint64_t>(a)) : a / b;
  }
}
template <class T>
HWY_INLINE T whole_rest(T a, T b, T quotient) {
  using U = std::conditional_t<sizeof(T) == sizeof(uint64_t), uint64_t, uint32_t>;
  return static_cast<T>(static_cast<U>(a) - static_cast<U>(quotient) * static_cast<U>(b));
}
template <class T>
HWY_INLINE bool has_other_sign(T rest, T b) {
  return (rest != 0) & ((rest < 0) != (b < 0));
}

struct WholeTrunc {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return whole_quotient(a, b);
  }
};
struct WholeFloor {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    const T quotient = whole_quotient(a, b);
    return static_cast<T>(quotient - (has_other_sign(whole_rest(a, b, quotient), b) ? 1 : 0));
  }
};
struct WholeFmod {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return whole_rest(a, b, whole_quotient(a, b));
  }
};
struct WholeRemainder {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    const T rest = whole_rest(a, b, whole_quotient(a, b));
    return static_cast<T>(rest + (has_other_sign(rest, b) ? b : T{0}));
  }
};

template <template <class> class Quotient, class Integers>
PairLoops quotient_loops() {
  PairLoops loops = element_loops<Integers>(number_loops<Quotient<RoundNothing>>());
  loops.halves = &PairNumbers<float, Quotient<RoundHalf>>;
  loops.bfloats = &PairNumbers<float, Quotient<RoundBFloat16>>;
  return loops;
}

PairLoops FloorQuotientLoops() { return quotient_loops<FloorQuotient, WholeFloor>(); }
PairLoops TruncQuotientLoops() { return quotient_loops<TruncQuotient, WholeTrunc>(); }
PairLoops FmodLoops() { return element_loops<WholeFmod>(number_loops<Fmod>()); }
PairLoops RemainderLoops() { return element_loops<WholeRemainder>(number_loops<Remainder>()); }

template <class T>
HWY_INLINE bool any_zero(const void* data, size_t n) {
  constexpr size_t kPiece = 4096;
  const T* const elements = static_cast<const T*>(data);
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t end = HWY_MIN(n, begin + kPiece);
    T found = 0;
    for (size_t i = begin; i < end; ++i) {
      found = static_cast<T>(found | (elements[i] == 0 ? 1 : 0));
    }
    if (found != 0) {
      return true;
    }
  }
  return false;
}
/// Whether one of n integers of `size` bytes is zero.
bool AnyZero(const void* data, size_t n, size_t size) {
  switch (size) {
    case 1: return any_zero<uint8_t>(data, n);
    case 2: return any_zero<uint16_t>(data, n);
    case 4: return any_zero<uint32_t>(data, n);
    default: return any_zero<uint64_t>(data, n);
  }
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

ET_PAIR_OPERATOR(FloorQuotient, "aten::div", kDivides)
ET_PAIR_OPERATOR(TruncQuotient, "aten::div", kDivides)
ET_PAIR_OPERATOR(Fmod, "aten::fmod", kDivides)
ET_PAIR_OPERATOR(Remainder, "aten::remainder", kDivides)
HWY_EXPORT(AnyZero);

namespace {

// fn(self, other, …, out)
template <class Operator>
Error choose_division(Arguments args, PointwiseOperation* operation) {
  PairLoops loops = Operator::loops();
  if (args[1]->to_tensor().numel() == 1) {  // as ATen: a number
    loops.halves = loops.bfloats = nullptr;
  }
  operation->cost = Operator::kCost;
  return choose_pair_loop(args, Operator::kName, loops, operation);
}

// fn(self, Scalar other, …, out). A zero among integers is for the portable kernel, which reports it. Of 16-bit floats
// ATen takes the number as an element and rounds once, or (quotients) takes it as it is and does not round in between.
template <class Operator, bool kIsQuotient>
Error choose_division_by_number(Arguments args, PointwiseOperation* operation) {
  PairLoops loops = Operator::loops();
  loops.halves = loops.bfloats = nullptr;
  operation->cost = Operator::kCost;
  ET_RETURN_IF_ERROR(choose_number_loop(args, Operator::kName, loops, nullptr, !kIsQuotient, operation));
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const bool divides_by_zero =
      is_integral(dtype, true) && HWY_DYNAMIC_DISPATCH(AnyZero)(operation->operands[1].number, 1, element_size(dtype));
  return divides_by_zero ? Error::NotSupported : Error::Ok;
}

// div(self, other, str? rounding_mode, out), of tensors and of a number
template <ChooseOperation Floor, ChooseOperation Trunc>
Error choose_by_mode(Arguments args, PointwiseOperation* operation) {
  if (!args[2]->is_string()) {
    return Error::NotSupported;
  }
  const std::string_view mode = args[2]->to_string_view();
  return mode == "floor" ? Floor(args, operation) : mode == "trunc" ? Trunc(args, operation) : Error::NotSupported;
}

/// Refuses an integer division by zero before anything is written.
Error run_division(KernelContext& context, Arguments args, void* state, const char* op) {
  const Tensor divisor = args[1]->to_tensor();
  const bool is_whole = is_integral(args[args.size() - 1]->to_tensor().scalar_type(), true);
  const bool divides_by_zero =
      is_whole && HWY_DYNAMIC_DISPATCH(AnyZero)(divisor.const_data_ptr(), static_cast<size_t>(divisor.numel()),
                                                divisor.element_size());
  ET_CHECK_OR_RETURN(!divides_by_zero, InvalidArgument, "%s: integer division by zero", op);
  return run_pointwise(context, args, state);
}

template <class Operator, ChooseOperation Choose>
constexpr Kernel make_division_kernel(const Signature& signature) {
  Kernel kernel = make_pointwise_kernel<Choose>(signature);
  kernel.run = [](KernelContext& context, Arguments args, void* state) {
    return run_division(context, args, state, Operator::kName);
  };
  return kernel;
}

constexpr Kernel kKernels[] = {
    make_division_kernel<FloorQuotientOperator, &choose_by_mode<&choose_division<FloorQuotientOperator>,
                                                                &choose_division<TruncQuotientOperator>>>(
        signature::div_out_mode),
    make_pointwise_kernel<&choose_by_mode<&choose_division_by_number<FloorQuotientOperator, true>,
                                          &choose_division_by_number<TruncQuotientOperator, true>>>(
        signature::div_scalar_mode_out),
    make_division_kernel<FloorQuotientOperator, &choose_division<FloorQuotientOperator>>(signature::floor_divide_out),
    make_pointwise_kernel<&choose_division_by_number<FloorQuotientOperator, true>>(signature::floor_divide_scalar_out),
    make_division_kernel<FmodOperator, &choose_division<FmodOperator>>(signature::fmod_tensor_out),
    make_pointwise_kernel<&choose_division_by_number<FmodOperator, false>>(signature::fmod_scalar_out),
    make_division_kernel<RemainderOperator, &choose_division<RemainderOperator>>(signature::remainder_tensor_out),
    make_pointwise_kernel<&choose_division_by_number<RemainderOperator, false>>(signature::remainder_scalar_out),
};

}  // namespace

ET_KERNEL_TABLE(division, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
