// The interpreter against outputs worked out by hand; tests/tosa compares it with Arm's reference model.
#include <gtest/gtest.h>

#include "call.h"

namespace et::test {
namespace {

namespace pl = backends::tosa::payload;

TEST(Interpreter, GivesWhatTheDefinitionSays) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    std::vector<int8_t> output;
    ASSERT_EQ(call(example.payload, example, output), Error::Ok);
    EXPECT_EQ(output, example.output);
  }
}

TEST(Interpreter, NeedsItsArena) {
  std::vector<int8_t> output;
  Example example = examples()[0];
  backends::tosa::Graph graph;
  LimitedAllocator allocator(1 << 20), nothing(0);
  ASSERT_EQ(graph.load({example.payload.data(), example.payload.size()}, allocator), Error::Ok);
  EXPECT_EQ(graph.arena_nbytes(), 16u) << "the sums of the convolution; its input and output are the caller's";
  Argument in(ScalarType::Char, example.input_sizes, example.input);
  Argument out(ScalarType::Char, example.output_sizes, example.output);
  runtime::EValue* const args[] = {&in.value, &out.value};
  runtime::KernelContext context(&nothing, nullptr, nullptr, nullptr, nullptr);
  EXPECT_EQ(graph.run(context, args), Error::MemoryAllocationFailed);
}

TEST(Interpreter, RefusesOtherArguments) {
  std::vector<int8_t> output;
  Example example = examples()[2];
  example.input_sizes = {2, 2};
  EXPECT_EQ(call(example.payload, example, output), Error::InvalidArgument);
}

TEST(Interpreter, ChecksIndicesThatComeWithTheCall) {
  PayloadBuilder b;
  b.input("x", {1, 2}, pl::DType_INT8);
  b.add(pl::Op_CAST, {"x"}, "index", {1, 2}, pl::DType_INT32, pl::CreateCastAttribute(b.tables()).Union());
  b.constant<int8_t>("values", {1, 2, 1}, pl::DType_INT8, {5, 6});
  b.add(pl::Op_GATHER, {"values", "index"}, "y", {1, 2, 1}, pl::DType_INT8,
        pl::CreateGatherAttribute(b.tables()).Union());
  Example example{"gather", b.finish({"y"}), {1, 2}, {1, 2, 1}, {1, 0}, {6, 5}};
  std::vector<int8_t> output;
  ASSERT_EQ(call(example.payload, example, output), Error::Ok);
  EXPECT_EQ(output, example.output);
  for (const int8_t index : {2, 127, -1}) {
    example.input[0] = index;
    EXPECT_EQ(call(example.payload, example, output), Error::InvalidArgument);
  }
}

TEST(Interpreter, ReadsVersion1_0Only) {
  for (const bool draft : {false, true}) {
    PayloadBuilder b;
    b.input("x", {4}, pl::DType_INT8);
    const Example example{"version", b.finish({"x"}, draft ? 0 : 1, draft), {4}, {4}, {1, 2, 3, 4}, {1, 2, 3, 4}};
    std::vector<int8_t> output;
    EXPECT_EQ(call(example.payload, example, output), Error::DelegateInvalidCompatibility);
  }
}

TEST(Interpreter, CopiesAnInputThatIsAnOutput) {
  PayloadBuilder b;
  b.input("x", {4}, pl::DType_INT8);
  const Example example{"copy", b.finish({"x"}), {4}, {4}, {1, 2, 3, 4}, {1, 2, 3, 4}};
  std::vector<int8_t> output;
  ASSERT_EQ(call(example.payload, example, output), Error::Ok);
  EXPECT_EQ(output, example.output);
}

/// x, turned around, under other shapes, and turned around once more unless `ends`.
Example renamed(bool ends) {
  PayloadBuilder b;
  const auto reverse = [&](const char* from, const char* to) {
    b.add(pl::Op_REVERSE, {from}, to, {4}, pl::DType_INT8, pl::CreateReverseAttribute(b.tables(), 0).Union());
  };
  const auto reshape = [&](const char* from, const char* shape, const char* to, const PayloadBuilder::Shape& sizes) {
    b.add(pl::Op_RESHAPE, {from, shape}, to, sizes, pl::DType_INT8, pl::CreateReshapeAttribute(b.tables()).Union());
  };
  b.input("x", {4}, pl::DType_INT8);
  b.shape("square", {2, 2});
  b.shape("row", {4});
  reverse("x", "a");
  reshape("a", "square", "b", {2, 2});
  reshape("b", "row", "c", {4});
  if (!ends) {
    reverse("c", "y");
  }
  const std::vector<int8_t> wanted = ends ? std::vector<int8_t>{4, 3, 2, 1} : std::vector<int8_t>{1, 2, 3, 4};
  return {"renamed", b.finish({ends ? "c" : "y"}), {4}, {4}, {1, 2, 3, 4}, wanted};
}

TEST(Interpreter, OtherShapesOfAValueAreNoCopies) {
  for (const bool ends : {false, true}) {
    const Example example = renamed(ends);
    std::vector<int8_t> output;
    ASSERT_EQ(call(example.payload, example, output), Error::Ok);
    EXPECT_EQ(output, example.output);
    backends::tosa::Graph graph;
    LimitedAllocator allocator(1 << 20);
    ASSERT_EQ(graph.load({example.payload.data(), example.payload.size()}, allocator), Error::Ok);
    EXPECT_EQ(graph.arena_nbytes(), ends ? 0u : 4u) << "one place for three names, or that of the output";
  }
}

}  // namespace
}  // namespace et::test
