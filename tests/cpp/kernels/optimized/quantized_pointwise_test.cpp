// Pointwise operators of integers: equal to the plain kernels bit for bit, for every length, broadcast, layout and
// type; what those refuse is left to them.

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr int64_t kLengths[] = {0, 1, 3, 15, 16, 17, 31, 33, 64, 100, 1000, 70001};
constexpr ScalarType kBytes[] = {ScalarType::Char, ScalarType::Byte};
constexpr ScalarType kIntegers[] = {ScalarType::Char, ScalarType::Byte, ScalarType::Short};

int64_t lowest(ScalarType dtype) { return dtype == ScalarType::Char ? -128 : dtype == ScalarType::Byte ? 0 : -32768; }
int64_t highest(ScalarType dtype) { return dtype == ScalarType::Char ? 127 : dtype == ScalarType::Byte ? 255 : 32767; }

struct Shapes {
  std::vector<int64_t> a, b, out;
  Order a_order = kRowMajor, b_order = kRowMajor, out_order = kRowMajor;
};

const Shapes kShapes[] = {
    {{5, 33}, {33}, {5, 33}},
    {{5, 1}, {5, 33}, {5, 33}},
    {{1}, {2, 3, 40}, {2, 3, 40}},
    {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}, kChannelsLast, kChannelsLast, kChannelsLast},
    {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}, kChannelsLast, kRowMajor, kChannelsLast},
    {{2, 16, 4, 5}, {2, 16, 1, 1}, {2, 16, 4, 5}, kChannelsLast, kChannelsLast, kChannelsLast},
};

void expect_pair(const char* name, ScalarType dtype, const Shapes& s, double b_scale, double out_scale) {
  const int64_t zero = (lowest(dtype) + highest(dtype)) / 2;
  for (const bool clamps : {false, true}) {
    Call(name)
        .bytes_of(dtype, s.a, s.a_order)
        .number(0.043)
        .integer(zero + 7)
        .bytes_of(dtype, s.b, s.b_order)
        .number(b_scale)
        .integer(zero - 11)
        .number(out_scale)
        .integer(zero + 3)
        .integer(clamps ? zero - 20 : lowest(dtype))
        .integer(clamps ? zero + 90 : highest(dtype))
        .out(s.out, s.out_order, dtype)
        .expect_same(kPriorityOptimized);
  }
}

TEST(QuantizedPointwise, PairsAreThoseOfThePlainKernels) {
  for (const char* name : {"et::quantized_add.out", "et::quantized_sub.out", "et::quantized_mul.out"}) {
    for (const ScalarType dtype : kBytes) {
      const double product = std::strcmp(name, "et::quantized_mul.out") == 0 ? 0.03 : 1;
      for (const int64_t n : kLengths) {
        expect_pair(name, dtype, {{n}, {n}, {n}}, 0.031, 0.061 * product);
      }
      for (const Shapes& shapes : kShapes) {
        expect_pair(name, dtype, shapes, 0.031, 0.061 * product);
        expect_pair(name, dtype, shapes, 0.0007, 0.0431 * product);  // one operand hardly counts
        expect_pair(name, dtype, shapes, 4.3, 0.05 * product);       // most of it is clamped
      }
    }
  }
}

bool takes_sum(ScalarType dtype, double out_scale, int64_t zero_point) {
  return Call("et::quantized_add.out")
      .bytes_of(dtype, {4})
      .number(1.0)
      .integer(0)
      .bytes_of(dtype, {4})
      .number(1.0)
      .integer(zero_point)
      .number(out_scale)
      .integer(0)
      .integer(0)
      .integer(100)
      .out({4}, kRowMajor, dtype)
      .fits(kPriorityOptimized);
}

TEST(QuantizedPointwise, LeavesTheRestToThePlainKernels) {
  EXPECT_TRUE(takes_sum(ScalarType::Char, 1, 0));
  EXPECT_FALSE(takes_sum(ScalarType::Short, 1, 0));
  EXPECT_FALSE(takes_sum(ScalarType::Char, 1e-5, 0)) << "a sum of floats";
  EXPECT_FALSE(takes_sum(ScalarType::Char, -1, 0));
  EXPECT_FALSE(takes_sum(ScalarType::Char, 1, 200)) << "no i8";
}

void expect_tables() {
  for (const ScalarType from : kBytes) {
    for (const ScalarType to : kBytes) {
      for (const int64_t n : kLengths) {
        Call("et::quantized_table.out")
            .bytes_of(from, {n})
            .bytes_of(to, {256})
            .as_constant()
            .out({n}, kRowMajor, to)
            .expect_same(kPriorityOptimized);
      }
      Call("et::quantized_table.out")
          .bytes_of(from, {2, 3, 4, 5}, kChannelsLast)
          .bytes_of(to, {256})
          .as_constant()
          .out({2, 3, 4, 5}, kRowMajor, to)
          .expect_same(kPriorityOptimized);
    }
  }
}

TEST(QuantizedPointwise, Tables) {
  expect_tables();
  EXPECT_FALSE(Call("et::quantized_table.out")
                   .bytes_of(ScalarType::Char, {9})
                   .bytes_of(ScalarType::Char, {256})
                   .out({9}, kRowMajor, ScalarType::Char)
                   .fits(kPriorityOptimized))
      << "a table that is computed";
}

void expect_quantized(ScalarType dtype, std::vector<int64_t> sizes, Order from, Order to, double scale, int64_t low,
                      int64_t high) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Call call("quantized_decomposed::quantize_per_tensor.out");
  call.tensor(sizes, from, -9, 9);
  int64_t count = 1;
  for (const int64_t size : sizes) {
    count *= size;
  }
  const float special[] = {nan, HUGE_VALF, -HUGE_VALF, -0.0f, 1e30f, -1e30f, 0.5f, 1.5f, -2.5f, 8388609.0f};
  for (int64_t i = 0; i < count && i < 10; ++i) {
    call.set(static_cast<size_t>((i * 31) % count), special[i]);
  }
  call.number(scale)
      .integer(-3)
      .integer(low)
      .integer(high)
      .integer(static_cast<int64_t>(dtype))
      .out(sizes, to, dtype)
      .expect_same(kPriorityOptimized);
}

TEST(QuantizedPointwise, FloatsToIntegersAndBack) {
  for (const ScalarType dtype : kIntegers) {
    const int64_t low = lowest(dtype), high = highest(dtype);
    for (const int64_t n : kLengths) {
      expect_quantized(dtype, {n}, kRowMajor, kRowMajor, 1.0, low, high);
      Call("quantized_decomposed::dequantize_per_tensor.out")
          .bytes_of(dtype, {n})
          .number(0.0371)
          .integer(5)
          .integer(low)
          .integer(high)
          .integer(static_cast<int64_t>(dtype))
          .none()
          .out({n})
          .expect_same(kPriorityOptimized);
    }
    expect_quantized(dtype, {2, 3, 4, 5}, kChannelsLast, kRowMajor, 0.05, low, high);
    expect_quantized(dtype, {2, 3, 4, 5}, kChannelsLast, kChannelsLast, -0.05, low + 1, high - 9);
    expect_quantized(dtype, {1000}, kRowMajor, kRowMajor, 1e-30, low, high);
    expect_quantized(dtype, {1000}, kRowMajor, kRowMajor, 0.01, high, low);  // an empty range
    Call("quantized_decomposed::dequantize_per_tensor.out")
        .bytes_of(dtype, {2, 3, 4, 5}, kChannelsLast)
        .number(0.0371)
        .integer(1 << 30)
        .integer(low)
        .integer(high)
        .integer(static_cast<int64_t>(dtype))
        .integer(static_cast<int64_t>(ScalarType::Float))
        .out({2, 3, 4, 5})
        .expect_same(kPriorityOptimized);
  }
}

/// Scales that the program computes.
void expect_at_run_time(const std::vector<int64_t>& sizes, Order order) {
  for (const char* op : {"quantized_decomposed::choose_qparams.Tensor_out",
                         "quantized_decomposed::choose_qparams_symmetric.Tensor_out"}) {
    for (const float high : {0.0f, 7.0f}) {  // of numbers below zero, and of both signs
      for (const ScalarType dtype : kBytes) {
        Call(op)
            .tensor(sizes, order, -5, high)
            .integer(lowest(dtype))
            .integer(highest(dtype) - 1)
            .number(1e-6)
            .integer(static_cast<int64_t>(dtype))
            .out({1}, kRowMajor, ScalarType::Double)
            .out({1}, kRowMajor, ScalarType::Long)
            .expect_same(kPriorityOptimized);
      }
    }
  }
  for (const ScalarType dtype : kIntegers) {
    Call("quantized_decomposed::quantize_per_tensor.Tensor_out")
        .tensor(sizes, order, -9, 9)
        .set(0, std::numeric_limits<float>::quiet_NaN())
        .numbers(ScalarType::Double, {1})
        .numbers_of({-3})
        .integer(lowest(dtype))
        .integer(highest(dtype) - 1)
        .integer(static_cast<int64_t>(dtype))
        .out(sizes, order, dtype)
        .expect_same(kPriorityOptimized);
    Call("quantized_decomposed::dequantize_per_tensor.Tensor_out")
        .bytes_of(dtype, sizes, order)
        .numbers(ScalarType::Double, {1})
        .numbers_of({5})
        .integer(lowest(dtype))
        .integer(highest(dtype))
        .integer(static_cast<int64_t>(dtype))
        .none()
        .out(sizes, order)
        .expect_same(kPriorityOptimized);
  }
}

TEST(QuantizedPointwise, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t n : {1, 7, 67, 100'001}) {
      expect_at_run_time({n}, kRowMajor);
    }
    expect_at_run_time({2, 5, 9, 11}, kChannelsLast);
    expect_tables();
    for (const ScalarType dtype : kBytes) {
      expect_pair("et::quantized_add.out", dtype, {{1003}, {1003}, {1003}}, 0.031, 0.061);
      expect_pair("et::quantized_sub.out", dtype, {{5, 33}, {33}, {5, 33}}, 0.031, 0.061);
      expect_pair("et::quantized_mul.out", dtype, {{1003}, {1}, {1003}}, 0.031, 0.002);
    }
    for (const ScalarType dtype : kIntegers) {
      expect_quantized(dtype, {1003}, kRowMajor, kRowMajor, 0.05, lowest(dtype), highest(dtype));
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
