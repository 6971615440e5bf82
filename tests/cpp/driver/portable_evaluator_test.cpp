#include "driver/portable_evaluator.h"

#include "runner.h"

namespace et::driver {
namespace {

/// Evaluates the first operator of a method; its constants must have data.
std::vector<ir::Constant> evaluate(const std::string& text, Error expected = Error::Ok) {
  const std::shared_ptr<ir::Program> program = parsed(text);
  std::vector<ir::Constant> results;
  PortableEvaluator evaluator(kernels());
  for (const auto& node : program->methods.at(0)->nodes()) {
    if (node->op.find("::") != std::string::npos) {
      EXPECT_EQ(evaluator.evaluate(*node, program->constants, &results), expected);
      break;
    }
  }
  return results;
}

template <typename T>
std::vector<T> elements(const ir::Constant& constant) {
  const T* data = static_cast<const T*>(constant.data);
  return std::vector<T>(data, data + constant.type.numel());
}

TEST(PortableEvaluator, TensorsListsAndDefaults) {
  const auto sum = evaluate(R"(
constant @a : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
method @m() {
  %a = constant @a : f32[2, 2]
  %s = aten::sum.dim_IntList(%a, [1], false, none) : f32[2]
  return %s
})");
  ASSERT_EQ(sum.size(), 1u);
  EXPECT_EQ(elements<float>(sum[0]), (std::vector<float>{3, 7}));
  const auto range = evaluate(
      "method @m() {\n  %r = aten::arange.start_step(0, 3, 1, none, none, none, none) : i64[3]\n  return %r\n}");
  ASSERT_EQ(range.size(), 1u);
  EXPECT_EQ(elements<int64_t>(range[0]), (std::vector<int64_t>{0, 1, 2}));
  const auto joined = evaluate(R"(
constant @a : i64[2] = [1, 2]
method @m() {
  %a = constant @a : i64[2]
  %c = aten::cat([%a, %a], 0) : i64[4]
  return %c
})");
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(elements<int64_t>(joined[0]), (std::vector<int64_t>{1, 2, 1, 2}));
}

TEST(PortableEvaluator, NumbersInATensorsPlace) {
  const auto quotients = evaluate(R"(
constant @a : f32[2] = [1.0, 3.0]
method @m() {
  %a = constant @a : f32[2]
  %q = aten::div.Tensor(%a, 2.0) : f32[2]
  return %q
})");
  ASSERT_EQ(quotients.size(), 1u);
  EXPECT_EQ(elements<float>(quotients[0]), (std::vector<float>{0.5f, 1.5f}));
  const auto sums = evaluate(R"(
constant @a : i8[2] = [1, 127]
method @m() {
  %a = constant @a : i8[2]
  %s = aten::add.Tensor(%a, 1, 1) : i8[2]
  return %s
})");
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(elements<int8_t>(sums[0]), (std::vector<int8_t>{2, -128}));
}

TEST(PortableEvaluator, SeveralResults) {
  const auto split = evaluate(R"(
constant @a : i64[4] = [1, 2, 3, 4]
method @m() {
  %a = constant @a : i64[4]
  %x, %y = aten::split_copy.Tensor(%a, 2, 0) : i64[2], i64[2]
  return %x, %y
})");
  ASSERT_EQ(split.size(), 2u);
  EXPECT_EQ(elements<int64_t>(split[1]), (std::vector<int64_t>{3, 4}));
}

TEST(PortableEvaluator, LeavesAloneWhatItCannotCompute) {
  evaluate("method @m() {\n  %r = aten::rand([2], none, none, none, none) : f32[2]\n  return %r\n}",
           Error::NotSupported);
  evaluate("method @m() {\n  %r = my::op(1) : f32[2]\n  return %r\n}", Error::NotSupported);
  evaluate(R"(
method @m(%x: f32[2]) {
  %r = aten::neg(%x) : f32[2]
  return %r
})",
           Error::NotSupported);
}

}  // namespace
}  // namespace et::driver
