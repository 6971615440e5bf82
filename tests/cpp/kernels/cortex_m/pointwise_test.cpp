// Averages, sums, products, tables, softmax of int8, and int8 from and to floats, against the plain kernels: bit for
// bit.
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

class CortexM : public ::testing::TestWithParam<int> {
 protected:
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  double scale() { return random_() % 3 == 0 ? 0x1p-4 : 0.002 + 0.05 * (random_() % 1000 / 1e3); }
  Call& int8(Call& call, const std::vector<int64_t>& sizes, Order order) {
    return call.bytes_of(ScalarType::Char, sizes, order).number(scale()).integer(between(-128, 127));
  }
  void result(Call& call, const std::vector<int64_t>& sizes, Order order) {
    const int64_t low = between(-128, 0), high = between(low, 127);
    call.number(scale()).integer(between(-128, 127)).integer(low).integer(high);
    call.out(sizes, order, ScalarType::Char).expect_same(kPriorityOptimized);
  }

  std::mt19937 random_{static_cast<uint32_t>(GetParam())};
};

TEST_P(CortexM, AveragesOfWindows) {
  Call call("et::quantized_avg_pool2d.out");
  std::vector<int64_t> in{between(1, 2), between(1, 21)}, out = in, kernel, stride, padding;
  const bool ceil = random_() % 2 == 0;
  for (int d = 0; d < 2; ++d) {
    kernel.push_back(between(1, 6));
    stride.push_back(between(1, 4));
    padding.push_back(between(0, kernel.back() / 2));
    const int64_t size = kernel.back() + between(0, 8);
    const int64_t room = size + 2 * padding.back() - kernel.back();
    int64_t count = (room + (ceil ? stride.back() - 1 : 0)) / stride.back() + 1;
    count -= ceil && (count - 1) * stride.back() >= size + padding.back() ? 1 : 0;
    in.push_back(size);
    out.push_back(count);
  }
  int8(call, in, kChannelsLast).list(kernel).list(stride).list(padding).flag(ceil).flag(random_() % 2 == 0);
  random_() % 4 == 0 ? call.integer(between(-7, -1)) : call.none();
  result(call, out, kChannelsLast);
}

TEST_P(CortexM, AveragesOfAdaptiveWindows) {
  Call call("et::quantized_adaptive_avg_pool2d.out");
  const std::vector<int64_t> in{between(1, 2), between(1, 21), between(1, 12), between(1, 12)};
  const std::vector<int64_t> out{in[0], in[1], between(1, 5), between(1, 5)};
  int8(call, in, kChannelsLast).list({out[2], out[3]});
  result(call, out, kChannelsLast);
}

TEST_P(CortexM, AveragesOfImages) {
  Call call("et::quantized_mean.out");
  const std::vector<int64_t> in{between(1, 2), between(1, 21), between(1, 12), between(1, 12)};
  const bool keep = random_() % 2 == 0;
  int8(call, in, kChannelsLast).list(random_() % 2 == 0 ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{-1, 2});
  call.flag(keep);
  keep ? result(call, {in[0], in[1], 1, 1}, kChannelsLast) : result(call, {in[0], in[1]}, kRowMajor);
}

TEST_P(CortexM, AveragesOfRows) {
  Call call("et::quantized_mean.out");
  const std::vector<int64_t> in{between(1, 3), between(1, 21), between(1, 40)};
  const int64_t count = between(1, 2);
  int8(call, in, kRowMajor).list(count == 1 ? std::vector<int64_t>{-1} : std::vector<int64_t>{2, 1}).flag(false);
  result(call, {in.begin(), in.end() - count}, kRowMajor);
}

TEST_P(CortexM, SumsDifferencesAndProducts) {
  for (const char* const name : {"et::quantized_add.out", "et::quantized_sub.out", "et::quantized_mul.out"}) {
    Call call(name);
    const Order order = random_() % 2 == 0 ? kChannelsLast : kRowMajor;
    const std::vector<int64_t> sizes{between(1, 2), between(1, 9), between(1, 9), between(1, 9)};
    int8(int8(call, sizes, order), sizes, order);
    result(call, sizes, order);
  }
}

TEST_P(CortexM, Tables) {
  Call call("et::quantized_table.out");
  const std::vector<int64_t> sizes{between(1, 4), between(1, 9), between(1, 9), between(1, 9)};
  const Order order = random_() % 2 == 0 ? kChannelsLast : kRowMajor;
  call.bytes_of(ScalarType::Char, sizes, order).bytes_of(ScalarType::Char, {256}).as_constant();
  call.out(sizes, order, ScalarType::Char).expect_same(kPriorityOptimized);
}

TEST_P(CortexM, Softmax) {
  Call call("et::quantized_softmax.out");
  const std::vector<int64_t> sizes{between(1, 4), between(1, 30)};
  call.bytes_of(ScalarType::Char, sizes).number(scale()).integer(random_() % 2 == 0 ? -1 : 1);
  call.number(0x1p-8).integer(-128).integer(-128).integer(127);
  call.out(sizes, kRowMajor, ScalarType::Char).expect_same(kPriorityOptimized);
}

TEST_P(CortexM, FloatsToIntegersAndBack) {
  const std::vector<int64_t> sizes{between(0, 2), between(1, 9), between(1, 9), between(1, 9)};
  const Order order = random_() % 2 == 0 ? kChannelsLast : kRowMajor;
  const auto dtype = static_cast<int64_t>(ScalarType::Char);
  Call quantize("quantized_decomposed::quantize_per_tensor.out");
  random_() % 2 == 0 ? quantize.tensor(sizes, order, -9, 9)
                     : quantize.bytes_of(ScalarType::Float, sizes, order);  // NaN, infinities
  const int64_t low = between(-128, 127);
  quantize.number(random_() % 9 == 0 ? -scale() : scale()).integer(between(-300, 300));
  quantize.integer(low).integer(between(low, 127)).integer(dtype);
  quantize.out(sizes, order, ScalarType::Char).expect_same(kPriorityOptimized);

  Call dequantize("quantized_decomposed::dequantize_per_tensor.out");
  dequantize.bytes_of(ScalarType::Char, sizes, order).number(random_() % 9 == 0 ? 1e-42 : scale());
  dequantize.integer(between(-128, 127)).integer(-128).integer(127).integer(dtype).none();
  dequantize.out(sizes, order).expect_same(kPriorityOptimized);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CortexM, ::testing::Range(0, 60));

}  // namespace
}  // namespace et::kernels::testing
