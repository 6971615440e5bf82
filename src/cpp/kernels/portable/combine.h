#pragma once

/// How several elements that meet in one place become one: the reductions that ATen names by a string, for
/// scatter_reduce, index_reduce and segment_reduce. Not for reductions over dims, which `reduce.h` does.
///
///     Reduce how = Reduce::kSum;
///     ET_RETURN_IF_ERROR(parse_reduce("aten::scatter_reduce", text, &how));
///     sum = combine(how, sum, value);  // from neutral<float>(how)

#include <limits>
#include <string_view>

#include "kernels/portable/arithmetic.h"
#include "runtime/kernel.h"

namespace et::kernels::portable {

enum class Reduce { kSum, kProd, kMean, kMax, kMin };

/// The reduction that a string names; `add` and `multiply`, `max` and `min` are the names of older operators.
inline Error parse_reduce(const char* op, std::string_view text, Reduce* reduce) {
  struct Name {
    std::string_view text;
    Reduce reduce;
  };
  constexpr Name kNames[] = {{"sum", Reduce::kSum},       {"add", Reduce::kSum},   {"prod", Reduce::kProd},
                             {"multiply", Reduce::kProd}, {"mean", Reduce::kMean}, {"amax", Reduce::kMax},
                             {"max", Reduce::kMax},       {"amin", Reduce::kMin},  {"min", Reduce::kMin}};
  for (const Name& name : kNames) {
    if (name.text == text) {
      *reduce = name.reduce;
      return Error::Ok;
    }
  }
  ET_CHECK_OR_RETURN(false, InvalidArgument, "%s: reduce is '%.*s', not sum, prod, mean, amax or amin", op,
                     static_cast<int>(text.size()), text.data());
}

/// Two elements as one; of a mean this is the sum, which the caller divides.
template <typename C>
C combine(Reduce reduce, C a, C b) {
  switch (reduce) {
    case Reduce::kProd: return wrapping_mul(a, b);
    case Reduce::kMax: return maximum(a, b);
    case Reduce::kMin: return minimum(a, b);
    default: return wrapping_add(a, b);
  }
}

/// What changes nothing when it is combined.
template <typename C>
C neutral(Reduce reduce) {
  using Limits = std::numeric_limits<C>;
  switch (reduce) {
    case Reduce::kProd: return C(1);
    case Reduce::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Reduce::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default: return C(0);
  }
}

}  // namespace et::kernels::portable
