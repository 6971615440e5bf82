#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

struct Function {
  const char* name;
  float low;
  float high;
};

// Where the function is defined, and beyond: what lies outside goes another way in the kernel.
constexpr Function kFunctions[] = {
    {"aten::acos.out", -1.2f, 1.2f},     {"aten::acosh.out", 0.5f, 100.0f},  {"aten::asin.out", -1.2f, 1.2f},
    {"aten::asinh.out", -50.0f, 50.0f},  {"aten::atan.out", -50.0f, 50.0f},  {"aten::atanh.out", -1.1f, 1.1f},
    {"aten::ceil.out", -9.0f, 9.0f},     {"aten::cos.out", -100.0f, 100.0f}, {"aten::cosh.out", -89.0f, 89.0f},
    {"aten::exp2.out", -140.0f, 130.0f}, {"aten::expm1.out", -20.0f, 89.0f}, {"aten::floor.out", -9.0f, 9.0f},
    {"aten::frac.out", -9.0f, 9.0f},     {"aten::log.out", -0.5f, 9.0f},     {"aten::log10.out", -0.5f, 9.0f},
    {"aten::log1p.out", -1.2f, 9.0f},    {"aten::log2.out", -0.5f, 9.0f},    {"aten::round.out", -9.0f, 9.0f},
    {"aten::sign.out", -2.0f, 2.0f},     {"aten::sin.out", -100.0f, 100.0f}, {"aten::sinh.out", -89.0f, 89.0f},
    {"aten::tan.out", -1.5f, 1.5f},      {"aten::trunc.out", -9.0f, 9.0f},   {"aten::angle.out", -2.0f, 2.0f},
    {"aten::erfinv.out", -1.1f, 1.1f},   {"aten::erfc.out", -5.0f, 11.0f},   {"aten::lgamma.out", -9.5f, 30.0f},
};

TEST(Transcendental, LikePortable) {
  for (const Function& f : kFunctions) {
    SCOPED_TRACE(f.name);
    for (const int64_t n : {1, 7, 1000, 40001}) {
      Call(f.name).tensor({n}, kRowMajor, f.low, f.high).out({n}).expect_same(kPriorityOptimized, 2e-6);
    }
    Call(f.name)
        .tensor({2, 3, 4, 5}, kChannelsLast, f.low, f.high)
        .out({2, 3, 4, 5}, kChannelsLast)
        .expect_same(kPriorityOptimized, 2e-6);
    Call(f.name).tensor({}, kRowMajor, 1.1f, 1.2f).out({}).fits(kPriorityOptimized);
    // Infinities, NaN, zeros, subnormal and large numbers: random bits.
    Call(f.name).bytes_of(ScalarType::Float, {4099}).out({4099}).expect_same(kPriorityOptimized, 4e-6);
  }
}

TEST(Doubles, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const char* const name :
         {"aten::abs.out",     "aten::acos.out",  "aten::acosh.out", "aten::asin.out",  "aten::asinh.out",
          "aten::atan.out",    "aten::atanh.out", "aten::ceil.out",  "aten::cos.out",   "aten::cosh.out",
          "aten::erf.out",     "aten::erfc.out",  "aten::exp.out",   "aten::exp2.out",  "aten::expm1.out",
          "aten::floor.out",   "aten::log.out",   "aten::log10.out", "aten::log1p.out", "aten::log2.out",
          "aten::mish.out",    "aten::neg.out",   "aten::relu.out",  "aten::round.out", "aten::rsqrt.out",
          "aten::sigmoid.out", "aten::silu.out",  "aten::sin.out",   "aten::sinh.out",  "aten::sqrt.out",
          "aten::tan.out",     "aten::tanh.out",  "aten::trunc.out", "aten::square.out"}) {
      Call(name)
          .numbers(ScalarType::Double, {1003})
          .out({1003}, kRowMajor, ScalarType::Double)
          .expect_same(kPriorityOptimized, 1e-14);
    }
    for (const char* const name : {"aten::sum.out", "aten::mean.dtype_out", "aten::prod.out"}) {
      Call(name)
          .numbers(ScalarType::Double, {37})
          .none()
          .out({}, kRowMajor, ScalarType::Double)
          .expect_same(kPriorityOptimized, 1e-12);
    }
    Call("aten::native_layer_norm.out")
        .numbers(ScalarType::Double, {5, 37})
        .list({37})
        .numbers(ScalarType::Double, {37})
        .none()
        .number(1e-5)
        .out({5, 37}, kRowMajor, ScalarType::Double)
        .out({5, 1}, kRowMajor, ScalarType::Double)
        .out({5, 1}, kRowMajor, ScalarType::Double)
        .expect_same(kPriorityOptimized, 1e-12);
    for (const int64_t dim : {0, 1, 2}) {
      std::vector<int64_t> left = {5, 7, 37};
      left.erase(left.begin() + dim);
      for (const char* const name : {"aten::amax.out", "aten::amin.out"}) {
        Call(name)
            .numbers(ScalarType::Double, {5, 7, 37})
            .list({dim})
            .flag(false)
            .out(left, kRowMajor, ScalarType::Double)
            .expect_same(kPriorityOptimized);
      }
      for (const char* const name : {"aten::any.out", "aten::all.out"}) {
        Call(name)
            .mask({5, 7, 37})
            .integer(dim)
            .flag(false)
            .out(left, kRowMajor, ScalarType::Bool)
            .expect_same(kPriorityOptimized);
      }
    }
  });
}

TEST(Special, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const char* const name : {"aten::angle.out", "aten::erfc.out", "aten::lgamma.out", "aten::square.out"}) {
      Call(name).tensor({1001}, kRowMajor, -6.5f, 11.0f).out({1001}).expect_same(kPriorityOptimized, 2e-6);
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
