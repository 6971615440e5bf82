// Rounded divisions, remainders and functions of two numbers (division.cpp, pairs.cpp) on every instruction set.

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr ScalarType kIntegers[] = {ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int,
                                    ScalarType::Long};

/// A call of a division: a mode or nullptr, and an overload with a Scalar.
struct Division {
  const char* name;
  const char* mode;
  bool by_number;
};
constexpr Division kDivisions[] = {
    {"aten::remainder.Tensor_out", nullptr, false}, {"aten::fmod.Tensor_out", nullptr, false},
    {"aten::floor_divide.out", nullptr, false},     {"aten::div.out_mode", "floor", false},
    {"aten::div.out_mode", "trunc", false},         {"aten::remainder.Scalar_out", nullptr, true},
    {"aten::fmod.Scalar_out", nullptr, true},       {"aten::floor_divide.Scalar_out", nullptr, true},
    {"aten::div.Scalar_mode_out", "floor", true},   {"aten::div.Scalar_mode_out", "trunc", true},
};

Call& with_mode(Call& call, const Division& division) {
  return division.mode != nullptr ? call.text(division.mode) : call;
}

TEST(Division, FloatsOnEveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const Division& division : kDivisions) {
      for (const ScalarType dtype : {ScalarType::Float, ScalarType::Double}) {
        for (const int64_t n : {1, 7, 1003, 40001}) {
          Call call(division.name);
          call.numbers(dtype, {n});
          division.by_number ? call.number(-0.3) : call.numbers(dtype, {n});
          with_mode(call, division).out({n}, kRowMajor, dtype).expect_same(kPriorityOptimized);
        }
        // Quotients of any size, infinities, NaN.
        Call call(division.name);
        call.bytes_of(dtype, {4099});
        division.by_number ? call.number(7.25) : call.bytes_of(dtype, {4099});
        with_mode(call, division).out({4099}, kRowMajor, dtype);
        if (dtype == ScalarType::Float) {  // doubles are compared as bytes, which no NaN has to have
          call.expect_same(kPriorityOptimized);
        } else {
          EXPECT_EQ(call.error(kPriorityOptimized), Error::Ok);
        }
      }
    }
  });
}

TEST(Division, IntegersOnEveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const Division& division : kDivisions) {
      for (const ScalarType dtype : kIntegers) {
        for (const int64_t n : {1, 40, 301}) {
          Call call(division.name);
          call.bytes_of(dtype, {60, n});
          division.by_number ? call.integer(7) : call.divisors(dtype, {n});
          with_mode(call, division).out({60, n}, kRowMajor, dtype).expect_same(kPriorityOptimized);
        }
      }
    }
  });
}

TEST(Division, ByZeroIsRefused) {
  for_each_instruction_set([&] {
    for (const Division& division : kDivisions) {
      for (const ScalarType dtype : kIntegers) {
        Call call(division.name);
        call.bytes_of(dtype, {5000});
        division.by_number ? call.integer(0) : call.divisors(dtype, {5000}).zero_last();
        with_mode(call, division).out({5000}, kRowMajor, dtype);
        EXPECT_EQ(call.error(kPriorityOptimized), division.by_number ? Error::NotSupported : Error::InvalidArgument);
      }
    }
  });
}

TEST(Pairs, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const char* const name : {"aten::atan2.out", "aten::copysign.out", "aten::hypot.out", "aten::logaddexp.out",
                                   "aten::xlogy.OutTensor", "aten::pow.Tensor_Tensor_out", "et::prelu.out"}) {
      SCOPED_TRACE(name);
      const bool has_doubles = std::string(name) != "aten::pow.Tensor_Tensor_out";
      for (const int64_t n : {1, 7, 1003, 40001}) {
        Call(name).tensor({n}).tensor({n}).out({n}).expect_same(kPriorityOptimized, 3e-7);
        if (has_doubles) {
          Call(name)
              .numbers(ScalarType::Double, {n})
              .numbers(ScalarType::Double, {n})
              .out({n}, kRowMajor, ScalarType::Double)
              .expect_same(kPriorityOptimized, 1e-15);
        }
      }
      Call(name)
          .tensor({2, 3, 4, 5}, kChannelsLast)
          .tensor({3, 1, 5})
          .out({2, 3, 4, 5}, kChannelsLast)
          .expect_same(kPriorityOptimized, 3e-7);
      Call(name)
          .bytes_of(ScalarType::Float, {4099})
          .bytes_of(ScalarType::Float, {4099})
          .out({4099})
          .expect_same(kPriorityOptimized, 3e-7);
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
