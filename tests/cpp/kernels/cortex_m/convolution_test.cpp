// Convolutions and linear layers of int8 against kernels/quantized, bit for bit, over random geometries.
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : random_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool once_in(uint32_t n) { return random_() % n == 0; }
  double real(double low, double high) { return low + (high - low) * (random_() % 100000 / 1e5); }

 private:
  std::mt19937 random_;
};

/// weight_scales and bias of an operator; scales of powers of two, one for all, make ties.
void add_scales_and_bias(Call& call, Numbers& numbers, int64_t channels, bool with_ties) {
  if (with_ties) {
    call.constant_values<float>({0x1p-6f}, {1});
  } else {
    call.constant({numbers.once_in(3) ? 1 : channels}, kRowMajor, 0.0005f, 0.02f);
  }
  if (numbers.once_in(3)) {
    call.none();
    return;
  }
  std::vector<int32_t> bias;
  for (int64_t i = 0; i < channels; ++i) {
    bias.push_back(static_cast<int32_t>(numbers.between(-9000, 9000)));
  }
  call.constant_values(bias, {channels});
}

/// output_scale … output_max.
void add_result(Call& call, Numbers& numbers, bool with_ties) {
  const int64_t low = numbers.once_in(2) ? -128 : numbers.between(-128, 0);
  const int64_t high = numbers.once_in(2) ? 127 : numbers.between(low, 127);
  call.number(with_ties ? 0.5 : numbers.real(0.05, 1.0)).integer(numbers.between(-128, 127)).integer(low).integer(high);
}

/// Of images, or of sequences: 2 or 1 dimensions.
void expect_same_convolution(Numbers& numbers, size_t dims) {
  const int64_t kind = numbers.between(0, 3);  // one group, pointwise, depthwise, groups
  const int64_t groups = kind < 2 ? 1 : numbers.between(1, kind == 2 ? 70 : 3);
  const int64_t in_per_group = kind == 2 ? 1 : numbers.between(1, numbers.once_in(4) ? 40 : 9);
  const int64_t out_per_group = kind == 2 ? 1 : numbers.between(1, numbers.once_in(4) ? 70 : 9);
  std::vector<int64_t> input{numbers.between(1, 2), groups * in_per_group},
      weight{groups * out_per_group, in_per_group}, output{input[0], weight[0]}, stride, padding, dilation;
  for (size_t d = 0; d < dims; ++d) {
    const bool is_point = kind == 1;
    const int64_t kernel = is_point ? 1 : numbers.between(1, 5);
    stride.push_back(is_point && !numbers.once_in(4) ? 1 : numbers.between(1, 3));
    padding.push_back(is_point && !numbers.once_in(4) ? 0 : numbers.between(0, kernel));
    dilation.push_back(numbers.between(1, 2));
    const int64_t reach = dilation.back() * (kernel - 1) + 1;
    const int64_t size = std::max<int64_t>(reach - 2 * padding.back(), 1) + numbers.between(0, 7);
    input.push_back(size);
    weight.push_back(kernel);
    output.push_back((size + 2 * padding.back() - reach) / stride.back() + 1);
  }
  const bool with_ties = numbers.once_in(3);
  const auto order = dims == 2 || numbers.once_in(2) ? kChannelsLast : kRowMajor;
  Call call("et::quantized_convolution.out");
  call.bytes_of(ScalarType::Char, input, order).number(with_ties ? 0x1p-4 : numbers.real(0.005, 0.05));
  call.integer(numbers.between(-128, 127))
      .bytes_of(ScalarType::Char, weight, dims == 1 || numbers.once_in(2) ? kRowMajor : kChannelsLast);
  call.as_constant();
  add_scales_and_bias(call, numbers, weight[0], with_ties);
  call.list(stride).list(padding).list(dilation).flag(false).list(std::vector<int64_t>(dims)).integer(groups);
  add_result(call, numbers, with_ties);
  call.out(output, dims == 1 && numbers.once_in(4) ? kRowMajor : order, ScalarType::Char)
      .expect_same(kPriorityOptimized);
}

TEST(CortexMConvolution, RandomGeometriesAreThoseOfThePlainKernel) {
  Numbers numbers(1);
  for (int i = 0; i < 1500 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    expect_same_convolution(numbers, i % 4 == 0 ? 1 : 2);
  }
}

TEST(CortexMConvolution, OtherCallsAreLeftToThePlainKernel) {
  const auto fits = [](Order in_order, ScalarType dtype, bool transposed) {
    Call call("et::quantized_convolution.out");
    call.bytes_of(dtype, {1, 3, 5, 5}, in_order).number(0.02).integer(3);
    call.bytes_of(ScalarType::Char, {3, 3, 3, 3}, kChannelsLast).as_constant();
    call.constant({1}, kRowMajor, 0.002f, 0.005f).none();
    call.list({1, 1}).list({1, 1}).list({1, 1}).flag(transposed).list({0, 0}).integer(1);
    call.number(0.7).integer(3).integer(0).integer(120).out({1, 3, 5, 5}, in_order, dtype);
    return call.fits(kPriorityOptimized);
  };
  EXPECT_TRUE(fits(kChannelsLast, ScalarType::Char, false));
  EXPECT_FALSE(fits(kRowMajor, ScalarType::Char, false));
  EXPECT_FALSE(fits(kChannelsLast, ScalarType::Byte, false));
  EXPECT_FALSE(fits(kChannelsLast, ScalarType::Char, true));
}

TEST(CortexMLinear, RandomSizesAreThoseOfThePlainKernel) {
  Numbers numbers(2);
  for (int i = 0; i < 600 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const int64_t rows = numbers.between(1, 7), depth = numbers.between(1, numbers.once_in(5) ? 700 : 40);
    const int64_t channels = numbers.between(1, numbers.once_in(5) ? 140 : 20);
    const bool with_ties = numbers.once_in(3);
    Call call("et::quantized_linear.out");
    call.bytes_of(ScalarType::Char, {rows, depth}).number(with_ties ? 0x1p-4 : numbers.real(0.005, 0.05));
    call.integer(numbers.between(-128, 127)).bytes_of(ScalarType::Char, {channels, depth}).as_constant();
    add_scales_and_bias(call, numbers, channels, with_ties);
    add_result(call, numbers, with_ties);
    call.out({rows, channels}, kRowMajor, ScalarType::Char).expect_same(kPriorityOptimized);
  }
}

}  // namespace
}  // namespace et::kernels::testing
