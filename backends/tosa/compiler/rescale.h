/// RESCALE: how a factor between two scales becomes a multiplier and a shift, for the whole backend.
///
/// For: emit_*.cpp. RESCALE computes (value * multiplier + 2^(shift - 1)) >> shift, which rounds half up; the kernels
/// compute float32(value) * factor and round half to even. Both are steps that rise with the value, so they are the
/// same where they rise at the same values. There are at most 255 such values for 8 bits, and each says between which
/// multipliers the right one lies (docs/how-to/backends_tosa.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace et::backends::tosa::compiler {

/// multiplier / 2^shift. The multiplier has 31 bits, the shift is between 2 and 62.
struct Rescale {
  int32_t multiplier = 0;
  int8_t shift = 0;
  bool is_exact = true;  ///< false: one step beside the kernels' result for some value
};

/// The multiplier that is next to the factor; nothing when none is: factors that are not positive, from 2^29 on, and
/// below 2^-32.
std::optional<Rescale> nearest_rescale(double factor);

/// What is rounded: values with |value| <= largest, times `factor`, to integers between low and high (both included).
struct Rounding {
  float factor = 1;
  int64_t low = -128;
  int64_t high = 127;
  int64_t largest = INT32_MAX;
};
/// The multiplier with which RESCALE gives what kernels give for each value, next to the factor where there are
/// several. Kernels multiply in float32, whose rounding moves some steps by one value in 2^24; where no multiplier
/// follows all of them, those next to 0 come first and is_exact is false. Nothing as for nearest_rescale.
std::optional<Rescale> matching_rescale(const Rounding& rounding);

/// The factor itself, which kernels multiply results of 16 bits by (numerics/exact_factor.h). Nothing where RESCALE has
/// no such shift.
std::optional<Rescale> exact_rescale(float factor);
/// The largest magnitude that RESCALE multiplies by it. Products of larger ones have more bits than it takes, and those
/// of this one are far beyond 16 bits already.
int64_t reach_of(const Rescale& rescale);

/// (x * a + y * b) / 2^shift, rounded half up: a sum of integers of 8 bits as kernels have it, whose factors have 21
/// bits (kernels/quantized/fixed_point_sum.h). b is negative where y is taken away.
struct FixedPoint {
  int32_t a = 0, b = 0;
  int shift = 0;
};
/// Integers, both ends included.
struct Interval {
  int64_t low = -128, high = 127;
};
/// The same sum as a RESCALE of each operand, which only multiplies it, and one of their sum.
struct SumRescales {
  int32_t a = 0, b = 0;
  Rescale back;
};
/// Factors of 15 bits and the RESCALE that gives the kernels' integers with them for every x and y; nothing where none
/// was found. Ethos-U55 and U65 add in one operator with such factors, and in five with wider ones.
std::optional<SumRescales> matching_sum(const FixedPoint& sum, const Interval& x, const Interval& y,
                                        const Interval& result);

/// What kernels give (docs/reference/numerics.md), within low and high.
int64_t rounded(const Rounding& rounding, int64_t value);
/// What RESCALE gives for zero points of 0, before its result is saturated.
int64_t rescaled(const Rescale& rescale, int64_t value);

}  // namespace et::backends::tosa::compiler
