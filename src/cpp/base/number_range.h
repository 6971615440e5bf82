/// NumberRange: the smallest and the largest of many floats, in one pass that compilers make vectors of.
///
/// For: choosing scales at run time, and checking whether all of a tensor is finite. Not for: the operators amin and
///      amax, which keep to each element type and give NaN back.
///
///     NumberRange range;
///     range.add(values, n);
///     if (range.is_finite()) { … range.low … range.high … }
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace et {

struct NumberRange {
  float low = 0, high = 0;  // zero is always in it
  bool has_nan = false;

  bool is_finite() const { return !has_nan && std::isfinite(high - low); }

  void add(const NumberRange& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    has_nan = has_nan || other.has_nan;
  }

  void add(const float* values, int64_t n) {
    constexpr int64_t kLanes = 16;  // side by side: compilers make vectors of them
    float lows[kLanes], highs[kLanes];
    int32_t nans[kLanes] = {};
    std::fill_n(lows, kLanes, low);
    std::fill_n(highs, kLanes, high);
    const auto take = [&](int64_t lane, float value) {
      lows[lane] = std::min(lows[lane], value);
      highs[lane] = std::max(highs[lane], value);
      nans[lane] |= value != value ? 1 : 0;
    };
    const int64_t whole = n - n % kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        take(lane, values[i + lane]);
      }
    }
    for (int64_t lane = 0; lane < n % kLanes; ++lane) {
      take(lane, values[whole + lane]);
    }
    low = *std::min_element(lows, lows + kLanes);
    high = *std::max_element(highs, highs + kLanes);
    has_nan = has_nan || std::find(nans, nans + kLanes, 1) != nans + kLanes;
  }
};

}  // namespace et
