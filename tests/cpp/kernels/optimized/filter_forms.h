// What the tests of all convolution kernels vary in the same way, and what they all expect of NaN.

#pragma once

#include <cmath>
#include <limits>

#include "kernel_harness.h"

namespace et::kernels::testing {

/// A filter's memory order, and what follows the products. Base of each test's own options.
struct FilterForm {
  Order weight = kRowMajor;
  bool bias = true;
  bool clamp = false;
};

inline const char* convolution_of(const FilterForm& form) {
  return form.clamp ? "et::convolution_clamp.out" : "aten::convolution.out";
}

/// Calls `test` with default options in every form.
template <typename Options, typename Test>
void for_each_filter_form(Test test) {
  for (const Order weight : {kRowMajor, kChannelsLast}) {
    for (const bool bias : {false, true}) {
      for (const bool clamp : {false, true}) {
        Options options;
        options.weight = weight;
        options.bias = bias;
        options.clamp = clamp;
        SCOPED_TRACE(::testing::Message() << (weight == kRowMajor ? "row-major" : "channels-last") << " filter"
                                          << (bias ? ", bias" : "") << (clamp ? ", limits" : ""));
        test(options);
      }
    }
  }
}

/// After NaN as the first element of the input: it passes filters and limits, and reaches nothing that is far from it.
inline void expect_nan_in_front(Call& call, uint8_t priority) {
  const std::vector<float> out = call.output(priority);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_FALSE(std::isnan(out.back()));
}

}  // namespace et::kernels::testing
