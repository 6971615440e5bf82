// Integer convolutions as calls of a kernel.

#pragma once

#include "kernel_harness.h"

namespace et::kernels::testing {

struct IntegerConvolution {
  std::vector<int64_t> input, weight, stride, padding, dilation, output;
  std::vector<int64_t> output_padding = {};  ///< of one that is transposed
  Order weight_order = kRowMajor;

  bool is_transposed() const { return !output_padding.empty(); }
};

inline int as_it_is(int byte) { return byte; }

/// With the input's zero point at its end, scales of channels and no bias, or within, one scale and a bias. `weight_of`
/// makes the weights of random bytes.
template <typename WeightOf = int (*)(int)>
Call call_of(const IntegerConvolution& c, Order in_order, Order out_order, int64_t groups, int64_t zero_point,
             WeightOf weight_of = &as_it_is) {
  const int64_t channels = c.is_transposed() ? c.weight[1] * groups : c.weight[0];
  Call call("et::quantized_convolution.out");
  call.bytes_of(ScalarType::Char, c.input, in_order).number(0.02).integer(zero_point);
  call.bytes_of(ScalarType::Char, c.weight, c.weight_order).change_bytes(weight_of).as_constant();
  if (zero_point < 0) {
    call.constant({channels}, kRowMajor, 0.001f, 0.01f).none();
  } else {
    std::vector<int32_t> bias;
    for (int64_t i = 0; i < channels; ++i) {
      bias.push_back(static_cast<int32_t>(i * 7919 % 20011 - 10000));
    }
    call.constant({1}, kRowMajor, 0.002f, 0.005f).constant_values(bias, {channels});
  }
  call.list(c.stride).list(c.padding).list(c.dilation).flag(c.is_transposed());
  call.list(c.is_transposed() ? c.output_padding : std::vector<int64_t>(c.stride.size(), 0)).integer(groups);
  call.number(groups == 1 ? 0.7 : 0.2).integer(-3).integer(-128).integer(120);
  call.out(c.output, out_order, ScalarType::Char);
  return call;
}

/// Beside the plain kernel, bit for bit, in both forms of a call.
template <typename WeightOf = int (*)(int)>
void expect_equal(const IntegerConvolution& c, Order in_order, Order out_order, int64_t groups = 1,
                  uint8_t priority = runtime::kPriorityLibrary, WeightOf weight_of = &as_it_is) {
  for (const int64_t zero_point : {-128, 5}) {
    call_of(c, in_order, out_order, groups, zero_point, weight_of).expect_same(priority);
  }
}

}  // namespace et::kernels::testing
