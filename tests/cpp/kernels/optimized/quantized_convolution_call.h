// Integer convolutions as calls of a kernel.

#pragma once

#include "kernel_harness.h"

namespace et::kernels::testing {

struct IntegerConvolution {
  std::vector<int64_t> input, weight, stride, padding, dilation, output;
};

/// Beside the plain kernel, bit for bit, with the input's zero point at its end and within.
inline void expect_equal(const IntegerConvolution& c, Order in_order, Order out_order, int64_t groups = 1,
                         uint8_t priority = runtime::kPriorityLibrary) {
  for (const int64_t zero_point : {-128, 5}) {
    Call("et::quantized_convolution.out")
        .bytes_of(ScalarType::Char, c.input, in_order)
        .number(0.02)
        .integer(zero_point)
        .bytes_of(ScalarType::Char, c.weight)
        .as_constant()
        .constant({c.weight[0]}, kRowMajor, 0.001f, 0.01f)
        .none()
        .list(c.stride)
        .list(c.padding)
        .list(c.dilation)
        .flag(false)
        .list(std::vector<int64_t>(c.stride.size(), 0))
        .integer(groups)
        .number(groups == 1 ? 0.7 : 0.2)
        .integer(-3)
        .integer(-128)
        .integer(120)
        .out(c.output, out_order, ScalarType::Char)
        .expect_same(priority);
  }
}

}  // namespace et::kernels::testing
