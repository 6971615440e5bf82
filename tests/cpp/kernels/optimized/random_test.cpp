// Random numbers: the vector generator draws what the scalar one draws, in every count and dtype.
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr int64_t kCounts[] = {0, 1, 2, 3, 5, 31, 64, 129, 1023, 1024, 1025, 70001};
constexpr ScalarType kDtypes[] = {ScalarType::Float, ScalarType::Double};

TEST(Random, UniformNumbersAreEqual) {
  for (const int64_t n : kCounts) {
    for (const ScalarType dtype : {ScalarType::Float, ScalarType::Double, ScalarType::Half, ScalarType::BFloat16}) {
      Call("aten::rand.out").list({n}).out({n}, kRowMajor, dtype).expect_same(kPriorityOptimized);
    }
  }
}

TEST(Random, UniformOverARange) {
  for (const ScalarType dtype : kDtypes) {
    Call("aten::uniform.out")
        .bytes_of(dtype, {3, 77})
        .number(-3.0)
        .number(2.5)
        .none()
        .out({3, 77}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized, dtype == ScalarType::Float ? 1e-7 : 1e-15);
  }
}

// Tolerances are relative to the largest number, which is about 4.
TEST(Random, NormalNumbersDifferByRounding) {
  for (const int64_t n : kCounts) {
    for (const ScalarType dtype : kDtypes) {
      const double tolerance = dtype == ScalarType::Float ? 4e-7 : 1e-15;
      Call("aten::randn.out").list({n}).out({n}, kRowMajor, dtype).expect_same(kPriorityOptimized, tolerance);
    }
  }
}

TEST(Random, NormalWithParameters) {
  for (const ScalarType dtype : kDtypes) {
    const double tolerance = dtype == ScalarType::Float ? 4e-7 : 1e-15;
    const auto call = [&](const char* name) { return Call(name); };
    call("aten::normal.float_float_out")
        .number(1.5)
        .number(0.25)
        .list({1500})
        .none()
        .out({1500}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized, tolerance);
    call("aten::normal.Tensor_float_out")
        .numbers(dtype, {50, 30})
        .number(0.0)
        .none()
        .out({50, 30}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized, tolerance);
  }
  Call("aten::normal.float_Tensor_out")
      .number(-1.0)
      .tensor({2000}, kRowMajor, 0.0f, 2.0f)
      .none()
      .out({2000})
      .expect_same(kPriorityOptimized, 4e-7);
  for (const std::vector<int64_t>& std : {std::vector<int64_t>{4, 500}, std::vector<int64_t>{4, 1}}) {
    Call("aten::normal.Tensor_Tensor_out")
        .tensor({4, 500})
        .tensor(std, kRowMajor, 0.0f, 2.0f)
        .none()
        .out({4, 500})
        .expect_same(kPriorityOptimized, 4e-7);
  }
}

TEST(Random, DeviationsMustNotBeNegative) {
  for (const float wrong : {-1.0f, NAN}) {
    Call call("aten::normal.float_Tensor_out");
    call.number(0.0).tensor({1500}, kRowMajor, 0.0f, 1.0f).set(1300, wrong).none().out({1500});
    EXPECT_EQ(call.error(kPriorityOptimized), Error::InvalidArgument);
  }
  Call call("aten::normal.out");
  call.tensor({3}).number(0.0).number(-1.0).none().out({3});
  EXPECT_EQ(call.error(kPriorityOptimized), Error::InvalidArgument);
}

}  // namespace
}  // namespace et::kernels::testing
