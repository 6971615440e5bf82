// Running sums along every dimension.
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

TEST(Scan, RunningSumsMatchPortable) {
  const std::vector<int64_t> shapes[] = {{1},     {7},    {8},       {1000},    {5, 300},     {300, 5},
                                         {9, 17}, {0, 4}, {3, 0, 2}, {2, 3, 4}, {3, 40, 270}, {2, 33, 1, 7}};
  for (const auto& shape : shapes) {
    for (int64_t dim = -static_cast<int64_t>(shape.size()); dim < static_cast<int64_t>(shape.size()); ++dim) {
      Call("aten::cumsum.out").tensor(shape).integer(dim).none().out(shape).expect_same(kPriorityOptimized, 1e-7);
      Call("aten::cumsum.out")
          .numbers(ScalarType::Double, shape)
          .integer(dim)
          .none()
          .out(shape, kRowMajor, ScalarType::Double)
          .expect_same(kPriorityOptimized);
      Call("aten::cumsum.out")
          .bytes_of(ScalarType::Long, shape)
          .integer(dim)
          .none()
          .out(shape, kRowMajor, ScalarType::Long)
          .expect_same(kPriorityOptimized);
    }
  }
}

TEST(Scan, NothingLeavesInfinityAndNaN) {
  for (const int64_t dim : {0, 1}) {
    for (const float special : {NAN, HUGE_VALF, -HUGE_VALF}) {
      Call("aten::cumsum.out")
          .tensor({19, 21})
          .set(2, special)
          .set(9 * 21 + 5, -special)
          .integer(dim)
          .none()
          .out({19, 21})
          .expect_same(kPriorityOptimized, 1e-7);
    }
  }
}

}  // namespace
}  // namespace et::kernels::testing
