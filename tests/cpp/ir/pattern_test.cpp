// Pattern: what its notation means, on small graphs; what is wrong in a text.
#include "ir/pattern.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/parser.h"

namespace et::ir {
namespace {

/// A method of tensors %x, %y: f32[2, 4] and %v: f32[2], whose last node but one or the named one is the root.
class Matched {
 public:
  explicit Matched(const std::string& body, const std::string& before = "") {
    ParseError error;
    auto parsed = parse(before + "method @m(%x: f32[2, 4], %y: f32[2, 4], %v: f32[2]) {\n" + body + "\n}", &error);
    EXPECT_TRUE(parsed.ok()) << error.to_string();
    program_ = std::move(*parsed);
  }

  /// Of the node that made `value`.
  std::optional<Match> by(const Pattern& pattern, std::string_view value,
                          const Pattern::Condition& where = nullptr) const {
    EXPECT_EQ(pattern.error(), "");
    return pattern.match(*node(value), *program_, where);
  }

  Node* node(std::string_view value) const {
    for (const auto& node : program_->methods[0]->nodes()) {
      for (const auto& result : node->results()) {
        if (result->name == value) {
          return node.get();
        }
      }
    }
    return nullptr;
  }

 private:
  std::unique_ptr<Program> program_;
};

std::string name_of(const Match& match, std::string_view capture) {
  const Value* value = match.value(capture);
  return value == nullptr ? "" : value->name;
}

TEST(Pattern, CapturesAndNodes) {
  const Matched graph(R"(
    %s = aten::sigmoid(%x) : f32[2, 4]
    %r = aten::mul.Tensor(%s, %x) : f32[2, 4]
    return %r)");
  const auto match = graph.by("silu = mul(x, sigmoid(x))", "r");
  ASSERT_TRUE(match);
  EXPECT_EQ(name_of(*match, "x"), "x");
  EXPECT_EQ(name_of(*match, "silu"), "r");
  EXPECT_EQ(match->nodes, (std::vector<Node*>{graph.node("r"), graph.node("s")}));
  EXPECT_EQ(match->root(), graph.node("r"));
  EXPECT_FALSE(graph.by("silu = mul(x, sigmoid(x))", "s"));
}

TEST(Pattern, ACaptureIsTheSameEverywhere) {
  const Matched graph(R"(
    %s = aten::sigmoid(%y) : f32[2, 4]
    %r = aten::mul.Tensor(%x, %s) : f32[2, 4]
    return %r)");
  EXPECT_FALSE(graph.by("r = mul(x, sigmoid(x))", "r"));
  EXPECT_TRUE(graph.by("r = mul(x, sigmoid(y))", "r"));
  EXPECT_TRUE(graph.by("r = mul(_, sigmoid(_))", "r"));
}

TEST(Pattern, OnlyCommutativeOperandsChangePlaces) {
  const Matched graph(R"(
    %e = aten::exp(%x) : f32[2, 4]
    %a = aten::add.Tensor(%e, %y, 1) : f32[2, 4]
    %e2 = aten::exp(%x) : f32[2, 4]
    %d = aten::div.Tensor(%e2, %y) : f32[2, 4]
    %e3 = aten::exp(%x) : f32[2, 4]
    %s = aten::rsub.Scalar(%e3, 1, 1) : f32[2, 4]
    return %a, %d, %s)");
  EXPECT_TRUE(graph.by("r = add(y, exp(x))", "a"));
  EXPECT_TRUE(graph.by("r = add(exp(x), y)", "a"));
  EXPECT_FALSE(graph.by("r = div(y, exp(x))", "d"));
  EXPECT_TRUE(graph.by("r = sub(1, exp(x))", "s"));
  EXPECT_FALSE(graph.by("r = sub(exp(x), 1)", "s"));
  EXPECT_TRUE(graph.by("r = rsub(exp(x), 1)", "s"));
}

TEST(Pattern, WhatIsNotWrittenHasItsDefault) {
  const Matched graph(R"(
    %a = aten::add.Tensor(%x, %y, 2) : f32[2, 4]
    %m = aten::mean.dim(%x, [1], true, none) : f32[2, 1]
    %n = aten::mean.dim(%x, [-1], false, none) : f32[2]
    return %a, %m, %n)");
  EXPECT_FALSE(graph.by("r = add(x, y)", "a"));
  EXPECT_TRUE(graph.by("r = add(x, y, alpha=2)", "a"));
  EXPECT_TRUE(graph.by("r = add(x, y, ...)", "a"));
  EXPECT_FALSE(graph.by("r = mean(x, -1)", "m"));
  EXPECT_TRUE(graph.by("r = mean(x, -1, keepdim=1)", "m"));
  EXPECT_TRUE(graph.by("r = mean(x, -1)", "n"));
}

TEST(Pattern, DimsCountFromBothEnds) {
  const Matched graph(R"(
    %p = aten::permute_copy(%x, [1, -2]) : f32[4, 2]
    %s = aten::sum.dim_IntList(%x, [-1], true, none) : f32[2, 1]
    %r = aten::div.Tensor(%x, %s) : f32[2, 4]
    return %p, %r)");
  EXPECT_TRUE(graph.by("r = permute(x, [1, 0])", "p"));
  EXPECT_TRUE(graph.by("r = permute(x, [-1, 0])", "p"));
  EXPECT_FALSE(graph.by("r = permute(x, [0, 1])", "p"));
  EXPECT_FALSE(graph.by("r = permute(x, [1])", "p"));
  EXPECT_TRUE(graph.by("r = sum(x, 1, keepdim=1)", "s"));
  const auto match = graph.by("r = div(x, sum(x, dim, keepdim=1))", "r");
  ASSERT_TRUE(match);
  EXPECT_EQ((*match)["dim"], Argument{int64_t{1}});
}

TEST(Pattern, NumbersMayBeConstants) {
  const Matched graph(R"(
    %c = constant @half : f32[]
    %t = constant @row : f32[2]
    %a = aten::mul.Tensor(%x, %c) : f32[2, 4]
    %b = aten::mul.Tensor(%v, %t) : f32[2]
    %p = aten::pow.Tensor_Scalar(%x, 2) : f32[2, 4]
    %k = aten::clamp(%x, -0.5, none) : f32[2, 4]
    return %a, %b, %p, %k)",
                      "constant @half : f32[] = [0.5]\nconstant @row : f32[2] = splat(0.5)\n");
  EXPECT_TRUE(graph.by("r = mul(0.5, x)", "a"));
  EXPECT_FALSE(graph.by("r = mul(0.25, x)", "a"));
  EXPECT_FALSE(graph.by("r = mul(0.5, x)", "b"));
  EXPECT_TRUE(graph.by("r = mul(x, &constant())", "b"));
  EXPECT_TRUE(graph.by("r = pow(x, 2)", "p"));
  EXPECT_TRUE(graph.by("r = clamp(x, -0.5, none)", "k"));
  EXPECT_FALSE(graph.by("r = clamp(x, -0.5, inf)", "k"));
}

TEST(Pattern, OptionalAndRepeatedNodes) {
  const Matched graph(R"(
    %a = aten::view_copy(%x, [4, 2]) : f32[4, 2]
    %b = aten::view_copy(%a, [8]) : f32[8]
    %r = aten::relu(%b) : f32[8]
    %q = aten::relu(%x) : f32[2, 4]
    return %r, %q)");
  EXPECT_EQ(name_of(graph.by("r = relu(view*(x, _))", "r").value(), "x"), "x");
  EXPECT_EQ(name_of(graph.by("r = relu(view?(x, _))", "r").value(), "x"), "a");
  EXPECT_EQ(name_of(graph.by("r = relu(view?(x, _))", "q").value(), "x"), "x");
  EXPECT_EQ(graph.by("r = relu(view*(x, _))", "r")->nodes.size(), 3u);
  EXPECT_TRUE(graph.by("r = relu?(view(x, sizes))", "b"));
  EXPECT_TRUE((*graph.by("r = relu(view?(x, sizes))", "q"))["sizes"].is_none());
}

TEST(Pattern, ASecondPlaceMayComputeTheSame) {
  const std::string pattern = "r = mul(d, exp(d))\nd = sub(x, y)";
  const Matched graph(R"(
    %d = aten::sub.Tensor(%x, %y, 1) : f32[2, 4]
    %d2 = aten::sub.Tensor(%x, %y, 1) : f32[2, 4]
    %e = aten::exp(%d2) : f32[2, 4]
    %r = aten::mul.Tensor(%d, %e) : f32[2, 4]
    %d3 = aten::sub.Tensor(%y, %x, 1) : f32[2, 4]
    %e2 = aten::exp(%d3) : f32[2, 4]
    %s = aten::mul.Tensor(%d3, %e2) : f32[2, 4]
    %f = aten::sub.Tensor(%y, %x, 1) : f32[2, 4]
    %g = aten::sub.Tensor(%x, %y, 1) : f32[2, 4]
    %e3 = aten::exp(%g) : f32[2, 4]
    %t = aten::mul.Tensor(%f, %e3) : f32[2, 4]
    return %r, %s, %t)");
  EXPECT_EQ(graph.by(pattern.c_str(), "r")->nodes.size(), 4u);
  EXPECT_EQ(graph.by(pattern.c_str(), "s")->nodes.size(), 3u);
  EXPECT_FALSE(graph.by(pattern.c_str(), "t"));
}

TEST(Pattern, ResultsOfANode) {
  const Matched graph(R"(
    %i, %f = aten::split_copy.Tensor(%x, 2, -1) : f32[2, 2], f32[2, 2]
    %s = aten::sigmoid(%f) : f32[2, 2]
    %r = aten::mul.Tensor(%s, %i) : f32[2, 2]
    return %r)");
  EXPECT_TRUE(graph.by("r = mul(split(x, 2, 1)#0, sigmoid(split(x, 2, 1)#1))", "r"));
  EXPECT_FALSE(graph.by("r = mul(split(x, 2, 1)#1, sigmoid(split(x, 2, 1)#0))", "r"));
  EXPECT_FALSE(graph.by("r = mul(split(x, 2, 0)#0, sigmoid(split(x, 2, 0)#1))", "r"));
  const auto match = graph.by("r = mul(_, sigmoid(part))\npart = &split(x, 2, 1)#_", "r");
  EXPECT_EQ(match.value().value("part")->result_index(), 1u);
}

TEST(Pattern, NobodyElseReadsWhatIsInside) {
  const Matched graph(R"(
    %e = aten::exp(%x) : f32[2, 4]
    %r = aten::relu(%e) : f32[2, 4]
    %e2 = aten::exp(%y) : f32[2, 4]
    %s = aten::relu(%e2) : f32[2, 4]
    %t = aten::neg(%e2) : f32[2, 4]
    return %r, %e, %s, %t)");
  EXPECT_FALSE(graph.by("r = relu(exp(x))", "r"));
  EXPECT_FALSE(graph.by("r = relu(exp(x))", "s"));
  const auto match = graph.by("r = relu(&exp(x))", "s");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->nodes, std::vector<Node*>{graph.node("s")});
  EXPECT_EQ(match->kept, std::vector<Node*>{graph.node("e2")});
}

TEST(Pattern, NodesOfOneGraph) {
  const Matched graph(R"(
    %p = aten::any(%x) : bool[]
    %e = aten::exp(%x) : f32[2, 4]
    %c = cond(%p, []) : f32[2, 4] {
      region @true() {
        %r = aten::relu(%e) : f32[2, 4]
        return %r
      }
      region @false() {
        %q = aten::neg(%x) : f32[2, 4]
        return %q
      }
    }
    return %c)");
  Node* inside = graph.node("c")->regions[0]->nodes().front().get();
  const Program empty;
  EXPECT_FALSE(Pattern("r = relu(exp(x))").match(*inside, empty));
  EXPECT_FALSE(Pattern("r = relu(&exp(x))").match(*inside, empty));
  EXPECT_TRUE(Pattern("r = relu(x)").match(*inside, empty));
}

TEST(Pattern, AConditionTriesTheNextMatch) {
  const Matched graph(R"(
    %a = aten::add.Tensor(%x, %y, 1) : f32[2, 4]
    return %a)");
  EXPECT_EQ(name_of(graph.by("r = add(a, b)", "a").value(), "a"), "x");
  const auto match = graph.by("r = add(a, b)", "a", [](const Match& m) { return m.value("a")->name == "y"; });
  EXPECT_EQ(name_of(match.value(), "b"), "x");
  EXPECT_FALSE(graph.by("r = add(a, b)", "a", [](const Match&) { return false; }));
}

TEST(Pattern, AlternativesAreTriedInOrder) {
  const Matched graph(R"(
    %t = aten::tanh(%x) : f32[2, 4]
    %r = aten::relu(%t) : f32[2, 4]
    return %r)");
  EXPECT_EQ(name_of(graph.by("r = relu(z)\nz = exp(x) | tanh(x)", "r").value(), "x"), "x");
  EXPECT_EQ(name_of(graph.by("r = relu(x) | relu(tanh(x))", "r").value(), "x"), "t");
  EXPECT_FALSE(graph.by("r = relu(exp(x) | sin(x))", "r"));
}

TEST(Pattern, RulesStandForManySteps) {
  const Matched graph(R"(
    %e = aten::exp(%x) : f32[2, 4]
    %a = aten::mul.Tensor(%e, 2.0) : f32[2, 4]
    %b = aten::view_copy(%a, [4, 2]) : f32[4, 2]
    %c = aten::mul.Tensor(%b, 3.0) : f32[4, 2]
    %r = aten::relu(%c) : f32[4, 2]
    return %r)");
  const auto match = graph.by("r = relu(STEPS)\nSTEPS = view(STEPS, _) | mul(STEPS, _) | exp(x)", "r");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->nodes.size(), 5u);
  EXPECT_EQ(name_of(*match, "x"), "x");
  EXPECT_FALSE(graph.by("r = relu(STEPS)\nSTEPS = view(STEPS, _) | exp(x)", "r"));
}

/// Sums of themselves, each of which can be read in two ways, on the smallest stack that a thread of a caller may have.
void* search_sums(void*) {
  std::string body = "%a0 = aten::sin(%x) : f32[2, 4]\n";
  constexpr int kDeep = 20000;
  for (int i = 1; i <= kDeep; ++i) {
    const std::string before = "%a" + std::to_string(i - 1);
    body += "%a" + std::to_string(i) + " = aten::add.Tensor(" + before + ", " + before + ", 1) : f32[2, 4]\n";
  }
  const Matched graph(body + "return %a" + std::to_string(kDeep));
  EXPECT_FALSE(graph.by("r = add(STEPS, _)\nSTEPS = add(STEPS, _) | exp(x)", "a" + std::to_string(kDeep)));
  EXPECT_TRUE(graph.by("r = add(STEPS, _)\nSTEPS = add(STEPS, _) | sin(x)", "a100"));
  return nullptr;
}

TEST(Pattern, ASearchEnds) {
  size_t stack = 512 << 10;
#if defined(__SANITIZE_ADDRESS__)
  stack *= 16;  // frames are larger
#endif
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack), 0);
  ASSERT_EQ(pthread_create(&thread, &attributes, &search_sums, nullptr), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(Pattern, ErrorsOfTheText) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "1:1: a pattern has a definition"},
      {"relu(x)", "1:5: expected '=' behind its name"},
      {"r = exq(x)", "no operator is called exq"},
      {"r = relu(x", "expected ',' between arguments"},
      {"r = relu(x, y)", "aten::relu has no such arguments"},
      {"r = mean(x, 1, keep=1)", "has no such arguments"},
      {"r = ?x", "expected an operator"},
      {"r = x?", "&, ? and * belong to a node"},
      {"r = &x", "&, ? and * belong to a node"},
      {"r = aten::relu", "a name has no '.' and no ':'"},
      {"r = relu(x)\nr = exp(x)", "a second definition of r"},
      {"r = constant(x)", "a constant has no arguments"},
      {"r = permute(x, [1", "expected ']' behind a list"},
      {"r = split(x, 2)#a", "a result's number"},
      {"r = relu(STEPS)", "no definition of STEPS"},
      {"r = relu(STEPS)\nSTEPS = exp(x) | STEPS", "STEPS begins with itself"},
      {"r = a\na = view?(r, _)", "r begins with itself"},
  };
  for (const auto& [text, message] : cases) {
    const Pattern pattern(text);
    EXPECT_NE(pattern.error().find(message), std::string::npos) << text << ": " << pattern.error();
  }
}

/// The raw strings of a file that declares patterns, and what stands in quotes behind "ir::Pattern k".
std::vector<std::string> texts_of(const std::filesystem::path& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  const std::string source = content.str();
  std::vector<std::string> found;
  const auto add = [&](std::string_view before, std::string_view from, std::string_view to) {
    for (size_t at = source.find(before); at != std::string::npos; at = source.find(before, at + 1)) {
      const size_t start = source.find(from, at) + from.size();
      if (from != "\"" || source[start] != '(') {
        found.push_back(source.substr(start, source.find(to, start) - start));
      }
    }
  };
  if (source.find("ir::Pattern ") != std::string::npos) {
    add("R\"(", "R\"(", ")\"");
    add("ir::Pattern k", "\"", "\"");
  }
  return found;
}

TEST(Pattern, TextsOfAllSourcesAreRight) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::filesystem::path(ET_TEST_DIR) / "../../../src/cpp/passes")) {
    for (const std::string& text : texts_of(entry.path())) {
      EXPECT_EQ(Pattern(text.c_str()).error(), "") << entry.path() << ": " << text;
      ++count;
    }
  }
  EXPECT_GE(count, 16u);
}

}  // namespace
}  // namespace et::ir
