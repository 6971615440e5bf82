#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr double kNorms[] = {0.0, 1.0, 2.0, HUGE_VAL};

TEST(Distance, BetweenTwoSets) {
  struct Shapes {
    std::vector<int64_t> left, right, out;
  };
  const Shapes shapes[] = {{{5, 3}, {7, 3}, {5, 7}},
                           {{70, 64}, {131, 64}, {70, 131}},
                           {{2, 1, 9, 5}, {3, 33, 5}, {2, 3, 9, 33}},
                           {{4, 0}, {3, 0}, {4, 3}},
                           {{0, 2}, {3, 2}, {0, 3}}};
  for (const Shapes& s : shapes) {
    for (const double p : kNorms) {
      for (const ScalarType dtype : {ScalarType::Float, ScalarType::Double}) {
        SCOPED_TRACE(p);
        Call("aten::_cdist_forward.out")
            .numbers(dtype, s.left)
            .numbers(dtype, s.right)
            .number(p)
            .none()
            .out(s.out, kRowMajor, dtype)
            .expect_same(kPriorityOptimized, 1e-6);
      }
    }
  }
  for (const double p : kNorms) {  // NaN and infinities, and points that are equal in part
    Call("aten::_cdist_forward.out")
        .tensor({6, 4})
        .set(0, NAN)
        .set(5, HUGE_VALF)
        .set(8, 0)
        .tensor({9, 4})
        .set(0, 0)
        .set(6, -HUGE_VALF)
        .number(p)
        .none()
        .out({6, 9})
        .expect_same(kPriorityOptimized, 1e-6);
  }
}

TEST(Distance, WithinOneSet) {
  for (const int64_t rows : {0, 1, 2, 17, 200}) {
    for (const double p : kNorms) {
      Call("aten::_pdist_forward.out")
          .tensor({rows, 7})
          .number(p)
          .out({rows < 2 ? 0 : rows * (rows - 1) / 2})
          .expect_same(kPriorityOptimized, 1e-6);
    }
  }
}

TEST(Distance, OtherNormsArePortable) {
  EXPECT_FALSE(Call("aten::_cdist_forward.out")
                   .tensor({5, 3})
                   .tensor({7, 3})
                   .number(3.0)
                   .none()
                   .out({5, 7})
                   .fits(kPriorityOptimized));
}

}  // namespace
}  // namespace et::kernels::testing
