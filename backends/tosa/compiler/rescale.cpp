#include "backends/tosa/compiler/rescale.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "numerics/exact_factor.h"
#include "numerics/rounding.h"

namespace et::backends::tosa::compiler {
namespace {

constexpr int kMinShift = 2, kMaxShift = 62;

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

/// The least value in [-largest, largest] that is rounded to at least `unit`; largest + 1 when none is.
int64_t first_at(const Rounding& r, int64_t unit) {
  int64_t below = -r.largest - 1, at = r.largest + 1;  // below is too small, `at` is enough
  const double guess = (static_cast<double>(unit) - 0.5) / static_cast<double>(r.factor);
  constexpr double kNear = 1024;
  if (std::abs(guess) < static_cast<double>(r.largest) - kNear) {
    const auto near = static_cast<int64_t>(guess);
    const auto slack = static_cast<int64_t>(kNear);
    if (rounded(r, near - slack) < unit && rounded(r, near + slack) >= unit) {
      below = near - slack;
      at = near + slack;
    }
  }
  while (at - below > 1) {
    const int64_t middle = below + (at - below) / 2;
    (rounded(r, middle) >= unit ? at : below) = middle;
  }
  return at;
}

/// Multipliers, both ends included.
struct Range {
  int64_t low = 1, high = INT32_MAX;

  /// Keeps those for which value * multiplier >= bound; false where none is left, and then keeps what there was.
  bool at_least(int64_t value, int64_t bound) {
    Range kept = *this;
    if (value > 0) {
      kept.low = std::max(low, ceil_div(bound, value));
    } else if (value < 0) {
      kept.high = std::min(high, floor_div(bound, value));
    } else if (bound > 0) {
      return false;
    }
    if (kept.low <= kept.high) {
      *this = kept;
      return true;
    }
    return false;
  }
  bool less_than(int64_t value, int64_t bound) { return at_least(-value, 1 - bound); }
};

/// p / q with 0 <= p <= q.
struct Fraction {
  int64_t p = 0, q = 1;
};

/// Fractions next to one that is not above 1, whose numbers are at most `most`; the best one comes first.
std::vector<Fraction> near_fractions(Fraction of, int64_t most) {
  std::vector<Fraction> out;
  Fraction before{1, 0}, last{0, 1};  // of the continued fraction
  int64_t over = of.p, under = of.q;
  while (over != 0) {
    const int64_t wanted = under / over, fits = (most - before.q) / last.q;
    const int64_t times = std::min(wanted, fits);
    const Fraction next{before.p + times * last.p, before.q + times * last.q};
    out.insert(out.begin(), next);
    if (fits < wanted) {
      break;
    }
    before = last;
    last = next;
    under = std::exchange(over, under - wanted * over);
  }
  return out;
}

/// The multipliers with which RESCALE by this shift gives the kernels' sums for factors a and b; false where none does.
bool find_multipliers(const FixedPoint& sum, const Interval& x, const Interval& y, const Interval& result,
                      const SumRescales& as, Range& range) {
  const int shift = as.back.shift;
  const int64_t kernel_half = int64_t{1} << (sum.shift - 1), half = int64_t{1} << (shift - 1);
  for (int64_t i = x.low; i <= x.high; ++i) {
    for (int64_t j = y.low; j <= y.high; ++j) {
      const int64_t wanted = (i * sum.a + j * sum.b + kernel_half) >> sum.shift, own = i * as.a + j * as.b;
      if (wanted > result.low && wanted <= result.high + 1 &&
          !range.at_least(own, std::min(wanted, result.high) * (int64_t{1} << shift) - half)) {
        return false;
      }
      if (wanted < result.high && wanted >= result.low - 1 &&
          !range.less_than(own, (std::max(wanted, result.low) + 1) * (int64_t{1} << shift) - half)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::optional<Rescale> nearest_rescale(double factor) {
  if (!(factor > 0) || !std::isfinite(factor)) {
    return std::nullopt;
  }
  int exponent = 0;
  const double mantissa = std::frexp(factor, &exponent);  // in [0.5, 1)
  int64_t multiplier = std::llround(std::ldexp(mantissa, 31));
  int shift = 31 - exponent;
  if (multiplier == int64_t{1} << 31) {
    multiplier >>= 1;
    --shift;
  }
  if (shift > kMaxShift) {  // fewer bits
    multiplier = std::llround(std::ldexp(factor, kMaxShift));
    shift = kMaxShift;
  }
  if (shift < kMinShift || multiplier < int64_t{1} << 30) {
    return std::nullopt;
  }
  return Rescale{static_cast<int32_t>(multiplier), static_cast<int8_t>(shift), true};
}

std::optional<Rescale> exact_rescale(float factor) {
  const ExactFactor exact = ExactFactor::of(factor);
  const int more = std::clamp(kMaxShift - exact.shift, 0, 7);  // 31 bits, so that products may be large
  const int shift = exact.shift + more;
  if (exact.multiplier == 0 || shift < kMinShift || shift > kMaxShift) {
    return std::nullopt;
  }
  return Rescale{exact.multiplier << more, static_cast<int8_t>(shift)};
}

int64_t reach_of(const Rescale& r) { return r.shift > 32 ? INT32_MAX : int64_t{1} << (r.shift - 1); }

int64_t rounded(const Rounding& r, int64_t value) {
  const float units = static_cast<float>(value) * r.factor;
  return static_cast<int64_t>(
      round_to_even(std::min(std::max(static_cast<float>(r.low), units), static_cast<float>(r.high))));
}

int64_t rescaled(const Rescale& r, int64_t value) {
  return (value * r.multiplier + (int64_t{1} << (r.shift - 1))) >> r.shift;
}

std::optional<Rescale> matching_rescale(const Rounding& rounding) {
  std::optional<Rescale> out = nearest_rescale(static_cast<double>(rounding.factor));
  if (!out) {
    return out;
  }
  Range range;
  const int64_t half = int64_t{1} << (out->shift - 1);
  const double reach = static_cast<double>(rounding.factor) * static_cast<double>(rounding.largest) + 1;
  // The steps next to 0 first: most values are there, and a step that cannot be kept shall be far away.
  const int64_t farthest = std::max(std::abs(rounding.low), std::abs(rounding.high));
  for (int64_t i = 0; i <= 2 * farthest; ++i) {
    const int64_t unit = i % 2 == 0 ? -i / 2 : i / 2 + 1;  // 0, 1, -1, 2, …
    if (unit <= rounding.low || unit > rounding.high || std::abs(static_cast<double>(unit)) > reach) {
      continue;  // beyond reach RESCALE does not come there either
    }
    const int64_t first = first_at(rounding, unit);
    const int64_t bound = unit * (int64_t{1} << out->shift) - half;
    if (first <= rounding.largest) {
      out->is_exact = range.at_least(first, bound) && out->is_exact;
    }
    if (first > -rounding.largest) {
      out->is_exact = range.less_than(first - 1, bound) && out->is_exact;
    }
  }
  out->multiplier = static_cast<int32_t>(std::clamp<int64_t>(out->multiplier, range.low, range.high));
  return out;
}

std::optional<SumRescales> matching_sum(const FixedPoint& sum, const Interval& x, const Interval& y,
                                        const Interval& result) {
  const bool a_is_larger = sum.a >= std::abs(sum.b);
  const int64_t larger = std::max(sum.a, std::abs(sum.b)), smaller = std::min(sum.a, std::abs(sum.b));
  for (const Fraction& near : near_fractions({smaller, larger}, INT16_MAX)) {
    const auto factor =
        nearest_rescale(std::ldexp(static_cast<double>(larger) / static_cast<double>(near.q), -sum.shift));
    if (!factor) {
      continue;
    }
    SumRescales out;
    out.a = static_cast<int32_t>(a_is_larger ? near.q : near.p);
    out.b = static_cast<int32_t>(a_is_larger ? near.p : near.q) * (sum.b < 0 ? -1 : 1);
    out.back = *factor;
    Range range;
    if (find_multipliers(sum, x, y, result, out, range)) {
      out.back.multiplier = static_cast<int32_t>(std::clamp<int64_t>(factor->multiplier, range.low, range.high));
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace et::backends::tosa::compiler
