#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr ScalarType kDtypes[] = {ScalarType::Byte, ScalarType::Char,  ScalarType::Short, ScalarType::Int,
                                  ScalarType::Long, ScalarType::Float, ScalarType::Double};

TEST(Order, SortIsStableForEveryDtype) {
  // Bytes repeat, so that stability shows; both kernels are stable, hence equal.
  for (const ScalarType dtype : kDtypes) {
    for (const bool descending : {false, true}) {
      for (const int64_t dim : {0, 1}) {
        SCOPED_TRACE(to_string(dtype));
        Call("aten::sort.values")
            .bytes_of(dtype, {40, 7})
            .integer(dim)
            .flag(descending)
            .out({40, 7}, kRowMajor, dtype)
            .out({40, 7}, kRowMajor, ScalarType::Long)
            .expect_same(kPriorityOptimized);
      }
      Call("aten::sort.values")  // long enough for the radix sort
          .bytes_of(dtype, {3, 700})
          .integer(-1)
          .flag(descending)
          .out({3, 700}, kRowMajor, dtype)
          .out({3, 700}, kRowMajor, ScalarType::Long)
          .expect_same(kPriorityOptimized);
    }
  }
  Call("aten::sort.values")
      .indices({5000}, 9)
      .integer(0)
      .flag(true)
      .out({5000}, kRowMajor, ScalarType::Long)
      .out({5000}, kRowMajor, ScalarType::Long)
      .expect_same(kPriorityOptimized);
  Call("aten::sort.values")
      .tensor({2, 3, 4, 5}, kChannelsLast)
      .integer(1)
      .flag(false)
      .out({2, 3, 4, 5}, kChannelsLast)
      .out({2, 3, 4, 5}, kRowMajor, ScalarType::Long)
      .expect_same(kPriorityOptimized);
  Call("aten::sort.values")
      .tensor({0, 3})
      .integer(1)
      .flag(false)
      .out({0, 3})
      .out({0, 3}, kRowMajor, ScalarType::Long)
      .expect_same(kPriorityOptimized);
  Call("aten::sort.values")
      .tensor({})
      .integer(0)
      .flag(false)
      .out({})
      .out({}, kRowMajor, ScalarType::Long)
      .expect_same(kPriorityOptimized);
}

TEST(Order, Selection) {
  for (const int64_t k : {0, 1, 3, 50, 200}) {
    for (const bool largest : {false, true}) {
      Call("aten::topk.values")
          .tensor({5, 200})
          .integer(k)
          .integer(-1)
          .flag(largest)
          .flag(true)
          .out({5, k})
          .out({5, k}, kRowMajor, ScalarType::Long)
          .expect_same(kPriorityOptimized);
    }
  }
  Call("aten::topk.values")
      .tensor({200, 3})
      .integer(4)
      .integer(0)
      .flag(true)
      .flag(true)
      .out({4, 3})
      .out({4, 3}, kRowMajor, ScalarType::Long)
      .expect_same(kPriorityOptimized);
  for (const bool keepdim : {false, true}) {
    const std::vector<int64_t> sizes = keepdim ? std::vector<int64_t>{4, 1, 5} : std::vector<int64_t>{4, 5};
    Call("aten::kthvalue.values")
        .tensor({4, 33, 5})
        .integer(7)
        .integer(1)
        .flag(keepdim)
        .out(sizes)
        .out(sizes, kRowMajor, ScalarType::Long)
        .expect_same(kPriorityOptimized);
    for (const char* name : {"aten::median.dim_values", "aten::nanmedian.dim_values"}) {
      Call(name)
          .tensor({4, 33, 5})
          .set(0, NAN)  // in one lane some, in another all
          .set(165, NAN)
          .set(170, NAN)
          .integer(1)
          .flag(keepdim)
          .out(sizes)
          .out(sizes, kRowMajor, ScalarType::Long)
          .expect_same(kPriorityOptimized);
      Call(name)
          .constant_values(std::vector<float>(6, NAN), {2, 3})
          .integer(1)
          .flag(keepdim)
          .out(keepdim ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{2})
          .out(keepdim ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{2}, kRowMajor, ScalarType::Long)
          .expect_same(kPriorityOptimized);
    }
  }
  Call("aten::median.out").tensor({1001}).out({}).expect_same(kPriorityOptimized);
  Call("aten::median.out")
      .bytes_of(ScalarType::Float, {100001})
      .out({})
      .expect_same(kPriorityOptimized);  // NaN among them
  Call("aten::nanmedian.out").bytes_of(ScalarType::Float, {100001}).out({}).expect_same(kPriorityOptimized);
}

}  // namespace
}  // namespace et::kernels::testing
