// Which nodes become one part, and that the program computes the same with them cut out.
#include "delegation/outline_delegates.h"

#include <gtest/gtest.h>

#include <random>

#include "delegation/query_support.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace et::delegation {
namespace {

std::shared_ptr<ir::Program> parsed(const std::string& text) {
  ir::ParseError error;
  Result<std::unique_ptr<ir::Program>> program = ir::parse(text, &error);
  if (!program.ok()) {
    ADD_FAILURE() << error.to_string();
    return std::make_shared<ir::Program>();
  }
  return std::shared_ptr<ir::Program>(std::move(*program));
}

/// The fx names of the nodes of each part: "a b | d".
std::string parts_of(const std::string& body) {
  const std::shared_ptr<ir::Program> program = parsed("method @m(%x: f32[2]) {\n" + body + "\n}");
  std::string out;
  for (const auto& part : delegate_parts(*program->methods.at(0))) {
    out += out.empty() ? "" : " |";
    for (const ir::Node* node : part) {
      out += " " + node->result()->name;
    }
  }
  return out;
}

TEST(DelegateParts, NeighboursAreOnePart) {
  EXPECT_EQ(parts_of(R"(
  %a = aten::neg(%x) : f32[2] tag("t")
  %b = aten::neg(%a) : f32[2] tag("t")
  %c = aten::neg(%b) : f32[2]
  return %c)"),
            " a b");
}

/// b -> c -> d, and c is outside: {b, d} would wait for itself. a runs beside it.
TEST(DelegateParts, AreConvex) {
  EXPECT_EQ(parts_of(R"(
  %a = aten::neg(%x) : f32[2] tag("t")
  %b = aten::neg(%a) : f32[2] tag("t")
  %c = aten::neg(%b) : f32[2]
  %d = aten::add.Tensor(%c, %a, 1) : f32[2] tag("t")
  return %d)"),
            " a b | d");
}

/// The product of integers is in the second part, its dequantize in the first: the second part gets one of its own.
TEST(OwnConversions, IntegersCrossTheBorder) {
  const std::shared_ptr<ir::Program> program = parsed(R"(method @m(%x: f32[2]) {
  %q = quantized_decomposed::quantize_per_tensor(%x, 0.5, 0, -128, 127, 1) : i8[2] tag("t")
  %d = quantized_decomposed::dequantize_per_tensor(%q, 0.5, 0, -128, 127, 1, none) : f32[2] tag("t")
  %a = aten::neg(%d) : f32[2] tag("t")
  %c = aten::neg(%a) : f32[2]
  %e = aten::add.Tensor(%c, %d, 1) : f32[2] tag("t")
  %f = aten::mul.Tensor(%e, %d) : f32[2] tag("t")
  return %f
})");
  ir::Graph& graph = *program->methods.at(0);
  auto parts = delegate_parts(graph);
  ASSERT_EQ(parts.size(), 2u);
  own_conversions(graph, parts);
  std::string text;
  for (const ir::Node* node : parts[1]) {
    text += node->op.substr(node->op.find("::") + 2) + " ";
  }
  EXPECT_EQ(text, "dequantize_per_tensor add.Tensor mul.Tensor ");
  EXPECT_EQ(parts[1][0]->args()[0].value(), parts[0][0]->result()) << "the copy reads the integers";
  EXPECT_EQ(parts[1][1]->args()[1].value(), parts[1][0]->result());
  EXPECT_EQ(parts[1][2]->args()[1].value(), parts[1][0]->result()) << "one copy a part";
  EXPECT_EQ(parts[0][1]->result()->users().size(), 1u) << "the first keeps its own user";
}

TEST(DelegateParts, IndependentNodesJoin) {
  EXPECT_EQ(parts_of(R"(
  %a = aten::neg(%x) : f32[2] tag("t")
  %u = aten::relu(%x) : f32[2]
  %b = aten::neg(%u) : f32[2] tag("t")
  %c = aten::add.Tensor(%a, %b, 1) : f32[2]
  return %c)"),
            " a b");
}

/// Each pair is convex, but {a, d} and {b, c} would wait for each other.
TEST(DelegateParts, AreAcyclicTogether) {
  EXPECT_EQ(parts_of(R"(
  %a = aten::neg(%x) : f32[2] tag("s")
  %b = aten::relu(%x) : f32[2] tag("t")
  %c = aten::neg(%a) : f32[2] tag("t")
  %d = aten::relu(%b) : f32[2] tag("s")
  %e = aten::add.Tensor(%c, %d, 1) : f32[2]
  return %e)"),
            " a | b c | d");
}

/// A node that joins the first part brings along what it waits for: {d} behind that part is behind {b} from then on.
TEST(DelegateParts, WhatIsBehindAPartWaitsForItsLaterMembers) {
  EXPECT_EQ(parts_of(R"(
  %a = aten::neg(%x) : f32[2] tag("s")
  %b = aten::relu(%x) : f32[2] tag("t")
  %c = aten::neg(%a) : f32[2]
  %d = aten::neg(%b) : f32[2] tag("s")
  %e = aten::relu(%c) : f32[2] tag("t")
  %f = aten::add.Tensor(%e, %d, 1) : f32[2]
  return %f)"),
            " a d | b | e");
}

/// Zamba2's scan over time, spelled out: thousands of parts in a row. With a walk over the graph for each pair of a
/// node and a part this takes a minute.
TEST(DelegateParts, AreManyInALongChain) {
  constexpr int kParts = 2000;
  std::string body;
  for (int i = 0; i < kParts; ++i) {
    const std::string before = i == 0 ? "%x" : "%u" + std::to_string(i - 1);
    body += "  %t" + std::to_string(i) + " = aten::neg(" + before + ") : f32[2] tag(\"t\")\n";
    body += "  %u" + std::to_string(i) + " = aten::relu(%t" + std::to_string(i) + ") : f32[2]\n";
  }
  const std::shared_ptr<ir::Program> program =
      parsed("method @m(%x: f32[2]) {\n" + body + "  return %u" + std::to_string(kParts - 1) + "\n}");
  EXPECT_EQ(delegate_parts(*program->methods.at(0)).size(), static_cast<size_t>(kParts));
}

TEST(DelegateParts, ARegionIsUsedByItsNode) {
  EXPECT_EQ(parts_of(R"(
  %a = aten::neg(%x) : f32[2] tag("t")
  %r = cond(true) : f32[2] {
    region @true() {
      return %a
    }
    region @false() {
      return %x
    }
  }
  %b = aten::neg(%r) : f32[2] tag("t")
  return %b)"),
            " a | b");
}

/// Compiles any part into its own text.
class TextCompiler final : public passes::BackendCompiler {
 public:
  /// Of the entry of the first part, the second, …
  explicit TextCompiler(std::vector<std::optional<ScalarType>> sparse_dtypes = {std::nullopt})
      : dtypes(std::move(sparse_dtypes)) {}
  std::string_view backend_id() const override { return "Text"; }
  Error preprocess(const passes::BackendPart& part, passes::BackendPayload& payload, ir::Diagnostics&) override {
    payload.bytes = ir::to_text(part.graph);
    payload.named_data.push_back({"weights", "shared", dtypes[std::min(num_calls++, dtypes.size() - 1)]});
    return Error::Ok;
  }

  std::vector<std::optional<ScalarType>> dtypes;
  size_t num_calls = 0;
};

struct Cut {
  std::shared_ptr<ir::Program> program;
  Error error = Error::Ok;
  ir::Diagnostics diagnostics;
};

Cut cut(const std::string& text, const std::string& tag = "t", TextCompiler compiler = TextCompiler()) {
  Cut out;
  out.program = parsed(text);
  passes::BackendCompilers compilers;
  EXPECT_EQ(compilers.add(compiler), Error::Ok);
  DelegationTable table;
  table[tag] = {"Text", {{"key", "value"}}};
  out.error = outline_delegates(*out.program, table, compilers, out.diagnostics);
  if (out.error == Error::Ok) {
    EXPECT_EQ(ir::verify(*out.program, &out.diagnostics), Error::Ok)
        << (out.diagnostics.empty() ? "" : out.diagnostics[0].message) << "\n"
        << ir::to_text(*out.program);
  }
  return out;
}

TEST(OutlineDelegates, PutsACallInThePlaceOfThePart) {
  const Cut result = cut(R"(
constant @w : f32[2] = [1.0, 2.0]
method @m(%x: f32[2]) {
  %w = constant @w : f32[2]
  %a = aten::add.Tensor(%x, %w, 1) : f32[2] handle(1) tag("t")
  %b = aten::relu(%a) : f32[2] handle(2) tag("t")
  %c = aten::neg(%b) : f32[2] handle(3)
  return %c, %a
})");
  ASSERT_EQ(result.error, Error::Ok);
  ASSERT_EQ(result.program->delegates.size(), 1u);
  EXPECT_NE(result.program->delegates[0].payload.find("constant @w"), std::string::npos) << "constants go along";
  EXPECT_EQ(result.program->delegates[0].compile_specs[0].value, "value");
  EXPECT_EQ(result.program->named_data.size(), 1u);
  const ir::Node* call = nullptr;
  for (const auto& node : result.program->methods[0]->nodes()) {
    EXPECT_TRUE(node->tag.empty());
    call = node->op == "delegate" ? node.get() : call;
  }
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->results().size(), 2u) << "%b is used by %c, %a is returned";
  EXPECT_EQ(call->all_handles(), (std::vector<uint32_t>{1, 2}));
}

/// An entry may be sparse when every part that uses it says so.
TEST(OutlineDelegates, PartsAgreeOnTheFormOfSharedData) {
  const std::string text = R"(
method @m(%x: f32[2]) {
  %a = aten::neg(%x) : f32[2] tag("t")
  %b = aten::relu(%a) : f32[2]
  %c = aten::neg(%b) : f32[2] tag("t")
  return %c
})";
  const auto shared = [&text](std::optional<ScalarType> first, std::optional<ScalarType> second) {
    const Cut result = cut(text, "t", TextCompiler({first, second}));
    EXPECT_EQ(result.program->delegates.size(), 2u);
    EXPECT_EQ(result.program->named_data.size(), 1u);
    return result.program->named_data[0].sparse_dtype;
  };
  EXPECT_EQ(shared(ScalarType::Char, ScalarType::Char), ScalarType::Char);
  EXPECT_EQ(shared(ScalarType::Char, std::nullopt), std::nullopt);
  EXPECT_EQ(shared(std::nullopt, ScalarType::Char), std::nullopt);
  EXPECT_EQ(shared(ScalarType::Float, ScalarType::Char), std::nullopt);
}

TEST(OutlineDelegates, SaysWhatIsMissing) {
  const std::string text = "method @m(%x: f32[2]) {\n  %a = aten::neg(%x) : f32[2] tag(\"t\")\n  return %a\n}";
  EXPECT_EQ(cut(text, "other").error, Error::NotFound);
  const auto program = parsed(text);
  ir::Diagnostics diagnostics;
  DelegationTable table;
  table["t"] = {"Nobody", {}};
  EXPECT_EQ(outline_delegates(*program, table, {}, diagnostics), Error::NotFound);
  EXPECT_EQ(diagnostics.at(0).op, "aten::neg");
}

/// Any tags on any graph leave a valid program in which every delegate can run at one moment.
TEST(OutlineDelegates, RandomTagsLeaveValidPrograms) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::string text = "method @m(%v0: f32[2]) {\n";
    const uint32_t count = 5 + random() % 20;
    for (uint32_t i = 1; i <= count; ++i) {
      const auto value = [&] { return "%v" + std::to_string(random() % i); };
      const std::string tag = random() % 3 == 0 ? "" : random() % 2 == 0 ? " tag(\"t\")" : " tag(\"s\")";
      text +=
          "  %v" + std::to_string(i) + " = aten::add.Tensor(" + value() + ", " + value() + ", 1) : f32[2]" + tag + "\n";
    }
    text += "  return %v" + std::to_string(count) + "\n}";
    const std::shared_ptr<ir::Program> program = parsed(text);
    static TextCompiler compiler;
    passes::BackendCompilers compilers;
    ASSERT_EQ(compilers.add(compiler), Error::Ok);
    DelegationTable table;
    table["t"] = table["s"] = {"Text", {}};
    ir::Diagnostics diagnostics;
    ASSERT_EQ(outline_delegates(*program, table, compilers, diagnostics), Error::Ok);
    ASSERT_EQ(ir::verify(*program, &diagnostics), Error::Ok) << text << ir::to_text(*program);
  }
}

/// Takes parts whose inputs are computed or are the method's, and in which nothing is exp.
class PartJudge final : public passes::BackendCompiler {
 public:
  std::string_view backend_id() const override { return "Judge"; }
  Error preprocess(const passes::BackendPart&, passes::BackendPayload&, ir::Diagnostics&) override { return Error::Ok; }
  bool judges_parts() const override { return true; }
  std::vector<passes::PartRefusal> part_refusals(const passes::BackendPart& part) override {
    std::vector<passes::PartRefusal> out;
    for (const auto& node : part.graph.nodes()) {
      const ir::Value* from = node->args()[0].value();
      if (node->op == "aten::exp") {
        out.push_back({node->debug_handle, "no exp"});
      } else if (node->op == "aten::abs" && from->producer() == nullptr) {
        out.push_back({node->debug_handle, "abs at the start of a part"});
      }
    }
    out.push_back({9999, "a node that nobody has"});
    return out;
  }
};

/// A part is asked for again without what was refused: abs is at the start only when exp is gone.
TEST(QuerySupport, PartsAreAskedForUntilNothingIsRefused) {
  const std::shared_ptr<ir::Program> program = parsed(R"(method @m(%x: f32[2]) {
  %a = aten::neg(%x) : f32[2]
  %b = aten::exp(%a) : f32[2]
  %c = aten::abs(%b) : f32[2]
  %d = aten::neg(%c) : f32[2]
  return %d
})");
  uint32_t handle = 0;
  for (const auto& node : program->methods.front()->nodes()) {
    node->debug_handle = ++handle;
  }
  PartJudge judge;
  std::string text;
  for (const NodeSupport& node : query_support(*program, judge, {}, {})) {
    text += std::to_string(node.debug_handle) + ":" + node.refusal + ";";
  }
  EXPECT_EQ(text, "1:;2:no exp;3:abs at the start of a part;4:;");
}

}  // namespace
}  // namespace et::delegation
