// Of kernels that offer a cost the cheapest runs, behind a user's and before those of lower priorities.
#include "method_fixture.h"
#include "runtime/host/kernel_costs.h"
#include "runtime/kernel_offer.h"

namespace et::test {
namespace {

int g_kernels_prepared = 0;

/// A kernel that writes `number` and offers it as its cost, and then says that it cannot be prepared unless `packs`.
template <int number, bool packs = true>
constexpr Kernel offering(uint8_t priority) {
  return {"test::add.out",
          "TTo",
          [](KernelContext&, Span<EValue* const> args, void*) {
            *args[2]->to_tensor().mutable_data_ptr<float>() = number;
            return Error::Ok;
          },
          [](PrepareContext&, Span<EValue* const>, void** state) {
            ET_RETURN_IF_ERROR(offer(state, number));
            ++g_kernels_prepared;
            return packs ? Error::Ok : Error::NotSupported;
          },
          nullptr,
          priority};
}

class OfferTest : public MethodTest {
 protected:
  float chosen() {
    g_kernels_prepared = 0;
    ProgramBuilder b;
    const int x = b.input(b.tensor({1}));
    const int y = b.output(b.tensor({1}));
    b.kernel("test::add", "out", {x, x, y, y});
    auto m = method(b);
    TestTensor input({1}, {1});
    EXPECT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    EXPECT_EQ(m->method().execute(), Error::Ok);
    return floats(m->method().get_output(0))[0];
  }
};

TEST_F(OfferTest, TheCheapestKernelIsPreparedAndNoOther) {
  static const Kernel kTable[] = {offering<30>(kPriorityLibrary), offering<20>(kPriorityLibrary + 50),
                                  offering<40>(kPriorityLibrary + 1)};
  ASSERT_EQ(kernels_.add(kTable), Error::Ok);
  EXPECT_EQ(chosen(), 20);
  EXPECT_EQ(g_kernels_prepared, 1);
}

TEST_F(OfferTest, WhatCannotBePreparedLeavesTheNext) {
  static const Kernel kTable[] = {offering<30>(kPriorityLibrary), offering<20, false>(kPriorityLibrary + 50)};
  ASSERT_EQ(kernels_.add(kTable), Error::Ok);
  EXPECT_EQ(chosen(), 30);
}

TEST_F(OfferTest, AUsersKernelIsBeforeAnyCost) {
  static const Kernel kTable[] = {offering<30>(kPriorityLibrary), offering<20>(kPriorityLibrary + 50)};
  static const Kernel kUser[] = {offering<90>(kPriorityUser)};
  ASSERT_EQ(kernels_.add(kTable), Error::Ok);
  ASSERT_EQ(kernels_.add(kUser), Error::Ok);
  EXPECT_EQ(chosen(), 90);
}

TEST_F(OfferTest, OneAloneIsTakenAtAnyCost) {
  static const Kernel kTable[] = {offering<30>(kPriorityOptimized)};
  ASSERT_EQ(kernels_.add(kTable), Error::Ok);
  EXPECT_EQ(chosen(), 30);
}

TEST(KernelRegistryTest, TablesWithoutALibraryHaveAnEmptyName) {
  const Kernel kernel = offering<1>(kPriorityPortable);
  KernelRegistry registry;
  EXPECT_EQ(registry.add(KernelTable{Span<const Kernel>(&kernel, 1)}), Error::Ok);
  EXPECT_STREQ(registry.tables()[0].library, "");
  EXPECT_STREQ(registry.tables()[0].variant(&kernel), "");
}

TEST(ColumnOf, IntegersHaveThatOfTheirProductsAndFloatsThatOfTheVendor) {
  using ops::TargetIsa;
  const ops::Work floats{ops::WorkKind::linear, ops::WorkNumbers::floating, 1};
  const ops::Work integers{ops::WorkKind::linear, ops::WorkNumbers::int8, 1};
  for (const bool is_intel : {false, true}) {
    EXPECT_EQ(column_of(integers, TargetIsa::kAvx512, {false, is_intel}), TargetIsa::kAvx2);
    EXPECT_EQ(column_of(integers, TargetIsa::kAvx512, {true, is_intel}), TargetIsa::kAvx512);
    EXPECT_EQ(column_of(integers, TargetIsa::kSse41, {false, is_intel}), TargetIsa::kSse41);
  }
  EXPECT_EQ(column_of(floats, TargetIsa::kAvx512, {false, false}), TargetIsa::kAvx512);
  EXPECT_EQ(column_of(floats, TargetIsa::kAvx512, {true, true}), TargetIsa::kAmx);
  EXPECT_EQ(column_of(floats, TargetIsa::kAvx2, {true, true}), TargetIsa::kAvx2);
}

}  // namespace
}  // namespace et::test
